"""Compiles the kernels of a first search on two cores: another process compiles beside the search's.

    the search's process | find mates, evaluate | search ...              | save
    one beside it        | make visits          | save, answer questions |
    one behind them                             | evict, page, other commands ...

The search begins before the kernels that save are compiled; if it ends so soon, it compiles the missing ones
itself. A process waits for a kernel that another is compiling. Eviction and paging, which only large graphs
need, and the kernels of other commands compile at the lowest priority, also after the search.
"""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import filterfalse
from pathlib import Path
from typing import Any

import chess
import numpy as np

from ..base.system import LOWEST, end_at_once, give_way, has_low_priority, own_group
from ..evaluators.inside import OUTSIDE, purpose_of
from ..evaluators.protocol import Evaluator, PositionBatch
from ..evaluators.uniform import UniformEvaluator
from ..graph.arena import MIN_TABLE, Arena
from ..graph.graph import Graph
from ..graph.saving import DirtyRecords
from ..jit.cache import COMPILING, say_once
from ..jit.compiler import PLACES, is_compiled, mark_compiled
from ..position.board import legal_moves, pack
from ..position.board_kernel import list_all, list_moves, make_steps
from ..position.tables import load_tables
from ..store.index_kernel import find_held, find_stored, no_filter
from ..store.provenance import EvaluatorIdentity
from ..store.record import UNPROVEN, Edge, NodeRecord, RecordBatch, prior_codes
from ..store.store import Store
from ..workers.process import end_with_parent, python_command
from .loop import analyze
from .params import Limits
from .waves import THREAD_FROM, WaveRunner

SEARCH, FILE, PAGING = "search", "file", "paging"
BACKGROUND = "background"  # the lock of the process that compiles after a search
KERNELS = {SEARCH: 13, OUTSIDE: 5}  # of a first search
PARTS = ("waves", "rest")  # of the kernels of other commands
COMMANDS = "graphsearch.cli.compile_kernels"  # executes those commands
MOST_SECONDS = 1200.0  # of a process that still compiles after the search
COMPILES_IN_BACKGROUND = "kernels of other commands are compiled in the background, once, for a minute or two"

_BESIDE: list[subprocess.Popen[bytes]] = []  # they end with this process
_LEFT: list[subprocess.Popen[bytes]] = []  # they may outlast it
_IS_ALONE = False


@contextmanager
def kernels_compiling(evaluator: Evaluator, *, filed: bool, told: bool) -> Iterator[None]:
    """Compiles the kernels of visits, which the body needs last, in another process; then those that save.

    Args:
      filed: whether the search saves. told: whether the user already knows of the compilation.
    """
    missing = _missing(evaluator, filed=filed)
    parts = [part for part in (SEARCH, FILE) if part in missing]
    if not parts:
        yield
        return
    if not told:
        say_once(COMPILING)
    process = _process("graphsearch.search.warm", *parts)
    _BESIDE.append(process)
    collected = gc.get_threshold()
    gc.set_threshold(0)  # never, as below
    try:
        yield
    except BaseException:
        process.terminate()
        raise
    finally:
        gc.set_threshold(*collected)


def kernels_missing(evaluator: Evaluator, *, filed: bool) -> int:
    """Returns the number of kernels still to be compiled for a search; if it is `filed`, 1 for its save."""
    return sum(KERNELS.get(part, 1) for part in _missing(evaluator, filed=filed))


def _missing(evaluator: Evaluator, *, filed: bool) -> list[str]:
    """Returns the purposes with kernels still to be compiled: first those that the search needs last."""
    parts = [*([FILE] if filed else []), purpose_of(evaluator), SEARCH]
    return [part for part in parts if not is_compiled(part)]


@contextmanager
def other_kernels_compiling() -> Iterator[None]:
    """Compiles eviction, paging and the kernels of other commands in a process of its own, if necessary.

    It may outlast the body, ends within `MOST_SECONDS`, and has the lowest priority and no signals of this
    terminal. A process of low priority starts none, nor one without a cache of kernels, nor one that compiles
    all of them itself (`compile_all_here`), nor one beside which another process compiles them.
    """
    _LEFT[:] = [process for process in _LEFT if process.poll() is None]
    is_done = all(map(is_compiled, (PAGING, *PARTS))) or not PLACES.own.path.is_dir()
    if not (is_done or _LEFT or _IS_ALONE or has_low_priority()):
        with PLACES.own.alone(BACKGROUND, wait=False) as is_free:
            pass  # it is for the new process
        if is_free:
            _LEFT.append(_process(COMMANDS, *PARTS, **own_group()))
    yield
    if any(process.poll() is None for process in _LEFT):
        logging.getLogger("graphsearch").warning(COMPILES_IN_BACKGROUND)


