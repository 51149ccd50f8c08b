"""The application: the page, its files, and the answers of `api/`."""

from __future__ import annotations

import threading
from importlib.resources import files

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..exchange.pieces import sprite
from .api import comparing, events, positions, review, studies, tables, work
from .served_file import ServedFile

PIECES = "<!-- pieces -->"


def application(served: ServedFile) -> Starlette:
    """Returns the application over a graph file; the gate stands before it."""
    app = Starlette(
        routes=[
            Route("/", _page, methods=["GET"]),
            Route("/p/{fen:path}", _page, methods=["GET"]),
            Route("/favicon.ico", _icon, methods=["GET"]),
            *comparing.ROUTES,
            *positions.ROUTES,
            *tables.ROUTES,
            *work.ROUTES,
            *review.ROUTES,
            *studies.ROUTES,
            *events.ROUTES,
            Mount("/static", StaticFiles(packages=[("graphsearch.web", "static")])),
        ]
    )
    app.state.served = served
    app.state.closing = threading.Event()  # then the streams of events end
    return app


def _page(request: Request) -> Response:
    """Returns the page, which reads its state from its address."""
    text = (files("graphsearch.web") / "static" / "index.html").read_text(encoding="utf-8")
    return HTMLResponse(text.replace(PIECES, sprite(), 1))


def _icon(request: Request) -> Response:
    return RedirectResponse("/static/icon.svg", 308)
