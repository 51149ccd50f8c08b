"""The positions that are searched: graphs to fill batches from, and positions to compare searches on."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import chess
import numpy as np

from ...errors import InvalidPositionError
from ...evaluators.assess import assess
from ...evaluators.builtin.evaluator import BuiltinEvaluator
from ...limits import POSITIONS, gunzipped, read_file
from ...position.board import check, key_of
from ...position.notation import board_from_fen
from .expected import losses

FILLING_ROOTS = (  # start position, two middlegames, an open Sicilian, a rook endgame
    chess.STARTING_FEN,
    "r1bq1rk1/pp2bppp/2n2n2/2pp4/3P4/2NBPN2/PP3PPP/R1BQ1RK1 w - - 0 9",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r1bqkb1r/1p3ppp/p1nppn2/6B1/3NP3/2N5/PPPQ1PPP/R3KB1R w KQkq - 0 8",
    "8/5pk1/R5p1/7p/1r5P/5PP1/6K1/8 w - - 0 40",
)
SEED = 5
FIRST_PLY, LAST_PLY = 8, 64  # of the games that positions are taken from
SHARPNESS = 2.0  # moves are played with P ** SHARPNESS: varied games, few blunders

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Case:
    """A position (FEN), and where somebody knows them its best moves and what each move gives away (UCI)."""

    fen: str
    best: tuple[str, ...] = ()
    losses: Mapping[str, float] = field(default_factory=dict)


def spread(items: Sequence[_T], count: int) -> list[_T]:
    """Returns `count` items evenly spaced, or all if there are fewer.

    >>> spread(range(10), 3)
    [0, 3, 6]
    """
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]


# ------------------------------------------------------------------ files
def read_reference(path: Path) -> list[Case]:
    """Returns the positions of a file of JSON lines with `fen` and `bestmove` (UCI), gzip'ed or not.

    `moves`, scores of all moves as `{UCI: {"cp": N} or {"mate": N}}`, may say what each gives away.

    Raises:
      InvalidPositionError: if a line is something else, or there is none.
      OSError: if the file cannot be read.
    """
    cases = []
    for number, line in _lines(path):
        try:
            row = json.loads(line)
            board = board_from_fen(row["fen"])
            best = board.parse_uci(row["bestmove"]).uci()
            cases.append(Case(board.fen(), (best,), losses(board, row.get("moves", {}))))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidPositionError(
                f"{path}, line {number}: no JSON object with a fen and its bestmove: {error}"
            ) from None
    return _some(cases, path)


def read_epd(path: Path) -> list[Case]:
    """Returns the problems of an EPD file with their best moves (`bm`).

    Raises:
      InvalidPositionError: if a line has no legal best move, or there is none.
      OSError: if the file cannot be read.
    """
    cases = []
    for number, line in _lines(path):
        board = chess.Board()
        try:
            found = board.set_epd(line).get("bm")
            check(board)
        except ValueError as error:
            raise InvalidPositionError(f"{path}, line {number}: {error}") from None
        moves = [move for move in found if isinstance(move, chess.Move)] if isinstance(found, list) else []
        if not moves:
            raise InvalidPositionError(f"{path}, line {number}: expected an EPD line with a best move (bm)")
        cases.append(Case(board.fen(), tuple(move.uci() for move in moves)))
    return _some(cases, path)


def _lines(path: Path) -> list[tuple[int, str]]:
    """Returns the lines of a text file with their numbers, without empty ones."""
    data = read_file(path, POSITIONS)
    try:
        text = (gunzipped(data, POSITIONS, str(path)) if data[:2] == b"\x1f\x8b" else data).decode()
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise InvalidPositionError(f"{path}: no text: {error}") from None
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _some(cases: list[Case], path: Path) -> list[Case]:
    if not cases:
        raise InvalidPositionError(f"{path}: it has no positions")
    return cases


# ------------------------------------------------------------------ games
def played(count: int) -> list[Case]:
    """Returns distinct positions of games that the built-in evaluator's priors play, always the same ones."""
    rng = np.random.default_rng(SEED)
    found: dict[int, Case] = {}
    while len(found) < count:
        plies = np.linspace(FIRST_PLY, LAST_PLY, count - len(found)).astype(int).tolist()
        for board in _play(plies, rng):
            found.setdefault(key_of(board), Case(board.fen()))
    return list(found.values())


def _play(plies: list[int], rng: np.random.Generator) -> list[chess.Board]:
    """Returns the last positions of games of so many plies; of finished games the last with a choice."""
    boards = [chess.Board() for _ in plies]
    evaluator = BuiltinEvaluator()
    for ply in range(max(plies)):
        going = [board for board, last in zip(boards, plies, strict=True) if ply < last]
        going = [board for board in going if not board.is_game_over(claim_draw=True)]
        for board, said in zip(going, assess(evaluator, going), strict=True):
            board.push_uci(_drawn(said.priors, rng))
    for board in boards:
        while board.is_game_over(claim_draw=True) or board.legal_moves.count() < 2:
            board.pop()
    return boards


def _drawn(priors: dict[str, float], rng: np.random.Generator) -> str:
    weights = np.array(list(priors.values())) ** SHARPNESS
    return list(priors)[int(rng.choice(len(weights), p=weights / weights.sum()))]
