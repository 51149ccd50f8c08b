"""The figures of `graphsearch lab bench`: speed of moves, search and file, per CPU-second of the process."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import chess
import numpy as np

from graphsearch.base.errors import GraphSearchError
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.inside import Filler
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.graph.arena import Arena
from graphsearch.graph.arena_kernel import EVALUATIONS, VISITS
from graphsearch.graph.graph import Graph
from graphsearch.position.board import pack
from graphsearch.position.repeat_kernel import expand_many, make_many
from graphsearch.position.rules_kernel import perft
from graphsearch.search import wave_kernel
from graphsearch.search import waves_kernel as loop
from graphsearch.search.leaves import leaves_of
from graphsearch.search.loop import analyze
from graphsearch.search.params import Limits, SearchParams
from graphsearch.search.puct_kernel import set_params
from graphsearch.solvers.alphabeta.engine import AlphaBeta
from graphsearch.solvers.alphabeta.nodetypes.theory import minimal
from graphsearch.store.index.locate_kernel import no_filter
from graphsearch.store.record.transposition import EntryTable
from graphsearch.store.store import Store
from graphsearch.store.tables.unfinished import IMAGE
from graphsearch.workers.process import counters, python_command

Report = Callable[[str], None]

NODES = 1_000_000
BUILTIN_NODES = 100_000
WAVE = 1024
PERFT_DEPTH, SMALL_PERFT_DEPTH = 6, 4  # 119,060,324 and 197,281 positions
MIDDLEGAME = "r1bq1rk1/pp2bppp/2n2n2/2pp4/3P4/2NBPN2/PP3PPP/R1BQ1RK1 w - - 0 9"
FULL_DEPTH, SMALL_DEPTH = 8, 3  # of alpha-beta
TABLE_BYTES = 64 << 20
REPEATS = 5
PAIRS = 3  # of a search with a file and one without
NOTHING = wave_kernel.new_wave(1)  # in flight
STEP = 1 << 16  # visits between two checks of the node count
RATES = "visits", "evaluations"


def measure(report: Report = lambda _: None, *, nodes: int = NODES) -> dict[str, float | int]:
    """Returns the figures by the names of `graphsearch lab bench --json`.

    Rates and times are per CPU-second of the process; those of moves are medians of some repeats.

    Args:
      report: called with the name of the next measurement.
      nodes: size of the graph for the figures of search, RAM and file.
    """
    figures: dict[str, float | int] = {"nodes": nodes}
    report("moves: perft, expand, make")
    figures |= _moves(PERFT_DEPTH if nodes >= BUILTIN_NODES else SMALL_PERFT_DEPTH)
    report(f"search one by one to {nodes:,} nodes")
    figures |= _named("single", _grown(1, nodes)[1:])
    report(f"search in waves of {WAVE:,} to {nodes:,} nodes")
    arena, *rates = _grown(WAVE, nodes)
    figures |= _named("wave", rates)
    figures["ram_bytes_per_node"] = round(arena.bytes_used / arena.node_count, 1)
    del arena
    figures |= _file(report, nodes)
    figures |= _remembering(report, nodes)
    figures |= _builtin(report, min(nodes, BUILTIN_NODES))
    report("going on with a file, and without a stop")
    figures |= resumed_figures(min(nodes, RESUMED_NODES))
    report("ten sessions on one file, and one")
    figures |= session_figures(min(nodes, SESSION_EVALUATIONS))
    report("a first table")
    figures |= start_figures(cold=nodes >= BUILTIN_NODES)
    figures |= _alphabeta(report, FULL_DEPTH if nodes >= BUILTIN_NODES else SMALL_DEPTH)
    return figures


def _named(how: str, rates: Sequence[float]) -> dict[str, float | int]:
    return {f"{what}_per_s_{how}": round(rate) for what, rate in zip(RATES, rates, strict=True)}


def _moves(depth: int) -> dict[str, float | int]:
    arena = Arena()
    start = pack(chess.Board())
    perft(arena.tables, start, 2)
    leaves = int(perft(arena.tables, start, depth))
    words = pack(chess.Board(MIDDLEGAME))
    out = np.zeros(256, np.uint16)
    child = np.zeros(10, np.uint64)
    expand_many(arena.tables, words, out, 1)
    make_many(arena.tables, words, out, child, 1)
    rounds = 100_000
    return {
        "perft_per_s": round(leaves / _median(lambda: perft(arena.tables, start, depth))),
        "expand_ns": round(1e9 * _median(lambda: expand_many(arena.tables, words, out, rounds)) / rounds, 1),
        "make_ns": round(
            1e9 * _median(lambda: make_many(arena.tables, words, out, child, rounds)) / rounds, 2
        ),
    }


def _median(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds)


def _grown(batch: int, nodes: int, arena: Arena | None = None) -> tuple[Arena, float, float]:
    """Returns an arena grown to `nodes` nodes with `uniform`, and visits and evaluations per CPU-second."""
    arena = arena or Arena(logged=False)
    memory = wave_kernel.new_wave(batch)
    params = SearchParams(minibatch_size=batch)
    set_params(arena.arrays, params)
    _grow(arena, memory, batch, batch)  # so that nothing is compiled while the clock runs
    step = max(batch, min(STEP, nodes // 16))
    before = arena.counters.copy()
    begin = time.process_time()
    while arena.node_count < nodes:
        _grow(arena, memory, batch, step)
    seconds = time.process_time() - begin
    visits, evaluations = (arena.counters - before)[[VISITS, EVALUATIONS]].tolist()
    return arena, visits / seconds, evaluations / seconds


def _grow(arena: Arena, memory: wave_kernel.WaveArrays, batch: int, visits: int) -> None:
    root = pack(chess.Board())
    uniform = Filler(UniformEvaluator(), leaves_of(memory))
    evaluating = loop.NOT_BOUND if batch == 1 else uniform.call.bound
    left = loop.new_limits(visits, 1 << 60, 1 << 60)
    while True:
        on = loop.SearchArrays(arena.tables, arena.arrays, memory, NOTHING, no_filter(), root)
        if loop.run_waves(on, evaluating, 1, batch, left) != loop.NO_SPACE:
            return
        arena.make_room(wave_kernel.entries_for(batch))


def _file(report: Report, nodes: int) -> dict[str, float | int]:
    """Returns the figures of saving a graph of `nodes` nodes and loading it again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.graph"
        report(f"saving {nodes:,} nodes")
        _save(path, WAVE)  # so that nothing is compiled while the clock runs
        _load(path)
        path.unlink()
        saved, saving = _save(path, nodes)
        size = sum(f.stat().st_size for f in Path(folder).iterdir() if f.name.startswith("bench.graph"))
        report(f"loading {saved:,} nodes")
        begin = time.process_time()
        loaded = _load(path)
        loading = time.process_time() - begin
        assert loaded == saved
    return {
        "file_bytes_per_node": round(size / saved, 1),
        "save_nodes_per_s": round(saved / saving),
        "load_nodes_per_s": round(saved / loading),
    }


