"""Positions for the benchmarks: from files with an engine's evaluations, from games, or generated."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import chess
import chess.engine
import chess.pgn
import numpy as np

from graphsearch.evaluators.assess import assess
from graphsearch.evaluators.builtin.evaluator import BuiltinEvaluator
from graphsearch.evaluators.protocol import PositionBatch
from graphsearch.evaluators.uci.scores import Score, policy_q
from graphsearch.position.board import key_of

MIDDLEGAMES = (
    "r1bq1rk1/pp2bppp/2n2n2/2pp4/3P4/2NBPN2/PP3PPP/R1BQ1RK1 w - - 0 9",
    "r2q1rk1/pp1bbppp/2np1n2/4p3/4P3/1NN1B3/PPP1BPPP/R2Q1RK1 w - - 4 10",
    "rnbq1rk1/ppp1ppbp/3p1np1/8/2PPP3/2N2N2/PP2BPPP/R1BQK2R b KQ - 1 6",
    "r1bq1rk1/2p1bppp/p1np1n2/1p2p3/4P3/1BP2N2/PP1P1PPP/RNBQR1K1 w - - 0 9",
    "rn1qkb1r/pp3ppp/2p1pn2/3p1b2/2PP4/2N1PN2/PP3PPP/R1BQKB1R w KQkq - 1 6",
    "r1bqk2r/pp1p1ppp/2n1pn2/2b5/3NP3/2N5/PPP1BPPP/R1BQK2R w KQkq - 3 7",
)
ROOTS = (  # of graphs that are grown: start position, middlegames, an open Sicilian, a rook endgame
    chess.STARTING_FEN,
    MIDDLEGAMES[0],
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r1bqkb1r/1p3ppp/p1nppn2/6B1/3NP3/2N5/PPPQ1PPP/R3KB1R w KQkq - 0 8",
    "8/5pk1/R5p1/7p/1r5P/5PP1/6K1/8 w - - 0 40",
)
FIRST_PLY, LAST_PLY = 8, 64  # of the positions that are selected from games
SHARPNESS = 2.0  # moves are played with P ** SHARPNESS: varied games, few blunders
RANDOM_PLIES = 80  # of a random game
DECIDED = 0.9  # |win - loss| from which a position counts as decided
MOST_CENTIPAWNS = 2000  # of a judged move; a game beyond that is won

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """A position, with the moves that led to it, and an engine's evaluation if there is one.

    Attributes:
      best: best moves (UCI). worth: Q of the position after each move, seen by the side to move.
      q: of the position. centipawns: of each move, seen by the side to move.
    """

    board: chess.Board
    best: tuple[str, ...] = ()
    worth: Mapping[str, float] = field(default_factory=dict)
    q: float | None = None
    centipawns: Mapping[str, int] = field(default_factory=dict)

    def regret(self, move: str) -> float | None:
        """Returns the Q that a move gives away; None without an engine's evaluation."""
        return max(0.0, max(self.worth.values()) - self.worth[move]) if self.worth else None

    def lost(self, move: str) -> int | None:
        """Returns the centipawns that a move gives away; None without an engine's evaluation."""
        return max(self.centipawns.values()) - self.centipawns[move] if self.centipawns else None


def spread(items: Sequence[T], count: int) -> list[T]:
    """Returns `count` items evenly spaced, or all if there are fewer.

    >>> spread(range(10), 3)
    [0, 3, 6]
    """
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]


