"""A cluster of one shard is searched as one file is: the same records, its runs and saves, no messages."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import EvaluatorError
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.search.job import Control, SearchJob
from graphsearch.search.shards import master, parting
from graphsearch.search.shards.master import MACHINES
from graphsearch.search.shards.session import ShardSearch
from graphsearch.store.info import info
from graphsearch.store.sharded.files import files_of
from graphsearch.store.sharded.manifest import read_manifest
from graphsearch.store.sharded.saved_waves import saves_of
from graphsearch.store.store import Store
from graphsearch.store.upkeep.verify import verify

from ...support.clusters import ThreadLauncher, endless_until_lost, records_of, use
from ...support.reference import HashEvaluator

MOVES = tuple(map(chess.Move.from_uci, ("a2a3", "e2e4")))


def job_of(visits: int, **more: Any) -> SearchJob:
    return SearchJob(
        board=chess.Board(), limits=Limits(visits=visits), params=SearchParams(minibatch_size=64), **more
    )


@pytest.fixture
def lone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a new cluster of one shard that is searched in a thread of this process."""
    parting.new_cluster(tmp_path / "a.cluster", shards=1, identity=HashEvaluator.identity)
    use(monkeypatch, ThreadLauncher(), *[HashEvaluator() for _ in range(5)])
    monkeypatch.setattr(ShardSearch, "__init__", None)
    return tmp_path / "a.cluster"


def test_the_only_shard_makes_the_records_and_runs_of_a_search_of_one_file(
    tmp_path: Path, lone: Path
) -> None:
    one, seen = tmp_path / "one.graph", list[int]()
    with Graph.open(one, evaluator=HashEvaluator()) as graph:
        for moves in ((), MOVES, ()):
            job = job_of(300, searchmoves=moves)
            alone = analyze(graph, job.board, job.limits, job.params, searchmoves=moves)
            control = Control(on_progress=lambda progress: seen.append(progress.visits), interval=0.0)
            found = master.analyze(lone, job, control)
            assert found.result.node == alone.node
            counts = (found.result.new_visits, found.result.evaluations, found.result.stop_reason)
            assert counts == (alone.new_visits, alone.evaluations, alone.stop_reason)
            assert found.shards[0].traffic.steps == 0
    assert records_of(files_of(lone)) == records_of([one])
    runs = [[(run.id, run.visits, run.evaluations) for run in info(path).runs] for path in (one, lone)]
    assert runs[0] == runs[1]
    with Store.open(files_of(lone)[0], read_only=True) as store:
        assert saves_of(store)[0].run == 3
    assert verify(lone).ok


def test_shards_for_each_machine_are_one_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, ThreadLauncher(), *[HashEvaluator() for _ in range(2)])
    monkeypatch.setattr(master, "identity_of", lambda spec: HashEvaluator.identity)
    for _ in range(2):
        master.analyze(tmp_path / "new.cluster", job_of(50), shards=MACHINES)
    assert read_manifest(tmp_path / "new.cluster").shards == 1
    parting.new_cluster(tmp_path / "two.cluster", shards=2, identity=HashEvaluator.identity)
    use(monkeypatch, ThreadLauncher(), *[HashEvaluator() for _ in range(2)])
    assert len(master.analyze(tmp_path / "two.cluster", job_of(50), shards=MACHINES).shards) == 2


class Mortal(HashEvaluator):
    """Answers some batches."""

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        if self.calls == 5:
            raise EvaluatorError("the engine has died")
        return super().evaluate(batch)


def test_an_evaluator_that_fails_ends_the_search_saved(lone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paid = [Mortal(), HashEvaluator()]
    use(monkeypatch, ThreadLauncher(), *paid)
    with pytest.raises(EvaluatorError, match=r"^the engine has died; .* its results are saved \(shard 0 on"):
        master.analyze(lone, job_of(2000))
    assert len(records_of(files_of(lone))) >= len(paid[0].asked) > 0
    assert master.analyze(lone, job_of(500)).result.stop_reason == "visits"
    asked = [position for evaluator in paid for position in evaluator.asked]
    assert len(asked) == len(set(asked))
    assert verify(lone).ok


def test_a_search_of_the_only_shard_is_stopped_from_outside(
    lone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    monkeypatch.setattr("graphsearch.search.shards.lone.PROGRESS_SECONDS", 0.0)
    control = Control(on_progress=lambda _: stop.set(), interval=0.0, stop=stop)
    assert master.analyze(lone, job_of(10**9), control).result.stop_reason == "stop"
    assert verify(lone).ok


def test_a_killed_only_shard_costs_no_visit_that_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, killed = tmp_path / "a.cluster", list[int]()

    def kill(progress: Any) -> None:
        with Store.open(files_of(folder)[0], read_only=True) as store:
            saved = saves_of(store)[0].visits
        if not killed and saved:
            killed.append(int(attempts[0].places[0].rpartition(" ")[2]))
            os.kill(killed[0], signal.SIGKILL)

    attempts: list[Any] = []
    started = master.Shards.started

    def noted(shards: master.Shards) -> Any:
        found = started(shards)
        attempts.append(found[0])
        return found

    monkeypatch.setattr(master.Shards, "started", noted)
    endless_until_lost(monkeypatch)
    lines: list[str] = []
    found = master.analyze(
        folder,
        job_of(5000, save_seconds=0.1),
        Control(on_progress=kill, on_loss=lines.append, interval=0.05),
        evaluator=EvaluatorSpec(evaluator="uniform"),
        shards=1,
    )
    assert len(killed) == len(found.losses) == len(lines) == 1
    assert found.result.stop_reason == "visits"
    assert found.result.new_visits >= 5000
    assert verify(folder).ok
