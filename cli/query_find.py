"""`graphsearch query find` and `sql`: questions to a whole file."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .commands import command
from .options import Json, StoreOption
from .output import print_json, say, say_if_unfinished
from .progress import progress_bar
from .render import RESULTS, count, signed
from .tables import streamed

if TYPE_CHECKING:
    from graphsearch.query.filters import Filters
    from graphsearch.query.find import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    """Conditions on positions; all given ones must hold."""

    min_n: Annotated[int | None, typer.Option("--min-n", metavar="N", min=1, help="Node N at least N.")] = (
        None
    )
    max_n: Annotated[int | None, typer.Option("--max-n", metavar="N", min=1, help="Node N at most N.")] = None
    min_q: Annotated[
        float | None,
        typer.Option(
            "--min-q", metavar="Q", min=-1, max=1, help="Node Q, seen by the side to move, at least Q."
        ),
    ] = None
    max_q: Annotated[
        float | None, typer.Option("--max-q", metavar="Q", min=-1, max=1, help="Node Q at most Q.")
    ] = None
    bounds: Annotated[
        str | None,
        typer.Option(
            "--bounds",
            metavar="WHAT",
            help="Proven result: win, draw or loss for the side to move; proven for any of them.",
        ),
    ] = None
    pieces: Annotated[
        str | None,
        typer.Option(
            "--pieces",
            metavar="WHAT",
            help='Number of men of a kind, White\'s in capitals: "P<=4, q=0"; "men<=6" for all together; or'
            " the exact men of both sides: KRPkrp.",
        ),
    ] = None
    side: Annotated[str | None, typer.Option("--side", metavar="w|b", help="The side to move.")] = None
    in_games: Annotated[bool, typer.Option("--in-games", help="Occurred in an imported game.")] = False
    in_book: Annotated[
        str | None,
        typer.Option("--in-book", metavar="NAME", help="In the book of this name; any for any book."),
    ] = None
    min_ply: Annotated[
        int | None,
        typer.Option(
            "--min-ply",
            metavar="P",
            min=0,
            help="At least P half-moves from the start, the fewest over all imported games and books; "
            "other positions have no ply and are not found.",
        ),
    ] = None
    max_ply: Annotated[
        int | None,
        typer.Option(
            "--max-ply",
            metavar="P",
            min=0,
            help="At most P half-moves from the start, counted in the same way.",
        ),
    ] = None

    def filters(self) -> Filters:
        """Returns the filters of the query.

        Raises:
          InvalidParameterError: for pieces, bounds or a side that cannot be read.
        """
        from graphsearch.query.filters import Filters, read_pieces

        return Filters(
            min_n=self.min_n,
            max_n=self.max_n,
            min_q=self.min_q,
            max_q=self.max_q,
            bounds=self.bounds,
            pieces=read_pieces(self.pieces) if self.pieces is not None else (),
            side=self.side,
            in_games=self.in_games,
            in_book="" if self.in_book == "any" else self.in_book,
            min_ply=self.min_ply,
            max_ply=self.max_ply,
        )


Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Stop after N.")]
Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="S", min=0, help="Stop after S seconds of work; 0: no limit."),
]
Statement = Annotated[
    str, typer.Argument(metavar="STATEMENT", help="SELECT, WITH, VALUES or EXPLAIN.", show_default=False)
]


@command(
    "List positions by N, Q, bounds, men and more.",
    "graphsearch query find --min-n 100 --min-q 0.1 --side w --store first.graph",
    'graphsearch query find --pieces "P<=7, p<=7" --limit 5 --store first.graph',
    "graphsearch query find --bounds proven --store first.graph --json",
    scores=True,
)
def find(
    store: StoreOption,
    conditions: FilterOptions,
    limit: Limit = None,
    json: Json = False,
) -> None:
    """List the positions whose records meet all conditions, as they are found.

    The whole file is read once, in its own order. A record has no ply, since many lines may lead to it:
    --min-ply and --max-ply use the tables of imported games and of books.

    JSON: one object per position, on a line of its own.
    """
    from graphsearch.query.find import find as ask

    filters = conditions.filters()
    say_if_unfinished(store)
    with progress_bar("Reading", streaming=True) as advance:
        found = ask(store, filters, limit=limit, on_progress=advance)
        number = _print_found(found, json)
    if not json:
        say(count(number, "position"))


def _print_found(found: Iterable[Found], json: bool) -> int:
    """Prints positions as they come; returns how many."""
    number = 0
    for number, row in enumerate(found, 1):
        if json:
            print_json(row.as_dict())
            continue
        if number == 1:
            print(f"{'N':>12}  {'Q':>6}  {'Proven':<7}  {'Best':<7}  Position")
        print(_found_line(row), flush=number % 64 == 0)
    return number


def _found_line(row: Found) -> str:
    lower, upper = row.bounds
    proven = RESULTS[lower] if lower == upper else ""
    ply = "" if row.ply is None else f"  ply {row.ply}"
    return f"{row.n:>12,}  {signed(row.q):>6}  {proven:<7}  {row.best_move or '':<7}  {row.position}{ply}"


@command(
    "Query a file with SQL.",
    'graphsearch query sql "SELECT san, move_n, move_q FROM position_moves LIMIT 5" --store first.graph',
    'graphsearch query sql "SELECT fen, n, cp(q, draw) FROM top_position ORDER BY n DESC" --limit 3'
    " --store first.graph",
    'graphsearch query sql "SELECT record(position) AS record FROM root" --store first.graph --json',
    scores=True,
)
def sql(
    statement: Statement,
    store: StoreOption,
    limit: Limit = None,
    timeout: Timeout = 60.0,
    json: Json = False,
) -> None:
    """Execute one read-only SQL statement over the tables and views of a graph file, described in
    `schema/store.md`.

    Views: runs, position_moves, game_moves, games_against_search, book_edges, book_open_leaves. Functions:
    record(fen), the record of a position as JSON text, as in `show --json`, NULL if it is not stored;
    key(fen); after(fen, moves); san(fen, move); cp(q, draw).

    A statement may work for --timeout seconds, hold 256 MiB, and make texts and BLOBs of 16 MiB.

    JSON: `columns` is the list of names, `rows` a list of lists of values; BLOBs are hex text.
    """
    from graphsearch.query.sql import MAX_HEAP_BYTES
    from graphsearch.query.sql import sql as ask

    with ask(store, statement, limit=limit, timeout=timeout, heap_bytes=MAX_HEAP_BYTES) as result:
        if json:
            _print_rows_as_json(result.columns, result.rows)
        else:
            for text in streamed(result.columns, result.rows):
                print(text)


def _print_rows_as_json(columns: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> None:
    """Prints one object, its rows as they come."""
    from graphsearch.query.sql import json_value

    head = json_text.dumps({"columns": columns}, ensure_ascii=False)
    print(head[:-1] + ', "rows": [', end="")
    for number, row in enumerate(rows):
        values = json_text.dumps([json_value(value) for value in row], ensure_ascii=False)
        print(", " * (number > 0) + values, end="")
    print("]}")
