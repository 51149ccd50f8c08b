"""What several test modules share: the command line in-process and as a process, and shared data."""

from __future__ import annotations

import gc
import importlib
import json
import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial, partialmethod
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests.support.plain import ROOT as ROOT

SHARED = ROOT.parent / "shared"
LONGEST_PROCESS_S = 240
T = TypeVar("T")


def pytest_configure(config: pytest.Config) -> None:
    """Pins what would make runs differ: one kernel cache for all tests, compiled once, and plain output.

    No example of Hypothesis fails for the time that it takes: a kernel may be compiled, the machine be busy.
    """
    slow = [HealthCheck.too_slow]
    examples = 500 if os.environ.get("GRAPHSEARCH_FULL") else 20
    settings.register_profile("any-machine", deadline=None, max_examples=examples, suppress_health_check=slow)
    settings.load_profile("any-machine")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    os.environ.setdefault("GRAPHSEARCH_CACHE_DIR", cache)
    if "GRAPHSEARCH_STATE_DIR" not in os.environ:  # for reports of defects, and evaluators that were named
        state = os.environ["GRAPHSEARCH_STATE_DIR"] = tempfile.mkdtemp(prefix="graphsearch-state-")
        config.add_cleanup(partial(shutil.rmtree, state, ignore_errors=True))
    if os.linesep != "\n":  # files of tests have the same bytes on every system
        setattr(Path, "write_text", partialmethod(Path.write_text, newline="\n"))  # noqa: B010
    gc.set_threshold(20_000, 20, 50)  # modules of thousands of tests are looked through less often
    os.environ["RAY_ADDRESS"] = "local"  # no test joins a Ray cluster that happens to run here
    for name in ("FORCE_COLOR", "COLUMNS", "CLICOLOR_FORCE", "TTY_COMPATIBLE"):
        os.environ.pop(name, None)
    if not config.getoption("numprocesses", None):
        _start_processes_with_default_signals()
    elif not config.getoption("collectonly"):
        compile_all()  # here are no tests: this process deals them out to the workers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips on Windows what does not run there."""
    for item in items if os.name == "nt" else []:
        name = item.nodeid.partition("[")[0]
        if name in NOT_THERE:
            item.add_marker(pytest.mark.skip(reason=f"Windows: {NOT_THERE[name]}"))


def _start_processes_with_default_signals() -> None:
    """Keeps ignoring what `nohup` and a shell's `&` ignore, but lets no process of a test inherit that."""
    for number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command line left: its exit code, stdout and stderr, which are no terminal here."""

    code: int
    out: str
    err: str

    def __post_init__(self) -> None:
        assert "\x1b" not in self.out + self.err, "escape codes are for terminals"

    def ends(self, code: int, *words: str) -> Self:
        """Returns itself, after a check of the exit code and of words on stderr."""
        assert self.code == code, self
        for word in words:
            assert word in self.err, self
        return self

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        data = json.loads(self.out)
        assert isinstance(data, dict)
        return data

    @property
    def faults(self) -> list[str]:
        """The lines on stderr, but for the one that says where help is."""
        return [line for line in self.err.splitlines() if not line.startswith("Try '")]


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command line in this process: `cli("show", "startpos", "--store", path)`.

    However long it takes on a busy machine, it prints no progress.
    """
    monkeypatch.setattr("graphsearch.cli.progress.FIRST_LINE_S", math.inf)
    main = importlib.import_module("graphsearch.cli").main  # cli/, which type checkers do not find there

    def run(*args: object) -> Outcome:
        capfd.readouterr()
        code = main([str(arg) for arg in args])
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


def sql(path: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Returns the rows of a statement, executed on a file by SQLite alone."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement, values).fetchall()


MAIN = "import sys; from graphsearch.cli import main; sys.exit(main())"


def present(value: T | None) -> T:
    """Returns a value that a test needs; fails if there is none."""
    assert value is not None
    return value


def start(*args: object, before: str = "", **options: Any) -> subprocess.Popen[str]:
    """Returns the started process `python -m graphsearch ...`, its output in pipes.

    Args:
      before: Python that it runs first, for instance to make slow what the test interrupts.
    """
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    program = ["-c", f"{before}\n{MAIN}"] if before else ["-m", "graphsearch"]
    process = subprocess.Popen([sys.executable, *program, *map(str, args)], **(pipes | options))
    _started.append(process)
    return process


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    """Ends what a failed test has started and not finished: it would disturb the tests after it."""
    yield
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):  # what was not sent
                    stream.close()


