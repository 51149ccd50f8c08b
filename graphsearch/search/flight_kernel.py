"""Visits in flight: visits that descend, or wait for an evaluation.

They are counted by node and edge outside the records, so a dropped wave (evaluator error, Ctrl-C) leaves no
trace. A wave that is gathered while the previous one is being evaluated counts the visits of both.
"""

from __future__ import annotations

from ..jit.compiler import inlined, inner
from ..jit.pointers import ZERO, adv
from ..jit.types import Pointer, int64, uint64
from . import wave_kernel as wave
from .wave_kernel import WavePointers, hash_place, hash_put, item_before


@inner
def fields_of(W: WavePointers, node: int64) -> Pointer[int64]:
    """Returns the fields of an in-flight node."""
    return adv(W.nodes, node * wave.FLIGHT_FIELDS)


@inner
def _new_flight(W: WavePointers, tag: uint64) -> int64:
    """Returns a new in-flight node without visits of its own."""
    node = W.counts[wave.NODES_IN_FLIGHT]
    W.counts[wave.NODES_IN_FLIGHT] = node + 1
    before = item_before(W, tag)
    fields = fields_of(W, node)
    fields[wave.AT] = 0
    fields[wave.ROOM] = 0
    fields[wave.SUM] = 0
    fields[wave.SINGLE] = -1
    fields[wave.OTHER] = before if 0 <= before < wave.NOT_THERE else -1
    return node


@inlined
def flight_at(W: WavePointers, tag: uint64) -> int64:
    """Returns the in-flight node of a known position; creates it on this wave's first arrival."""
    place = hash_place(W, tag)
    if W.hash[2 * place] == ZERO:
        hash_put(W, place, tag, _new_flight(W, tag))
    return W.hash_items[2 * place + 1]


@inner
def is_leaf_in_flight(W: WavePointers, tag: uint64) -> bool:
    """Returns whether a position waits for its evaluation, in this wave or the one before."""
    return W.hash[2 * hash_place(W, tag)] != ZERO or item_before(W, tag) != wave.NOT_THERE


@inner
def widen_flight(W: WavePointers, node: int64, room: int64) -> None:
    """Extends an in-flight node to at least `room` edge counts."""
    fields = fields_of(W, node)
    had = fields[wave.ROOM]
    if had >= room:
        return
    old = fields[wave.AT]
    at = W.counts[wave.FLIGHT_USED]
    W.counts[wave.FLIGHT_USED] = at + room
    for j in range(had):
        W.flight[at + j] = W.flight[old + j]
    for j in range(had, room):
        W.flight[at + j] = 0
    if fields[wave.SINGLE] >= 0:
        W.flight[at + fields[wave.SINGLE]] = fields[wave.SUM]
        fields[wave.SINGLE] = -1
    fields[wave.AT] = at
    fields[wave.ROOM] = room


@inner
def _counted(nodes: Pointer[int64], flight: Pointer[int64], node: int64, j: int64) -> int64:
    fields = adv(nodes, node * wave.FLIGHT_FIELDS)
    if j < fields[wave.ROOM]:
        return flight[fields[wave.AT] + j]
    if j == fields[wave.SINGLE]:
        return fields[wave.SUM]
    return int64(0)


@inner
def in_flight(W: WavePointers, node: int64, j: int64) -> int64:
    """Returns the visits in flight over edge `j` of an in-flight node, those of the wave before included."""
    visits = _counted(W.nodes, W.flight, node, j)
    other = fields_of(W, node)[wave.OTHER]
    if other >= 0:
        visits += _counted(W.before_nodes, W.before_flight, other, j)
    return visits


@inner
def _covered(nodes: Pointer[int64], node: int64) -> int64:
    fields = adv(nodes, node * wave.FLIGHT_FIELDS)
    return max(fields[wave.ROOM], fields[wave.SINGLE] + 1)


@inner
def edges_in_flight(W: WavePointers, node: int64) -> int64:
    """Returns the number of leading edges of a node that cover all of its visits in flight."""
    edges = _covered(W.nodes, node)
    other = fields_of(W, node)[wave.OTHER]
    return max(edges, _covered(W.before_nodes, other)) if other >= 0 else edges


@inner
def all_in_flight(W: WavePointers, node: int64) -> int64:
    """Returns the visits in flight over all edges of an in-flight node."""
    fields = fields_of(W, node)
    visits = fields[wave.SUM]
    if fields[wave.OTHER] >= 0:
        visits += W.before_nodes[fields[wave.OTHER] * wave.FLIGHT_FIELDS + wave.SUM]
    return visits


@inlined
def send(W: WavePointers, node: int64, j: int64, visits: int64, room: int64) -> None:
    """Puts visits in flight over edge `j` of a node; its block has `room` entries."""
    fields = fields_of(W, node)
    if fields[wave.ROOM] == 0 and (fields[wave.SUM] == 0 or fields[wave.SINGLE] == j):
        fields[wave.SINGLE] = j
    else:
        widen_flight(W, node, max(room, j + 1))
        W.flight[fields[wave.AT] + j] += visits
    fields[wave.SUM] += visits


@inner
def land(W: WavePointers, node: int64, j: int64, visits: int64) -> None:
    """Takes visits over edge `j` of a node out of flight, whether they were completed or not."""
    fields = fields_of(W, node)
    if j < fields[wave.ROOM]:
        W.flight[fields[wave.AT] + j] -= visits
    fields[wave.SUM] -= visits
