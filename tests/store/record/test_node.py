"""Records as values against columns, and P codes."""

from __future__ import annotations

import pytest

from graphsearch.store.record.node import RecordBatch, prior_code, prior_order, priors_from_codes

from ..records import random_records


def test_batches_join_and_part() -> None:
    records = random_records(71, 40)
    groups = [records[:3], [], records[3:10], records[10:11], records[11:]]
    whole = RecordBatch.concat([RecordBatch.from_records(group) for group in groups])
    assert [whole.record(i) for i in range(len(whole))] == records
    part = whole.part(7, len(records))
    assert [part.record(i) for i in range(len(part))] == records[7:]
    assert part.code_offsets[0] == part.edge_offsets[0] == 0
    assert len(RecordBatch.concat([])) == len(RecordBatch.from_records([])) == 0


def test_priors_sum_to_one_and_keep_their_order() -> None:
    codes = bytes([5, 63, 1, 63, 20])
    priors = priors_from_codes(codes)
    assert sum(priors) == pytest.approx(1.0)
    assert prior_order(codes) == [1, 3, 4, 0, 2]
    assert [prior_code(p * sum(c**4 for c in codes) / 63**4) for p in priors] == list(codes)
