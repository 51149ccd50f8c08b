"""Every example in a docstring is run: a formula and its docstring cannot disagree."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from .test_architecture import MODULES, dotted, relative

WITH_EXAMPLES = [path for path in MODULES if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=relative)
def test_the_examples_of_a_module_are_true(path: Path) -> None:
    result = doctest.testmod(importlib.import_module(".".join(dotted(path))), raise_on_error=False)
    assert result.attempted > 0
    assert result.failed == 0
