"""What is wrong with a cluster, a machine or an evaluator is one line that names it, and nothing is lost."""

from __future__ import annotations

import os
import re
import shutil
import socket
import struct
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams
from graphsearch.base.errors import EvaluatorError, GraphSearchError, InvalidParameterError, StoreError
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.search.job import SearchJob
from graphsearch.search.shards import attempt, host, master, mesh, parting
from graphsearch.search.shards.connections_kernel import SOCKET
from graphsearch.search.shards.host import Setting
from graphsearch.search.shards.master import ATTEMPTS
from graphsearch.search.shards.memory import ShardContext
from graphsearch.search.shards.mesh import Talk
from graphsearch.search.shards.session import ShardSearch
from graphsearch.store.lock import WriteLock
from graphsearch.store.sharded.files import files_of
from graphsearch.store.sharded.manifest import NAME
from graphsearch.store.sharded.saved_waves import saves_of
from graphsearch.store.store import Store
from graphsearch.store.upkeep.verify import verify

from ...support.clusters import ThreadLauncher, records_of, search_shards, use
from ...support.pools import children, is_alive, run_script, until
from ...support.reference import HashEvaluator

PARAMS = SearchParams(overlap=0, minibatch_size=64, max_wave_share=1.0)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("searched") / "a.cluster"
    parting.new_cluster(folder, shards=2, identity=HashEvaluator.identity)
    search_shards(folder, HashEvaluator(), chess.Board(), 2, Limits(visits=200), overlap=0, minibatch_size=64)
    return folder


@pytest.fixture
def cluster(searched: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(searched, tmp_path / "a.cluster"))


def job_of(visits: int) -> SearchJob:
    """Returns a search that saves at its end alone: after each save it has all attempts again."""
    return SearchJob(board=chess.Board(), limits=Limits(visits=visits), params=PARAMS, save_seconds=1000.0)


def search(folder: Path, visits: int) -> Any:
    return master.analyze(folder, job_of(visits))


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


