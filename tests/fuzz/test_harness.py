"""The harness notices what it must; a short run of every target."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from graphsearch.base.errors import StoreError
from tests.conftest import ROOT
from tests.fuzz import commands
from tests.fuzz.__main__ import KERNELS, TARGETS
from tests.fuzz.campaign import Row, _output_problems
from tests.fuzz.files import READ
from tests.fuzz.harness import Fuzzer, Target, guarded
from tests.fuzz.works import WORKS, Work, command_line, losses, missing
from tests.support.faults import shim

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
    assert {outcome.signature.split(" in ")[0] for outcome in fuzzer.outcomes} == {
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
    for work in READ:
        ended = commands.run(*command_line(work, tmp_path))
        assert "--help" not in ended.err, (work.line, ended.err)


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
    "lc0": 40,
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


# ------------------------------------------------------------------ the shim and a short campaign
needs_shim = pytest.mark.skipif(bool(shim.why_not()), reason=shim.why_not())


def test_a_loss_is_noticed() -> None:
    record = "00000000000000ff 1f"
    before = {"visits": 9, "rows of run": 2, record: 1}
    work = Work("x", "x", grows={"visits": 5, "run": 1})
    assert losses(before, before, work) == []
    assert losses(before, before | {"visits": 8}, work) == ["visits: 9 before, 8 after"]
    assert len(losses(before, {"visits": 9}, work)) == 2
    assert losses(before, {"visits": 9, "rows of run": 2}, Work("prune", "x", least=2)) == []
    assert len(missing(before, before, work)) == 2
    assert missing(before, {"visits": 14, "rows of run": 3}, work) == []


def test_an_output_that_is_not_whole_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    assert _output_problems(file, b"whole", promised=False) == []
    assert _output_problems(file, b"whole", promised=True)
    file.write_bytes(b"who")
    assert _output_problems(file, b"whole", promised=False)
    file.write_bytes(b"whole")
    assert _output_problems(file, b"whole", promised=True) == []
    copy = tmp_path / "copy.graph"
    copy.write_bytes(b"no graph")
    assert _output_problems(copy, b"", promised=False)


# ------------------------------------------------------------------ a short campaign
ALIKE = {  # commands that read or write the file as others of the table do: only long campaigns take them
    "analyze", "analyze, 2 threads", "analyze, a set", "watch", "mate", "refresh", "book build, new file",
    "book queue add", "book queue drop", "book todo --queue", "study import", "store verify", "import pgn",
    "import pgn, players later", "import epd", "repertoire import", "store prune", "store merge --into",
    "store info", "show", "query diff", "query history", "query pv", "query find", "query novelties",
    "query sql", "query prepare", "export csv", "export epd", "export jsonl", "export pgn",
}  # fmt: skip
CHOSEN = [work for work in WORKS if work.name not in ALIKE]


@needs_shim
@pytest.mark.slow
def test_a_kill_or_a_fault_of_any_command_loses_nothing(tmp_path: Path) -> None:
    """Kills half of the commands that write, and has a call of each of all others fail."""
    kills = sum(work.start != "logged" for work in CHOSEN) // 2  # the first ones in the table
    counts = "--kills", str(kills), "--faults", str(len(CHOSEN) - kills)
    names = [word for work in CHOSEN for word in ("--work", work.name)]
    command = [sys.executable, "-m", "tests.fuzz.campaign", *names, *counts]
    environment = shim.environment(library := shim.build(tmp_path))
    command += ["--library", str(library)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    rows = json.loads(done.stdout)
    assert not any(Row(**row).bad for row in rows), [row["problems"] for row in rows]
    assert {row["work"] for row in rows} == {work.name for work in CHOSEN}
    assert sum(row["faults"] for row in rows) > 0, "the shim fails the calls that it is told to fail"
