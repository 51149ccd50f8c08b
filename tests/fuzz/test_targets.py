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
    "decode": 200,
    "unpack": 200,
    "entries": 200,
    "cache": 30,
    "toml": 150,
    "manifest": 60,
    "uci": 4,
    "cluster": 2,
    "graph-blocks": 4,
    "graph-schema": 15,
    "graph-pages": 13,
    "pgn-zst": 5,
}
FEW = 8  # of all others
FEWEST = 10  # graph files: each is opened by several commands
DAMAGED = 7  # the first of these graph files is the newest golden one; another target executes the sound ones
NEEDED = {"onnx": "onnxruntime", "onnx-graphs": "onnxruntime", "lc0": "onnxruntime"}


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_in_is_taken_or_refused_cleanly(name: str, tmp_path: Path) -> None:
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    is_file = name.startswith("graph-")
    first = DAMAGED if is_file and name != "graph-blocks" else 0
    fuzzer = Fuzzer(TARGETS[name], seed=0, first=first, keep=tmp_path / "failures")
    try:
        tally = fuzzer.run(executions=EXECUTIONS.get(name, FEWEST if is_file else FEW) - first)
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
