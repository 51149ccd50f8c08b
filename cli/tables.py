"""Tables, and numbers as text: values in pawns, from White's view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as Drawing

VIEW = "(White's view)"
_asked: frozenset[str] = frozenset()  # of `json` and `details`


@contextmanager
def shown_as(*asked: str) -> Iterator[None]:
    """Prints inside the block as asked for: `json`, `details`."""
    global _asked
    _asked = frozenset(asked)
    try:
        yield
    finally:
        _asked = frozenset()


def is_json() -> bool:
    """Returns whether the command prints JSON (`--json`)."""
    return "json" in _asked


def is_detailed() -> bool:
    """Returns whether all columns and counters are shown (`--details`)."""
    return "details" in _asked


def seen(value: float, *, white: bool) -> float:
    """Returns a value of the side to move, White or not, from White's view.

    >>> seen(0.25, white=True), seen(0.25, white=False), seen(0.0, white=False)
    (0.25, -0.25, 0.0)
    """
    return value if white else 0.0 - value


def pawns(cp: float | None) -> str:
    """Returns centipawns as pawns; zero has no sign, and None is empty.

    >>> pawns(25), pawns(-130), pawns(0), pawns(None)
    ('+0.25', '-1.30', '0.00', '')
    """
    return "" if cp is None else f"{cp / 100:+.2f}" if cp else "0.00"


def score(cp: int | None, mate: int | None, *, white: bool) -> str:
    """Returns the score of the side to move, White or not, from White's view: `+0.31`, `#5`, `#-3`.

    >>> score(31, None, white=False), score(12800, 5, white=False), score(None, None, white=True)
    ('-0.31', '#-5', '')
    """
    if mate is not None:
        return f"#{seen(mate, white=white):.0f}"
    return "" if cp is None else pawns(seen(cp, white=white))


def signed(q: float | None, *, white: bool = True) -> str:
    """Returns a Q of the side to move with its sign and three decimals, from White's view.

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
    return text if is_detailed() else ""


WIDEST = 60  # characters of text on one line, such as a name, so that a pipe's width has room for the rest
ROOMY, TIGHT = 30, 8  # characters of a line for which spare columns and others go
GAP = 3  # characters between two columns
# kinds of columns: text that folds, text on one line, text that takes the width left over, numbers
LEFT, WHOLE, FILL, RIGHT = "left", "whole", "fill", "right"
KINDS = {  # of columns by name; others hold numbers
    **dict.fromkeys(("Line", "PV", "Better", "Player"), FILL),
    **dict.fromkeys(("", "Best", "Best before", "Curve", "ECO", "Id", "Move", "Opening", "Position"), WHOLE),
    **dict.fromkeys(("Proven", "Reply", "State", "Wanted"), WHOLE),
    **dict.fromkeys(
        ("Added (UTC)", "Answer", "Book", "Changed (UTC)", "Date", "Ended", "File", "From"), LEFT
    ),
    **dict.fromkeys(("Game", "Kind", "Last", "Limits", "Note", "Parameters", "Reason"), LEFT),
    **dict.fromkeys(("Rule", "Saved (UTC)", "Searched (UTC)", "Setting", "Solved", "Study"), LEFT),
    **dict.fromkeys(("Started (UTC)", "Why"), LEFT),
}
SPARE = "Position", "Opening", "Proven", "Depth", "Visits before", "Q", "P", "W D L", "ECO"
DETAILS = {"P", "Position", "Q", "Q after", "Q before", "Spent", "Value"}  # columns for `--details`
Row = Mapping[str, str]
Part: TypeAlias = "str | Table | RenderableType"  # of a command's output for a person


