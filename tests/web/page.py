"""What speaks HTTP to a server, and the page of a server in a browser with what a hand does there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder

from tests.support.pools import until as until

PATIENCE_S = 120.0


@dataclass(frozen=True)
class Answer:
    """What came back: status, headers by name in lower case, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


@dataclass
class Client:
    """One who speaks to a server, with the cookie if it came in by the printed address."""

    server: Any  # what has an address
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    end: Callable[[], None] = lambda: None

    @property
    def host(self) -> str:
        return str(urlsplit(self.server.address).netloc)

    def enter(self, address: str = "") -> Answer:
        parts = urlsplit(address or self.server.address)
        answer = self.ask("GET", f"{parts.path}?{parts.query}")
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return answer

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str | None) -> Answer:
        given: dict[str, str | None] = {"Host": self.host}
        if self.cookie:
            given["Cookie"] = self.cookie
        if method == "POST":
            given["Origin"] = f"http://{self.host}"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        found = urlsplit(self.server.address)
        connection = HTTPConnection(found.hostname or "", found.port or 0, timeout=PATIENCE_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response: HTTPResponse = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, path: str, **query: object) -> Answer:
        return self.ask("GET", f"/api/{path}?{urlencode(query)}")

    def post(self, path: str, **given: object) -> Answer:
        return self.ask("POST", f"/api/{path}", json.dumps(given).encode())


Serve = Callable[..., Client]


def entered(serve: Serve, path: Path, **options: Any) -> Client:
    client = serve(path, **options)
    client.enter()
    return client


def queue(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.server.served.queue.as_dict()
    return found


def done(client: Client, number: int) -> dict[str, Any]:
    found: dict[str, Any] = until(
        lambda: next((job for job in queue(client)["ended"] if job["number"] == number), None),
        f"task {number}",
    )
    return found


# ------------------------------------------------------------------ a page in a browser
LINE = "#line button"
MEN = "#board .men use"
VIEWS = {  # and their parts; the others are of the view File
    "analysis": ("moves", "graph", "values", "search"),
    "games": ("list", "novelties", "prepare"),
    "book": ("repertoire", "books"),
    "review": ("review",),
}
WAITING = """
const values = [...arguments], done = values.pop(), end = Date.now() + values.pop();
const look = function () { SCRIPT };
(function again() {
  try {
    const found = look(...values);
    if (found || Date.now() > end) done([found, ""]); else setTimeout(again, 20);
  } catch (error) { done([null, String(error)]); }
})();
"""


class Page:
    """The page of a server in a browser, which a test opens."""

    def __init__(self, driver: Any, client: Client) -> None:
        self.driver = driver
        self.client = client
        driver.set_script_timeout(2 * PATIENCE_S)
        if client.host not in driver.current_url:
            driver.get("about:blank")
        self.errors()  # of a page before, whose server has gone

    def open(self, path: str = "/", moves: int = 0) -> None:
        """Comes in to an address of the server, and waits for as many moves of its line."""
        self.driver.get(f"{self.client.server.address}&{urlencode({'to': path})}")
        self.has(LINE if moves else MEN, moves or None)

    def forget(self) -> None:
        """Has the browser forget what the page keeps there: the view, the side below."""
        self.run(
            "try { sessionStorage.clear(); localStorage.clear(); } catch { /* an empty page has none */ }"
        )

    # -------------------------------------------------------------- what is seen
    def run(self, script: str, *values: object) -> Any:
        return self.driver.execute_script(script, *values)

    def wait(self, script: str, what: str, *values: object) -> Any:
        """Returns what a script returns once that is true; the page itself looks, which costs little."""
        asked = WAITING.replace("SCRIPT", script)
        found, error = self.driver.execute_async_script(asked, *values, 1000 * PATIENCE_S)
        assert not error, f"{what}: {error}"
        assert found, f"waited too long: {what}"
        return found

    def count(self, selector: str) -> int:
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def has(self, selector: str, count: int | None = None) -> None:
        """Waits until the page has so many elements, or any."""
        script = "const found = document.querySelectorAll(arguments[0]).length;"
        self.wait(f"{script} return found === (arguments[1] ?? (found || 1))", selector, selector, count)

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.textContent || ''", selector))

    def says(self, selector: str, text: str) -> None:
        script = "return document.querySelector(arguments[0])?.textContent.includes(arguments[1])"
        self.wait(script, f"{text} in {selector}", selector, text)

    def line(self) -> str:
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent).join(' ')"
        return str(self.run(script, LINE))

    def at(self) -> str:
        """Returns the move whose position is on the board, none at the start."""
        return self.text("#line [aria-current]")

    def reaches(self, san: str) -> None:
        script = "return (document.querySelector('#line [aria-current]')?.textContent || '') === arguments[0]"
        self.wait(script, f"{san} on the board", san)

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    # -------------------------------------------------------------- what a hand does
    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def keys(self, *keys: str) -> None:
        """Presses keys while nothing has the focus."""
        body = self.driver.find_element("css selector", "body")
        for key in keys:
            body.send_keys(key)

    def keys_here(self, *keys: str) -> None:
        for key in keys:
            ActionChains(self.driver, duration=10).send_keys(key).perform()

    def fill(self, selector: str, value: object) -> None:
        self.run(
            "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change'))",
            selector,
            str(value),
        )

    def play(self, san: str) -> None:
        self.run("document.querySelector('#san').value = arguments[0]", san)
        self.run("document.querySelector('#typed').requestSubmit()")

    def view(self, name: str) -> None:
        view = next((view for view, parts in VIEWS.items() if name in parts), "file")
        self.click(f"#view-{view}")
        self.click(f"#tab-{name}")
        self.has(f".view-{name} > *")

    def search_with_one_thread(self) -> None:
        """Leaves the other cores to other tests while a search goes on."""
        self.view("search")
        self.fill("#set-threads", 1)
        self.view("moves")

    def drag(self, start: str, end: str) -> None:
        board, (first, last) = self._offsets("#board svg", start, end)
        chain = ActionChains(self.driver, duration=10)
        chain.move_to_element_with_offset(board, *first).click_and_hold()
        chain.move_to_element_with_offset(board, *last).release().perform()

    def _offsets(self, selector: str, *squares: str) -> tuple[Any, list[tuple[int, int]]]:
        """Returns a board, and where squares are from its centre."""
        board = self.driver.find_element("css selector", selector)
        step = board.size["width"] / 8
        places = [(ord(square[0]) - ord("d") - 0.5, 4.5 - int(square[1])) for square in squares]
        return board, [(round(x * step), round(y * step)) for x, y in places]

    def press(self, selector: str, seconds: float) -> None:
        """Presses the mouse where an element is."""
        builder, mouse = self._mouse_on(selector)
        mouse.pointer_down().pause(seconds).pointer_up()
        builder.perform()

    def hover(self, selector: str) -> None:
        self._mouse_on(selector)[0].perform()

    def _mouse_on(self, selector: str) -> tuple[ActionBuilder, Any]:
        """Returns actions, and the mouse of them, which goes to an element as it is drawn now."""
        box = self.run("return document.querySelector(arguments[0]).getBoundingClientRect()", selector)
        builder = ActionBuilder(self.driver)
        mouse: Any = builder.pointer_action
        mouse.move_to_location(round(box["x"] + box["width"] / 2), round(box["y"] + box["height"] / 2))
        return builder, mouse
