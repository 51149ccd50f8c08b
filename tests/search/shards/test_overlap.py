"""Waves that overlap: each is gathered while the one before is evaluated, by all shards alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Limits
from graphsearch.search.shards import parting
from graphsearch.store.sharded.files import files_of, open_to_read
from graphsearch.store.upkeep.verify import verify

from ...support.clusters import Records, records_of, search_shards
from ...support.reference import HashEvaluator

PARAMS: dict[str, Any] = {"overlap": 1, "max_wave_share": 1.0, "minibatch_size": 32}

# where the last wave completes a quarter fewer visits than it asks for: the search goes on to its limit
ROOT = chess.Board("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1")
VISITS = 1500


def records_overlapped(folder: Path, shards: int) -> Records:
    """Returns what so many shards make of a search whose waves overlap; checks that no visit is lost."""
    evaluator = HashEvaluator()
    parting.new_cluster(folder, shards=shards, identity=evaluator.identity)
    reports = search_shards(folder, evaluator, ROOT, shards, Limits(visits=VISITS), **PARAMS)
    with open_to_read(folder) as whole:
        root = whole.read(ROOT)
    assert root is not None
    assert root.visits == sum(report.visits for report in reports) >= VISITS
    assert sum(report.evaluations for report in reports) == len(evaluator.asked) == len({*evaluator.asked})
    assert verify(folder).ok
    return records_of(files_of(folder))


def test_overlapped_waves_make_the_same_records_with_any_number_of_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlapped = records_overlapped(tmp_path / "1", 1)
    assert records_overlapped(tmp_path / "3", 3) == overlapped
    monkeypatch.setitem(PARAMS, "overlap", 0)
    assert records_overlapped(tmp_path / "alone", 1) != overlapped
