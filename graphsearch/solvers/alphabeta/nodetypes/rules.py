"""Expected node types by the two published sets of rules, and the actual type by value and window.

Both sets stand in the chess programming wiki under "Node Types". Knuth and Moore numbered the types 1, 2, 3;
the names PV, Cut and All are Marsland's and Popowich's.
"""

from __future__ import annotations

from enum import Enum

PV, CUT, ALL = "pv", "cut", "all"
KINDS = (PV, CUT, ALL)  # in the order of Knuth's numbers, which is that of `entries.TYPES`


class Arrival(Enum):
    """The way a search reaches a node.

    Attributes:
      FIRST: by the first move of its parent. CANDIDATE: by a further move that may well cut: a capture, a
        check, a killer. FURTHER: by any other move, after all candidates.
      RESEARCH: by a move whose scout search failed high, with the open window.
      NULL: after a null move. VERIFICATION: the same position again, shallower, to verify a null move.
      BAD_PRUNING: the first node of Onno's bad pruning.
      DEEPENING: the same position again, shallower, by internal iterative deepening.
    """

    FIRST = "first"
    CANDIDATE = "candidate"
    FURTHER = "further"
    RESEARCH = "research"
    NULL = "null"
    VERIFICATION = "verification"
    BAD_PRUNING = "bad_pruning"
    DEEPENING = "deepening"


class Rules(Enum):
    """A published set of rules."""

    GARMS = "garms"
    KANNAN = "kannan"


def expected(rules: Rules, parent: str, arrival: Arrival) -> str:
    """Returns the expected type of a node below one of type `parent`.

    Onno Garms: the first child of a PV node is PV, the further ones are searched as Cut and searched again as
    PV; the first child of a Cut node is All, the further ones are Cut; children of All nodes are Cut; so is
    the node after a null move, the first one of its verification and of bad pruning; internal iterative
    deepening changes nothing.

    Pradu Kannan: below PV and All nodes the same; in a Cut node the first child and those of all candidate
    cutoff moves are All, the null move among them. Then the node itself becomes All (`becomes`), and
    its later children are Cut. He does not name verification, bad pruning and deepening; Garms's rules apply.

    >>> expected(Rules.GARMS, CUT, Arrival.CANDIDATE), expected(Rules.KANNAN, CUT, Arrival.CANDIDATE)
    ('cut', 'all')
    >>> expected(Rules.GARMS, CUT, Arrival.NULL), expected(Rules.KANNAN, CUT, Arrival.NULL)
    ('cut', 'all')
    """
    if arrival is Arrival.DEEPENING:
        return parent
    if arrival is Arrival.RESEARCH:
        return PV
    if arrival is Arrival.FIRST and parent == PV:
        return PV
    if parent == CUT and (
        arrival is Arrival.FIRST or (rules is Rules.KANNAN and arrival in (Arrival.CANDIDATE, Arrival.NULL))
    ):
        return ALL
    return CUT


def becomes(rules: Rules, kind: str, *, candidates_left: bool) -> str:
    """Returns the type of a node after one of its moves was searched and did not cut.

    Kannan's Cut node becomes All once the first move and all candidates are searched; Garms's types stay.

    >>> becomes(Rules.KANNAN, CUT, candidates_left=False), becomes(Rules.KANNAN, CUT, candidates_left=True)
    ('all', 'cut')
    """
    return ALL if rules is Rules.KANNAN and kind == CUT and not candidates_left else kind


def actual(value: int, alpha: int, beta: int) -> str:
    """Returns the type that a search found: PV inside the window (alpha, beta), Cut at beta, All at alpha.

    >>> actual(5, 0, 10), actual(10, 0, 10), actual(0, 0, 10)
    ('pv', 'cut', 'all')
    """
    return CUT if value >= beta else ALL if value <= alpha else PV
