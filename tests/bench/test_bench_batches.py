"""The benchmark of the gatherers runs at a small scale and gives every row; no time is judged here."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.bench.batches import plan as plans
from graphsearch.bench.batches.crew import PriceWorkers
from graphsearch.bench.batches.filling import Snapshot, fill, grow
from graphsearch.bench.batches.plan import Effort, Plan
from graphsearch.bench.batches.plot import draw
from graphsearch.bench.batches.price import SEQUENTIAL, PriceTask, compare, evaluated
from graphsearch.bench.batches.report import measure
from graphsearch.bench.batches.roots import Case, played, read_epd, read_reference, spread
from graphsearch.bench.batches.rows import price
from graphsearch.errors import GraphSearchError, InvalidPositionError
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.kinds import BUILTIN, UNIFORM
from graphsearch.graph import arena_kernel
from graphsearch.search.params import GATHERERS

from ..conftest import Cli, finish, start
from ..support.pools import in_the_middle, is_alive

PROMISED = {
    "gather",
    "batch",
    "nodes",
    "evaluator",
    "positions_per_batch",
    "rounds",
    "collisions",
    "gather_us_per_position",
    "visits_per_s",
    "agreement",
    "agreement_error",
    "root_distance",
    "root_distance_error",
    "waste",
    "waste_error",
    "reference_agreement",
    "reference_agreement_error",
    "solved",
    "solved_of",
}
TIMES = {"gather_us_per_position", "visits_per_s"}
NODES, BATCHES = 300, (1, 8, 4096)
TINY = {
    UNIFORM: Effort(largest_graph=1 << 40, graphs=2, repeats=1, largest_wave=4096, timed=64),
    BUILTIN: Effort(
        largest_graph=1 << 40,
        graphs=2,
        repeats=1,
        largest_wave=64,
        timed=32,
        prices=((1_000, 3),),
        problems=1_000,
    ),
}
MATE = "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1"
MIDDLEGAME = "r1bq1rk1/pp2bppp/2n2n2/2pp4/3P4/2NBPN2/PP3PPP/R1BQ1RK1 w - - 0 9"

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("positions")
    reference, epd = folder / "reference.jsonl.gz", folder / "problems.epd"
    rows = [{"fen": case.fen, "bestmove": _first_move(case.fen)} for case in played(5)]
    reference.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    epd.write_text(
        '6k1/5ppp/8/8/8/8/8/R5K1 w - - bm Ra8#; id "mate";\n\n4k3/8/8/8/8/8/8/4K2R w K - bm O-O;\n'
    )
    return reference, epd


def _first_move(fen: str) -> str:
    return next(iter(chess.Board(fen).legal_moves)).uci()


@pytest.fixture(scope="module")
def plan(files: tuple[Path, Path]) -> Plan:
    reference, epd = files
    return Plan(nodes=NODES, efforts=TINY, batches=BATCHES, reference=reference, epd=epd, workers=2)


@pytest.fixture(scope="module")
def report() -> list[tuple[float, float | None, str]]:
    return []


@pytest.fixture(scope="module")
def found(plan: Plan, report: list[tuple[float, float | None, str]]) -> dict[str, Any]:
    return measure(plan, lambda *told: report.append(told))


# ------------------------------------------------------------------ rows
def test_there_is_a_row_for_every_gatherer_batch_graph_and_evaluator(found: dict[str, Any]) -> None:
    rows = found["rows"]
    assert all(set(row) >= PROMISED for row in rows)
    places = [(row["evaluator"], row["nodes"], row["batch"], row["gather"]) for row in rows]
    assert places == [(e, NODES, b, g) for e in ("uniform", "builtin") for b in BATCHES for g in GATHERERS]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["machine"]


def test_what_was_not_measured_is_null_and_said(found: dict[str, Any]) -> None:
    uniform = [row for row in found["rows"] if row["evaluator"] == "uniform"]
    assert all(row["agreement"] is row["waste"] is row["solved"] is None for row in uniform)
    assert all(row["visits_per_s"] > 0 for row in uniform)
    large = [row for row in found["rows"] if row["evaluator"] == "builtin" and row["batch"] == 4096]
    assert any(row["visits_per_s"] is None for row in large)
    assert found["left_out"] == ["visits/s of waves of more than 64 positions with builtin"]


def test_a_wave_has_at_most_a_batch_and_its_gather_takes_time(found: dict[str, Any]) -> None:
    for row in found["rows"]:
        assert 0 < row["positions_per_batch"] <= row["batch"]
        assert row["gather_us_per_position"] > 0
        assert row["rounds"] >= 0
        assert row["graphs"] == 2


def test_with_batch_1_nothing_is_paid(found: dict[str, Any]) -> None:
    for row in (row for row in found["rows"] if row["batch"] == 1 and row["evaluator"] == "builtin"):
        assert (row["agreement"], row["root_distance"], row["waste"]) == (1.0, 0.0, 0.0)
        assert row["reference_agreement_vs_sequential"] == row["solved_vs_sequential"] == 0


def test_a_price_is_a_mean_over_positions_with_its_standard_error(found: dict[str, Any]) -> None:
    for row in (row for row in found["rows"] if row["evaluator"] == "builtin"):
        assert row["positions"] == 3
        assert 0 <= row["agreement"] <= 1
        assert 0 <= row["root_distance"] <= 2
        assert 0 <= row["waste"] <= 1
        assert all(row[f"{name}_error"] >= 0 for name in ("agreement", "root_distance", "waste"))
        assert 0 <= row["solved"] <= row["solved_of"] == 2
        assert row["solved"] >= 1 or row["batch"] > 1  # a mate in one
        if row["gather"] == "classic":
            assert row["waste_vs_classic"] == row["waste_vs_classic_error"] == 0


def test_all_but_times_is_the_same_in_every_run(plan: Plan, found: dict[str, Any]) -> None:
    again = measure(replace(plan, workers=1, batches=(1, 8)))["rows"]

    def untimed(rows: Rows) -> Rows:
        return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]

    assert untimed(again) == untimed([row for row in found["rows"] if row["batch"] <= 8])


def test_progress_ends_at_all_and_names_each_cell(
    found: dict[str, Any], report: list[tuple[float, float | None, str]]
) -> None:
    shares = [share for share, _, _ in report]
    assert shares == sorted(shares)
    text = " | ".join(what for _, _, what in report)
    for part in ("filling, uniform, 300 nodes, root 2 of 2", "price, builtin, 300 evaluations", "problems"):
        assert part in text


def test_differences_are_taken_position_by_position() -> None:
    from graphsearch.bench.batches.price import Price

    answers = [
        {("classic", 8): Price(1.0, 0.1, 0.2, None, None), ("flow", 8): Price(0.0, 0.3, 0.3, None, None)},
        {("classic", 8): Price(0.0, 0.5, 0.4, None, None), ("flow", 8): Price(0.0, 0.9, 0.5, None, None)},
    ]
    row = price(answers, ("flow", 8))
    assert row["agreement"] == 0.0
    assert (row["agreement_vs_classic"], row["agreement_vs_classic_error"]) == (-0.5, 0.5)
    assert (row["waste_vs_classic"], row["waste_vs_classic_error"]) == (0.1, 0.0)
    assert row["root_distance_vs_classic"] == pytest.approx(0.3)
    assert row["reference_agreement"] is None


# ------------------------------------------------------------------ price
def task(batches: tuple[int, ...], evaluations: int = 200, **changes: Any) -> PriceTask:
    made = PriceTask(
        evaluator="builtin",
        evaluations=evaluations,
        case=Case(MIDDLEGAME),
        gatherers=GATHERERS,
        batches=batches,
        longer=True,
    )
    return replace(made, **changes)


def test_every_gatherer_is_the_sequential_search_with_batch_1() -> None:
    answer = compare(task((1,)))
    assert set(answer) == {SEQUENTIAL, *((gather, 1) for gather in GATHERERS)}
    for outcome in answer.values():
        assert (outcome.agreement, outcome.root_distance, outcome.waste) == (1.0, 0.0, 0.0)


def test_batches_beyond_the_evaluations_are_all_the_same() -> None:
    answer = compare(task((256, 1024)))
    for gather in GATHERERS:
        assert answer[gather, 256] == answer[gather, 1024]


@pytest.mark.parametrize("fen", [MATE, "r5k1/5ppp/8/8/8/8/r4PPP/1R4K1 w - - 0 1"])  # in one: now, below
def test_waste_counts_evaluated_positions_and_no_finished_games(fen: str) -> None:
    with Graph.open(None) as graph:
        result = analyze(graph, chess.Board(fen), Limits(evaluations=150), SearchParams(minibatch_size=1))
        keys = evaluated(graph.arena)
        assert len(np.unique(keys)) == len(keys) == result.evaluations < graph.node_count


def test_a_search_that_fails_is_told_by_the_one_who_waits() -> None:
    with PriceWorkers(1) as workers, pytest.raises(GraphSearchError, match="unknown evaluator 'nothing'"):
        list(workers.results([task((8,), evaluator="nothing")]))


def test_a_worker_that_is_gone_is_an_error_and_all_are_ended() -> None:
    with PriceWorkers(2) as workers:
        workers.start()
        begun = workers.processes

        def kill_all() -> None:
            for process in begun:
                os.kill(process, signal.SIGKILL)

        thread = in_the_middle(lambda: any(seat.assignment for seat in workers.seats), kill_all)
        with pytest.raises(GraphSearchError, match=r"ended over r1bq1rk1.* with builtin: .* signal 9"):
            list(workers.results([task((8,), evaluations=10**6)]))
        thread.join()
    assert workers.processes == []
    assert not any(is_alive(process) for process in begun)


# ------------------------------------------------------------------ filling
def test_measuring_leaves_the_graph_as_it_was() -> None:
    board = chess.Board(MATE)
    with Graph.open(None) as graph:
        grow(graph, board, 250)
        before = Snapshot(graph.arena)
        slots = int(graph.arena.counters[arena_kernel.RECORD_WORDS])
        records = graph.arena.arrays.records[:slots].copy()
        counters = graph.arena.counters.copy()
        done = list(fill(graph, board, TINY[UNIFORM], (1, 32), GATHERERS))
        assert len(done) == 8
        counted = slice(arena_kernel.COUNTED.start, arena_kernel.COUNTED.stop)
        assert (graph.arena.counters[counted] == counters[counted]).all()
        assert (graph.arena.arrays.records[:slots] == records).all()
        before.put_back()
        assert graph.node_count == counters[arena_kernel.NODES]


def test_a_wave_is_the_same_whenever_it_is_gathered() -> None:
    board = chess.Board(MIDDLEGAME)
    with Graph.open(None) as graph:
        grow(graph, board, 400)
        one, two = (list(fill(graph, board, TINY[UNIFORM], (32, 256), GATHERERS)) for _ in range(2))
    for (gather, batch, first), (gather_again, batch_again, again) in zip(one, two, strict=True):
        assert (gather, batch) == (gather_again, batch_again)
        assert (first.positions, first.rounds, first.collisions) == (
            again.positions,
            again.rounds,
            again.collisions,
        )


# ------------------------------------------------------------------ positions
def test_made_positions_are_distinct_and_always_the_same() -> None:
    cases = played(12)
    assert cases == played(12)
    assert len({case.fen for case in cases}) == 12
    for case in cases:
        assert chess.Board(case.fen).legal_moves.count() >= 2


def test_positions_are_taken_evenly_spaced() -> None:
    assert spread(range(160), 4) == [0, 40, 80, 120]
    assert spread(range(3), 9) == [0, 1, 2]


def test_a_reference_may_be_packed_or_not(files: tuple[Path, Path], tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    plain.write_bytes(gzip.decompress(files[0].read_bytes()))
    assert read_reference(plain) == read_reference(files[0])
    assert len(read_reference(plain)) == 5


def test_a_problem_has_its_best_moves(files: tuple[Path, Path]) -> None:
    assert [case.best for case in read_epd(files[1])] == [("a1a8",), ("e1g1",)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no position"),
        ('{"fen": "8/8/8/8/8/8/8/8 w - - 0 1", "bestmove": "e2e4"}', "line 1"),
        ('{"fen": "4k3/8/8/8/8/8/8/4K3 w - - 0 1"}', "line 1"),
        ("4k3/8/8/8/8/8/8/4K3 w - -", "line 1"),
        ("[1, 2]", "line 1"),
    ],
)
def test_a_line_that_is_no_reference_is_named(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "reference.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidPositionError, match=fault):
        read_reference(path)


@pytest.mark.parametrize(
    "line", ["nonsense", "4k3/8/8/8/8/8/8/4K3 w - - id 1;", "4k3/8/8/8/8/8/8/4K3 w - - bm Qd1;"]
)
def test_a_line_that_is_no_problem_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "problems.epd"
    path.write_text(f"\n{line}\n")
    with pytest.raises(InvalidPositionError, match="line 2"):
        read_epd(path)


def test_fewer_positions_may_be_asked_for_and_none_leaves_the_price_out() -> None:
    assert Plan(positions=3).positions_at("builtin", 1000) == 3
    assert Plan(positions=1000).positions_at("builtin", 1000) == Plan().positions_at("builtin", 1000)
    assert Plan(positions=0).prices("builtin") == ()


def test_the_short_run_says_what_it_leaves_out_and_the_full_one_leaves_out_little() -> None:
    short, full = list(Plan().left_out()), list(Plan(efforts=plans.FULL).left_out())
    assert "graphs at 1,000,000 nodes with builtin" in short
    assert full == ["the price at 1,000,000 evaluations with builtin"]
    assert create("builtin").kernel_kind in plans.FIVE_MINUTES


# ------------------------------------------------------------------ plot and command
def is_png(path: Path) -> bool:
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_plot_is_a_png_with_and_without_a_reference(found: dict[str, Any], tmp_path: Path) -> None:
    rows = found["rows"]
    draw(rows, tmp_path / "all.png", caption="a machine")
    draw([{**row, "reference_agreement": None} for row in rows], tmp_path / "less.png")
    draw([row for row in rows if row["evaluator"] == "uniform"], tmp_path / "filling.png")
    assert all(is_png(tmp_path / f"{name}.png") for name in ("all", "less", "filling"))


@pytest.fixture
def tiny_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        plans, "FIVE_MINUTES", {**TINY, BUILTIN: replace(TINY[BUILTIN], prices=((1_000, 2),))}
    )


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_command")
def test_the_command_prints_one_json_object_and_draws(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "batches.png"
    outcome = cli("bench", "--batches", "--nodes", 1000, "--json", "--plot", path)
    assert outcome.code == 0, outcome.err
    assert set(outcome.json) == {"machine", "rows", "left_out"}
    assert all(row["reference_agreement"] is None for row in outcome.json["rows"])
    assert "skipped: " in outcome.err
    assert is_png(path)


def test_tables_fit_in_120_columns_and_show_every_gatherer(
    found: dict[str, Any], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.bench.batches.report.measure", lambda plan, report: found)
    outcome = cli("bench", "--batches")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert max(lines, key=len)[120:] == ""
    for word in (
        "positions reached",
        "gather, us",
        "visits/s",
        "root L1 distance",
        "waste",
        "reference",
        "solved",
    ):
        assert word in outcome.out
    assert all(sum(gather in line for line in lines) >= 8 for gather in GATHERERS)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("--plot", "x.png"), "--batches"),
        (("--full",), "--batches"),
        (("--evaluator", "uniform"), "--batches"),
        (("--positions", "0"), "--batches"),
        (("--reference", __file__), "--batches"),
        (("--epd", __file__), "--batches"),
        (("--batches", "--offload"), "--offload"),
        (("--batches", "--ram", "64MB"), "--offload"),
        (("--batches", "--plot", "x.svg"), ".png"),
        (("--batches", "--plot", "no-such-folder/x.png"), "no-such-folder"),
        (("--batches", "--evaluator", "no-such"), "no-such"),
        (("--batches", "--reference", "no-such-file"), "no-such-file"),
        (("--batches", "--epd", __file__), "line 1"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_runs(
    cli: Cli, args: tuple[str, ...], word: str
) -> None:
    outcome = cli("bench", *args)
    assert outcome.code == 2
    assert word in outcome.err
    assert outcome.out == ""
    assert "filling" not in outcome.err


def test_a_missing_library_is_one_line_with_the_command_that_helps(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = cli("bench", "--batches", "--plot", tmp_path / "x.png")
    assert outcome.code == 1
    assert len(outcome.err.splitlines()) == 1
    assert "pip install" in outcome.err


def test_ctrl_c_ends_it_at_once() -> None:
    process = start("bench", "--batches", "--nodes", 1000)
    assert process.stderr is not None
    while "%" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    outcome = finish(process)
    assert outcome.code == 130
    assert "Traceback" not in outcome.err
    assert outcome.out == ""
