"""What is lost, and what is not: files go back to one save, and a killed search goes on to the same end."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import EvaluatorError, StoreError
from graphsearch.evaluators.factory import EvaluatorSpec, create
from graphsearch.search.job import Control, SearchJob
from graphsearch.search.shards import attempt, master, parting
from graphsearch.search.shards.host import Setting
from graphsearch.store.sharded.files import files_of, open_to_read
from graphsearch.store.sharded.manifest import read_manifest
from graphsearch.store.sharded.ownership import even_owners, owner_of
from graphsearch.store.sharded.saved_waves import go_back, saves_of
from graphsearch.store.store import Store
from graphsearch.store.upkeep.compact import compact
from graphsearch.store.upkeep.verify import verify
from graphsearch.workers.launcher import Launcher, launcher_for
from graphsearch.workers.ray_workers import ENVIRONMENT, RayLauncher

from ...support.clusters import endless_until_lost, records_of, search_shards
from ...support.ray_clusters import shut_down

UNIFORM = EvaluatorSpec(evaluator="uniform")
JOB = SearchJob(board=chess.Board(), limits=Limits(visits=10))
PARAMS: dict[str, Any] = {"overlap": 0, "minibatch_size": 128}


@pytest.fixture
def cluster(_searched: Path, tmp_path: Path) -> Path:
    """A cluster of three shards that was searched, and saved once."""
    return shutil.copytree(_searched, tmp_path / "a.cluster")


@pytest.fixture(scope="module")
def _searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lost") / "a.cluster"
    evaluator = create(UNIFORM)
    parting.new_cluster(folder, shards=3, identity=evaluator.identity)
    search_shards(folder, evaluator, chess.Board(), 3, Limits(visits=2000), crashes=True, **PARAMS)
    return folder


def search_on(folder: Path, *, run: int, save: int) -> None:
    options: dict[str, Any] = {"run": run, "save": save, "crashes": True} | PARAMS
    search_shards(folder, create(UNIFORM), chess.Board(), 3, Limits(visits=500), **options)


def test_files_go_back_to_the_last_save_that_all_have(cluster: Path, tmp_path: Path) -> None:
    first = records_of(files_of(cluster))
    behind = files_of(cluster)[1]
    kept = shutil.copytree(cluster, tmp_path / "kept")
    search_on(cluster, run=2, save=1)
    assert records_of(files_of(cluster)) != first
    second = records_of(files_of(cluster))
    shutil.copy(kept / behind.name, behind)  # as if it had been killed before its second save
    save, gone_back = go_back(cluster, read_manifest(cluster))
    assert (save.number, save.visits, gone_back) == (1, 2077, [0, 2])
    assert records_of(files_of(cluster)) == first
    assert verify(cluster).ok
    search_on(cluster, run=2, save=save.number)
    assert records_of(files_of(cluster)) == second


def test_a_file_that_was_compacted_meanwhile_does_not_go_back(cluster: Path, tmp_path: Path) -> None:
    behind = files_of(cluster)[1]
    kept = shutil.copy(behind, tmp_path / "kept")
    search_on(cluster, run=2, save=1)
    for file in files_of(cluster):
        compact(file)
    shutil.copy(kept, behind)
    nodes = [Store.open(file, read_only=True).node_count for file in files_of(cluster)]
    assert go_back(cluster, read_manifest(cluster))[1] == []
    assert [Store.open(file, read_only=True).node_count for file in files_of(cluster)] == nodes
    assert verify(cluster).ok


def test_a_missing_shard_is_made_anew_and_its_positions_evaluated_again(cluster: Path) -> None:
    lost = (owner_of(chess.Board(), even_owners(3)) + 1) % 3
    file = files_of(cluster)[lost]
    before = records_of(files_of(cluster))
    file.unlink()
    with pytest.raises(StoreError, match=rf"shard {lost}, shard-00{lost}.graph, is missing.*lab mend"):
        go_back(cluster, read_manifest(cluster))
    assert parting.mend(cluster) == [lost]
    assert parting.mend(cluster) == []
    with Store.open(file) as store:
        assert saves_of(store)[0].number == 1
    search_on(cluster, run=2, save=1)
    assert verify(cluster).ok
    assert 0 < len(records_of([file])) < len(before)
    with open_to_read(cluster) as whole:
        record = whole.read(chess.Board())
    assert record is not None
    assert record.visits >= 2500


# ------------------------------------------------------------------ files that do not belong together
def refused(folder: Path) -> str:
    with pytest.raises(StoreError) as found:
        master.analyze(folder, JOB, evaluator=UNIFORM)
    assert "\n" not in str(found.value)
    return str(found.value)


def test_a_shard_twice_and_a_foreign_file_are_refused_by_name(cluster: Path, tmp_path: Path) -> None:
    files = files_of(cluster)
    kept = shutil.copy(files[1], tmp_path / "kept")
    shutil.copy(files[0], files[1])
    assert "should be shard 1 of 3 of cluster" in refused(cluster)
    assert "is shard 0 of 3 of cluster" in refused(cluster)
    files[1].unlink()
    with Graph.open(files[1], evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(visits=5), SearchParams())
    assert "is a graph file of no cluster" in refused(cluster)
    shutil.copy(kept, files[1])
    assert not verify(cluster).found
    assert not verify(files[0]).found


def test_another_number_of_shards_is_refused(cluster: Path) -> None:
    with pytest.raises(StoreError, match="has 3 shards, not 4"):
        master.analyze(cluster, JOB, evaluator=UNIFORM, shards=4)


# ------------------------------------------------------------------ processes
@pytest.fixture
def ray_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Returns the pool of a Ray cluster that no other test joins."""
    pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
    from ray.cluster_utils import Cluster

    for name, value in (ENVIRONMENT | {"RAY_AUTH_MODE": "disabled"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(RayLauncher, "patience", 250.0)  # its actors start slowly on a busy machine
    node = {"num_cpus": 2, "object_store_memory": 80_000_000, "include_dashboard": False}
    found: Any = Cluster(initialize_head=True, head_node_args=node)
    yield f"ray:{found.address}"
    shut_down(found)


@pytest.mark.parametrize(("pool", "shards"), [("local", 2), pytest.param("ray", 2, marks=pytest.mark.slow)])
def test_a_killed_shard_costs_no_visit_that_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, pool: str, shards: int
) -> None:
    where = request.getfixturevalue("ray_pool") if pool == "ray" else None
    folder, params = tmp_path / "a.cluster", SearchParams(overlap=0, minibatch_size=128)
    started, killed = list[attempt.ShardProcess](), list[int]()
    start = attempt.ShardProcess

    def noted(launcher: Launcher, setting: Setting) -> attempt.ShardProcess:
        started.append(start(launcher, setting))
        return started[-1]

    def kill(progress: Any) -> None:
        if not killed and min(map(saved_visits, files_of(folder))) > 0:
            killed.append(int(started[-1].place.rpartition(" ")[2]))
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(attempt, "ShardProcess", noted)
    endless_until_lost(monkeypatch)
    lines: list[str] = []
    found = master.analyze(
        folder,
        SearchJob(board=chess.Board(), limits=Limits(visits=600), params=params, save_seconds=0.1),
        Control(on_progress=kill, on_loss=lines.append, interval=0.05),
        evaluator=UNIFORM,
        shards=shards,
        pool=where,
    )
    assert len(started) == 2 * shards, "killed once, started again"
    assert [line.split(";")[0] for line in lines] == found.losses
    assert re.fullmatch(r"shard \d is lost: .* \(.*, process \d+\)", found.losses[0])
    assert found.result.stop_reason == "visits"
    with Graph.open(tmp_path / "one.graph", evaluator="uniform") as graph:
        alone = analyze(graph, chess.Board(), Limits(visits=found.result.new_visits), params)
    assert records_of(files_of(folder)) == records_of([tmp_path / "one.graph"])
    assert found.result.evaluations == alone.evaluations
    if where:
        with pytest.raises(EvaluatorError, match="the Ray cluster has 2 CPUs, and 3 processes need one each"):
            launcher_for(where, 3, all_at_once=True)


def saved_visits(file: Path) -> int:
    with Store.open(file, read_only=True) as store:
        return saves_of(store)[0].visits
