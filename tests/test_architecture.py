"""The rooms: who may import whom, where the compiler may be, who may print, and what loads what."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from graphsearch.jit.cache import kernel_sources

from .conftest import ROOT, Cli

PACKAGE = ROOT / "graphsearch"
MODULES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "cli").rglob("*.py")])
PACKAGES = sorted(path for path in MODULES if path.name == "__init__.py" and path.parent != PACKAGE)


FLOOR_EDGE = re.compile(r"[┌├└]")


@cache
def floors() -> dict[str, int]:
    """Returns the floor of each room on the map of docs/contributing/architecture.md, 0 at the top."""
    text = (ROOT / "docs" / "contributing" / "architecture.md").read_text(encoding="utf-8")
    picture = re.search(r"```text\n(┌.*?)```", text, re.DOTALL)
    assert picture, "docs/contributing/architecture.md has no map"
    found: dict[str, int] = {}
    for floor, rows in enumerate(FLOOR_EDGE.split(picture[1])[1:]):
        for cell in re.findall(r"│([^│\n]+)", rows):
            names = re.match(r" *((?:\w+, )*\w+)", cell)
            assert names, f"a room without a name on the map: {cell}"
            found |= dict.fromkeys(names[1].split(", "), floor)
    return found


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "cli" if parts[0] == "cli" else parts[1]


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Returns all nodes of a module; walking a tree takes longer than reading it."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def dotted(path: Path) -> tuple[str, ...]:
    """Returns the dotted parts of a module as it is imported, `__init__` left out."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = ("graphsearch", *parts) if parts[0] == "cli" else parts
    return parts[:-1] if parts[-1] == "__init__" else parts


FILES = {dotted(path): path for path in MODULES}


def file_of(parts: tuple[str, ...]) -> Path | None:
    """Returns the module of the project that a dotted name is, or is a name in; None for libraries."""
    begins = (parts[:length] for length in range(len(parts), 0, -1))
    return next((FILES[begin] for begin in begins if begin in FILES), None)


@cache
def imported_names(path: Path) -> tuple[tuple[str, ...], ...]:
    """Returns what a module imports anywhere, for type checkers too, as dotted parts."""
    package = dotted(path) if path.name == "__init__.py" else dotted(path)[:-1]
    found: list[tuple[str, ...]] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [tuple(alias.name.split(".")) for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module.split(".") if node.module else ()))
            found += [(*module, alias.name) for alias in node.names]
    return tuple(found)


@cache
def imported_files(path: Path) -> frozenset[Path]:
    return frozenset(
        file for parts in imported_names(path) if (file := file_of(parts)) is not None and file != path
    )


def test_a_room_imports_only_rooms_on_lower_floors_of_the_map() -> None:
    floor = {"__main__": -1, "__init__": 0.5} | floors()  # the names of the public API are below cli alone
    wrong = [
        f"{relative(path)} imports {relative(file)}"
        for path in MODULES
        for file in imported_files(path)
        if room_of(file) != room_of(path) and floor[room_of(file)] <= floor[room_of(path)]
    ]
    assert wrong == []


def test_imports_form_no_circle() -> None:
    done: set[Path] = set()

    def visit(path: Path, trail: tuple[Path, ...]) -> None:
        assert path not in trail, " -> ".join(relative(step) for step in (*trail, path))
        if path not in done:
            for file in sorted(imported_files(path)):
                visit(file, (*trail, path))
            done.add(path)

    for path in MODULES:
        if path.name != "__init__.py" or path.parent != PACKAGE:
            visit(path, ())


def test_the_compiler_is_known_to_jit_only_and_the_terminal_to_cli() -> None:
    owners = {"numba": "jit", "llvmlite": "jit", "typer": "cli", "click": "cli", "rich": "cli"}
    wrong = [
        f"{relative(path)} imports {parts[0]}"
        for path in MODULES
        for parts in imported_names(path)
        if owners.get(parts[0], room_of(path)) != room_of(path)
    ]
    assert wrong == []


ANYS = 660  # most uses of `Any` in the package and the command line


def test_kernels_have_types_and_the_rest_leaves_few_open() -> None:
    counts = {path: len(re.findall(r"\bAny\b", path.read_text(encoding="utf-8"))) for path in MODULES}
    assert [relative(path) for path in MODULES if path.name.endswith("_kernel.py") and counts[path]] == []
    assert sum(counts.values()) <= ANYS


def test_the_kernel_caches_digest_covers_every_module_that_kernels_take_constants_from() -> None:
    kernels = {path for path in MODULES if path.name.endswith("_kernel.py")}
    plain = {file for path in kernels for file in imported_files(path)} - set(PACKAGES)
    room = {path for path in MODULES if room_of(path) == "jit"}
    assert sorted(kernels | plain | room) == list(map(Path, kernel_sources()))


ENDINGS = {"print", "input", "exit", "quit", "breakpoint"}
STREAMS = {("sys", "exit"), ("sys", "stdout"), ("sys", "stderr"), ("sys", "stdin"), ("os", "_exit")}


def endings(path: Path) -> Iterator[str]:
    """Yields where a module prints, asks or ends the process."""
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ENDINGS:
            yield f"line {node.lineno}: {node.func.id}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.value.id, node.attr
            yield from [f"line {node.lineno}: {'.'.join(name)}"] if name in STREAMS else []
        if isinstance(node, ast.Name) and node.id == "SystemExit":
            yield f"line {node.lineno}: SystemExit"