def _remembering(report: Report, visits: int) -> dict[str, float | int]:
    """Returns the figures of searches with `uniform` that save, and that do not: medians of pairs."""
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "remembered.graph"
        _searched(path, WAVE)  # so that nothing is compiled while the clock runs
        for _ in range(PAIRS):
            path.unlink()
            report(f"{visits:,} visits with and without a file")
            _, alone, _ = _searched(None, visits)
            nodes, spent, written = _searched(path, visits)
            pairs.append((visits / alone, visits / spent, nodes / max(spent - alone, 1e-9), written))
            size = path.stat().st_size
    without, kept, saved, written = (statistics.median(column) for column in zip(*pairs, strict=True))
    figures: dict[str, float | int] = {
        "search_visits_per_s": round(without),
        "search_visits_per_s_saving": round(kept),
        "search_saved_per_s": round(saved),
    }
    return figures | ({"search_written_of_size": round(written / size, 2)} if written else {})


def _searched(path: Path | None, visits: int) -> tuple[int, float, int]:
    """Returns the nodes of a new search, its CPU-seconds with opening and closing, and the bytes written."""
    before, begin = counters("io").get("wchar", 0), time.process_time()
    with Graph.open(path, evaluator=UniformEvaluator(threads=1)) as graph:
        nodes = analyze(graph, chess.Board(), Limits(visits=visits)).nodes
    return nodes, time.process_time() - begin, counters("io").get("wchar", 0) - before


