"""The files of the page, each at an address with their digest, so that browsers cache them.

    /static/DIGEST/app.js    cached for good; modules import each other by "./NAME.js", with the same digest
    /static/app.js           the same, never cached: for the login page, and for links

The first request compresses all files.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from ..exchange.pieces import sprite

FOR_GOOD = {"Cache-Control": "private, max-age=31536000, immutable"}
TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}
DIGEST_DIGITS = 16
PIECES = "<!-- pieces -->"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page: its bytes, the same compressed, and its media type."""

    plain: bytes
    packed: bytes
    kind: str

    def response(self, request: Request, headers: dict[str, str] | None = None) -> Response:
        """Returns the file, compressed if the browser accepts it."""
        given = {"Vary": "Accept-Encoding", **(headers or {})}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.plain, headers=given, media_type=self.kind)
        return Response(self.packed, headers={**given, "Content-Encoding": "gzip"}, media_type=self.kind)


@cache
def assets() -> dict[str, Asset]:
    """Returns all files of the page by name."""
    found = (files("graphsearch.web") / "static").iterdir()
    return {file.name: _asset(file.name, file.read_bytes()) for file in found if file.is_file()}


@cache
def digest() -> str:
    """Returns the digest of all files."""
    total = hashlib.sha256()
    for name, asset in sorted(assets().items()):
        total.update(f"{name} {len(asset.plain)} ".encode() + asset.plain)
    return total.hexdigest()[:DIGEST_DIGITS]


@cache
def page() -> Asset:
    """Returns the page with the pieces in it, and addresses with the digest."""
    text = assets()["index.html"].plain.decode()
    text = text.replace(PIECES, sprite(), 1).replace('"/static/', f'"/static/{digest()}/')
    return _asset("index.html", text.encode())


def asset(request: Request) -> Response:
    """Returns a file of the page."""
    found = assets().get(request.path_params["name"])
    given = request.path_params.get("digest")
    if found is None or given not in (None, digest()):
        return Response("there is no such file", 404)
    return found.response(request, FOR_GOOD if given else None)


def _asset(name: str, plain: bytes) -> Asset:
    ending = name.rpartition(".")[2]
    return Asset(plain, gzip.compress(plain, mtime=0), TYPES.get(ending, "application/octet-stream"))
