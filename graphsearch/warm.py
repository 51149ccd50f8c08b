"""The one cold compile on two cores: what saves and loads compiles in its own process, beside the search."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import chess

from .arena import Arena
from .position import legal_moves, pack
from .provenance import EvaluatorIdentity
from .record import UNPROVEN, Edge, NodeRecord, RecordBatch, prior_code
from .store import Store


@contextmanager
def file_kernels_compiling() -> Iterator[None]:
    """Compiles what saves and loads in another process while the body runs, and waits for it then."""
    command = [sys.executable, "-m", "graphsearch.warm"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)  # noqa: S603
    try:
        yield
    except BaseException:
        process.terminate()
        raise
    finally:
        process.wait()  # whatever it left undone is compiled when it is needed


def compile_file_kernels() -> None:
    """Saves a record to a file that is then thrown away, and loads it again."""
    board = chess.Board()
    moves = legal_moves(board)
    words = tuple(int(word) for word in pack(board))
    codes = bytes([prior_code(1 / len(moves))] * len(moves))
    batch = RecordBatch.from_records([NodeRecord(words, 0.0, 0, 1, UNPROVEN, codes, (Edge(2, 1),))])
    arena = Arena()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "warm.graph"
        with Store.open(path, identity=EvaluatorIdentity("warm"), create=True) as store:
            store.append(batch, fresh=1)
            for loaded in store.scan():
                arena.load(loaded)
    arena.read(board)
    arena.end_saving(arena.begin_saving())


if __name__ == "__main__":
    compile_file_kernels()
