"""Resources of one long search that outgrows its memory, minute by minute."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphsearch.store.side_files import log_bytes

from .clocks import cpu_of
from .harness import Row, benchmark

PROGRAM = [sys.executable, "-m", "graphsearch"]
SAMPLE_SECONDS = 0.5
MB = 1e6
NODES = re.compile(r"^info .*\bnodes (\d+)")


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment: seconds since the start, CPU-seconds, bytes, visits of the search."""

    seconds: float
    cpu: float
    rss: int
    log: int
    file: int
    read: int
    visits: int


class Engine:
    """The search, in a UCI process.

    Attributes:
      visits: as last reported by the engine.
    """

    def __init__(self, path: Path, ram: str, evaluator: str, position: str) -> None:
        """Starts the engine, and the search once its kernels are loaded."""
        words = ["uci", "--store", str(path), "--ram", ram, "--evaluator", evaluator]
        self.process = subprocess.Popen(
            [*PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.visits, self._path = 0, path
        self._say(f"position {position}", "go nodes 2", "isready")
        self._until("readyok")
        self._until("bestmove")
        self._say("go infinite")
        self.begin = time.monotonic()
        self._reader = threading.Thread(target=self._until, args=("bestmove",), daemon=True)
        self._reader.start()

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

    def sample(self) -> Sample:
        """Returns the engine's current figures."""
        folder = Path(f"/proc/{self.process.pid}")
        rss = re.search(r"VmRSS:\s+(\d+)", (folder / "status").read_text())
        read = re.search(r"rchar: (\d+)", (folder / "io").read_text())
        return Sample(
            seconds=time.monotonic() - self.begin,
            cpu=cpu_of(self.process.pid),
            rss=int(rss[1]) << 10 if rss else 0,
            log=log_bytes(self._path),
            file=self._path.stat().st_size,
            read=int(read[1]) if read else 0,
            visits=self.visits,
        )

    def stop(self) -> None:
        """Stops the search and ends the engine; raises SystemExit if it exits with an error."""
        self._say("stop", "quit")
        code = self.process.wait(300)
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        if code:
            raise SystemExit(f"the engine ended with exit code {code}")


@benchmark(
    "minute",
    plot=("minute", ("rss_mb", "log_mb", "file_mb", "visits_per_cpu_s")),
)
def soak(
    *,
    minutes: int = 60,
    ram: str = "64MB",
    evaluator: str = "uniform",
    position: str = "startpos",
    seconds: float = 60.0,
) -> Iterator[Row]:
    """Watches one long search that outgrows its memory, minute by minute (--seconds: of a minute).

    The search is `graphsearch uci` in a process of its own. Memory and log are the peak of a minute, speeds
    and reads its mean. The search is stopped at the end, and `graphsearch store verify` must then call the
    file sound.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "soak.graph"
        engine = Engine(path, ram, evaluator, position)
        samples, minute = [engine.sample()], 1
        while minute <= minutes:
            time.sleep(min(SAMPLE_SECONDS, seconds / 4))
            samples.append(engine.sample())
            if samples[-1].seconds >= seconds * minute:
                yield row(minute, samples)
                samples, minute = samples[-1:], minute + 1
        engine.stop()
        subprocess.run([*PROGRAM, "store", "verify", str(path)], check=True, stdout=subprocess.DEVNULL)


def row(minute: int, samples: Sequence[Sample]) -> Row:
    """Returns the figures of a minute."""
    first, last = samples[0], samples[-1]
    seconds, visits = last.seconds - first.seconds, last.visits - first.visits
    return {
        "minute": minute,
        "rss_mb": max(one.rss for one in samples) / MB,
        "log_mb": max(one.log for one in samples) / MB,
        "file_mb": last.file / MB,
        "read_mb_per_s": (last.read - first.read) / seconds / MB,
        "visits": last.visits,
        "visits_per_s": round(visits / seconds),
        "visits_per_cpu_s": round(visits / max(1e-9, last.cpu - first.cpu)),
    }
