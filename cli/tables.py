"""Tables, and numbers as text: values in pawns, from White's view."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from textwrap import wrap
from typing import TypeAlias, TypeVar
from unicodedata import combining, east_asian_width

_T = TypeVar("_T")

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
# characters that control a terminal, in names and notes of other people's files; all but tab and line feed
CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)], "?")
# kinds of columns: text that folds, text on one line, text that takes the width left over, numbers
LEFT, WHOLE, FILL, RIGHT = "left", "whole", "fill", "right"
KINDS = {  # of columns by name; others hold numbers
    name: kind
    for kind, names in (
        (FILL, "Line, PV, Better, Player"),
        (WHOLE, ", Best, Best before, Curve, ECO, Id, Move, Opening, Position, Proven, Reply, State, Wanted"),
        (LEFT, "Answer, Book, Date, Ended, File, From, Game, Kind, Last, Limits, Note, Parameters, Reason"),
        (LEFT, "Rule, Setting, Solved, Study, Why, Added (UTC), Changed (UTC), Saved (UTC)"),
        (LEFT, "Searched (UTC), Started (UTC)"),
    )
    for name in names.split(", ")
}
SPARE = "Position", "Opening", "Proven", "Depth", "Visits before", "Q", "P", "W D L", "ECO"
DETAILS = {"P", "Position", "Q", "Q after", "Q before", "Spent", "Value"}  # columns for `--details`
Row = Mapping[str, str]


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

    def lines(self, width: int | None) -> Iterator[str]:
        """Yields the lines of the table, none without rows; `width`: of a terminal, None for any width."""
        if not self.rows:
            return
        if self.title:
            yield self.title
        widths = self._widths(width)
        yield from self._row({name: name for name in widths}, widths)
        yield signs("\u2500", "-") * _sum(widths.values())
        for row in self.rows:
            yield from self._row(row, widths)

    def _row(self, row: Row, widths: Mapping[str, int]) -> Iterator[str]:
        """Yields the lines of a row, of which a long text takes several."""
        is_number = [self._kind(name) == RIGHT for name in widths]
        cells = (folded(row.get(name, ""), width, self._kind(name)) for name, width in widths.items())
        for parts in zip_longest(*cells, fillvalue=""):
            yield aligned(parts, [*widths.values()], is_number)

    def _kind(self, name: str) -> str:
        return self.kinds.get(name, RIGHT)

    def _widths(self, width: int | None) -> dict[str, int]:
        """Returns the widths of the columns with content; in a terminal text gives way to numbers."""
        found = {}
        names = dict.fromkeys(name for row in self.rows for name in row if name not in self._hidden)
        for name in [name for name in names if any(row.get(name) for row in self.rows)]:
            widest = max(columns_of(row.get(name, "")) for row in (*self.rows, {name: name}))
            found[name] = min(widest, WIDEST) if self._kind(name) == WHOLE else widest
        if width is None:
            return found
        found = {name: found[name] for name in self._fitting(found, width)}
        text, fill = ([name for name in found if self._kind(name) == kind] for kind in (LEFT, FILL))
        found |= dict.fromkeys(fill, TIGHT)
        while text and _sum(found.values()) > width:
            found[max(text, key=found.__getitem__)] -= 1
        for left, name in zip(range(len(fill), 0, -1), fill, strict=True):  # they share what is left
            found[name] += max(0, width - _sum(found.values())) // left
        return found

    def _fitting(self, widest: Mapping[str, int], width: int) -> list[str]:
        """Returns the columns for a width: without those of `spare`, then without the last, until all fit."""
        names = list(widest)

        def fit(room: int) -> bool:
            most = (room if self._kind(name) in (LEFT, FILL) else WIDEST for name in names)
            return _sum(map(min, (widest[name] for name in names), most)) <= width

        for name in self.spare:
            if not fit(ROOMY):
                names = [one for one in names if one != name]
        while len(names) > 1 and not fit(TIGHT):
            names.pop()
        return names


def folded(text: str, width: int, kind: str) -> list[str]:
    """Returns the lines of a cell in a column of a kind; a text that takes several folds, others are cut."""
    if columns_of(text) <= width:
        return [text]
    return wrap(text, width) if kind == LEFT else [shortened(text, width)]


def aligned(cells: Sequence[str], widths: Sequence[int], is_number: Sequence[bool], gap: int = GAP) -> str:
    """Returns a line of cells, each as wide as its column or wider; numbers end where the column ends."""
    spaces = [" " * (width - columns_of(cell)) for cell, width in zip(cells, widths, strict=True)]
    parts = zip(spaces, cells, is_number, strict=True)
    return (" " * gap).join(space + cell if right else cell + space for space, cell, right in parts).rstrip()


def _sum(widths: Iterable[int]) -> int:
    """Returns the width of columns, with the gaps between them."""
    return sum(width + GAP for width in widths) - GAP


class Prose(str):
    """A text that a terminal folds between words."""

    __slots__ = ()


Part: TypeAlias = "str | Table"  # of a command's output for a person


def lines_of(parts: Iterable[Part], width: int | None) -> Iterator[str]:
    """Yields the lines of texts and tables; `width`: of a terminal, None for any width."""
    for part in parts:
        lines: Iterable[str] = [part] if isinstance(part, str) else part.lines(width)
        if isinstance(part, Prose) and width:
            lines = wrap(part, width)
        yield from (line.translate(CONTROLS) for line in lines)


def columns_of(text: str) -> int:
    """Returns how many columns of a terminal a text takes.

    >>> columns_of("Kb3"), columns_of("\u5c40\u9762"), columns_of("e\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)


def shortened(text: str, width: int) -> str:
    """Returns a text that is too wide, cut to so many columns.

    >>> shortened("1. e4 e5 2. Nf3", 9)
    '1. e4 e5\u2026'
    """
    while columns_of(text) >= width:
        text = text[:-1]
    return f"{text}\u2026"


def encodes(text: str) -> bool:
    """Returns whether stdout can encode a text."""
    # what stands in for it beside a view that is drawn again, as Rich's proxy does, names no encoding
    stream = sys.stdout if getattr(sys.stdout, "encoding", None) else sys.__stdout__
    with suppress(UnicodeEncodeError, LookupError):
        text.encode(getattr(stream, "encoding", None) or "ascii")
        return True
    return False


def signs(drawn: str, plain: str) -> str:
    """Returns signs for stdout: as they should be drawn, or plain ones if it cannot encode those."""
    return drawn if encodes(drawn) else plain


def tree_lines(root: _T | None, below: Callable[[_T], Sequence[tuple[str, _T | None]]]) -> Iterator[str]:
    """Yields the lines of the tree below a root, none without one.

    `below` returns the branches of a node: their texts, each with the node behind it, if it is drawn here.
    """
    line, fork, last, dash = list(signs("\u2502\u251c\u2514\u2500", "|+`-"))
    waiting: list[tuple[str, str, _T | None]] = [("", "", root)]
    while waiting:
        text, before, node = waiting.pop()
        if text:
            yield text
        corner, stem = last, " "
        for branch, child in reversed(below(node) if node is not None else ()):
            waiting.append((f"{before}{corner}{dash}{dash} {branch}", f"{before}{stem}   ", child))
            corner, stem = fork, line


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
