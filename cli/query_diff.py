"""`graphsearch query diff`: changes between two graph files, or of one since a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import Json, StoreFile
from .output import print_json, print_part, print_view, say, say_if_unfinished
from .progress import progress_bar
from .render import count, cp_text, signed
from .tables import LEFT, RIGHT, WHOLE, fitting, table

if TYPE_CHECKING:
    from rich.table import Table

    from graphsearch.book.changes import BookChanges
    from graphsearch.query.diff import Alone, Difference, Worth
    from graphsearch.query.since import Since

BOUNDS = {(1, 1): "won", (0, 0): "drawn", (-1, -1): "lost", (0, 1): ">= draw", (-1, 0): "<= draw"}
# column -> the narrowest terminal that has it
CHANGES = {"N before": 110, "N": 0, "Q before": 150, "Q": 150, "cp before": 70, "cp": 0}
CHANGES |= {"Best before": 60, "Best": 0, "Proven": 130, "Position": 0}
ALONE = {"N": 0, "Q": 100, "cp": 0, "Best": 60, "Position": 0}
ROOTS = {"N before": 100, "N": 0, "cp before": 70, "cp": 0, "Best before": 60, "Best": 0, "Root": 0}

Other = Annotated[
    Path | None, typer.Argument(metavar="NEWER", help="The newer graph file.", show_default=False)
]
Cp = Annotated[int, typer.Option("--cp", metavar="X", min=1, help="Changes of X centipawns or more count.")]
What = Annotated[
    list[str] | None,
    typer.Option(
        "--what",
        metavar="CHANGE",
        help="List positions whose best, q, bounds or n changed. May be repeated; by default all but n.",
    ),
]
Top = Annotated[int, typer.Option("--top", metavar="K", min=0, help="Positions to list of each kind.")]
When = Annotated[
    str | None,
    typer.Option(
        "--since",
        "--run",
        metavar="MOMENT",
        help="Instead of a second file: a run's number or a time such as 2026-01-31T12:00 (UTC).",
    ),
]
Pgn = Annotated[
    Path | None,
    typer.Option("--pgn", metavar="OUT", help="Write the changed lines as PGN.", show_default=False),
]


@command(
    "List what changed between two graph files.",
    "graphsearch query diff sunday.graph first.graph",
    "graphsearch query diff sunday.graph first.graph --cp 50 --what best --pgn changed.pgn --json",
    "graphsearch query diff first.graph --since 1",
    scores=True,
)
def diff(
    file: StoreFile,
    other: Other = None,
    since: When = None,
    cp: Cp = 20,
    what: What = None,
    top: Top = 20,
    pgn: Pgn = None,
    json: Json = False,
) -> None:
    """List the positions whose best move, value, bounds or visits differ between two graph files.

    The most visited positions come first. Then follow positions that only one of the files holds, and moves
    that came into books or went, with reasons. Values are seen by the side to move.

    With --since, one file is compared with itself as it was before a run. A file remembers what its roots
    were worth at every save, which run evaluated a position, and which build took a move into a book; of
    other positions it does not know the former values.

    JSON: `changes` has the listed positions with `old` and `new` values; `counts` counts all changes of the
    `both` common positions by kind; `gone` and `come` are positions of one file alone.
    """
    if (other is None) == (since is None):
        raise typer.BadParameter("name a second graph file, or a moment with --since")
    if other is None:
        if pgn or what:
            raise typer.BadParameter("--pgn and --what compare two files")
        _since(file, str(since), top=top, json=json)
        return
    from graphsearch.book.changes import changes
    from graphsearch.exchange.output import check_target
    from graphsearch.query.diff import diff as ask
    from graphsearch.store.file import real_path

    check_target(pgn, store=real_path(other), source=real_path(file))
    chosen = {} if not what else {"what": tuple(what)}
    with progress_bar("Comparing") as advance:
        found = ask(file, other, cp=cp, top=top, on_progress=advance, **chosen)
    books = changes(file, other, top=top)
    if pgn and not found.changes:
        say(f"note: no line to write; {pgn} is left as it is")
    elif pgn:
        from graphsearch.exchange.diff_export import export_diff

        say(f"{pgn}: {count(export_diff(found, pgn), 'game')}")
    for path in (file, other):
        say_if_unfinished(path)
    if json:
        print_json(found.as_dict() | {"books": [book.as_dict() for book in books]})
        return
    _print(found, books)


def _since(file: Path, moment: str, *, top: int, json: bool) -> None:
    from graphsearch.book.changes import changes_since
    from graphsearch.query.since import since as ask

    with progress_bar("Reading") as advance:
        found = ask(file, moment, top=top, on_progress=advance)
    books = changes_since(file, found.run, top=top)
    say_if_unfinished(file)
    if json:
        print_json(found.as_dict() | {"books": [book.as_dict() for book in books]})
        return
    print(
        f"{file}: {count(found.runs, 'run')} since run {found.run}, {count(found.evaluated, 'new position')}"
    )
    if found.roots:
        print_view(_roots(found))
    if found.come:
        print_view(_alone("New positions", found.come))
    _print_books(books)


def _print(found: Difference, books: Sequence[BookChanges]) -> None:
    if found.evaluators[0] != found.evaluators[1]:
        say(f"note: the files have different evaluators: {found.evaluators[0]} and {found.evaluators[1]}")
    names = {"best": "best move", "q": f"{found.cp} cp or more", "bounds": "bounds", "n": "N"}
    changed = ", ".join(f"{names[name]} {number:,}" for name, number in found.counts.items())
    print(f"{count(found.both, 'common position')}: {found.same:,} the same; changed: {changed}")
    if found.changes:
        print_view(_changes(found))
    for title, number, rows in (
        (f"Only in {found.old}", found.only_old, found.gone),
        (f"Only in {found.new}", found.only_new, found.come),
    ):
        print(f"{title}: {count(number, 'position')}")
        if rows:
            print_view(_alone("The most visited", rows))
    _print_books(books)


def _changes(found: Difference) -> Callable[[int | None], Table]:
    return _drawn(
        CHANGES,
        [
            {
                "N before": f"{row.old.n:,}",
                "N": f"{row.new.n:,}",
                "Q before": signed(row.old.q),
                "Q": signed(row.new.q),
                "cp before": cp_text(row.old.cp),
                "cp": cp_text(row.new.cp),
                "Best before": row.old.best_san or "",
                "Best": row.new.best_san or "",
                "Proven": _bounds(row.old, row.new),
                "Position": row.position,
            }
            for row in found.changes
        ],
        title="Changed",
    )


def _drawn(
    columns: Mapping[str, int], rows: Sequence[Mapping[str, str]], *, title: str | None = None
) -> Callable[[int | None], Table]:
    """Returns a function that draws rows for a terminal's width; a row that does not fit folds."""
    texts = {"Best before": WHOLE, "Best": WHOLE, "Proven": WHOLE, "Position": LEFT, "Root": LEFT}

    def draw(width: int | None) -> Table:
        kinds = {name: texts.get(name, RIGHT) for name in fitting(columns, width)}
        return table(kinds, rows, title=title)

    return draw


