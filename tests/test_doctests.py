"""Every example in a docstring is run: a formula and its docstring cannot disagree."""

from __future__ import annotations

import doctest
import importlib

import pytest

from .conftest import ROOT

FILES = sorted([*(ROOT / "graphsearch").rglob("*.py"), *(ROOT / "cli").rglob("*.py")])


def module_name(parts: tuple[str, ...]) -> str:
    """Returns the name under which a file is imported: `cli/progress.py` -> `graphsearch.cli.progress`."""
    parts = parts if parts[0] == "graphsearch" else ("graphsearch", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = [module_name(path.relative_to(ROOT).with_suffix("").parts) for path in FILES]
WITH_EXAMPLES = [
    name for name, path in zip(NAMES, FILES, strict=True) if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), raise_on_error=False)
    assert result.attempted > 0
    assert result.failed == 0
