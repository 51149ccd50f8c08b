"""The rooms: who may import whom, print, and open files; what loads what; docstrings and limits are true."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pydoc import locate

import pytest

from graphsearch.base.limits import LIMITS, Limit
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


# ------------------------------------------------------------------ names in docstrings
REFERENCE = re.compile(r"`([A-Za-z_]\w*(?:[./][A-Za-z_]\w*)+)(?:\(.*?\))?`")
KNOWN_LIBRARIES = frozenset(sys.stdlib_module_names) | {"chess", "numba", "numpy"}
USERS_FILES = ("js", "json", "lock", "parquet", "part", "proto", "toml")  # not files of the project
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def names() -> frozenset[str]:
    """Returns all names of the project: folders, modules, and what these define, assign or import."""
    found = {part for path in MODULES for part in path.relative_to(ROOT).with_suffix("").parts}
    for node in (node for path in MODULES for node in nodes_of(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
    return frozenset(found)


def resolves(path: Path, reference: str) -> bool:
    """Returns whether a reference in a docstring of a module names what exists."""
    if reference.rpartition(".")[2] in USERS_FILES or reference.isupper():  # such as TABLE.COLUMN
        return True
    if reference.endswith((".py", ".md", ".txt")):
        return any((folder / reference).exists() for folder in path.parents if folder.is_relative_to(ROOT))
    parts = re.split("[./]", reference)
    if parts[0] in KNOWN_LIBRARIES and locate(reference) is not None:
        return True
    return set(parts) <= names() or ROOT.joinpath(*parts).is_dir()  # such as tools.training


def test_every_reference_of_a_docstring_resolves() -> None:
    lost = [
        f"{relative(path)}, line {getattr(node, 'lineno', 1)}: `{name}`"
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, DOCUMENTED)
        for name in REFERENCE.findall(ast.get_docstring(node) or "")
        if not resolves(path, name)
    ]
    assert lost == []
    for reference in ("graph/bounds_kernel.py", "Store.fly", "functools.nothing"):
        assert not resolves(PACKAGE / "query" / "position.py", reference)


# ------------------------------------------------------------------ examples
WITH_EXAMPLES = [path for path in MODULES if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=relative)
def test_the_examples_of_a_module_are_true(path: Path) -> None:
    result = doctest.testmod(importlib.import_module(".".join(dotted(path))), raise_on_error=False)
    assert result.attempted > 0
    assert result.failed == 0


# ------------------------------------------------------------------ what comes in from outside
def row(limit: Limit) -> str:
    variable = f"`{limit.variable}`" if limit.variable else ""
    return f"| {limit.what} | {limit.shown()} | {variable} |".replace("  ", " ")


def test_the_page_of_limits_is_what_the_program_holds() -> None:
    row_but_why = r"^(\| (?!the most for|---)[^|]+\|[^|]+\|[^|]+\|) \S.* \|$"
    page = (ROOT / "docs" / "contributing" / "limits.md").read_text(encoding="utf-8")
    rows = re.findall(row_but_why, page, re.MULTILINE)
    assert rows == [row(limit) for limit in LIMITS]


# ------------------------------------------------------------------ one door
OPENS = ("open", "read_bytes", "read_text")  # of a path
LOADERS = ("load", "fromfile", "memmap", "open", "fdopen", "decompress")  # of libraries that read files
NO_PATHS = {"Store", "Graph", "cls", "self", "limits", "opener", "openers", "service", "text", "catalog"}

MAY_OPEN = {  # module -> what it opens
    "graphsearch/base/limits.py": "the door",
    "graphsearch/base/system.py": "/proc and /sys, and folders for fsync",
    "graphsearch/jit/cache.py": "the kernels' own sources, the cache of compiled kernels, and its locks",
    "graphsearch/evaluators/builtin/evaluator.py": "the weights of the package",
    "graphsearch/evaluators/nnue/evaluator.py": "the numbers of the package",
    "graphsearch/store/tables/rows.py": "the SQL of the package",
    "graphsearch/position/openings.py": "the openings of the package",
    "graphsearch/store/file.py": "the graph file itself, whose identity it watches, and the lock beside it",
    "graphsearch/store/backup.py": "what it has just written, for fsync",
    "graphsearch/exchange/output.py": "what it writes",
    "graphsearch/uci/protocol.py": "the log that it writes",
    "graphsearch/base/faults.py": "the report that it writes",
    "graphsearch/exchange/site/export.py": "the page of the package",
    "graphsearch/web/serving.py": "the page of the package",
    "cli/__init__.py": "/dev/null",
    "cli/compile_kernels.py": "/dev/null",
    "cli/output.py": "/dev/null",
    "cli/settings.py": "the evaluators that it remembers",
    "cli/serve.py": "the browser",
}


def openings(path: Path) -> Iterator[str]:
    """Yields where a module opens or unpacks something by itself."""
    for node in nodes_of(path):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            yield f"line {node.lineno}: open"
        if isinstance(node.func, ast.Attribute) and node.func.attr in (*OPENS, *LOADERS):
            owner, name = ast.unparse(node.func.value), node.func.attr
            reads = owner in {"np", "numpy", "os", "io", "gzip", "zlib", "tomllib"} and name in LOADERS
            last = owner.partition("[")[0].rpartition(".")[2].lstrip("_")
            if reads or (name in OPENS and last not in NO_PATHS):
                yield f"line {node.lineno}: {owner}.{name}"


def test_every_file_of_a_user_is_opened_by_the_one_door() -> None:
    found = {path.relative_to(ROOT).as_posix(): list(openings(path)) for path in MODULES}
    others = {name: lines for name, lines in found.items() if lines and name not in MAY_OPEN}
    assert others == {}
    assert [name for name in MAY_OPEN if not found.get(name)] == []
