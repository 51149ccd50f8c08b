"""`graphsearch watch`: searches several positions in turn, each for its share of the time."""

from __future__ import annotations

import time as clocks
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .commands import command, command_line
from .compiling import compile_search
from .options import (
    EvaluatorOptions,
    Json,
    LineOptions,
    Param,
    Ram,
    StoreToMake,
    Time,
    argument,
    graph_ram,
    option,
)
from .output import print_json, print_parts, say
from .progress import Screen, clock, progress_display
from .render import (
    FILL,
    LEFT,
    WHOLE,
    Cells,
    count,
    detailed,
    game_text,
    heading,
    is_white,
    numbered,
    rate,
    score,
    signed,
    table,
    way_text,
)
from .signals import StopSignals

if TYPE_CHECKING:
    from rich.console import RenderableType

    from graphsearch.graph.graph import Graph
    from graphsearch.graph.view import NodeView
    from graphsearch.search.params import SearchParams
    from graphsearch.search.results import Progress
    from graphsearch.search.turns import Root, Turns

MOST_ROOTS = 20  # of a file, if no position is named
JSON_SECONDS = 5.0  # between two lines of JSON during a turn
FRAME_LINES = 3  # lines of the live display that are not roots
KINDS = {"Line": LEFT, "Best": WHOLE, "PV": FILL}
SPARE = ("PV", "Share", "Visits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of one call."""

    positions: Annotated[
        list[str] | None,
        argument(
            "POSITION...",
            f"Positions as for `analyze`; the roots of the file by default, the {MOST_ROOTS} last searched.",
        ),
    ] = None
    store: StoreToMake
    share: Annotated[
        list[float] | None,
        option("--share X", "Share of the next position in the time, in their order; 1 by default."),
    ] = None
    time: Time = None
    evaluations: Annotated[
        int | None, option("--evaluations N", "Stop after N evaluations in all.", min=1)
    ] = None
    ram: Ram = None
    evaluator: EvaluatorOptions
    param: Param = None
    json: Json = False


@command(
    "Search several positions in turn.",
    'graphsearch watch first.graph "1. e4 e5" "1. d4" --share 2 --time 1h',
    "graphsearch watch first.graph --json",
    views=True,
)
def watch(request: Request) -> None:
    """Search several positions in turn, each for its share of the time, until a limit, or Ctrl-C.

    In a round of 30 seconds every position has its turn, and goes on where it was. One whose result is proven
    leaves its time to the others. Positions share all that they find, and everything is saved to the file.

    JSON: a line for the searched position after every turn, and every five seconds. `seconds` is the time
    that it had; `ended` says why it needs no more. Values are seen by the side to move.
    """
    roots = _roots(request)
    evaluator, others = request.evaluator.create(request.param or (), request.store)
    with StopSignals() as signals, closing(evaluator):
        from graphsearch.graph.graph import Graph
        from graphsearch.search.params import SearchParams
        from graphsearch.search.warm import paging_kernels_compiling

        params = SearchParams.from_options(others)
        compile_search(evaluator, params, filed=True)
        with (
            Graph.open(request.store, evaluator=evaluator, ram_bytes=graph_ram(request.ram)) as graph,
            paging_kernels_compiling(),
        ):
            signals.arm()
            watched = _Watch(request, graph, params, roots, signals)
            watched.run()
            parts = list(watched.parts())
    if not request.json:
        print_parts(parts)
    say(f"Resume with: {command_line('watch', request)}")
    if signals.exit_code:
        raise typer.Exit(signals.exit_code)


def _roots(request: Request) -> list[Root]:
    """Returns the roots of a request, each with the line to it as its title.

    Raises:
      typer.BadParameter: for wrong shares, or if there is no root.
    """
    from graphsearch.query.routes import routes
    from graphsearch.search.turns import Root

    boards = [LineOptions().board_after(text) for text in request.positions or ()] or _stored(request.store)
    shares = request.share or []
    if len(shares) > len(boards):
        raise typer.BadParameter(f"--share is given {len(shares)} times for {count(len(boards), 'position')}")
    if any(not 0 < share <= 1000 for share in shares):
        raise typer.BadParameter("--share must be above 0, at most 1,000")
    shares = shares + [1.0] * (len(boards) - len(shares))
    bare = [board.fen() for board in boards if not board.move_stack]
    ways = routes(request.store, bare) if request.store.exists() else {}
    names = [  # as given, else a line of the file
        game_text(board) if board.move_stack else way_text(ways.get(board.fen()), game_text(board))
        for board in boards
    ]
    return [Root(*one) for one in zip(boards, names, shares, strict=True)]


def _stored(store: Path) -> list[Any]:
    """Returns the roots of a file."""
    from graphsearch.position.board import board_of
    from graphsearch.store.store import Store

    if not store.exists():
        raise typer.BadParameter(f"name positions: {store} does not exist, so it has no roots to search")
    with Store.open(store, read_only=True) as file:
        found = [board_of(root.position) for root in file.roots()[:MOST_ROOTS]]
    if not found:
        raise typer.BadParameter(f"name positions; {store} has no roots")
    return found


@dataclass(frozen=True, slots=True)
class _Now:
    """The progress of all turns: total seconds, the current root, and its search."""

    seconds: float
    root: Root
    search: Progress


class _Watch:
    """The turns of one call."""

    def __init__(
        self, request: Request, graph: Graph, params: SearchParams, roots: list[Root], signals: StopSignals
    ) -> None:
        from graphsearch.search.turns import ROUND_SECONDS, Turns

        self._request, self._graph, self._params = request, graph, params
        self._roots, self._signals = roots, signals
        self._turns: Turns = Turns(roots, round_seconds=min(ROUND_SECONDS, request.time or ROUND_SECONDS))
        self._began = self._printed = clocks.monotonic()
        self._evaluations = 0

    @property
    def _seconds(self) -> float:
        return clocks.monotonic() - self._began

    def run(self) -> None:
        """Searches until a limit, a signal, or until no root needs more."""
        with progress_display(self._signals, self._line, self._view) as show:
            time, most = self._request.time, self._request.evaluations
            while not self._signals.stop.is_set():
                if time is not None and self._seconds >= time:
                    break
                if most is not None and self._evaluations >= most:
                    break
                root = self._turns.next()
                if root is None:
                    break
                self._search(root, show)
                if self._request.json:
                    self._print(root)
        self._graph.flush()  # with all roots in the file's list, also those of the last seconds

    def _search(self, root: Root, show: Any) -> None:
        """Searches a root for one turn."""
        from graphsearch.search.job import Control
        from graphsearch.search.loop import search
        from graphsearch.search.params import Limits
        from graphsearch.solvers.mate.beside import MateFinder

        time, most = self._request.time, self._request.evaluations
        left = Limits(
            seconds=None if time is None else max(time - self._seconds, 0.01),
            evaluations=None if most is None else most - self._evaluations,
        )
        job = self._turns.job(root, self._params, left)

        def on_progress(now: Progress) -> None:
            show(_Now(self._seconds, root, now))
            if self._request.json and clocks.monotonic() - self._printed >= JSON_SECONDS:
                self._print(root)

        mates = MateFinder(seconds=job.limits.seconds, visits=job.limits.evaluations)
        result = search(
            self._graph, job, Control(on_progress=on_progress, stop=self._signals.stop, mates=mates)
        )
        self._evaluations += result.evaluations
        self._turns.count(root, result.seconds, result.stop_reason)
        self._graph.save_soon()

    # ------------------------------------------------------------ output
    def _node(self, root: Root, lines: int) -> NodeView | None:
        from graphsearch.graph.view import view

        return view(self._graph.read, root.board, lines=lines)

    def _print(self, root: Root) -> None:
        """Prints the state of a root as a line of JSON."""
        self._printed = clocks.monotonic()
        node = self._node(root, 1)
        best = node.moves[0] if node and node.moves else None
        print_json(
            {
                "line": root.title,
                "position": root.board.fen(),
                "share": root.share,
                "seconds": round(self._turns.had(root), 1),
                "ended": self._turns.ended(root),
                "visits": node.visits if node else 0,
                "q": node.q if node else None,
                "mate": node.mate if node else None,
                "best": best.move.uci() if best else None,
                "pv": [move.uci() for move in best.pv] if best else [],
            }
        )

    def parts(self) -> Iterator[str | Cells]:
        """Yields the name of the shown view and the table of all roots."""
        yield f"({heading()})"
        yield table(map(self._cells, self._roots), KINDS, spare=SPARE)

    def _cells(self, root: Root) -> dict[str, str]:
        from graphsearch.position.lines import sans_of
        from graphsearch.position.values import cp_of

        node, white = self._node(root, 1), root.board.turn
        cells = {
            "Line": root.title,
            "Share": f"{100 * root.share / sum(one.share for one in self._roots):.0f}%",
            "Searched": self._turns.ended(root) or clock(self._turns.had(root)),
        }
        if node is None:
            return cells
        best = node.moves[0] if node.moves else None
        return cells | {
            "Score": score(cp_of(node.q), node.mate, white=white),
            "Visits": f"{node.visits:,}",
            **detailed({"Q": signed(node.q, white=is_white(node.position))}),
            "Best": best.san if best else "",
            "PV": numbered(node.position, sans_of(root.board, best.pv)) if best else "",
        }

    def _line(self, now: _Now) -> str:
        search = now.search
        return (
            f"{clock(now.seconds)}   {now.root.title}   nodes {search.nodes:,}"
            f"   evaluations/s {rate(search.evaluations_per_s)}"
        )

    def _view(self, now: _Now, screen: Screen) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        shown = self._roots[: max(1, screen.height - FRAME_LINES)]
        cells = table(map(self._cells, shown), KINDS, spare=SPARE)
        return Group(cells.drawn(screen.width), Text(self._line(now)))
