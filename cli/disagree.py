"""`graphsearch lab disagree`: where two evaluators differ most."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .commands import report
from .options import ALL_LINES, Lines, StoreOption, option
from .output import say, say_if_unfinished
from .program import program_name
from .render import WAY, WAY_LEAST, count, way_cells
from .scores import detailed, heading, is_white, score, signed
from .tables import WHOLE, Part, table

if TYPE_CHECKING:
    from graphsearch.query.disagree import Disagreement, Disagreements

Second = Annotated[
    str | None,
    option("--evaluator NAME", "Whose second opinion, by name or number, if the file has several."),
]
MinVisits = Annotated[int, option("--min-visits N", "Only positions with N or more visits.", min=1)]
By = Annotated[
    str,
    option(
        "--by WHAT",
        "value: visits times the difference of V; policy: visits times the difference of the priors, half "
        "the sum of |P - P'|.",
    ),
]


def _disagreements(found: Disagreements, store: Path) -> Iterator[Part]:
    yield f"1: {found.first.describe()}"
    yield f"2: {found.second.describe()}, {count(found.opinions, 'opinion')}"
    from graphsearch.query.routes import routes

    ways = routes(store, [row.position for row in found.rows])
    rows = [
        way_cells(ways.get(row.position), row.position) | _cells(row, by_policy=found.by == "policy")
        for row in found.rows
    ]
    yield f"({heading()})"
    yield table(rows, WAY | dict.fromkeys(("Best 1", "Best 2"), WHOLE), least=WAY_LEAST)
    if found.lost:
        say(f"note: {count(found.lost, 'position')} with an opinion are no longer in the file and not listed")
    if found.rows:
        look = [*program_name().split(), "show", found.rows[0].position, "--store", str(store)]
        say(f"Look at one: {shlex.join(look)}")


def _cells(row: Disagreement, *, by_policy: bool) -> dict[str, str]:
    white = is_white(row.position)
    return {
        "Weight": f"{row.weight:,.1f}",
        "Visits": f"{row.n:,}",
        "Score 1": score(row.cp, None, white=white),
        "Score 2": score(row.second_cp, None, white=white),
        "TV": f"{row.difference:.3f}" if by_policy else "",
        "Best 1": row.best_move,
        "Best 2": row.second_best_move,
        **detailed({"V 1": signed(row.q, white=white), "V 2": signed(row.second_q, white=white)}),
    }


@report(
    "List where two evaluators differ most.",
    "graphsearch lab disagree first.graph",
    "graphsearch lab disagree first.graph --by policy --lines 50 --min-visits 100 --json",
    view=_disagreements,
    views=True,
)
def disagree(
    store: StoreOption,
    evaluator: Second = None,
    lines: Lines = 20,
    min_visits: MinVisits = 1,
    by: By = "value",
) -> Disagreements:
    """List the positions where a second opinion differs most from the file's evaluator, weighted by visits.

    `graphsearch reevaluate FILE --second-opinion` writes the opinions. The value and the first choice of
    each evaluator are shown; visits are the current ones.

    JSON: values are seen by the side to move.
    """
    from graphsearch.query.disagree import disagree as ask

    found = ask(store, evaluator, top=lines or ALL_LINES, min_visits=min_visits, by=by)
    say_if_unfinished(store)
    return found
