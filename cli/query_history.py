"""`graphsearch query history`: what a root was worth at every save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import AnyPositionOptions, Json, StoreFile
from .output import print_json, print_part, say, say_if_unfinished
from .render import cp_text, signed
from .tables import LEFT, RIGHT, table

if TYPE_CHECKING:
    from graphsearch.query.history import HistoryPoint

ByRun = Annotated[bool, typer.Option("--by-run", help="Only the last save of each run.")]


@command(
    "Print what a root was worth at every save.",
    "graphsearch query history first.graph",
    'graphsearch query history first.graph startpos --moves "e4 e5" --by-run --json',
    scores=True,
)
def history(
    file: StoreFile,
    position: AnyPositionOptions,
    by_run: ByRun = False,
    json: Json = False,
) -> None:
    """Print N, Q and the best move of a root at every save, over all runs of the file.

    Without POSITION: of the root that was searched last. Values are seen by the side to move. A search saves
    after ten seconds, then every 30 seconds, and at its end. Files have this history since format 5: searches
    of older versions left none.

    JSON: `points`, in the order of runs and of N; `kind` and `evaluator` are null if the file does not list
    the run any more.
    """
    from graphsearch.query.history import history as ask

    found = ask(file, position.board())
    points = found.by_run if by_run else found.points
    say_if_unfinished(file)
    if json:
        print_json(found.as_dict() | {"points": [point.as_dict() for point in points]})
        return
    print(found.position)
    if not points:
        say("note: no search of this position was saved since the file has format 5")
        return
    columns = {"Run": RIGHT, "Kind": LEFT, "Saved": LEFT, "N": RIGHT, "Q": RIGHT, "cp": RIGHT, "Best": LEFT}
    print_part(table(columns, map(_cells, points)))


def _cells(point: HistoryPoint) -> list[str]:
    return [
        str(point.run),
        point.kind or "",
        point.saved,
        f"{point.n:,}",
        signed(point.q),
        cp_text(point.cp),
        point.best_san or "",
    ]
