"""Answers about imported games: novelties, players, and where an opponent leaves a book."""

from __future__ import annotations

from typing import Any

from ...deadline import check_time
from ...query.novelties import Rules, novelties
from ...query.players import players
from ...query.prepare import prepare
from ..served_file import ServedFile
from .asking import get
from .requests import NoveltiesWanted, PlayersWanted, PrepareWanted


def _novelties(served: ServedFile, wanted: NoveltiesWanted) -> dict[str, Any]:
    rules = Rules(
        games=wanted.games,
        share=wanted.share / 100,
        cp=wanted.cp,
        min_games=wanted.min_games,
        min_visits=wanted.min_visits,
        move_visits=wanted.move_visits,
        loss=wanted.loss,
    )
    board = None if wanted.book else wanted.board()
    return novelties(
        served.path, board, book=wanted.book, rules=rules, top=wanted.top, on_progress=_look_at_clock
    ).as_dict()


def _players(served: ServedFile, wanted: PlayersWanted) -> dict[str, Any]:
    return players(served.path, wanted.name, top=wanted.top).as_dict()


def _prepare(served: ServedFile, wanted: PrepareWanted) -> dict[str, Any]:
    return prepare(
        served.path,
        [wanted.player],
        color=wanted.color,
        since=wanted.since,
        book=wanted.book,
        min_games=wanted.min_games,
        min_visits=wanted.min_visits,
        by=wanted.by,
        top=wanted.top,
        on_progress=_look_at_clock,
    ).as_dict()


def _look_at_clock(*_: int) -> None:
    check_time()


ROUTES = [
    get("/api/novelties", NoveltiesWanted, _novelties),
    get("/api/players", PlayersWanted, _players),
    get("/api/prepare", PrepareWanted, _prepare),
]
