"""One language in every table: White's view, pawns, moves before FENs; the rest behind --details."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.output import problem_lines
from cli.tables import FILL, Table
from tests.conftest import Cli
from tests.query.handmade import LINES, graph_file

from ..support.terminals import on_a_terminal


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return graph_file(tmp_path / "hand.graph", LINES)


def _columns(text: str, first: str) -> list[str]:
    """Returns the heads of the table whose first column has a name; two blanks stand between them."""
    line = next(line for line in text.splitlines() if line.startswith(first))
    return [name for name in line.split("  ") if name.strip()]


def test_the_default_table_has_five_columns(cli: Cli, file: Path) -> None:
    text = cli("show", file, "--lines", "2").out
    assert [name.strip() for name in _columns(text, "Move")] == ["Move", "Score", "W D L", "Visits", "Line"]
    assert "key " not in text
    more = cli("show", file, "--lines", "2", "--details").out
    assert {"P", "Q"} < {name.strip() for name in _columns(more, "Move")}
    assert "key " in more
    assert "V and P of" in more


@pytest.mark.parametrize(("q", "leads"), [(0.3, True), (0.2, False)])
def test_a_table_says_if_the_first_move_is_not_the_most_visited(
    cli: Cli, tmp_path: Path, q: float, leads: bool
) -> None:
    path = graph_file(tmp_path / "led.graph", {"": {"e4": (12000, 0.2), "d4": (3000, q)}})
    text = cli("show", path).out
    assert ("d4 leads by value, e4 by visits" in text) == leads
    assert (text.index("\nd4 ") < text.index("\ne4 ")) == leads
    assert cli("show", path, "--json").json["moves"][0]["san"] == ("d4" if leads else "e4")


def test_scores_are_whites_unless_the_movers_are_asked_for(cli: Cli, file: Path) -> None:
    """After 1. e4 e5, q is -0.15 for Black, who plays it: good for White."""
    words = ("show", file, "e4", "--details", "--lines", "1")
    white, mover = cli(*words).out, cli(*words, "--view", "mover").out
    assert "(White's view)" in white
    assert "(the mover's view)" in mover
    assert "+0.150" in white
    assert "-0.150" in mover
    assert cli(*words, "--view", "sideways").code == 2
    assert cli(*words, "--json").json["moves"][0]["q"] == pytest.approx(-0.15), "JSON keeps the mover's"


def test_lists_lead_with_moves_and_openings(cli: Cli, file: Path) -> None:
    found = cli("find", file, "--min-visits", "20").out
    assert "1. e4 e5  (C20 King's Pawn Game)" in found
    assert " w KQkq" not in found
    assert " w KQkq" in cli("find", file, "--min-visits", "20", "--details").out
    tree = cli("tree", file, "--depth", "2", "--min-visits", "15").out
    assert "1. e4" in tree
    assert "B20 Sicilian Defense" in tree
    assert "C44 King's Knight Opening: Normal Variation" in cli("show", file, "e4 e5 Nf3 Nc6").out


def test_what_changed_most_in_most_visits_comes_first(cli: Cli, file: Path, tmp_path: Path) -> None:
    newer = graph_file(
        tmp_path / "new.graph",
        LINES | {"d4": {"d5": (29, 0.6)}, "Nf3": {"e5": (1, 0.9)}, "e4 e5": {"Nf3": (39, -0.2)}},
    )
    rows = [line for line in cli("diff", file, newer).out.splitlines() if line.startswith("1. ")]
    assert [row.split("  ")[0] for row in rows[:2]] == ["1. d4", "1. e4 e5"]


def test_the_first_problems_are_listed_and_the_others_counted() -> None:
    some = [f"block {i}" for i in range(30)]
    assert list(problem_lines(some[:2], 2)) == some[:2]
    assert list(problem_lines(some, 45)) == [*some[:20], "and 25 more; --json lists 30"]
    assert list(problem_lines(some[:5], 7)) == [*some[:5], "and 2 more"]


def test_a_narrow_terminal_leaves_out_columns_and_a_pipe_none() -> None:
    cells = Table(
        [{"Line": "1. e4 e5 " * 9, "Name": "n" * 30, "Score": "+0.31", "N": "1"}],
        {"Line": FILL},
        spare=["Name"],
    )
    shown = {
        width: [str(one.header) for one in cells.drawn(width).columns] for width in (None, 90, 60, 17, 5)
    }
    assert shown == {
        None: ["Line", "Name", "Score", "N"],
        90: ["Line", "Name", "Score", "N"],
        60: ["Line", "Score", "N"],
        17: ["Line", "Score"],
        5: ["Line"],
    }


# ------------------------------------------------------------------ on a terminal
def test_a_terminal_sees_the_best_lines_and_the_counters_beside_clean_json_on_stdout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("analyze", "startpos", "--visits", "500", "--json")
    shown = on_a_terminal(monkeypatch, [words], columns=100, streams=["stderr"])
    for word in ("Move", "W D L", "Line", "nodes ", "visits/s ", "evaluations/s ", "depth "):
        assert word in shown
    assert json.loads(capsys.readouterr().out)["bestmove"]


def test_few_columns_are_enough(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("analyze", "startpos", "--visits", "500")
    assert "Move" in on_a_terminal(monkeypatch, [words], columns=20, streams=["stderr"])
    assert "\x1b" not in capsys.readouterr().out
