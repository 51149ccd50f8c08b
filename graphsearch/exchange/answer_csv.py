"""Rows of results as CSV: the facts of `--json`, one column each."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet reads text with these prefixes as a formula


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Returns rows as CSV (RFC 4180): a line of names, then a line for each row.

    Lists are joined by blanks, objects get one column per fact, unknown values are empty. Text that a
    spreadsheet would read as a formula gets an apostrophe in front.

    >>> csv_text([{"san": "e4", "n": 3, "worth": {"q": None, "pv": ["e4", "e5"]}, "name": "=1+1"}])
    "san,n,worth_q,worth_pv,name\\r\\ne4,3,,e4 e5,'=1+1\\r\\n"
    """
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return table_text(names, ([row.get(name) for name in names] for row in flat))


def table_text(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table as CSV, with the same cell format as `csv_text`."""
    out = io.StringIO()
    writer = csv.writer(out)
    if names:
        writer.writerow([_cell(name) for name in names])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _flat(row: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}_")
        else:
            yield before + name, value


def _cell(value: object) -> object:
    if isinstance(value, str):
        plain = "".join(c if c.isprintable() else " " for c in value)
        return f"'{plain}" if value.startswith(FORMULA) else plain
    if isinstance(value, list | tuple):
        return _cell(" ".join(str(_cell(part)) for part in value if not isinstance(part, Mapping)))
    return value
