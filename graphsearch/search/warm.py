"""The one cold compile on two cores: what a search needs later compiles in a process of its own beside it.

What saves is needed after the first seconds, and waited for; what evicts and reads back only when memory is
full, so that may still compile while the search runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import chess

from ..graph.arena import Arena
from ..graph.graph import Graph
from ..jit.compiler import is_compiled, mark_compiled
from ..position.board import legal_moves, pack
from ..record.node import UNPROVEN, Edge, NodeRecord, RecordBatch, prior_code
from ..record.provenance import EvaluatorIdentity
from ..store.store import Store
from .waves import THREAD_FROM, WaveRunner

FILE, PAGING = "file", "paging"


@contextmanager
def file_kernels_compiling() -> Iterator[None]:
    """Compiles what saves in another process while the body runs, and waits for it then."""
    process = _start(FILE)
    try:
        yield
    except BaseException:
        process.terminate()
        raise
    finally:
        process.wait()  # whatever it left undone is compiled when it is needed


@contextmanager
def paging_kernels_compiling() -> Iterator[None]:
    """Compiles what evicts and reads back in another process, if need be, until the body ends."""
    if is_compiled(PAGING):
        yield
        return
    process = _start(PAGING)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _start(what: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "graphsearch.search.warm", what]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)  # noqa: S603


def compile_file_kernels() -> None:
    """Saves a record to a file that is then thrown away."""
    board = chess.Board()
    moves = legal_moves(board)
    words = tuple(int(word) for word in pack(board))
    codes = bytes([prior_code(1 / len(moves))] * len(moves))
    batch = RecordBatch.from_records(
        [NodeRecord(words=words, v=0.0, d=0, evaluator=1, flags=UNPROVEN, codes=codes, edges=(Edge(2, 1),))]
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "warm.graph"
        with Store.open(path, identity=EvaluatorIdentity("warm"), create=True) as store:
            store.append(
                RecordBatch.concat([batch, batch]), fresh=1
            )  # of two with one position the later one
    arena = Arena()
    arena.end_saving(arena.begin_saving())


def compile_paging_kernels() -> None:
    """Searches a little, drops all that it knows, and goes on from the file, which is then thrown away."""
    board = chess.Board()
    with tempfile.TemporaryDirectory() as folder, Graph.open(Path(folder) / "warm.graph") as graph:
        runner = WaveRunner(graph, pack(board), THREAD_FROM)
        for _ in range(2):
            graph.pager.start_over()  # from here on nothing is taken to be in memory
            for _ in range(8):
                runner.step(THREAD_FROM, THREAD_FROM)
            graph.flush()
        graph.read(board)
        runner.close()
    mark_compiled(PAGING)


if __name__ == "__main__":
    if sys.argv[1:] == [PAGING]:
        os.nice(10)  # the search beside it goes first
        compile_paging_kernels()
    else:
        compile_file_kernels()
