"""A short run of every target; `python -m tests.fuzz --minutes 60` is the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import ROOT
from .harness import Fuzzer
from .targets import KERNELS, TARGETS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

EXECUTIONS = {
    "decode": 100,
    "unpack": 100,
    "entries": 100,
    "lines": 300,
    "cache": 15,
    "toml": 80,
    "uci": 4,
    "graph-blocks": 4,
    "graph-rows": 3,
    "graph-schema": 3,
    "graph-pages": 3,
    "graph-log": 3,
    "pgn-zst": 3,
}
FEW = 5  # of all others
# graph-blocks begins with the sound files; the others begin where one of the next inputs is accepted
FIRST = {"graph-rows": 15, "graph-pages": 10, "graph-log": 7}
NEEDED = {"onnx": "onnxruntime", "onnx-graphs": "onnxruntime", "lc0": "onnxruntime"}


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_in_is_taken_or_refused_cleanly(name: str, tmp_path: Path) -> None:
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    fuzzer = Fuzzer(TARGETS[name], seed=0, first=FIRST.get(name, 0), keep=tmp_path / "failures")
    try:
        tally = fuzzer.run(executions=EXECUTIONS.get(name, FEW))
    finally:
        fuzzer.close()
    assert not tally.failures, "\n".join(outcome.text or outcome.signature for outcome in fuzzer.outcomes)
    assert tally.accepted
    assert tally.executions == tally.accepted + tally.refused


@pytest.mark.slow
def test_kernels_as_plain_python_index_nothing_beyond_its_end(tmp_path: Path) -> None:
    targets = [word for name in KERNELS for word in ("--target", name)]
    command = [sys.executable, "-m", "tests.fuzz", *targets, "--executions", "8", "--jobs", "1"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command += ["--minutes", "4", "--keep", str(tmp_path / "failures")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
