"""Records as values: what is sound, and rows against columns."""

from __future__ import annotations

from dataclasses import replace

import chess
import pytest

from graphsearch.position.board import pack
from graphsearch.store.record.node import (
    TERMINAL_FLAGS,
    UNPROVEN,
    Edge,
    NodeRecord,
    RecordBatch,
    prior_code,
    prior_order,
    priors_from_codes,
    problems,
)

from ..records import random_records

SOUND = NodeRecord(
    tuple(int(word) for word in pack(chess.Board())),
    0.25,
    300,
    1,
    UNPROVEN,
    bytes(range(20, 40)),
    (Edge(10, 2, 0.5, 400), Edge(3, 3)),
)
MATED = replace(SOUND, v=-1.0, d=0, flags=TERMINAL_FLAGS[1], codes=b"", edges=())


@pytest.mark.parametrize("record", [SOUND, MATED])
def test_a_sound_record_has_no_problems(record: NodeRecord) -> None:
    assert problems(record) == []


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (replace(SOUND, flags=2 << 2 | 0 << 4), "not an interval"),
        (replace(SOUND, flags=3 << 2 | 3 << 4), "not an interval"),
        (replace(MATED, codes=b"\x05"), "terminal node has edges"),
        (replace(SOUND, codes=b"", edges=()), "without moves"),
        (replace(SOUND, codes=b"\x05"), "2 visited edges of 1 moves"),
        (replace(SOUND, codes=bytes(20)), "prior code"),
        (replace(SOUND, codes=bytes([64] * 20)), "prior code"),
        (replace(SOUND, v=1.25), "V has Q"),
        (replace(SOUND, v=float("nan")), "V has Q"),
        (replace(SOUND, d=760), "V has Q"),
        (replace(SOUND, edges=(Edge(2, 3),)), "r = 3, n = 2"),
        (replace(SOUND, edges=(Edge(1 << 32),)), "edge 0"),
        (replace(SOUND, edges=(Edge(2, 2, 0.5),)), "value without visits"),
        (replace(SOUND, edges=(Edge(2, 0, 0.5, 600),)), "edge 0 has Q"),
    ],
)
def test_a_broken_invariant_is_named(broken: NodeRecord, problem: str) -> None:
    assert problem in "; ".join(problems(broken))


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
