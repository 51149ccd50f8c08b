"""The run of `graphsearch bench --scale`: all phases at all sizes, each in a process of its own.

Every finished phase is written at once, so that a run of hours may be interrupted and gone on with.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...errors import GraphSearchError, InvalidParameterError
from ...store.sharded.files import open_to_read
from ..files import check_disk
from .plan import (
    DISK_BYTES_PER_NODE,
    FIRST_NODES,
    NODES,
    PHASES,
    RAM_BYTES,
    SHARDED_PHASES,
    Measured,
    Plan,
    Results,
    sizes,
)

Report = Callable[[str], None]
Done = Callable[[Measured], None]

SAY_SECONDS = 20.0  # between two lines about the progress


def measure(
    report: Report = lambda _: None,
    done: Done = lambda _: None,
    *,
    nodes: int = NODES,
    ram_bytes: int = RAM_BYTES,
    first: int = FIRST_NODES,
    phases: Sequence[str] = (),
    folder: Path | None = None,
    shards: int = 0,
) -> list[Measured]:
    """Returns what every phase took at every size.

    Args:
      report: called with what is measured next, and how far it is.
      done: called with every phase that is finished.
      nodes: the last size. first: the first one; ten times as many follow until the last.
      ram_bytes: the budget of what has one.
      phases: which to measure, all if none is given; a graph is grown in any case.
      folder: where the file is kept and the results are written; what it has is not measured again. None: a
        temporary one, removed at the end.
      shards: of the cluster that is measured, each with a budget of its own; 0: one file.

    Raises:
      InvalidParameterError: for an unknown phase, or a folder that was measured with another budget or number
        of shards.
      GraphSearchError: if a phase fails, or the disk is too small.
    """
    check_phases(phases, shards)
    with _folder(folder) as place:
        results = Results(place, ram_bytes, shards)
        first_plan = Plan(folder=str(place), nodes=nodes, ram_bytes=ram_bytes, shards=shards)
        check_disk(place, nodes * DISK_BYTES_PER_NODE, "choose another --folder")
        report("compiling")
        _run("warm", first_plan, report)
        for size in sizes(nodes, first):
            plan = replace(first_plan, nodes=size)
            for phase in _due(plan, results, phases or plan.phases):
                row = _measured(phase, plan, report)
                results.add(row)
                done(row)
        shutil.rmtree(place / "warm", ignore_errors=True)
        return results.rows


def check_phases(phases: Sequence[str], shards: int = 0) -> None:
    """Raises InvalidParameterError for a phase that there is not."""
    known = SHARDED_PHASES if shards else PHASES
    for phase in phases:
        if phase not in known:
            raise InvalidParameterError(f"there is no phase {phase!r}; there are {', '.join(known)}")


def _due(plan: Plan, results: Results, phases: Sequence[str]) -> Iterator[str]:
    """Yields what is left to measure at a size, growth first if the file is too small.

    A file that has outgrown the size cannot be measured at it any more.
    """
    held = _held(plan)
    if held >= 2 * plan.nodes:
        return
    if held < plan.nodes:
        yield plan.phases[0]
    for phase in plan.phases[1:]:
        if phase in phases and not results.has(phase, plan.nodes):
            yield phase


def _held(plan: Plan) -> int:
    """Returns the nodes of the graph now, 0 if there is none."""
    if not plan.file.exists():
        return 0
    with open_to_read(plan.file) as store:
        return store.node_count


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is None:
        with tempfile.TemporaryDirectory(prefix="graphsearch-bench-") as made:
            yield Path(made)
        return
    given.mkdir(parents=True, exist_ok=True)
    yield given.resolve()


def _measured(phase: str, plan: Plan, report: Report) -> Measured:
    """Returns what a phase took; one that changes the file gets a copy of it, which is then thrown away."""
    report(f"{plan}: {phase}")
    try:
        if plan.copies(phase):
            shutil.copyfile(plan.file, plan.copy)
        _run(phase, plan, report)
    finally:
        plan.remove(plan.copy, plan.new)
    found = Path(plan.folder) / f"{phase}.json"
    row = Measured(**json.loads(found.read_text()))
    found.unlink()
    return row


def _run(phase: str, plan: Plan, report: Report) -> None:
    """Runs a phase in a process of its own, and passes on how far it is."""
    numbers = str(plan.nodes), str(plan.ram_bytes), str(plan.shards)
    command = [sys.executable, "-m", __package__, phase, plan.folder, *numbers]
    quiet = subprocess.DEVNULL
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=quiet, stderr=errors, text=True
        ) as process,
    ):
        try:
            while not _has_ended(process):
                if plan.told.exists():
                    report(_progress(phase, plan))
        except BaseException:
            process.terminate()
            raise
        finally:
            plan.remove(plan.told)
        if process.returncode:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or [f"it ended with {process.returncode}"])[-1]
            raise GraphSearchError(f"the phase {phase} of the benchmark failed: {last}")


def _has_ended(process: subprocess.Popen[str]) -> bool:
    """Waits for the end of a process for some time."""
    try:
        process.wait(SAY_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _progress(phase: str, plan: Plan) -> str:
    """Returns how far a phase is, as people read it."""
    done, _, total = plan.told.read_text().partition(" ")
    return f"{plan}: {phase} {100 * int(done or 0) / max(1, int(total or 0)):.0f} %"
