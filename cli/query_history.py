"""`graphsearch history`: values of a root at every save."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import AnyPositionOptions, Json, StoreOption, check_plot_file, option
from .output import print_json, print_parts, say, say_if_unfinished
from .render import moment, numbered, opening_line
from .scores import detailed, heading, is_white, score, signed, wdl
from .tables import FILL, LEFT, Part, table

if TYPE_CHECKING:
    from graphsearch.query.history import History, HistoryPoint

By = Annotated[str, option("--by WHAT", "save: every save; run: only the last one of each run.")]
Plot = Annotated[
    Path | None,
    option(
        "--plot FILE.png|svg",
        "Also draw it: Q and N over all saves, runs as bands, changes of the best move and of the evaluator "
        "marked; needs matplotlib.",
    ),
]
KINDS = {"Kind": LEFT, "Saved (UTC)": LEFT, "Best": LEFT, "Line": FILL}
LEAST = {"Kind": 90, "Saved (UTC)": 60, "W D L": 70, "Depth": 80, "Line": 50}  # terminals that have them


@command(
    "Print what a root was worth at every save.",
    "graphsearch history first.graph",
    'graphsearch history first.graph "1. e4 e5" --by run --json',
    "graphsearch history first.graph --plot drift.svg",
    views=True,
)
def history(
    store: StoreOption,
    position: AnyPositionOptions,
    by: By = "save",
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Print value, best move, depth and line of a root at every save, over all runs of the file.

    Without POSITION: of the root that was searched last. A `*` marks a
    best move that differs from the one before. A search saves after ten seconds, then every 30 seconds, and
    at its end; `reevaluate` and `refresh` save all roots. A book saves a root whenever its value there, its
    best move or its line has changed; Kind then has the book's name. A root keeps at most 800 saves; older
    ones are thinned, but for those where the best move changed and the last of each run.

    JSON: `points`, in the order of runs and of N, values seen by the side to move; `kind` and `evaluator` are
    null if the file does not list the run any more; `book` is null unless the values are those of a book;
    `evaluators` has their names.
    """
    if by not in ("save", "run"):
        raise typer.BadParameter(f"--by must be save or run, not {by!r}")
    from graphsearch.query.history import history as ask

    if plot:
        from graphsearch.solvers.alphabeta.nodetypes.plot import check_library

        check_plot_file(plot, ".png", ".svg")
        check_library()
    found = ask(store, position.board())
    points = found.by_run if by == "run" else found.points
    say_if_unfinished(store)
    if json:
        print_json(found.as_dict() | {"points": [point.as_dict() for point in points]})
    else:
        print_parts(_view(found, points))
    if not points:
        say("note: no search of this position was saved")
    elif plot:
        from graphsearch.query.history_plot import draw_history

        draw_history(found, plot)
        say(f"wrote {plot}")


def _view(found: History, points: Sequence[HistoryPoint]) -> Iterator[Part]:
    from graphsearch.position.board import board_of
    from graphsearch.position.openings import opening_at

    yield found.position
    yield from opening_line(opening_at(board_of(found.position)))
    yield f"({heading()})"
    yield table([_cells(point, found.position) for point in points], KINDS, least=LEAST)


def _cells(point: HistoryPoint, position: str) -> dict[str, str]:
    white = is_white(position)
    return {
        "Run": str(point.run),
        "Kind": f"book {point.book}" if point.book else point.kind or "",
        "Saved (UTC)": moment(point.saved),
        "Score": score(point.cp, None, white=white),
        "W D L": wdl(point.wdl, white=white),
        "Visits": f"{point.n:,}",
        **detailed({"Q": signed(point.q, white=white)}),
        "Depth": "" if point.depth is None else str(point.depth),
        "Best": f"{point.best_san or ''}{' *' if point.changed else ''}",
        "Line": numbered(position, point.line),
    }
