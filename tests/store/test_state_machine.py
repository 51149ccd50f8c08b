"""Any order of appends, merges, rollbacks and reopenings gives what a plain dict gives."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from graphsearch.position.board import unpack
from graphsearch.store.index import Sizes
from graphsearch.store.merging import Rules
from graphsearch.store.record import NodeRecord
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from .records import IDENTITY, Records, batch_of, changed, contents, identity, lookup, words_of

RECORDS = Records(71, 120)
SMALL = Sizes(fan_out=3, step_blocks=1, waste_from=150, chunk_blocks=2, scan_blocks=3)


class StoreMachine(RuleBasedStateMachine):
    """A store beside a dict of the newest versions."""

    @initialize()
    def create(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "test.graph"
        self.store = Store.open(self.path, create=True, identity=IDENTITY, sizes=SMALL)
        self.model: dict[tuple[int, ...], NodeRecord] = {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            assert verify(self.path).problems == []
            shutil.rmtree(self.folder)

    def _some(self, first: int, count: int, seed: int) -> list[NodeRecord]:
        rng = random.Random(seed)
        return [changed(RECORDS[(first + i) % len(RECORDS)], rng) for i in range(count)]

    def _append(self, records: list[NodeRecord], model: dict[tuple[int, ...], NodeRecord]) -> None:
        fresh = len({identity(record) for record in records} - set(model))
        self.store.append(batch_of(records), fresh=fresh)
        model |= {identity(record): record for record in records}

    @rule(first=st.integers(0, 119), count=st.integers(0, 130), seed=st.integers(0, 99))
    def append(self, first: int, count: int, seed: int) -> None:
        self._append(self._some(first, count, seed), self.model)

    @rule(first=st.integers(0, 119), count=st.integers(1, 60))
    def flush_that_fails(self, first: int, count: int) -> None:
        try:
            with self.store.transaction():
                self._append(self._some(first, count, 7), dict(self.model))
                raise KeyError
        except KeyError:
            pass

    @rule()
    def merge_step(self) -> None:
        self.store.merge_step()

    @rule(unread=st.booleans())
    def merge_step_of_a_search(self, unread: bool) -> None:
        self.store.merge_step(Rules(lazy=True, unread=unread))

    @rule()
    def merge_all(self) -> None:
        for _ in range(1000):
            if not self.store.merge_step():
                break
        else:
            raise AssertionError("merging does not end")
        assert len(self.store.catalog.segments) < 12

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.path, identity=IDENTITY, sizes=SMALL)

    @rule(first=st.integers(0, 119))
    def read_some(self, first: int) -> None:
        asked = [RECORDS[(first + i) % len(RECORDS)] for i in range(7)]
        expected = [self.model.get(identity(record)) for record in asked]
        assert [self.store.read(unpack(record.words)) for record in asked] == expected
        found, batch = lookup(self.store, words_of(asked))
        assert found.tolist() == [record is not None for record in expected]
        assert [batch.record(i) for i in range(len(batch))] == [r for r in expected if r is not None]

    @invariant()
    def holds_the_newest_versions(self) -> None:
        if hasattr(self, "store"):
            assert contents(self.store) == self.model
            assert self.store.node_count == len(self.model)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=5, stateful_step_count=15)
