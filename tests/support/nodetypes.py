"""Expected node types of whole searches, computed from the rules one node at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphsearch.solvers.alphabeta.nodetypes.rules import PV, Arrival, Rules, becomes, expected


def arrival_of(place: int, candidates: int = 1) -> Arrival:
    """Returns how a search reaches child number `place`, from 1, where `candidates` moves are candidates.

    >>> [arrival_of(place, candidates=2).value for place in (1, 2, 3)]
    ['first', 'candidate', 'further']
    """
    if place == 1:
        return Arrival.FIRST
    return Arrival.CANDIDATE if place <= candidates else Arrival.FURTHER


class Tracker:
    """The expected types along the path of a search, from the stream of its events.

    `enter` a child and `leave` it when it did not cut; `kind` is the type of the node that the search is at.
    A cut is `leave(cut=True)`: the node that it happens in keeps its type.
    """

    def __init__(self, rules: Rules) -> None:
        """Begins at the root, which is PV."""
        self._rules = rules
        self._path = [PV]

    @property
    def kind(self) -> str:
        """The type of the present node, as it is now."""
        return self._path[-1]

    def enter(self, arrival: Arrival) -> str:
        """Goes to a child (or to the same position again) and returns its type.

        A further move tells that no candidate is left: the node that it is played in has become All.
        """
        if arrival is Arrival.FURTHER:
            self.candidates_failed()
        self._path.append(expected(self._rules, self.kind, arrival))
        return self.kind

    def leave(self, *, cut: bool = False, candidates_left: bool = True) -> str:
        """Goes back to the parent and returns its type, after a move that cut or one that did not."""
        if len(self._path) == 1:
            raise ValueError("the root has no parent")
        self._path.pop()
        if not cut and not candidates_left:
            self.candidates_failed()
        return self.kind

    def candidates_failed(self) -> None:
        """Notes that the first move and all candidates of the present node were searched, and none cut."""
        self._path[-1] = becomes(self._rules, self.kind, candidates_left=False)


@dataclass(frozen=True, slots=True)
class Described:
    """A node of a tree that is described by hand: its name, how the search comes to it, and what follows."""

    name: str
    arrival: Arrival = Arrival.FIRST
    children: tuple[Described, ...] = ()


def expected_types(tree: Described, rules: Rules) -> dict[str, str]:
    """Returns the type that is expected of every node when the search enters it, by name, depth first.

    >>> tree = Described("root", children=(Described("a"), Described("b", Arrival.FURTHER)))
    >>> expected_types(tree, Rules.GARMS)
    {'root': 'pv', 'a': 'pv', 'b': 'cut'}
    """
    return dict(_walk(tree, PV, rules))


def _walk(node: Described, kind: str, rules: Rules) -> Iterator[tuple[str, str]]:
    yield node.name, kind
    now = kind
    for child in node.children:
        if child.arrival is Arrival.FURTHER:
            now = becomes(rules, now, candidates_left=False)
        yield from _walk(child, expected(rules, now, child.arrival), rules)
