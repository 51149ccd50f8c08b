"""Others at the same file: a second writer, ten readers, one who reads the same old state for long."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.store.store import Store
from graphsearch.store.upkeep.verify import verify

from ..conftest import Cli


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
