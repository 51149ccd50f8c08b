"""Sessions that once left a program without its answer, or with a wrong one."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import chess
import chess.engine
import pytest

COMMAND = [sys.executable, "-m", "graphsearch", "uci"]


@pytest.fixture(scope="module")
def engine() -> Iterator[chess.engine.SimpleEngine]:
    with chess.engine.SimpleEngine.popen_uci(COMMAND, timeout=120) as opened:
        opened.ping()
        yield opened


def game(seed: int, plies: int) -> chess.Board:
    chance, board = random.Random(seed), chess.Board()
    for _ in range(plies):
        moves = list(board.legal_moves)
        if not moves:
            break
        board.push(chance.choice(moves))
    return board


def test_every_answer_is_legal_while_all_moves_are_shown(engine: chess.engine.SimpleEngine) -> None:
    """The clock's thread and the search look at the position at the same time."""
    engine.configure({"LogLiveStats": True})
    for seed in range(40):
        board = game(seed, 12 + seed)
        if any(board.legal_moves):
            infos = engine.analyse(board, chess.engine.Limit(time=0.06), multipv=300)
            for info in infos:
                line = board.copy()
                for move in info.get("pv", []):
                    assert move in line.legal_moves
                    line.push(move)
    engine.configure({"LogLiveStats": False})


@pytest.mark.parametrize(
    "fen",
    [
        "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1",
        "7k/8/8/8/8/8/r7/K7 w - - 0 1",
        "8/8/8/8/8/5q2/8/K1k5 w - - 99 80",
    ],
)
def test_go_depth_ends_where_visits_cannot_become_so_long(
    engine: chess.engine.SimpleEngine, fen: str
) -> None:
    board = chess.Board(fen)
    played = engine.play(board, chess.engine.Limit(depth=10))
    assert played.move is not None
    assert played.move in board.legal_moves


def test_only_listed_moves_are_shown(engine: chess.engine.SimpleEngine) -> None:
    board = chess.Board()
    listed = [chess.Move.from_uci(text) for text in ("a2a3", "g2g4")]
    engine.analyse(board, chess.engine.Limit(nodes=2000))
    infos = engine.analyse(board, chess.engine.Limit(time=0.3), multipv=3, root_moves=listed)
    assert {info["pv"][0] for info in infos if "pv" in info} <= set(listed)


def test_the_last_report_is_of_the_end_of_the_time(engine: chess.engine.SimpleEngine) -> None:
    shares = []
    for _ in range(3):  # on a busy machine the last report of one of them may be late
        info = engine.analyse(game(3, 9), chess.engine.Limit(time=0.5))
        known = engine.analyse(game(3, 9), chess.engine.Limit(nodes=1))
        shares.append(info["nodes"] / known["nodes"])
    assert max(shares) >= 0.5
