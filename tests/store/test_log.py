"""The write-ahead log stays short through the upkeep of a file, whatever the size of the file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from graphsearch.base.errors import StoreError
from graphsearch.store import log
from graphsearch.store.file import open_reader
from graphsearch.store.side_files import log_bytes
from graphsearch.store.sizes import Sizes
from graphsearch.store.store import Store
from graphsearch.store.upkeep.compact import compact
from graphsearch.store.upkeep.prune import prune
from graphsearch.store.upkeep.salvage import salvage
from graphsearch.store.upkeep.verify import verify

from .records import filled, random_records

RECORDS = 2500
SMALL = Sizes(chunk_blocks=8, step_blocks=4, scan_blocks=4, vacuum_pages=2, waste_from=1 << 30, fan_out=100)
SHORT = 1 << 17  # bytes of a log that is due for a checkpoint


@pytest.fixture
def many_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 30 runs, in whose upkeep a log of 128 KiB counts as long."""
    monkeypatch.setattr(log, "LOG_BYTES", SHORT)
    return filled(tmp_path / "many.graph", random_records(71, RECORDS), runs=30, sizes=SMALL)


Upkeep = Callable[[Path, Callable[[int, int], None]], object]


def _salvage(path: Path, progress: Callable[[int, int], None]) -> object:
    return salvage(path, path.with_name("new.graph"), progress=progress, sizes=SMALL)


@pytest.mark.parametrize(
    "upkeep",
    [
        lambda path, progress: compact(path, progress, sizes=SMALL),
        lambda path, progress: prune(path, 2, progress, sizes=SMALL),
        _salvage,
    ],
    ids=["compact", "prune", "salvage"],
)
def test_upkeep_of_many_runs_keeps_the_log_short(many_runs: Path, upkeep: Upkeep) -> None:
    written = [many_runs, many_runs.with_name("new.graph.part")]
    logs: list[int] = []
    upkeep(many_runs, lambda done, total: logs.append(max(map(log_bytes, written))))
    assert len(logs) > 20
    assert max(logs) < many_runs.stat().st_size / 2
    assert max(logs) < 3 * SHORT
    assert verify(many_runs).problems == []


def test_upkeep_stops_before_a_reader_makes_the_log_grow_without_end(
    many_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "LONGEST_LOG_BYTES", 2 * SHORT)
    with closing(open_reader(many_runs)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM block").fetchone()
        with pytest.raises(StoreError, match="another program is reading an old state"):
            compact(many_runs, sizes=SMALL)
        reader.execute("ROLLBACK")
    assert verify(many_runs).problems == []
    assert compact(many_runs, sizes=SMALL).nodes == RECORDS
    with Store.open(many_runs, read_only=True) as store:
        assert len(store.catalog.segments) == 1


def test_salvage_writes_one_run_for_one_and_merges_nothing(many_runs: Path) -> None:
    compact(many_runs, sizes=SMALL)
    _salvage(many_runs, lambda done, total: None)
    with Store.open(many_runs.with_name("new.graph"), read_only=True) as store:
        (segment,) = store.catalog.segments
        assert len(segment.chunks) > 5
        assert segment.id == 1  # the first one that was begun
        assert segment.records == RECORDS
