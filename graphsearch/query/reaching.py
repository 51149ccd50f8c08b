"""Finds the stored games that reach a position, by any order of moves. Reads only.

`game_index` has 16 bits of the key of every position. They select the games that may reach it (of games of
40 moves, one in 1,600 wrongly), and those games are replayed.
"""

from __future__ import annotations

from collections.abc import Sequence

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.deadline import check_time
from ..position.board import CASTLING_FIELDS, key_of_words, key_text, key_text_of_words, pack
from ..position.words import META
from ..store.store import Store
from ..store.tables import game_list
from .replay import start_of
from .steps import legal_codes, positions_after

PART_SHIFT = 48  # of a key: its upper 16 bits
GAMES_AT_ONCE = 20_000
_MIX = np.uint64(0x9E3779B97F4A7C15)  # separates positions with one key and different castling fields

Moves = tuple[int, int, str | None, bytes]  # of a game: source, number, first position, moves by number
Ply = dict[tuple[int, int], int]  # source and number of a game -> half-moves before the position


def key_parts(keys: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Returns the bits of keys that `game_index` stores, little-endian."""
    return (keys >> np.uint64(PART_SHIFT)).astype("<u2")


def reaching(store: Store, board: chess.Board) -> Ply:
    """Returns the games that reach a position, each with the first ply at which it does."""
    words = pack(board)
    wanted = key_parts(np.array([key_of_words(words)], np.uint64))[0]
    last = _last_plies(store, wanted)
    last |= dict.fromkeys(game_list.without_index(store), 1 << 16)
    found: Ply = {}
    games = sorted(last)
    for first in range(0, len(games), GAMES_AT_ONCE):
        some = game_list.moves_of(store, games[first : first + GAMES_AT_ONCE])
        plies = _first_plies(some, [last[row[0], row[1]] for row in some], key_text(board))
        found |= {(some[game][0], some[game][1]): ply for game, ply in plies.items()}
    return found


def _last_plies(store: Store, wanted: np.uint16) -> Ply:
    """Returns the last ply at which each game may have the position; games that cannot are left out."""
    found: Ply = {}
    games: list[tuple[int, int]] = []
    parts: list[bytes] = []
    for source, number, keys in game_list.index_keys(store):
        games.append((source, number))
        parts.append(keys[: len(keys) & ~1])
        if len(games) == GAMES_AT_ONCE:
            found |= _met(games, parts, wanted)
            games, parts = [], []
    return found | _met(games, parts, wanted)


def _met(games: Sequence[tuple[int, int]], parts: Sequence[bytes], wanted: np.uint16) -> Ply:
    """Returns the last ply with the wanted bits, for each game that has one."""
    check_time()
    at = np.flatnonzero(np.frombuffer(b"".join(parts), "<u2") == wanted)
    ends = np.cumsum(np.array([len(part) // 2 for part in parts], np.int64))
    of = np.searchsorted(ends, at, side="right")
    begins = ends - np.array([len(part) // 2 for part in parts], np.int64)
    return {games[game]: int(place - begins[game]) for game, place in zip(of.tolist(), at, strict=True)}


def _first_plies(games: Sequence[Moves], last: Sequence[int], key: str) -> dict[int, int]:
    """Returns the first ply at which a game has the position of a key, by the game's index in `games`.

    Args:
      last: for each game, the ply after which it is not followed.
    """
    found: dict[int, int] = {}
    lengths = np.minimum([len(moves) for *_, moves in games], last)
    words, at = _starts([fen for *_, fen, _ in games])
    on = np.flatnonzero(at >= 0)
    at = at[on]
    for ply in range(1 << 16):
        check_time()
        here = np.array([key_text_of_words(row) == key for row in words], np.bool_)
        met = here[at] if len(at) else np.zeros(0, np.bool_)
        found |= dict.fromkeys(on[met].tolist(), ply)
        goes_on = ~met & (lengths[on] > ply)
        on, at = on[goes_on], at[goes_on]
        if not len(on):
            return found
        words, at, legal = _next(words, at, np.array([games[game][3][ply] for game in on.tolist()]))
        on = on[legal]
    return found


def _starts(fens: Sequence[str | None]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Returns the different first positions, and the index of each game's one, -1 for an invalid FEN."""
    places: dict[str | None, int] = {}
    rows = []
    for fen in dict.fromkeys(fens):
        try:
            rows.append(pack(start_of(fen)))
            places[fen] = len(rows) - 1
        except ValueError:
            places[fen] = -1
    return np.array(rows, np.uint64).reshape(-1, 10), np.array([places[fen] for fen in fens], np.int64)


def _next(
    words: NDArray[np.uint64], at: NDArray[np.int64], numbers: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the positions after one more move, each once, and the games that continue.

    Args:
      at: index of each game's position. numbers: its move there, in canonical order.

    Returns:
      The positions, the index of each continuing game's one, and a mask of the games with a legal move.
    """
    counts, moves, _ = legal_codes(words)
    legal = numbers < counts[at]
    pairs, which = np.unique(at[legal] << 8 | numbers[legal], return_inverse=True)
    of, codes = pairs >> 8, moves[pairs >> 8, pairs & 255]
    after, keys = positions_after(words, of, codes)
    whole = keys ^ ((after[:, META] & np.uint64(CASTLING_FIELDS)) * _MIX)
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    return after[first], place[which], legal
