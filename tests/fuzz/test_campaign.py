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


FIRST = (
    "analyze",
    "uci",
    "import pgn",
    "store compact",
    "store backup",
    "export pgn",
    "alphabeta",
)
OTHERS = tuple(work.name for work in WORKS if work.name not in FIRST)


def _loses_nothing(names: tuple[str, ...], *, faults: int, seed: int) -> None:
    """Kills each of some commands that write once, and has so many calls of each fail."""
    chosen = [word for name in names for word in ("--work", name)]
    writers = [work for work in WORKS if work.name in names and work.start != "logged"]  # the first ones
    counts = "--kills", str(len(writers)), "--faults", str(faults * len(names))
    rows = _campaign(*chosen, *counts, "--seed", str(seed))
    assert {row["work"] for row in rows} == set(names)


def test_kills_and_faults_lose_nothing_that_was_acknowledged() -> None:
    _loses_nothing(FIRST, faults=1, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("names", [OTHERS[::2], OTHERS[1::2]], ids=["even", "odd"])
def test_kills_and_faults_of_every_other_command_lose_nothing(names: tuple[str, ...]) -> None:
    _loses_nothing(names, faults=1, seed=1)
