"""The leading moves of records, by the rules of `store/record/leading.py` and `store/record/ranking.py`."""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import as_f32
from ...jit.types import Pointer, float64, int64
from ..record.bounds import AS_GOOD_AS_WON
from ..record.leading import LED_BY_VALUE_FROM, MOST_TIMES_FEWER
from ..record.leading import cautious_value as _cautious_value
from .batch_kernel import Records

cautious_value = inner(_cautious_value)
UNPROVEN = int64(2)  # result of an edge without an exact proof; a proven result is -1, 0 or 1


@inner
def edge_value(c: Records, e: int64) -> float64:
    """Returns the value of all visits of an edge, as `Edge.value`; 0 without any."""
    n = int64(c.n[e])
    return float64(n - int64(c.r[e])) * float64(as_f32(c.q)[e]) / float64(n) if n else 0.0


@inner
def leads_of(c: Records, i: int64, results: Pointer[int64]) -> tuple[bool, bool, int64]:
    """Returns (whether proven draws lead, whether moves of value 1 do, the leading open edge, -1 if none).

    Edges are counted from the record's first one. `results`: of each edge, UNPROVEN if open.
    """
    begin = c.edge_offsets[i]
    edges = c.edge_offsets[i + 1] - begin
    most, worth, leader, visits = int64(0), 0.0, int64(-1), int64(1)
    for k in range(edges):
        n, value = int64(c.n[begin + k]), edge_value(c, begin + k)
        visits += n
        better = leader < 0 or n > most or (n == most and value > worth)
        if better and results[k] == UNPROVEN:
            most, worth, leader = n, value, int64(k)
    if most and visits >= LED_BY_VALUE_FROM:
        bound = cautious_value(worth, float64(most))
        for k in range(edges):
            n, value = int64(c.n[begin + k]), edge_value(c, begin + k)
            better = n * MOST_TIMES_FEWER >= most and cautious_value(value, float64(n)) > bound
            if better and results[k] == UNPROVEN:
                bound, worth, leader = cautious_value(value, float64(n)), value, int64(k)
    return most == 0 or worth < 0.0, worth < AS_GOOD_AS_WON, leader
