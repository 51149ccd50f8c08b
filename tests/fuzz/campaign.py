"""Kills and faults over all commands: `python -m tests.fuzz.campaign --kills 1000 --faults 1000`.

Each run takes a fresh copy of a small graph file and executes one command in a forked process. The process
is killed at a random moment of its usual time, or its k-th write, sync, truncation, renaming, removal or
creation of a file fails. Afterwards the file must be sound, nothing may be lost that was there before or that
the command ended with, and the same command must succeed without help. Exit code 1 if one of these does not
hold. Needs Linux and a C compiler.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import importlib
import io
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace

from graphsearch.store.verify import verify

from ..support.faults import shim as shims
from . import commands, works
from .harness import folder_for_work
from .works import WORKS, State, Work

# ------------------------------------------------------------------ one run
SECONDS = 120.0  # after which a command hangs
DEFECT = 99  # exit code of a child that an exception has left
ERRORS = (errno.ENOSPC, errno.EIO, shims.SHORT_WRITE)
KILLED, FAULT = "kill", "fault"


@dataclass(slots=True)
class Row:
    """What came of one command."""

    work: str
    runs: int = 0
    kills: int = 0
    faults: int = 0
    refused: int = 0  # the command said in one line what was wrong
    survived: int = 0  # it ended with 0 all the same, and had done its work
    late: int = 0  # it had ended before the kill, or made fewer calls than usual
    lost: int = 0
    unsound: int = 0
    not_repeated: int = 0
    tracebacks: int = 0
    hangs: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def bad(self) -> int:
        return self.lost + self.unsound + self.not_repeated + self.tracebacks + self.hangs


@dataclass(frozen=True, slots=True)
class Usual:
    """A command that nothing disturbs: its time, how many calls it makes, what it writes."""

    seconds: float
    calls: int
    outputs: dict[str, bytes]


class Campaign:
    """Runs commands and disturbs them. This process was started with the shim."""

    def __init__(self, library: Path, seed: int) -> None:
        self._shim = shims.Shim(library)
        self._rng = random.Random(seed)
        self._folder = folder_for_work()
        works.make_starts(self._folder / "starts")
        self._before = {
            start.name: works.state(start / "a.graph") for start in (self._folder / "starts").iterdir()
        }
        self._usual: dict[str, Usual] = {}
        self._sound: set[tuple[str, bytes]] = set()
        self._last = ""
        self.rows: dict[str, Row] = {}

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    # -------------------------------------------------------------- one run
    def disturb(self, work: Work, how: str) -> bool:
        """Executes a command once, disturbs it and checks what is left; returns whether it was hit."""
        row = self.rows.setdefault(work.name, Row(work.name))
        usual = self.usual(work)
        folder = self._fresh(work)
        row.runs += 1
        if how == KILLED:
            hit, code = self._killed(work, folder, usual, row)
            row.kills += hit
        else:
            hit, code = self._with_fault(work, folder, usual, row)
            row.faults += hit
        row.late += not hit
        self._judge(work, folder, code, row)
        shutil.rmtree(folder)
        return hit

    def _fresh(self, work: Work) -> Path:
        folder = self._folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        return works.copy(self._folder / "starts" / work.start, folder)

    def usual(self, work: Work) -> Usual:
        """Returns the measures of a command, taken once, the second time it is executed."""
        if work.name not in self._usual:
            if work.name == "uci":  # its thread may outlive the command
                self._undisturbed(work)
            else:  # here, so that children need not import and compile
                commands.run(*works.command_line(work, self._fresh(work)))
            self._usual[work.name] = self._undisturbed(work)
        return self._usual[work.name]

    def _undisturbed(self, work: Work) -> Usual:
        folder = self._fresh(work)
        began = time.monotonic()
        code = _wait(self._start(work, folder, shims.Fault(shims.ALL, 0, 0)), SECONDS)
        seconds = time.monotonic() - began
        text = (folder / "err").read_text(errors="replace")
        assert code == 0, f"{work.name} fails undisturbed, exit {code}: {text}"
        outputs = {name: (folder / name).read_bytes() for name in work.writes}
        return Usual(seconds, self._shim.calls, outputs)

    def _start(self, work: Work, folder: Path, fault: shims.Fault) -> int:
        """Returns the process id of a command that has just begun."""
        process = os.fork()
        if not process:
            _execute(work, folder, self._shim, fault)
        return process

    def _killed(self, work: Work, folder: Path, usual: Usual, row: Row) -> tuple[bool, int]:
        process = self._start(work, folder, shims.Fault(0, 0, 0))
        time.sleep(self._rng.random() * usual.seconds)
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            return True, -signal.SIGKILL
        return False, os.WEXITSTATUS(status)

    def _with_fault(self, work: Work, folder: Path, usual: Usual, row: Row) -> tuple[bool, int]:
        at = self._rng.randint(1, max(1, usual.calls))
        error, sticky = self._rng.choice(ERRORS), self._rng.random() < 0.3
        process = self._start(work, folder, shims.Fault(shims.ALL, at, error, sticky))
        code = _wait(process, SECONDS)
        self._last = f"call {at} of {usual.calls}, error {error}{', and all later ones' if sticky else ''}"
        if code is None:
            row.hangs += 1
            row.problems.append(f"hangs: {self._last}")
            return True, DEFECT
        return self._shim.fired > 0, code

    # -------------------------------------------------------------- judging
    def _judge(self, work: Work, folder: Path, code: int, row: Row) -> None:
        told = (folder / "err").read_text(errors="replace") if (folder / "err").exists() else ""
        said = (folder / "out").read_text(errors="replace") if (folder / "out").exists() else ""
        if code == DEFECT or code == 70 or "Traceback (most recent" in told:
            row.tracebacks += 1
            row.problems.append(f"traceback ({self._last}): {told[-1500:]}")
        elif code > 0:
            row.refused += 1
        elif code == 0:
            row.survived += 1
        promised = code == 0 and "is lost" not in said and "ERROR" not in said
        problems = self._checked(work, folder, promised=promised)
        for kind, text in problems:
            setattr(row, kind, getattr(row, kind) + 1)
            where = "killed" if code == -signal.SIGKILL else self._last
            row.problems.append(f"{kind}: {text} (exit {code}; {where}; {told[-300:].strip()})")

    def _checked(self, work: Work, folder: Path, *, promised: bool) -> list[tuple[str, str]]:
        """Returns what is wrong with the files, before and after the command is repeated."""
        if found := self._asked(work, folder, promised=promised):
            return found
        code = _wait(self._start(work, folder, shims.Fault(0, 0, 0)), SECONDS)
        if code:
            return [("not_repeated", f"exit {code}: {(folder / 'err').read_text(errors='replace')[-600:]}")]
        return (
            [("hangs", "the repeated command")] if code is None else self._asked(work, folder, promised=True)
        )

    def _asked(self, work: Work, folder: Path, *, promised: bool) -> list[tuple[str, str]]:
        """Returns what is wrong with the files, which a child reads: this process keeps no file open.

        A graph file that was found sound, byte for byte, is not read again if the command adds nothing.
        """
        content = None if work.grows or work.least else (work.start, _content(folder))
        is_known = content in self._sound
        answer = folder.with_name("answer")
        answer.unlink(missing_ok=True)
        process = os.fork()
        if not process:
            try:
                before = {} if is_known else self._before[work.start]
                promises = promised and not is_known
                found = _wrong_graph(work, folder, before, promised=promises)
                found = found or _wrong_outputs(work, folder, self._usual[work.name], promised=promised)
                answer.write_text(json.dumps(found))
            except BaseException:
                answer.write_text(json.dumps([("unsound", traceback.format_exc()[-1500:])]))
            finally:
                os._exit(0)
        if _wait(process, SECONDS) is None:
            return [("hangs", "the check")]
        problems = [(kind, text) for kind, text in json.loads(answer.read_text())]
        if content and not problems:
            self._sound.add(content)
        return problems


def _content(folder: Path) -> bytes:
    files = [folder / "a.graph", folder / "a.graph-wal"]
    return hashlib.sha256(b"|".join(file.read_bytes() if file.exists() else b"" for file in files)).digest()


def _wait(process: int, seconds: float) -> int | None:
    """Returns the exit code of a child; None, and its end, if that takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


