"""`graphsearch query history`: values of a root at every save."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import AnyPositionOptions, Json, StoreFile, check_plot_file
from .output import print_json, print_view, say, say_if_unfinished
from .render import cp_text, signed
from .tables import FILL, LEFT, RIGHT, fitting, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from graphsearch.query.history import History, HistoryPoint

ByRun = Annotated[bool, typer.Option("--by-run", help="Only the last save of each run.")]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE.png|svg",
        help="Also draw it: Q and N over all saves, runs as bands, changes of the best move and of the "
        "evaluator marked; needs matplotlib.",
    ),
]
# column -> the narrowest terminal that has it
COLUMNS = {"Run": 0, "Kind": 90, "Saved": 60, "N": 0, "Q": 0, "WDL %": 100, "cp": 70, "Depth": 80, "Best": 0}
COLUMNS["PV"] = 50


@command(
    "Print what a root was worth at every save.",
    "graphsearch query history first.graph",
    'graphsearch query history first.graph startpos --moves "e4 e5" --by-run --json',
    "graphsearch query history first.graph --plot drift.svg",
    scores=True,
)
def history(
    file: StoreFile,
    position: AnyPositionOptions,
    by_run: ByRun = False,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Print value, best move, depth and line of a root at every save, over all runs of the file.

    Without POSITION: of the root that was searched last. Values are seen by the side to move. A `*` marks a
    best move that differs from the one before. A search saves after ten seconds, then every 30 seconds, and
    at its end; `reevaluate` and `refresh` save all roots. A book saves a root whenever its value there, its
    best move or its line has changed; Kind then has the book's name. A root keeps at most 800 saves; older
    ones are thinned, but for those where the best move changed and the last of each run.

    JSON: `points`, in the order of runs and of N; `kind` and `evaluator` are null if the file does not list
    the run any more; `book` is null unless the values are those of a book; `evaluators` has their names.
    """
    from graphsearch.query.history import history as ask

    if plot:
        from graphsearch.solvers.alphabeta.nodetypes.plot import check_library

        check_plot_file(plot, ".png", ".svg")
        check_library()
    found = ask(file, position.board())
    points = found.by_run if by_run else found.points
    say_if_unfinished(file)
    if json:
        print_json(found.as_dict() | {"points": [point.as_dict() for point in points]})
    else:
        print(found.position)
        if points:
            print_view(lambda width: _table(points, width))
    if not points:
        say("note: no search of this position was saved")
    elif plot:
        _draw(found, plot)
        say(f"wrote {plot}")


def _draw(found: History, plot: Path) -> None:
    from graphsearch.query.history_plot import draw_history

    draw_history(found, plot)


def _table(points: Sequence[HistoryPoint], width: int | None) -> Table:
    kinds = {"Kind": LEFT, "Saved": LEFT, "Best": LEFT, "PV": FILL}
    columns = {name: kinds.get(name, RIGHT) for name in fitting(COLUMNS, width)}
    return table(columns, map(_cells, points), width=width)


def _cells(point: HistoryPoint) -> dict[str, str]:
    parts = (point.win, point.draw, point.loss)
    return {
        "Run": str(point.run),
        "Kind": f"book {point.book}" if point.book else point.kind or "",
        "Saved": point.saved,
        "N": f"{point.n:,}",
        "Q": signed(point.q),
        "WDL %": "/".join(f"{100 * part:.0f}" for part in parts if part is not None),
        "cp": cp_text(point.cp),
        "Depth": "" if point.depth is None else str(point.depth),
        "Best": f"{point.best_san or ''}{' *' if point.changed else ''}",
        "PV": " ".join(point.line),
    }
