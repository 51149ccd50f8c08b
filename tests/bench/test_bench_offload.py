"""The benchmark of searches larger than their memory runs at a small scale; no figure is judged here."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import chess
import pytest

from graphsearch.bench.offload import report
from graphsearch.bench.offload.instruments import Moment, SearchRates, SlowEvaluator, Stopwatch
from graphsearch.bench.offload.plan import Plan
from graphsearch.errors import GraphSearchError
from graphsearch.evaluators.protocol import PositionBatch
from graphsearch.evaluators.uniform import UniformEvaluator

from ..conftest import Cli

PROMISED = [
    "nodes",
    "ram_budget",
    "peak_rss",
    "speed_ratio_uniform",
    "speed_ratio_single_per_cpu_s",
    "speed_ratio_100us",
    "file_bytes_per_node",
    "written_bytes_per_node",
    "grow_nodes_per_s",
    "warm_reads_per_s",
    "cold_reads_per_s",
    "longest_stall_s",
    "open_s",
    "show_s",
]
MAY_BE_ZERO = (
    "share_",
    "file_free_",
    "cold_read_disk_",
    "reads_per_",
    "records_per_read",
    "evictions",
    "read_back",
    "open_filters",
    "search_thread_queued",
    "ram_search_thread_queued",
)


@pytest.mark.slow
def test_the_offload_benchmark_gives_every_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told: list[str] = []
    figures = report.measure(told.append, nodes=20_000, ram_bytes=8_000_000, repeats=1)
    assert list(figures)[: len(PROMISED)] == PROMISED
    assert len(told) >= 6
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    for name, value in figures.items():
        if name == "show_s":  # a difference of two processes
            assert isinstance(value, float)
        elif value is not None:
            assert value > 0 or (name.startswith(MAY_BE_ZERO) and value >= -0.001), name
    assert not list(tmp_path.iterdir())


def test_a_part_that_fails_is_named(tmp_path: Path) -> None:
    Plan(folder=str(tmp_path), nodes=1000, ram_bytes=1 << 20, visits=1000, evaluations=1000).write()
    with pytest.raises(GraphSearchError, match=r"the part reads of the benchmark failed: .*sample"):
        report._phase("reads", Plan.read(tmp_path))


def test_a_disk_that_is_too_small_is_told_before_anything_is_done() -> None:
    told: list[str] = []
    with pytest.raises(GraphSearchError, match="TMPDIR"):
        report.measure(told.append, nodes=10**15)
    assert not told


def test_the_slow_evaluator_answers_like_uniform() -> None:
    slow = SlowEvaluator(10)
    batch = PositionBatch.from_boards([chess.Board(), chess.Board("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1")])
    ours, theirs = slow.evaluate(batch), UniformEvaluator().evaluate(batch)
    assert (ours.wdl == theirs.wdl).all()
    assert (ours.priors == theirs.priors).all()
    assert slow.identity == UniformEvaluator().identity
    assert (slow.positions, slow.us > 0) == (2, True)


def moment(wall: float, done: int) -> Moment:
    return Moment(
        wall=wall,
        cpu=2 * wall,
        thread=0.0,
        queued=0.0,
        done=done,
        visits=done,
        nodes=0,
        read_back=0,
        written=0,
        parts={},
        calls=Counter(),
    )


def test_a_rate_is_the_median_of_equal_parts_and_names_the_longest_gap() -> None:
    marks = [(float(i), 100 * i) for i in range(11)] + [(15.0, 1100), (16.0, 1200)]
    rates = SearchRates(marks, moment(2.0, 200), moment(16.0, 1200), 20.0)
    assert rates.rate() == pytest.approx(100)
    assert rates.cpu_rate() == pytest.approx(1000 / 28)
    assert rates.whole_rate() == pytest.approx(1000 / 18)
    assert rates.longest_gap() == 5


class Worker:
    """Does something that does something else."""

    def outer(self) -> str:
        return self.inner() + "!"

    def inner(self) -> str:
        return "done"


def test_a_stopwatch_counts_nothing_twice() -> None:
    watch, worker = Stopwatch(), Worker()
    watch.watch(worker, "outer", "all")
    assert worker.outer() == "done!"
    whole = watch.seconds["all"]
    watch.watch(worker, "inner", "part")
    worker.outer()
    assert set(watch.seconds) == {"all", "part"}
    assert 0 < whole < watch.seconds["all"]
    assert watch.seconds["part"] > 0
    assert watch.calls == {"all": 2, "part": 1}


def test_a_budget_without_the_offload_benchmark_is_wrong_use(cli: Cli) -> None:
    outcome = cli("bench", "--ram", "64MB")
    assert outcome.code == 2
    assert "--offload" in outcome.err
