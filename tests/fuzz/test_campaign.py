"""A short campaign of kills and faults; `python -m tests.fuzz.campaign` runs a long one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import ROOT
from ..support.faults import shim
from .disturbing import Row
from .works import WORKS

pytestmark = pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not())


ALIKE = {  # commands that read or write the file as others of the table do: only long campaigns take them
    "analyze", "analyze, 2 threads", "analyze, a set", "watch", "mate", "refresh", "book build, new file",
    "book queue add", "book queue drop", "book todo --queue", "study import", "store verify", "import pgn",
    "import pgn, players later", "import epd", "repertoire import", "store prune", "store merge --into",
    "store info", "show", "query diff", "query history", "query pv", "query find", "query novelties",
    "query sql", "query prepare", "export csv", "export epd", "export jsonl", "export pgn",
}  # fmt: skip
CHOSEN = [work for work in WORKS if work.name not in ALIKE]


@pytest.mark.slow
def test_a_kill_or_a_fault_of_any_command_loses_nothing(tmp_path: Path) -> None:
    """Kills half of the commands that write, and has a call of each of all others fail."""
    kills = sum(work.start != "logged" for work in CHOSEN) // 2  # the first ones in the table
    counts = "--kills", str(kills), "--faults", str(len(CHOSEN) - kills)
    names = [word for work in CHOSEN for word in ("--work", work.name)]
    command = [sys.executable, "-m", "tests.fuzz.campaign", *names, *counts, "--jobs", "1", "--share", "0"]
    environment = shim.environment(library := shim.build(tmp_path))
    command += ["--library", str(library)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    rows = json.loads(done.stdout)
    assert not any(Row(**row).bad for row in rows), [row["problems"] for row in rows]
    assert {row["work"] for row in rows} == {work.name for work in CHOSEN}
