"""`graphsearch diff` and `history`: changes between files, since a run, and of a root at every save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from graphsearch.query.routes import Way, routes

from . import render
from .options import ALL_LINES, AnyPositionOptions, Count, Lines, StoreOption
from .output import print_answer, say, say_if_unfinished
from .progress import progress_bar
from .tables import VIEW, Part, Table, count, is_white, moment, score, signed

if TYPE_CHECKING:
    from graphsearch.book.questions import BookChanges
    from graphsearch.query.diff import Change, Difference, Found, RootChange, Since, Worth
    from graphsearch.query.history import HistoryPoint


def diff(
    store: StoreOption,
    other: Path | None = None,
    since: str | None = None,
    cp: Count = 20,
    lines: Lines = 20,
    min_visits: Count = 10,
) -> None:
    """List the positions whose best move, value or bounds differ between two graph files.

    What changed most in most visits comes first. Then follow the most visited positions that only one of the
    files holds, and moves that came into books or went, with reasons.

    With --since, one file is compared with itself as it was before a run; `last` is the last one. A sentence
    for each root comes first. A file remembers what its roots were worth at every save, which run evaluated a
    position, and which build took a move into a book; of other positions it does not know the former values.
    New proofs are those of positions that were evaluated since, and have 10 visits or more.

    JSON: values are seen by the side to move. `changes` has the listed positions with `old` and `new` values;
    `counts` counts all changes of the `both` common positions by kind; `gone` and `come` are positions of one
    file alone.

    \b
    Examples:
      graphsearch diff sunday.graph first.graph
      graphsearch diff sunday.graph first.graph --cp 50 --json
      graphsearch diff first.graph --since last

    Args:
      other: NEWER: The newer graph file.
      since: --since MOMENT: Instead of a second file: a run's number, last, yesterday, 7d, 12h, or a time
        such as 2026-01-31T12:00 (UTC).
      cp: --cp X: Changes of X centipawns (hundredths of a pawn) or more count.
      min_visits: --min-visits N: With --since: list new proofs of positions with N visits or more.
    """
    from graphsearch.book.questions import changes, changes_since
    from graphsearch.query.diff import diff as compare
    from graphsearch.query.diff import since as changes_of_file

    top = lines or ALL_LINES
    if (other is None) == (since is None):
        raise typer.BadParameter("name a second graph file, or a moment with --since")
    found: Difference | Since
    if other is None:
        with progress_bar("Reading") as advance:
            found = changes_of_file(store, str(since), top=top, min_visits=min_visits, on_progress=advance)
        books, parts = changes_since(store, found.run, top=top), _since(store, found)
    else:
        with progress_bar("Comparing") as advance:
            found = compare(store, other, cp=cp, top=top, on_progress=advance)
        books, parts = changes(store, other, top=top), _difference(found)
        say_if_unfinished(other)
    facts = found.as_dict() | {"books": [book.as_dict() for book in books]}
    print_answer(facts, chain(parts, _books(other or store, books)), fits=True)


def _since(file: Path, found: Since) -> Iterator[Part]:
    evaluated = f"{count(found.evaluated, 'new position')}, {found.proven:,} of them proven"
    yield f"{file}: {count(found.runs, 'run')} since run {found.run}, {evaluated}"
    alone = [row.position for row in (*found.come, *found.proofs)]
    ways = routes(file, [row.position for row in found.roots] + alone)
    yield VIEW
    for row in found.roots:
        yield _sentence(row, ways.get(row.position))
    yield _alone("New positions", found.come, ways)
    yield _alone("New proofs", found.proofs, ways, proven=True)


def _sentence(root: RootChange, way: Way | None) -> str:
    """Returns what changed at a root: its best move, its score and its visits."""
    place, white, old, new = render.way_text(way, root.position), is_white(root.position), root.old, root.new
    now = f"{new.best_san or 'no move'} {score(new.cp, new.mate, white=white)}"
    if old is None:
        return f"{place}: new, {now}; {count(new.n, 'visit')}"
    visits, before = f"{old.n:,} -> {new.n:,} visits", score(old.cp, old.mate, white=white)
    if old.best_san == new.best_san:
        return f"{place}: {now} stays first, {before} before; {visits}"
    return f"{place}: {now} takes over from {old.best_san or 'no move'} {before}; {visits}"


def _difference(found: Difference) -> Iterator[Part]:
    if found.evaluators[0] != found.evaluators[1]:
        say(f"note: the files have different evaluators: {found.evaluators[0]} and {found.evaluators[1]}")
    names = {"best": "best move", "q": f"{found.cp / 100:.2f} or more", "bounds": "proven", "n": "visits"}
    changed = ", ".join(f"{names[name]} {number:,}" for name, number in found.counts.items())
    yield f"{count(found.both, 'common position')}: {found.same:,} the same; changed: {changed}"
    yield VIEW
    ways = routes(found.new, [row.position for row in found.changes] + [row.position for row in found.come])
    yield Table((_change_cells(row, ways.get(row.position)) for row in found.changes), title="Changed")
    old_ways = routes(found.old, [row.position for row in found.gone])
    for title, number, alone, of in (
        (f"Only in {found.old}", found.only_old, found.gone, old_ways),
        (f"Only in {found.new}", found.only_new, found.come, ways),
    ):
        yield f"{title}: {count(number, 'position')}"
        yield _alone("The most visited", alone, of)


def _worth(worth: Worth, position: str) -> dict[str, str]:
    """Returns the cells of a position's value."""
    white = is_white(position)
    return {
        "Score": score(worth.cp, worth.mate, white=white),
        "Best": worth.best_san or "",
        "Visits": f"{worth.n:,}",
        "Q": signed(worth.q, white=white),
    }


