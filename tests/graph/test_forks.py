"""A graph after a fork: a child can neither search nor harm the file of its parent."""

from __future__ import annotations

from pathlib import Path

import chess

from graphsearch.base.errors import StoreError
from graphsearch.graph.graph import Graph
from graphsearch.search.loop import analyze
from graphsearch.search.params import Limits
from graphsearch.store.store import Store

from ..support.forks import Fork, Say, needs_fork


@needs_fork
def test_a_child_is_refused_a_graph_opened_before_the_fork_and_leaves_its_file_alone(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    with Graph.open(path) as graph:
        analyze(graph, board, Limits(visits=20))

        def search(say: Say) -> None:
            try:
                with graph:
                    analyze(graph, board, Limits(visits=20))
            except StoreError as error:
                say(error)
            graph.close()
            say("closed")

        with Fork(search) as child:
            assert child.line() == f"{path} was opened before a fork; open it again in this process"
            assert child.line() == "closed"
        assert analyze(graph, board, Limits(visits=20)).visits == 40
    with Store.open(path, read_only=True) as store:
        assert store.runs()[-1].visits == 20


@needs_fork
def test_a_child_can_search_a_graph_in_memory(tmp_path: Path) -> None:
    board = chess.Board()
    with Graph.open(None) as graph:
        analyze(graph, board, Limits(visits=20))
        with Fork(lambda say: say(analyze(graph, board, Limits(visits=20)).visits)) as child:
            assert child.line() == "40"
        assert analyze(graph, board, Limits(visits=20)).visits == 40