class Table:
    """A table without its empty columns, not drawn yet."""

    def __init__(
        self,
        rows: Iterable[Row],
        kinds: Mapping[str, str] | None = None,
        *,
        spare: Sequence[str] = SPARE,
        title: str | None = None,
    ) -> None:
        """Initializes the table.

        Args:
          rows: cells by column.
          kinds: of columns that are of another kind here than in `KINDS`, or no detail.
          spare: columns that a narrow terminal leaves out, the least important first; then it leaves out the
            last ones, never the first. A pipe shows all.
          title: text above the table.
        """
        self.rows, self.spare, self.title = list(rows), spare, title
        self.kinds = KINDS | dict(kinds or {})
        self._hidden = set() if is_detailed() else DETAILS - set(kinds or ())

    def drawn(self, width: int | None) -> Drawing:
        """Returns the table for a terminal of `width` columns; None for as wide as needed."""
        from rich import box
        from rich.table import Table as Drawing

        names = self._names() if width is None else self._fitting(width)
        drawn = Drawing(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            show_edge=False,
            expand=width is not None and any(self.kinds.get(name) == FILL for name in names),
            title=self.title,
            title_justify="left",
            title_style="bold",
        )
        for name in names:
            kind = self.kinds.get(name, RIGHT)
            drawn.add_column(
                name,
                justify="right" if kind == RIGHT else "left",
                no_wrap=kind != LEFT,
                overflow="fold" if kind == LEFT else "ellipsis",
                ratio=1 if kind == FILL else None,
                min_width=TIGHT if width and kind == FILL else None,
                max_width=WIDEST if kind == WHOLE else None,
            )
        for row in self.rows:
            drawn.add_row(*(row.get(name, "") for name in names))
        return drawn

    def _names(self) -> list[str]:
        """Returns the columns with content in some row, in order."""
        names = dict.fromkeys(name for row in self.rows for name in row if name not in self._hidden)
        return [name for name in names if any(row.get(name) for row in self.rows)]

    def _fitting(self, width: int) -> list[str]:
        """Returns the columns for a width: without those of `spare`, then without the last, until all fit."""
        from rich.cells import cell_len

        names = self._names()
        widest = {
            name: max(cell_len(row.get(name, "")) for row in (*self.rows, {name: name})) for name in names
        }

        def fit(room: int) -> bool:
            widths = (
                min(widest[one], room if self.kinds.get(one, RIGHT) in (LEFT, FILL) else WIDEST)
                for one in names
            )
            return sum(widths) + GAP * (len(names) - 1) <= width

        for name in self.spare:
            if not fit(ROOMY):
                names = [one for one in names if one != name]
        while len(names) > 1 and not fit(TIGHT):
            names.pop()
        return names


def moment(text: str | None) -> str:
    """Returns an ISO 8601 time to the minute, as every table shows it.

    >>> moment("2025-01-31T12:00:07Z"), moment(None)
    ('2025-01-31 12:00', '')
    """
    return (text or "")[:16].replace("T", " ")


def count(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun; the plural is the noun with an s unless given.

    >>> count(1, "node"), count(12345, "node"), count(2, "leaf", "leaves")
    ('1 node', '12,345 nodes', '2 leaves')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Returns a time in words.

    >>> duration(42.4), duration(3700), duration(200_000)
    ('42 s', '1 h 01 min', '2 d 7 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def rate(number: float) -> str:
    """Returns a rate in three figures.

    >>> rate(950.4), rate(81234), rate(1234567)
    ('950', '81.2k', '1.23M')
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.3g}"


def size(number: float) -> str:
    """Returns a number of bytes in a readable unit.

    >>> size(999), size(1234567)
    ('999 bytes', '1.2 MB')
    """
    if number < 1000:
        return f"{number:.0f} bytes"
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number / 1e3:.1f} kB"


def decimal(value: float | None) -> str:
    """Returns a number with one decimal; empty for None."""
    return "" if value is None else f"{value:.1f}"


def clock(seconds: float) -> str:
    """Returns a time in clock format.

    >>> clock(9.7), clock(3725)
    ('0:09', '1:02:05')
    """
    minutes, s = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{s:02}" if hours else f"{minutes}:{s:02}"
