"""Executes inputs in forked processes, within limits of time and memory, and says how each ended.

The parent imports what the target needs; a child executes inputs one after the other and reports each through
a pipe. A child that crashes or hangs is known by the input it had announced; the next one goes on behind it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import mmap
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphsearch.base.errors import GraphSearchError

from ..support.forks import Fork, Say

ACCEPTED, REFUSED, FAILED = "accepted", "refused", "failed"
SECONDS = 30.0  # for one input; a busy machine takes some seconds for the slowest
MEGABYTES = 600  # that one input may add to what the process needed before
ADDRESS_SPACE = 48 << 30  # bytes beside those of the parent, most never touched; a wild request fails
BATCH = 200  # inputs for one child: leaks show, and do not pile up
MEMORY_FOLDER = Path("/dev/shm")  # files there cost no disk

Seeds = Callable[[Path], list[bytes]]
Mutate = Callable[[list[bytes], random.Random], bytes]
Call = Callable[[bytes, Path], bool]


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads what comes from outside.

    Attributes:
      name: in the table and for `--target`.
      seeds: returns sound inputs; called once, in the parent, with a folder for its work.
      mutate: returns a new input, from the seeds and chance alone.
      call: does what the program does with the input, in an empty folder. Returns whether it was accepted;
        raises GraphSearchError where it is refused. Everything else is a failure.
      warm: called once in the parent, so that children need not import and compile.
      seconds, megabytes: what one input may take.
      batch: inputs for one child.
    """

    name: str
    seeds: Seeds
    mutate: Mutate
    call: Call
    warm: Callable[[], None] = lambda: None
    seconds: float = SECONDS
    megabytes: int = MEGABYTES
    batch: int = BATCH


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one input ended; `signature` tells failures of one cause from others, `text` has the traceback."""

    index: int
    verdict: str
    signature: str = ""
    text: str = ""


@dataclass(slots=True)
class Tally:
    """What came of one target."""

    target: str
    executions: int = 0
    accepted: int = 0
    refused: int = 0
    failed: int = 0
    seconds: float = 0.0
    failures: dict[str, str] = field(default_factory=dict)  # signature: the command that repeats the first

    def add(self, outcome: Outcome) -> None:
        self.executions += 1
        for name in (ACCEPTED, REFUSED, FAILED):
            setattr(self, name, getattr(self, name) + (outcome.verdict == name))


def folder_for_work() -> Path:
    """Returns a new folder, in memory where there is one."""
    usable = MEMORY_FOLDER.is_dir() and os.access(MEMORY_FOLDER, os.W_OK)
    return Path(tempfile.mkdtemp(prefix="graphsearch-fuzz-", dir=MEMORY_FOLDER if usable else None))


# ------------------------------------------------------------------ in the child
class UnexpectedExitError(Exception):
    """A command that ended with an exit code it may not have."""


def _signature(error: BaseException) -> str:
    """Returns the type of an error and the innermost place in this project where it arose."""
    places = [
        f"{Path(frame.filename).name}:{frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/graphsearch/" in frame.filename or "/cli/" in frame.filename
    ]
    return f"{type(error).__name__} in {places[-1] if places else 'the harness'}: {str(error)[:60]}"


def _peak_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


class _Threads:
    """Notes what threads die of: nobody else would."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        threading.excepthook = self._note

    def _note(self, given: Any) -> None:
        if given.exc_value is not None and not isinstance(given.exc_value, SystemExit):
            self.errors.append(given.exc_value)


def _execute(target: Target, data: bytes, index: int, folder: Path, threads: _Threads) -> Outcome:
    folder.mkdir()
    before = _peak_megabytes()
    try:
        verdict = ACCEPTED if target.call(data, folder) else REFUSED
        if threads.errors:
            raise threads.errors.pop()
    except GraphSearchError:
        verdict = REFUSED
    except BaseException as error:
        return Outcome(index, FAILED, _signature(error), traceback.format_exc()[-6000:])
    finally:
        threads.errors.clear()
        shutil.rmtree(folder, ignore_errors=True)
    more = _peak_megabytes() - before
    if more > target.megabytes:
        return Outcome(index, FAILED, f"memory: more than {target.megabytes} MB", f"{more} MB more")
    return Outcome(index, verdict)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    soft = pages * resource.getpagesize() + ADDRESS_SPACE if pages else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _work(target: Target, inputs: Iterator[tuple[int, bytes]], say: Say, folder: Path) -> None:
    """Executes inputs in this child; announces each before it starts."""
    _silence(folder)
    _limit_memory()
    threads = _Threads()
    for index, data in inputs:
        say(index)
        (folder / "input").write_bytes(data)
        outcome = _execute(target, data, index, folder / "work", threads)
        if outcome.verdict == FAILED:  # the next input comes before anybody has read this one
            (folder / f"failed-{index}").write_bytes(data)
        say(json.dumps([outcome.index, outcome.verdict, outcome.signature, outcome.text]))


