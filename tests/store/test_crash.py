"""kill -9 at any moment: what was committed is there, and the file is sound."""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import chess
import numpy as np
import pytest

from graphsearch.store.backup import backup
from graphsearch.store.index import Sizes
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.record import NodeRecord, RecordBatch
from graphsearch.store.rewrite import compact, rewrite
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from ..support.forks import Fork, Say
from .records import IDENTITY, Records, batch_of, contents, filled, identity, lookup, merge_all, sized

KILLS = 50 if os.environ.get("GRAPHSEARCH_FULL") else 1  # of each kind of work
RECORDS = Records(71, 400)
BATCH = 40  # records
KEPT, MARK = 3, 2  # visits that pruning asks for; the evaluator that rewriting enters

SMALL = Sizes(fan_out=3, step_blocks=4, scan_blocks=4, vacuum_pages=1)


def append(store: Store, k: int) -> None:
    batch = batch_of(part(k))
    found, _ = lookup(store, batch.words)
    with store.transaction():
        assert store.begin_run(chess.STARTING_FEN, {}, {}) == k + 1
        store.append(batch, fresh=int((~found).sum()))
        store.record_root(f"{k:016x}", chess.STARTING_FEN, k)


def marked(batch: RecordBatch, low: int, pivot: int | None) -> RecordBatch:
    return batch.replace(evaluator=np.full(len(batch), MARK, np.uint8))


def work_for_ever(work: str, path: Path, say: Say) -> None:
    """Appends batches, says each once it is committed, and does its work in tiny steps."""
    while True:
        with Store.open(path, create=True, identity=IDENTITY, sizes=SMALL) as store:
            for _ in range(4):
                k = len(store.roots())
                append(store, k)
                say(k)
                if work == "flush":
                    store.merge_step()
            if work == "merge":
                merge_all(store)
            if work == "rewrite":
                assert store.add_evaluator(EvaluatorIdentity("other")) == MARK
                rewrite(store, marked)
        if work == "compact":
            sized(SMALL, compact, path)
        if work == "prune":
            sized(SMALL, compact, path, min_visits=KEPT)


def part(k: int) -> list[NodeRecord]:
    """Returns the records of batch `k`, whose run tells them from earlier versions."""
    return [replace(RECORDS[(7 * k + i) % len(RECORDS)], run=k + 1) for i in range(BATCH)]


def kill_a_writer(work: str, path: Path, rng: random.Random) -> int:
    """Returns the last batch that a writer told of before it was killed."""
    with Fork(partial(work_for_ever, work, path)) as writer:
        said = [writer.line() for _ in range(rng.randrange(1, 10))]
        time.sleep(rng.random() * 0.05)  # the moment is what is drawn by chance
        return int([*said, *writer.kill()][-1])


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
        merge_all(store)
        assert contents(store) == found
    for key, record in expected.items():
        if work == "prune" and record.visits < KEPT and key not in found:
            continue
        assert unmarked(found[key]) == unmarked(record)
        assert found[key].evaluator in ({record.evaluator, MARK} if work == "rewrite" else {record.evaluator})
    assert set(found) <= set(expected)
    assert verify(path).problems == []
    return len(batches)


@pytest.mark.parametrize("work", ["flush", "merge", "compact", "prune", "rewrite"])
def test_a_killed_writer_leaves_a_sound_file_with_all_it_committed(path: Path, work: str) -> None:
    rng = random.Random(work)
    batches = 0
    for _ in range(KILLS):
        last = kill_a_writer(work, path, rng)
        assert last >= batches, "the next writer goes on where the killed one was"
        batches = check(path, work, last)
    compact(path)
    check(path, work, batches - 1)
    compact(path, min_visits=KEPT)
    assert verify(path).problems == []


def copy_slowly(path: Path, copy: Path, say: Say) -> None:
    with patch("graphsearch.store.backup.STEP_PAGES", 1):
        backup(path, copy, force=True, on_progress=lambda now: say("."))


def test_a_killed_backup_leaves_the_old_copy(tmp_path: Path) -> None:
    path = filled(tmp_path / "test.graph", RECORDS, runs=4)
    copy = filled(tmp_path / "copy.graph", RECORDS[:7])
    with Fork(partial(copy_slowly, path, copy)) as child:
        for _ in range(5):
            child.line()
    assert verify(copy).problems == []
    with Store.open(copy, read_only=True) as store:
        assert len(contents(store)) in (7, 400), "the old one, or the new one if the kill came late"
    assert verify(path).problems == []
