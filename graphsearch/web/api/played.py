"""Answers about imported games: novelties, players, and where an opponent leaves a book."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import StatementLimitError
from ...query.novelties import Rules, novelties
from ...query.players import players
from ...query.prepare import prepare
from ..house import House
from .asking import board_of, get, number, optional

MOST_ROWS = 200
SECONDS = 20.0
Given = Mapping[str, Any]


def _novelties(house: House, given: Given) -> dict[str, Any]:
    book = str(given["book"]) if given.get("book") else None
    usual = Rules()
    rules = Rules(
        games=number(given, "games", usual.games),
        share=number(given, "share", round(100 * usual.share), most=100) / 100,
        cp=optional(given, "cp", least=0),
        min_games=number(given, "min_games", usual.min_games, least=1),
        min_visits=number(given, "min_visits", usual.min_visits, least=1),
        loss=number(given, "loss", usual.loss),
    )
    board = None if book else board_of(given)
    top = number(given, "top", 20, least=1, most=MOST_ROWS)
    clock = _clock("query novelties")
    return novelties(house.path, board, book=book, rules=rules, top=top, on_progress=clock).as_dict()


def _players(house: House, given: Given) -> dict[str, Any]:
    top = number(given, "top", 50, least=1, most=MOST_ROWS)
    return players(house.path, str(given.get("name") or ""), top=top).as_dict()


def _prepare(house: House, given: Given) -> dict[str, Any]:
    return prepare(
        house.path,
        [str(given.get("player") or "")],
        color=str(given["color"]) if given.get("color") else None,
        since=str(given["since"]) if given.get("since") else None,
        book=str(given["book"]) if given.get("book") else None,
        min_games=number(given, "min_games", 1, least=1),
        min_visits=number(given, "min_visits", 10, least=1),
        by=str(given.get("by") or "games"),
        top=number(given, "top", 50, least=1, most=MOST_ROWS),
        on_progress=_clock("query prepare"),
    ).as_dict()


def _clock(command: str) -> Callable[..., None]:
    """Returns what ends a question that takes longer than a page waits."""
    end = time.monotonic() + SECONDS

    def look(*_: int) -> None:
        if time.monotonic() > end:
            raise StatementLimitError(
                f"a question of the page may take {SECONDS:g} s; `graphsearch {command}` takes what it needs"
            )

    return look


ROUTES = [
    get("/api/novelties", _novelties),
    get("/api/players", _players),
    get("/api/prepare", _prepare),
]
