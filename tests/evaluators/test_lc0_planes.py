"""The input and the moves of lc0's networks: against what lc0's own encoder has written."""

from __future__ import annotations

import gzip
import json
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.lc0.planes import input_planes
from graphsearch.evaluators.lc0.policy import convolution_outputs, output_indices, priors
from graphsearch.evaluators.protocol import PositionBatch

from ..conftest import shared_data
from ..support.networks import policy_cell, policy_texts
from ..support.positions import played

STARTS = [
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R b Kq - 37 90",
    "1n1n4/P1P4k/8/8/8/8/p1p4K/1N1N4 w - - 0 1",
    "1n1n4/P1P4k/8/8/8/8/p1p4K/1N1N4 b - - 99 80",
    "rnbqkbnr/ppp1pppp/8/8/3pP3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 3",
    "rnbqkbnr/pppp1ppp/8/3Pp3/8/8/PPP1PPPP/RNBQKBNR w KQkq e6 0 3",
    "4k3/8/8/8/8/8/8/4K2R w K - 0 1",
    "4r2k/8/8/8/8/8/8/R3Q2K w - - 0 1",
]


def test_a_batch_is_its_positions_one_by_one() -> None:
    boards = [chess.Board(start) for start in STARTS]
    batch = PositionBatch.from_boards(boards)
    alone = [PositionBatch.from_boards([board]) for board in boards]
    assert np.array_equal(input_planes(batch.words), np.concatenate([input_planes(b.words) for b in alone]))
    half = input_planes(batch.words, np.float16)
    assert half.dtype == np.float16
    assert np.array_equal(half, input_planes(batch.words))
    assert input_planes(batch.words[:0]).shape == (0, 112, 8, 8)
    assert np.array_equal(output_indices(batch), np.concatenate([output_indices(b) for b in alone]))
    logits = np.random.default_rng(1).normal(0, 3, (len(batch), 1858)).astype(np.float32)
    together = priors(batch, logits, 1.7)
    one_by_one = [priors(b, row[None], 1.7) for b, row in zip(alone, logits, strict=True)]
    np.testing.assert_allclose(together, np.concatenate(one_by_one), rtol=1e-6)


def test_priors_are_a_softmax_over_the_legal_moves_at_the_temperature() -> None:
    batch = PositionBatch.from_boards([chess.Board()])
    logits = np.random.default_rng(2).normal(0, 5, (1, 1858))
    chosen = logits[0, output_indices(batch)]
    for temperature in (0.5, 1.0, 1.359):
        expected = np.exp(chosen / temperature) / np.exp(chosen / temperature).sum()
        found = priors(batch, logits.astype(np.float32), temperature)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    large = priors(batch, np.full((1, 1858), 3e4, np.float32), 0.1)
    np.testing.assert_allclose(large, 1 / 20, rtol=1e-6)


def test_each_output_has_a_cell_of_its_own_in_a_convolutional_head() -> None:
    cells = [plane * 64 + square for plane, square in map(policy_cell, policy_texts())]
    assert convolution_outputs().tolist() == cells
    assert len(set(cells)) == 1858


# ------------------------------------------------------------------ lc0's own encoder
def golden() -> list[dict[str, Any]]:
    with gzip.open(shared_data("golden/lc0_planes.jsonl.gz"), "rt") as handle:
        return [json.loads(line) for line in handle]


def board_of(case: dict[str, Any]) -> chess.Board:
    return played(case["start_fen"], case["moves"])


def golden_planes(case: dict[str, Any]) -> NDArray[np.float32]:
    masks = np.array([int(text, 16) for text in case["planes"]], "<u8")
    bits = np.unpackbits(masks.view(np.uint8), bitorder="little").reshape(112, 8, 8)
    planes = bits.astype(np.float32)
    planes[109] *= case["rule50"]
    return planes


def is_expressible(case: dict[str, Any]) -> bool:
    """Returns whether a position alone says what the case does: no moves, and filled as `fen_only` would."""
    fill, board = case["history_fill"], board_of(case)
    same_fill = fill == "fen_only" or (fill == "always" and board.fen() != chess.STARTING_FEN)
    return same_fill and not case["moves"]


def test_planes_without_history_are_those_of_lc0() -> None:
    cases = [case for case in golden() if is_expressible(case)]
    assert len(cases) == 31
    assert sum(board_of(case).ep_square is not None for case in cases) > 5
    for case in cases:
        words = PositionBatch.from_boards([board_of(case)]).words
        assert np.array_equal(input_planes(words)[0], golden_planes(case)), case["start_fen"]


def test_planes_with_history_are_those_of_lc0() -> None:
    cases = [case for case in golden() if case["history_fill"] == "fen_only"]
    assert sum(bool(case["moves"]) for case in cases) == 65
    batch = PositionBatch.from_boards([board_of(case) for case in cases], with_lines=True)
    assert batch.lines is not None
    assert batch.lines.repeated.any(axis=0).all()
    for found, case in zip(input_planes(batch.words, lines=batch.lines), cases, strict=True):
        assert np.array_equal(found, golden_planes(case)), case


def test_a_line_of_one_position_shows_what_the_position_does() -> None:
    batch = PositionBatch.from_boards([chess.Board(start) for start in STARTS], with_lines=True)
    assert np.array_equal(input_planes(batch.words, lines=batch.lines), input_planes(batch.words))


def test_the_present_and_the_moves_are_those_of_lc0_whatever_came_before() -> None:
    cases = golden()
    assert len(cases) == 150
    for case in cases:
        batch = PositionBatch.from_boards([board_of(case)])
        found, expected = input_planes(batch.words)[0], golden_planes(case)
        assert np.array_equal(found[:12], expected[:12]), case
        assert np.array_equal(found[104:], expected[104:]), case
        ((_, moves),) = batch.boards()
        named = dict(zip((move.uci() for move in moves), output_indices(batch).tolist(), strict=True))
        assert named == case["legal_moves"], case
