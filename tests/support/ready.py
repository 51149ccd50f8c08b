"""What tasks of the page need, imported and loaded once: `tests/web/conftest.py` forks them from it."""

import tempfile
from pathlib import Path

import chess

from graphsearch import Graph, Limits, analyze
from graphsearch.web import task_queue as task_queue

with tempfile.TemporaryDirectory() as folder, Graph.open(Path(folder) / "a.graph") as graph:
    analyze(graph, chess.Board(), Limits(visits=30))
