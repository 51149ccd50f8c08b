"""The benchmark of growing sizes: it runs at a small scale, goes on where it stopped, and judges growth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch.bench.scale import report
from graphsearch.bench.scale.meter import Meter
from graphsearch.bench.scale.plan import ON_A_COPY, PER_CALL, Measured, Plan, Results
from graphsearch.bench.scale.sharded import grow_shards, merge_shards
from graphsearch.bench.scale.verdict import FIGURES, verdicts
from graphsearch.errors import GraphSearchError, InvalidParameterError
from graphsearch.graph.view import show
from graphsearch.store.upkeep.verify import verify

from ..conftest import Cli

RAM = 16_000_000


def measured(phase: str = "verify", nodes: int = 1000, **changed: Any) -> Measured:
    values: dict[str, Any] = {
        "phase": phase,
        "nodes": nodes,
        "units": nodes,
        "unit": "node",
        "seconds": 1e-6 * nodes,
        "cpu_seconds": 1e-6 * nodes,
        "peak_rss": 200_000_000,
        "rss_before": 100_000_000,
        "written_bytes": 30 * nodes,
        "longest_stall_s": 0.1,
        "log_bytes": 1000,
        "file_bytes": 20 * nodes,
        "more": {},
    }
    return Measured(**(values | changed))


@pytest.mark.slow
def test_phases_are_measured_at_every_size_and_nothing_twice(tmp_path: Path) -> None:
    told: list[Measured] = []
    phases = ("grow", "pv", "compact")
    options: dict[str, Any] = {"nodes": 6000, "first": 600, "ram_bytes": RAM, "folder": tmp_path}
    options["phases"] = phases
    rows = report.measure(done=told.append, **options)  # which rehearses all of them
    assert [(row.nodes, row.phase) for row in rows] == [(n, phase) for n in (600, 6000) for phase in phases]
    assert told == rows
    for row in rows:
        assert row.seconds > 0, row
        assert row.units >= (1 if row.phase in PER_CALL else 300), row
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grown.graph", "scale.json"]
    assert json.loads((tmp_path / "scale.json").read_text())["rows"] == [row.as_dict() for row in rows]
    again = report.measure(done=told.append, **options)
    assert again == rows
    assert len(told) == len(rows)


@pytest.mark.slow
def test_a_cluster_grows_over_its_shards_and_makes_the_same_file(tmp_path: Path) -> None:
    plan = Plan(folder=str(tmp_path), nodes=100_000, ram_bytes=RAM, shards=2)
    meter = Meter(*plan.files)
    grow_shards(plan, meter)
    told = meter.more["shards"]
    nodes = sum(shard["nodes"] for shard in told)
    assert nodes == meter.units >= plan.nodes
    assert all(shard["nodes"] > nodes / 3 for shard in told), "a hash deals them evenly"
    assert meter.cpu_beside == sum(shard["cpu_seconds"] for shard in told) > 0
    found = verify(plan.file)
    assert (found.ok, found.records) == (True, nodes)
    merge_shards(plan, meter)
    assert show(plan.new, chess.Board()) == show(plan.file, chess.Board())
    assert meter.units == nodes


def test_a_cluster_has_phases_and_results_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=r"no phase 'prune'.*merge"):
        report.check_phases(["prune"], 2)
    Results(tmp_path, RAM, 2).add(measured("merge"))
    assert Results(tmp_path, RAM, 2).has("merge", 1000)
    with pytest.raises(InvalidParameterError, match="--shards 2, not 0"):
        Results(tmp_path, RAM)


def test_growth_above_a_half_a_node_is_flagged() -> None:
    rows = [measured(nodes=1000), measured(nodes=100_000, seconds=0.16, written_bytes=3_000_000)]
    found = {one.figure: one for one in verdicts(rows, RAM)}
    assert tuple(found) == FIGURES
    assert (found["time"].growth, found["time"].flagged) == (1.6, True)
    assert (found["cpu"].growth, found["cpu"].flagged) == (1.0, False)
    assert found["written"].values == (30.0, 30.0)
    assert found["log"].growth == 1.0


def test_memory_beyond_the_budget_is_flagged() -> None:
    rows = [measured(), measured(nodes=10_000, peak_rss=900_000_000)]
    assert [one.figure for one in verdicts(rows, 512_000_000) if one.flagged] == ["memory"]
    assert [one.figure for one in verdicts(rows, 700_000_000) if one.flagged] == []


def test_results_are_kept_after_every_phase(tmp_path: Path) -> None:
    results = Results(tmp_path, RAM)
    results.add(measured("grow"))
    results.add(measured("verify"))
    results.add(measured("verify", seconds=2.0))
    kept = Results(tmp_path, RAM)
    assert [(row.phase, row.seconds) for row in kept.rows] == [("grow", 0.001), ("verify", 2.0)]
    assert kept.has("verify", 1000)
    assert not kept.has("verify", 10_000)
    with pytest.raises(InvalidParameterError, match="--ram"):
        Results(tmp_path, 2 * RAM)


def test_a_meter_tells_the_longest_silence_and_the_bytes(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "none.graph")
    with meter.watching():
        (tmp_path / "written").write_bytes(bytes(1 << 20))
        meter.tick(1, 2)
    meter.units = 4
    row = meter.measured("verify", 10, tmp_path / "written")
    assert row.units == 4
    assert 0 < row.longest_stall_s <= row.seconds
    assert row.file_bytes == 1 << 20


def test_a_phase_that_fails_is_named(tmp_path: Path) -> None:
    plan = Plan(folder=str(tmp_path), nodes=1000, ram_bytes=RAM)
    with pytest.raises(GraphSearchError, match=r"the phase nothing of the benchmark failed: .*nothing"):
        report._run("nothing", plan, lambda _: None)


def test_an_unknown_phase_is_named_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=r"no phase 'grow up'.*salvage"):
        report.measure(phases=("grow up",), folder=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_phases_that_change_the_file_work_on_a_copy() -> None:
    assert set(ON_A_COPY) == {"compact", "prune", "refresh", "search"}


@pytest.mark.parametrize(
    "words",
    [
        ("--folder", "x"),
        ("--from", "5000"),
        ("--phases", "grow"),
        ("--scale", "--shards", "2", "--waves", "9"),
    ],
)
def test_options_of_the_scale_benchmark_alone_are_wrong_use(cli: Cli, words: tuple[str, ...]) -> None:
    outcome = cli("bench", *words)
    assert outcome.code == 2
    assert "--scale" in outcome.err


def test_two_benchmarks_at_once_are_wrong_use(cli: Cli) -> None:
    outcome = cli("bench", "--scale", "--offload")
    assert outcome.code == 2
    assert "cannot be combined" in outcome.err
