"""A line about compiling comes where something is compiled, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphsearch.jit.compiler import JIT_OFF
from graphsearch.jit.places import COMPILING

from ..conftest import finish, start


@pytest.mark.skipif(JIT_OFF, reason="nothing is compiled")
def test_a_command_says_that_it_compiles_only_if_it_does(tmp_path: Path) -> None:
    environment = os.environ | {"GRAPHSEARCH_CACHE_DIR": str(tmp_path)}
    cold, warm = (finish(start("lab", "perft", "startpos", 2, env=environment)) for _ in range(2))
    assert cold.err.splitlines() == [f"graphsearch: {COMPILING}"]
    assert (warm.out, warm.err) == (cold.out, "")


PERFT = """
import chess
from graphsearch.position.board import pack
from graphsearch.position.rules_kernel import perft
from graphsearch.position.tables import load_tables
print(perft(load_tables(), pack(chess.Board()), 2))
"""


@pytest.mark.skipif(JIT_OFF, reason="nothing is compiled")
def test_python_hears_of_it_too_without_having_asked(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PERFT],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"GRAPHSEARCH_CACHE_DIR": str(tmp_path)},
    )
    assert done.stdout.startswith("400")
    assert done.stderr.splitlines() == [COMPILING]
