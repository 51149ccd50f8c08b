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
from pathlib import Path

from ...errors import GraphSearchError, InvalidParameterError
from ...store.store import Store
from ..files import check_disk
from .plan import (
    DISK_BYTES_PER_NODE,
    FIRST_NODES,
    NODES,
    ON_A_COPY,
    PHASES,
    RAM_BYTES,
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
    phases: Sequence[str] = PHASES,
    folder: Path | None = None,
) -> list[Measured]:
    """Returns what every phase took at every size.

    Args:
      report: called with what is measured next, and how far it is.
      done: called with every phase that is finished.
      nodes: the last size. first: the first one; ten times as many follow until the last.
      ram_bytes: the budget of what has one.
      phases: which to measure; a file is grown in any case.
      folder: where the file is kept and the results are written; what it has is not measured again. None: a
        temporary one, removed at the end.

    Raises:
      InvalidParameterError: for an unknown phase, or a folder that was measured with another budget.
      GraphSearchError: if a phase fails, or the disk is too small.
    """
    check_phases(phases)
    with _folder(folder) as place:
        results = Results(place, ram_bytes)
        check_disk(place, nodes * DISK_BYTES_PER_NODE, "choose another --folder")
        report("compiling")
        _run("warm", Plan(folder=str(place), nodes=nodes, ram_bytes=ram_bytes), report)
        for size in sizes(nodes, first):
            plan = Plan(folder=str(place), nodes=size, ram_bytes=ram_bytes)
            for phase in _due(plan, results, phases):
                row = _measured(phase, plan, report)
                results.add(row)
                done(row)
        shutil.rmtree(place / "warm", ignore_errors=True)
        return results.rows


def check_phases(phases: Sequence[str]) -> None:
    """Raises InvalidParameterError for a phase that there is not."""
    for phase in phases:
        if phase not in PHASES:
            raise InvalidParameterError(f"there is no phase {phase!r}; there are {', '.join(PHASES)}")


def _due(plan: Plan, results: Results, phases: Sequence[str]) -> Iterator[str]:
    """Yields what is left to measure at a size, growth first if the file is too small.

    A file that has outgrown the size cannot be measured at it any more.
    """
    held = _held(plan)
    if held >= 2 * plan.nodes:
        return
    if held < plan.nodes:
        yield PHASES[0]
    for phase in PHASES[1:]:
        if phase in phases and not results.has(phase, plan.nodes):
            yield phase


def _held(plan: Plan) -> int:
    """Returns the nodes of the file now, 0 if there is none."""
    if not plan.file.exists():
        return 0
    with Store.open(plan.file, read_only=True) as store:
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
        if phase in ON_A_COPY:
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
    command = [sys.executable, "-m", __package__, phase, plan.folder, str(plan.nodes), str(plan.ram_bytes)]
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