# ------------------------------------------------------------------ evaluators that fail
class Mortal(HashEvaluator):
    """Answers some batches."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.batches = batches

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        if self.calls == self.batches:
            raise EvaluatorError("the engine has died")
        return super().evaluate(batch)


@pytest.mark.parametrize(("shards", "batches"), [(2, 0), (2, 7), (1, 5)])
def test_an_evaluator_that_fails_ends_the_search_saved_and_no_evaluation_is_paid_for_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int, batches: int
) -> None:
    folder = tmp_path / "a.cluster"
    paid = [Mortal(batches), *(HashEvaluator() for _ in range(3))]
    parting.new_cluster(folder, shards=shards, identity=HashEvaluator.identity)
    use(monkeypatch, ThreadLauncher(), *paid)
    line = r"^the engine has died; the search ended, and its results are saved \(shard \d on .*, process"
    with pytest.raises(EvaluatorError, match=line):
        search(folder, 1200)
    assert verify(folder).ok
    found = records_of(files_of(folder))
    assert len(found) >= sum(len(evaluator.asked) for evaluator in paid) >= batches
    numbers = set()
    for file in files_of(folder):
        with Store.open(file, read_only=True) as store:
            numbers.add(saves_of(store)[0].number)
    assert len(numbers) == 1
    assert search(folder, 500).result.stop_reason == "visits"
    asked = [position for evaluator in paid for position in evaluator.asked]
    assert len(asked) == len(set(asked))
    assert verify(folder).ok


def test_an_evaluator_that_cannot_be_made_on_one_machine_is_named_and_nothing_written(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(spec: object) -> Any:
        raise EvaluatorError("the network net.pb.gz cannot be read: No such file or directory")

    use(monkeypatch, ThreadLauncher())
    monkeypatch.setattr(host, "create", fail)
    before = bytes_of(cluster)
    with pytest.raises(EvaluatorError, match=r"^the network net.pb.gz cannot be read.* \(shard \d on .*\)$"):
        search(cluster, 10)
    assert bytes_of(cluster) == before


# ------------------------------------------------------------------ machines that do not fit
Change = Callable[[Setting], Setting]
MACHINES: dict[str, tuple[Change, str, Any, str]] = {
    "folder": (partial(replace, folder="/no/such"), "", HashEvaluator, "/no/such cannot be reached; put the"),
    "another cluster": (partial(replace, cluster="0" * 32), "", HashEvaluator, "is another cluster here"),
    "evaluator": (replace, "", UniformEvaluator, "another evaluator: evaluator hash there, uniform here"),
    "version": (replace, "0.0.1", HashEvaluator, "install the same version on all machines"),
}


@pytest.mark.parametrize(("change", "version", "evaluator", "line"), MACHINES.values(), ids=MACHINES)
def test_a_machine_that_does_not_fit_is_named_with_the_remedy_and_nothing_is_written(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, change: Change, version: str, evaluator: Any, line: str
) -> None:
    use(monkeypatch, ThreadLauncher(change), evaluator(), evaluator())
    if version:
        monkeypatch.setattr(attempt, "__version__", version)
    before = bytes_of(cluster)
    with pytest.raises(GraphSearchError) as found:
        search(cluster, 10)
    assert line in str(found.value)
    assert re.search(r" \(shard \d on .*, process \d+\)$", str(found.value))
    assert "\n" not in str(found.value)
    assert bytes_of(cluster) == before


class FullLauncher(ThreadLauncher):
    """Has no room: nothing that is started answers."""

    patience, advice = 0.01, "make room"

    def start(self, setting: Setting) -> Any:
        return SimpleNamespace(call=lambda *_: Future[Any](), kill=lambda: None)


def test_shards_that_do_not_start_end_the_search_after_a_time(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, FullLauncher())
    with pytest.raises(StoreError, match="shard 0 has not started in 0 s; make room"):
        search(cluster, 10)


# ------------------------------------------------------------------ messages that are none
class Spoiled(ShardSearch):
    """A shard that knows the token, and whose third wave begins with other bytes than a message."""

    bytes, closes, waves = b"", False, 0

    def _wave(self, allowed: int, *, knows_root: bool) -> Talk[None]:
        self.waves += 1
        if self.waves == 3:
            with socket.socket(fileno=os.dup(int(self._place.connections[0, SOCKET]))) as connection:
                connection.sendall(self.bytes)
                if self.closes:
                    connection.shutdown(socket.SHUT_RDWR)
            while True:
                yield  # until the search is given up
        yield from super()._wave(allowed, knows_root=knows_root)


HEADER = 8 * 8  # bytes
MESSAGES = {
    "a header of zeros": (bytes(HEADER), False, r"^shard 1 sent a message that is not of step .* are saved"),
    "text": (b"GET / HTTP/1.1\r\n" * 8, False, r"^shard 1 is lost: it sends \d+ words at once"),
    "half a header": (bytes(HEADER // 2), True, r"^shard 1 is lost: it has closed the connection"),
    "nothing behind a header": (struct.pack("<Q56x", 9 << 32), True, r"^shard 1 is lost: .* closed"),
}


@pytest.mark.parametrize(("message", "closes", "line"), MESSAGES.values(), ids=MESSAGES)
def test_what_is_no_message_ends_the_search_saved_and_its_sender_is_named(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, message: bytes, closes: bool, line: str
) -> None:
    def shard(graph: Graph, job: SearchJob, place: ShardContext, *others: Any, **more: Any) -> ShardSearch:
        return (Spoiled if place.number else ShardSearch)(graph, job, place, *others, **more)

    before = records_of(files_of(cluster))
    use(monkeypatch, ThreadLauncher(), *[HashEvaluator() for _ in range(2 * ATTEMPTS)])
    monkeypatch.setattr(host, "ShardSearch", shard)
    monkeypatch.setattr(mesh, "LOOK_UP_SECONDS", 0.02)
    monkeypatch.setattr(Spoiled, "bytes", message)
    monkeypatch.setattr(Spoiled, "closes", closes)
    with pytest.raises(GraphSearchError, match=line) as found:
        search(cluster, 1000)
    assert "the search ended, and " in str(found.value)
    assert "\n" not in str(found.value)
    assert verify(cluster).ok
    assert records_of(files_of(cluster)).keys() >= before.keys()
    monkeypatch.setattr(host, "ShardSearch", ShardSearch)
    use(monkeypatch, ThreadLauncher(), HashEvaluator(), HashEvaluator())
    assert search(cluster, 100).losses == []


# ------------------------------------------------------------------ files that do not fit
def put_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


FILES: list[tuple[Callable[[Path], object], str]] = [
    (lambda file: file.write_bytes(file.read_bytes()[:5000]), "damaged"),
    (lambda file: file.write_bytes(b"no graph file at all" * 500), "is not a graph file"),
    (lambda file: file.write_bytes(b""), "is empty, not a graph file"),
    (put_a_folder, "is not a file; move it away"),
    (Path.unlink, "is missing; restore it, or have it made empty with `graphsearch lab mend"),
]


@pytest.mark.parametrize(("damage", "line"), FILES)
def test_a_damaged_file_is_named_before_any_process_is_started(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object], line: str
) -> None:
    damage(cluster / "shard-001.graph")
    use(monkeypatch, None)
    before = bytes_of(cluster)
    with pytest.raises(StoreError, match=line) as found:
        search(cluster, 10)
    assert "shard-001.graph" in str(found.value)
    assert "\n" not in str(found.value)
    assert bytes_of(cluster) == before


def test_what_cannot_be_begun_leaves_no_new_cluster_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong, kind, line in (
        ({"shards": 257}, InvalidParameterError, "shards must be 1 to 256"),
        ({"shards": 2, "pool": "ray:nowhere"}, InvalidParameterError, "HOST:PORT or auto"),
        ({"shards": 2, "pool": "nowhere"}, InvalidParameterError, "local, ray or ray:ADDRESS"),
        ({"shards": 2, "pool": "ray:127.0.0.1:1"}, EvaluatorError, "no Ray cluster answers"),
    ):
        with pytest.raises(kind, match=line):
            master.analyze(tmp_path / "new", job_of(9), **wrong)
        assert list(tmp_path.iterdir()) == []
    use(monkeypatch, ThreadLauncher())
    monkeypatch.setattr(host, "create", lambda spec: 1 / 0)
    with pytest.raises(EvaluatorError, match="division by zero"):
        master.analyze(tmp_path / "new", job_of(9), shards=2)
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_is_searched_is_not_mended(cluster: Path) -> None:
    (cluster / "shard-000.graph").unlink()
    lock = WriteLock(cluster / NAME)
    with pytest.raises(StoreError, match="is being written by process"):
        parting.mend(cluster)
    lock.release()
    assert parting.mend(cluster) == [0]
    assert sorted(file.name for file in cluster.iterdir()) == [NAME, "shard-000.graph", "shard-001.graph"]
    assert all(verify(file).ok for file in files_of(cluster))


# ------------------------------------------------------------------ processes
SCRIPT = """
import sys
import chess
from graphsearch import SearchParams
from graphsearch.search.job import Control, SearchJob
from graphsearch.search.shards import master
from graphsearch.evaluators.factory import EvaluatorSpec

if __name__ == "__main__":
    uniform, params = EvaluatorSpec(evaluator="uniform"), SearchParams(minibatch_size=128)
    folder, control = sys.argv[0] + ".cluster", Control(on_ready=lambda: print("ready", flush=True))
    job = SearchJob(board=chess.Board(), params=params)
    master.analyze(folder, job, control, evaluator=uniform, shards=2)
"""


@pytest.mark.slow
def test_shards_end_with_a_master_that_is_killed_and_the_next_one_may_search(tmp_path: Path) -> None:
    process = run_script(tmp_path / "a.py", SCRIPT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()
        shards = children(process.pid)
        assert len(shards) >= 2
    finally:
        process.kill()
    until(lambda: not any(is_alive(shard) for shard in shards))
    process.communicate()
    folder = tmp_path / "a.py.cluster"
    assert verify(folder).ok
    uniform = EvaluatorSpec(evaluator="uniform")
    assert master.analyze(folder, job_of(10), evaluator=uniform).losses == []
