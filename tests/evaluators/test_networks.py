"""The built-in evaluator: its networks say what their arrays say; the tools that make them, JAX or not."""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import itertools
import json
import math
import os
import random
import threading
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
from numpy.typing import NDArray

from graphsearch import Graph, Limits, analyze
from graphsearch.evaluators import batch_kernel, endings_kernel, factory, inside, protocol
from graphsearch.evaluators.builtin import evaluator, layout
from graphsearch.evaluators.builtin.evaluation_kernel import (
    AREA_WORDS,
    MOST_FEATURES,
    SCRATCH_WORDS,
    evaluate_batch,
    static_at,
)
from graphsearch.evaluators.nnue.evaluation_kernel import area_words
from graphsearch.evaluators.nnue.evaluator import ARCHITECTURES
from graphsearch.evaluators.nnue.layout import WIDTH
from graphsearch.evaluators.protocol import checked as valid
from graphsearch.evaluators.quiescence_kernel import FRAME_WORDS, FRAMES, KEPT, STACK_WORDS, copy_words
from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import U, adv, ptr
from graphsearch.jit.types import int64
from graphsearch.position.board import after, encode_move, pack, unpack
from graphsearch.position.board_kernel import PW, make_move
from graphsearch.position.tables import load_tables
from graphsearch.position.values import FAR, LEAST_MATE, LEAST_WON
from tests.conftest import present
from tests.support import nnue, plain, pools, positions
from tools.training import games_kernel
from tools.training.__main__ import main
from tools.training.dealing import Dealer, sharpened, starts, with_starts
from tools.training.networks import State, rounded, unrounded, write_networks

WORTH = (0, 1, 3, 3, 5, 9, 99)
GUARD = 0x5AFE5AFE5AFE5AFE
WIDTHS = 128, 64


def small_networks(seed: int = 1) -> evaluator.Networks:
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, (_, dtype, shape) in evaluator.ARRAYS.items():
        size = shape(*WIDTHS)
        if dtype == "<f4":
            arrays[name] = rng.uniform(-0.5, 0.5, size).astype(dtype)
        else:
            most = 60 if name.endswith(("rows", "bias")) else 300
            arrays[name] = rng.integers(-most, most, size).astype(dtype)
    arrays["value_plain"][1] = 1e-7
    arrays["class_plain"][-1] = 1e-7
    return evaluator.Networks.of(arrays, {"value_width": WIDTHS[0], "policy_width": WIDTHS[1]})


NETWORKS = small_networks()


@cache
def boards_of_games() -> list[chess.Board]:
    return [unpack(words.tolist()) for words in positions.random_words(300)]


def turn_of(board: chess.Board, view: bool) -> int:
    """Returns what squares are XORed with in a side's view."""
    king = present(board.king(view))
    return (0 if view else 56) ^ (7 if chess.square_file(king) > 3 else 0)


BUCKETS = ("00122100", "33444433", "55555555", "55555555", "66666666", "66666666", "77777777", "77777777")


