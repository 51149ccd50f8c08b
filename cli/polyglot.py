"""Polyglot books as files: merged by `store merge`, compared by `diff`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .output import print_answer, say
from .render import count, line_cells
from .tables import FILL, LEFT, WHOLE, Cells, Part, table

if TYPE_CHECKING:
    from graphsearch.exchange.polyglot import BookMerge
    from graphsearch.exchange.polyglot_diff import BookDiff, BookDifference, BookMoveShare

KINDS = {"Line": FILL, "ECO": WHOLE, "Before": LEFT, "Now": LEFT, "Moves": LEFT}
MOST_MOVES = 4  # of a position, in a table
ENDING = ".bin"


def is_book(path: Path) -> bool:
    """Returns whether a file is a Polyglot book, by its name."""
    return path.suffix.lower() == ENDING


def merge_books(files: Sequence[Path], output: Path, dry_run: bool, force: bool, *, json: bool) -> None:
    """Merges books, and prints the report."""
    from graphsearch.exchange.polyglot import merge_books

    report = merge_books(files, output, dry_run=dry_run, force=force)
    _say_notes(*(book.notes for book in report.inputs))
    print_answer(report, _merged(report), json=json)
    if dry_run:
        say("Nothing was written.")


def diff_of_books(old: Path, new: Path, *, top: int, json: bool) -> None:
    """Compares two books, and prints the differences."""
    from graphsearch.exchange.polyglot import read_book
    from graphsearch.exchange.polyglot_diff import diff_books

    books = read_book(old), read_book(new)
    _say_notes(*(book.notes for book in books))
    found = diff_books(*books, top=top)
    print_answer(found, _different(found), json=json)


def _say_notes(*notes: Sequence[str]) -> None:
    for lines in notes:
        for line in lines:
            say(f"note: {line}")


def _merged(report: BookMerge) -> Iterator[Part]:
    rows = [
        {"File": book.path, "Entries": f"{book.count:,}", "Positions": f"{book.positions:,}"}
        for book in report.inputs
    ]
    yield table(rows, {"File": LEFT})
    scaled = f", {report.scaled:,} scaled to 16 bits" if report.scaled else ""
    yield f"weights added: {count(report.added, 'move')}{scaled}"
    verb = "would have" if report.dry_run else "has"
    yield f"{report.path} {verb} {count(report.positions, 'position')}, {count(report.moves, 'move')}"


def _different(found: BookDiff) -> Iterator[Part]:
    yield f"{count(found.both, 'common position')}: {found.same:,} the same"
    yield _table("Changed", found.changes)
    for path, number, rows in (
        (found.old.path, found.only_old, found.gone),
        (found.new.path, found.only_new, found.come),
    ):
        yield f"Only in {path}: {count(number, 'position')}"
        yield _table("The heaviest", rows)


def _table(title: str, rows: Sequence[BookDifference]) -> Cells:
    return table(map(_cells, rows), KINDS, spare=("ECO",), title=title)


def _cells(row: BookDifference) -> dict[str, str]:
    """Returns the cells of a position: its line, or its key if no line leads there; and its moves."""
    cells = {"Line": f"no line leads to it, key {row.key}", "ECO": ""}
    if row.line is not None:
        known = line_cells(None, row.line)
        cells = {"Line": known["Line"] or "start", "ECO": known["ECO"]}
    if (
        row.difference
        and any(move.old is not None for move in row.moves)
        and any(move.new is not None for move in row.moves)
    ):
        old = [(move, move.old_share) for move in row.moves if move.old is not None]
        new = [(move, move.new_share) for move in row.moves if move.new is not None]
        return cells | {"Before": _moves(old), "Now": _moves(new), "Differs": f"{100 * row.difference:.0f}%"}
    return cells | {"Moves": _moves([(move, max(move.old_share, move.new_share)) for move in row.moves])}


def _moves(moves: Sequence[tuple[BookMoveShare, float]]) -> str:
    """Returns moves with their shares, the largest first: `e4 60%, d4 40%`."""
    ranked = sorted(moves, key=lambda one: -one[1])
    text = ", ".join(f"{move.move} {100 * share:.0f}%" for move, share in ranked[:MOST_MOVES])
    return f"{text}, {len(ranked) - MOST_MOVES:,} more" if len(ranked) > MOST_MOVES else text
