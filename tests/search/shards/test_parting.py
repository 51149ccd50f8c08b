"""A file made a cluster, and a cluster made a file, hold the same; both give the same answers."""

from __future__ import annotations

import threading
from pathlib import Path

import chess
import numpy as np
import pytest
from numpy.typing import NDArray

from graphsearch import Graph, Limits, analyze
from graphsearch.base.errors import ShardLostError, StoreError
from graphsearch.position.board import key_of, pack
from graphsearch.search.shards import parting
from graphsearch.search.shards.memory import ShardContext
from graphsearch.search.shards.mesh import Mesh, Talk
from graphsearch.search.shards.wave import ShardWaves
from graphsearch.store.info import info
from graphsearch.store.segments import keys_of
from graphsearch.store.sharded.files import files_of
from graphsearch.store.sharded.ownership import even_owners, owner_of, owners_of, virtual_shard
from graphsearch.store.store import Store
from graphsearch.store.upkeep.verify import verify

from ...support.clusters import records_of


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "one.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(visits=1500))
    return path


@pytest.fixture(scope="module")
def cluster(one: Path) -> Path:
    folder = one.parent / "a.cluster"
    parting.split(one, folder, shards=3)
    return folder


def test_the_owner_follows_from_the_key_alone() -> None:
    board = chess.Board()
    by_hand = ((key_of(board) * 0x9E3779B97F4A7C15) % (1 << 64)) // (1 << 52)
    assert virtual_shard(key_of(board)) == by_hand
    for shards in (1, 2, 7, 256):
        owners = even_owners(shards)
        assert owner_of(board, owners) == by_hand * shards // 4096
        counts = np.bincount(owners, minlength=shards)
        assert counts.max() - counts.min() <= 1


def test_split_and_merge_keep_every_record_and_table(one: Path, cluster: Path, tmp_path: Path) -> None:
    before = records_of([one])
    assert records_of(files_of(cluster)) == before
    for number, file in enumerate(files_of(cluster)):
        with Store.open(file, read_only=True) as store:
            for batch in store.scan():
                assert (owners_of(keys_of(batch.words), even_owners(3)) == number).all()
    again = tmp_path / "again.graph"
    report = parting.merge(cluster, again)
    assert records_of([again]) == before
    assert (report.nodes, verify(again).ok, verify(cluster).ok) == (len(before), True, True)
    facts, old = info(again).as_dict(), info(one).as_dict()
    assert [facts[name] for name in ("nodes", "evaluators", "runs", "roots")] == [
        old[name] for name in ("nodes", "evaluators", "runs", "roots")
    ]


def test_verify_finds_a_record_that_lies_with_the_wrong_shard(cluster: Path, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(cluster, tmp_path / "b.cluster"))
    first, second = files_of(folder)[:2]
    with Store.open(first, read_only=True) as source, Store.open(second) as target:
        target.append(next(iter(source.scan())).part(0, 1), fresh=1)
    report = verify(folder)
    assert report.found == 1
    assert "belongs to another shard" in report.problems[0]


def test_a_cluster_is_not_split_into_itself(cluster: Path) -> None:
    with pytest.raises(StoreError, match="is a cluster already"):
        parting.split(files_of(cluster)[0], cluster, shards=2)


# ------------------------------------------------------------------ connections
def connected(tokens: list[bytes], seconds: float = 120.0) -> tuple[list[Mesh], list[BaseException | None]]:
    meshes = [Mesh(number, len(tokens), token, "127.0.0.1") for number, token in enumerate(tokens)]
    errors: list[BaseException | None] = [None] * len(tokens)

    def connect(number: int) -> None:
        try:
            meshes[number].connect([mesh.address for mesh in meshes], seconds=seconds)
        except BaseException as error:
            errors[number] = error

    threads = [threading.Thread(target=connect, args=(number,)) for number in range(len(tokens))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return meshes, errors


def keys_in_a_ring(mesh: Mesh, number: int, keys: int) -> Talk[NDArray[np.uint64]]:
    """Sends so many keys to the next of three shards, twice; returns those of the one before."""
    place = ShardContext(
        number=number, shards=3, owners=even_owners(3), leader=(number + 1) % 3, connections=mesh.connections
    )
    with Graph.open(None, evaluator="uniform") as graph:
        waves = ShardWaves(graph, pack(chess.Board()), keys // 16, place)
        waves.wave.candidates[:keys] = np.arange(keys) + number
        for _ in range(2):
            yield from waves.exchange_headers(keys=keys - number)
        waves.close()
        return waves.keys_of_all(np.zeros(0, np.int64)).astype(np.uint64)


def test_messages_larger_than_any_buffer_cross_without_waiting_for_each_other() -> None:
    meshes, errors = connected([b"secret"] * 3)
    assert errors == [None] * 3
    found: dict[int, NDArray[np.uint64]] = {}

    def talk(number: int) -> None:
        found[number] = meshes[number].run(keys_in_a_ring(meshes[number], number, 1 << 20))

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(3):
        sender = (number - 1) % 3
        assert (found[number] == np.arange(sender, 1 << 20)[::-1]).all()
    meshes[1].close()
    with pytest.raises(ShardLostError, match="shard 1 is lost"):
        meshes[0].run(keys_in_a_ring(meshes[0], 0, 1 << 10))
    for mesh in meshes:
        mesh.close()


def test_who_does_not_know_the_token_is_not_let_in() -> None:
    meshes, errors = connected([b"secret", b"another"], seconds=2.0)
    assert all(isinstance(error, ShardLostError) for error in errors)
    for mesh in meshes:
        mesh.close()
