"""kill -9 at any moment: what was committed is there, and the file is sound."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from graphsearch.store.record.node import NodeRecord
from graphsearch.store.store import Store
from graphsearch.store.upkeep.compact import compact
from graphsearch.store.upkeep.prune import prune
from graphsearch.store.upkeep.verify import verify

from ..conftest import ROOT
from .records import IDENTITY, Records, contents, filled, identity

KILLS = 50 if os.environ.get("GRAPHSEARCH_FULL") else 2  # of each kind of work
RECORDS = Records(71, 400)
BATCH = 40  # records
KEPT, MARK = 3, 2  # visits that pruning asks for; the evaluator that rewriting enters

# Forks a child for every line `WORK PATH`, so that imports and compiler are paid for once, and says when it
# ended. The child appends batches for ever, tells each once it is committed, and does its work in tiny steps.
HELPER = """
import os, sys
from dataclasses import replace
import chess
import numpy as np
from graphsearch.store.record.provenance import EvaluatorIdentity
from graphsearch.store.sizes import Sizes
from graphsearch.store.store import Store
from graphsearch.store.upkeep.compact import compact
from graphsearch.store.upkeep.prune import prune
from graphsearch.store.upkeep.rewrite import rewrite
from tests.store.records import lookup, IDENTITY, batch_of, random_records
from tests.store.test_crash import BATCH, KEPT, MARK, RECORDS, part

SMALL = Sizes(fan_out=3, step_blocks=4, vacuum_pages=1)

def append(store, k):
    batch = batch_of(part(k))
    found, _ = lookup(store, batch.words)
    with store.transaction():
        assert store.begin_run(chess.STARTING_FEN, {}, {}) == k + 1
        store.append(batch, fresh=int((~found).sum()))
        store.record_root(f"{k:016x}", chess.STARTING_FEN, k)

def marked(batch):
    return replace(batch, evaluator=np.full(len(batch), MARK, np.uint8))

def work_for_ever(work, path):
    while True:
        with Store.open(path, create=True, identity=IDENTITY, sizes=SMALL) as store:
            for _ in range(4):
                k = len(store.roots())
                append(store, k)
                os.write(1, b"%d\\n" % k)  # in one piece, whenever it is killed
                if work == "flush":
                    store.merge_step()
            while work == "merge" and store.merge_step():
                pass
            if work == "rewrite":
                assert store.add_evaluator(EvaluatorIdentity("other")) == MARK
                rewrite(store, marked)
        if work == "compact":
            compact(path, sizes=SMALL)
        if work == "prune":
            prune(path, KEPT, sizes=SMALL)

with Store.open(sys.argv[1], create=True, identity=IDENTITY) as store:  # compiles, before any fork
    append(store, 0)
    rewrite(store, marked)
for line in sys.stdin:
    child = os.fork()
    if not child:
        work_for_ever(*line.split())
    print("child", child, flush=True)
    os.waitpid(child, 0)
    print("over", flush=True)
"""


def part(k: int) -> list[NodeRecord]:
    """Returns the records of batch `k`, whose run tells them from earlier versions."""
    return [replace(RECORDS[(7 * k + i) % len(RECORDS)], run=k + 1) for i in range(BATCH)]


@dataclass(slots=True)
class Helper:
    """The process that forks writers."""

    process: subprocess.Popen[str]

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def kill_a_writer(self, work: str, path: Path, rng: random.Random) -> int:
        """Returns the last batch that a writer told of before it was killed; -1 for none."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{work} {path}\n")
        self.process.stdin.flush()
        last, child = -1, 0
        batches = rng.randrange(1, 10)
        while batches or not child:
            word, _, number = self.line().partition(" ")
            if word == "child":
                child = int(number)
            else:
                last, batches = int(word), max(batches - 1, 0)
        time.sleep(rng.random() * 0.05)  # the moment is what is drawn by chance
        os.kill(child, signal.SIGKILL)
        while (line := self.line()) != "over\n":
            last = int(line)
        return last


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helper]:
    first = tmp_path_factory.mktemp("helper") / "first.graph"
    command = [sys.executable, "-c", HELPER, str(first)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Helper(process)
        assert process.stdin is not None
        process.stdin.close()


def unmarked(record: NodeRecord) -> NodeRecord:
    """Returns a record as if it came from one evaluator."""
    return replace(record, evaluator=1)


def check(path: Path, work: str, last: int) -> int:
    """Checks a file after a kill; returns how many batches it holds."""
    assert verify(path).problems == []
    with Store.open(path, identity=IDENTITY) as store:
        batches = sorted(int(root.key, 16) for root in store.roots())
        assert batches == list(range(len(batches))), "batches are whole and in order"
        assert len(batches) > last, "every commit that was announced is there"
        expected = {identity(record): record for k in batches for record in part(k)}
        found = contents(store)
        while store.merge_step():
            pass
        assert contents(store) == found
    for key, record in expected.items():
        if work == "prune" and record.visits < KEPT and key not in found:
            continue
        assert unmarked(found[key]) == unmarked(record)
        assert found[key].evaluator in ({record.evaluator, MARK} if work == "rewrite" else {record.evaluator})
    assert set(found) <= set(expected)
    assert verify(path).problems == []
    return len(batches)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("work", ["flush", "merge", "compact", "prune", "rewrite"])
def test_a_killed_writer_leaves_a_sound_file_with_all_it_committed(
    tmp_path: Path, helper: Helper, work: str
) -> None:
    path = tmp_path / "test.graph"
    rng = random.Random(work)
    batches = 0
    for _ in range(KILLS):
        last = helper.kill_a_writer(work, path, rng)
        assert last >= batches, "the next writer goes on where the killed one was"
        batches = check(path, work, last)
    compact(path)
    check(path, work, batches - 1)
    prune(path, KEPT)
    assert verify(path).problems == []


BACKUP = """
import os, sys
from graphsearch.store.upkeep.backup import backup
sys.modules["graphsearch.store.upkeep.backup"].STEP_PAGES = 1
backup(sys.argv[1], sys.argv[2], force=True, progress=lambda done, total: os.write(1, b"."))
"""


def test_a_killed_backup_leaves_the_old_copy(tmp_path: Path) -> None:
    path = filled(tmp_path / "test.graph", RECORDS, runs=4)
    copy = filled(tmp_path / "copy.graph", RECORDS[:7])
    with subprocess.Popen(
        [sys.executable, "-c", BACKUP, str(path), str(copy)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(5)
        process.kill()
    assert verify(copy).problems == []
    with Store.open(copy, read_only=True) as store:
        assert len(contents(store)) in (7, 400), "the old one, or the new one if the kill came late"
    assert verify(path).problems == []