# ------------------------------------------------------------------ in a child
def _execute(work: Work, folder: Path, shim: shims.Shim, fault: shims.Fault) -> None:
    """Executes a command and ends this process with its exit code."""
    code = DEFECT
    try:
        _redirect(folder)
        shim.watch(f"{folder}/a.graph", *(f"{folder}/{name}" for name in work.writes))
        shim.fail(fault)
        code = _main(work, folder)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect(folder: Path) -> None:
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), descriptor)
    sys.stdout, sys.stderr = (os.fdopen(i, "w", closefd=False) for i in (1, 2))
    threading.excepthook = threading.__excepthook__


def _main(work: Work, folder: Path) -> int:
    main = importlib.import_module("graphsearch.cli").main  # cli/, which type checkers do not find there
    sys.stdin = SimpleNamespace(buffer=io.BytesIO(work.lines), isatty=lambda: False)
    code: int = main(works.command_line(work, folder))
    return code


def _wrong_graph(work: Work, folder: Path, before: State, *, promised: bool) -> list[tuple[str, str]]:
    if not before and not promised:
        return []
    path = folder / "a.graph"
    report = verify(path)
    if not report.ok and work.start != "damaged":
        return [("unsound", "; ".join(report.problems[:3]))]
    after = works.state(path)
    found = [("lost", text) for text in works.losses(before, after, work)[:3]]
    return found + [("lost", text) for text in works.missing(before, after, work)[:3] if promised]


