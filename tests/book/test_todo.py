"""What a book needs next: leaves, gaps, and bottlenecks against brute force."""

from __future__ import annotations

import itertools
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.book.bottlenecks import Bottleneck, find_bottlenecks
from graphsearch.book.queue import items
from graphsearch.book.todo import MissingReply, Rivalry, todo
from graphsearch.book.tree import BookTree, Position
from graphsearch.position.board import legal_moves
from graphsearch.store.store import Store

from ..support.books import Handmade, random_book, small_book
from ..support.positions import after_line


@pytest.fixture
def white(tmp_path: Path) -> Path:
    return small_book().write(tmp_path / "white.graph")


# --------------------------------------------------------------------- leaves
def test_leaves_come_in_the_order_of_their_priority_with_their_line(white: Path) -> None:
    found = todo(white, "white")
    assert [row.positions[0].line for row in found.rows] == ["1. e4 c5", "1. e4 e5", "1. d4 d5"]
    assert [row.as_dict()["priority"] for row in found.rows] == [1.5, 3.0, None]
    first = found.rows[0].as_dict()
    assert (first["position"], first["moves"]) == (after_line("e4 c5").fen(), ["e2e4", "c7c5"])
    assert (first["root"], first["ply"]) == (chess.STARTING_FEN, 2)
    assert len(todo(white, "white", top=2).rows) == 2
    assert [entry.fen for entry in found.items()] == [row.positions[0].position for row in found.rows]


def test_leaves_that_no_line_leads_to_any_more_are_not_listed(white: Path) -> None:
    before = [row.positions[0].line for row in todo(white, "white", "leaves").rows]
    with Store.open(white) as store, store.transaction():
        gone = store.connection.execute("DELETE FROM book_move WHERE san = 'd4'").rowcount
    assert gone == 1
    after = [row.positions[0].line for row in todo(white, "white", "leaves").rows]
    assert after == [line for line in before if not line.startswith("1. d4")] != before


# ----------------------------------------------------------------------- gaps
def gaps(path: Path, **options: float) -> list[MissingReply]:
    found = todo(path, "white", "gaps", top=int(options.pop("top", 0)), **options)  # type: ignore[arg-type]
    return [row for row in found.rows if isinstance(row, MissingReply)]


def test_gaps_are_the_likely_replies_that_the_book_lacks(tmp_path: Path) -> None:
    path = tmp_path / "w.graph"
    with Graph.open(path) as graph:
        for line in ("", "e4", "d4"):
            analyze(graph, after_line(line), Limits(visits=20))
    small_book().write(path)
    found = gaps(path, min_p=0.04)
    replies = [row for row in found if row.target.move]
    assert replies
    with Store.open(path, read_only=True) as store:
        for line in ("e4", "d4"):
            board = after_line(line)
            record = store.read(board)
            assert record is not None
            likely = {m.uci() for m, p in zip(legal_moves(board), record.priors, strict=True) if p >= 0.04}
            in_book = {"e4": {"e7e5", "c7c5"}, "d4": {"d7d5"}}[line]
            assert {
                row.target.move for row in replies if row.target.position == board.fen()
            } == likely - in_book
    for row in replies:
        assert row.p is not None
        assert row.reach == pytest.approx(row.p)  # White's own moves count 1
    assert [row.reach for row in found] == sorted((row.reach for row in found), reverse=True)
    assert gaps(path, min_p=0.04, top=5) == found[:5]


def test_own_positions_without_a_move_are_gaps_as_likely_as_the_replies_before(white: Path) -> None:
    found = [(row.target.line, row.reach) for row in gaps(white) if row.target.move is None]
    assert found == [("1. d4 d5", 0.5), ("1. e4 c5", 0.4), ("1. e4 e5", 0.3)]


def test_imported_games_make_a_reply_a_gap_and_their_share_its_weight(tmp_path: Path) -> None:
    book = small_book()
    book.played("e4", "c6", 25)
    book.played("e4", "e5", 70)
    book.played("e4", "a6", 5)
    path = book.write(tmp_path / "a.graph")
    first = [row for row in gaps(path) if row.target.position == after_line("e4").fen()]
    assert [(row.target.line, row.reach, row.games, row.p) for row in first] == [("1. e4 c6", 0.25, 25, None)]
    waiting = {row.target.line: row.reach for row in gaps(path) if row.target.move is None}
    assert waiting["1. e4 e5"] == 0.7
    assert waiting["1. e4 c5"] == 0.0
    assert {row.target.line for row in gaps(path, min_games=5)} >= {"1. e4 c6", "1. e4 a6"}


