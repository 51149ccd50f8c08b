"""Bottlenecks of a book: the fewest leaves on which the choice of a root's move depends."""

from __future__ import annotations

import itertools

import pytest

from graphsearch.book.bottlenecks import Bottleneck, find_bottlenecks
from graphsearch.book.positions import Position
from graphsearch.book.rows import BookSnapshot

from ..support.books import Handmade, random_book, small_book


def test_one_leaf_carries_the_choice() -> None:
    snapshot = small_book().shape()
    found = find_bottlenecks(snapshot)
    by_rival = {row.rival.move: row for row in found.rows}
    assert set(by_rival) == {"d2d4", "c2c4"}
    assert {row.best.move for row in found.rows} == {"e2e4"}
    row = by_rival["d2d4"]
    assert (row.best.value, row.rival.value) == (0.1, 0.05)
    assert len(row.changes) == 1
    assert row.total == pytest.approx(0.05)
    assert len(by_rival["c2c4"].changes) == 2  # 1. e4 e5 from 0.1 and 1. d4 d5 from 0.05 down to 0.02
    assert by_rival["c2c4"].total == pytest.approx(0.08 + 0.03)
    near = find_bottlenecks(snapshot, change=0.04)
    assert [len(row.changes) for row in near.rows] == [2]  # no single one, but both e4's down and d4's up
    assert near.safe == 1


def test_what_is_proven_never_changes() -> None:
    book = Handmade(side="both")
    book.root()
    book.put("", "open", 1.0)
    book.link("", "e4", 0.4, 1.0)
    book.link("", "d4", 0.4, 0.0)
    book.put("e4", "leaf", -1.0)
    book.put("d4", "leaf", 0.0)
    found = find_bottlenecks(book.shape())
    (row,) = found.rows
    assert [change.position for change in row.changes] == [2]
    assert row.changes[0].needed == -1.0
    mate = Handmade(side="both")
    mate.root("f3 e5 g4")
    mate.put("f3 e5 g4", "open", 1.0)
    mate.link("f3 e5 g4", "Qh4#", 0.4, 1.0)
    mate.link("f3 e5 g4", "d5", 0.4, 0.2)
    mate.put("f3 e5 g4 Qh4#", "end", -1.0)
    mate.put("f3 e5 g4 d5", "open", -0.2)
    mate.link("f3 e5 g4 d5", "e4", 0.4, -0.2)
    mate.put("f3 e5 g4 d5 e4", "end", 1.0)  # proven for Black: 1... d5 is as good
    found = find_bottlenecks(mate.shape())
    assert [len(row.changes) for row in found.rows] == [0]


def minimax(snapshot: BookSnapshot, new: dict[tuple[int, bool], float], number: int) -> float:
    """Returns the value of a position with other values at some leaves; written down as defined."""
    position = snapshot.positions[number]
    values = []
    if position.state == "open":
        for _, child in snapshot.edges(number):
            assert child is not None
            assert snapshot.leads_on(number, child)
            values.append(-minimax(snapshot, new, child))
        if position.outside is not None:
            values.append(new.get((number, True), position.outside))
    return max(values) if values else new.get((number, False), value_at(snapshot, (number, False)))


def root_values(snapshot: BookSnapshot, new: dict[tuple[int, bool], float]) -> dict[str, float]:
    edges = snapshot.edges(snapshot.roots[0])
    return {move.move: -minimax(snapshot, new, child) for move, child in edges if child is not None}


def leaves_of(snapshot: BookSnapshot) -> list[tuple[int, bool]]:
    """Returns what may change: leaves, and moves outside the book but those of the root."""
    found: list[tuple[int, bool]] = []
    for number, position in enumerate(snapshot.positions):
        if position.state != "open" or not position.moves:
            found.append((number, False))
        elif position.outside is not None and number not in snapshot.roots:
            found.append((number, True))
    return found


