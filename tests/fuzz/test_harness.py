"""The harness notices what it must; a short run of every target."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from graphsearch.base.errors import StoreError
from tests.conftest import ROOT
from tests.fuzz import commands
from tests.fuzz.files import READ
from tests.fuzz.guard import guarded
from tests.fuzz.harness import Fuzzer, Target
from tests.fuzz.targets import KERNELS, TARGETS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

_POINTER = ctypes.POINTER(ctypes.c_uint8)


def _call(data: bytes, folder: Path) -> bool:
    what = data.decode()
    if what == "refuse":
        raise StoreError("no")
    if what == "defect":
        raise KeyError("x")
    if what == "crash":
        guarded(8, np.uint8, low=False).ctypes.data_as(_POINTER)[8]
    if what == "crash below":
        guarded(8, np.uint8, low=True).ctypes.data_as(_POINTER)[-1]
    if what == "hang":
        time.sleep(60)
    if what == "memory":
        np.ones(300 << 17)  # more than free pages that the allocator may have kept
    if what == "thread":
        import threading

        thread = threading.Thread(target=lambda: int("x"))
        thread.start()
        thread.join()
    return what == "accept"


CASES = (
    "accept", "refuse", "decline", "defect", "crash", "hang", "memory", "thread", "crash below", "accept",
)  # fmt: skip


def test_every_way_to_fail_is_noticed_and_the_next_input_is_executed(tmp_path: Path) -> None:
    cases = [case.encode() for case in CASES]
    target = Target(
        "cases", lambda _: cases, lambda seeds, rng: b"accept", _call, seconds=10.0, megabytes=120
    )
    fuzzer = Fuzzer(target, 0, keep=tmp_path / "keep")
    tally = fuzzer.run(executions=len(CASES))
    fuzzer.close()
    assert (tally.executions, tally.accepted, tally.refused, tally.failed) == (10, 2, 2, 6)
    whats = [outcome.signature.split(" in ")[0] for outcome in fuzzer.outcomes]
    assert set(whats) == {
        "KeyError",
        "ValueError",
        "crash: SIGSEGV",
        "hang: more than 10 s",
        "memory: more than 120 MB",
    }
    kept = {path.read_bytes() for path in (tmp_path / "keep").iterdir() if path.suffix != ".txt"}
    assert {b"defect", b"crash", b"hang", b"memory"} <= kept
    (note,) = (tmp_path / "keep").glob("cases-0-3.txt")
    assert "python -m tests.fuzz --target cases --input" in note.read_text()


def test_questions_about_a_file_are_in_the_program_s_words(tmp_path: Path) -> None:
    for line in READ:
        ended = commands.run(*(tmp_path / "none.graph" if word == "{}" else word for word in line))
        assert "--help" not in ended.err, (line, ended.err)


# ------------------------------------------------------------------ a short run of every target
EXECUTIONS = {
    "unpack": 200,
    "entries": 100,
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


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_in_is_taken_or_refused_cleanly(name: str, tmp_path: Path) -> None:
    if name == "lc0":
        pytest.importorskip("onnxruntime")
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
    command = [sys.executable, "-m", "tests.fuzz", *targets, "--executions", "8"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command += ["--minutes", "4", "--keep", str(tmp_path / "failures")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
