"""The application: the page, its files, and the answers of `api/`."""

from __future__ import annotations

import threading

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from .api import comparing, events, games, positions, repertoire, review, studies, tables, work
from .assets import asset, page
from .served_file import ServedFile


def application(served: ServedFile) -> Starlette:
    """Returns the application for a graph file, without access control."""
    app = Starlette(
        routes=[
            Route("/", _page, methods=["GET"]),
            Route("/p/{fen:path}", _page, methods=["GET"]),
            Route("/favicon.ico", _icon, methods=["GET"]),
            *comparing.ROUTES,
            *positions.ROUTES,
            *games.ROUTES,
            *tables.ROUTES,
            *work.ROUTES,
            *review.ROUTES,
            *studies.ROUTES,
            *repertoire.ROUTES,
            *events.ROUTES,
            Route("/static/{digest}/{name}", asset, methods=["GET"]),
            Route("/static/{name}", asset, methods=["GET"]),
        ]
    )
    app.state.served = served
    app.state.closing = threading.Event()  # ends the event streams
    return app


def _page(request: Request) -> Response:
    """Returns the page, which reads its state from its address."""
    return page().response(request)


def _icon(request: Request) -> Response:
    return RedirectResponse("/static/icon.svg", 308)
