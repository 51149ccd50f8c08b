"""Stored positions by node type: entries put by hand, the walk against a plain one, and the theory."""

from __future__ import annotations

import math
import random
from collections import Counter

import chess
import numpy as np
import pytest

from graphsearch.position.board import key_of, legal_moves
from graphsearch.position.values import MATE
from graphsearch.solvers import nodetypes
from graphsearch.store.entries import TYPES, Entry, EntryTable, encoded
from tests.support.positions import after_each_move, after_line

Put = tuple[str, str, str, str, int]  # moves from the start, bound, best move, searched type, which move cut


def entries_of(table: EntryTable) -> tuple[nodetypes.Words, nodetypes.Words]:
    there = table.arrays.keys != 0
    return table.arrays.keys[there], table.arrays.data[there]


def table_of(puts: list[Put], start: str = chess.STARTING_FEN) -> EntryTable:
    table = EntryTable(0)
    for moves, bound, best, kind, cut in puts:
        board = after_line(moves, start)
        entry = Entry(10, 3, bound, board.parse_san(best) if best else None, kind, cut)
        table.put(board, entry)
    return table


# the start is PV with 1.e4; 1.e4 e5 is its PV; other first moves are Cut, refuted by their first reply
SMALL: list[Put] = [
    ("", "exact", "e4", "pv", 0),
    ("e4", "exact", "e5", "pv", 0),
    ("e4 e5", "exact", "Nf3", "pv", 0),
    ("e4 d5", "lower", "exd5", "cut", 1),
    ("e4 d5 exd5", "upper", "", "all", 0),
    ("e4 d5 exd5 Qxd5", "lower", "Nc3", "cut", 1),
    ("d4", "lower", "d5", "cut", 1),
    ("d4 d5", "upper", "", "all", 0),
    ("d4 d5 c4", "lower", "e6", "cut", 3),
    ("a3", "upper", "", "cut", 0),
    ("a3 e5", "lower", "e4", "cut", 2),
    ("h4", "", "e5", "cut", 0),
]


def matrix(found: nodetypes.Classification, expected_by: str) -> list[list[int]]:
    return [[*row.values()] for row in found.agreement[expected_by].matrix.values()]


def test_a_small_tree_put_by_hand() -> None:
    found = nodetypes.classify(
        chess.Board(), nodetypes.walk(chess.Board(), *entries_of(table_of(SMALL))), len(SMALL)
    )
    assert (found.nodes, found.entries) == (12, 12)
    assert found.actual == {"pv": 3, "cut": 5, "all": 3, "unknown": 1}
    assert [ply.nodes for ply in found.plies] == [
        {"pv": 1, "cut": 0, "all": 0, "unknown": 0},
        {"pv": 1, "cut": 1, "all": 1, "unknown": 1},
        {"pv": 1, "cut": 2, "all": 1, "unknown": 0},
        {"pv": 0, "cut": 1, "all": 1, "unknown": 0},
        {"pv": 0, "cut": 1, "all": 0, "unknown": 0},
    ]
    # leaves: 1.e4 e5, 1.e4 d5 exd5 Qxd5, 1.d4 d5 c4, 1.a3 e5, 1.h4
    assert found.leaves == {"pv": 1, "cut": 3, "all": 0, "unknown": 1}
    assert found.plies[0].moves == 20
    assert found.plies[2].minimal == nodetypes.minimal([20.0, 20.0])
    garms = matrix(found, "garms")
    # expected PV: the start, e4, e4 e5, and found so. Expected Cut: e4 d5, d4, d4 d5 c4, Qxd5, and found so;
    # a3: found All. 1.a3 e5: the only stored reply is the first child of a Cut node, so All: found Cut
    assert garms == [[3, 0, 0], [0, 4, 1], [0, 1, 2]]
    assert matrix(found, "kannan") == garms
    assert matrix(found, "search") == [[3, 0, 0], [0, 5, 1], [0, 0, 2]]
    assert found.agreement["garms"].share == pytest.approx(9 / 11)