def features(board: chess.Board, view: bool) -> list[int]:
    """Returns the features of a side's view, by python-chess."""
    turn = turn_of(board, view)
    king = present(board.king(view))
    king ^= 0 if view else 56
    bucket = int(BUCKETS[king // 8][king % 8])
    found = []
    for square, piece in board.piece_map().items():
        attackers = [board.piece_type_at(a) or 0 for a in board.attackers(not piece.color, square)]
        less = any(WORTH[a] < WORTH[piece.piece_type] for a in attackers)
        attacked = 2 if less else int(bool(attackers))
        state = 2 * attacked + board.is_attacked_by(piece.color, square)
        kind = piece.piece_type - 1 + (0 if piece.color == view else 6)
        man = 64 * kind + (square ^ turn)
        found.append(768 * bucket + man)
        if state != 1:
            found.append(768 * (layout.KING_BUCKETS + max(state - 1, 0)) + man)
    return found


def hidden(rows: NDArray[np.int16], bias: NDArray[np.int16], which: list[int]) -> NDArray[np.int64]:
    sums = bias.astype(np.int64) + rows[which].astype(np.int64).sum(axis=0)
    out: NDArray[np.int64] = np.clip(sums, 0, layout.FULL) ** 2
    return out


def expected_value(board: chess.Board) -> tuple[float, float, float]:
    """Returns score, draw width and noise, by NumPy."""
    a = NETWORKS.arrays
    both = np.concatenate(
        [
            hidden(a["value_rows"], a["value_bias"], features(board, side))
            for side in (board.turn, not board.turn)
        ]
    )
    stack = (len(board.piece_map()) - 1) // layout.MEN_PER_STACK
    sums = a["value_first"][stack].reshape(layout.FIRST + layout.OUTPUTS, -1).astype(np.int64) @ both
    first = a["value_plain"][0, stack].astype(float) + a["value_plain"][1, stack].astype(float) * sums
    x = np.clip(first[: layout.FIRST], 0, 1)
    second = np.concatenate([x, x**2, [1]]) @ a["value_second"][stack].astype(float)
    outputs = first[layout.FIRST :] + np.clip(second, 0, 1) @ a["value_last"][stack].astype(float)
    score, width, noise = outputs.tolist()
    return score, math.exp(np.clip(width, *layout.WIDTH_RANGE)), math.exp(np.clip(noise, *layout.NOISE_RANGE))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_the_value_of_a_quiet_position_is_what_the_arrays_say() -> None:
    boards = []
    for board in boards_of_games():
        forcing = (board.is_capture(move) or move.promotion for move in board.legal_moves)
        if not (board.is_check() or board.is_insufficient_material() or any(forcing)):
            boards.append(board)
    assert len(boards) > 20
    found = evaluator.BuiltinEvaluator(networks=NETWORKS).evaluate(protocol.PositionBatch.from_boards(boards))
    for board, wdl in zip(boards, found.wdl.tolist(), strict=True):
        score, width, noise = expected_value(board)
        # quiescence counts in thousandths of a pawn, and the layers are float32
        score = round(score * layout.SCORE_UNIT) / layout.SCORE_UNIT
        win, loss = sigmoid((score - width) / noise), sigmoid((-score - width) / noise)
        certain = 1 - 0.15 * (win - loss) ** 2 * math.exp(-abs(score) * layout.SCORE_UNIT / 6650)
        win, loss = (win * certain, loss) if win > loss else (win, loss * certain)
        assert wdl == pytest.approx([win, 1 - win - loss, loss], abs=2e-3)


def threatens(board: chess.Board, move: chess.Move) -> bool:
    """Returns whether the man that moves newly attacks what is worth more, or an undefended piece."""
    kind = board.piece_type_at(move.from_square)
    if kind in (None, chess.KING):
        return False
    after = board.copy(stack=False)
    after.remove_piece_at(move.from_square)
    after.set_piece_at(move.to_square, chess.Piece(kind, board.turn))
    for square in after.attacks(move.to_square) - board.attacks(move.from_square):
        victim = board.piece_at(square)
        if victim is None or victim.color == board.turn or victim.piece_type in (chess.PAWN, chess.KING):
            continue
        loose = not board.is_attacked_by(not board.turn, square)
        if WORTH[victim.piece_type] > WORTH[kind] or loose:
            return True
    return False


def kind_of(board: chess.Board, move: chess.Move) -> int | None:
    """Returns the kind of a move by python-chess; None where the exchange would have to tell."""
    target = board.is_attacked_by(not board.turn, move.to_square)
    kind = 2 * (board.color_at(move.to_square) == (not board.turn)) + board.gives_check(move)
    if move.promotion:
        return kind + 12 + 4 * (move.promotion - 2)
    return None if target or board.is_capture(move) else kind + 4 + 28 * threatens(board, move)


def landing_of(board: chess.Board, move: chess.Move) -> chess.Square:
    """Returns where the man that moves ends; in Chess960 a king castles by taking his rook."""
    if not board.is_castling(move):
        return move.to_square
    return chess.square(6 if move.to_square > move.from_square else 2, chess.square_rank(move.to_square))


def expected_logits(board: chess.Board) -> dict[chess.Move, float]:
    """Returns the logits of moves whose class needs no exchange, by NumPy."""
    a = NETWORKS.arrays
    h = hidden(a["policy_rows"], a["policy_bias"], features(board, board.turn))
    turn = turn_of(board, board.turn)
    out = {}
    for move in board.legal_moves:
        kind, piece = kind_of(board, move), present(board.piece_type_at(move.from_square))
        if kind is not None:
            at = (piece - 1) * layout.KINDS_OF_MOVES + kind
            squares = move.from_square, landing_of(board, move)
            places = [(piece - 1) * 64 + (square ^ turn) for square in squares]
            rows = a["from"][places[0]], a["to"][places[1]], a["class"][at]
            total = sum(int(row.astype(np.int64) @ h) for row in rows)
            out[move] = float(a["class_plain"][at]) + float(a["class_plain"][-1]) * total
    return out


def test_priors_are_what_the_arrays_say() -> None:
    batch = protocol.PositionBatch.from_boards(boards_of_games())
    found = evaluator.BuiltinEvaluator(networks=NETWORKS).evaluate(batch)
    valid(batch, found)
    assert (found.priors > 0).all()
    checked = 0
    level, decided = layout.TEMPERATURES
    parts = zip(batch.boards(), pairwise(batch.offsets.tolist()), found.wdl.tolist(), strict=True)
    for (board, moves), (begin, end), (win, _, loss) in parts:
        priors = dict(zip(moves, np.log(found.priors[begin:end]).tolist(), strict=True))
        least = max(priors.values()) - batch_kernel.LOGIT_FLOOR + 0.01
        logits = {move: logit for move, logit in expected_logits(board).items() if priors[move] > least}
        ranked = sorted(logits, key=logits.__getitem__)
        if len(ranked) < 2 or logits[ranked[-1]] - logits[ranked[0]] < 0.1:
            continue
        span = priors[ranked[-1]] - priors[ranked[0]]
        temperature = (logits[ranked[-1]] - logits[ranked[0]]) / span
        q = win - loss  # a share of the better side's chances counts as drawn, so |Q| was larger
        assert decided - 1e-3 < temperature < level + (decided - level) * q * q + 1e-3
        for one, other in pairwise(logits):
            expected = (logits[one] - logits[other]) / temperature
            assert priors[one] - priors[other] == pytest.approx(expected, abs=1e-4)
            checked += 1
    assert checked > 200


def kernel_says(boards: list[chess.Board], scratch: NDArray[np.uint64]) -> list[list[float]]:
    """Returns values and priors of some positions, each evaluated in the same working memory."""
    out = []
    for board in boards:
        arrays = inside.BatchArrays.of(protocol.PositionBatch.from_boards([board]))
        evaluate_batch(load_tables(), NETWORKS.words, *arrays, scratch, 1.0, 0, 1)
        out.append([*arrays.values.tolist(), *arrays.priors.tolist()])
    return out


def test_the_working_memory_is_enough_and_keeps_nothing() -> None:
    margin = 64
    area = np.full(SCRATCH_WORDS + 2 * margin, GUARD, np.uint64)
    found = kernel_says(boards_of_games(), area[margin:-margin])
    assert (area[:margin] == GUARD).all()
    assert (area[-margin:] == GUARD).all()
    assert kernel_says(boards_of_games()[::-1], np.zeros(SCRATCH_WORDS, np.uint64)) == found[::-1]


@kernel
def _line_scores(T: Any, W: Any, moves: Any, skipped: Any, scratch: Any, out: Any) -> None:
    """Writes the scores along a line, each by the sums below it and anew; some frames keep no sums."""
    stack, area = ptr(scratch, 0), ptr(scratch, STACK_WORDS)
    other, fresh = ptr(scratch, STACK_WORDS + AREA_WORDS), ptr(scratch, STACK_WORDS + 2 * AREA_WORDS)
    for ply in range(len(moves) + 1):
        frame = adv(stack, ply * FRAME_WORDS)
        frame[KEPT] = U(0)
        if not skipped[ply]:
            out[0, ply] = static_at(ptr(T, 0), ptr(W, 0), stack, int64(ply), area)
            copy_words(frame, fresh, PW)
            fresh[KEPT] = U(0)
            out[1, ply] = static_at(ptr(T, 0), ptr(W, 0), fresh, int64(0), other)
        if ply < len(moves):
            make_move(ptr(T, 0), frame, adv(frame, FRAME_WORDS), moves[ply])


def test_sums_that_follow_a_line_are_those_of_each_position() -> None:
    rng = random.Random(7)
    for start in boards_of_games()[::4]:
        board, moves = start.copy(stack=False), list[int]()
        while len(moves) < FRAMES - 1 and any(board.legal_moves):
            captures = [move for move in board.legal_moves if board.is_capture(move) or move.promotion]
            move = rng.choice(captures if captures and rng.random() < 0.6 else [*board.legal_moves])
            moves.append(encode_move(move))
            board.push(move)
        scratch = np.zeros(2 * STACK_WORDS + 2 * AREA_WORDS, np.uint64)
        scratch[: len(pack(start))] = pack(start)
        skipped = np.array([rng.random() < 0.2 for _ in range(len(moves) + 1)])
        out = np.zeros((2, len(moves) + 1), np.int64)
        _line_scores(load_tables(), NETWORKS.words, np.array(moves, np.uint16), skipped, scratch, out)
        assert out[0].tolist() == out[1].tolist()


def some_said() -> list[list[float]]:
    return kernel_says(boards_of_games()[::60], np.zeros(SCRATCH_WORDS, np.uint64))


def test_uncompiled_code_gives_the_same() -> None:
    for one, other in zip(plain.in_plain_python(some_said), some_said(), strict=True):
        assert one == pytest.approx(other, rel=1e-5, abs=1e-6)


def test_the_policy_network_alone_has_the_same_arrays() -> None:
    networks = small_networks()
    words = networks.policy_words()
    assert words[layout.POLICY_WIDTH] == WIDTHS[1]
    for name, (word, dtype, shape) in list(evaluator.ARRAYS.items())[-6:]:
        expected = networks.arrays[name]
        found = words[words[word] :].view(dtype)[: expected.size].reshape(shape(*WIDTHS))
        np.testing.assert_array_equal(found, expected)


# ------------------------------------------------------------------ the networks of the package
def judged(fen: str) -> tuple[float, dict[chess.Move, float]]:
    """Returns Q and the priors that the package's networks give a position."""
    batch = protocol.PositionBatch.from_boards([chess.Board(fen)])
    found = evaluator.BuiltinEvaluator().evaluate(batch)
    ((_, moves),) = batch.boards()
    return float(found.wdl[0, 0] - found.wdl[0, 2]), dict(zip(moves, found.priors.tolist(), strict=True))


def best_of(fen: str) -> str:
    _, priors = judged(fen)
    return max(priors, key=priors.__getitem__).uci()


def test_the_weights_are_those_of_the_card() -> None:
    assert len(files("graphsearch.evaluators.builtin").joinpath(evaluator.FILE).read_bytes()) <= 20_000_000
    networks = evaluator.load_networks()
    assert hashlib.sha256(networks.plain()).hexdigest() == evaluator.DIGEST
    assert networks.widths == (networks.card["value_width"], networks.card["policy_width"])


def test_material_captures_and_promotions_count() -> None:
    queen_up = "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    assert judged(queen_up)[0] > 0.9
    assert judged(queen_up.replace(" w ", " b "))[0] < -0.9
    assert abs(judged(chess.STARTING_FEN)[0]) < 0.2
    loose, defended = "4k3/8/8/3p4/8/8/3Q4/4K3 w - - 0 1", "4k3/8/2p5/3p4/8/8/3Q4/4K3 w - - 0 1"
    assert judged(loose)[1][chess.Move.from_uci("d2d5")] > judged(defended)[1][chess.Move.from_uci("d2d5")]
    assert best_of("q3k3/8/8/8/8/8/8/R3K3 w Q - 0 1") == "a1a8"
    assert best_of("1r4k1/2P3pp/8/8/8/8/6PP/6K1 w - - 0 1").startswith(("c7b8q", "c7c8q"))
    boards = [chess.Board(f"4k3/8/8/8/8/8/8/4{men} w - - 0 1") for men in ("KB2", "KN2")]
    for win, draw, loss in (
        evaluator.BuiltinEvaluator().evaluate(protocol.PositionBatch.from_boards(boards)).wdl.tolist()
    ):
        assert draw > 0.5
        assert win == pytest.approx(loss)


# ------------------------------------------------------------------ endings that are known
@kernel
def score_in(s: NDArray[np.uint64], ways: int64) -> int64:
    return endings_kernel.known_score(ptr(s, 0), ways)


def score_of(board: chess.Board) -> int:
    return int(score_in(pack(board), evaluator.endings_table().ctypes.data))


def score(fen: str) -> int:
    """Returns `known_score` of White to move, after a look at Black to move."""
    white, black = chess.Board(fen), chess.Board(fen)
    black.turn = chess.BLACK
    value = score_of(white)
    assert score_of(black) == score_of(black.mirror()) == -value
    return value


def ending(men: str, squares: Sequence[int], turn: chess.Color = chess.BLACK) -> chess.Board:
    board = chess.Board(None)
    board.turn = turn
    for square, man in zip(squares, men, strict=True):
        board.set_piece_at(square, chess.Piece.from_symbol(man))
    return board


def test_scores_stay_in_their_range() -> None:
    """Between the scores of networks and those of mates, wherever the kings stand."""
    for men in ("BN", "BB", "R", "QQQQ"):
        for kings in itertools.product(range(16, 64, 5), range(16, 64)):
            if chess.square_distance(*kings) > 1:
                board = ending(f"{men}Kk", (*range(len(men)), *kings))
                assert LEAST_WON <= -score_of(board) < LEAST_MATE


def test_the_score_rises_on_the_way_to_the_mate() -> None:
    near, far = "k7/8/1K6/8/8/8/8/NB6", "k7/8/1K6/8/8/8/8/N1B5"  # the bishop's corner
    assert LEAST_MATE > score(near + " w - - 0 1") > score(far + " w - - 0 1") >= LEAST_WON
    for men in ("8/P7/P7/K7", "8/8/8/K6B", "8/8/P7/K6R", "4rr2/8/8/K6Q", "7r/8/8/K6R", "8/8/8/K7"):
        assert score_of(chess.Board(f"8/8/8/4k3/{men} w - - 0 1")) == FAR, men


def plies_left(board: chess.Board) -> int:
    """Returns the entry of a position of the tables: plies until it is plainly won, plus one, or 0."""
    share = (LEAST_MATE - 1 - abs(score_of(board))) / batch_kernel.WON_RANGE
    share = share / (endings_kernel.WITH_PAWN if board.pawns else 1) - endings_kernel.AGAINST_ROOK
    whole = endings_kernel.MOST_AGAINST_ROOK - endings_kernel.AGAINST_ROOK
    return round(share / whole * endings_kernel.MOST_PLIES) if score_of(board) else 0


def left_after(board: chess.Board, move: chess.Move) -> int:
    child = after(board, move)
    if child.pawns or (child.rooks and child.queens):
        return plies_left(child)
    has_heavy = bool((child.queens | child.rooks) & child.occupied_co[chess.WHITE])
    return int(has_heavy and not child.is_stalemate() and not any(child.generate_legal_captures()))


@pytest.mark.parametrize("men", ["KQkr", "KPk"])
def test_the_table_of_an_ending_follows_from_the_rules(men: str) -> None:
    """Each entry is one ply more than the best of those after a move."""
    rng = random.Random(5)
    boards = [ending(men, rng.sample(range(64), len(men)), rng.random() < 0.5) for _ in range(500)]
    for board in filter(chess.Board.is_valid, boards):
        left = [left_after(board, move) for move in board.legal_moves]
        if board.turn == chess.WHITE:
            expected = 1 + min(filter(None, left), default=-1)
        else:
            expected = 1 + max(left) if left and all(left) else int(board.is_checkmate())
        assert plies_left(board) == expected, board.fen()
        assert score_of(board) == score_of(board.mirror())


def test_a_bare_king_draws_in_the_corner_of_rooks_pawns_that_no_bishop_attacks() -> None:
    for men in ("6k1/8/6K1/7P/4B2P/8/8", "k7/8/KB6/P7/8/8/8", "8/1k6/8/P1K5/P7/8/8"):
        assert score(f"{men}/8 w - - 0 1") == 0
    for men in ("6k1/8/6K1/7P/5B2/8/8", "5k2/8/6K1/7P/4B3/8/8", "6k1/8/6K1/6PP/4B3/8/8"):
        assert score_of(chess.Board(f"{men}/8 w - - 0 1")) == FAR, men


@pytest.mark.parametrize("men", ["4k3/8/8/8/K6R", "4k3/8/8/8/K5BN", "4k3/5r2/8/8/K6Q", "6k1/8/8/1P5K/8"])
def test_a_search_mates(men: str) -> None:
    """The defender takes the reply that the search thinks best."""
    board = chess.Board(f"8/8/8/{men} w - - 0 1")
    with Graph.open(None, evaluator=factory.create("builtin")) as graph:
        while not board.is_checkmate() and board.halfmove_clock < 100 and not board.is_repetition(3):
            move = present(analyze(graph, board, Limits(evaluations=1000, visits=20_000)).bestmove)
            board.push(move)
    assert board.is_checkmate(), board.fen()
    assert board.turn == chess.BLACK


# ------------------------------------------------------------------ threads
PREFIX = "graphsearch-evaluation"


def running() -> set[threading.Thread]:
    """Returns the threads of all evaluators; those of earlier tests may end at any time."""
    return {thread for thread in threading.enumerate() if thread.name.startswith(PREFIX)}


def batch_of(count: int) -> protocol.PositionBatch:
    return protocol.PositionBatch.from_boards([unpack(words) for words in positions.random_words()[:count]])


def test_a_cancelled_job_waits_for_what_was_begun_and_begins_nothing_more() -> None:
    threads, may_end, begun, ended = inside.EvaluationThreads(2), threading.Event(), threading.Event(), []

    def work(portion: int) -> None:
        begun.set()
        assert may_end.wait(60)
        ended.append(portion)

    job = threads.begin(work, 10)
    assert begun.wait(60)
    threading.Timer(0.05, may_end.set).start()
    job.cancel()
    assert ended == [0]
    threads.close()


def test_threads_of_an_evaluator_that_nobody_closed_end_with_it() -> None:
    evaluator = factory.create("builtin", {"threads": "2"})
    before = running()
    evaluator.evaluate(batch_of(3 * inside.PORTION))
    assert len(running() - before) == 1
    del evaluator
    gc.collect()
    pools.until(lambda: not running() - before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of fork beside threads
def test_a_forked_process_evaluates_alone() -> None:
    evaluator, batch = factory.create("builtin", {"threads": "2"}), batch_of(3 * inside.PORTION)
    expected = evaluator.evaluate(batch).priors
    child = os.fork()
    if child == 0:  # pragma: no cover
        os._exit(0 if np.array_equal(evaluator.evaluate(batch).priors, expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
    evaluator.close()


# ------------------------------------------------------------------ the tools that make them, uncompiled
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("network") / "a.nnue"
    path.write_bytes(nnue.MadeUp.random(ARCHITECTURES[-1]).file(packed=False))
    return f"nnue:{path}"


def dealer(teacher: str) -> Dealer:
    """Returns a dealer of two games, whose lessons are the games' own positions."""
    vars(games_kernel)["ENDED_DECIDED"] = vars(games_kernel)["ENDED_FEW"] = 0.0
    evaluator: Any = factory.create(teacher)
    return Dealer(evaluator.weights, starts(2, 7, ()), 2, 1.0)


def dealt(teacher: str) -> dict[str, Any]:
    """Returns what tests ask of dealt groups and lessons."""
    vars(games_kernel)["OFF"] = 0.0
    some = dealer(teacher)
    groups, lessons = some.deal(1)
    there = groups.targets[..., games_kernel.SIGN] != 0
    again = dealer(teacher).deal(1)
    evaluator: Any = factory.create(teacher)
    games = [unpack(words.tolist()) for words in some.games.words]
    priors = evaluator.evaluate(protocol.PositionBatch.from_boards(games)).priors.tolist()
    return {
        "sizes": there.sum(1).tolist(),
        "in order": bool((np.diff(there.astype(int), axis=1) <= 0).all()),
        "labels": groups.targets[there][:, games_kernel.LABEL].tolist(),
        "alone": static_labels(evaluator.weights, some.leaves[there]),
        "seen": views(groups.features[there]),
        "expected": expected_views(some.leaves[there]),
        "hints": bool((np.abs(groups.hints[there]).max(1) > 0).all() and not groups.hints[~there].any()),
        "again": all(bool((a == b).all()) for a, b in zip(groups, again[0], strict=True)),
        "lessons": lessons.targets[lessons.classes < layout.CLASSES].tolist(),
        "priors": priors,
    }


def static_labels(weights: Any, words: Any) -> list[int]:
    """Returns what a network says of positions without a search, in 1/361 of a pawn."""
    scratch = np.zeros(STACK_WORDS + area_words(int(weights[WIDTH])), np.uint64)
    window, out = np.zeros(2, np.int64), np.zeros(len(words), np.int64)
    nnue.scores(load_tables(), weights, words.reshape(-1).copy(), window, out, scratch)
    return [int(x) for x in np.clip(out * 361 // 1000, -games_kernel.MOST_SCORE, games_kernel.MOST_SCORE)]


def views(features: Any) -> list[list[int]]:
    return [sorted(view[view < layout.FEATURES].tolist()) for member in features for view in member]


def expected_views(words: Any) -> list[list[int]]:
    boards = [unpack([*position[:9].tolist(), 0]) for position in words]
    return [sorted(features(board, side)) for board in boards for side in (board.turn, not board.turn)]


def test_members_of_groups_are_quiet_and_lessons_have_the_priors_of_the_teacher(teacher: str) -> None:
    found = plain.in_plain_python(dealt, teacher)
    assert all(games_kernel.LEAST_MEMBERS <= size <= games_kernel.MOST_MEMBERS for size in found["sizes"])
    assert found["in order"]
    close = [abs(a - b) <= 1 for a, b in zip(found["labels"], found["alone"], strict=True)]
    assert np.mean(close) > 0.9  # the line of another may end in a stalemate
    assert found["seen"] == found["expected"]
    assert found["hints"]
    assert found["again"]
    assert found["lessons"] == pytest.approx(found["priors"], abs=1e-6)


def test_games_begin_from_legal_positions_of_all_kinds(tmp_path: Path) -> None:
    found = starts(60, 2, [[chess.Move.from_uci("e2e4")]])
    boards = [unpack(words.tolist()) for words in found.words]
    assert all(board.is_valid() and any(board.legal_moves) for board in boards)
    assert set(found.ply.tolist()) >= {0, 1}
    assert found.ply.max() >= 60
    path = tmp_path / "open.fen"
    path.write_text("8/5k2/8/8/8/8/3PK3/8 w - - 0 60\n\n", encoding="utf-8")
    both = with_starts(path, found)
    assert (len(both.ply), both.ply[-1]) == (61, 118)


def test_a_state_begun_from_networks_packs_to_the_same_networks(tmp_path: Path) -> None:
    state, file, again = (tmp_path / name for name in ("state.npz", "networks.bin", "again.bin"))
    made = State.new((64, 64), seed=3).networks
    networks = rounded(made["value"], made["policy"], {"stages": [{"name": "value"}]})
    write_networks(file, networks)
    State.of(file).write(state)
    assert State.read(state).stages == [{"name": "value"}]
    assert main(["pack", str(again), str(state)]) == 0
    packed = evaluator.read_networks(again.read_bytes())
    assert (packed.widths, packed.card["stages"]) == ((64, 64), [{"name": "value"}])
    for name, array in networks.arrays.items():
        np.testing.assert_allclose(packed.arrays[name], array, atol=1, rtol=1e-3)


def answers() -> dict[str, Any]:
    """Returns scores and logits of positions by JAX, and those by NumPy."""
    import jax.numpy as jnp

    from tools.training import learning

    networks = unrounded(NETWORKS)
    boards = boards_of_games()[:8]
    seen = jnp.array([[padded(features(b, side)) for side in (b.turn, not b.turn)] for b in boards])
    stacks = jnp.array([(len(board.piece_map()) - 1) // 4 for board in boards])
    outputs = np.asarray(learning.value_outputs(networks["value"], seen, stacks)[0])
    found: list[float] = []
    expected: list[float] = []
    for board, (own, _) in zip(boards, seen, strict=True):
        logits = dict(list(expected_logits(board).items())[:5])
        active = learning.hidden(networks["policy"].rows, networks["policy"].bias, own[None])
        for move, logit in logits.items():
            described = describe(board, move)
            found.append(float(learning.logits(networks["policy"], active, *described)[0, 0]))
            expected.append(logit)
    wanted = [expected_value(board) for board in boards]
    return {
        "scores": [outputs[:, 0].tolist(), [score for score, _, _ in wanted]],
        "logits": [found, expected],
    }


def padded(active: list[int]) -> list[int]:
    return [*active, *range(layout.FEATURES + len(active), layout.FEATURES + 64)]


def describe(board: chess.Board, move: chess.Move) -> list[Any]:
    """Returns the place, the goal and the class of a move, `[1, 1]` each."""
    words, moves = np.array(pack(board), np.uint64), np.array([encode_move(move)], np.uint16)
    out = [np.zeros(1, np.uint16) for _ in range(3)]
    games_kernel.describe_moves(
        ptr(load_tables(), 0), ptr(words, 0), moves, np.zeros(MOST_FEATURES, np.int64), *out
    )
    return [array[None] for array in out]


@needs_jax
def test_jax_computes_what_the_arrays_say() -> None:
    for name, (found, expected) in plain.in_plain_python(answers).items():
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-3), name


def learned(teacher: str, state: str) -> list[list[float]]:
    """Teaches both networks by a few steps; returns the losses before and after of what they learn."""
    from tools.training import distil, learning

    vars(distil).update(LEAST=2, BATCH={"value": 2, "policy": 2}, AT_ONCE={"value": 4, "policy": 4})
    vars(distil).update(ROOM={"value": 2, "policy": 2}, TIMES={"value": 1e9, "policy": 1e9})
    groups, lessons = dealer(teacher).deal(1)
    rows = groups, sharpened(games_kernel.LessonArrays(*(array[:2] for array in lessons)))
    new = State.new((64, 64), 1)
    courses = distil.courses_of(new.networks, rows)
    out = []
    for (name, course), some in zip(courses.items(), rows, strict=True):
        course.put(some)
        before = course.judged()[0]
        for _ in range(30):
            assert course.learn(0.0, 2e-3, 1)
        out.append([before, course.judged()[0]])
        new.networks[name] = course.network()
        assert all(np.isfinite(array).all() for array in new.networks[name])
        assert np.abs(new.networks[name].rows).max() <= learning.LIMITS["rows"]
    new.networks["value"] = distil.without_hints(new.networks["value"])
    new.write(Path(state))
    return out


@needs_jax
def test_both_networks_learn_and_can_be_packed(teacher: str, tmp_path: Path) -> None:
    state, out = tmp_path / "state.npz", tmp_path / "networks.bin"
    for first, last in plain.in_plain_python(learned, teacher, str(state)):
        assert last < 0.9 * first
    assert main(["pack", str(out), str(state)]) == 0
    assert evaluator.read_networks(out.read_bytes()).widths == (64, 64)


def test_an_evaluator_is_judged_by_a_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    boards = [chess.Board(), chess.Board("4k3/8/8/8/8/8/3PP3/4K3 w - - 0 1")]
    with (path := tmp_path / "reference.jsonl").open("w", encoding="utf-8") as file:
        for number, board in enumerate(boards):
            moves = [move.uci() for move in board.legal_moves]
            scores = {move: {"cp": 5 * at} for at, move in enumerate(moves)}
            case = {"fen": board.fen(), "wdl": [300 + 200 * number, 500 - 200 * number, 200], "cp": 30}
            file.write(json.dumps(case | {"bestmove": moves[-1], "moves_depth10": scores}) + "\n")
    assert main(["judge", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["positions"] == 2
    assert 0 < found["cross_entropy_bestmove"] < 20
    assert main(["nothing"]) == 2