def test_what_the_author_left_out_is_no_gap(tmp_path: Path) -> None:
    book = small_book()
    book.played("e4", "c6", 100)
    book.played("d4", "Nf6", 100)
    book.config = (
        '[book]\nside = "white"\nmax_ply = 24\n[[exclude]]\nmoves = "1. e4"\nplay = ["c6"]\n'
        '[[force]]\nmoves = "1. d4"\nplay = ["d5"]\nonly = true\n'
    )
    path = book.write(tmp_path / "a.graph")
    assert all(row.target.move is None for row in gaps(path))
    book.name, book.config = "other", '[book]\nside = "white"\nmax_ply = 2\n'
    book.write(path)
    assert all(row.positions[0].move is None for row in todo(path, "other", "gaps").rows)


def test_in_a_book_of_both_sides_every_move_is_a_reply(tmp_path: Path) -> None:
    book = small_book()
    book.side = "both"
    book.played("", "c4", 80)
    book.played("", "e4", 20)
    path = book.write(tmp_path / "a.graph")
    found = {row.target.line: row.reach for row in gaps(path)}
    assert found["1. c4"] == pytest.approx(0.8)
    assert found["1. e4 e5"] == pytest.approx(0.2 * 0.3)


def test_a_line_that_leads_back_ends_there(tmp_path: Path) -> None:
    book = Handmade(side="both")
    book.root()
    book.put("", "open", 0.0)
    book.put("Nf3", "open", 0.0)
    book.put("Nf3 Nf6", "open", 0.0)
    book.put("Nf3 Nf6 Ng1", "open", 0.0)
    for line, san in (("", "Nf3"), ("Nf3", "Nf6"), ("Nf3 Nf6", "Ng1"), ("Nf3 Nf6 Ng1", "Ng8")):
        book.link(line, san, 0.3, 0.0)
    book.link("", "e4", 0.3, 0.2)
    book.put("e4", "leaf", -0.2)
    tree = book.shape()
    book.write(tmp_path / "a.graph")
    back = [(one, move) for one in tree.ordered() for move in one.moves.values() if move.san == "Ng8"]
    assert [tree.goes_on(position, move) for position, move in back] == [False]
    (row,) = find_bottlenecks(tree).rows
    assert (row.best.san, len(row.changes)) == ("e4", 1)  # the way back is no leaf; e4 can fall
    assert [r.positions[0].line for r in todo(tmp_path / "a.graph", "white", "gaps").rows]


def test_verdicts_are_told_with_lines_and_go_into_the_queue_once(white: Path) -> None:
    found = todo(white, "white", "bottlenecks")
    rows = [row for row in found.rows if isinstance(row, Rivalry)]
    assert [(row.best_san, row.rival_san, row.outside) for row in rows] == [
        ("1. e4", "1. d4", False),
        ("1. e4", "1. c4", True),
    ]
    assert [len(row.leaves) for row in rows] == [1, 2]
    assert {leaf.target.line for leaf in rows[1].leaves} == {"1. d4 d5", "1. e4 e5"}
    assert len(found.items()) == 2


def test_reading_changes_nothing_and_needs_no_queue(white: Path) -> None:
    before = white.read_bytes()
    for kind in ("leaves", "gaps", "bottlenecks"):
        todo(white, "white", kind)
    assert white.read_bytes() == before
    assert list(items(white)) == []


# ------------------------------------------------------------------ bottlenecks
def test_what_is_proven_never_changes() -> None:
    book = Handmade(side="both")
    book.root()
    book.put("", "open", 1.0)
    book.link("", "e4", 0.4, 1.0)
    book.link("", "d4", 0.4, 0.0)
    book.put("e4", "leaf", -1.0)
    book.put("d4", "leaf", 0.0)
    tree = book.shape()
    (row,) = find_bottlenecks(tree).rows
    assert [tree.positions[change.position].fen for change in row.changes] == [after_line("d4").fen()]
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


def minimax(tree: BookTree, new: dict[tuple[str, bool], float], number: str) -> float:
    """Returns the value of a position with other values at some leaves; written down as defined."""
    position = tree.positions[number]
    values = []
    if position.state == "open":
        for move in position.moves.values():
            assert tree.goes_on(position, move)
            values.append(-minimax(tree, new, move.child))
        if position.outside is not None:
            values.append(new.get((number, True), position.outside))
    return max(values) if values else new.get((number, False), value_at(tree, (number, False)))


