"""Draws the pictures of the explorer: parts of its page as a browser shows them, in light and in dark.

python -m tools.draw_page [--store FILE] [--out DIR] [--all] [--report]

Needs Chromium, its driver and Selenium. Without --store a file is searched and filled for it. Three parts in
light become docs/pictures/explorer-*.webp, the report of a game review.webp; --all draws every view, light
and dark.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tools.benchmarks.explorer import served

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
WIDTH, HEIGHT, QUALITY = 1400, 860, 82
VISITS = 400_000
GAME = "e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Be7 Re1 b5 Bb3 d6 c3 O-O h3 Na5 Bc2 c5 d4 Qc7"
VIEWS = (
    "moves",
    "graph",
    "values",
    "search",
    "review",
    "games",
    "novelties",
    "prepare",
    "books",
    "find",
    "sql",
    "diff",
    "runs",
    "files",
)
PARTS = {  # name -> view, line
    "moves": ("moves", "e4,e5,Nf3"),
    "graph": ("graph", "e4,e5"),
    "values": ("values", GAME.replace(" ", ",")),
}
OPERA = """[Event "Paris Opera"]
[Date "1858.??.??"]
[White "Paul Morphy"]
[Black "Duke Karl / Count Isouard"]
[Result "1-0"]

1. e4 e5 2. Nf3 d6 3. d4 Bg4 4. dxe5 Bxf3 5. Qxf3 dxe5 6. Bc4 Nf6 7. Qb3 Qe7 8. Nc3 c6 9. Bg5 b5 10. Nxb5 cxb5
11. Bxb5+ Nbd7 12. O-O-O Rd8 13. Rxd7 Rxd7 14. Rd1 Qe6 15. Bxd7+ Nxd7 16. Qb8+ Nxb8 17. Rd8# 1-0
"""
REVIEW_VISITS = 20_000
BOOK = """[book]
name = "white"
side = "white"
max_ply = 8
[[root]]
moves = "1. e4"
[[window]]
reply_p = 0.1
"""


def filled(folder: Path) -> Path:
    """Returns a file with a search, every position of a game, a few games and a book."""
    store, book, games = folder / "first.graph", folder / "white.toml", folder / "games.pgn"
    book.write_text(BOOK)
    results = ("1-0", "1/2-1/2", "0-1", "1-0")
    lines = ("e4 e5 Nf3 Nc6 Bb5", "e4 e5 Nf3 Nf6 Nxe5", "e4 c5 Nf3 d6 d4", "d4 d5 c4 e6 Nc3")
    games.write_text("".join(f'[Result "{r}"]\n\n{line} {r}\n\n' for r in results for line in lines))
    run("analyze", "startpos", "--visits", VISITS, "--store", store)
    words = GAME.split()
    for plies in range(1, len(words) + 1):
        run("analyze", "startpos", "--moves", " ".join(words[:plies]), "--visits", 3000, "--store", store)
    run("import", games, "--store", store)
    run("book", "build", book, "--store", store, "--evaluations", 5000)
    return store


def run(*words: object) -> None:
    """Runs a command of the program."""
    subprocess.run([sys.executable, "-m", "graphsearch", *map(str, words)], check=True)


@contextmanager
def browser(address: str, *, dark: bool = False) -> Iterator[Any]:
    """Yields a browser that has opened an address."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for option in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--force-prefers-reduced-motion"):
        options.add_argument(option)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    try:
        driver.get(address)
        yield driver
    finally:
        driver.quit()


def report(folder: Path) -> Path:
    """Returns the report of a game."""
    games, page = folder / "opera.pgn", folder / "report.html"
    games.write_text(OPERA)
    store = folder / "opera.graph"
    run("review", games, "--store", store, "--visits", REVIEW_VISITS, "-o", folder / "out.pgn", "-o", page)
    return page


def draw_report(path: Path, *, dark: bool) -> None:
    """Writes a picture of the report of a game."""
    with (
        tempfile.TemporaryDirectory() as folder,
        browser(report(Path(folder)).as_uri(), dark=dark) as driver,
    ):
        size = {"width": 960, "height": 1120, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        keep(driver, path)


def shot(driver: Any, host: str, view: str, line: str, path: Path) -> None:
    """Writes a picture of a view of a line."""
    start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR_w_KQkq_-_0_1"
    driver.get(f"http://{host}/p/{start}?line={line}")
    driver.execute_script("document.getElementById(arguments[0]).click()", f"tab-{view}")
    time.sleep(3)  # lines and graphs come later than the board
    keep(driver, path)


def keep(driver: Any, path: Path) -> None:
    """Writes a picture of what is shown."""
    picture = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    path.write_bytes(base64.b64decode(picture["data"]))


def main() -> None:
    """Draws the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--out", type=Path, default=PICTURES)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--report", action="store_true", help="draw only the report of a game")
    given = parser.parse_args()
    for dark in (False, True) if given.all else (False,):
        draw_report(given.out / f"review{'-dark' * dark}.webp", dark=dark)
    if given.report:
        return
    with tempfile.TemporaryDirectory() as folder, served(given.store or filled(Path(folder))) as server:
        host = server.address.split("/")[2]
        for dark in (False, True) if given.all else (False,):
            with browser(server.address, dark=dark) as driver:
                for name, (view, line) in PARTS.items():
                    shot(driver, host, view, line, given.out / f"explorer-{name}{'-dark' * dark}.webp")
                for view in VIEWS if given.all else ():
                    shot(driver, host, view, "e4,e5", given.out / f"view-{view}{'-dark' * dark}.webp")


if __name__ == "__main__":
    main()
