"""`show`, `store info`, `store verify`, `evaluate` and `perft`: what they print."""

from __future__ import annotations

import json
from pathlib import Path

import chess
from graphsearch.cli.lab import FIGURES

from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.store import Store
from tests.conftest import sql
from tests.store.test_damage import flip

from ..conftest import Cli, finish, start


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
    assert "V and P of the rules, in run 1" in cli("show", *mate, "--details").out


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
    text = cli("store", "verify", small_graph).ends(1)
    assert "NOT sound" in text.out


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