def compile_all_here() -> None:
    """Lets searches of this process start no other one for kernels that it compiles soon itself."""
    global _IS_ALONE
    _IS_ALONE = True


def _process(module: str, *parts: str, **options: Any) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(  # noqa: S603
        python_command(module, *parts), stdin=quiet, stdout=quiet, stderr=quiet, **options
    )


def compile_search_kernels() -> None:
    """Runs a short search, with an evaluator whose kernel is small, and enlarges a table."""
    Arena().expect(MIN_TABLE)
    with Graph.open(None, evaluator=UniformEvaluator()) as graph:
        analyze(graph, chess.Board(), Limits(visits=2))  # marks them as compiled


def compile_file_kernels() -> None:
    """Saves a record to a temporary file, and reads it as the next search and questions will."""
    board = chess.Board()
    moves, words = legal_moves(board), tuple(map(int, pack(board)))
    codes = prior_codes(np.full(len(moves), 1 / len(moves), np.float32)).tobytes()
    batch = RecordBatch.from_records(
        [NodeRecord(words=words, v=0.0, d=0, evaluator=1, flags=UNPROVEN, codes=codes, edges=(Edge(2, 1),))]
    )
    arena = Arena()
    saving = DirtyRecords(arena)  # of nothing; first what the search's end needs
    list(saving.copies())
    arena.list_log(np.zeros(0, np.int64))
    saving.end(saved=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder, "warm.graph"), identity=EvaluatorIdentity("warm"), create=True) as store,
    ):
        for fresh in (1, 0):  # the later of two records of one position, in one segment and in two
            store.append(RecordBatch.concat([batch, batch]), fresh=fresh)
        for loaded in store.scan():
            arena.load(loaded)
        store.read(board)  # as questions do
    _compile_small_kernels()
    mark_compiled(FILE)


def _compile_small_kernels() -> None:
    """Compiles small kernels of other commands, by calling them with nothing; alone each takes a second."""
    words, moves, indices = np.zeros(0, np.uint64), np.zeros(0, np.uint16), np.zeros(0, np.int64)
    small, bits, held = np.zeros(0, np.int16), np.zeros(0, np.uint8), np.zeros(0, bool)
    tables = load_tables()
    list_all(tables, words, np.zeros(1, np.int64), moves, bits)
    list_moves(tables, words, small, moves, bits)
    make_steps(tables, words, indices, moves, words, words)
    find_held(bits, words, held)
    find_stored(no_filter(), words, words, held)
    UniformEvaluator().evaluate(PositionBatch.from_boards([]))


def compile_paging_kernels() -> None:
    """Runs short searches, evicts their records, and continues from a temporary file; first with batch 1."""
    board = chess.Board()
    with tempfile.TemporaryDirectory() as folder, Graph.open(Path(folder) / "warm.graph") as graph:
        for batch in (1, THREAD_FROM):
            runner = WaveRunner(graph, pack(board), batch)
            for _ in range(2):
                graph.pager.start_over()  # from here on nothing counts as in memory
                graph.read(board)
                for _ in range(8):
                    runner.step(THREAD_FROM, THREAD_FROM)
                graph.flush()
            runner.close()
            graph.arena.evict(0, 0, [np.zeros(1, np.uint64)])  # beside a wave; no record is at 0
            graph.arena.shrink(0)
    mark_compiled(PAGING)


def compile_parts(*names: str) -> None:
    """Compiles parts by their names, except those that are compiled."""
    for name in filterfalse(is_compiled, names):
        {SEARCH: compile_search_kernels, FILE: compile_file_kernels, PAGING: compile_paging_kernels}[name]()


def go_to_background() -> None:
    """Makes this process one that compiles beside a search, which goes first."""
    limit = threading.Timer(MOST_SECONDS, end_at_once)
    limit.daemon = True
    limit.start()
    give_way(LOWEST)


if __name__ == "__main__":
    end_with_parent()  # a search that was killed needs no kernels
    gc.disable()  # the compiler makes little garbage; looking for it takes a seventh of the time
    compile_parts(*sys.argv[1:])