# ------------------------------------------------------------------ files
def lines(path: Path) -> list[str]:
    """Returns the nonempty lines of a text file, gzip'ed or not."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    return [line for line in text.splitlines() if line.strip()]


def read_reference(path: Path, half: str = "", kind: str = "") -> list[Case]:
    """Returns the positions of JSON lines with `fen` and `bestmove`.

    `moves_depth10`, `{UCI: {"cp": N} or {"mate": N}}`, gives the value of each move (Q by lichess's formula),
    `wdl` (per mille, side to move) the value of the position.

    Args:
      half: `tune` or `report`: one half of the positions; positions with the same `game` stay together.
      kind: `open` or `decided`, by `wdl`.
    """
    rows = [json.loads(line) for line in lines(path)]
    return [
        _case(row) for row in rows if half in ("", half_of(row)) and kind in ("", _kind_of(row.get("wdl")))
    ]


def half_of(row: Mapping[str, Any]) -> str:
    """Returns the half of a position; it is the same for all positions of its game.

    >>> [half_of({"fen": chess.STARTING_FEN, "game": n}) for n in (100, 1001, 1002)]
    ['report', 'tune', 'tune']
    """
    return ("report", "tune")[zlib.crc32(str(row.get("game", row["fen"])).encode()) & 1]


def _kind_of(wdl: Sequence[int] | None) -> str:
    if wdl is None:
        return "unjudged"
    return "decided" if abs(wdl[0] - wdl[2]) >= 1000 * DECIDED else "open"


def _case(row: dict[str, Any]) -> Case:
    scores, wdl = row.get("moves_depth10", {}), row.get("wdl")
    worth = {move: policy_q(Score(score.get("cp", 0), score.get("mate"))) for move, score in scores.items()}
    return Case(
        chess.Board(row["fen"]),
        (row["bestmove"],),
        worth,
        (wdl[0] - wdl[2]) / 1000 if wdl else None,
        {move: centipawns_of(score) for move, score in scores.items()},
    )


def centipawns_of(score: Mapping[str, int]) -> int:
    """Returns the centipawns of a score, limited to `MOST_CENTIPAWNS` either way; a mate counts as the limit.

    >>> centipawns_of({"cp": -35}), centipawns_of({"cp": 5000}), centipawns_of({"mate": -2})
    (-35, 2000, -2000)
    """
    cp = MOST_CENTIPAWNS * (1 if score["mate"] > 0 else -1) if "mate" in score else score["cp"]
    return max(-MOST_CENTIPAWNS, min(MOST_CENTIPAWNS, cp))


def read_epd(path: Path) -> list[Case]:
    """Returns the problems of an EPD file with their best moves (`bm`)."""
    cases = []
    for line in lines(path):
        board = chess.Board()
        found = board.set_epd(line)["bm"]
        assert isinstance(found, list)
        cases.append(Case(board, tuple(str(move) for move in found)))
    return cases


# ------------------------------------------------------------------ games
class _Asked(dict[str, float]):
    """Q by move; asks an engine at the first lookup of a move."""

    def __init__(self, engine: chess.engine.SimpleEngine, board: chess.Board, nodes: int) -> None:
        self._engine, self._board, self._limit = engine, board, chess.engine.Limit(nodes=nodes)
        self.best = self._ask(None)

    def __missing__(self, move: str) -> float:
        self._ask(chess.Move.from_uci(move))
        return self[move]

    def _ask(self, move: chess.Move | None) -> str:
        found = self._engine.analyse(
            self._board, self._limit, game=object(), root_moves=[move] if move else None
        )
        wdl = found["wdl"].pov(self._board.turn)
        name = found["pv"][0].uci()
        self[name] = (wdl.wins - wdl.losses) / 1000
        return name


def from_games(files: Sequence[Path], count: int, program: str, nodes: int) -> Iterator[Case]:
    """Yields positions of PGN games with their moves, evaluated by an engine with `nodes` nodes."""
    boards = [board for file in files for board in spread(list(_boards(file)), count // len(files))]
    with chess.engine.SimpleEngine.popen_uci(program) as engine:
        engine.configure({"UCI_ShowWDL": True})
        for board in boards:
            worth = _Asked(engine, board, nodes)
            yield Case(board, (worth.best,), worth, worth[worth.best])


def _boards(file: Path) -> Iterator[chess.Board]:
    with file.open(encoding="utf-8-sig", errors="replace") as handle:
        while game := chess.pgn.read_game(handle):
            board = game.board()
            for move in game.mainline_moves():
                board.push(move)
                if board.ply() >= FIRST_PLY and not board.is_game_over():
                    yield board.copy()


def played(count: int) -> list[Case]:
    """Returns distinct positions of games drawn by the built-in evaluator's priors; deterministic."""
    rng = np.random.default_rng(5)
    found: dict[int, Case] = {}
    while len(found) < count:
        plies = np.linspace(FIRST_PLY, LAST_PLY, count - len(found)).astype(int).tolist()
        for board in _play(plies, rng):
            found.setdefault(key_of(board), Case(chess.Board(board.fen())))
    return list(found.values())


def _play(plies: list[int], rng: np.random.Generator) -> list[chess.Board]:
    """Returns the final positions of games of the given plies; for finished games, the last with a choice."""
    boards = [chess.Board() for _ in plies]
    evaluator = BuiltinEvaluator()
    for ply in range(max(plies)):
        going = [board for board, last in zip(boards, plies, strict=True) if ply < last]
        going = [board for board in going if not board.is_game_over(claim_draw=True)]
        for board, said in zip(going, assess(evaluator, going), strict=True):
            weights = np.array(list(said.priors.values())) ** SHARPNESS
            board.push_uci(list(said.priors)[int(rng.choice(len(weights), p=weights / weights.sum()))])
    for board in boards:
        while board.is_game_over(claim_draw=True) or board.legal_moves.count() < 2:
            board.pop()
    return boards


def random_positions(count: int) -> PositionBatch:
    """Returns unfinished positions of random games; deterministic."""
    draw = random.Random(1)
    boards: list[chess.Board] = []
    while len(boards) < count:
        board = chess.Board()
        for _ in range(draw.randrange(RANDOM_PLIES)):
            if moves := list(board.legal_moves):
                board.push(draw.choice(moves))
        if any(board.legal_moves):
            boards.append(board.copy(stack=False))
    return PositionBatch.from_boards(boards)
