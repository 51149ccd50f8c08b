"""A short campaign of kills and faults; `python -m tests.fuzz.campaign` runs a long one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ..conftest import ROOT
from ..support.faults import shim
from .works import WORKS

pytestmark = pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not())


def _campaign(*options: str) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "tests.fuzz.campaign", *options, "--jobs", "1", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    rows: list[dict[str, object]] = json.loads(done.stdout)["works"]
    assert done.returncode == 0, [row["problems"] for row in rows]
    return rows


def test_kills_and_faults_lose_nothing_that_was_acknowledged() -> None:
    names = (
        "analyze",
        "uci",
        "import pgn",
        "store compact",
        "store backup",
        "export pgn",
        "format 1: alphabeta",
    )
    chosen = [word for name in names for word in ("--work", name)]
    rows = _campaign(*chosen, "--kills", "7", "--faults", "14")
    assert {row["work"] for row in rows} == set(names)


@pytest.mark.slow
def test_kills_and_faults_of_every_command_lose_nothing() -> None:
    rows = _campaign("--kills", str(len(WORKS)), "--faults", str(len(WORKS)), "--seed", "1")
    assert len(rows) == len(WORKS)
