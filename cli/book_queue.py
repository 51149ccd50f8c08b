"""`graphsearch book queue`: positions that a book searches first; it may be changed during a build."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from .commands import command, group
from .options import Json, StoreOption
from .output import FAILED, print_json, print_part, say
from .render import count, moment
from .tables import LEFT, RIGHT, WHOLE, table

if TYPE_CHECKING:
    from rich.table import Table

    from graphsearch.book.queue import Added, NewItem, QueueItem
    from graphsearch.book.queue_items import GivenItem

STDIN = "-"
MAX_DUPLICATES = 5  # duplicates that are named one by one
ALL_STATES = "all"

Book = Annotated[
    str | None,
    typer.Option("--book", metavar="NAME", help="For this book; by default for whichever is built next."),
]
OfBook = Annotated[str | None, typer.Option("--book", metavar="NAME", help="Only items for this book.")]


# ------------------------------------------------------------------------ add
@dataclass(frozen=True, slots=True, kw_only=True)
class AddRequest:
    """The options of `book queue add`."""

    positions: Annotated[
        list[str],
        typer.Argument(
            metavar="POSITION...",
            help="startpos, chess960:N, FENs in quotes, PGN files (the first game of each), or - for stdin, "
            "with one item per line: a FEN, an EPD line, moves from the start position, or POSITION moves "
            "LIST.",
            show_default=False,
        ),
    ]
    store: StoreOption
    moves: Annotated[
        str | None,
        typer.Option(
            "--moves",
            metavar="MOVES",
            help='A line from that position, in SAN or UCI: "d4 d5 c4". All its positions are added.',
        ),
    ] = None
    game: Annotated[
        int | None,
        typer.Option(
            "--game",
            metavar="K",
            min=1,
            help="Number of the game in a PGN file, counted from 1; the first by default.",
        ),
    ] = None
    all_games: Annotated[bool, typer.Option("--all", help="All games of a PGN file, each as one item.")] = (
        False
    )
    ply: Annotated[
        int | None,
        typer.Option("--ply", metavar="P", min=0, help="Half-moves of a game to add; all by default."),
    ] = None
    book: Book = None
    json: Json = False


@command(
    "Add positions, lines or games.",
    'graphsearch book queue add startpos --moves "1. d4 d5 2. c4" --store first.graph',
    "graphsearch book queue add games.pgn --game 2 --ply 12 --store first.graph",
)
def add(request: AddRequest) -> None:
    """Add positions, lines and games that a book searches first, even while it is being built.

    Every position of a line or a game goes into the book, up to its maximum ply. Items that are already
    waiting are not added again. What cannot be read, in a file or on stdin, is reported; the rest is added,
    and the exit code is 1.

    JSON: `added` are the numbers of the new items; `duplicates` were already waiting, as item `id`;
    `problems` could not be read.
    """
    from graphsearch.book import queue

    if request.game is not None and request.all_games:
        raise typer.BadParameter("give either --game or --all")
    if request.moves is not None and len(request.positions) > 1:
        raise typer.BadParameter("--moves needs exactly one position")
    reading = _Reading(request)
    added = queue.add(request.store, reading.items(), book=request.book)
    _note_new_book(request.store, request.book)
    if request.json:
        print_json(_as_dict(added, reading.problems))
    else:
        _print_added(added)
    if reading.problems:
        raise typer.Exit(FAILED)


class _Reading:
    """Reads the items to add, prints notes about them, and collects those that cannot be read."""

    def __init__(self, request: AddRequest) -> None:
        self.problems: list[str] = []
        self._request = request

    def items(self) -> Iterator[NewItem]:
        """Yields the items of all positions, one after the other."""
        for text in self._request.positions:
            for given in self._given(text):
                for note in given.notes:
                    say(f"note: {note}")
                if given.item:
                    yield given.item
                else:
                    self.problems.append(given.problem)
                    say(f"graphsearch: {given.problem}")

    def _given(self, text: str) -> Iterable[GivenItem]:
        from graphsearch.book import queue_items

        if text == STDIN:
            self._refuse_options("stdin")
            return queue_items.from_lines(_lines())
        path = Path(text)
        if not path.exists():
            if self._request.game is not None or self._request.ply is not None or self._request.all_games:
                raise typer.BadParameter("--game, --all and --ply need a PGN file")
            return [queue_items.from_text(text, moves=self._request.moves)]
        if self._request.moves is not None:
            raise typer.BadParameter("--moves needs startpos or a FEN; use --ply to cut a game short")
        only = None if self._request.all_games else [self._request.game or 1]
        return queue_items.from_games(path, ply=self._request.ply, only=only)

    def _refuse_options(self, where: str) -> None:
        given = {
            "--moves": self._request.moves,
            "--game": self._request.game,
            "--ply": self._request.ply,
            "--all": self._request.all_games or None,
        }
        for name, value in given.items():
            if value is not None:
                raise typer.BadParameter(f"{name} cannot be used with {where}")


def _lines() -> Iterator[str]:
    from graphsearch.limits import text_lines

    if sys.stdin is not None:  # closed by the caller
        yield from text_lines(sys.stdin.buffer, "stdin")


def _note_new_book(store: Path, book: str | None) -> None:
    """Prints a note if there is no book of this name yet: it may be misspelt."""
    if book is None:
        return
    from graphsearch.book.todo import book_names

    names = book_names(store)
    if book not in names:
        known = f"it has {', '.join(names)}" if names else "it has none"
        say(f"note: {store} has no book {book!r} yet; {known}")


def _as_dict(added: Added, problems: list[str]) -> dict[str, object]:
    duplicates = [
        {"id": number, "fen": item.fen, "moves": list(item.moves), "origin": item.origin}
        for item, number in added.duplicates
    ]
    return {"added": list(added.ids), "duplicates": duplicates, "problems": problems}


def _print_added(added: Added) -> None:
    for entry, number in added.duplicates[:MAX_DUPLICATES]:
        say(f"note: already waiting as item {number}: {line_text(entry.fen, entry.moves)}")
    if len(added.duplicates) > MAX_DUPLICATES:
        say(f"note: and {count(len(added.duplicates) - MAX_DUPLICATES, 'other')} already waiting")
    numbers = f": {added.ids[0]}" if len(added.ids) == 1 else ""
    numbers = f": {added.ids[0]} to {added.ids[-1]}" if len(added.ids) > 1 else numbers
    print(f"Added {count(len(added.ids), 'item')} to the queue{numbers}")


def line_text(fen: str, moves: tuple[str, ...]) -> str:
    """Returns a line with move numbers, after its first position unless that is the start
    position.
    """
    import chess

    from graphsearch.position.board import board_of

    board = board_of(fen)
    if not moves:
        return fen
    try:
        san = board.variation_san([chess.Move.from_uci(move) for move in moves])
    except ValueError:  # an illegal line is shown as it is stored
        san = " ".join(moves)
    return san if fen == chess.STARTING_FEN else f"{fen}: {san}"


# ----------------------------------------------------------------- list, drop
@command(
    "List what waits and what was done.",
    "graphsearch book queue list --store first.graph",
    "graphsearch book queue list --store first.graph --state all --json",
    name="list",
)
def list_items(
    store: StoreOption,
    state: Annotated[
        str,
        typer.Option("--state", metavar="STATE", help="waiting, done, refused, dropped or all."),
    ] = "waiting",
    book: OfBook = None,
    json: Json = False,
) -> None:
    """List the items of the queue in the order in which they were added.

    JSON: `items`, each with the columns of the table `book_queue` (`schema/store.md`); `moves` is a list.
    """
    from graphsearch.book import queue

    chosen = next((known for known in get_args(queue.State) if known == state), None)
    if chosen is None and state != ALL_STATES:
        names = ", ".join([*queue.STATES, ALL_STATES])
        raise typer.BadParameter(f"must be one of {names}, not {state!r}", param_hint="'--state'")
    found = list(queue.items(store, state=chosen, book=book))
    if json:
        print_json({"items": [item.as_dict() for item in found]})
        return
    if found:
        print_part(_table(found))
    else:
        say("The queue is empty." if chosen is None else f"No item is {chosen}.")


def _table(found: list[QueueItem]) -> Table:
    columns = {
        "Item": RIGHT,
        "State": WHOLE,
        "Book": LEFT,
        "Added (UTC)": WHOLE,
        "From": LEFT,
        "Line": LEFT,
        "Note": LEFT,
    }
    rows = [
        [
            str(item.id),
            item.state,
            item.book or "any",
            moment(item.added),
            item.origin,
            line_text(item.fen, item.moves),
            item.note or "",
        ]
        for item in found
    ]
    return table(columns, rows)


@command(
    "Remove items from the queue.",
    "graphsearch book queue drop 1 --store first.graph",
    "graphsearch book queue drop --all --store first.graph",
)
def drop(
    store: StoreOption,
    items: Annotated[
        list[int] | None,
        typer.Argument(metavar="ITEM...", help="Numbers, as `list` prints them.", show_default=False),
    ] = None,
    all_items: Annotated[bool, typer.Option("--all", help="All waiting items.")] = False,
    book: OfBook = None,
    json: Json = False,
) -> None:
    """Remove waiting items from the queue; items that a builder has started stay.

    JSON: `dropped` is the number of removed items; `left` are items that were no longer waiting.
    """
    from graphsearch.book import queue

    if bool(items) == all_items:
        raise typer.BadParameter("give either item numbers or --all")
    if book is not None and not all_items:
        raise typer.BadParameter("--book needs --all")
    left = [] if items is None or all_items else queue.drop(store, items)
    dropped = queue.drop_all(store, book=book) if all_items else len(set(items or ())) - len(left)
    if json:
        print_json({"dropped": dropped, "left": [item.as_dict() for item in left]})
        return
    for item in left:
        say(f"note: item {item.id} is already {item.state} and stays as it is")
    print(f"Dropped {count(dropped, 'item')}")


app = group("Choose what a book searches first.", add, list_items, drop)