def test_a_start_is_expected_to_be_what_its_bound_says() -> None:
    board = after_line("d4")
    found = nodetypes.classify(board, nodetypes.walk(board, *entries_of(table_of(SMALL))), 12)
    # d4 is Cut, its first reply All, what follows Cut; below a PV start it would be PV all along
    assert (found.start, found.as_dict()["start"]) == ("cut", "cut")
    assert matrix(found, "garms") == [[0, 0, 0], [0, 2, 0], [0, 0, 1]]
    assert found.agreement["kannan"].share == 1
    assert [(ply.minimal.pv, ply.minimal.cut, ply.minimal.all) for ply in found.plies] == [
        (0, 1, 0),
        (0, 0, 1),
        (0, found.plies[1].moves, 0),
    ]
    board = after_line("h4")  # without a bound
    assert nodetypes.classify(board, nodetypes.walk(board, *entries_of(table_of(SMALL))), 12).start == "pv"


# ------------------------------------------------------------------ against a walk position by position
def positions(start: chess.Board, plies: int, rng: random.Random) -> list[chess.Board]:
    """Returns positions up to so many plies from a start, each of them once."""
    level, found = [start], {key_of(start): start}
    for _ in range(plies):
        below = []
        for board in level:
            for after in after_each_move(board):
                if rng.random() < 0.4 and key_of(after) not in found:
                    found[key_of(after)] = after
                    below.append(after)
        level = below
    return list(found.values())


def random_entries(boards: list[chess.Board], rng: random.Random) -> dict[int, Entry]:
    entries = {}
    for board in boards:
        moves = list(board.legal_moves)
        move = rng.choice(moves) if moves and rng.random() < 0.8 else None
        bound, kind = rng.choice(["exact", "lower", "lower", "upper", "upper", ""]), rng.choice(TYPES)
        value = rng.choice([5, -5, MATE - 3, 3 - MATE])
        entries[key_of(board)] = Entry(value, rng.randrange(9), bound, move, kind, rng.randrange(5))
    return entries


def plain_walk(start: chess.Board, entries: dict[int, Entry]) -> dict[int, tuple[int, ...]]:
    """Returns (ply, Garms, Kannan, moves, stored) by key, one position after the other."""
    kind = {"lower": 2, "upper": 3}.get(entries[key_of(start)].bound, 1)
    found = {key_of(start): [0, kind, kind]}
    facts: dict[int, tuple[int, ...]] = {}
    level = [start]
    while level:
        below: dict[int, chess.Board] = {}
        for board in level:
            key = key_of(board)
            ply, garms, kannan = found[key]
            pairs = zip(legal_moves(board), after_each_move(board), strict=True)
            children = [(move, after) for move, after in pairs if key_of(after) in entries]
            facts[key] = (ply, garms, kannan, board.legal_moves.count(), len(children))
            for place, (move, after) in enumerate(children):
                way = plain_way(board, move, entries[key].move, place)
                own = found.setdefault(key_of(after), [ply + 1, 9, 9])
                if own[0] == ply + 1:
                    own[1:] = (
                        min(own[1], int(nodetypes.GARMS[garms, way])),
                        min(own[2], int(nodetypes.KANNAN[kannan, way])),
                    )
                    below[key_of(after)] = after
        level = list(below.values())
    return facts


def plain_way(board: chess.Board, move: chess.Move, best: chess.Move | None, place: int) -> int:
    if move == best or (best is None and place == 0):
        return nodetypes.FIRST
    return nodetypes.CANDIDATE if board.is_capture(move) or board.gives_check(move) else nodetypes.FURTHER


