"""`graphsearch find` and `lab sql`: queries over a whole file."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import typer

from graphsearch.base.errors import GraphSearchError
from graphsearch.position.board import board_of
from graphsearch.query.diff import Found
from graphsearch.query.find import Filters, read_pieces
from graphsearch.query.find import find as find_in
from graphsearch.query.routes import Finder
from graphsearch.query.source import opened

from .options import Count, Lines, Side, StoreOption, Time, side_of
from .output import print_json, say
from .progress import progress_bar
from .render import proven_result, way_text
from .tables import VIEW, aligned, count, is_detailed, is_json, is_white, score

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    """Conditions on positions; all given ones must hold.

    Attributes:
      min_visits: --min-visits N: Only with N visits or more.
      q: --q MIN..MAX: Q for the side to move, such as 0.1..0.3; either end may be missing.
      bounds: --bounds WHAT: Proven result: win, draw or loss for the side to move; proven for any of them.
      pieces: --pieces WHAT: Number of men of a kind, White's in capitals: "P<=4, q=0"; "men<=6" for all
        together; or the exact men of both sides: KRPkrp.
    """

    min_visits: Count | None = None
    q: str | None = None
    bounds: str | None = None
    pieces: str | None = None
    side: Side = None

    def filters(self) -> Filters:
        """Returns the filters of the query; raises an input error for one that cannot be read."""
        least_q, most_q = range_of("--q", self.q, float)
        side = side_of(self.side)
        return Filters(
            min_n=self.min_visits,
            min_q=least_q,
            max_q=most_q,
            bounds=self.bounds,
            pieces=() if self.pieces is None else read_pieces(self.pieces),
            side=side and side[0],
        )


def range_of(name: str, text: str | None, kind: type[_Number]) -> tuple[_Number | None, _Number | None]:
    """Returns the ends of a range, None for an open one; `name`: the option.

    >>> range_of("--q", "-0.2..0.3", float), range_of("--elo", "2500..", int), range_of("--elo", "7", int)
    ((-0.2, 0.3), (2500, None), (7, 7))
    """
    low, dots, high = (text or "..").partition("..")
    with suppress(ValueError):
        ends = [kind(end) if end.strip() else None for end in (low, high if dots else low)]
        if all(end is None or abs(end) < 1e9 for end in ends):  # not nan
            return ends[0], ends[1]
    raise typer.BadParameter(f"{name} must be a range such as 2..10, not {text!r}")


def find(store: StoreOption, conditions: FilterOptions, lines: Lines = 20) -> None:
    """List the most visited of the positions whose records meet all conditions.

    The whole file is read once; --lines 0 lists all as they are read, in the order of the file. For positions
    of imported games and books ask their tables by `lab sql`; `record(fen)` reads the records.

    A line to each position is shown where one is found soon; else its FEN.

    JSON: one object per position, on a line of its own; values are seen by the side to move.

    \b
    Examples:
      graphsearch find first.graph --min-visits 100 --q 0.1.. --side white
      graphsearch find first.graph --pieces "P<=7, p<=7" --lines 5
      graphsearch find first.graph --bounds proven --lines 0 --json
    """
    filters = conditions.filters()
    with progress_bar("Reading", streaming=True) as advance:
        found = find_in(store, filters, limit=lines + 1 if lines else None, on_progress=advance)
        some = islice(found, lines or None)
        number = 0
        if not is_json():
            number = _print_found(store, some, whole=bool(lines))
        else:
            for row in some:
                print_json(row.as_row())
                number += 1
        more = next(found, None) is not None
    if more:
        say(f"There are more than {count(number, 'position')}; --lines 0 lists all.")
    elif not is_json():
        say(count(number, "position"))


WALKED_FIRST, WALKED_EACH = 4000, 2  # positions read for lines: at first, and for each row


def _print_found(store: Path, found: Iterable[Found], *, whole: bool) -> int:
    """Prints positions as they come, each with a line to it if one is found; returns their number.

    With `whole` it reads all before it prints, and has no column Proven if none of them is.
    """
    number, fault = 0, None
    if whole:
        rows: list[Found] = []
        try:
            rows.extend(found)  # keeps those before an error
        except GraphSearchError as error:  # such as damage: what was found is printed first
            fault = error
        found = rows
    is_any_proven = not whole or any(map(_proven, found))
    with opened(store) as source:
        finder = Finder(source, budget=WALKED_FIRST)
        for number, row in enumerate(found, 1):
            if number == 1:
                print(VIEW)
                title = f"{'Proven':<11}  " if is_any_proven else ""
                print(f"{'Score':>7}  {'Visits':>12}  {'Best':<7}  {title}Line")
            finder.budget += WALKED_EACH
            way = finder.way(board_of(row.position))
            opening = ""
            if way and way.opening:  # its name does not fit on a terminal
                opening = f"  ({way.opening.eco if sys.stdout.isatty() else way.opening})"
            root = way.start if way and not way.line else None  # with its own move number
            line = way_text(way, root or row.position)
            fen = f"  {row.position}" if is_detailed() and line not in (root, row.position) else ""
            value = score(row.worth.cp, row.worth.mate, white=is_white(row.position))
            best = row.worth.best_san or ""
            proven = f"{_proven(row):<11}  " if is_any_proven else ""
            print(
                f"{value:>7}  {row.worth.n:>12,}  {best:<7}  {proven}{line}{opening}{fen}",
                flush=number % 64 == 0,
            )
    if fault:
        raise fault
    return number


def _proven(row: Found) -> str:
    return proven_result(row.worth.bounds, white=is_white(row.position))


def sql(statement: str, store: StoreOption, lines: Lines = 0, time: Time = 60.0) -> None:
    """Execute one read-only SQL statement over the tables and views of a graph file.

    Views: runs, position_moves, game_moves, games_against_search, played_games, book_edges, book_open_leaves.
    Tables: root, top_position, top_edge and more; `SELECT sql FROM sqlite_master` prints their columns, and
    schema/store.md explains them. Functions: record(fen), the record of a position as JSON text, as in `show
    --json`, NULL if it is not stored; key(fen); after(fen, moves); san(fen, move); cp(q).

    A statement may work for --time seconds (0: no limit), hold 256 MiB, and make texts and BLOBs of 16 MiB.

    JSON: `columns` is the list of names, `rows` a list of lists of values; BLOBs are hex text.

    \b
    Examples:
      graphsearch lab sql first.graph "SELECT san, move_n, move_q FROM position_moves LIMIT 5"
      graphsearch lab sql first.graph "SELECT fen, n, cp(q) FROM top_position" --lines 3
      graphsearch lab sql first.graph "SELECT record(position) AS record FROM root" --json

    Args:
      statement: STATEMENT: SELECT, WITH, VALUES or EXPLAIN.
    """
    heap_bytes = 256 << 20  # of all memory of SQLite, in a process that does nothing else
    from graphsearch.query.sql import sql as ask

    with ask(store, statement, limit=lines or None, timeout=time or 0.0, heap_bytes=heap_bytes) as result:
        if is_json():
            _print_rows_as_json(result.columns, result.rows)
        else:
            for text in streamed(result.columns, result.rows):
                print(text)


def _print_rows_as_json(columns: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> None:
    """Prints one object, and its rows as they come."""
    from graphsearch.query.sql import json_value

    print(json_text.dumps({"columns": columns}, ensure_ascii=False)[:-1] + ', "rows": [', end="")
    for number, row in enumerate(rows):
        values = json_text.dumps([json_value(value) for value in row], ensure_ascii=False)
        print(", " * (number > 0) + values, end="")
    print("]}")


SEEN_FIRST = 100  # rows that set the column widths of a stream
WIDEST = 100  # characters of a column but the last


def streamed(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yields the lines of a table while its rows arrive; the first hundred set the column widths."""
    iterator = iter(rows)
    first = list(islice(iterator, SEEN_FIRST))
    cells = [[_cell(value) for value in row] for row in first]
    widths = [min(WIDEST, max([len(name), *(len(row[i]) for row in cells)])) for i, name in enumerate(names)]
    numeric = [
        bool(first) and all(row[i] is None or isinstance(row[i], int | float) for row in first)
        for i in range(len(names))
    ]
    yield aligned(names, widths, numeric, 2)
    yield "  ".join("-" * width for width in widths)
    for row in cells:
        yield aligned(row, widths, numeric, 2)
    for values in iterator:
        yield aligned([_cell(value) for value in values], widths, numeric, 2)


def _cell(value: Any) -> str:
    """Returns a value of SQLite as text of one line."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "".join(c if c.isprintable() else " " for c in str(value))
