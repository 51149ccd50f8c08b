"""kill -9 at any moment: what was committed is there, and the file is sound."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphsearch.store import Store, verify

from .records import IDENTITY, contents, filled, identity, random_records

ROOT = Path(__file__).resolve().parents[2]

# Appends seeded batches for ever, says so after each commit, and merges in tiny steps meanwhile.
WRITER = """
import sys
from graphsearch.store import Store, merging
from tests.store.records import IDENTITY, batch_of, random_records
merging.FAN_OUT, merging.STEP_BLOCKS = 3, 4
records = random_records(41, 400)
with Store.open(sys.argv[1], create=True, identity=IDENTITY) as store:
    known = 0
    for k in range(10**6):
        part = [records[(7 * k + i) % len(records)] for i in range(40)]
        end = min(len(records), 7 * k + 40)
        with store.transaction():
            store.append(batch_of(part), fresh=max(0, end - known))
            store.record_root(f"{k:016x}", "a position", k)
        known = max(known, end)
        print(k, flush=True)
        store.merge_step()
"""


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_writer_leaves_a_sound_file_with_all_it_committed(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "test.graph"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    rng = random.Random(seed)
    for _ in range(rng.randrange(1, 12)):
        last = int(writer.stdout.readline())
    time.sleep(rng.random() * 0.05)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    said = [int(line) for line in writer.stdout.read().splitlines()]
    writer.stdout.close()
    last = max([last, *said])

    assert verify(path).problems == []
    records = random_records(41, 400)
    with Store.open(path, identity=IDENTITY) as store:
        batches = [int(root.key, 16) for root in store.roots()]
        assert sorted(batches) == list(range(len(batches))), "batches are whole and in order"
        assert len(batches) >= last + 1, "every commit that was announced is there"
        expected = [records[(7 * k + i) % len(records)] for k in batches for i in range(40)]
        assert contents(store) == {identity(record): record for record in expected}
        while store.merge_step():
            pass
        assert contents(store) == {identity(record): record for record in expected}
    assert verify(path).problems == []


@pytest.mark.parametrize("step", range(4))
def test_a_creation_that_was_cut_short_can_be_repeated(tmp_path: Path, step: int) -> None:
    import sqlite3

    from graphsearch.store import migrations

    path = tmp_path / "test.graph"
    if step:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA page_size = 16384")
        if step > 1:
            migrations.migrate(connection, 0)
        if step > 2:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
    filled(path, random_records(1, 5))
    assert verify(path).problems == []