@pytest.mark.parametrize(
    "fen",
    [
        "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
        "r3k2r/8/8/2pPp3/8/8/8/R3K2R w KQkq c6 0 2",
        "8/P1k5/8/8/8/8/5K1p/8 b - - 74 90",
    ],
)
def test_the_walk_in_bulk_is_the_walk_position_by_position(fen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(fen)
    start = chess.Board(fen)
    boards = positions(start, 3, rng)[:600]
    entries = random_entries(boards, rng)
    plain = plain_walk(start, entries)
    keys = np.array([key_of(board) for board in boards], np.uint64)
    data = np.array([encoded(entries[key_of(board)], board) for board in boards], np.uint64)
    for rows in (nodetypes.STEP_ROWS, 7):  # the moves of a level at once, or in portions
        monkeypatch.setattr(nodetypes, "STEP_ROWS", rows)
        nodes = nodetypes.walk(start, keys, data)
        columns = (nodes.ply, nodes.garms, nodes.kannan, nodes.moves, nodes.stored)
        assert sorted(zip(*(column.tolist() for column in columns), strict=True)) == sorted(plain.values())
    proofs = sum(1 for key in plain if entries[key].mate_plies is not None)
    assert (int(nodes.proven.sum()), len(nodes)) == (proofs, len(plain))
    for kind, bound in ((1, "exact"), (2, "lower"), (3, "upper"), (0, "")):
        assert (nodes.actual == kind).sum() == sum(entries[key].bound == bound for key in plain)


# ------------------------------------------------------------------ node types in theory
def counted(branchings: list[int], root: str) -> tuple[int, int, int]:
    now = {"pv": 0, "cut": 0, "all": 0} | {root: 1}
    for moves in branchings:
        cut = (moves - 1) * now["pv"] + moves * now["all"]
        now = {"pv": now["pv"], "cut": cut, "all": now["cut"]}
    return now["pv"], now["cut"], now["all"]


@pytest.mark.parametrize("root", ["pv", "cut", "all"])
def test_the_formula_holds_where_the_number_of_moves_differs_from_ply_to_ply(root: str) -> None:
    for branchings in ([], [7], [20, 30], [2, 3, 5], [2, 3, 5, 7], [1, 9, 1, 9, 2]):
        leaves = nodetypes.minimal(branchings, root)
        assert (leaves.pv, leaves.cut, leaves.all) == counted(branchings, root)


def test_what_no_floating_point_number_holds_is_infinite_and_null_in_json() -> None:
    deep = nodetypes.minimal([30.5] * 600)
    assert (deep.cut, deep.as_dict()["cut"], deep.as_dict()["total"]) == (math.inf, None, None)


RULES = {"garms": nodetypes.GARMS, "kannan": nodetypes.KANNAN}


class UniformTree:
    """A tree with b moves at every node, the best one first, and the nodes of alpha-beta by ply and type.

    The value of a position is that of its first child, negated; every other child is worse for the mover.
    """

    def __init__(self, branching: int, depth: int) -> None:
        self.branching, self.depth = branching, depth
        self.types: Counter[tuple[int, str]] = Counter()
        self.as_expected: Counter[tuple[str, bool]] = Counter()

    def minimax(self, value: int, ply: int) -> int:
        if ply == self.depth:
            return value
        return max(-self.minimax(self.child(value, i), ply + 1) for i in range(self.branching))

    def child(self, value: int, place: int) -> int:
        return -value + (place and 1 + place % 3)

    def search(self, value: int, ply: int, alpha: float, beta: float, kinds: dict[str, str]) -> float:
        best: float = value if ply == self.depth else -math.inf
        for place in range(self.branching if ply < self.depth else 0):
            way = nodetypes.FURTHER if place else nodetypes.FIRST
            below = {name: TYPES[RULES[name][TYPES.index(kind), way]] for name, kind in kinds.items()}
            window = -beta, -max(alpha, best)
            best = max(best, -self.search(self.child(value, place), ply + 1, *window, below))
            if best >= beta:
                break
        kind = nodetypes.CUT if best >= beta else nodetypes.ALL if best <= alpha else nodetypes.PV
        self.types[ply, kind] += 1
        for rules, wanted in kinds.items():
            self.as_expected[rules, kind == wanted] += 1
        return best


@pytest.mark.parametrize(("branching", "depth"), [(1, 5), (2, 9), (3, 6), (5, 4), (40, 3)])
def test_alpha_beta_in_perfect_order_visits_the_minimal_tree_and_the_expected_types(
    branching: int, depth: int
) -> None:
    tree = UniformTree(branching, depth)
    found = tree.search(7, 0, -math.inf, math.inf, dict.fromkeys(RULES, nodetypes.PV))
    assert found == tree.minimax(7, 0) == 7
    for ply in range(depth + 1):
        wanted = nodetypes.minimal([branching] * ply)
        assert [tree.types[ply, kind] for kind in nodetypes.KINDS] == [wanted.pv, wanted.cut, wanted.all]
    assert not any(tree.as_expected[name, False] for name in RULES)
