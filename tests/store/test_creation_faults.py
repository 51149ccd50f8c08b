"""A creation in which any one call fails: it ends with one error, and can be repeated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import ROOT
from ..support.faults import shim

pytestmark = pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not())

# Creates a file again and again, each time with another call that fails; prints what could not be repeated.
PROGRAM = """
import errno, json, sys
from pathlib import Path
from graphsearch.base.errors import StoreError
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.store import Store
from tests.support.faults.shim import ALL, SHORT_WRITE, Fault, Shim

library, folder, step = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
shim = Shim(library)
path = folder / "a.graph"

def made():
    try:
        with Store.open(path, create=True, identity=EvaluatorIdentity("uniform")) as store:
            return store.connection.execute("PRAGMA auto_vacuum").fetchone()[0]
    except StoreError as error:
        return str(error)

def tried(fault):
    for file in folder.iterdir():
        file.unlink()
    shim.fail(fault)
    first = made()
    calls = shim.calls
    shim.fail(Fault(0, 0, 0))
    return calls, first, made()

tried(Fault(0, 0, 0))  # imports what it needs
shim.watch(str(folder))
calls, *_ = tried(Fault(ALL, 0, 0))
bad, failures = [], 0
for at in range(1, calls + 1, step):
    for error in (errno.ENOSPC, errno.EIO, SHORT_WRITE):
        fault = Fault(ALL, at, error, sticky=at % 2 == 0)
        _, first, second = tried(fault)
        failures += isinstance(first, str)
        if second != 2:  # incremental
            bad.append([repr(fault), first, second])
print(json.dumps([failures, bad]))
"""


STEP = 1 if os.environ.get("GRAPHSEARCH_FULL") else 24  # of the calls, every how many fails


def test_a_creation_that_failed_can_be_repeated(tmp_path: Path) -> None:
    library = shim.build(tmp_path)
    (tmp_path / "files").mkdir()
    command = [sys.executable, "-c", PROGRAM, str(library), str(tmp_path / "files"), str(STEP)]
    done = subprocess.run(
        command, cwd=ROOT, env=shim.environment(library), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    failures, bad = json.loads(done.stdout)
    assert failures > 100 / STEP
    assert not bad
