"""All operations on a file, at sizes ten times apart: commands of the program, as processes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.store.file import log_bytes
from graphsearch.store.record import RecordBatch, keys_of, take
from graphsearch.store.rewrite import compact
from graphsearch.store.store import Store
from graphsearch.workers.process import python_command

from .harness import Row, benchmark

STEP = 10  # between two sizes
TINY = 3000  # nodes of the file on which a command takes as long as its start
CALL, NODE, BOTH, SMALL, VISIT = "call", "node", "node of both", "node of small", "visit"
SEARCH_VISITS = 500_000
LEAST_WAVE, MOST_WAVE, WAVE_SHARE = 1024, 16_384, 1000  # a wave has 1/1000 of the nodes, within limits
SMALL_SHARE = 100  # size ratio of the two files of `merge_small`
LOOK_SECONDS = 0.02  # between two looks at the log
ASKED = '--moves "e4 e5" --store {file}'
SEARCH = "analyze startpos --evaluator uniform --threads 1 --ram {ram} --param MinibatchSize={wave}"
# name -> unit and command; it may change {copy} of the file and {into}, a copy of {a}; {new} is an output
PHASES = {
    "grow": (NODE, SEARCH + " --evaluations {missing} --store {file}"),
    "show": (CALL, f"show startpos {ASKED}"),
    "info": (CALL, "store info {file}"),
    "lines": (CALL, f"lines startpos --lines 3 {ASKED}"),
    "tree": (CALL, f"tree startpos {ASKED}"),
    "curve": (CALL, f"curve startpos {ASKED}"),
    "games": (CALL, f"games startpos {ASKED}"),
    "sql": (CALL, 'lab sql {file} "SELECT san, move_n, move_q FROM position_moves LIMIT 1000"'),
    "verify": (NODE, "store verify {file}"),
    "find": (NODE, "find {file} --min-visits {least} --side white --lines 0 --json"),
    "backup": (NODE, "store backup {file} {new}"),
    "salvage": (NODE, "store salvage {file} {new}"),
    "compact": (NODE, "store compact {copy}"),
    "prune": (NODE, "store compact {copy} --min-visits 2"),
    "refresh": (NODE, "lab refresh {copy}"),
    "diff": (BOTH, "diff {a} {b}"),
    "merge_new": (BOTH, "store merge {a} {b} -o {new} --ram {ram}"),
    "merge_into": (BOTH, "store merge {b} --into {into} --ram {ram}"),
    "merge_small": (SMALL, "store merge {small} --into {into} --ram {ram}"),
    "search": (VISIT, SEARCH + " --visits {visits} --store {copy}"),
}


@benchmark(*("phase", "nodes"), across="nodes", compare=("cpu_us", "written_bytes"))
def scale(
    *,
    nodes: int = 100_000_000,
    first: int = 1_000_000,
    ram_mb: int = 512,
    phases: tuple[str, ...] = (),
    folder: Path | None = None,
) -> Iterator[Row]:
    """Costs of everything that is done to a file, at sizes ten times apart: growth, upkeep, queries, search.

    The graph grows from --first to --nodes by searches with `uniform` within --ram-mb, and at each size every
    phase is measured, less the same command on a file of a few nodes. With --folder the file and the samples
    (scale.json) are kept there, and the same command continues what was interrupted.

    us, cpu_us, written_bytes are for each `unit`; the `_ratio` columns say how they grow from the first size.
    log_mb is the largest write-ahead log.
    """
    if unknown := set(phases) - set(PHASES):
        raise SystemExit(f"there is no phase {', '.join(unknown)}; there are {', '.join(PHASES)}")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    with nullcontext(folder) if folder else tempfile.TemporaryDirectory() as name:
        kept = Path(name) / "scale.json"
        found: Row = json.loads(kept.read_text()) if kept.exists() else {"ram_mb": ram_mb, "rows": []}
        if found["ram_mb"] != ram_mb:
            raise SystemExit(f"{kept} was measured with another --ram-mb; choose another --folder")
        yield from found["rows"]
        for size in sizes(nodes, first):
            files = Files(Path(name), size, ram_mb)
            if files.count() >= 2 * size:
                continue  # it has outgrown the size
            done = {row["phase"] for row in found["rows"] if row["nodes"] == size}
            for phase in ["grow", *(phase for phase in phases or PHASES if phase != "grow")]:
                if phase not in done:
                    found["rows"].append({"phase": phase, "nodes": size} | files.measure(phase))
                    kept.write_text(json.dumps(found, indent=1))
                    yield found["rows"][-1]
            files.remove("a", "b", "small", "tiny-a", "tiny-b", "tiny-small")


def sizes(nodes: int, first: int) -> list[int]:
    """Returns the sizes to measure.

    >>> sizes(30_000_000, 1_000_000), sizes(5000, 1_000_000)
    ([1000000, 10000000, 30000000], [5000])
    """
    found, size = [], first
    while size < nodes:
        found.append(size)
        size *= STEP
    return [*found, nodes]


class Files:
    """The files of a measurement, of `nodes` nodes; `name`: of the grown file, and before other names."""

    def __init__(self, folder: Path, nodes: int, ram_mb: int, name: str = "") -> None:
        self._folder, self._nodes, self._ram_mb, self._name = folder, nodes, ram_mb, name

    def path(self, name: str) -> Path:
        """Returns the path of a file."""
        return self._folder / f"{self._name}{name}.graph"

    def count(self, name: str = "grown") -> int:
        """Returns the number of nodes in a file, 0 if it is missing."""
        if not self.path(name).exists():
            return 0
        with Store.open(self.path(name), read_only=True) as store:
            return store.node_count

    def remove(self, *names: str) -> None:
        """Removes files and their companion files."""
        for found in (found for name in names for found in self._folder.glob(f"{name}.graph*")):
            shutil.rmtree(found) if found.is_dir() else found.unlink()

    def measure(self, phase: str) -> Row:
        """Returns the figures of a phase."""
        tiny, unit = Files(self._folder, TINY, self._ram_mb, "tiny-"), PHASES[phase][0]
        if phase == "grow":
            self.remove("tiny-grown")
        elif not tiny.count():
            tiny.run("grow")
        before, start, found = self.count(), tiny.run(phase), self.run(phase)
        counts = {
            NODE: self.count() - (before if phase == "grow" else 0),
            BOTH: self.count("a") + self.count("b"),
            SMALL: self.count("small"),
            VISIT: self._visits,
        }
        units = max(1, counts.get(unit, 1))
        us = {f"{name}us": 1e6 * (found[f"{name}s"] - start[f"{name}s"]) / units for name in ("", "cpu_")}
        return {
            "unit": unit,
            **us,
            "written_bytes": found["written"] / units,
            "peak_mb": found["peak"] / 1e6,
            "log_mb": found["log"] / 1e6,
            "file_mb": found["size"] / 1e6,
            "units": units,
        }

    def run(self, phase: str) -> Mapping[str, float]:
        """Returns the seconds, CPU-seconds and bytes of the command of a phase."""
        words = PHASES[phase][1]
        parts, copies = ("a", "b", "small"), {"copy": "grown", "into": "a"}
        if any(f"{{{name}}}" in words for name in (*parts, "into")):
            for name in parts:
                if not self.path(name).exists():
                    derive(self.path("grown"), self.path(name), name)
        for name, source in copies.items():
            if f"{{{name}}}" in words:
                shutil.copyfile(self.path(source), self.path(name))
        names = {name: self.path(name) for name in ("new", *copies, *parts)}
        wave = min(MOST_WAVE, max(LEAST_WAVE, self.count() // WAVE_SHARE))
        options: dict[str, Any] = {
            "file": self.path("grown"),
            "ram": f"{self._ram_mb}MB",
            "wave": wave,
            "missing": max(1, self._nodes - self.count()),
            "visits": self._visits,
            "least": max(2, self._nodes // WAVE_SHARE),
        }
        command = shlex.split(words.format(**options, **names))
        figures = dict(measured(command, options["file"], *names.values()))
        outputs = [names[name] for name in ("new", *copies) if names[name].exists()]
        figures["size"] = (outputs or [options["file"]])[0].stat().st_size
        self.remove(*(names[name].stem for name in ("new", *copies)))
        return figures

    @property
    def _visits(self) -> int:
        return min(SEARCH_VISITS, self._nodes // 2)


def measured(words: list[str], *files: Path) -> Iterator[tuple[str, float]]:
    """Yields the figures of a command: seconds, CPU-seconds, peak memory, bytes written, the largest log."""
    began, log, quiet = time.monotonic(), 0, subprocess.DEVNULL
    process = subprocess.Popen(python_command("graphsearch", *words), stdin=quiet, stdout=quiet)
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        log = max(log, *map(log_bytes, files))
        time.sleep(LOOK_SECONDS)
    _, status, used = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"graphsearch {shlex.join(words)} ended with exit code {process.returncode}")
    yield from (("s", time.monotonic() - began), ("cpu_s", used.ru_utime + used.ru_stime))
    yield from (("peak", 1024 * used.ru_maxrss), ("written", 512 * used.ru_oublock), ("log", log))


# ------------------------------------------------------------------ two files
def derive(source: Path, target: Path, name: str) -> None:
    """Makes a file of some records: `a` and `b` have two thirds, a third in both; `small` a hundredth."""
    identity = UniformEvaluator().identity
    with (
        Store.open(source, read_only=True) as store,
        Store.open(target, create=True, identity=identity) as new,
    ):
        for batch in store.scan():
            some = _part(batch, name)
            new.append(some, fresh=len(some))
        new.begin_run("", {}, {})
    compact(target)


def _part(batch: RecordBatch, name: str) -> RecordBatch:
    """Returns a file's part of some records; half of the records in both files have other visits in `b`."""
    draw = keys_of(batch.words) % np.uint64(6 * SMALL_SHARE)
    kept = {"a": draw % 3 != 0, "b": draw % 3 != 1, "small": draw < 6}[name]
    found = take(batch, np.nonzero(kept)[0])
    if name == "a":
        return found
    more = np.repeat(draw[kept] % 2 == 0, np.diff(found.edge_offsets))
    return found.replace(n=found.n + more.astype(np.uint32))
