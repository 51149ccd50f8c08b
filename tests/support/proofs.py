"""The rules of proofs, for comparison: what edges prove of a node, and its code in an edge."""

from __future__ import annotations

from collections.abc import Iterable

from graphsearch.position.board import CLOCK_DRAW
from graphsearch.store.record.bounds import DRAWN, MOST_MATE, UNPROVEN, Bounds, Proof, bounds_of, proof_of


def edge_bounds(edges: Iterable[tuple[int, float, int]], moves: int) -> Bounds:
    """Returns the bounds of a node computed from its edges.

    Args:
      edges: (n - r, q, d) of each edge. moves: number of legal moves, > 0.
    """
    lower, upper, proven = -1, -1, 0
    for valued, q, d in edges:
        low, high = bounds_of(q, d) if valued else UNPROVEN
        lower, upper = max(lower, low), max(upper, high)
        proven += 1
    return lower, upper if proven == moves else 1


def node_proof(
    bounds: Bounds, edges: Iterable[tuple[int, float, int]], moves: int, clock: int, known: int = 0
) -> Proof | None:
    """Returns the proof of a node whose result is exact, None if it is not.

    The proof is the shortest win, or the longest loss. A result with neither proven edges nor a known mate
    comes from a tablebase: it holds at the record's clock and below.

    Args:
      bounds: of the node. edges, moves: as for `edge_bounds`.
      clock: halfmove clock at which the record was evaluated.
      known: plies of the mate that the record itself holds, 0 if it holds none.
    """
    if bounds[0] != bounds[1]:
        return None
    if bounds[0] == 0:
        return Proof(0, None, 0)
    codes = [d for valued, q, d in edges if valued and bounds_of(q, d) == bounds]
    if bounds[0] > 0 and known:
        codes.append(known)
    if bounds[0] > 0 and codes:
        return proof_of(1.0, min(codes))
    if bounds[0] < 0 and codes and len(codes) == moves:
        if max(codes) <= MOST_MATE:
            mate = min(max(codes), known or MOST_MATE)  # the edges' mates may be longer than necessary
            return Proof(-1, mate, mate)
        return Proof(-1, None, max(code - MOST_MATE if code > MOST_MATE else code for code in codes))
    if known or not moves:
        return Proof(bounds[0], known, known)
    return Proof(bounds[0], None, CLOCK_DRAW - clock)


def edge_code(proof: Proof, *, resets: bool) -> int:
    """Returns the `d` of an edge to a node with a proven result.

    Args:
      resets: whether the move resets the clock.
    """
    if proof.result == 0:
        return DRAWN
    if proof.mate is not None and proof.mate < MOST_MATE:
        return proof.mate + 1
    return MOST_MATE + (1 if resets else min(proof.plies + 1, MOST_MATE))