def _silence(folder: Path) -> None:
    """Sends everything that is printed to nowhere, and the place of a crash to a file."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(i, "r" if not i else "w", closefd=False) for i in range(3))
    crash = (folder / "crash").open("w")
    faulthandler.enable(crash)
    faulthandler.register(signal.SIGUSR1, crash, all_threads=True)


# ------------------------------------------------------------------ in the parent
class Child(Fork):
    """A forked process that executes inputs, and what it says of them."""

    def __init__(self, target: Target, inputs: Iterator[tuple[int, bytes]], folder: Path) -> None:
        self._target, self._folder = target, folder
        folder.mkdir(exist_ok=True)
        gc.freeze()  # a collection in the child would copy the pages of the parent
        super().__init__(lambda say: _work(target, inputs, say, folder))

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        shutil.rmtree(self._folder, ignore_errors=True)

    def outcomes(self) -> Iterator[tuple[Outcome, bytes]]:
        """Yields how inputs ended, each failed one with the input itself, until the child ends."""
        index = -1
        while True:
            is_late = not self.speaks(self._target.seconds)
            line = "" if is_late else self.line()
            if not line:
                if index >= 0:
                    yield self._ended(index, is_late)
                return
            found = json.loads(line)
            if isinstance(found, int):
                index = found
            else:
                index, outcome = -1, Outcome(*found)
                yield outcome, self._taken(outcome.index) if outcome.verdict == FAILED else b""

    def _taken(self, index: int) -> bytes:
        kept = self._folder / f"failed-{index}"
        data = kept.read_bytes()
        kept.unlink()
        return data

    def _ended(self, index: int, hangs: bool) -> tuple[Outcome, bytes]:
        """Returns what to say of an input whose child hangs or has died."""
        if hangs:
            os.kill(self.process, signal.SIGUSR1)  # says where it is
            time.sleep(0.5)
            self.kill()
        self.rest()
        text = (self._folder / "crash").read_text(errors="replace")
        if hangs:
            what = f"hang: more than {self._target.seconds:.0f} s"
        elif self.status < 0:
            what = f"crash: {signal.Signals(-self.status).name}"
        else:
            what = f"exit {self.status}"
        return Outcome(index, FAILED, f"{what} in {_place(text)}", text[:6000]), (
            self._folder / "input"
        ).read_bytes()


def _place(text: str) -> str:
    """Returns the innermost line of ours in what faulthandler wrote."""
    for line in text.splitlines():
        if "/graphsearch/" in line or "/cli/" in line or "/tests/fuzz/" in line:
            return line.strip().rpartition("/")[2].replace('"', "")
    return "an unknown place"


class Fuzzer:
    """One target at work: makes inputs from the `first` on, has them executed, keeps what fails."""

    def __init__(self, target: Target, seed: int, *, first: int = 0, keep: Path | None = None) -> None:
        self.target, self._seed, self._keep = target, seed, keep
        self.tally = Tally(target.name)
        self.outcomes: list[Outcome] = []  # of failures, the first of each signature
        self._next = first
        self._folder = folder_for_work()
        self._counts: Counter[str] = Counter()
        target.warm()
        self._seeds = target.seeds(self._folder)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, seconds: float = float("inf"), executions: int = sys.maxsize) -> Tally:
        """Executes inputs until the time or their number is up."""
        began = time.monotonic()
        stop = self.tally.executions + executions
        while time.monotonic() - began < seconds and self.tally.executions < stop:
            self._batch(began + seconds, stop)
        self.tally.seconds += time.monotonic() - began
        return self.tally

    def _batch(self, end: float, stop: int) -> None:
        most = min(self.target.batch, stop - self.tally.executions)
        inputs = ((i, self.input(i)) for i in range(self._next, self._next + most))
        with Child(self.target, inputs, self._folder / "child") as child:
            for outcome, data in child.outcomes():
                self._next = outcome.index + 1
                self.tally.add(outcome)
                if outcome.verdict == FAILED:
                    self._failed(outcome, data)
                if time.monotonic() > end or self.tally.executions >= stop:
                    return

    def input(self, index: int) -> bytes:
        """Returns one of this target's inputs; 0 and the next ones are the seeds themselves."""
        if index < len(self._seeds):
            return self._seeds[index]
        chance = random.Random(f"{self.target.name} {self._seed} {index}")
        return self.target.mutate(self._seeds, chance)

    def repeat(self, data: bytes) -> Outcome:
        """Returns how one given input ends."""
        with Child(self.target, iter([(0, data)]), self._folder / "child") as child:
            return next(child.outcomes())[0]

    def _failed(self, outcome: Outcome, data: bytes) -> None:
        self._counts[outcome.signature] += 1
        if self._counts[outcome.signature] > 1:
            return
        self.outcomes.append(outcome)
        name = f"{self.target.name}-{self._seed}-{outcome.index}"
        self.tally.failures[outcome.signature] = (
            f"python -m tests.fuzz --target {self.target.name} --seed {self._seed} --only {outcome.index}"
        )
        if self._keep is not None:
            self._keep.mkdir(parents=True, exist_ok=True)
            (self._keep / name).write_bytes(data)
            (self._keep / f"{name}.txt").write_text(
                f"{outcome.signature}\n\n"
                f"python -m tests.fuzz --target {self.target.name} --input {self._keep / name}\n"
                f"{self.tally.failures[outcome.signature]}\n\n{outcome.text}\n"
            )


# ------------------------------------------------------------------ memory between forbidden pages
PAGE = mmap.PAGESIZE
PROT_NONE = 0

_libc = ctypes.CDLL(None, use_errno=True)


def guarded(size: int, dtype: Any, *, low: bool) -> NDArray[Any]:
    """Returns zeros between two forbidden pages, right after the first (`low`) or right before the second."""
    kind = np.dtype(dtype)
    wanted = size * kind.itemsize
    pages = max(1, -(-wanted // PAGE))
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, pages + 1):
        if _libc.mprotect(ctypes.c_void_p(start + page * PAGE), ctypes.c_size_t(PAGE), PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    return np.frombuffer(memory, kind, size, PAGE if low else (pages + 1) * PAGE - wanted)


def guarded_copy(values: Any, dtype: Any, *, low: bool) -> NDArray[Any]:
    """Returns a copy of an array, or of bytes, between two forbidden pages."""
    given = (
        np.frombuffer(values, dtype) if isinstance(values, bytes | bytearray) else np.asarray(values, dtype)
    )
    out = guarded(given.size, dtype, low=low)
    out[:] = given.reshape(-1)
    return out
