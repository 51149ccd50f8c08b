"""The positions that imported games reached below a position or in a book, and the moves played there."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass

import chess
import numpy as np

from ..base.errors import CorruptRecordError
from ..position.board import decode_move, key_text, key_text_of_words, pack, unpack
from ..store.file import sql_errors
from ..store.store import Store
from ..store.tables.games import ASKED_AT_ONCE
from ..store.tables.rows import query
from .steps import Words, code_of, legal_codes, positions_after

LEVEL = 20_000  # positions that are followed together: 13 MB of moves

OnProgress = Callable[[int], None]  # positions found


@dataclass(frozen=True, slots=True)
class Way:
    """The line of a walk to a position.

    Attributes:
      before, code: the way to the parent, and the move from there; None and 0 at a root.
      start: `[10]`, the packed root; None for other positions.
    """

    before: Way | None
    code: int
    start: Words | None

    def line(self) -> tuple[chess.Board, list[chess.Move]]:
        """Returns the root of the walk, and the moves from there."""
        moves: list[chess.Move] = []
        here = self
        while here.before is not None:
            moves.append(decode_move(here.code))
            here = here.before
        assert here.start is not None
        return unpack(here.start), moves[::-1]


@dataclass(frozen=True, slots=True)
class Reached:
    """A position that games passed.

    Attributes:
      words: `[10]`, packed. key: as text. games: number of games that continued from it.
      played: number of games by move in UCI. way: the way to it.
    """

    words: Words
    key: str
    games: int
    played: dict[str, int]
    way: Way


_Met = tuple[Words, str, Way]  # packed, key


def reached_below(
    store: Store,
    roots: Sequence[chess.Board],
    least: int,
    *,
    within: Container[str] | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[Reached]:
    """Yields the positions below the roots that enough games passed, breadth first, each once.

    The walk also follows rarely played moves: games of different move orders may meet again after them.

    Args:
      least: fewest games that continue from a yielded position.
      within: keys of the positions to stay within; None: all.

    Raises:
      CorruptRecordError: at a move of a game that is not legal in its position.
    """
    fresh: list[_Met] = [(words := pack(b), key_text(b), Way(None, 0, words)) for b in roots]
    met = {key for _, key, _ in fresh}
    often = "SELECT 1 FROM game_move GROUP BY key HAVING sum(white + draws + black + unknown) >= ?"
    with sql_errors(store.path, "read it"):  # the walk ends after the last position with so many games
        left = int(store.connection.execute(f"SELECT count(*) FROM ({often})", (least,)).fetchone()[0])  # noqa: S608
    while fresh and left:
        part, fresh = fresh[:LEVEL], fresh[LEVEL:]
        counts = played_at(store, [key for _, key, _ in part])
        found = [
            Reached(words, key, sum(played.values()), played, way)
            for words, key, way in part
            if (played := counts.get(key))
        ]
        enough = [reached for reached in found if reached.games >= least]
        left -= len(enough)
        yield from enough
        for child in _behind(store, found):
            if child[1] not in met and (within is None or child[1] in within):
                met.add(child[1])
                fresh.append(child)
        if on_progress:
            on_progress(len(met))


def _behind(store: Store, found: Sequence[Reached]) -> Iterator[_Met]:
    if not found:
        return
    of = np.array([i for i, reached in enumerate(found) for _ in reached.played], np.int64)
    codes = np.array([code_of(move) for reached in found for move in reached.played], np.uint16)
    words = np.array([reached.words for reached in found], np.uint64)
    counts, legal, _ = legal_codes(words)
    there = (legal[of] == codes[:, None]) & (np.arange(legal.shape[1]) < counts[of][:, None])
    wrong = np.flatnonzero(~there.any(axis=1))
    if len(wrong):
        where = found[int(of[wrong[0]])]
        raise CorruptRecordError(
            f"{store.path}: the table game_move has a move that is not legal in its position"
            f" ({where.key} {decode_move(int(codes[wrong[0]])).uci()})"
        )
    children, _ = positions_after(words, of, codes)
    for i, child, code in zip(of.tolist(), children, codes.tolist(), strict=True):
        yield child, key_text_of_words(child), Way(found[i].way, code, None)


def played_at(store: Store, keys: Sequence[str]) -> dict[str, dict[str, int]]:
    """Returns the number of games by key and move in UCI; moves played only in variations are omitted."""
    found: dict[str, dict[str, int]] = {}
    names = ("game_move.key", "game_move.move", "game_move.white")
    for first in range(0, len(keys), ASKED_AT_ONCE):
        some = sorted(keys[first : first + ASKED_AT_ONCE])
        statement = (
            "SELECT key, move, white + draws + black + unknown AS games FROM game_move"  # noqa: S608
            f" WHERE games > 0 AND key IN ({', '.join('?' * len(some))})"
        )
        with sql_errors(store.path, "read it"):
            for key, move, games in query(store.connection, statement, some, *names):
                found.setdefault(key, {})[move] = games
    return found
