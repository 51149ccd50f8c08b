"""Draws the README's pictures: what a terminal shows during a search, and what the search found.

python -m tools.draw_pictures [--visits N] [--out DIR]

Every command runs on a real terminal of 96 columns; its last screen becomes an SVG in docs/pictures/.
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tools.update_samples import read_all

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
COLUMNS, LINES = 96, 24
ANALYZE = "graphsearch analyze startpos --visits {visits} --store first.graph"
TREE = "graphsearch tree startpos --depth 3 --max-moves 3 --min-visits 500 --store first.graph"
REDRAWN = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")  # rich erases a frame before it draws the next
CURSOR = re.compile(r"\x1b\[\?25[lh]")  # hides and shows the cursor
THEME = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)


def screens(command: str, folder: Path) -> list[str]:
    """Returns what a command shows on a terminal, one string for every screen that it draws.

    The last one is what stays when the command has ended.
    """
    master, slave = pty.openpty()
    environment = os.environ | {
        "COLUMNS": str(COLUMNS),
        "LINES": str(LINES),
        "TERM": "xterm-256color",
    }
    words = [sys.executable, "-m", "graphsearch", *shlex.split(command)[1:]]
    with subprocess.Popen(words, stdout=slave, stderr=slave, cwd=folder, env=environment) as process:
        os.close(slave)
        shown = read_all(master)
    if process.returncode:
        raise SystemExit(f"{command}\n{shown}")
    return [part.rstrip() for part in REDRAWN.split(CURSOR.sub("", shown))]


def draw(command: str, screen: str, path: Path, title: str) -> None:
    """Writes a picture of a terminal that shows a command and its screen."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print()
    console.print(Text.from_ansi(screen))
    path.write_text(console.export_svg(title=title, theme=THEME, unique_id=path.stem), encoding="utf-8")
    print(f"{path}: {path.stat().st_size:,} bytes")


def main() -> None:
    """Searches, reads the result, and draws both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visits", type=int, default=150_000, help="of the search (default: 150,000)")
    parser.add_argument("--out", type=Path, default=PICTURES, help="folder for the pictures")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        analyze = ANALYZE.format(visits=args.visits)
        *_, live, _ = screens(analyze, folder)
        draw(analyze, live, args.out / "live.svg", "a search while it runs")
        draw(TREE, screens(TREE, folder)[-1], args.out / "tree.svg", "what it found")


if __name__ == "__main__":
    main()
