"""Answers about the whole file: its content, books, games, runs, opinions, and SQL."""

from __future__ import annotations

from typing import Any

from ...book.status import status
from ...book.why import why
from ...deadline import check_time
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
from ..served_file import ONE_FILE, ServedFile
from .asking import get, post
from .requests import (
    MOST_ROWS,
    BookWanted,
    DisagreeWanted,
    FindWanted,
    GivenPosition,
    Nothing,
    SqlWanted,
    TranspositionsWanted,
    WhyWanted,
)

SQL_SECONDS = 10.0


def _file(served: ServedFile, wanted: Nothing) -> dict[str, Any]:
    """Returns the data that a page needs once: the file, its books, and the permitted actions."""
    facts = info(served.path).as_dict()
    return {
        "name": served.path.name,
        "read_only": served.read_only,
        "one_file": ONE_FILE if served.is_cluster else "",
        "evaluators": list(served.evaluators),
        "info": facts | {"runs": facts["runs"][-MOST_ROWS:], "roots": facts["roots"][:MOST_ROWS]},
        "unfinished": unfinished_state(served.path),
    }


def _books(served: ServedFile, wanted: BookWanted) -> dict[str, Any]:
    try:
        found = status(served.path, wanted.book)
    except GraphSearchError as error:
        if wanted.book:
            raise
        return {"books": [], "note": str(error)}
    with open_to_read(served.path) as store:
        texts = {row.name: row.config for row in books(store)}
    return {"books": [book.as_dict() | {"config": texts.get(book.name, "")} for book in found]}


def _why(served: ServedFile, wanted: WhyWanted) -> dict[str, Any]:
    return why(served.path, wanted.board(), wanted.book).as_dict()


def _games(served: ServedFile, wanted: GivenPosition) -> dict[str, Any]:
    return games(served.path, wanted.board()).as_dict()


def _disagree(served: ServedFile, wanted: DisagreeWanted) -> dict[str, Any]:
    return disagree(
        served.path, wanted.evaluator, top=wanted.top, min_visits=wanted.min_visits, by=wanted.by
    ).as_dict()


def _transpositions(served: ServedFile, wanted: TranspositionsWanted) -> dict[str, Any]:
    return transpositions(served.path, wanted.board(), top=wanted.top, look=wanted.look).as_dict()


def _find(served: ServedFile, wanted: FindWanted) -> dict[str, Any]:
    rows, complete = [], True
    try:
        for found in find(
            served.path, _filters(wanted), limit=wanted.limit, on_progress=lambda done, total: check_time()
        ):
            rows.append(found.as_dict())
    except StatementLimitError:
        complete = False
    return {"positions": rows, "complete": complete, "limit": wanted.limit}


def _filters(wanted: FindWanted) -> Filters:
    return Filters(
        min_n=wanted.min_n,
        max_n=wanted.max_n,
        min_q=wanted.min_q,
        max_q=wanted.max_q,
        bounds=wanted.bounds,
        pieces=read_pieces(wanted.pieces) if wanted.pieces else (),
        side=wanted.side,
        in_games=wanted.in_games,
        in_book=wanted.book,
        min_ply=wanted.min_ply,
        max_ply=wanted.max_ply,
    )


def _sql(served: ServedFile, wanted: SqlWanted) -> dict[str, Any]:
    if "\0" in wanted.statement:
        raise InvalidParameterError("a statement has no NUL character")
    try:
        with sql(served.path, wanted.statement, limit=MOST_ROWS + 1, timeout=SQL_SECONDS) as result:
            rows = [[_cell(value) for value in row] for row in result.rows]
            columns = list(result.columns)
    except StatementLimitError:
        raise StatementLimitError(
            f"a statement of the page may take {SQL_SECONDS:g} s; `graphsearch query sql` allows more"
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
    get("/api/file", Nothing, _file),
    get("/api/books", BookWanted, _books),
    get("/api/why", WhyWanted, _why),
    get("/api/games", GivenPosition, _games),
    get("/api/disagree", DisagreeWanted, _disagree),
    get("/api/transpositions", TranspositionsWanted, _transpositions),
    get("/api/find", FindWanted, _find),
    post("/api/sql", SqlWanted, _sql, writes=False),
]
