"""Watches one long search that outgrows its memory: what it takes, minute by minute.

    python -m tools.soak [--minutes 60] [--ram 64MB] [--evaluator uniform] [--json FILE] [--picture FILE]

The search is `graphsearch uci` in a process of its own. Memory is read from /proc, sizes are those of the
file and its log, visits are what the engine says. Speeds and reads are means of a minute, memory and log its
peak. The search is stopped at the end, and `graphsearch store verify` must then call the file sound.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PROGRAM = [sys.executable, "-m", "graphsearch"]
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLE_SECONDS = 0.5
MB = 1e6
NODES = re.compile(r"^info .*\bnodes (\d+)")
PANELS = (
    ("rss_mb", "memory (RSS, peak), MB"),
    ("log_mb", "log (peak), MB"),
    ("file_mb", "file, MB"),
    ("visits_per_cpu_s", "visits per CPU-second"),
)


@dataclass(frozen=True)
class Sample:
    """What was seen at one moment: seconds since the start, CPU-seconds, bytes, visits of the search."""

    seconds: float
    cpu: float
    rss: int
    log: int
    file: int
    read: int
    visits: int


@dataclass(frozen=True)
class Minute:
    """One line of the table."""

    minute: int
    rss_mb: float
    log_mb: float
    file_mb: float
    read_mb_per_s: float
    visits: int
    visits_per_s: float
    visits_per_cpu_s: float


class Engine:
    """The search, as a chess program sees it.

    Attributes:
      visits: what it said last.
    """

    def __init__(self, options: argparse.Namespace, path: Path) -> None:
        """Starts the engine, and the search once its kernels are loaded."""
        words = ["uci", "--store", str(path), "--ram", options.ram, "--evaluator", options.evaluator]
        self.process = subprocess.Popen(
            [*PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.visits = 0
        self._say(f"position {options.position}", "go nodes 2", "isready")
        self._until("readyok")
        self._until("bestmove")
        self._say("go infinite")
        self.begin = time.monotonic()
        threading.Thread(target=self._until, args=("bestmove",), daemon=True).start()

    def _say(self, *lines: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines))

    def _until(self, word: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := NODES.match(line):
                self.visits = int(found[1])
            if line.startswith(word):
                return
        raise SystemExit("the engine has ended before the search was over")

    def sample(self, path: Path) -> Sample:
        """Returns what is to be seen now."""
        folder = Path(f"/proc/{self.process.pid}")
        fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        read = re.search(r"rchar: (\d+)", (folder / "io").read_text())
        return Sample(
            seconds=time.monotonic() - self.begin,
            cpu=(int(fields[11]) + int(fields[12])) / TICK,
            rss=int((folder / "statm").read_text().split()[1]) * PAGE,
            log=size(path.with_name(path.name + "-wal")),
            file=size(path),
            read=int(read[1]) if read else 0,
            visits=self.visits,
        )

    def stop(self) -> None:
        """Stops the search and ends the engine.

        Raises:
          SystemExit: if it did not end well.
        """
        self._say("stop", "quit")
        code = self.process.wait(300)
        if code:
            raise SystemExit(f"the engine ended with exit code {code}")


def size(path: Path) -> int:
    """Returns the bytes of a file, 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


def minute_of(number: int, samples: Sequence[Sample]) -> Minute:
    """Returns one line of the table from the samples of that minute."""
    first, last = samples[0], samples[-1]
    seconds, visits = last.seconds - first.seconds, last.visits - first.visits
    return Minute(
        minute=number,
        rss_mb=round(max(one.rss for one in samples) / MB, 1),
        log_mb=round(max(one.log for one in samples) / MB, 1),
        file_mb=round(last.file / MB, 1),
        read_mb_per_s=round((last.read - first.read) / seconds / MB, 1),
        visits=last.visits,
        visits_per_s=round(visits / seconds),
        visits_per_cpu_s=round(visits / (last.cpu - first.cpu)),
    )


def soak(options: argparse.Namespace, path: Path) -> list[Minute]:
    """Returns the table of one search.

    Raises:
      SystemExit: if the search has ended by itself, or left a file that is not sound.
    """
    engine = Engine(options, path)
    table: list[Minute] = []
    samples = [engine.sample(path)]
    while len(table) < options.minutes:
        time.sleep(SAMPLE_SECONDS)
        samples.append(engine.sample(path))
        if samples[-1].seconds >= 60 * (len(table) + 1):
            table.append(minute_of(len(table) + 1, samples))
            samples = samples[-1:]
            print(row(table[-1]), flush=True)
    engine.stop()
    subprocess.run([*PROGRAM, "store", "verify", str(path)], check=True)
    return table


def row(one: Minute) -> str:
    """Returns a line of the table for a person."""
    return (
        f"{one.minute:4} min  RSS {one.rss_mb:6.1f} MB  log {one.log_mb:6.1f} MB  file {one.file_mb:7.1f} MB"
        f"  read {one.read_mb_per_s:5.1f} MB/s  {one.visits:12,} visits  {one.visits_per_s:8,.0f}/s"
        f"  {one.visits_per_cpu_s:8,.0f} per CPU-s"
    )


def draw(table: Sequence[Minute], path: Path, caption: str) -> None:
    """Draws the table: a panel each for memory, log, file and speed."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 5.0), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(2, 2, sharex=True).flat, PANELS, strict=True):
        axes.plot([one.minute for one in table], [getattr(one, name) for one in table], color="#0072B2")
        axes.set_title(title, fontsize=10)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    figure.supxlabel(f"minutes; {caption}", fontsize=9)
    FigureCanvasSVG(figure)
    figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> None:
    """Watches the search that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--ram", default="64MB")
    parser.add_argument("--evaluator", default="uniform")
    parser.add_argument("--position", default="startpos")
    parser.add_argument("--json", type=Path, help="file for the table")
    parser.add_argument("--picture", type=Path, help="file for the picture, SVG")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = soak(options, Path(folder) / "soak.graph")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in table], indent=1) + "\n")
    if options.picture:
        draw(table, options.picture, f"{options.evaluator}, --ram {options.ram}, {options.position}")


if __name__ == "__main__":
    main()
