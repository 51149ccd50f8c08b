"""How long a hand waits for the page: `graphsearch serve` in its own process, and Chromium."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chess

from graphsearch import Graph, Limits, analyze
from graphsearch.workers.process import python_command

from .harness import Row, benchmark

PATIENCE_S = 60
MOVES = 20  # of the start position: each is new to the page
# milliseconds from an act until something is true, looked at after each frame
WAITED = """
const done = arguments[arguments.length - 1];
const began = performance.now();
ACT;
const look = () => {
  if (TRUE) done(performance.now() - began);
  else if (performance.now() - began > 60000) done(null);
  else setTimeout(look, 2);
};
look();
"""
BOARD = "document.querySelector('#board .last')"
POSITION = "document.title !== before"
LINE = "document.querySelector('#lines li .ply:nth-child(3)')"
TO_START = "document.querySelector('#first').click()"
AT_START = f"document.title.startsWith('start') && {LINE}"


@benchmark("what")
def page(*, nodes: int = 1_000_000, repeats_in_page: int = 10) -> Iterator[Row]:
    """Milliseconds from an act to what it shows, on a file of some size; needs Chromium and Selenium.

    load: a new browser to the table of moves. board, position, lines: a click on a move of the table, until
    the men stand, until the moves of the position are there, and until its first line is. start, stop: of a
    search, until its numbers are there, and until it is saved.
    """
    with tempfile.TemporaryDirectory(prefix="graphsearch-bench-") as folder:
        path = Path(folder) / "page.graph"
        with Graph.open(path, evaluator="uniform") as graph:
            analyze(graph, chess.Board(), Limits(evaluations=nodes))
        with served(path, "--evaluator", "uniform") as address:
            for _ in range(3):
                with browser(address) as driver:
                    yield {"what": "load", "ms": _since_start(driver, ".moves tbody tr")}
            with browser(address) as driver:
                _since_start(driver, ".moves tbody tr")
                yield from _clicks(driver, repeats_in_page)
                yield from _searches(driver)


@contextmanager
def served(path: Path, *options: str) -> Iterator[str]:
    """Yields the address of a server of a graph file, in a process of its own."""
    command = python_command("graphsearch", "serve", str(path), "--no-browser", *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextmanager
def browser(address: str) -> Iterator[Any]:
    """Yields a browser that has opened an address."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for option in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--force-prefers-reduced-motion"):
        options.add_argument(option)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    metrics = {"width": 1400, "height": 860, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    try:
        driver.get(address)
        yield driver
    finally:
        driver.quit()


def _since_start(driver: Any, selector: str) -> float:
    """Returns the milliseconds from the start of a page until it has an element."""
    driver.set_script_timeout(PATIENCE_S)
    act = f"const before = {selector!r}"
    _waited(driver, act, "document.querySelector(before)")
    return float(driver.execute_script("return performance.now()"))


def _waited(driver: Any, act: str, true: str) -> float:
    found = driver.execute_async_script(WAITED.replace("ACT", act).replace("TRUE", true))
    assert found is not None, f"waited too long: {true}"
    return float(found)


def _rest(driver: Any, seconds: float) -> None:
    """Lets a page rest, as a person does."""
    _waited(driver, "", f"performance.now() - began > {1000 * seconds}")


def _clicks(driver: Any, count: int) -> Iterator[Row]:
    """Plays moves of the start position, one after the other."""
    acts = [("board", BOARD), ("position", POSITION), ("lines", f"{POSITION} && {LINE}")] * count
    for k, (what, shown) in enumerate(acts[:MOVES]):
        _waited(driver, TO_START, AT_START)
        _rest(driver, 0.3)
        click = "const before = document.title; document.querySelectorAll('.moves .move')[K].click()"
        yield {"what": what, "ms": _waited(driver, click.replace("K", str(k)), shown)}


def _searches(driver: Any) -> Iterator[Row]:
    """Starts and stops searches of the start position."""
    _waited(driver, TO_START, AT_START)
    for _ in range(3):
        numbers = "document.querySelector('[data-counter=visits]')"
        yield {"what": "start", "ms": _waited(driver, "document.querySelector('#start').click()", numbers)}
        _rest(driver, 2.0)
        stopped = "document.querySelector('#stop').hidden"
        yield {"what": "stop", "ms": _waited(driver, "document.querySelector('#stop').click()", stopped)}