def _builtin(report: Report, nodes: int) -> dict[str, float | int]:
    """Returns the built-in evaluator's figures: its speed in a search, and bytes of real records in a file.

    `uniform` gives every move the same P, which compresses far better than a real evaluator's priors.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "builtin.graph"
        board = chess.Board(MIDDLEGAME)
        with _builtin_graph(path) as graph:
            analyze(graph, board, Limits(visits=64))
            report(f"a search with the built-in evaluator, {nodes:,} evaluations")
            begin = time.process_time()
            result = analyze(graph, board, Limits(evaluations=nodes))
            spent = time.process_time() - begin
        size = path.stat().st_size
    return {
        "builtin_evaluations_per_s": round(result.evaluations / spent),
        "builtin_file_bytes_per_node": round(size / result.nodes, 1),
    }


def _alphabeta(report: Report, depth: int) -> dict[str, float | int]:
    """Returns the figures of alpha-beta: nodes per second, and leaves relative to the minimal tree."""
    board, engine = chess.Board(MIDDLEGAME), AlphaBeta(EntryTable(TABLE_BYTES))
    engine.search(board, 2)  # so that nothing is compiled while the clock runs
    report(f"alpha-beta to depth {depth}")
    engine = AlphaBeta(EntryTable(TABLE_BYTES))
    begin = time.process_time()
    found = [engine.search(board, d).counts for d in range(1, depth + 1)]
    spent = time.process_time() - begin
    last = found[-1]
    least = minimal(last.moves / max(1, last.expanded), depth).total
    return {
        "alphabeta_nodes_per_s": round(sum(counts.nodes for counts in found) / spent),
        "alphabeta_leaves_of_minimal": round(last.leaves / least, 2),
    }


def _load(path: Path) -> int:
    arena = Arena(logged=False)
    with Store.open(path, read_only=True) as store:
        for batch in store.scan():
            arena.load(batch)
    return arena.node_count


def _save(path: Path, nodes: int) -> tuple[int, float]:
    """Saves a new graph; returns its number of nodes and the CPU-seconds of saving, merges included."""
    with Graph.open(path, evaluator=UniformEvaluator(threads=1)) as graph:
        graph.arena.set_run(1)  # as a search does
        _grown(WAVE, nodes, graph.arena)
        begin = time.process_time()
        graph.flush()
        spent = time.process_time() - begin
        count = graph.node_count
    return count, spent


def machine() -> str:
    """Returns the processor's name and number of cores, for people who compare figures."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return f"{models[0] if models else 'unknown processor'}, {os.cpu_count()} cores"


# ------------------------------------------------------------------ resuming from a file
RESUMED_NODES, PART, TURNS = 300_000, 6, 5  # in the file; a search adds 1/PART of them in TURNS turns
SHORT_SEARCHES = 5


def resumed_figures(nodes: int = RESUMED_NODES) -> dict[str, float]:
    """Returns the figures by name: the cost of a visit in either search, their ratio, and opening the file.

    Both searches continue from the same graph, in turns, and make the same visits. Loading the image of the
    graph, and reading a file without an image, are measured separately. All are CPU-seconds of the process,
    saving and merging included.
    """
    with tempfile.TemporaryDirectory() as folder:
        alone, path = _builtin_graph(Path(folder) / "alone.graph"), Path(folder) / "resumed.graph"
        _visits_and_seconds(alone, nodes)
        with _builtin_graph(path) as graph:
            _visits_and_seconds(graph, nodes)
        graph, opening = _opened(path)
        taking = opening / graph.node_count
        graph.close()
        with Store.open(path) as store:
            store.write_fact(IMAGE, None)
        resumed, opening = _opened(path)
        reading = opening / resumed.node_count
        with alone, resumed:
            turns = [(_per_visit(alone, nodes), _per_visit(resumed, nodes)) for _ in range(TURNS)]
            one = statistics.median(_visits_and_seconds(resumed, 1)[1] for _ in range(SHORT_SEARCHES))
    unstopped, again = (statistics.median(column) for column in zip(*turns, strict=True))
    return {
        "one_evaluation_s": round(one, 3),
        "resumed_us_per_visit": round(1e6 * again, 2),
        "unstopped_us_per_visit": round(1e6 * unstopped, 2),
        "resumed_of_unstopped": round(statistics.median(b / a for a, b in turns), 2),
        "resumed_read_us_per_node": round(1e6 * reading, 2),
        "resumed_image_us_per_node": round(1e6 * taking, 2),
    }


