"""Draws the pictures of the documents: what a terminal shows, and parts of the explorer.

python -m tools.draw_pictures [--visits N] [--out DIR] [--terminal]

Commands run on a real terminal of 96 columns; its last screen becomes an SVG in docs/pictures/. The pages are
pictures of Chromium, which needs its driver and Selenium; --terminal leaves them out.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from graphsearch.web.serving import Server
from graphsearch.web.task_queue import ServedFile
from tools.update_samples import read_all

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
COLUMNS, LINES = 96, 24
ANALYZE = "graphsearch analyze startpos --visits {visits} --store first.graph"
TREE = "graphsearch tree startpos --depth 3 --max-moves 3 --min-visits 500 --store first.graph"
REDRAWN = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")  # rich erases a frame before it draws the next
CURSOR = re.compile(r"\x1b\[\?25[lh]")  # hides and shows the cursor
COLOURS = (0x484F58, 0xFF7B72, 0x3FB950, 0xD29922, 0x58A6FF, 0xBC8CFF, 0x39C5CF, 0xB1BAC4)
PAGE = (1400, 860)  # pixels
QUALITY = 82
VISITS = 400_000
GAME = "e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Be7 Re1 b5 Bb3 d6 c3 O-O h3 Na5 Bc2 c5 d4 Qc7"
START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR_w_KQkq_-_0_1"
PARTS = {"moves": "e4,e5,Nf3", "graph": "e4,e5", "values": GAME.replace(" ", ",")}  # view -> line
BOOK = """[book]
name = "white"
side = "white"
max_ply = 8
[[root]]
moves = "1. e4"
[[window]]
reply_p = 0.1
"""


# ------------------------------------------------------------------ terminals
def screens(command: str, folder: Path) -> list[str]:
    """Returns what a command shows on a terminal, one string for every screen that it draws.

    The last one is what stays when the command has ended.
    """
    master, slave = pty.openpty()
    environment = os.environ | {"COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm-256color"}
    words = [sys.executable, "-m", "graphsearch", *shlex.split(command)[1:]]
    with subprocess.Popen(words, stdout=slave, stderr=slave, cwd=folder, env=environment) as process:
        os.close(slave)
        shown = read_all(master)
    if process.returncode:
        raise SystemExit(f"{command}\n{shown}")
    return [part.rstrip() for part in REDRAWN.split(CURSOR.sub("", shown))]


def draw_screen(command: str, screen: str, path: Path, title: str) -> None:
    """Writes a picture of a terminal that shows a command and its screen."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print()
    console.print(Text.from_ansi(screen))
    colours = [(colour >> 16, colour >> 8 & 255, colour & 255) for colour in COLOURS]
    theme = TerminalTheme((13, 17, 23), (201, 209, 217), colours)
    path.write_text(console.export_svg(title=title, theme=theme, unique_id=path.stem), encoding="utf-8")


def draw_terminals(visits: int, out: Path, folder: Path) -> None:
    """Searches, reads the result, and draws both."""
    analyze = ANALYZE.format(visits=visits)
    *_, live, _ = screens(analyze, folder)
    draw_screen(analyze, live, out / "live.svg", "a search while it runs")
    draw_screen(TREE, screens(TREE, folder)[-1], out / "tree.svg", "what it found")


# ------------------------------------------------------------------ pages
def run(*words: object) -> None:
    """Runs a command of the program."""
    subprocess.run([sys.executable, "-m", "graphsearch", *map(str, words)], check=True)


def filled(folder: Path) -> Path:
    """Returns a file with a search, every position of a game, a few games and a book."""
    store, book, games = folder / "shown.graph", folder / "white.toml", folder / "games.pgn"
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


@contextmanager
def served(store: Path) -> Iterator[Server]:
    """Yields a server of a file, in this process."""
    stop, server = threading.Event(), Server(ServedFile(store))
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()
    try:
        yield server
    finally:
        stop.set()
        thread.join()


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
    metrics = {"width": PAGE[0], "height": PAGE[1], "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    try:
        driver.get(address)
        yield driver
    finally:
        driver.quit()


def draw_page(driver: Any, path: Path) -> None:
    """Writes a picture of what a browser shows."""
    picture = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    path.write_bytes(base64.b64decode(picture["data"]))


def draw_pages(out: Path, folder: Path) -> None:
    """Draws views of the explorer."""
    with served(filled(folder)) as server, browser(server.address) as driver:
        for view, line in PARTS.items():
            driver.get(f"http://{server.address.split('/')[2]}/p/{START}?line={line}")
            driver.execute_script("document.getElementById(arguments[0]).click()", f"tab-{view}")
            time.sleep(3)  # lines and graphs come later than the board
            draw_page(driver, out / f"explorer-{view}.webp")


def main() -> None:
    """Draws the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--visits", type=int, default=150_000, help="of the search (default: 150,000)")
    parser.add_argument("--out", type=Path, default=PICTURES, help="folder for the pictures")
    parser.add_argument("--terminal", action="store_true", help="draw only terminals")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        draw_terminals(given.visits, given.out, Path(name))
        if not given.terminal:
            draw_pages(given.out, Path(name))


if __name__ == "__main__":
    main()