def fewest(snapshot: BookSnapshot, rival: str, change: float) -> int | None:
    """Returns how few leaves, at either end of where they may go, make a rival as good, by trying all."""
    leaves = leaves_of(snapshot)
    start = {place: value_at(snapshot, place) for place in leaves}
    for count in range(len(leaves) + 1):
        for places in itertools.combinations(leaves, count):
            for ends in itertools.product((-1.0, 1.0), repeat=count):
                new = {
                    p: max(-1.0, min(1.0, start[p] + e * change)) for p, e in zip(places, ends, strict=True)
                }
                values = root_values(snapshot, new)
                mine = values.get(rival, snapshot.positions[snapshot.roots[0]].outside or 0.0)
                if all(mine >= value for value in values.values()):
                    return count
    return None


def value_at(snapshot: BookSnapshot, place: tuple[int, bool]) -> float:
    number, outside = place
    position: Position = snapshot.positions[number]
    if outside:
        assert position.outside is not None
        return position.outside
    if position.value is not None:
        return position.value
    ways = [
        move.value
        for above in snapshot.positions
        for move in above.moves.values()
        if move.child == position.key
    ]
    return -ways[0] if ways and ways[0] is not None else 0.0


@pytest.mark.parametrize("transpose", [False, True])
def test_bottlenecks_are_what_trying_all_sets_finds(transpose: bool) -> None:
    compared = shared = 0
    for seed in range(60 if transpose else 80):
        book = random_book(seed, transpose=transpose, plies=3)
        if sum(row["state"] != "open" for row in book.rows.values()) > 7:
            continue  # too many sets to try
        snapshot = book.shape()
        if len(leaves_of(snapshot)) > 7 or len(snapshot.positions[snapshot.roots[0]].moves) < 2:
            continue
        in_degrees = [move.child for p in snapshot.positions for move in p.moves.values()]
        is_tree = len(in_degrees) == len(set(in_degrees))
        shared += not is_tree
        compared += sum(compare(snapshot, change, is_tree=is_tree) for change in (2.0, 0.35))
    assert compared > 10
    assert (shared > 1) == transpose


def compare(snapshot: BookSnapshot, change: float, *, is_tree: bool) -> int:
    """Asserts that the sets are the smallest, and that what has none cannot be done; returns how many."""
    found = {row.rival.move: row for row in find_bottlenecks(snapshot, change=change).rows}
    for row in found.values():
        expected = fewest(snapshot, row.rival.move, change)
        assert expected is not None
        assert len(row.changes) == expected if is_tree else len(row.changes) >= expected
        assert_flips(snapshot, row, change)
    for edge in snapshot.positions[snapshot.roots[0]].moves.values():
        if edge.move not in found and is_tree and edge.move != best_of(snapshot):
            assert fewest(snapshot, edge.move, change) is None
    return len(found)


def best_of(snapshot: BookSnapshot) -> str:
    values = root_values(snapshot, {})
    return max(values, key=lambda move: values[move])


def assert_flips(snapshot: BookSnapshot, row: Bottleneck, change: float) -> None:
    """Asserts that the set does what it should, and that every leaf of it stays within what it may do."""
    new = {(c.position, c.outside): c.needed for c in row.changes}
    values = root_values(snapshot, new)
    assert all(abs(c.needed - c.value) <= change + 1e-9 for c in row.changes)
    assert all(value_at(snapshot, (c.position, c.outside)) == c.value for c in row.changes)
    mine = row.rival.value if row.rival.outside else values[row.rival.move]
    assert all(mine >= value for value in values.values())


def test_large_sets_flip_larger_books_with_transpositions() -> None:
    sizes = set()
    for seed in range(20):
        book = random_book(1000 + seed, transpose=seed % 2 == 0, plies=6)
        snapshot = book.shape()
        for change in (2.0, 0.3, 0.1):
            for row in find_bottlenecks(snapshot, change=change).rows:
                assert_flips(snapshot, row, change)
                sizes.add(len(row.changes))
    assert max(sizes) > 2