def root_values(tree: BookTree, new: dict[tuple[str, bool], float]) -> dict[str, float]:
    moves = tree.positions[tree.roots[0]].moves.values()
    return {move.move: -minimax(tree, new, move.child) for move in moves}


def leaves_of(tree: BookTree) -> list[tuple[str, bool]]:
    """Returns what may change: leaves, and moves outside the book but those of the root."""
    found: list[tuple[str, bool]] = []
    for number, position in tree.positions.items():
        if position.state != "open" or not position.moves:
            found.append((number, False))
        elif position.outside is not None and number not in tree.roots:
            found.append((number, True))
    return found


def fewest(tree: BookTree, rival: str, change: float) -> int | None:
    """Returns how few leaves, at either end of where they may go, make a rival as good, by trying all."""
    leaves = leaves_of(tree)
    start = {place: value_at(tree, place) for place in leaves}
    for count in range(len(leaves) + 1):
        for places in itertools.combinations(leaves, count):
            for ends in itertools.product((-1.0, 1.0), repeat=count):
                new = {
                    p: max(-1.0, min(1.0, start[p] + e * change)) for p, e in zip(places, ends, strict=True)
                }
                values = root_values(tree, new)
                mine = values.get(rival, tree.positions[tree.roots[0]].outside or 0.0)
                if all(mine >= value for value in values.values()):
                    return count
    return None


def value_at(tree: BookTree, place: tuple[str, bool]) -> float:
    number, outside = place
    position: Position = tree.positions[number]
    if outside:
        assert position.outside is not None
        return position.outside
    if position.value is not None:
        return position.value
    ways = [
        move.value for above in tree.ordered() for move in above.moves.values() if move.child == position.key
    ]
    return -ways[0] if ways and ways[0] is not None else 0.0


@pytest.mark.parametrize("transpose", [False, True])
def test_bottlenecks_are_what_trying_all_sets_finds(transpose: bool) -> None:
    compared = shared = 0
    for seed in range(60 if transpose else 80):
        book = random_book(seed, transpose=transpose, plies=3)
        if sum(row["state"] != "open" for row in book.rows.values()) > 7:
            continue  # too many sets to try
        tree = book.shape()
        if len(leaves_of(tree)) > 7 or len(tree.positions[tree.roots[0]].moves) < 2:
            continue
        in_degrees = [move.child for p in tree.ordered() for move in p.moves.values()]
        is_tree = len(in_degrees) == len(set(in_degrees))
        shared += not is_tree
        compared += sum(compare(tree, change, is_tree=is_tree) for change in (2.0, 0.35))
    assert compared > 10
    assert (shared > 1) == transpose


def compare(tree: BookTree, change: float, *, is_tree: bool) -> int:
    """Asserts that the sets are the smallest, and that what has none cannot be done; returns how many."""
    found = {row.rival.move: row for row in find_bottlenecks(tree, change=change).rows}
    for row in found.values():
        expected = fewest(tree, row.rival.move, change)
        assert expected is not None
        assert len(row.changes) == expected if is_tree else len(row.changes) >= expected
        assert_flips(tree, row, change)
    for edge in tree.positions[tree.roots[0]].moves.values():
        if edge.move not in found and is_tree and edge.move != best_of(tree):
            assert fewest(tree, edge.move, change) is None
    return len(found)


def best_of(tree: BookTree) -> str:
    values = root_values(tree, {})
    return max(values, key=lambda move: values[move])


def assert_flips(tree: BookTree, row: Bottleneck, change: float) -> None:
    """Asserts that the set does what it should, and that every leaf of it stays within what it may do."""
    new = {(c.position, c.outside): c.needed for c in row.changes}
    values = root_values(tree, new)
    assert all(abs(c.needed - c.value) <= change + 1e-9 for c in row.changes)
    assert all(value_at(tree, (c.position, c.outside)) == c.value for c in row.changes)
    mine = row.rival.value if row.rival.outside else values[row.rival.move]
    assert all(mine >= value for value in values.values())


def test_large_sets_flip_larger_books_with_transpositions() -> None:
    sizes = set()
    for seed in range(20):
        book = random_book(1000 + seed, transpose=seed % 2 == 0, plies=6)
        tree = book.shape()
        for change in (2.0, 0.3, 0.1):
            for row in find_bottlenecks(tree, change=change).rows:
                assert_flips(tree, row, change)
                sizes.add(len(row.changes))
    assert max(sizes) > 2
