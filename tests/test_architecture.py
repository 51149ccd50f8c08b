"""The rooms: who may import whom, print, and open files; what loads what; docstrings and limits are true."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pydoc import locate
from typing import Any

import pytest

from graphsearch.base.limits import LIMITS, Limit
from graphsearch.base.version import __version__
from graphsearch.jit.cache import kernel_sources
from tests.conftest import NOT_THERE, ROOT, Cli

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
    found = [f"{relative(path)}, {found}" for path in quiet for found in endings(path)]
    aside = r".*/factory\.py, .*sys\.std(out|err)$"  # what an evaluator of the user's prints goes to stderr
    assert [one for one in found if not re.match(aside, one)] == []


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


def test_what_is_skipped_on_windows_is_there() -> None:
    for file, _, name in (place.partition("::") for places in NOT_THERE.values() for place in places):
        assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), file


def loaded_by(code: str, *args: str) -> set[str]:
    """Returns the modules that a fresh interpreter has loaded after running some code."""
    script = f"import sys\n{code}\nprint('LOADED', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


MAIN = "from graphsearch.cli import main\nassert main(sys.argv[1:]) == 0"

READERS = {  # commands, with the modules of `SOME` that they need
    "show": {"query.position", "store.tables.studies"},
    "lines": {"query.line"},
    "tree": {"query.tree"},
    "find": {"query.diff"},
    "history": {"query.history"},
    "diff": {"book", "exchange", "query.diff"},
    "store info": {"search.params", "store.info"},
}
SOME = {"query.sql"}.union(*READERS.values())
UNREAD = {"evaluators", "solvers", "uci", "web", "workers"}  # rooms
LIBRARIES = {"platformdirs", "chess", "click", "numpy", "typer", "zstandard"}
THEIRS = {"annotated_doc", "llvmlite", "shellingham", "typing_extensions"}
THEIRS |= {"graphsearch", "pygments", "markdown_it", "mdurl", "sitecustomize"}  # the last one is Debian's


@pytest.mark.parametrize("command", READERS)
def test_a_command_that_reads_loads_only_what_it_needs(command: str, small_graph: Path, cli: Cli) -> None:
    words = [*command.split(), *[str(small_graph)] * (2 if command == "diff" else 1)]
    cli(*words)  # compiles what is not compiled yet
    loaded = loaded_by(f"{MAIN} == main([*sys.argv[1:], '--json'])", *words)  # for its table and for JSON
    assert not loaded & {f"graphsearch.{name}" for name in UNREAD | SOME - READERS[command]}
    others = {name for name in loaded - sys.stdlib_module_names - THEIRS if re.match(r"[^_.][^.]*$", name)}
    assert others - LIBRARIES == {"LOADED"}


def test_help_loads_neither_the_compiler_nor_the_chess_and_table_libraries() -> None:
    loaded = loaded_by(MAIN, "--help")
    assert not loaded & {"numba", "numpy", "chess", "rich", "pydantic", "sqlite3", "zstandard"}


def test_a_search_with_compiled_kernels_loads_no_compiler_nor_sqlite_utils(tmp_path: Path, cli: Cli) -> None:
    search = ["analyze", "startpos", "--visits", "1", "--store", str(tmp_path / "first.graph")]
    cli(*search).ends(0)  # which compiles what the cache lacks
    assert not loaded_by(MAIN, *search) & {"numba", "sqlite_utils", "pandas"}


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
    assert {name: lines for name, lines in found.items() if lines and name not in MAY_OPEN} == {}
    assert [name for name in MAY_OPEN if not found.get(name)] == []


# ------------------------------------------------------------------ what is installed
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
FOLDERS = {"graphsearch": "graphsearch", "cli": "graphsearch.cli", "schema": "graphsearch.schema"}


def package_of(folder: Path) -> str:
    """Returns the package name that a folder of the tree has once installed."""
    top = next(top for top in FOLDERS if folder.is_relative_to(ROOT / top))
    return ".".join([FOLDERS[top], *folder.relative_to(ROOT / top).parts])


def files_of(pattern: str) -> list[Path]:
    found = [path for top in FOLDERS for path in (ROOT / top).rglob(pattern)]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def test_every_package_is_listed_every_listed_package_exists_and_every_module_lies_in_one() -> None:
    packages = set(SETUPTOOLS["packages"])
    assert {package_of(path.parent) for path in files_of("__init__.py")} == packages
    assert {package_of(path.parent) for path in files_of("*.py")} <= packages


def test_every_data_file_is_packaged() -> None:
    assert SETUPTOOLS["package-dir"] == {name: folder for folder, name in FOLDERS.items()}
    folders = {package: ROOT / folder for folder, package in FOLDERS.items()}
    packaged = set()
    for package, patterns in SETUPTOOLS["package-data"].items():
        top = max((name for name in folders if f"{package}.".startswith(f"{name}.")), key=len)
        folder = folders[top].joinpath(*package.removeprefix(top).split("."))
        packaged |= {path for pattern in patterns for path in folder.glob(pattern)}
    data = {path for path in files_of("*") if path.suffix not in {".py", ".pyc"}}
    assert data <= packaged, f"{sorted(data - packaged)} are in no package-data pattern"


def test_the_version_stands_in_one_place() -> None:
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert SETUPTOOLS["dynamic"]["version"] == {"attr": "graphsearch.base.version.__version__"}
    assert __version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# ------------------------------------------------------------------ wheels with machine code
@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The build backend; it needs a newer setuptools than some environments have."""
    pytest.importorskip("setuptools.command.bdist_wheel")
    from tools.wheel import kernel_wheel

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.build_meta.get_requires_for_build_wheel", lambda _: ["other"])
    return kernel_wheel