def finish(process: subprocess.Popen[str]) -> Outcome:
    """Returns what a process leaves once it ends; kills one that does not end."""
    try:
        out, err = process.communicate(timeout=LONGEST_PROCESS_S)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return Outcome(process.returncode, out or "", err or "")


def shared_data(name: str) -> Path:
    """Returns a file beside the checkout; skips the test where there is none."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs {name}, which is not part of the repository")
    return path


@pytest.fixture(scope="session")
def _filled_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import chess

    from graphsearch import Graph, Limits, SearchParams, analyze

    path = tmp_path_factory.mktemp("graph") / "small.graph"
    with Graph.open(path) as graph:
        analyze(graph, chess.Board(), Limits(visits=300), SearchParams(minibatch_size=1))
    return path


@pytest.fixture
def small_graph(_filled_graph: Path, tmp_path: Path) -> Path:
    """A copy of a graph file with 300 visits of the start position, by the built-in evaluator."""
    return Path(shutil.copy(_filled_graph, tmp_path / "small.graph"))


@pytest.fixture(autouse=True)
def few_top_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps eight positions in `top_position` for tests that do not read it: to render 100 takes long."""
    if {"evaluators", "graph", "search", "solvers"} & set(request.path.parts):
        monkeypatch.setattr("graphsearch.graph.saving.TOP_NODES", 8)


@pytest.fixture
def nothing_saved_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets no interval between two saves of a search end, however slow the machine is."""
    session = importlib.import_module("graphsearch.search.loop")
    monkeypatch.setattr(session, "FLUSH_SECONDS", math.inf)


# ------------------------------------------------------------------ Chromium without a window
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--force-prefers-reduced-motion",
    "--disable-site-isolation-trials",  # one process draws the pages of all servers
    "--renderer-process-limit=1",
    "--process-per-site",
    "--window-size=1400,1000",
    "--app=data:,",  # a window without a toolbar, which would be a page of its own, drawn at each step
)


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    """A browser, one for all pages; tests without it skip themselves."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    program = shutil.which("chromedriver")
    if not browser or not program:
        pytest.skip("needs Chromium and its driver, such as Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(program))
    yield found
    found.quit()


# ------------------------------------------------------------------ compiling first
PURPOSE = "tests"


def compile_all() -> None:
    """Compiles both parts at once, unless an earlier test run did."""
    from graphsearch.jit.compiler import is_compiled, mark_compiled

    if is_compiled(PURPOSE):
        return
    sys.stderr.write("compiling the kernels, once: about a minute\n")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        parts = [_start("waves", first), _start("rest", second)]
        codes = [part.wait() for part in parts]
    if not any(codes):
        mark_compiled(PURPOSE)


def _start(part: str, folder: str) -> subprocess.Popen[bytes]:
    """Starts one process that compiles a part, in a folder for its files."""
    return subprocess.Popen(
        [sys.executable, "-m", "graphsearch.cli.compile_kernels", part],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


# ------------------------------------------------------------------ what does not run on Windows
FULL_DISK = "the limit of a file's size is POSIX's"
NO_LINKS = "only administrators may make links"
NO_SIGNALS = "one process cannot send another a signal"

NOT_THERE = {
    "tests/graph/test_faults.py::test_a_full_disk_ends_a_search_with_a_clear_line_and_it_goes_on_with_room": (
        FULL_DISK
    ),
    "tests/query/test_values.py::test_a_year_of_runs_stays_small_with_its_changes": (
        "Python's SQLite for Windows has no table dbstat"
    ),
    "tests/query/test_questions.py::test_it_reads_beside_a_search_and_from_a_read_only_folder": (
        "a reader of a read-only file leaves an empty log beside it"
    ),
    "tests/store/test_maintenance.py::test_a_copy_needs_another_name_and_a_folder": NO_LINKS,
    "tests/store/test_opening.py::test_a_link_leads_to_the_same_lock": NO_LINKS,
    "tests/uci/test_answers.py::test_a_signal_saves_what_was_searched": NO_SIGNALS,
    "tests/uci/test_answers.py::test_an_option_out_of_range_is_refused_in_a_line": "no pipes with names",
}
