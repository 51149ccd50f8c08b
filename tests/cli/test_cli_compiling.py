"""A line about compiling comes where something is compiled, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphsearch.jit.compiler import JIT_OFF
from graphsearch.jit.places import COMPILING

from ..conftest import finish, start


@pytest.mark.skipif(JIT_OFF, reason="nothing is compiled")
def test_a_command_says_that_it_compiles_only_if_it_does(tmp_path: Path) -> None:
    environment = os.environ | {"GRAPHSEARCH_CACHE_DIR": str(tmp_path)}
    cold, warm = (
        finish(start("lab", "nodetypes", "--synthetic", 2, 2, "--json", env=environment)) for _ in range(2)
    )
    assert cold.err.splitlines() == [f"graphsearch: {COMPILING}"]
    assert (warm.json["formula"], warm.err) == (cold.json["formula"], "")
