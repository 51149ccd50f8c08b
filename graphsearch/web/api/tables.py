"""Answers about the whole file: what it holds, its books, games, runs, opinions, and what SQL finds in it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ...book.status import status
from ...book.why import why
from ...errors import GraphSearchError, InvalidParameterError, StatementLimitError
from ...query.disagree import disagree
from ...query.filters import Filters, read_pieces
from ...query.find import find
from ...query.games import games
from ...query.sql import sql
from ...query.transpositions import transpositions
from ...store.info import info, unfinished_state
from ...store.sharded.files import open_to_read
from ...store.tables.books import books
from ..house import ONE_FILE, House
from .asking import board_of, get, number, optional, post, seconds

MOST_ROWS = 1000
SQL_SECONDS, FIND_SECONDS = 10.0, 20.0
Given = Mapping[str, Any]


def _file(house: House, given: Given) -> dict[str, Any]:
    """Returns what a page needs once: the file, its books, and what may be done."""
    facts = info(house.path).as_dict()
    return {
        "name": house.path.name,
        "read_only": house.read_only,
        "one_file": ONE_FILE if house.is_cluster else "",
        "evaluators": list(house.evaluators),
        "info": facts | {"runs": facts["runs"][-MOST_ROWS:], "roots": facts["roots"][:MOST_ROWS]},
        "unfinished": unfinished_state(house.path),
    }


def _books(house: House, given: Given) -> dict[str, Any]:
    try:
        found = status(house.path, str(given["book"]) if given.get("book") else None)
    except GraphSearchError as error:
        if given.get("book"):
            raise
        return {"books": [], "note": str(error)}
    with open_to_read(house.path) as store:
        texts = {row.name: row.config for row in books(store)}
    return {"books": [book.as_dict() | {"config": texts.get(book.name, "")} for book in found]}


def _why(house: House, given: Given) -> dict[str, Any]:
    return why(house.path, board_of(given), str(given["book"]) if given.get("book") else None).as_dict()


def _games(house: House, given: Given) -> dict[str, Any]:
    return games(house.path, board_of(given)).as_dict()


def _disagree(house: House, given: Given) -> dict[str, Any]:
    return disagree(
        house.path,
        str(given["evaluator"]) if given.get("evaluator") else None,
        top=number(given, "top", 50, least=1, most=MOST_ROWS),
        min_visits=number(given, "min_visits", 1, least=1),
        by=str(given.get("by") or "value"),
    ).as_dict()


def _transpositions(house: House, given: Given) -> dict[str, Any]:
    board = board_of(given) if given.get("root") else None
    top = number(given, "top", 50, least=1, most=MOST_ROWS)
    look = number(given, "look", 200, least=1, most=20_000)
    return transpositions(house.path, board, top=top, look=look).as_dict()


class _OutOfTimeError(Exception):
    """A scan has taken as long as a page waits."""


def _find(house: House, given: Given) -> dict[str, Any]:
    limit = number(given, "limit", 100, least=1, most=MOST_ROWS)
    end, rows, complete = time.monotonic() + FIND_SECONDS, [], True

    def look_at_clock(done: int, total: int) -> None:
        if time.monotonic() > end:
            raise _OutOfTimeError

    try:
        for found in find(house.path, _filters(given), limit=limit, on_progress=look_at_clock):
            rows.append(found.as_dict())
    except _OutOfTimeError:
        complete = False
    return {"positions": rows, "complete": complete, "limit": limit}


def _filters(given: Given) -> Filters:
    return Filters(
        min_n=optional(given, "min_n", least=0),
        max_n=optional(given, "max_n", least=0),
        min_q=seconds(given, "min_q"),
        max_q=seconds(given, "max_q"),
        bounds=str(given["bounds"]) if given.get("bounds") else None,
        pieces=read_pieces(str(given["pieces"])) if given.get("pieces") else (),
        side=str(given["side"]) if given.get("side") else None,
        in_games=bool(given.get("in_games")),
        in_book=str(given["book"]) if given.get("book") else None,
        min_ply=optional(given, "min_ply", least=0),
        max_ply=optional(given, "max_ply", least=0),
    )


def _sql(house: House, given: Given) -> dict[str, Any]:
    statement = str(given.get("statement") or "")
    if "\0" in statement:
        raise InvalidParameterError("a statement has no NUL character")
    try:
        with sql(house.path, statement, limit=MOST_ROWS + 1, timeout=SQL_SECONDS) as result:
            rows = [[_cell(value) for value in row] for row in result.rows]
            columns = list(result.columns)
    except StatementLimitError:
        raise StatementLimitError(
            f"a statement of the page may take {SQL_SECONDS:g} s; `graphsearch query sql` gives it longer"
        ) from None
    return {"columns": columns, "rows": rows[:MOST_ROWS], "more": len(rows) > MOST_ROWS}


def _cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"BLOB of {len(value):,} bytes"
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return str(value)
    if isinstance(value, int) and abs(value) > 1 << 53:
        return str(value)
    return value


ROUTES = [
    get("/api/file", _file),
    get("/api/books", _books),
    get("/api/why", _why),
    get("/api/games", _games),
    get("/api/disagree", _disagree),
    get("/api/transpositions", _transpositions),
    get("/api/find", _find),
    post("/api/sql", _sql, writes=False),
]