def test_a_wheel_asks_for_the_compiler_only_if_it_brings_kernels(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(backend.VARIABLE, "")
    assert backend.get_requires_for_build_wheel() == ["other"]
    monkeypatch.setenv(backend.VARIABLE, "x86-64-v3")
    assert backend.get_requires_for_build_wheel() == ["other", *PYPROJECT["project"]["dependencies"]]


def test_a_source_distribution_brings_kernels_and_a_checkout_leaves_them_to_the_first_search(
    backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(backend.VARIABLE, raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.chdir(tmp_path)
    assert backend.wanted_levels() == []
    (tmp_path / "PKG-INFO").touch()
    assert backend.wanted_levels() == ["x86-64-v3", "x86-64-v2"]
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert backend.wanted_levels() == ["generic"]


def test_a_wheel_is_for_every_linux_with_such_a_processor_or_for_windows(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = {"linux-aarch64": "manylinux_2_17_aarch64", "macosx-14.0-arm64": "macosx_14_0_arm64"}
    for platform, tag in (tags | {"win-amd64": "win_amd64"}).items():
        monkeypatch.setattr("sysconfig.get_platform", lambda platform=platform: platform)
        assert backend.wanted_platform() == tag
    monkeypatch.setenv(backend.PLATFORM, "win_amd64")
    assert backend.wanted_platform() == "win_amd64"


def test_kernels_that_cannot_be_compiled_are_left_out_with_one_line(backend: Any, tmp_path: Path) -> None:
    package = tmp_path / "graphsearch" / "cli"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "compile_kernels.py").write_text("raise SystemExit('no\\ncompiler here')")
    assert backend.compile_kernels(tmp_path, ["x86-64-v2"]) == "compiler here"


def test_a_wheel_has_no_modules_of_an_earlier_build(
    backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = backend.BuildModules(importlib.import_module("setuptools").Distribution())
    command.build_lib = str(tmp_path)
    (tmp_path / "graphsearch").mkdir()
    monkeypatch.setattr(backend.build_py, "run", lambda _: None)
    monkeypatch.setenv(backend.VARIABLE, "")
    command.run()
    assert not (tmp_path / "graphsearch").exists()


def test_the_build_backend_is_in_the_archive_of_sources() -> None:
    folder, module = PYPROJECT["build-system"]["backend-path"], PYPROJECT["build-system"]["build-backend"]
    name = f"{folder[0]}/{module}.py"
    assert (ROOT / name).is_file()
    assert f"include {name}" in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
