"""Deals what networks learn: games from all kinds of beginnings, played and labelled in threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch.evaluators.nnue.evaluation_kernel import scratch_words
from graphsearch.evaluators.nnue.layout import WIDTH
from graphsearch.position.board import POSITION_WORDS, pack
from graphsearch.position.tables import load_tables
from tools.training.games_kernel import (
    MOST_MEMBERS,
    OVER,
    Games,
    GroupArrays,
    LessonArrays,
    Starts,
    write_groups,
    write_lessons,
)

ALONG_OPENINGS, NO_ENDGAMES = 0.6, 0.8  # shares of the games, cumulative; between them: from the first move
# of random endgames: kind, maximum number per side, probability of having any
ENDGAME_MEN = (
    (chess.PAWN, 7, 0.9),
    (chess.KNIGHT, 2, 0.35),
    (chess.BISHOP, 2, 0.35),
    (chess.ROOK, 2, 0.35),
    (chess.QUEEN, 1, 0.35),
)
ENDGAME_PLIES = (60, 120)  # range of the ply assigned to an endgame
OPEN_SHARE = 0.85  # of the games: those from positions of a file, if there is one
SHARP = 2.0  # power of the priors that are targets: it has the least cross-entropy against Stockfish's moves
WAITING = 32  # deals that wait to be learned
SEEDS = 10_000_000  # range of seeds of one --seed

Line = list[chess.Move]


# ------------------------------------------------------------------ beginnings
def random_endgame(rng: np.random.Generator) -> chess.Board:
    """Returns a random legal position with few pieces."""
    while True:
        board = chess.Board(None)
        squares = [int(square) for square in rng.permutation(64)]
        for colour in (True, False):
            board.set_piece_at(squares.pop(), chess.Piece(chess.KING, colour))
            for kind, most, likely in ENDGAME_MEN:
                count = int(rng.integers(0, most + 1)) if rng.random() < likely else 0
                for square in (squares.pop() for _ in range(count)):
                    if kind != chess.PAWN or 0 < square // 8 < 7:
                        board.set_piece_at(square, chess.Piece(kind, colour))
        board.turn = bool(rng.integers(2))
        if board.is_valid() and any(board.legal_moves):
            return board


def beginnings(rng: np.random.Generator, openings: Sequence[Line]) -> Iterator[tuple[chess.Board, int]]:
    """Yields starts of games and their plies, without an end; games begin with more random moves."""
    while True:
        board, kind = chess.Board(), rng.random()
        if kind > NO_ENDGAMES:
            yield random_endgame(rng), int(rng.integers(*ENDGAME_PLIES))
            continue
        if kind < ALONG_OPENINGS and openings:
            line = openings[int(rng.integers(len(openings)))]
            for move in line[: int(rng.integers(len(line) + 1))]:
                board.push(move)
        yield board, board.ply()


def starts(count: int, seed: int, openings: Sequence[Line]) -> Starts:
    """Returns where games begin."""
    some = list(islice(beginnings(np.random.default_rng(seed), openings), count))
    words = np.array([pack(board) for board, _ in some], np.uint64)
    return Starts(words, np.array([ply for _, ply in some], np.int64))


def with_starts(path: Path, some: Starts) -> Starts:
    """Returns the positions of a file, a FEN a line, after `some`, repeated to be 1 - OPEN_SHARE."""
    boards = [chess.Board(line.strip()) for line in path.read_text().splitlines() if line.strip()]
    times = max(1, round(len(boards) * (1 - OPEN_SHARE) / OPEN_SHARE / len(some.ply)))
    words = np.array([pack(board) for board in boards], np.uint64)
    ply = np.concatenate([np.tile(some.ply, times), [board.ply() for board in boards]])
    return Starts(np.concatenate([np.tile(some.words, (times, 1)), words]), ply)


# ------------------------------------------------------------------ deals
class Dealer:
    """Parallel games, with the network that labels them.

    Attributes:
      games: as they stand. leaves: uint64[G, MOST_MEMBERS, PW], the members of the last groups.
    """

    def __init__(self, weights: Any, starts: Starts, games: int, lessons: float) -> None:
        self._tables, self._weights, self._starts, self._share = load_tables(), weights, starts, lessons
        words = np.zeros((games, POSITION_WORDS), np.uint64)
        self.games = Games(words, np.full(games, OVER, np.int64), np.zeros(games))
        self.leaves = np.zeros((games, MOST_MEMBERS, POSITION_WORDS), np.uint64)
        self._scratch = np.zeros(scratch_words(int(weights[WIDTH])), np.uint64)

    def deal(self, seed: int) -> tuple[GroupArrays, LessonArrays]:
        """Returns a group of each game, and lessons of some."""
        games = len(self.games.ply)
        groups, lessons = GroupArrays.new(games), LessonArrays.new(games)
        both = self._tables, self._weights
        write_groups(*both, self._starts, self.games, seed, self._scratch, self.leaves, groups)
        count = write_lessons(*both, self.games, self._share, seed, self._scratch, lessons)
        found = LessonArrays(*(array[:count] for array in lessons))
        return groups._replace(hints=groups.hints.astype(np.float16)), found


def sharpened(lessons: LessonArrays) -> LessonArrays:
    """Returns lessons whose targets are a power of the priors, in float16."""
    powers = lessons.targets**SHARP
    return lessons._replace(targets=(powers / powers.sum(1, keepdims=True)).astype(np.float16))


def joined(parts: Sequence[Any]) -> Any:
    """Returns the concatenation of arrays of the same form."""
    return type(parts[0])(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class Dealers:
    """Threads that deal, each with games of its own, until they are stopped."""

    def __init__(self, dealers: Sequence[Dealer], seed: int) -> None:
        self._deals: queue.Queue[Any] = queue.Queue(WAITING)
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(dealer, seed * SEEDS + at, len(dealers)), daemon=True)
            for at, dealer in enumerate(dealers)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, dealer: Dealer, seed: int, stride: int) -> None:
        try:
            while not self._stopped.is_set():
                self._deals.put(dealer.deal(seed))
                seed += stride
        except BaseException as error:  # the main thread raises it
            self._deals.put(error)
            raise

    def take(self, wait: bool) -> Iterator[tuple[GroupArrays, LessonArrays]]:
        """Yields what was dealt since the last time; `wait`: at least one deal."""
        while True:
            try:
                found = self._deals.get(wait)
            except queue.Empty:
                return
            if isinstance(found, BaseException):
                raise found
            yield found
            wait = False

    def stop(self) -> None:
        """Stops the threads."""
        self._stopped.set()
        for thread in self._threads:
            while thread.is_alive():
                list(self.take(False))
                thread.join(0.1)
