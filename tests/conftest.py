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
    """Skips on Windows what does not run there; lets one worker run all tests of Ray's two nodes, first."""
    items.sort(key=lambda item: "nodes" not in getattr(item, "fixturenames", ()))
    reasons = {f"tests/{name}": reason for reason, names in NOT_THERE.items() for name in names}
    for item in items if os.name == "nt" else []:
        if reason := reasons.get(item.nodeid.partition("[")[0]):
            item.add_marker(pytest.mark.skip(reason=f"Windows: {reason}"))


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


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets workers import the tests, whose functions they run."""
    monkeypatch.syspath_prepend(ROOT)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Returns an empty folder, where evaluators of tests write what they were asked."""
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


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
NOT_THERE = {
    "needs fork": (
        "book/review/test_review.py::test_a_killed_review_leaves_a_sound_file_that_goes_on",
        "book/test_build.py::test_killed_it_goes_on",
        "book/test_build.py::test_the_queue_works_while_another_process_writes_the_file",
        "exchange/test_exports.py::test_ctrl_c_leaves_neither_a_part_nor_the_temporary_file",
        "exchange/test_exports.py::test_a_killed_export_leaves_the_tables_of_before",
        "exchange/test_imports.py::test_a_killed_import_loses_nothing_that_it_said_was_taken",
        "exchange/test_imports.py::test_ctrl_c_saves_and_says_what_was_saved",
        "graph/sweeps/test_merge.py::test_a_killed_merge_leaves_a_sound_file_and_the_same_command_finishes_it",
        "graph/test_faults.py::test_a_child_is_refused_a_graph_opened_before_the_fork_and_leaves_its_file_alone",
        "graph/test_faults.py::test_a_child_can_search_a_graph_in_memory",
        "query/test_questions.py::test_a_statement_gets_no_more_memory_than_it_may_have",
        "store/test_crash.py::test_a_full_disk_stops_the_work_with_one_line_and_a_whole_file",
        "store/test_maintenance.py::test_a_copy_beside_a_writer_is_whole",
        "store/test_store.py::test_a_forked_child_uses_neither_store_nor_reader",
        "surroundings/test_system.py::test_the_lowest_priority_is_a_low_one",
        "surroundings/test_system.py::test_memory_that_runs_out_in_a_search_leaves_what_was_found",
        "surroundings/test_system.py::test_a_full_stdout_is_one_line_after_saving",
        "surroundings/test_system.py::test_a_stopped_search_goes_on_and_saves",
    ),
    "the limit of a file's size is POSIX's": (
        "graph/test_faults.py::test_a_full_disk_ends_a_search_with_a_line_and_it_resumes_with_room",
    ),
    "Python's SQLite for Windows has no table dbstat": (
        "query/test_values.py::test_a_year_of_runs_stays_small_with_its_changes",
    ),
    "a reader of a read-only file leaves an empty log beside it": (
        "query/test_questions.py::test_it_reads_beside_a_search_and_from_a_read_only_folder",
    ),
    "no file is replaced while it is open": (
        "query/test_questions.py::test_a_file_that_stays_open_shows_commits_and_what_replaced_it",
    ),
    "only administrators may make links": (
        "store/test_maintenance.py::test_a_copy_needs_another_name_and_a_folder",
        "store/test_opening.py::test_a_link_leads_to_the_same_lock",
    ),
    "the folder /proc is Linux's": (
        "store/test_store.py::test_checkpoints_and_readers_leave_no_descriptor_open",
    ),
    "preloading a library needs Linux": (
        "store/test_crash.py::test_no_state_of_the_disk_is_unsound_or_loses_what_a_command_ended_with",
        "store/test_crash.py::test_the_model_of_a_disk_loses_tears_and_reorders_what_was_not_synced",
        "store/test_crash.py::test_a_creation_that_failed_can_be_repeated",
    ),
    "no pipes with names": ("uci/test_answers.py::test_an_option_out_of_range_is_refused_in_a_line",),
}
