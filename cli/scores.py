"""Formats values for all tables: pawns from White's view, or from the mover's with `--view mover`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphsearch.base.errors import InvalidParameterError

if TYPE_CHECKING:
    from graphsearch.position.values import WDL

VIEWS = WHITE, MOVER = "white", "mover"


@dataclass(slots=True)
class Look:
    """The display of values in this process: the view, and whether with all counters (`--details`)."""

    view: str = WHITE
    details: bool = False


look = Look()


@contextmanager
def looking(view: str | None, *, details: bool) -> Iterator[None]:
    """Shows values in a view inside the block; None changes nothing.

    Raises:
      InvalidParameterError: if it is none of `VIEWS`.
    """
    if view not in (None, *VIEWS):
        raise InvalidParameterError(f"--view is {' or '.join(VIEWS)}, not {view!r}")
    before = look.view, look.details
    look.view, look.details = view or look.view, details or look.details
    try:
        yield
    finally:
        look.view, look.details = before


def heading() -> str:
    """Returns the name of the shown view."""
    return "White's view" if look.view == WHITE else "the mover's view"


def seen(value: float, *, white: bool) -> float:
    """Returns a value of the side to move, White or not, in the shown view.

    >>> seen(0.25, white=True), seen(0.25, white=False), seen(0.0, white=False)
    (0.25, -0.25, 0.0)
    """
    return value if white or look.view == MOVER else 0.0 - value


def seen_of_white(value: float, *, white: bool) -> float:
    """Returns a value, given from White's view, in the shown view; `white`: whether White is to move."""
    return seen(value if white else 0.0 - value, white=white)


def pawns(cp: float | None) -> str:
    """Returns centipawns as pawns; zero has no sign, and None is empty.

    >>> pawns(25), pawns(-130), pawns(0), pawns(None)
    ('+0.25', '-1.30', '0.00', '')
    """
    return "" if cp is None else f"{cp / 100:+.2f}" if cp else "0.00"


def score(cp: int | None, mate: int | None, *, white: bool) -> str:
    """Returns the score of the side to move, White or not, in the shown view: `+0.31`, `#5`, `#-3`.

    >>> score(31, None, white=False), score(12800, 5, white=False), score(None, None, white=True)
    ('-0.31', '#-5', '')
    """
    if mate is not None:
        return f"#{seen(mate, white=white):.0f}"
    return "" if cp is None else pawns(seen(cp, white=white))


def value_score(value: float | None, position: str) -> str:
    """Returns a value of a book for the side to move of a position as a score; empty for None."""
    from graphsearch.position.values import cp_of

    return "" if value is None else score(cp_of(value), None, white=is_white(position))


def wdl(shares: WDL | None, *, white: bool) -> str:
    """Returns win, draw and loss in per cent: `45 32 23`; those of White in White's view."""
    if shares is None:
        return ""
    from graphsearch.position.values import rounded_shares

    parts = rounded_shares(shares, 100)
    return " ".join(f"{part:2}" for part in (parts if white or look.view == MOVER else parts[::-1]))


def signed(q: float | None, *, white: bool = True) -> str:
    """Returns a Q of the side to move with its sign and three decimals, in the shown view.

    >>> signed(0.25), signed(0.25, white=False), signed(-0.0001), signed(None)
    ('+0.250', '-0.250', '0.000', '')
    """
    if q is None:
        return ""
    text = f"{seen(q, white=white):+.3f}"
    return "0.000" if float(text) == 0 else text


def is_white(position: str) -> bool:
    """Returns whether White is to move in a FEN."""
    return position.split(" ", 2)[1] == "w"


def detail(text: str) -> str:
    """Returns a text with `--details`, else an empty one."""
    return text if look.details else ""


def detailed(cells: dict[str, str]) -> dict[str, str]:
    """Returns the cells with `--details`, else none."""
    return cells if look.details else {}