def _opened(path: Path) -> tuple[Graph, float]:
    """Loads a whole file; returns its graph and the CPU-seconds of loading."""
    begin = time.process_time()
    graph = _builtin_graph(path)
    graph.load_ahead()
    while graph.load_some(1.0):
        pass
    return graph, time.process_time() - begin


def _builtin_graph(path: Path) -> Graph:
    return Graph.open(path, evaluator=create("builtin", {"threads": "1"}))


def _per_visit(graph: Graph, nodes: int) -> float:
    visits, seconds = _visits_and_seconds(graph, nodes // PART // TURNS)
    return seconds / visits


def _visits_and_seconds(graph: Graph, evaluations: int) -> tuple[int, float]:
    """Returns the visits of a search of the start position, and its CPU-seconds."""
    begin = time.process_time()
    visits = analyze(graph, chess.Board(), Limits(evaluations=evaluations)).new_visits
    return visits, time.process_time() - begin


# ------------------------------------------------------------------ whole processes
FIRST_TABLE = ("analyze", "startpos", "--visits", "1")
SESSION_EVALUATIONS = 200_000
SESSIONS, STARTS = 10, 3


def start_figures(*, cold: bool) -> dict[str, float]:
    """Returns CPU-seconds by figure, child processes included.

    Args:
      cold: whether to measure a start with an empty cache, too; it compiles unless a wheel has the kernels.
    """
    figures = {"start_s": round(process_seconds(FIRST_TABLE, os.environ), 2)}
    if cold:
        with tempfile.TemporaryDirectory() as empty:
            environment = os.environ | {"GRAPHSEARCH_CACHE_DIR": empty}
            figures["start_cold_s"] = round(process_seconds(FIRST_TABLE, environment), 2)
    return figures


def session_figures(evaluations: int = SESSION_EVALUATIONS) -> dict[str, float]:
    """Returns the CPU time of ten sessions, less ten starts, relative to one session, by its name.

    Each is a whole process; a start evaluates one position and makes a file. The graphs are the same, bit for
    bit.
    """
    with tempfile.TemporaryDirectory() as folder:
        grown, alone = Path(folder) / "grown.graph", Path(folder) / "alone.graph"
        starts = [_session(Path(folder) / f"{k}.graph", 1) for k in range(STARTS)]
        parts = sum(_session(grown, evaluations // SESSIONS) for _ in range(SESSIONS))
        whole = _session(alone, evaluations)
    return {"sessions_of_one": round((parts - SESSIONS * statistics.median(starts)) / whole, 2)}


def _session(path: Path, evaluations: int) -> float:
    limits = ("--threads", "1", "--evaluations", str(evaluations))
    return process_seconds(("analyze", "startpos", "--store", str(path), *limits), os.environ)


def process_seconds(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    """Returns the CPU-seconds of the program with some arguments, child processes included.

    Raises:
      GraphSearchError: if it fails.
    """
    quiet, command = subprocess.DEVNULL, python_command("graphsearch", *arguments)
    before = os.times()
    done = subprocess.run(  # noqa: S603
        command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, check=False
    )
    after = os.times()
    if done.returncode:
        raise GraphSearchError(f"`graphsearch {' '.join(arguments)}` ended with exit code {done.returncode}")
    children = after.children_user + after.children_system
    return children - before.children_user - before.children_system
