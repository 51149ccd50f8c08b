"""Draws the pictures of the documents: what a terminal shows, and parts of the explorer.

python -m tools.draw_pictures [--terminal]

Commands run on a real terminal of 96 columns; its last screen becomes an SVG in docs/pictures/. The pages are
pictures of Chromium, which needs its driver and Selenium; --terminal leaves them out.
"""

from __future__ import annotations

import base64
import io
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from graphsearch.workers.process import python_command
from tools.benchmarks.page import browser, served
from tools.update_samples import SAMPLES, read_all

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
COLUMNS, LINES = 96, 24
ANALYZE = "graphsearch analyze startpos --visits 150000 --store first.graph"
TREE = "graphsearch tree startpos --depth 3 --max-moves 3 --min-visits 500 --store first.graph"
REDRAWN = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")  # rich erases a frame before it draws the next
CURSOR = re.compile(r"\x1b\[\?25[lh]")  # hides and shows the cursor
COLOURS = (0x484F58, 0xFF7B72, 0x3FB950, 0xD29922, 0x58A6FF, 0xBC8CFF, 0x39C5CF, 0xB1BAC4)
QUALITY = 82
GAME = "e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Be7 Re1 b5 Bb3 d6 c3 O-O h3 Na5 Bc2 c5 d4 Qc7"
START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR_w_KQkq_-_0_1"
PARTS = {"moves": "e4,e5,Nf3", "graph": "e4,e5", "values": GAME.replace(" ", ",")}  # view -> line


# ------------------------------------------------------------------ terminals
def screens(command: str, folder: Path) -> list[str]:
    """Returns what a command shows on a terminal, one string for every screen that it draws.

    The last one is what stays when the command has ended.
    """
    master, slave = pty.openpty()
    environment = os.environ | {"COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm-256color"}
    words = python_command(*shlex.split(command))
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


def draw_terminals(folder: Path) -> None:
    """Searches, reads the result, and draws both."""
    *_, live, _ = screens(ANALYZE, folder)
    draw_screen(ANALYZE, live, PICTURES / "live.svg", "a search while it runs")
    draw_screen(TREE, screens(TREE, folder)[-1], PICTURES / "tree.svg", "what it found")


# ------------------------------------------------------------------ pages
def draw_pages(folder: Path) -> None:
    """Draws views of the explorer: of a file with a search, every position of a game, and games."""
    game, store = folder / "game.pgn", folder / "shown.graph"
    game.write_text(f"{GAME} *\n")
    for words in (
        ("analyze", "startpos", "--visits", "400000"),
        ("review", str(game), "--visits", "3000", "-o", str(folder / "reviewed.pgn")),
        ("import", str(SAMPLES / "games.pgn")),
    ):
        subprocess.run(python_command("graphsearch", *words, "--store", str(store)), check=True)
    with served(store) as address, browser(address) as driver:
        for view, line in PARTS.items():
            driver.get(f"http://{address.split('/')[2]}/p/{START}?line={line}")
            driver.execute_script("document.getElementById(arguments[0]).click()", f"tab-{view}")
            time.sleep(3)  # lines and graphs come later than the board
            picture = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
            (PICTURES / f"explorer-{view}.webp").write_bytes(base64.b64decode(picture["data"]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        draw_terminals(Path(name))
        if "--terminal" not in sys.argv:
            draw_pages(Path(name))