def _wrong_outputs(work: Work, folder: Path, usual: Usual, *, promised: bool) -> list[tuple[str, str]]:
    problems = [
        _output_problems(folder / name, usual.outputs[name], promised=promised) for name in work.writes
    ]
    return [problem for some in problems for problem in some]


def _output_problems(file: Path, expected: bytes, *, promised: bool) -> list[tuple[str, str]]:
    if not file.exists():
        return [("lost", f"{file.name} is not there")] if promised else []
    if file.suffix == ".graph":
        report = verify(file)
        return [] if report.ok else [("unsound", f"{file.name}: {report.problems[:2]}")]
    return [] if file.read_bytes() == expected else [("unsound", f"{file.name} is not whole")]


# ------------------------------------------------------------------ the command line
def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="kills that hit, in all (default 100)")
    parser.add_argument("--faults", type=int, default=100, help="faults that hit, in all (default 100)")
    parser.add_argument(
        "--work", action="append", metavar="NAME", help="only these commands, by their name in the table"
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other moments")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)  # the shim that this process has
    return parser.parse_args(arguments)


def run(library: Path, chosen: Sequence[Work], kills: int, faults: int, seed: int) -> list[Row]:
    """Returns a row for each command; each is hit as often as the others, faults go on where kills end."""
    campaign, turns = Campaign(library, seed), itertools.cycle(chosen)
    try:
        for how, wanted in ((KILLED, kills), (FAULT, faults)):
            hits = tries = 0
            while hits < wanted and tries < 3 * wanted + len(chosen):
                hits += campaign.disturb(next(turns), how)
                tries += 1
                if not tries % 50:
                    print(f"{hits} of {wanted} {how}s", file=sys.stderr, flush=True)
    finally:
        campaign.close()
    return list(campaign.rows.values())


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 if anything was lost or went wrong."""
    options = _options(arguments)
    if why := shims.why_not():
        raise SystemExit(f"the campaign cannot run here: {why}")
    if options.library is None:  # a process has the shim from its start, or never
        with tempfile.TemporaryDirectory() as folder:
            library = shims.build(Path(folder))
            command = [sys.executable, "-m", "tests.fuzz.campaign", *arguments, "--library", str(library)]
            return subprocess.run(command, env=shims.environment(library), check=False).returncode
    chosen = [work for work in WORKS if not options.work or work.name in options.work]
    rows = run(options.library, chosen, options.kills, options.faults, options.seed)
    print(json.dumps([asdict(row) for row in rows], indent=1))
    return int(any(row.bad for row in rows))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
