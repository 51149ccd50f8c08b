"""The house: who may import whom, who may print, and when the compiler is loaded."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import ROOT

# floor by floor; on a floor, what stands further left does not know what stands further right
FLOORS = (
    ("version", "errors", "values"),
    ("params", "position", "provenance", "proofs", "kernels"),
    ("pgn_text", "pgn", "notation", "record", "arena", "entries", "fens"),
    ("store", "evaluators"),
    ("query", "claims", "results", "summary", "paging", "saving", "evaluating", "kept_entries"),
    ("graph", "refresh", "favourites"),
    ("reevaluate", "opinions", "disagree", "queries"),
    ("waves",),
    ("search",),
    ("alphabeta", "mate"),
    ("nodetypes",),
    ("exchange",),
    ("book",),
    ("bench", "bench_offload", "bench_batches", "warm"),
    ("uci",),
    ("",),  # graphsearch/__init__.py: the names of the public API, resolved when asked for
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, name in enumerate(name for floor in FLOORS for name in floor)}
MODULES = sorted([*(ROOT / "graphsearch").rglob("*.py"), *(ROOT / "cli").rglob("*.py")])


def parts_of(path: Path) -> tuple[str, ...]:
    """Returns the dotted parts of a module below the package: `store/codec.py` -> `("store", "codec")`."""
    relative = path.relative_to(ROOT).with_suffix("")
    parts = relative.parts if relative.parts[0] == "cli" else relative.parts[1:]
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports_of(path: Path) -> Iterator[tuple[str, ...]]:
    """Yields what a module imports when it runs, as dotted parts; `("graphsearch", ...)` for its own.

    Imports for type checkers are left out: a type may be named from below, the code not called.
    """
    own = ("graphsearch", *parts_of(path))
    package = own if path.name == "__init__.py" else own[:-1]
    for node in running(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            found = (*base, *(node.module.split(".") if node.module else ()))
            yield from ((*found, alias.name) for alias in node.names)


def running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields every node of a syntax tree but the bodies of `if TYPE_CHECKING:`."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from running(child)


def house_of(parts: tuple[str, ...]) -> str:
    """Returns the module of the house that dotted parts lie in."""
    return parts[1] if len(parts) > 1 and parts[1] in RANK else ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_floors_below_it(path: Path) -> None:
    own = house_of(("graphsearch", *parts_of(path)))
    assert own or not parts_of(path), f"{path} stands on no floor: add it to FLOORS"
    for parts in imports_of(path):
        if parts[0] == "graphsearch":
            other = house_of(parts)
            assert other == own or RANK[other] < RANK[own], (
                f"{own or 'graphsearch'} imports {'.'.join(parts)}"
            )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_kernels_know_the_compiler_and_only_the_cli_its_libraries(path: Path) -> None:
    own = house_of(("graphsearch", *parts_of(path)))
    roots = {parts[0] for parts in imports_of(path)}
    if own != "kernels":
        assert not roots & {"numba", "llvmlite"}
    if own != "cli":
        assert not roots & {"typer", "click", "rich"}


ENDINGS = {"print", "input", "exit", "quit", "breakpoint"}
STREAMS = {("sys", "exit"), ("sys", "stdout"), ("sys", "stderr"), ("sys", "stdin"), ("os", "_exit")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_cli_prints_exits_or_asks(path: Path) -> None:
    if house_of(("graphsearch", *parts_of(path))) in {"cli", "__main__"}:
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ENDINGS, f"line {node.lineno}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in STREAMS, f"line {node.lineno}"
        assert not (isinstance(node, ast.Name) and node.id == "SystemExit"), f"line {node.lineno}"


def loaded_by(code: str, *args: str) -> set[str]:
    """Returns the top-level modules that a fresh interpreter has loaded after running some code."""
    script = f"import sys\n{code}\nprint('LOADED', *sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "module", ["graphsearch", "graphsearch.query", "graphsearch.store", "graphsearch.notation"]
)
def test_reading_modules_do_not_load_the_compiler(module: str) -> None:
    assert "numba" not in loaded_by(f"import {module}")


def test_help_loads_neither_the_compiler_nor_the_chess_and_table_libraries() -> None:
    loaded = loaded_by("from graphsearch.cli import main\nassert main(sys.argv[1:]) == 0", "--help")
    assert not loaded & {"numba", "numpy", "chess", "rich", "sqlite3", "zstandard"}


@pytest.mark.parametrize("command", [("show", "startpos", "--store"), ("store", "info")])
def test_commands_that_read_a_file_do_not_load_the_compiler(
    command: tuple[str, ...], small_graph: Path
) -> None:
    run = "from graphsearch.cli import main\nassert main(sys.argv[1:]) == 0"
    assert "numba" not in loaded_by(run, *command, str(small_graph))
