"""How many moves a position can have: what is let in fits every buffer, and what may not fit is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import chess
import numpy as np
import pytest

from graphsearch.errors import InvalidPositionError
from graphsearch.position.board import check
from graphsearch.position.rules_kernel import MAX_LEGAL_MOVES
from graphsearch.store.record.node import MAX_MOVES
from graphsearch.store.record.node_layout import CAPACITIES

FIFTEEN_QUEENS = "2QQ2Q1/Q4Q2/3Q3Q/1k6/4Q3/2Q4Q/Q4Q2/1KQQ2Q1 w - - 0 1"  # 248 moves
STEPS = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y]
LEAPS = [(x, y) for x in (-2, -1, 1, 2) for y in (-2, -1, 1, 2) if abs(x) != abs(y)]
FIRST = {"Q": 1, "R": 2, "B": 2, "N": 2}  # men of a kind at the start
CASTLINGS = 2

Square = tuple[int, int]
SQUARES: list[Square] = [(file, rank) for file in range(8) for rank in range(8)]


def steps_from(square: Square, steps: list[Square]) -> int:
    return sum(0 <= square[0] + x < 8 and 0 <= square[1] + y < 8 for x, y in steps)


def ray(square: Square, step: Square) -> Iterator[Square]:
    file, rank = square[0] + step[0], square[1] + step[1]
    while 0 <= file < 8 and 0 <= rank < 8:
        yield file, rank
        file, rank = file + step[0], rank + step[1]


def own_moves(kind: str, square: Square) -> int:
    """Returns the most moves of a man that is no slider, whatever stands around it; of a slider 0."""
    if kind == "K":
        return steps_from(square, STEPS) + (CASTLINGS if square == (4, 0) else 0)
    if kind == "N":
        return steps_from(square, LEAPS)
    if kind != "P":
        return 0
    captures, double = steps_from(square, [(-1, 1), (1, 1)]), square[1] == 1
    return 4 * (1 + captures) if square[1] == 6 else 1 + captures + double


class Bound:
    """A linear program whose maximum is at least the number of pseudo-legal moves of every position let in.

    Variables: whether a man of a kind stands on a square; whether a slider goes from one square to another.
    Every position and its moves satisfy the rules below, so the maximum is an upper bound; that a variable
    may lie between 0 and 1 only raises it. Men of the other side are left out: they are captured like
    empty squares, and block.
    """

    def __init__(self) -> None:
        self.gains: list[float] = []  # moves that a variable counts
        self.most: list[float] = []
        self.rows: list[tuple[dict[int, float], float]] = []  # sum of coefficients * variables <= bound
        self.men = {
            (kind, square): self.new(own_moves(kind, square))
            for square in SQUARES
            for kind in "QRBNKP"
            if kind != "P" or 1 <= square[1] <= 6
        }
        for square in SQUARES:
            self.rule(self.at(square), 1)
        self.limit_material()
        self.add_sliders()

    def new(self, gain: float, most: float = 1) -> int:
        self.gains.append(gain)
        self.most.append(most)
        return len(self.gains) - 1

    def rule(self, plus: list[int], bound: float, minus: list[int] | None = None) -> None:
        self.rows.append((dict.fromkeys(plus, 1.0) | dict.fromkeys(minus or [], -1.0), bound))

    def at(self, square: Square) -> list[int]:
        return [self.men[kind, square] for kind in "QRBNKP" if (kind, square) in self.men]

    def of(self, kind: str) -> list[int]:
        return [self.men[kind, square] for square in SQUARES if (kind, square) in self.men]

    def limit_material(self) -> None:
        """One king; promoted men and pawns are at most eight together."""
        self.rule(self.of("K"), 1)
        promoted = []
        for kind, first in FIRST.items():
            promoted.append(self.new(0, 8))
            self.rule(self.of(kind), first, [promoted[-1]])
        self.rule([*promoted, *self.of("P")], 8)

    def add_sliders(self) -> None:
        """A slider goes as far as every square before; the first of a line alone reaches an empty square."""
        into = defaultdict(list)
        for square in SQUARES:
            for step in STEPS:
                kinds = "QR" if 0 in step else "QB"
                before = [self.men[kind, square] for kind in kinds]
                for target in ray(square, step):
                    move = self.new(1)
                    self.rule([move], 0, before)
                    before = [move]
                    into[target, step].append(move)
        for (target, _), moves in into.items():
            self.rule([*moves, *self.at(target)], 1)

    def maximum(self) -> float:
        sparse, optimize = pytest.importorskip("scipy.sparse"), pytest.importorskip("scipy.optimize")
        places = [(i, j, x) for i, (row, _) in enumerate(self.rows) for j, x in row.items()]
        i, j, x = zip(*places, strict=True)
        matrix = sparse.csr_matrix((x, (i, j)), shape=(len(self.rows), len(self.gains)))
        bounds = np.stack([np.zeros(len(self.most)), self.most], axis=1)
        right = [bound for _, bound in self.rows]
        found = optimize.linprog(-np.array(self.gains), A_ub=matrix, b_ub=right, bounds=bounds)
        assert found.success
        return float(-found.fun)


def test_no_position_that_is_let_in_has_more_moves_than_a_record_and_every_buffer_hold() -> None:
    most = Bound().maximum()
    assert 218 <= most < 254  # 218 are known
    assert most < MAX_MOVES < MAX_LEGAL_MOVES <= CAPACITIES[-1]


@pytest.mark.parametrize(
    ("fen", "side"),
    [
        (FIFTEEN_QUEENS, "white"),
        ("qqqqqqqq/qq6/8/8/8/8/8/K1k5 w - - 0 1", "black"),
        ("4k3/8/8/8/8/8/PPPPPPPP/RNBQKBNQ w - - 0 1", "white"),
        ("4k3/8/8/8/8/NNN5/PPPPPPPP/4K3 w - - 0 1", "white"),
    ],
)
def test_more_promoted_pieces_than_pawns_that_are_gone_are_refused(fen: str, side: str) -> None:
    with pytest.raises(InvalidPositionError, match=f"{side} has more promoted pieces than pawns"):
        check(chess.Board(fen))


@pytest.mark.parametrize(
    "fen",
    [
        "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1",  # nine queens, 218 moves
        "4k3/8/8/8/8/NNN5/PPPPPPP1/4K3 w - - 0 1",
        "4k3/8/8/8/8/NNNNNN2/NNNN4/4K3 w - - 0 1",
    ],
)
def test_as_many_promoted_pieces_as_pawns_are_gone_are_let_in(fen: str) -> None:
    check(chess.Board(fen))
