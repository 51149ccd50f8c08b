"""Lays out a graph in layers: branches stay whole, and neighbours near each other. Pure.

The main edges form a tree, which is drawn without crossings; the other edges pull their ends a little.
"""

from __future__ import annotations

from collections.abc import Sequence

Edge = tuple[int, int]  # parent, child
Order = list[list[int]]  # the nodes of each layer, in order

SWEEPS = 30
SIDE_PULL = 0.2  # weight of an edge outside the tree; a tree edge has 1


def places(levels: Sequence[int], tree: Sequence[Edge], sides: Sequence[Edge]) -> list[float]:
    """Returns the place of each node within its layer, in steps of at least 1 between neighbours.

    Args:
      levels: layer of each node, from 0.
      tree: one edge into each node of a layer above 0, from the layer before it; the children of a node keep
        the order of the edges.
      sides: other edges.

    >>> places([0, 1, 1, 2], [(0, 1), (0, 2), (1, 3)], [(2, 3)])
    [0.595, 0.0, 1.0, 0.167]
    """
    pulls: list[list[tuple[int, float]]] = [[] for _ in levels]
    for edges, weight in ((tree, 1.0), (sides, SIDE_PULL)):
        for one, other in edges:
            pulls[one].append((other, weight))
            pulls[other].append((one, weight))
    order = _order(levels, tree)
    at = [0.0] * len(levels)
    for layer in order:
        for k, node in enumerate(layer):
            at[node] = k - (len(layer) - 1) / 2
    for sweep in range(SWEEPS):
        for layer in order if sweep % 2 else order[::-1]:
            wanted = []
            for node in layer:  # the weighted mean place of its neighbours; its own place if it has none
                total = sum(weight for _, weight in pulls[node])
                drawn = sum(at[other] * weight for other, weight in pulls[node])
                wanted.append(drawn / total if total else at[node])
            for node, place in zip(layer, _spread(wanted), strict=True):
                at[node] = place
    least = min(at, default=0.0)
    return [round(place - least, 3) for place in at]


def _order(levels: Sequence[int], tree: Sequence[Edge]) -> Order:
    """Returns the layers in the order of a walk through the tree, so that no two tree edges cross."""
    below: list[list[int]] = [[] for _ in levels]
    for parent, child in reversed(tree):
        below[parent].append(child)
    order: Order = [[] for _ in range(max(levels, default=-1) + 1)]
    stack = [node for node in reversed(range(len(levels))) if levels[node] == 0]
    while stack:
        node = stack.pop()
        order[levels[node]].append(node)
        stack.extend(below[node])
    return order


def _spread(wanted: Sequence[float]) -> list[float]:
    """Returns the nearest places, by the sum of squares, that keep the order and steps of at least 1.

    >>> _spread([0.0, 0.0, 5.0])
    [-0.5, 0.5, 5.0]
    """
    blocks: list[tuple[float, int]] = []  # sum and number of the members of each block
    for k, place in enumerate(wanted):
        total, size = place - k, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / size:
            other, more = blocks.pop()
            total, size = total + other, size + more
        blocks.append((total, size))
    starts = [total / size for total, size in blocks for _ in range(size)]
    return [start + k for k, start in enumerate(starts)]
