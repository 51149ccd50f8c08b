"""`graphsearch evaluate`, `lab perft` and `lab bench`: answers and measurements without a graph file."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import groupby, islice
from json import dumps
from pathlib import Path
from typing import Annotated

import chess
import typer

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.assess import Assessment, assess_boards, assess_lines
from graphsearch.evaluators.factory import create
from graphsearch.position.board import pack
from graphsearch.position.board_kernel import perft as count_leaves
from graphsearch.position.notation import holds_positions
from graphsearch.search.results import SearchResult
from graphsearch.store.record import TERMINALS

from .options import STDIN, EvaluatorOptions, LineOptions, Natural, Param, Position, open_input, option
from .output import FAILED, fail, print_answer, say
from .progress import progress_bar
from .render import game_text, named, wdl
from .tables import VIEW, is_detailed, is_json, is_white, rate, score, signed

TOP = 5  # priors that the text shows


def evaluate(*, positions: list[str] | None = None, evaluator: EvaluatorOptions, param: Param = None) -> int:
    """Print what an evaluator says about positions: WDL, Q, centipawns and the prior of every move.

    In a file, blank lines and lines that start with # are ignored. A line that is not a position is reported
    with its number; the others are evaluated, and the exit code is 1, as for a file without positions. A file
    may have any length: lines are read, evaluated on all cores and printed at the same time. A slow pipe's
    lines are answered one by one.

    \b
    Examples:
      graphsearch evaluate startpos
      graphsearch evaluate positions.epd --json

    Args:
      positions: POSITION...: startpos, chess960:N, FENs or moves in quotes, PGN files (their last positions),
        files with a FEN or EPD on each line, or - for such lines on stdin; startpos by default.
    """
    bad = 0

    def refuse(number: int, error: Exception) -> None:
        nonlocal bad
        bad += fail(f"line {number}: {error}")

    engine, others = evaluator.create(param or ())
    with closing(engine):
        if others:
            raise typer.BadParameter(f"{others[0]!r} is not an evaluator option; use PolicyTemperature=X")
        given = groupby(positions or ["startpos"], lambda text: text == STDIN or holds_positions(text))
        for many, texts in given:
            if not many:
                boards = [LineOptions().board_after(text) for text in texts]
                _answer(assess_boards(engine, boards), lambda *_: None, names=map(game_text, boards))
                continue
            for name in texts:
                before = bad
                with open_input(name) as file, progress_bar("Positions", streaming=True) as advance:
                    done = _answer(assess_lines(engine, file, name, refuse), advance)
                if not done and bad == before:
                    bad += fail(f"{'stdin' if name == STDIN else name} has no positions")
    return FAILED if bad else 0


def _answer(
    found: Iterable[list[Assessment]], advance: Callable[[int, None], None], *, names: Iterable[str] = ()
) -> int:
    """Prints the evaluations of positions, the first with their `names`; returns the number of all."""
    done, lines = 0, iter(names)
    for answers in found:
        for assessment in answers:
            print(dumps(assessment.as_dict()) if is_json() else _text(assessment, next(lines, "")))
        sys.stdout.flush()
        done += len(answers)
        advance(done, None)
    return done


def _text(a: Assessment, line: str) -> str:
    white = is_white(a.position)
    worth = f"{score(a.cp, None, white=white)}   W D L {wdl(a.wdl, white=white)}   {VIEW}"
    value = TERMINALS.get(a.terminal) or worth
    more = f"Q {signed(a.q, white=white)}" if is_detailed() and a.terminal not in TERMINALS else ""
    priors = "  ".join(f"{move} {100 * p:.1f}%" for move, p in islice(a.priors.items(), TOP))
    heads = named(line or a.position, a.position)
    return "\n  ".join(part for part in (*heads, value, more, priors) if part)


# ---------------------------------------------------------------- measurements
def perft(*, position: Position, depth: Natural, divide: bool = False, line: LineOptions) -> None:
    """Count the positions DEPTH plies below a position.

    \b
    Examples:
      graphsearch lab perft startpos 6
      graphsearch lab perft startpos 5 --moves "e4 e5" --divide

    Args:
      depth: DEPTH: Depth in plies.
      divide: --divide: Count separately below each move.
    """
    board = line.board_after(position)
    parts = {}
    for move in sorted(board.legal_moves, key=str) if depth else ():
        board.push(move)
        parts[move.uci()] = count_leaves(pack(board).reshape(1, -1), depth - 1)
        board.pop()
    nodes = sum(parts.values()) if depth else 1
    by_move = {"divide": parts} if divide else {}
    lines = [*(f"{move}: {n}" for move, n in parts.items()), ""] if divide and depth else []
    facts = {"position": board.fen(), "depth": depth, "nodes": nodes, **by_move}
    print_answer(facts, [*lines, f"nodes: {nodes}"])


FIGURES = {  # JSON name -> label in the table
    "nodes": "nodes of the graph",
    "visits_per_s_single": "visits per second without evaluation, one by one",
    "visits_per_s_wave": "the same in waves of 1,024",
    "evaluations_per_s": "evaluations per second, built-in evaluator",
    "ram_bytes_per_node": "memory, bytes per node",
    "file_bytes_per_node": "file, bytes per node, built-in evaluator",
}
WAVE, BUILTIN_NODES = 1024, 100_000


def bench(
    *,
    nodes: Annotated[
        int, option("--nodes N", "Size of the graph to build; 1,000,000 by default.", min=1000)
    ] = 1_000_000,
) -> None:
    """Measure the speed of a search per CPU-second, and the bytes of a node in memory and in the file.

    Searches begin at the start position and use one thread.

    \b
    Examples:
      graphsearch lab bench
      graphsearch lab bench --json > figures.json
    """
    say("searching one by one")
    single, seconds, _ = _searched("uniform", nodes, 1)
    say(f"searching in waves of {WAVE:,}")
    waves, wave_seconds, ram = _searched("uniform", nodes, WAVE)
    say("searching with the built-in evaluator and a file")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.graph"
        filed, filed_seconds, _ = _searched("builtin", min(nodes, BUILTIN_NODES), WAVE, file)
        size = file.stat().st_size
    figures = {
        "nodes": nodes,
        "visits_per_s_single": round(single.new_visits / seconds),
        "visits_per_s_wave": round(waves.new_visits / wave_seconds),
        "evaluations_per_s": round(filed.evaluations / filed_seconds),
        "ram_bytes_per_node": round(ram, 1),
        "file_bytes_per_node": round(size / filed.nodes, 1),
    }
    shown = {name: f"{n:.1f}" if name.endswith("_per_node") else rate(n) for name, n in figures.items()}
    print_answer(figures, [f"{FIGURES[name]:<50}{text:>10}" for name, text in shown.items()])


def _searched(
    kind: str, nodes: int, wave: int, file: Path | None = None
) -> tuple[SearchResult, float, float]:
    """Returns the result of a search, its CPU-seconds, and the bytes of a node in memory."""
    params = SearchParams(minibatch_size=wave, max_wave_share=1.0)
    with Graph.open(file, evaluator=create(kind, {"threads": "1"})) as graph:
        analyze(graph, chess.Board(), Limits(evaluations=100), params)  # compiles before the clock runs
        begin = time.process_time()
        found = analyze(graph, chess.Board(), Limits(evaluations=nodes - graph.node_count), params)
        return found, time.process_time() - begin, graph.arena.bytes_used / graph.node_count