def _bounds(old: Worth, new: Worth) -> str:
    before, after = (BOUNDS.get(worth.bounds, "") for worth in (old, new))
    return after if before == after else f"{before or 'open'} -> {after or 'open'}"


def _alone(title: str, rows: Sequence[Alone]) -> Callable[[int | None], Table]:
    cells = [
        {
            "N": f"{row.worth.n:,}",
            "Q": signed(row.worth.q),
            "cp": cp_text(row.worth.cp),
            "Best": row.worth.best_san or "",
            "Position": row.position,
        }
        for row in rows
    ]
    return _drawn(ALONE, cells, title=title)


def _roots(found: Since) -> Callable[[int | None], Table]:
    rows = [
        {
            "N before": f"{row.old.n:,}" if row.old else "",
            "N": f"{row.new.n:,}",
            "cp before": cp_text(row.old.cp) if row.old else "",
            "cp": cp_text(row.new.cp),
            "Best before": (row.old.best_san or "") if row.old else "",
            "Best": row.new.best_san or "",
            "Root": row.position,
        }
        for row in found.roots
    ]
    return _drawn(ROOTS, rows, title="Roots")


def _print_books(books: Sequence[BookChanges]) -> None:
    for book in books:
        if book.came or book.went:
            print(f"Book {book.book}: {count(book.came, 'move')} came, {book.went:,} went")
            rows = [
                ["+" if row.came else "-", row.san, f"{row.n:,}", row.rule, row.reason, row.position]
                for row in book.changes
            ]
            columns = {"": LEFT, "Move": LEFT, "N": RIGHT, "Rule": LEFT, "Reason": LEFT, "Position": LEFT}
            print_part(table(columns, rows))
