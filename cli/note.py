"""`graphsearch note`: a person's notes on positions; every line that reaches a position shows its note."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command, group, report
from .options import Json, PositionOptions, StoreOption, option
from .output import FAILED, print_answer, print_json, say
from .render import moment
from .tables import LEFT, WHOLE, Part, table

if TYPE_CHECKING:
    from graphsearch.book.study.notes import NoteList, PositionNote

STDIN = "-"


@command(
    "Write the note on a position.",
    'graphsearch note write first.graph "1. e4 c5" --text "Ask Ann about 2. c3"',
)
def write(
    store: StoreOption,
    position: PositionOptions,
    text: Annotated[str, option("--text TEXT", "The note; - reads it from standard input.")],
    json: Json = False,
) -> None:
    """Write the note on a position, in place of the one that it has. The file can be searched meanwhile.

    JSON: as `note show`.
    """
    from graphsearch.base.limits import LINE, check_size
    from graphsearch.book.study.notes import note_on, write_note

    given = text
    if text == STDIN:
        given = sys.stdin.buffer.read(LINE.most + 1).decode("utf-8", "replace")
    check_size(len(given.encode()), LINE, "the note")
    if not given.strip():
        raise typer.BadParameter("the note is empty; `note delete` deletes one")
    board = position.board()
    write_note(store, board, given)
    if json:
        print_json(note_on(store, board).as_dict())


def _show(found: PositionNote) -> Iterator[Part]:
    if found.note:
        yield found.note.text
    for _, name, _ in found.studies:
        yield f"in the study {name}"


@command("Print the note on a position.", 'graphsearch note show first.graph "1. e4 c5"')
def show(store: StoreOption, position: PositionOptions, json: Json = False) -> None:
    """Print the note on a position, and the studies that reach it. Exit code 1 if there are none.

    JSON: `text` is empty without a note; `studies` have `id`, `name` and the number of the `move`.
    """
    from graphsearch.book.study.notes import note_on

    found = note_on(store, position.board())
    print_answer(found, _show(found), json=json)
    if not (found.note or found.studies):
        say(f"graphsearch: {store} has no note on {found.position}")
        raise typer.Exit(FAILED)


@command("Delete the note on a position.", 'graphsearch note delete first.graph "1. e4 c5"')
def delete(store: StoreOption, position: PositionOptions, json: Json = False) -> None:
    """Delete the note on a position. Exit code 1 if there is none.

    JSON: `deleted`.
    """
    from graphsearch.book.study.notes import note_on, write_note

    board = position.board()
    known = note_on(store, board).note is not None
    if known:
        write_note(store, board, "")
    if json:
        print_json({"deleted": known})
    if not known:
        say(f"graphsearch: {store} has no note on {board.fen()}")
        raise typer.Exit(FAILED)


def _list(found: NoteList) -> Iterator[Part]:
    rows = (
        {"Changed (UTC)": moment(note.changed), "Position": note.fen, "Note": " ".join(note.text.split())}
        for note in found.notes
    )
    yield table(rows, {"Changed (UTC)": WHOLE, "Position": WHOLE, "Note": LEFT})
    if not found.notes:
        yield "There are no notes."


@report("List the notes of a graph file.", "graphsearch note list first.graph", view=_list, name="list")
def list_all(store: StoreOption) -> NoteList:
    """List the notes of a graph file, the last changed first.

    JSON: `notes`, each with the columns of the table `note` (`schema/store.md`).
    """
    from graphsearch.book.study.notes import list_notes

    return list_notes(store)


app = group("Notes on positions: write, show, list, delete.", write, show, list_all, delete)
