"""Names in backticks that look like a module, a file or a member resolve: a docstring points nowhere else."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from .conftest import ROOT
from .test_architecture import MODULES, PACKAGE, imported_files, nodes_of, relative

REFERENCE = re.compile(r"`([A-Za-z_]\w*(?:[./][A-Za-z_]\w*)+)(?:\(.*?\))?`")
LIBRARIES = frozenset(sys.stdlib_module_names) | {"chess", "numba", "numpy"}
USERS_FILES = frozenset(
    {"js", "json", "lock", "parquet", "part", "proto", "toml"}
)  # endings: not files of the project
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def classes() -> dict[str, list[ast.ClassDef]]:
    """Returns all classes of the project by name."""
    found: dict[str, list[ast.ClassDef]] = {}
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def stored_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yields the names and attributes that nodes of code define, import or assign."""
    for inner in nodes:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield inner.name
        elif isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store):
            yield inner.id if isinstance(inner, ast.Name) else inner.attr
        elif isinstance(inner, ast.alias):
            yield (inner.asname or inner.name).split(".")[0]


@cache
def names_of(path: Path) -> frozenset[str]:
    """Returns the names and attributes that a module defines, imports or assigns."""
    return frozenset(stored_in(nodes_of(path)))


@cache
def members(name: str) -> frozenset[str]:
    """Returns the members of the classes with a name, and of their bases."""
    found: set[str] = set()
    for node in classes().get(name, []):
        found |= set(stored_in(ast.walk(node)))
        for base in node.bases:
            found |= members(ast.unparse(base).split(".")[-1].split("[")[0])
    return frozenset(found)


def holds(path: Path, names: tuple[str, ...]) -> bool:
    """Returns whether a module, or a folder of modules, has a name, and this a member, if one follows."""
    if not names:
        return True
    head, *rest = names
    if path.is_dir():
        inner = [path / head, path / f"{head}.py"]
        if any(step.exists() and holds(step, tuple(rest)) for step in inner):
            return True
        path = path / "__init__.py"
    if not path.exists() or head not in names_of(path):
        return False
    return not rest or rest[0] in members(head)


def folders_of(path: Path) -> list[Path]:
    """Returns the folders in which a module's references begin: its own, those around it, the repository."""
    return [folder for folder in path.parents if folder == ROOT or folder.is_relative_to(ROOT)]


def is_imported(names: tuple[str, ...]) -> bool:
    """Returns whether a library has a name."""
    for cut in range(len(names), 0, -1):
        try:
            found = import_module(".".join(names[:cut]))
        except ImportError:
            continue
        for name in names[cut:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def resolves(path: Path, reference: str, arguments: frozenset[str]) -> bool:
    """Returns whether a reference in a docstring of a module points at something that exists.

    Args:
      arguments: names of the function's arguments; what they hold is known to types only.
    """
    if (
        reference.rpartition(".")[2] in USERS_FILES or reference.isupper()
    ):  # a placeholder such as TABLE.COLUMN
        return True
    folder, _, name = reference.rpartition("/")
    if reference.endswith((".py", ".md", ".txt")):
        return any((base / reference).exists() for base in folders_of(path))
    names = tuple(name.split("."))
    places = [base / folder for base in folders_of(path) if (base / folder).is_dir()]
    if any(holds(place, names) for place in places):
        return True
    if folder:
        return False
    if names[0] in LIBRARIES:
        return is_imported(names)
    if names[0] in classes():
        return names[1] in members(names[0])
    if names[0] in arguments:
        return names[1] in {node.attr for node in nodes_of(path) if isinstance(node, ast.Attribute)}
    return any(file.stem == names[0] and holds(file, names[1:]) for file in imported_files(path))


def references(path: Path) -> Iterator[tuple[int, str, frozenset[str]]]:
    """Yields the line of each definition, a reference in its docstring, and the arguments in scope."""
    for node in nodes_of(path):
        if isinstance(node, DOCUMENTED):
            found = REFERENCE.findall(ast.get_docstring(node) or "")
            if found:
                arguments = frozenset(inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg))
                yield from ((getattr(node, "lineno", 1), name, arguments) for name in found)


def test_every_reference_of_a_docstring_resolves() -> None:
    lost = [
        f"{relative(path)}, line {line}: `{name}`"
        for path in MODULES
        for line, name, own in references(path)
        if not resolves(path, name, own)
    ]
    assert lost == []


@pytest.mark.parametrize(
    "reference",
    ["query.ranking", "graph/bounds_kernel.py", "Store.fly", "functools.nothing", "kernels.locate"],
)
def test_a_reference_that_points_nowhere_is_found(reference: str) -> None:
    assert not resolves(PACKAGE / "query" / "position.py", reference, frozenset())