def test_only_the_cli_prints_exits_or_asks() -> None:
    quiet = [path for path in MODULES if room_of(path) not in {"cli", "__main__"}]
    assert [f"{relative(path)}, {found}" for path in quiet for found in endings(path)] == []


SYSTEM = PACKAGE / "base" / "system.py"
SYSTEM_MODULES = {"resource", "select", "fcntl", "msvcrt", "winreg", "psutil", "filelock", "platformdirs"}
SYSTEM_PARTS = {"os", "signal", "mmap", "socket", "select", "time"}  # of Python, which differ
LIBRARY_C = ("ctypes.CDLL", "None")
SYSTEM_NAMES = {
    *("sys.platform", "os.name", "os.uname", "os.sysconf", "os.nice", "os.fork", "os.killpg", "os.geteuid"),
    *("os.set_blocking", "os.preadv", "os.pwrite", "os.pread", "os.sched_getaffinity", "os.cpu_count"),
    *("os.register_at_fork", "platform.system", "signal.pthread_sigmask", "signal.SIGKILL", "signal.SIGHUP"),
    *("time.clock_gettime", "time.pthread_getcpuclockid"),
}


def questions_to_the_system(path: Path) -> Iterator[str]:
    """Yields where a module asks which operating system it runs on, or calls what not every one has."""
    for node in nodes_of(path):
        line = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Attribute) and ast.unparse(node) in SYSTEM_NAMES:
            yield f"{line}: {ast.unparse(node)}"
        if isinstance(node, ast.Call):
            called, given = ast.unparse(node.func), ast.unparse(node.args[0]) if node.args else ""
            if (called in {"hasattr", "getattr"} and given in SYSTEM_PARTS) or (called, given) == LIBRARY_C:
                yield f"{line}: {ast.unparse(node)}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/proc"):
            yield f"{line}: /proc"
    yield from (f"import {name[0]}" for name in imported_names(path) if name[0] in SYSTEM_MODULES)


def test_one_module_asks_which_operating_system_it_runs_on() -> None:
    others = [path for path in MODULES if path != SYSTEM]
    assert [f"{relative(path)}, {found}" for path in others for found in questions_to_the_system(path)] == []
    assert any(questions_to_the_system(SYSTEM))


def loaded_by(code: str, *args: str) -> set[str]:
    """Returns the modules that a fresh interpreter has loaded after running some code."""
    script = f"import sys\n{code}\nprint('LOADED', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


MAIN = "from graphsearch.cli import main\nassert main(sys.argv[1:]) == 0"


READERS = {"show": "rich", "lines": "rich", "find": "", "store info": "rich"}  # with what draws its tables
UNREAD = {"book", "evaluators", "exchange", "solvers", "uci", "web", "workers"}  # rooms
LIBRARIES = {"platformdirs", "chess", "click", "numpy", "rich", "typer", "zstandard"}
THEIRS = {"annotated_doc", "llvmlite", "shellingham", "typing_extensions"}
THEIRS |= {"graphsearch", "pygments", "markdown_it", "mdurl"}


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_command_that_reads_loads_only_what_reading_needs(
    command: str, form: str, small_graph: Path, cli: Cli
) -> None:
    tail = ["--json"] if form == "json" else []
    words = [*command.split(), str(small_graph), *tail]
    cli(*words)  # compiles what is not compiled yet
    loaded = loaded_by(MAIN, *words)
    assert not loaded & {f"graphsearch.{room}" for room in UNREAD}
    others = {name for name in loaded - sys.stdlib_module_names - THEIRS if re.match(r"[^_.][^.]*$", name)}
    assert others - LIBRARIES == {"LOADED"}
    assert ("rich" in others) == (form == "table" and READERS[command] == "rich")


def test_help_loads_neither_the_compiler_nor_the_chess_and_table_libraries() -> None:
    loaded = loaded_by(MAIN, "--help")
    assert not loaded & {"numba", "numpy", "chess", "rich", "pydantic", "sqlite3", "zstandard"}


def test_a_search_with_compiled_kernels_and_commands_that_read_load_neither_compiler_nor_sqlite_utils(
    tmp_path: Path, cli: Cli
) -> None:
    path = str(tmp_path / "first.graph")
    search = ["analyze", "startpos", "--visits", "1", "--store", path]
    cli(*search).ends(0)  # which compiles what the cache lacks
    run = "from graphsearch.cli import main\nsearch, path = sys.argv[1:-1], sys.argv[-1]\n"
    run += "assert main(search) == main(['show', 'startpos', '--store', path]) == 0\n"
    run += "assert main(['store', 'info', path]) == 0"
    loaded = loaded_by(run, *search, path)
    assert not loaded & {"numba", "sqlite_utils", "pandas"}


def test_an_engine_with_a_file_does_not_load_sqlite_utils(tmp_path: Path) -> None:
    run = "import threading\nmoved = threading.Event()\n"
    run += "from graphsearch.uci.engine import Engine\nfrom graphsearch.uci.protocol import Writer\n"
    run += "writer = Writer(lambda text: 'bestmove' in text and moved.set())\n"
    run += "engine = Engine(writer, {'GraphFile': sys.argv[1]})\n"
    run += "engine.handle('go nodes 50')\nassert moved.wait(300)\nengine.close()"
    loaded = loaded_by(run, str(tmp_path / "played.graph"))
    assert (tmp_path / "played.graph").exists()
    assert not loaded & {"sqlite_utils", "pandas"}
