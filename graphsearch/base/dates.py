"""Dates as people and PGN files give them: a year, a month or a day."""

from __future__ import annotations

import re
from datetime import date

from .errors import InvalidParameterError
from .limits import shortened

_DATE = re.compile(r"(\d{4})(?:[.-](\d{1,2})(?:[.-](\d{1,2}))?)?", re.ASCII)
_PGN_DATE = re.compile(r"(\d{4})(?:[.\-/](\d\d?|\?+)(?:[.\-/](\d\d?|\?+))?)?\Z", re.ASCII)


def date_text(text: str) -> str:
    """Returns a date as tables have it.

    Raises:
      InvalidParameterError: if the calendar has no such date.

    >>> date_text("2024"), date_text("2024-05-17"), date_text("2024.5")
    ('2024', '2024-05-17', '2024-05')
    """
    found = _DATE.fullmatch(text.strip())
    parts = tuple(int(part) for part in found.groups() if part) if found else ()
    try:
        date(*(*parts, 1, 1)[:3])
    except (ValueError, TypeError):
        raise InvalidParameterError(
            f"a date is 2024, 2024-05 or 2024-05-17, not {shortened(text)!r}"
        ) from None
    year, *rest = parts
    return "-".join([f"{year:04}", *(f"{part:02}" for part in rest)])


def pgn_date(text: str) -> str | None:
    """Returns the known part of a PGN date (YYYY, YYYY-MM or YYYY-MM-DD), None if the year is unknown.

    >>> [pgn_date(text) for text in ("2024.03.15", "2024.??.??", "1997.5.03", "????.??.??", "2024.13.01")]
    ['2024-03-15', '2024', '1997-05-03', None, '2024']
    """
    found = _PGN_DATE.match(text.strip())
    if found is None or found[1] == "0000":
        return None
    known = found[1]
    for part, most in ((found[2], 12), (found[3], 31)):
        if part is None or not part.isdigit() or not 1 <= int(part) <= most:
            break
        known += f"-{int(part):02}"
    return known