def _change_cells(row: Change, way: Way | None) -> dict[str, str]:
    """Returns the cells of a position then and now, side by side."""
    cells, worths = render.way_cells(way, row.position), (row.old, row.new)
    before, now = (_worth(worth, row.position) for worth in worths)
    for column, text in now.items():
        cells |= {f"{column} before": before[column], column: text}
    old, new = (render.proven_result(worth.bounds, white=is_white(row.position)) for worth in worths)
    return cells | {"Proven": new if old == new else f"{old or 'open'} -> {new or 'open'}"}


def _alone(title: str, rows: Sequence[Found], ways: Mapping[str, Way], *, proven: bool = False) -> Table:
    cells = [
        render.way_cells(ways.get(row.position), row.position)
        | _worth(row.worth, row.position)
        | ({"Proven": render.proven_result(row.worth.bounds, white=is_white(row.position))} if proven else {})
        for row in rows
    ]
    return Table(cells, title=title)


def _books(file: Path, books: Sequence[BookChanges]) -> Iterator[Part]:
    for book in books:
        if book.came or book.went:
            yield f"Book {book.book}: {count(book.came, 'move')} came, {book.went:,} went"
            ways = routes(file, [row.position for row in book.changes])
            rows = [
                {
                    "": "+" if row.came else "-",
                    **render.way_cells(ways.get(row.position), row.position),
                    "Move": row.san,
                    "Visits": f"{row.n:,}",
                    "Rule": row.rule,
                    "Reason": row.reason,
                }
                for row in book.changes
            ]
            yield Table(rows)


def history(store: StoreOption, position: AnyPositionOptions, by: str = "save") -> None:
    """Print value, best move, depth and line of a root at every save, over all runs of the file.

    Without POSITION: of the root that was searched last, or of a book's root. A `*` marks a best move that
    differs from the one before. A search saves every 30 seconds, and at its end; `reevaluate` and `refresh`
    save all roots; a review saves none. A book saves a root whenever its value there, its best move or its
    line has changed; Kind then has the book's name. A root keeps at most 800 saves; older ones are thinned,
    but for those where the best move changed and the last of each run.

    JSON: `points`, in the order of runs and of N, values seen by the side to move; `kind` and `evaluator` are
    null if the file does not list the run any more; `book` is null unless the values are those of a book;
    `evaluators` has their names.

    \b
    Examples:
      graphsearch history first.graph
      graphsearch history first.graph "1. e4 e5" --by run --json

    Args:
      by: --by WHAT: save: every save; run: only the last one of each run.
    """
    from graphsearch.query.history import history as history_of

    if by not in ("save", "run"):
        raise typer.BadParameter(f"--by must be save or run, not {by!r}")
    found = history_of(store, position.board())
    points = found.by_run if by == "run" else found.points
    facts = found.as_dict() | {"points": [point.as_dict() for point in points]}
    moves = Table([_point_cells(point, found.position) for point in points], spare=("Depth", "W D L"))
    opening = render.opening_line(render.opening_at(found.position))
    print_answer(facts, [*render.position_heading(store, found.position), *opening, VIEW, moves], fits=True)
    if not points:
        say("note: no search of this position was saved")


def _point_cells(point: HistoryPoint, position: str) -> dict[str, str]:
    white = is_white(position)
    return {
        "Run": str(point.run),
        "Kind": f"book {point.book}" if point.book else point.kind or "",
        "Saved (UTC)": moment(point.saved),
        "Score": score(point.cp, point.mate, white=white),
        "W D L": render.wdl(point.wdl, white=white),
        "Visits": f"{point.n:,}",
        "Q": signed(point.q, white=white),
        "Depth": "" if point.depth is None else str(point.depth),
        "Best": f"{point.best_san or ''}{' *' if point.changed else ''}",
        "Line": render.numbered(position, point.line),
    }
