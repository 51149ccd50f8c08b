"""The brief: what to play, how sure, why, what would change it and what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, analyze, brief
from graphsearch.base.system import join_command
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.graph.view import view
from graphsearch.query.brief import Brief, chances, still_moves
from graphsearch.query.source import Records
from graphsearch.store.record import flags_of

from ..conftest import Cli, present, sql
from ..support.positions import after_line
from .handmade import graph_file, node

WON, LOST = flags_of(np.array([[1, 1], [-1, -1]], np.int8)).tolist()

RUY = "e4 e5 Nf3 Nc6 Bb5"
CHOICE = {
    "": {"e4": (4000, 0.1), "d4": (3000, 0.095), "f4": (400, -0.3), "a4": (40, 0.0)},
    "d4": {"d5": (2900, -0.1)},
    "d4 d5": {"c4": (1500, 0.1), "Nf3": (1400, 0.1)},
    "f4": {"d5": (390, 0.3)},
    "f4 d5": {"Nf3": (380, -0.3)},
}


@pytest.fixture
def choice(tmp_path: Path) -> Path:
    """A file in which 1. e4 and 1. d4 are equal, and 1. f4 loses to 1... d5."""
    return graph_file(tmp_path / "a choice.graph", CHOICE)


def searched(fen: str, visits: int = 300, moves: Sequence[chess.Move] = ()) -> Brief:
    board = chess.Board(fen)
    with Graph.open(None) as graph:
        found = analyze(graph, board, Limits(visits=visits), searchmoves=moves)
        return brief(Records(Path("none"), graph.read), board, node=found.node)


def test_equal_moves_are_one_choice_and_a_natural_move_is_refuted(choice: Path) -> None:
    found = brief(choice, chess.Board())
    assert [move.san for move in found.moves] == ["e4", "d4"]
    assert [(one.line, one.why) for one in found.refuted] == [(("f4", "d5", "Nf3"), "prior")]
    assert (found.certainty, found.next) == (found.moves[0].chance, chess.Move.from_uci("a2a4"))
    assert found.lines[0] == "White plays 1. e4 and is 0.14 ahead; 1. d4 may be as good."
    assert "1. f4 loses 0.56 to 1... d5 2. Nf3." in found.lines[2]
    assert len(found.lines) <= 5


def test_the_line_that_may_change_the_choice_comes_with_a_command_that_runs(choice: Path) -> None:
    unsettled = present(brief(choice, chess.Board()).unsettled)
    assert unsettled.line == ("d4", "d5")
    assert str(unsettled.command).endswith(join_command(["1. d4 d5", "--visits", "30k"]))


@pytest.mark.parametrize(
    ("fen", "state", "line"),
    [
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "over", "Stalemate: the game is drawn; Black has no legal move."),
        ("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", "over", "Checkmate: White has won."),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 0 1", "proven", "White plays 1. Qf8# and mates in 1."),
        ("7k/p7/8/8/8/6p1/P7/4r2K w - - 0 1", "forced", "White has to play 1. Kg2; White is "),
        ("8/8/8/8/8/5k2/8/5K1n w - - 0 1", "over", "Draw: no side can mate."),
    ],
)
def test_what_the_rules_decide_is_said_as_such(fen: str, state: str, line: str) -> None:
    found = searched(fen)
    assert (found.state, found.certainty) == (state, None)
    assert found.lines[0].startswith(line)


def test_a_position_whose_moves_the_file_lacks_is_no_stalemate() -> None:
    board = chess.Board("8/8/8/8/8/2k5/8/K6Q w - - 0 1")
    found = brief(Records(Path("none"), lambda at: replace(node(at), codes=b"")), board)
    assert (found.state, found.moves) == ("unvisited", ())
    won = brief(Records(Path("none"), lambda at: replace(node(at), v=1.0, flags=WON)), board)
    said = "No search has found a move here; it is proven that White wins."
    assert (won.state, won.moves, won.lines) == ("proven", (), (said,))
    check = after_line("Qh8", board.fen())
    held = {
        board.fen(): node(board, {"Qh2": (5, 0.5)}),
        check.fen(): replace(node(check), v=-1.0, flags=LOST),
    }
    source = Records(Path("none"), lambda at: held.get(at.fen()))
    known = brief(source, board, node=view(source.read, board))
    assert known.lines[0] == "White plays 1. Qh8+ and wins."
    assert searched(after_line("f3 e5").fen(), 9, [chess.Move.from_uci("g2g4")]).state == "unvisited"
    few = searched(chess.STARTING_FEN, 50)
    assert (few.certainty, few.lines[1]) == (None, "Open: too few visits (50) to say how sure that is.")
    held[chess.STARTING_FEN] = node(chess.Board(), {"e4": (4000, 0.1), "d4": (230, 0.09)})
    near = brief(source, chess.Board())
    assert (near.lines[1][:13], present(near.certainty) < 0.95) == ("Settled: 95 %", True)


def test_chances_sum_to_one_and_grow_with_visits_and_value(choice: Path) -> None:
    with Graph.open(None) as graph:
        moves = analyze(graph, after_line(RUY), Limits(visits=500)).node.moves
    shares = chances([move for move in moves if move.n])
    assert sum(shares) == pytest.approx(1)
    assert shares[0] == max(shares)
    assert still_moves(10_000) < still_moves(100)


def test_a_new_session_says_what_changed(tmp_path: Path, cli: Cli) -> None:
    file, board, games = tmp_path / "sessions.graph", after_line("e4 e5 Qh5 Nc6 Bc4"), tmp_path / "a.pgn"
    for visits, move in ((20, "Qe7"), (2000, "g6 *\n\n1. e4 e5 2. Qh5 Nc6 3. Bc4 Qe7")):
        games.write_text(f"1. e4 e5 2. Qh5 Nc6 3. Bc4 {move} *\n")
        import_files("pgn", file, [GivenFile(str(games))], players=True)
        sql(file, "UPDATE source SET started = '2020-01-01T00:00:00+00:00' WHERE id = 1")
        if visits > 20:
            assert brief(file, board).lines[-1].endswith("(20 visits): new in games: 3... g6.")
        with Graph.open(file) as graph:
            analyze(graph, board, Limits(visits=visits))
    found = brief(file, board)
    before = present(found.before)
    assert found.lines[-1].endswith("; new in games: 3... g6.")
    assert found.lines[-1].startswith(f"Since {before.saved[:10]} (20 visits): 3... Qe7 took over from")
    assert cli("show", file, board.fen(), "--since", 2, "--json").json["brief"]["lines"] == list(found.lines)
    assert cli("show", file, board.fen(), "--since", 1, "--json").json["brief"]["before"] is None
    assert ("prior", 1, ("Nf6", "Qxf7#")) in [(one.why, one.mate, one.line) for one in found.refuted]
