"""`graphsearch diff`: changes between two graph files, or of one since a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import ALL_LINES, Json, Lines, LinesOutput, StoreOption, argument, option
from .output import print_json, print_parts, say, say_if_unfinished
from .progress import progress_bar
from .render import WAY, WAY_LEAST, count, proven_result, way_cells
from .scores import detailed, heading, is_white, score, signed
from .tables import LEFT, WHOLE, Cells, Part, table

if TYPE_CHECKING:
    from graphsearch.book.changes import BookChanges
    from graphsearch.query.diff import Alone, Difference, Worth
    from graphsearch.query.routes import Way
    from graphsearch.query.since import RootThen, Since

TEXTS = WAY | {"Best before": WHOLE, "Best": WHOLE, "Proven": WHOLE}
# column -> the narrowest terminal that has it
LEAST = WAY_LEAST | {
    "Score before": 80,
    "Best before": 100,
    "Best": 80,
    "Visits before": 80,
    "Proven": 100,
}

Other = Annotated[Path | None, argument("NEWER", "The newer graph file.")]
Cp = Annotated[int, option("--cp X", "Changes of X centipawns (hundredths of a pawn) or more count.", min=1)]
Kind = Annotated[
    list[str] | None,
    option(
        "--kind CHANGE",
        "List positions whose best, q, bounds or n changed. May be repeated; by default all but n.",
    ),
]
When = Annotated[
    str | None,
    option(
        "--since MOMENT",
        "Instead of a second file: a run's number or a time such as 2026-01-31T12:00 (UTC).",
    ),
]


@command(
    "List what changed between two graph files.",
    "graphsearch diff sunday.graph first.graph",
    "graphsearch diff sunday.graph first.graph --cp 50 --kind best -o changed.pgn --json",
    "graphsearch diff first.graph --since 1",
    views=True,
)
def diff(
    store: StoreOption,
    other: Other = None,
    since: When = None,
    cp: Cp = 20,
    kind: Kind = None,
    lines: Lines = 20,
    output: LinesOutput = None,
    json: Json = False,
) -> None:
    """List the positions whose best move, value, bounds or visits differ between two graph files.

    What changed most in most visits comes first. Then follow the most visited positions that only one of the
    files holds, and moves that came into books or went, with reasons.

    With --since, one file is compared with itself as it was before a run. A file remembers what its roots
    were worth at every save, which run evaluated a position, and which build took a move into a book; of
    other positions it does not know the former values.

    JSON: values are seen by the side to move. `changes` has the listed positions with `old` and `new` values;
    `counts` counts all changes of the `both` common positions by kind; `gone` and `come` are positions of one
    file alone.
    """
    top = lines or ALL_LINES
    if (other is None) == (since is None):
        raise typer.BadParameter("name a second graph file, or a moment with --since")
    if other is None:
        if output or kind:
            raise typer.BadParameter("-o and --kind compare two files")
        _since(store, str(since), top=top, json=json)
        return
    from graphsearch.book.changes import changes
    from graphsearch.exchange.output import check_target
    from graphsearch.query.diff import diff as ask
    from graphsearch.store.file import real_path

    check_target(output, store=real_path(other), source=real_path(store))
    chosen = {} if not kind else {"what": tuple(kind)}
    with progress_bar("Comparing") as advance:
        found = ask(store, other, cp=cp, top=top, on_progress=advance, **chosen)
    books = changes(store, other, top=top)
    if output and not found.changes:
        say(f"note: no line to write; {output} is left as it is")
    elif output:
        from graphsearch.exchange.query_pgn import export_diff

        say(f"{output}: {count(export_diff(found, output), 'game')}")
    for path in (store, other):
        say_if_unfinished(path)
    if json:
        print_json(found.as_dict() | {"books": [book.as_dict() for book in books]})
        return
    print_parts(_difference(found))
    print_parts(_books(other, books))


def _since(file: Path, moment: str, *, top: int, json: bool) -> None:
    from graphsearch.book.changes import changes_since
    from graphsearch.query.routes import routes
    from graphsearch.query.since import since as ask

    with progress_bar("Reading") as advance:
        found = ask(file, moment, top=top, on_progress=advance)
    books = changes_since(file, found.run, top=top)
    say_if_unfinished(file)
    if json:
        print_json(found.as_dict() | {"books": [book.as_dict() for book in books]})
        return
    evaluated = count(found.evaluated, "new position")
    print(f"{file}: {count(found.runs, 'run')} since run {found.run}, {evaluated}")
    ways = routes(file, [row.position for row in found.roots] + [row.position for row in found.come])
    print_parts([f"({heading()})", _roots(found, ways), _alone("New positions", found.come, ways)])
    print_parts(_books(file, books))


def _difference(found: Difference) -> Iterator[Part]:
    from graphsearch.query.routes import routes

    if found.evaluators[0] != found.evaluators[1]:
        say(f"note: the files have different evaluators: {found.evaluators[0]} and {found.evaluators[1]}")
    names = {"best": "best move", "q": f"{found.cp / 100:.2f} or more", "bounds": "proven", "n": "visits"}
    changed = ", ".join(f"{names[name]} {number:,}" for name, number in found.counts.items())
    yield f"{count(found.both, 'common position')}: {found.same:,} the same; changed: {changed}"
    yield f"({heading()})"
    ways = routes(found.new, [row.position for row in found.changes] + [row.position for row in found.come])
    rows = [
        {
            **way_cells(ways.get(row.position), row.position),
            **_before_and_now(row.old, row.new, row.position),
            "Proven": _bounds(row.old, row.new, row.position),
        }
        for row in found.changes
    ]
    yield table(rows, TEXTS, least=LEAST, title="Changed")
    old_ways = routes(found.old, [row.position for row in found.gone])
    for title, number, alone, of in (
        (f"Only in {found.old}", found.only_old, found.gone, old_ways),
        (f"Only in {found.new}", found.only_new, found.come, ways),
    ):
        yield f"{title}: {count(number, 'position')}"
        yield _alone("The most visited", alone, of)


def _worth(worth: Worth | RootThen | None, position: str, when: str = "") -> dict[str, str]:
    """Returns the cells of what a position is worth; their columns end with `when`."""
    if worth is None:
        return {}
    white = is_white(position)
    cells = {
        "Score": score(worth.cp, None, white=white),
        "Best": worth.best_san or "",
        "Visits": f"{worth.n:,}",
        **detailed({"Q": signed(worth.q, white=white)}),
    }
    return {name + when: text for name, text in cells.items()}


def _before_and_now(old: Worth | RootThen | None, new: Worth | RootThen, position: str) -> dict[str, str]:
    """Returns the cells of a position then and now, side by side."""
    before, now = _worth(old, position, " before"), _worth(new, position)
    return {
        name: text for column in now for name, text in ((f"{column} before", ""), (column, now[column]))
    } | before


def _bounds(old: Worth, new: Worth, position: str) -> str:
    before, after = (proven_result(worth.bounds, white=is_white(position)) for worth in (old, new))
    return after if before == after else f"{before or 'open'} -> {after or 'open'}"


def _alone(title: str, rows: Sequence[Alone], ways: Mapping[str, Way]) -> Cells:
    cells = [
        way_cells(ways.get(row.position), row.position) | _worth(row.worth, row.position) for row in rows
    ]
    return table(cells, TEXTS, least=LEAST, title=title)


def _roots(found: Since, ways: Mapping[str, Way]) -> Cells:
    rows = [
        way_cells(ways.get(row.position), row.position) | _before_and_now(row.old, row.new, row.position)
        for row in found.roots
    ]
    return table(rows, TEXTS, least=LEAST, title="Roots")


def _books(file: Path, books: Sequence[BookChanges]) -> Iterator[Part]:
    from graphsearch.query.routes import routes

    for book in books:
        if book.came or book.went:
            yield f"Book {book.book}: {count(book.came, 'move')} came, {book.went:,} went"
            ways = routes(file, [row.position for row in book.changes])
            rows = [
                {
                    "": "+" if row.came else "-",
                    **way_cells(ways.get(row.position), row.position),
                    "Move": row.san,
                    "Visits": f"{row.n:,}",
                    "Rule": row.rule,
                    "Reason": row.reason,
                }
                for row in book.changes
            ]
            yield table(rows, WAY | dict.fromkeys(("", "Move", "Rule", "Reason"), LEFT), least=WAY_LEAST)
