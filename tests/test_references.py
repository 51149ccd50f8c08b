"""Names in backticks that look like a module, a file or a member are those of something that exists."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from pydoc import locate

from .conftest import ROOT
from .test_architecture import MODULES, PACKAGE, nodes_of, relative

REFERENCE = re.compile(r"`([A-Za-z_]\w*(?:[./][A-Za-z_]\w*)+)(?:\(.*?\))?`")
LIBRARIES = frozenset(sys.stdlib_module_names) | {"chess", "numba", "numpy"}
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
    if parts[0] in LIBRARIES and locate(reference) is not None:
        return True
    return set(parts) <= names()


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
