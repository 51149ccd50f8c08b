"""Defects: one line, the traceback in a file, exit code 70. Errors from outside get advice. Signals."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import queue
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, Progress, SearchParams, analyze
from graphsearch.base.errors import EvaluatorDefectError
from graphsearch.base.faults import DEFECT, error_line
from graphsearch.base.version import __version__
from graphsearch.evaluators.protocol import EXTERNAL, Evaluation, PositionBatch
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.jit import cache
from graphsearch.search import loop
from graphsearch.store.store import Store
from graphsearch.workers.executor import Failure, failure_of
from graphsearch.workers.process import Child
from tests.conftest import ROOT, Cli, Outcome
from tests.support.pools import until
from tests.uci.engines import Played

PACKAGE = str(ROOT / "graphsearch") + os.sep
DEPTH = 25  # calls of our functions before the fault, if there are so many

BOOK = '[book]\nname = "white"\nside = "white"\nmax_ply = 4\n[[root]]\nmoves = "e4"\n'
COMMANDS = {  # one of each group; what catches a defect is the same for all
    "analyze": "startpos --visits 5",
    "review": "{pgn} --store {graph} --visits 10",
    "uci": "",
    "book build": "{book} --store {new} --evaluations 10",
    "import": "{pgn} --store {graph}",
    "lab sql": "SELECT --store {graph}",
    "serve": "{graph} --no-browser",
}


class InjectedError(Exception):
    """A fault that nobody expects."""


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the files with tracebacks."""
    monkeypatch.setenv("GRAPHSEARCH_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


CALLED_BY_SQLITE = ("authorize",)  # what these raise comes back as an error of SQLite


def with_fault_at_call(depth: int, run: Callable[[], Outcome]) -> tuple[Outcome, bool]:
    """Runs with an exception at that call of a function of ours; returns whether it came to it."""
    calls = 0

    def trace(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        code = frame.f_code
        is_ours = code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")
        if not is_ours or code.co_flags & CO_GENERATOR or calls == depth or code.co_name in CALLED_BY_SQLITE:
            return  # a generator may be called to close it, when Python ignores errors
        calls += not code.co_filename.endswith("faults.py")
        if calls == depth:
            sys.settrace(None)
            raise InjectedError("deep\ninside")

    sys.settrace(trace)
    try:
        return run(), calls == depth
    finally:
        sys.settrace(None)


def check_told(outcome: Outcome, reports: Path) -> str:
    """Checks what a person sees of a defect; returns what the file says."""
    assert outcome.code == DEFECT, outcome
    assert "Traceback" not in outcome.out + outcome.err
    (line,) = [line for line in outcome.err.splitlines() if "internal error" in line]
    (path,) = reports.glob("defect-*")
    assert line.endswith(f"please report it and attach {path}")
    assert path.stat().st_mode & 0o77 == 0, "it holds a command line"
    return path.read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_defect_anywhere_is_one_line_and_a_file(
    cli: Cli, small_graph: Path, tmp_path: Path, reports: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    names = {"book": "a.toml", "pgn": "a.pgn", "new": "new.graph"}
    places = {key: tmp_path / file for key, file in names.items()}
    places["book"].write_text(BOOK)
    places["pgn"].write_text("1. e4 e5 *\n")
    arguments = COMMANDS[name].format(graph=small_graph, **places).split()
    for depth in (DEPTH, 1):
        outcome, came = with_fault_at_call(depth, lambda: cli(*name.split(), *arguments))
        if came:
            break
    text = check_told(outcome, reports)
    facts = ("command: ", "platform: ", "InjectedError: deep", "Traceback (most recent call", __version__)
    assert all(fact in text for fact in facts)


# ---------------------------------------------------------- beside the main thread
def test_a_thread_s_defect_is_exit_code_70(cli: Cli, reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        raise InjectedError("in a thread")

    def beside(code: int) -> int:
        thread = threading.Thread(target=work, name="helper")
        thread.start()
        thread.join()
        return code

    monkeypatch.setattr(importlib.import_module("graphsearch.cli.output"), "close_quietly", beside)
    assert "during: thread helper" in check_told(cli("--version"), reports)


def test_what_python_ignores_is_told(cli: Cli, reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dropped:
        def __del__(self) -> None:
            raise InjectedError("while it is dropped")

    output = importlib.import_module("graphsearch.cli.output")
    monkeypatch.setattr(output, "close_quietly", lambda code: Dropped() and code)
    outcome = cli("--version")
    assert outcome.code == 0, "the work is done"
    assert "internal error: InjectedError: while it is dropped" in outcome.err
    assert "Traceback" not in outcome.err
    assert "__del__" in next(reports.iterdir()).read_text()


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """SIGINT as it is in a terminal; a shell's `&` starts processes that ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_that_python_drops_comes_again(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dropped:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def wait(code: int) -> int:
        del [Dropped()][0]
        time.sleep(20)
        return code

    monkeypatch.setattr(importlib.import_module("graphsearch.cli.output"), "close_quietly", wait)
    assert cli("--version").code == 130


def test_what_a_library_logs_is_one_line(cli: Cli, reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("somebody.else")

    def read(*args: object, **options: object) -> None:
        cache.say_once(cache.COMPILING)
        log.warning("two\nlines")
        try:
            raise InjectedError("logged")
        except InjectedError:
            log.exception("it failed")
        raise OSError(errno.EIO, os.strerror(errno.EIO), "a.graph")

    for one in (log, logging.getLogger("graphsearch")):
        monkeypatch.setattr(one, "propagate", False)
    monkeypatch.setattr(cache, "_SAID", set())
    monkeypatch.setattr(Store, "open", read)
    outcome = cli("store", "info", "a.graph")
    assert outcome.err.startswith(f"graphsearch: {cache.COMPILING}\n")
    assert "somebody.else: two lines" in outcome.err
    assert "Traceback" not in outcome.err
    assert "it failed" in next(reports.iterdir()).read_text()


# ---------------------------------------------------------- a search
class BrokenEvaluator(UniformEvaluator):
    """Fails at the third batch."""

    kernel_kind = EXTERNAL
    calls = 0

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        self.calls += 1
        if self.calls == 3:
            raise InjectedError("in the\nevaluator")
        return super().evaluate(batch)


def test_a_search_is_saved_before_its_defect_is_told(
    cli: Cli, tmp_path: Path, reports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = loop.GraphSearch._progress

    def fail_at_the_end(session: loop.GraphSearch) -> Progress:
        if session._left()[0] <= 0:
            raise InjectedError("in the display")
        return real(session)

    monkeypatch.setattr(loop.GraphSearch, "_progress", fail_at_the_end)
    path = tmp_path / "a.graph"
    check_told(cli("analyze", "startpos", "--visits", 100, "--store", path), reports)
    with Store.open(path, read_only=True) as store:
        assert store.node_count > 50
    assert cli("store", "verify", path).code == 0


def test_an_evaluator_that_raises_fails_the_command_and_its_traceback_is_kept(reports: Path) -> None:
    with (
        Graph.open(None, evaluator=BrokenEvaluator()) as graph,
        pytest.raises(EvaluatorDefectError, match=r"in the evaluator$") as failed,
    ):
        analyze(graph, chess.Board(), Limits(visits=100), SearchParams(minibatch_size=8))
    assert "; the traceback is in " in error_line(failed.value)
    assert "in evaluate" in next(reports.iterdir()).read_text()


def test_the_traceback_of_a_worker_process_comes_with_its_failure(reports: Path) -> None:
    try:
        raise InjectedError("over there")
    except InjectedError as error:
        sent = failure_of(error)
    again = failure_of(sent.as_error())
    error_line(Failure(again.kind, again.text, again.place, again.trace).as_error(placed=True))
    text = next(reports.iterdir()).read_text()
    assert "test_the_traceback_of_a_worker_process_comes_with_its_failure" in text
    assert "InjectedError: over there" in text


def test_a_defect_of_a_worker_process_is_in_the_file_of_its_parent(
    reports: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()
    Child(fail_at_once, print, lambda: None, ended.put)
    assert ended.get(timeout=60) == "a worker process ended with exit code 0"
    error_line(InjectedError("in the parent"))
    (path,) = reports.glob("defect-*")
    text = path.read_text()
    assert "InjectedError: in a worker" in text
    assert "InjectedError: in the parent" in text
    err = capfd.readouterr().err
    assert err.startswith("graphsearch: internal error: InjectedError: in a worker.")
    assert len(err.splitlines()) == 1


def fail_at_once(*pipes: object, **options: object) -> None:
    """Is the work of a worker process, and whatever else is to fail."""
    raise InjectedError("in a worker")


def test_an_engine_goes_on_after_a_defect(reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Played() as game:
        for place in ("graphsearch.uci.engine.view_in_game", "graphsearch.uci.answer.GoAnswer.watch"):
            game.console.lines.clear()
            game.console.read = 0
            with monkeypatch.context() as broken:
                broken.setattr(place, fail_at_once)
                game.ask("go nodes 20", until="bestmove")
                until(lambda: "internal error: InjectedError" in "".join(game.console.lines))
            game.ready()
        assert not any("ERROR" in line for line in game.ask("go nodes 20", until="bestmove"))


# ---------------------------------------------------------- from outside
@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (MemoryError(), 1, "out of memory; close other programs, or give a smaller --ram"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device; free some space and"),
        (
            OSError(errno.EMFILE, "Too many open files", "a"),
            1,
            "a: Too many open files; too few are allowed;",
        ),
        (OSError(errno.EIO, "Input/output error"), 1, "Input/output error; the disk or its connection fails"),
        (sqlite3.OperationalError("database is locked"), 1, "database is locked"),
        (sqlite3.ProgrammingError("wrong"), DEFECT, "internal error: ProgrammingError: wrong. This is"),
        (RecursionError("deep"), DEFECT, "internal error: something is nested too deeply"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_from_outside_is_one_line_that_says_what_to_do(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, text: str
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(Store, "open", fail)
    outcome = cli("store", "info", "a.graph").ends(code)
    assert outcome.err.startswith(f"graphsearch: {text}" if text else "")
    assert len(outcome.faults) == bool(text)


def test_without_a_place_for_a_file_the_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GRAPHSEARCH_STATE_DIR", str(tmp_path / "file" / "below"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file" / "too"))
    assert "could not be written ([Errno 20]" in error_line(InjectedError("x"))


def test_the_file_does_not_grow_for_ever(reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.base.faults.MOST_BYTES", 2000)
    for _ in range(20):
        error_line(InjectedError("again"))
    (path,) = reports.glob("defect-*")
    assert path.stat().st_size < 4000


# ------------------------------------------------------------------ signals
StopSignals = importlib.import_module("graphsearch.cli.progress").StopSignals


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def test_before_the_search_a_signal_ends_the_program_and_then_the_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        with pytest.raises(SystemExit) as ended:
            send(signal.SIGTERM)
        assert ended.value.code == 143
        assert not signals.stop.is_set()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_only_the_third_signal_breaks_off_the_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    cleared: list[bool] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    with StopSignals() as signals:
        signals.arm()
        signals.before_message = lambda: cleared.append(signals.stop.is_set())
        send(signal.SIGINT)
        send(signal.SIGINT)
        assert (codes, cleared) == ([], [True])  # of the screen, before the first message
        send(signal.SIGINT)
        assert codes == [130]


@contextmanager
def no_hang() -> Iterator[None]:
    """Fails instead of waiting for ever: an alarm gets through to a thread that waits for a lock."""

    def fail(number: int, frame: object) -> None:
        pytest.fail("it waits for ever")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    try:
        yield
    finally:
        sys.settrace(None)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def signalled_at_line(k: int, work: Callable[[], object]) -> bool:
    """Does some work, SIGINT sent at the k-th line that it runs; returns whether there was such a line."""
    lines = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        if event == "line" and lines == k:
            sys.settrace(None)
            send(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return lines >= k


@pytest.mark.parametrize("waits", [False, True], ids=["in the first one's handler", "in a wait for it"])
def test_a_signal_at_any_line_is_heard_and_nobody_waits_for_ever(waits: bool) -> None:
    k, was_sent = 0, True
    while was_sent:
        k += 1
        with no_hang(), StopSignals() as signals:
            signals.arm()
            work = partial(signals.stop.wait, 0.01) if waits else partial(send, signal.SIGINT)
            was_sent = signalled_at_line(k, work)
            assert signals.stop.wait(0) == (was_sent or not waits)
    assert k > 5


def test_a_program_that_ray_ends_by_sigterm_has_the_exit_code_of_all_others() -> None:
    for code, shown in ((int(signal.SIGTERM), 143), (1, 1), (2, 2)):
        with pytest.raises(SystemExit) as ended, StopSignals():
            sys.exit(code)
        assert ended.value.code == shown
