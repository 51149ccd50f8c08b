"""Selection of positions and moves for an export: roots, side, depth and limits, common to all formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

import chess

from ..base.errors import ExportError, InvalidParameterError, InvalidPositionError, check_least
from ..base.limits import toml_tables
from ..position.board import board_of, check, fen_of, key_text
from ..position.notation import named_board, play_moves
from ..store.store import Store
from ..store.tables.books import Side, book_named, book_roots
from .output import ExportReport

# of an open file and the name of a book: the moves of a position that its rules admit now, in UCI; None: all
Admits = Callable[[Store, str], Callable[[chess.Board], frozenset[str] | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The positions and moves to export.

    Attributes:
      roots: positions to start from; empty: the roots of the book, else of the file, else the start position.
      book: name of a book, to export its positions and moves only; None: those of the graph.
      admits: which moves of the book to export (`book.questions.admitted_moves`); None: all.
      side: side to export for; None: the book's own side, else both. Moves of the other side are replies.
      depth: maximum plies below a root; None: all. min_visits: least node N and edge N.
      max_moves: maximum own moves per position, best first; None: all. Replies are not limited.
      all_moves: of rows, also moves without visits, if neither `min_visits` nor `max_moves` limits the moves.
      headers: of PGN, those of the game that leads to the root.
    """

    roots: tuple[chess.Board, ...] = ()
    book: str | None = None
    admits: Admits | None = None
    side: Side | None = None
    depth: int | None = None
    min_visits: int = 0
    max_moves: int | None = None
    all_moves: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises InvalidParameterError if a number or the side is out of range."""
        if self.side not in (None, "white", "black", "both"):
            raise InvalidParameterError(f"side must be white, black or both, not {self.side!r}")
        check_least(0, depth=self.depth, min_visits=self.min_visits)
        check_least(1, max_moves=self.max_moves)
        for root in self.roots:
            check(root)


OnProgress = Callable[[int, int], None]  # positions visited, positions met or expected


class Export:
    """An export from one file.

    Attributes:
      store: the file, open to read. report: it counts what is left out.
      roots: at least one. soft: the user did not name them, so a root below another needs no own tree.
      side: never None. book: number of the book, None without one.
      admitted: which moves of the book to export, of a position; None: all.
      games: the game that leads to a root, where known, by the root's FEN without clocks.
    """

    def __init__(
        self, store: Store, selection: Selection, report: ExportReport, on_progress: OnProgress | None = None
    ) -> None:
        """Selects the roots.

        Raises:
          InvalidParameterError: if the file has no book of that name.
          ExportError: if the book has no roots.
        """
        self.store, self.selection, self.report, self.on_progress = store, selection, report, on_progress
        book = book_named(store, selection.book) if selection.book is not None else None
        self.admitted = selection.admits(store, book.name) if book and selection.admits else None
        self.soft = not selection.roots and book is None
        self.side: Side = selection.side or (book.side if book else "both")
        self.book = book.id if book else None
        self.games: Mapping[str, chess.Board] = {}
        if selection.roots:
            roots, self.games = selection.roots, _games(selection.roots)
        elif book:
            roots = tuple(board_of(fen) for fen in book_roots(store, book.id))
            self.games = games_of_roots(book.config)
            if not roots:
                raise ExportError(f"{store.path}: the book {book.name!r} has no roots; name a POSITION")
        else:
            searched = sorted(store.roots(), key=lambda root: (-root.visits, root.key))
            roots = tuple(board_of(root.position) for root in searched) or (chess.Board(),)
        distinct = {key_text(board): board.copy(stack=False) for board in reversed(roots)}
        self.roots = tuple(distinct.values())[::-1]

    def leave_out(self, reason: str, count: int) -> None:
        """Counts what is left out for a reason, a name of `LEFT_OUT`."""
        self.report.left_out[reason] += int(count)


def _games(boards: Iterable[chess.Board]) -> dict[str, chess.Board]:
    return {without_clocks(fen_of(board)): board for board in boards if board.move_stack}


@lru_cache(maxsize=4)
def games_of_roots(config: str) -> dict[str, chess.Board]:
    """Returns the root lines of a book's TOML text as boards with moves, by FEN without clocks."""
    return _games(_lines(config))


def without_clocks(fen: str) -> str:
    """Returns the first four fields of a FEN."""
    return fen.rsplit(" ", 2)[0]


def _lines(config: str) -> Iterator[chess.Board]:
    """Yields the root lines of a book's TOML text as boards with moves; skips roots that it cannot parse."""
    try:
        tables = toml_tables(config).get("root")
    except (ValueError, RecursionError):  # of another version
        return
    for table in tables if isinstance(tables, list) else ():
        with suppress(InvalidPositionError, AttributeError, TypeError):
            board = named_board(table["fen"]) if table.get("fen") else chess.Board()
            play_moves(board, table.get("moves", ""))
            yield board
