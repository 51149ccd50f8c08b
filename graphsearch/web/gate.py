"""Access control: every request passes here before the file is touched.

    Host        an address of this server, else 403: refuses names that point here (DNS rebinding)
    Origin      if there is one, this server; every request that changes something must have one
    cookie      given for the token of the printed address, or for the password
    password    a few guesses of one machine at once, then one every GUESS_SECONDS; more are not compared
    WebSocket   refused: the page has none

Cookies go to every port of a host, so the cookie's name holds the port.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import secrets
import socket
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

READING = ("GET", "HEAD")
ENTER = "/enter"  # exchanges a token or a password for the cookie
GUESSES, GUESS_SECONDS = 5, 3.0  # guesses of one machine at once; then between two
MOST_MACHINES = 10_000  # with counted guesses
MOST_FORM_BYTES = 4096

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with none at all, a browser sends forms from the origin "null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_DOOR = """<!doctype html><html lang="en"><meta charset="utf-8"><title>graphsearch</title>
<link rel="stylesheet" href="/static/door.css"><main><h1>graphsearch</h1><p>{text}</p>{form}</main></html>"""
_FORM = """<form method="post" action="/enter"><label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" autofocus required>
<button>Open</button></form>"""


@dataclass(frozen=True, slots=True)
class Keys:
    """The secrets: the token of the printed address, a password if there is one, and the cookie."""

    password: str | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(24))


class Gate:
    """An ASGI application that passes permitted requests on to another one."""

    def __init__(self, app: ASGIApp, *, keys: Keys, host: str, port: int) -> None:
        """Guards an application at the server's address."""
        self._app = app
        self._keys = keys
        self._port = port
        self._names = _names_of(host)
        self._is_local = is_local(host)
        self._cookie = f"graphsearch_{port}"
        self._guesses = Guesses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it to the application."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        with suppress(ClientDisconnect):  # before its body was complete: nobody waits for an answer
            refusal = await self._refusal(request)
            await (refusal or self._app)(scope, receive, _with_headers(send))

    async def _refusal(self, request: Request) -> Response | None:
        """Returns the response to a refused request or a login; None for any other."""
        host = request.headers.get("host", "")
        if not self._is_here(host):
            return _no("this server does not have that name")
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return _no("requests from other pages are refused")
        if origin is None and request.method not in READING:
            return _no("a request that changes something must name its origin")
        if request.url.path == ENTER:
            return await self._enter(request)
        if request.url.path == "/static/door.css" or self._is_known(request):
            return None
        if request.url.path.startswith("/api/"):
            return _no("open the address that graphsearch printed")
        return self._door("Open the address that graphsearch printed.", 403)

    def _is_here(self, host: str) -> bool:
        """Returns whether a Host header names this server; if it is not local, any numerical address does."""
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        name, port = (name, port) if name else (host, "80")
        if port != str(self._port):
            return False
        name = name.strip("[]").lower()
        return name in self._names or (not self._is_local and _is_number(name))

    def _is_known(self, request: Request) -> bool:
        # not by Python's SimpleCookie, which reads nothing behind a cookie such as another program's JSON
        return _equal(request.cookies.get(self._cookie, ""), self._keys.session)

    async def _enter(self, request: Request) -> Response:
        """Exchanges a token or a password for the cookie."""
        if request.method == "GET":
            token = request.query_params.get("token", "")
            if _equal(token, self._keys.token):
                return self._welcome(request.query_params.get("to", "/"))
            return self._door("This address is not, or no longer, valid." if token else "", 403)
        form = await body_of(request, MOST_FORM_BYTES) or b""
        given = parse_qs(form.decode("utf-8", "replace")).get("password", [""])[0]
        if wait := self._guesses.wait(request.client.host if request.client else ""):
            answer = self._door(f"Too many guesses; try again in {wait} s.", 429)
            answer.headers["Retry-After"] = str(wait)
            return answer
        if self._keys.password is not None and _equal(given, self._keys.password):
            return self._welcome("/")
        return self._door("That is not the password.", 403)

    def _welcome(self, to: str) -> Response:
        there = to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"
        answer = RedirectResponse(there, 303)
        answer.set_cookie(self._cookie, self._keys.session, httponly=True, samesite="strict", path="/")
        return answer

    def _door(self, text: str, status: int) -> Response:
        form = _FORM if self._keys.password is not None else ""
        return HTMLResponse(_DOOR.format(text=text, form=form), status)


class Guesses:
    """Counts guesses at the password, in a bucket for each machine.

    A bucket holds GUESSES, and fills by one every GUESS_SECONDS. While it is empty, guesses are not compared:
    no request waits, and no guess gets through.
    """

    def __init__(self) -> None:
        self._machines: OrderedDict[str, tuple[float, float]] = OrderedDict()  # guesses left, and when

    def wait(self, host: str, now: float | None = None) -> int:
        """Counts a guess; returns 0 to compare it, else the seconds until the next one counts.

        >>> guesses = Guesses()
        >>> [guesses.wait("10.0.0.1", now=0.0) for _ in range(6)], guesses.wait("10.0.0.2", now=0.0)
        ([0, 0, 0, 0, 0, 3], 0)
        """
        now, machine = time.monotonic() if now is None else now, _machine(host)
        left, before = self._machines.pop(machine, (float(GUESSES), now))
        left = min(GUESSES, left + (now - before) / GUESS_SECONDS)
        self._machines[machine] = (left - 1 if left >= 1 else left, now)
        if len(self._machines) > MOST_MACHINES:
            self._machines.popitem(last=False)
        return 0 if left >= 1 else math.ceil((1 - left) * GUESS_SECONDS)


def _machine(host: str) -> str:
    """Returns the address of a machine; an IPv6 network, which belongs to one customer, counts as one.

    >>> _machine("2001:db8::1:2"), _machine("::ffff:10.0.0.1"), _machine("10.0.0.1")
    ('2001:db8::/64', '10.0.0.1', '10.0.0.1')
    """
    if not _is_number(host):
        return host
    found = ipaddress.ip_address(host)
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
    return str(found)


def is_local(host: str) -> bool:
    """Returns whether only this machine reaches an address.

    >>> is_local("127.0.0.1"), is_local("localhost"), is_local("0.0.0.0"), is_local("::1")
    (True, True, False, True)
    """
    return host == "localhost" or (_is_number(host) and ipaddress.ip_address(host).is_loopback)


def _names_of(host: str) -> frozenset[str]:
    """Returns the accepted host names of a server at an address."""
    names = {host.lower()}
    if is_local(host):
        names |= {"127.0.0.1", "localhost", "::1"}
    else:
        names |= {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
    return frozenset(names)


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _equal(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode("utf-8", "replace"))


async def body_of(request: Request, most: int) -> bytes | None:
    """Returns the body of a request; None if it is longer than `most` bytes."""
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > most:
            return None
    return bytes(found)


def _no(text: str) -> Response:
    return JSONResponse({"error": text}, 403)


def _with_headers(send: Send) -> Send:
    """Returns a function that sends messages, with `HEADERS` in every response."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
