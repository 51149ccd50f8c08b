"""The built-in evaluator's kernels: symmetry, ranges, tactics, and the bounds of their work area."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch.evaluators.builtin.evaluation_kernel import EVALUATION_SCRATCH_WORDS
from graphsearch.evaluators.builtin.layout import FITTED_COUNT, MOVE_GROUPS, SCALAR_GROUPS, TAPERED_GROUPS
from graphsearch.evaluators.builtin.quiescence_kernel import SEARCH_WORDS, exchange_of, quiescent_score
from graphsearch.evaluators.builtin.weights import load_weights, weights_from_groups, with_depth
from graphsearch.position.board import pack
from graphsearch.position.rules_kernel import list_moves
from graphsearch.position.scores import FAR
from graphsearch.position.tables import load_tables
from tests.support.evaluating import batch_evaluated, evaluated

REPOSITORY = Path(__file__).parents[2]
GUARD = 0x5AFE5AFE5AFE5AFE

FENS = [
    chess.STARTING_FEN,
    "r1bqk2r/pppp1ppp/2n2n2/2b1p3/2B1P3/2NP1N2/PPP2PPP/R1BQK2R b KQkq - 0 5",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",  # en passant
    "8/4P1k1/8/8/8/8/1p4K1/8 w - - 0 1",  # both sides promote
    "rnb1kbnr/pppp1ppp/8/4p3/5PPq/8/PPPPP2P/RNBQKBNR w KQkq - 1 3",  # mated: see `positions`
    "4k3/8/8/8/8/5n2/8/R3K2R w KQ - 0 1",  # in check
    "6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1",  # mate in one
    "7k/8/6QK/8/8/8/8/8 w - - 0 1",  # stalemate and mate are near
    "8/8/4k3/8/8/3K4/4P3/8 b - - 12 60",
    "1r4k1/2P3pp/8/8/8/8/6PP/6K1 w - - 0 1",
    "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1",  # 218 moves
]


def positions(*, count: int = 150) -> list[chess.Board]:
    """Returns the fixed positions and some from random games, none of them finished."""
    rng = random.Random(5)
    out = [chess.Board(fen) for fen in FENS]
    while len(out) < count:
        board = chess.Board()
        for _ in range(rng.randint(1, 120)):
            if board.is_game_over():
                break
            board.push(rng.choice(list(board.legal_moves)))
        out.append(board)
    return [board for board in out if not board.is_game_over()]


def name_of(move: int) -> str:
    promotion = move >> 12
    return chess.Move(move & 63, move >> 6 & 63, promotion + 1 if promotion else None).uci()


def evaluate(
    board: chess.Board, scratch: np.ndarray | None = None, weights: np.ndarray | None = None
) -> tuple[np.ndarray, dict[str, float]]:
    wdl, priors, moves = evaluated(pack(board), scratch, weights)
    return wdl, dict(zip(map(name_of, moves.tolist()), priors.tolist(), strict=True))


def q_of(fen: str) -> float:
    wdl, _ = evaluate(chess.Board(fen))
    return float(wdl[0] - wdl[2])


def best_of(fen: str) -> str:
    _, priors = evaluate(chess.Board(fen))
    return max(priors, key=priors.__getitem__)


def flipped(uci: str) -> str:
    return "".join(str(9 - int(c)) if c.isdigit() else c for c in uci)


def score(fen: str) -> int:
    return int(
        quiescent_score(
            load_tables(),
            load_weights(),
            pack(chess.Board(fen)),
            -FAR,
            FAR,
            np.zeros(SEARCH_WORDS, np.uint64),
        )
    )


def test_colour_flip_gives_the_same_value_and_mirrored_priors() -> None:
    for board in positions():
        wdl, priors = evaluate(board)
        other, mirrored = evaluate(board.mirror())
        assert np.array_equal(wdl, other), board.fen()
        assert priors.keys() == {flipped(uci) for uci in mirrored}
        for uci, prior in mirrored.items():
            assert priors[flipped(uci)] == pytest.approx(prior, rel=1e-5), board.fen()


def test_priors_are_positive_and_sum_to_one() -> None:
    for board in positions():
        _, priors = evaluate(board)
        assert len(priors) == board.legal_moves.count()
        assert min(priors.values()) > 0
        assert sum(priors.values()) == pytest.approx(1, abs=1e-5)


def test_win_draw_and_loss_are_chances() -> None:
    for board in positions():
        wdl, _ = evaluate(board)
        assert wdl.sum() == pytest.approx(1, abs=1e-6)
        assert wdl.min() >= 0
        assert wdl.max() <= 1


def test_nothing_outside_the_work_area_is_written() -> None:
    margin = 64
    area = np.full(EVALUATION_SCRATCH_WORDS + 2 * margin, GUARD, np.uint64)
    for board in positions(count=60):
        evaluate(board, area[margin:-margin])
    assert (area[:margin] == GUARD).all()
    assert (area[-margin:] == GUARD).all()


def test_the_work_area_keeps_nothing_from_one_evaluation_to_the_next() -> None:
    dirty = np.full(EVALUATION_SCRATCH_WORDS, GUARD, np.uint64)
    for board in positions(count=60):
        fresh, again = evaluate(board), evaluate(board, dirty)
        assert np.array_equal(fresh[0], again[0])
        assert fresh[1] == again[1]


def test_batch_is_what_single_evaluations_are() -> None:
    boards = positions(count=20)
    words, lists = np.concatenate([pack(b) for b in boards]), []
    for board in boards:
        moves = np.zeros(256, np.uint16)
        lists.append(moves[: int(list_moves(load_tables(), pack(board), moves))])
    offsets = np.cumsum([0, *map(len, lists)])
    wdl, priors = batch_evaluated(words, np.concatenate(lists), offsets)
    for b, board in enumerate(boards):
        one, single = evaluate(board)
        assert np.array_equal(wdl[b], one)
        assert priors[offsets[b] : offsets[b + 1]].tolist() == list(single.values())


@pytest.mark.parametrize("depth", [0, 2, 3])
def test_a_value_does_not_depend_on_what_was_evaluated_before(depth: int) -> None:
    weights = with_depth(load_weights(), depth)
    used = np.zeros(EVALUATION_SCRATCH_WORDS, np.uint64)
    boards = positions(count=24)
    fresh = [evaluate(board, weights=weights) for board in boards]
    again = [evaluate(board, used, weights) for board in reversed(boards)]
    for one, other in zip(fresh, reversed(again), strict=True):
        assert np.array_equal(one[0], other[0])
        assert one[1] == other[1]


def test_a_deeper_look_sees_a_mate_in_two() -> None:
    board = chess.Board("rn2N3/8/4R2b/B3R3/3kP1N1/K2n4/8/1q6 w - - 0 1")  # by Rd5+
    wins = [evaluate(board, weights=with_depth(load_weights(), depth))[0][0] for depth in (1, 2)]
    assert wins[0] < 0.9
    assert wins[1] > 0.99


def test_uncompiled_code_gives_the_same() -> None:
    fens = [FENS[1], FENS[3], FENS[4], FENS[5], FENS[7], FENS[8]]
    script = (
        "import json, sys, chess\n"
        f"sys.path[:0] = [{str(REPOSITORY)!r}, {str(Path(__file__).parent)!r}]\n"
        "from test_evaluation import evaluate\n"
        "for fen in json.loads(sys.argv[1]):\n"
        "    wdl, priors = evaluate(chess.Board(fen))\n"
        "    print(json.dumps([wdl.tolist(), priors]))\n"
    )
    command = [sys.executable, "-c", script, json.dumps(fens)]
    plain = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    out = subprocess.run(command, env=plain, capture_output=True, text=True, check=True).stdout
    for fen, line in zip(fens, out.splitlines(), strict=True):
        wdl, priors = evaluate(chess.Board(fen))
        other_wdl, other_priors = json.loads(line)
        assert wdl.tolist() == pytest.approx(other_wdl, abs=1e-6)
        assert priors == pytest.approx(other_priors, rel=1e-5)


def test_mate_in_one_is_won_and_chosen() -> None:
    assert q_of("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1") > 0.99
    assert best_of("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1") == "a1a8"


def test_a_lost_queen_is_seen_through_the_exchange() -> None:
    defended = "4k3/8/2p5/3p4/8/8/3Q4/4K3 w - - 0 1"
    assert score(defended) < score("4k3/8/8/3p4/8/8/3Q4/4K3 w - - 0 1")
    assert best_of("q3k3/8/8/8/8/8/8/R3K3 w Q - 0 1") == "a1a8"


def test_promotion_is_searched() -> None:
    assert score("8/4P1k1/8/8/8/8/6K1/8 w - - 0 1") > 5000
    assert best_of("1r4k1/2P3pp/8/8/8/8/6PP/6K1 w - - 0 1").startswith(("c7b8q", "c7c8q"))


def test_en_passant_is_a_capture() -> None:
    tables, gains = load_tables(), np.zeros(32, np.uint64)
    words = pack(chess.Board("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 2"))
    assert exchange_of(tables, words, chess.E5 | chess.D6 << 6, gains) == 1000


@pytest.mark.parametrize(
    ("fen", "uci", "gain"),
    [
        ("4k3/8/2p5/3p4/8/8/3Q4/4K3 w - - 0 1", "d2d5", 1000 - 9500),
        ("4k3/8/8/3p4/8/8/3Q4/4K3 w - - 0 1", "d2d5", 1000),
        ("3rk3/3r4/8/3p4/8/3R4/3R4/4K3 w - - 0 1", "d3d5", 1000 - 5000),  # x-rays on both sides
        ("3rk3/8/8/3p4/8/3R4/3R4/4K3 w - - 0 1", "d3d5", 1000),
        ("4k3/8/8/8/8/8/8/4KQ2 w - - 0 1", "f1f5", 0),
        ("4k3/8/4p3/8/8/8/8/4KQ2 w - - 0 1", "f1f5", -9500),
        ("1r2k3/2P5/8/8/8/8/8/4K3 w - - 0 1", "c7b8q", 5000 + 8500),
    ],
)
def test_static_exchange(fen: str, uci: str, gain: int) -> None:
    move = chess.Move.from_uci(uci)
    packed = move.from_square | move.to_square << 6 | (move.promotion - 1 if move.promotion else 0) << 12
    assert exchange_of(load_tables(), pack(chess.Board(fen)), packed, np.zeros(32, np.uint64)) == gain


def test_check_is_answered_not_stood_on() -> None:
    # Black's queen is attacked, but White is in check and loses the rook first.
    in_check = "3qk3/8/8/8/8/5n2/8/R2RK3 w - - 0 1"
    assert chess.Board(in_check).is_check()
    assert score(in_check) < score("3qk3/8/8/8/8/8/8/R2RK3 w - - 0 1")


def test_stalemate_is_not_a_win() -> None:
    # Taking the last pawn with the queen stalemates; the priors prefer other moves.
    _, priors = evaluate(chess.Board("7k/8/6QK/8/8/8/8/8 w - - 0 1"))
    mates = {"g6g7", "g6e8"}
    assert max(priors, key=priors.__getitem__) in mates
    stalemate = "k7/8/1K6/8/8/8/8/1Q6 w - - 0 1"
    _, priors = evaluate(chess.Board(stalemate))
    assert priors["b1c1"] > 0


@pytest.mark.parametrize(
    "fen",
    [
        "4k3/8/8/8/8/8/8/4KB2 w - - 0 1",
        "4k3/8/8/8/8/8/8/4KN2 w - - 0 1",
        "4k3/8/8/8/8/8/8/3NKN2 w - - 0 1",
        "4k1b1/8/8/8/8/8/8/4KB2 w - - 0 1",
    ],
)
def test_too_little_material_is_not_winning(fen: str) -> None:
    wdl, _ = evaluate(chess.Board(fen))
    assert abs(wdl[0] - wdl[2]) < 0.05
    assert wdl[1] > 0.5


def test_more_material_is_better() -> None:
    queen_up = "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    assert q_of(queen_up) > 0.9
    assert q_of(queen_up.replace(" w ", " b ")) < -0.9
    assert abs(q_of(chess.STARTING_FEN)) < 0.3


def test_weights_file_must_fit_the_layout() -> None:
    groups = {
        name: [[0, 0]] * size if name not in SCALAR_GROUPS else [0] * size
        for name, size in (TAPERED_GROUPS | MOVE_GROUPS | SCALAR_GROUPS).items()
    }
    assert not weights_from_groups(groups)[:FITTED_COUNT].any()
    with pytest.raises(ValueError, match="tempo"):
        weights_from_groups({**groups, "tempo": []})
    with pytest.raises(ValueError, match="tempo"):
        weights_from_groups({name: value for name, value in groups.items() if name != "tempo"})
