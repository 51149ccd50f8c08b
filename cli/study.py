"""`graphsearch study`: games with variations and comments, kept in a graph file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from .commands import command, group, report
from .exports import STDOUT, write_text
from .imports import given_file
from .options import Json, PgnInput, StoreOption, argument, option
from .output import print_json, problem_lines, say
from .progress import progress_bar
from .render import count, moment
from .tables import LEFT, WHOLE, Part, table

if TYPE_CHECKING:
    from graphsearch.book.study.studies import StudyList

Name = Annotated[str, argument("NAME", "Name of the study.")]


def _list(found: StudyList) -> Iterator[Part]:
    rows = (
        {"Study": one.name, "Moves": f"{one.moves:,}", "Changed (UTC)": moment(one.changed)}
        for one in found.studies
    )
    yield table(rows, {"Study": LEFT, "Changed (UTC)": WHOLE})
    if not found.studies:
        yield "There are no studies."


@report("List the studies of a graph file.", "graphsearch study list first.graph", view=_list, name="list")
def list_all(store: StoreOption) -> StudyList:
    """List the studies of a graph file, with the number of their moves.

    JSON: `id` is the number in the page's addresses, `revision` grows with every change.
    """
    from graphsearch.book.study.studies import list_studies

    return list_studies(store)


@command(
    "Make a study of each game of a PGN file.",
    "graphsearch study import first.graph game.pgn",
    'graphsearch study import first.graph game.pgn --name "My game"',
    name="import",
)
def import_pgn(
    file: PgnInput,
    store: StoreOption,
    name: Annotated[
        str, option("--name NAME", "Name of the study; by default players and event name it.")
    ] = "",
    json: Json = False,
) -> None:
    """Make a study of each game of a PGN file, with its variations, comments and glyphs.

    A name that is taken gets a number. What cannot be kept, such as an illegal move and the line behind it,
    is listed with its reason. The file can be searched meanwhile.

    JSON: `studies` were made; `left_out` has at most 1,000 reasons, `found` counts all.
    """
    from graphsearch.book.study.studies import import_file

    with progress_bar("Reading games") as advance:
        told = (lambda number: advance(number, None)) if advance else (lambda _: None)
        found = import_file(store, given_file(file), name=name, on_game=told)
    if json:
        print_json(found.as_dict())
        return
    for line in problem_lines(found.problems, found.found):
        say(f"left out: {line}")
    for one in found.studies:
        print(f"{one.name}: {count(one.moves, 'move')}")


@command(
    "Write studies as PGN.",
    'graphsearch study export first.graph "My game" -o game.pgn',
    "graphsearch study export first.graph > all.pgn",
)
def export(
    store: StoreOption,
    names: Annotated[list[str] | None, argument("NAME...", "Names of studies; all by default.")] = None,
    output: Annotated[str, option("-o --output OUT", "PGN file to write; - for stdout.")] = STDOUT,
    json: Json = False,
) -> None:
    """Write studies as PGN, with everything in them.

    JSON: `pgn` is the text.
    """
    from graphsearch.book.study.studies import export_studies

    text = export_studies(store, names or [])
    if json:
        print_json({"pgn": text})
    else:
        write_text(text, output, store)


@command("Rename a study.", 'graphsearch study rename first.graph "My game" "Round 3"')
def rename(
    store: StoreOption, name: Name, new: Annotated[str, argument("NEW", "Its new name.")], json: Json = False
) -> None:
    """Rename a study.

    JSON: `id` and `name`.
    """
    from graphsearch.book.study.studies import StudyChange, change_study

    found = change_study(store, name, StudyChange(name=new))
    _done(found.id, found.name, "renamed", json=json)


@command("Delete a study.", 'graphsearch study delete first.graph "My game"')
def delete(store: StoreOption, name: Name, json: Json = False) -> None:
    """Delete a study with all its moves.

    JSON: `id` and `name`.
    """
    from graphsearch.book.study.studies import delete_study

    found = delete_study(store, name)
    _done(found.id, found.name, "deleted", json=json)


def _done(number: int, name: str, what: str, *, json: bool) -> None:
    if json:
        print_json({"id": number, "name": name})
    else:
        print(f"{name}: {what}")


app = group("Studies: list, import, export, rename, delete.", list_all, import_pgn, export, rename, delete)
