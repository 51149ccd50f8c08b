"""Positions for tests, always the same, what python-chess says of them, and mates by trying everything."""

from __future__ import annotations

import itertools
import random
from functools import cache

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.position.board import POSITION_WORDS, board_of, chess960_start, legal_moves, pack
from graphsearch.position.board import after as position_after
from graphsearch.position.board_kernel import MAX_LEGAL_MOVES, list_all, make_steps
from graphsearch.position.tables import load_tables

KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
POSITIONS = {
    "start": chess.STARTING_FEN,
    "kiwipete": KIWIPETE,
    "pawn ending": "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "cycles": "8/8/4k3/8/8/4K3/8/R6r w - - 0 1",
    "clock runs out": "8/8/4k3/8/8/4K3/4P3/R6r w - - 93 80",
    "few men": "8/8/8/8/3k4/8/3P4/3K4 b - - 0 1",
    "few nodes": "8/8/8/8/8/1k5p/7P/K7 w - - 97 90",
    "promotion": "8/P6k/8/8/8/8/p6K/8 w - - 0 1",
    "mate near": "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1",
    "mates below": "6k1/5ppp/8/8/8/8/r4PPP/3R2K1 b - - 0 1",
    "mates ahead": "6k1/5p1p/6p1/8/8/8/r4PPP/3R2K1 b - - 0 1",
}


def listed(
    words: NDArray[np.uint64], room: NDArray[np.uint16] | None = None
) -> tuple[NDArray[np.uint16], int]:
    moves = np.zeros(MAX_LEGAL_MOVES, np.uint16) if room is None else room
    offsets, kinds = np.zeros(2, np.int64), np.zeros(1, np.uint8)
    list_all(load_tables(), words, offsets, moves, kinds)
    return moves[: offsets[1]], int(kinds[0])


def after(words: NDArray[np.uint64], move: int) -> NDArray[np.uint64]:
    child = np.zeros(POSITION_WORDS, np.uint64)
    moves = np.array([move], np.uint16)
    make_steps(load_tables(), words, np.zeros(1, np.int64), moves, child, np.zeros(1, np.uint64))
    return child


@cache
def random_words(count: int = 2000) -> list[NDArray[np.uint64]]:
    """Returns packed, unfinished positions of random games, every fourth one of Chess960, of all phases."""
    rng, out = random.Random(7), list[NDArray[np.uint64]]()
    for game in itertools.count():
        if len(out) == count:
            break
        words = np.array(pack(chess960_start(518 if game % 4 else 7 * game % 960)), np.uint64)
        for _ in range(300):
            moves, _ = listed(words)
            if not len(moves) or len(out) == count:
                break
            if rng.random() < 0.15:
                out.append(words)
            words = after(words, int(moves[rng.randrange(len(moves))]))
    return out


def random_games(seed: int, count: int, plies: int) -> list[chess.Board]:
    """Returns positions of random games of fewer than so many plies, with their moves, not over."""
    chance, found = random.Random(seed), list[chess.Board]()
    while len(found) < count:
        board = chess.Board()
        for _ in range(chance.randrange(plies)):
            if not any(board.legal_moves):
                break
            board.push(chance.choice(list(board.legal_moves)))
        if any(board.legal_moves):
            found.append(board)
    return found


def after_line(line: str, fen: str = chess.STARTING_FEN) -> chess.Board:
    """Returns the position after moves as people write them, with the game."""
    board = board_of(fen)
    for san in line.split():
        board.push_san(san)
    return board


def after_each_move(board: chess.Board) -> list[chess.Board]:
    """Returns the positions after each legal move, in canonical order, without their games."""
    return [position_after(board, move) for move in legal_moves(board)]


def played(fen: str, moves: list[str]) -> chess.Board:
    """Returns the position after moves in UCI, with the game."""
    board = chess.Board(fen)
    for move in moves:
        board.push_uci(move)
    return board


def mate_in_one(board: chess.Board) -> int | None:
    """Returns the place of the first legal move that mates."""
    for place, move in enumerate(legal_moves(board)):
        board.push(move)
        mated = board.is_checkmate()
        board.pop()
        if mated:
            return place
    return None


# ------------------------------------------------------------------ mates
def placed(generator: random.Random, name: str) -> chess.Board:
    """Returns a random legal position with the pieces of a tablebase, such as KRvKN, and moves to make."""
    while True:
        board = chess.Board(None)
        squares = generator.sample(range(64), len(name) - 1)
        white, black = name.split("v")
        for square, symbol in zip(squares, white + black.lower(), strict=True):
            board.set_piece_at(square, chess.Piece.from_symbol(symbol))
        board.turn = generator.random() < 0.5
        if board.is_valid() and any(board.legal_moves):
            return board


def mates_within(board: chess.Board, plies: int, *, attacks: bool = True) -> int | None:
    """Returns the plies of the shortest mate within `plies` by trying everything, None if there is none.

    For short mates: it takes as long as there are positions. Repetitions and the clock play no part in it.
    """
    if not attacks and board.is_checkmate():
        return 0
    for limit in range(1 if attacks else 2, plies + 1, 2):
        if _forces(board, limit, attacks=attacks):
            return limit
    return None


def _forces(board: chess.Board, plies: int, *, attacks: bool) -> bool:
    """Returns whether the attacker mates within `plies`; `attacks`: it is to move."""
    if not attacks and plies == 0:
        return board.is_checkmate()
    moves = list(board.legal_moves)
    if not moves:
        return not attacks and board.is_check()
    for move in moves:
        if attacks and plies == 1 and not board.gives_check(move):
            continue
        board.push(move)
        forced = _forces(board, plies - 1, attacks=not attacks)
        board.pop()
        if forced == attacks:
            return attacks
    return not attacks
