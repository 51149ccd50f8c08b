"""`graphsearch query`: questions to a graph file. `disagree` is here, the others are in query_*.py."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import (
    query_diff,
    query_find,
    query_history,
    query_lines,
    query_moves,
    query_neighbourhood,
    query_novelties,
    query_players,
    query_position,
    query_ways,
)
from .commands import command, group
from .options import Json
from .output import print_json, print_part, say, say_if_unfinished
from .program import program_name
from .render import count
from .tables import LEFT, RIGHT, table

if TYPE_CHECKING:
    from rich.table import Table

    from graphsearch.query.disagree import Disagreement, Disagreements

SomeFile = Annotated[Path | None, typer.Argument(metavar="FILE", help="The graph file.", show_default=False)]
SomeStore = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="The graph file, as in the other queries."),
]
Second = Annotated[
    str | None,
    typer.Option(
        "--evaluator",
        metavar="NAME",
        help="Whose second opinion, by name or number, if the file has several.",
        show_default=False,
    ),
]
Top = Annotated[int, typer.Option("--top", metavar="K", min=1, help="Positions to list.")]
MinVisits = Annotated[
    int, typer.Option("--min-visits", metavar="N", min=1, help="Only positions with N or more visits.")
]
By = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="WHAT",
        help="value: visits times the difference of V; policy: visits times the difference of the priors, "
        "half the sum of |P - P'|.",
    ),
]


@command(
    "List where two evaluators differ most.",
    "graphsearch query disagree first.graph",
    "graphsearch query disagree first.graph --by policy --top 50 --min-visits 100 --json",
    scores=True,
)
def disagree(
    file: SomeFile = None,
    store: SomeStore = None,
    evaluator: Second = None,
    top: Top = 20,
    min_visits: MinVisits = 1,
    by: By = "value",
    json: Json = False,
) -> None:
    """List the positions where a second opinion differs most from the file's evaluator, weighted by visits.

    `graphsearch reevaluate FILE --second-opinion` writes the opinions. V and the first choice of each
    evaluator are shown for the side to move; visits are the current ones.
    """
    from graphsearch.query.disagree import disagree as ask

    if (file is None) == (store is None):
        raise typer.BadParameter("name the graph file once, as FILE or with --store")
    file = file or store
    assert file is not None
    found = ask(file, evaluator, top=top, min_visits=min_visits, by=by)
    say_if_unfinished(file)
    if json:
        print_json(found.as_dict())
        return
    print(f"1: {found.first.describe()}")
    print(f"2: {found.second.describe()}, {count(found.opinions, 'opinion')}")
    print_part(_table(found))
    if found.lost:
        say(f"note: {count(found.lost, 'position')} with an opinion are no longer in the file and not listed")
    if found.rows:
        look = [*program_name().split(), "show", found.rows[0].position, "--store", str(file)]
        say(f"Look at one: {shlex.join(look)}")


def _table(found: Disagreements) -> Table:
    columns = dict.fromkeys(("Weight", "N", "V 1", "V 2", "cp 1", "cp 2"), RIGHT)
    columns |= {"TV": RIGHT} if found.by == "policy" else {}
    columns |= dict.fromkeys(("Best 1", "Best 2", "Position"), LEFT)
    return table(columns, [_cells(row, found.by) for row in found.rows])


def _cells(row: Disagreement, by: str) -> list[str]:
    cells = [
        f"{row.weight:,.1f}",
        f"{row.n:,}",
        f"{row.q:+.3f}",
        f"{row.second_q:+.3f}",
        f"{row.cp:+d}",
        f"{row.second_cp:+d}",
    ]
    if by == "policy":
        cells.append(f"{row.difference:.3f}")
    return [*cells, row.best_move, row.second_best_move, row.position]


app = group(
    "Query a graph file. Nothing is searched or written; a search may write the file at the same time.",
    disagree,
    query_diff.diff,
    query_position.position_of,
    query_moves.moves_of,
    query_moves.games_of,
    query_lines.pv,
    query_lines.tree,
    query_neighbourhood.neighbourhood,
    query_lines.line,
    query_history.history,
    query_novelties.novelties,
    query_players.prepare,
    query_players.players_of,
    query_players.game_of,
    query_ways.path,
    query_ways.parents,
    query_ways.transpositions,
    query_find.find,
    query_find.sql,
)
