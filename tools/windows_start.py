"""Compares the warm start of `show` on Linux and under Wine, in turn, so that both meet the same load.

python tools/windows_start.py WINE PYTHON.EXE
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5


def seconds(command: list[str]) -> float:
    """Returns the wall time of a command."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return time.perf_counter() - begin


def main(wine: str, python: str) -> None:
    """Prints the shortest time of each."""
    program = ["-m", "graphsearch"]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "show.graph")
        seconds([sys.executable, *program, "analyze", "startpos", "--visits", "500", "--store", path])
        show = [*program, "show", "startpos", "--store"]
        here = [sys.executable, *show, path]
        there = [wine, python, *show, "Z:" + path.replace("/", "\\")]
        times = [(seconds(here), seconds(there)) for _ in range(ROUNDS)]
    linux, windows = map(min, zip(*times, strict=True))
    print(f"Linux {linux:.2f} s, Wine {windows:.2f} s: {windows / linux:.1f} times")


if __name__ == "__main__":
    main(*sys.argv[1:])
