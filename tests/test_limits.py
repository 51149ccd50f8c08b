"""What comes in from outside: every limit is documented, and one door opens the files of users."""

from __future__ import annotations

import re

from graphsearch.limits import LIMITS, Limit

from .conftest import ROOT

PAGE = ROOT / "docs" / "limits.md"


def row(limit: Limit) -> str:
    variable = f"`{limit.variable}`" if limit.variable else ""
    return f"| {limit.what} | {limit.shown()} | {variable} | {limit.reason} |".replace("  ", " ")


def test_the_page_of_limits_is_what_the_program_holds() -> None:
    rows = re.findall(r"^\| (?!the most for|---).*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [row(limit) for limit in LIMITS]
