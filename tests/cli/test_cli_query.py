"""What each question prints, as tables and as JSON, in one language, and what it refuses."""

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

import chess
import pytest
from graphsearch.cli.lab import FIGURES

from graphsearch.base.errors import CorruptRecordError
from graphsearch.query.diff import Found
from graphsearch.query.find import find
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.store import Store
from tests.conftest import Cli, finish, sql, start
from tests.query.handmade import LINES, graph_file
from tests.store.test_damage import flip
from tests.support.positions import after_line

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
    rows = [json.loads(line) for line in some.out.splitlines()]
    sans = [chess.Board(row["position"]).san(chess.Move.from_uci(row["best_move"])) for row in rows]
    assert sans == [row["best_san"] for row in rows]
    assert len(rows) == 4
    assert "more than 4 positions" in some.err
    for wrong in ("--pieces P=x", "--bounds won", "--q 0.5..0.2", "--q nan", "--side green"):
        option, value = wrong.split()
        outcome = cli("find", option, value, "--store", file).ends(2)
        assert option.strip("-") in outcome.err.splitlines()[0]


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


# ------------------------------------------------------------------ show, info, verify, evaluate, bench
def test_show_says_evaluator_and_run_of_the_position(cli: Cli, small_graph: Path) -> None:
    there = ("startpos", "--moves", "a3 h5 a4 h4 Ra3", "--store", small_graph)
    cli("analyze", *there, "--visits", 20)
    runs = cli("store", "info", small_graph, "--json").json["runs"]
    data = cli("show", *there, "--json").json
    assert data["run"]["number"] == 2
    assert set(data["evaluator"]) == {"number", "kind", "description"}
    assert (data["evaluator"]["number"], data["evaluator"]["kind"]) == (1, "builtin")
    run = runs[data["run"]["number"] - 1]
    assert data["run"] == {"number": run["id"]} | {k: run[k] for k in ("kind", "started", "position")}
    text = cli("show", "startpos", "--store", small_graph, "--details").out
    assert f"V and P of {data['evaluator']['description']}, in run 1: search of {chess.STARTING_FEN}," in text


def test_what_the_rules_decide_is_of_no_evaluator(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    mate = ("startpos", "--moves", "f3 e5 g4 Qh4#", "--store", path)
    start = ("startpos", "--moves", "f3 e5 g4", "--store", path)
    cli("analyze", *start, "--visits", 200, "--evaluator", "uniform")
    data = cli("show", *mate, "--json").json
    assert data["evaluator"] == {"number": 0, "kind": "rules", "description": "the rules"}
    assert data["run"]["number"] == 1
    for look in ("show", "lines", "tree"):  # without a position, from the root
        assert cli(look, path, "--json").json == cli(look, path, after_line("f3 e5 g4").fen(), "--json").json
    assert "V and P of the rules, in run 1" in cli("show", *mate, "--details").out
    assert "#-1 " in cli("find", path, "--bounds", "win").out


def test_info_lists_evaluators_and_kinds_of_runs(cli: Cli, small_graph: Path) -> None:
    with Store.open(small_graph) as store:
        number = store.add_evaluator(EvaluatorIdentity("net", "1234", {"t": 1.5}))
        store.begin_run("", {}, {}, kind="reevaluate", evaluator=number)
    data = cli("store", "info", small_graph, "--json").json
    assert [(run["kind"], run["evaluator"]) for run in data["runs"]] == [("search", 1), ("reevaluate", 2)]
    assert [evaluator["kind"] for evaluator in data["evaluators"]] == ["builtin", "net"]
    text = cli("store", "info", small_graph).out
    assert "net (1234; t=1.5)" in text
    assert "reevaluate" in text
    sql(small_graph, """UPDATE run SET kind = 'book', params = '{"book": "white"}'""")
    assert "book=white" in cli("store", "info", small_graph).out


def test_verify_fails_on_a_flipped_bit_and_says_where(cli: Cli, small_graph: Path) -> None:
    flip(small_graph, "block", "data", 1, 200)
    outcome = cli("store", "verify", small_graph, "--json").ends(1)
    assert outcome.json["ok"] is False
    assert outcome.json["problems"]
    assert "NOT sound" in cli("store", "verify", small_graph).ends(1).out


def test_evaluate_reads_a_file_line_by_line_and_goes_on_past_a_bad_line(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "fens.epd"
    file.write_text("# two kings\n\n4k3/8/8/8/8/8/8/4K3 w - - bm Kd2;\nnonsense\nstartpos\n")
    outcome = cli("evaluate", file, "--json").ends(1, "line 4: ")
    positions = [json.loads(line)["position"] for line in outcome.out.splitlines()]
    assert positions == ["4k3/8/8/8/8/8/8/4K3 w - - 0 1", chess.STARTING_FEN]


def test_evaluate_answers_each_line_of_a_slow_pipe_before_the_next_one_comes() -> None:
    process = start("evaluate", "-", "--json", "--evaluator", "uniform", stdin=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    for number in (1, 2):
        process.stdin.write(f"4k3/8/8/8/8/8/4P3/4K3 w - - 0 {number}\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["position"].endswith(f" {number}")
    assert finish(process).code == 0


def test_a_bad_line_is_named_before_a_line_that_ends_the_reading(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "fens.epd"
    file.write_text("nonsense\n" + "x" * (1 << 21))
    outcome = cli("evaluate", file)
    assert (outcome.code, outcome.out) == (2, "")
    assert "line 1: " in outcome.err
    assert "line 2: it is too long" in outcome.err


def test_bench_measures_every_figure_and_names_it_for_people(cli: Cli) -> None:
    figures = cli("lab", "bench", "--nodes", 2000, "--json").json
    assert list(figures) == list(FIGURES)
    assert all(value > 0 for value in figures.values())
    lines = cli("lab", "bench", "--nodes", 1000).out.splitlines()
    assert [line[:50].rstrip() for line in lines] == list(FIGURES.values())
