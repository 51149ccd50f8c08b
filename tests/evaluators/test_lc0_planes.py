"""The input and the moves of lc0's networks: against what lc0's own encoder has written."""

from __future__ import annotations

import gzip
import json
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.lc0.planes import input_planes
from graphsearch.evaluators.lc0.policy import output_indices
from graphsearch.evaluators.protocol import PositionBatch

from ..conftest import shared_data
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
