"""What each question prints, as tables and as JSON, in one language; what it refuses."""

from __future__ import annotations

import importlib
import io
import json
import os
import pty
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from graphsearch.base.errors import CorruptRecordError
from graphsearch.query.diff import Found
from graphsearch.query.find import find
from tests.conftest import Cli, finish, start
from tests.query.handmade import LINES, graph_file

ESCAPES = r"\x1b\[[0-9;?]*[A-Za-z]"
SEARCHED = {line: edges for line, edges in LINES.items() if edges}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graph_file(tmp_path_factory.mktemp("query") / "hand.graph", SEARCHED)


def on_a_terminal(
    patch: pytest.MonkeyPatch,
    commands: Iterable[Sequence[object]],
    *,
    columns: int = 80,
    streams: Sequence[str] = ("stdout", "stderr"),
) -> str:
    """Runs commands whose streams are a terminal; returns what it showed, without escape codes."""
    main = importlib.import_module("graphsearch.cli").main
    parent, child = pty.openpty()
    chunks: list[bytes] = []
    reader = threading.Thread(target=_read_all, args=(parent, chunks))
    reader.start()
    with patch.context() as changed, os.fdopen(child, "w", encoding="utf-8") as terminal:
        for name in streams:
            changed.setattr(sys, name, terminal)
        for name, value in (("COLUMNS", str(columns)), ("LINES", "24"), ("TERM", "xterm")):
            changed.setenv(name, value)
        codes = [main([str(word) for word in words]) for words in commands]
    reader.join()
    shown = re.sub(ESCAPES, "", b"".join(chunks).decode()).replace("\r\n", "\n")
    assert not any(codes), shown
    return shown


def _read_all(parent: int, chunks: list[bytes]) -> None:
    """Reads what a terminal shows until its program closes it; else the program would wait for room."""
    try:
        while chunk := os.read(parent, 65536):
            chunks.append(chunk)
    except OSError:  # Linux says so when the last writer is gone
        pass
    finally:
        os.close(parent)


def test_found_positions_stream_as_lines(cli: Cli, file: Path) -> None:
    outcome = cli("find", "--min-visits", 50, "--side", "w", "--store", file)
    assert [row.split()[:2] for row in outcome.out.splitlines()[1:]] == [
        ["Score", "Visits"],
        ["+0.21", "111"],
    ]
    assert "1 position" in outcome.err
    some = cli("find", "--store", file, "--lines", 4, "--json")
    assert len([json.loads(line) for line in some.out.splitlines()]) == 4
    assert "more than 4 positions" in some.err
    for wrong in (
        ["--pieces", "P=x"],
        ["--bounds", "won"],
        ["--q", "0.5..0.2"],
        ["--q", "nan"],
        ["--side", "green"],
    ):
        outcome = cli("find", *wrong, "--store", file).ends(2)
        assert wrong[0].strip("-") in outcome.err.splitlines()[0]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_what_was_found_before_damage_is_printed(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch, form: list[str]
) -> None:
    def damaged(*given: Any, **more: Any) -> Iterator[Found]:
        yield from find(*given, **more)
        raise CorruptRecordError("block 7 is damaged")

    command = ("find", "--min-visits", 50, "--store", file, *form)
    whole = cli(*command).ends(0)
    monkeypatch.setattr("graphsearch.cli.find.find_in", damaged)
    assert cli(*command).ends(1, "block 7 is damaged").out == whole.out != ""


def test_only_proven_positions_have_a_column_for_that(cli: Cli, file: Path) -> None:
    assert "Proven" not in cli("find", file, "--lines", 4).out
    assert "Proven" in cli("find", file, "--lines", 0).out  # as they are read: one that follows may be proven


def test_lines_fit_a_page_in_a_pipe(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.graph"
    cli("analyze", path, "--visits", 300, "--evaluator", "uniform").ends(0)
    for columns, most in (("", 100), ("70", 70)):
        monkeypatch.setenv("COLUMNS", columns)
        for words in (["lines", path], ["novelties", path]):
            assert max(map(len, cli(*words).out.splitlines()), default=0) <= most


@pytest.mark.parametrize("question", ["games", "lines", "tree", "find", "lab sql"])
def test_questions_leave_nothing_beside_the_file(cli: Cli, file: Path, question: str) -> None:
    words = {"find": [], "lab sql": ["SELECT 1"]}.get(question, ["startpos"])
    assert cli(*question.split(), *words, "--store", file).code == 0
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_output_without_unicode_is_ascii(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = importlib.import_module("graphsearch.cli").main
    out = io.BytesIO()
    with io.TextIOWrapper(out, encoding="ascii") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        assert main(["curve", "startpos", "--moves", "Nf3 e5 e4 Nc6", "--store", str(file)]) == 0
        assert main(["tree", "startpos", "--store", str(file)]) == 0
        shown = out.getvalue().decode("ascii")
    assert "+0.21  111" in shown
    assert "|##" in shown


def test_an_endless_statement_ends_at_ctrl_c_although_it_began_in_the_background(file: Path) -> None:
    def inherit() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    statement = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT n FROM x"
    process = start("lab", "sql", statement, "--store", file, "--json", preexec_fn=inherit)
    assert process.stdout is not None
    process.stdout.read(1000)
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130


def test_in_a_terminal_of_80_columns_nothing_is_wider(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = (
        ["show", "startpos"],
        ["curve", "startpos", "--moves", "e4 e5 Nf3"],
        ["tree", "startpos", "--depth", "4", "--min-visits", "1"],
    )
    narrow = (["games", "startpos"], ["show", "startpos"])
    wide = on_a_terminal(monkeypatch, [[*words, "--store", file] for words in questions])
    small = on_a_terminal(monkeypatch, [[*words, "--store", file] for words in narrow], columns=40)
    assert wide.count("Visits") == 2, "a column of show and of curve"
    assert [line for line in wide.splitlines() if len(line) > 80] == []
    assert len(re.findall("^Move  ", small, re.MULTILINE)) == 2


def test_data_above_a_bar_keeps_its_lines(cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = cli("find", file, "--lines", 0, "--json").out.splitlines()
    shown = on_a_terminal(monkeypatch, [["find", file, "--lines", 0, "--json"]], columns=40)
    lines = shown.replace("\r", "\n").splitlines()
    assert [line for line in lines if line.startswith("{")] == piped


def test_an_export_to_a_terminal_is_nothing_but_its_data(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["export", file, "-o", "-", "--format", "epd"]
    data = cli(*words).out
    assert on_a_terminal(monkeypatch, [words]).replace("\r", "").startswith(data + "-: ")


def test_scores_are_whites_and_those_of_json_the_movers(cli: Cli, file: Path) -> None:
    """After 1. e4 e5, q is -0.15 for Black, who plays it: good for White."""
    words = ("show", file, "e4", "--details", "--lines", "1")
    white = cli(*words).out
    assert "(White's view)" in white
    assert "+0.150" in white
    assert cli(*words, "--json").json["moves"][0]["q"] == pytest.approx(-0.15), "JSON keeps the mover's"


# ------------------------------------------------------------------ on a terminal
def test_a_terminal_sees_the_best_lines_and_the_counters_beside_clean_json_on_stdout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("analyze", "startpos", "--visits", "500", "--json")
    shown = on_a_terminal(monkeypatch, [words], columns=100, streams=["stderr"])
    for word in ("Move", "W D L", "Line", "nodes ", "visits/s ", "evaluations/s ", "depth "):
        assert word in shown
    assert json.loads(capsys.readouterr().out)["bestmove"]
