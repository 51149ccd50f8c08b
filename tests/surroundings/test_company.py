"""Others at the same file: a second writer, ten readers, one who reads the same old state for long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze, show
from graphsearch.query.moves import moves
from graphsearch.store.store import Store
from graphsearch.store.upkeep.backup import backup
from graphsearch.store.upkeep.compact import compact
from graphsearch.store.upkeep.verify import verify

from ..conftest import Cli

READERS = 10


@pytest.mark.parametrize(
    "command",
    [
        ("analyze", "startpos", "--visits", 5, "--store"),
        ("mate", "startpos", "--visits", 5, "--store"),
        ("import", "{pgn}", "--store"),
        ("lab", "refresh"),
        ("store", "compact"),
        ("store", "compact", "--min-visits", 2),
        ("reevaluate", "--evaluator", "uniform"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_second_writer_is_refused_in_one_line(
    cli: Cli, small_graph: Path, command: tuple[object, ...]
) -> None:
    pgn = small_graph.with_name("a.pgn")
    pgn.write_text("1. e4 e5 *\n")
    with Store.open(small_graph):
        outcome = cli(*(str(word).format(pgn=pgn) for word in command), small_graph)
    assert outcome.code == 1
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("graphsearch: ")]
    assert f"{small_graph} is being written by process" in line


@contextmanager
def read_by_many(path: Path, read: Callable[[Path], object]) -> Iterator[None]:
    """Reads in ten threads, each with files of its own, again and again; fails if one of them does."""
    failures: list[BaseException] = []
    is_over = threading.Event()
    counts = [0] * READERS

    def work(number: int) -> None:
        try:
            while not is_over.is_set() or not counts[number]:
                read(path)
                counts[number] += 1
                is_over.wait(0.2)  # ten that do nothing else would leave the writer no time
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(READERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert min(counts) > 0


def read_a_little(path: Path) -> None:
    """Reads as `show` and `lab moves` do; what is known never becomes less."""
    node = show(path, chess.Board())
    assert node is not None
    assert node.visits >= 300
    answer = moves(path, chess.Board())
    assert answer is not None


def test_ten_readers_through_a_search_a_compact_and_a_backup(small_graph: Path, tmp_path: Path) -> None:
    with read_by_many(small_graph, read_a_little):
        with Graph.open(small_graph) as graph:
            for _ in range(4):
                analyze(graph, chess.Board(), Limits(visits=300), SearchParams(minibatch_size=16))
        compact(small_graph)
        backup(small_graph, tmp_path / "copy.graph")
    nodes = verified(small_graph)
    assert nodes == verified(tmp_path / "copy.graph") > 1000


def verified(path: Path) -> int:
    assert verify(path).ok
    with Store.open(path, read_only=True) as store:
        return store.node_count


def test_a_state_that_is_read_for_long_stays_while_a_search_goes_on(small_graph: Path) -> None:
    with Store.open(small_graph, read_only=True) as reader, reader.snapshot():
        before = sum(map(len, reader.scan()))
        with Graph.open(small_graph) as graph:
            for _ in range(5):
                analyze(graph, chess.Board(), Limits(visits=200))
        assert sum(map(len, reader.scan())) == before
    assert verified(small_graph) > before
    with Store.open(small_graph):
        pass
    assert not small_graph.with_name("small.graph-wal").exists(), "the last one to leave folds the log in"
