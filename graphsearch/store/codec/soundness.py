"""Finds faults of records, by chess and `store.record.node.problems`: singly without Numba, or in bulk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ...base.errors import CorruptRecordError
from ...position.board import (
    CASTLING_FIELDS,
    castling_fields,
    key_of_words,
    legal_moves,
    terminal_kind,
    unpack,
)
from ...position.words import META
from ..record.node import (
    LOWER_SHIFT,
    MAX_EVALUATOR,
    TERMINAL_FLAGS,
    UPPER_SHIFT,
    NodeRecord,
    RecordBatch,
    problems,
)
from .bulk import board_tables, columns_of, owned, take


def fault_of(record: NodeRecord) -> str:
    """Returns the fault of a record in words, empty if it is sound; `soundness_kernel.py` has the rules."""
    board = unpack(record.words)
    if not _is_legal(board) or castling_fields(board) != record.words[META] & CASTLING_FIELDS:
        return "its position is illegal"
    kind = terminal_kind(board)
    if record.terminal != kind:
        return f"it is marked as terminal kind {record.terminal}, the position is of kind {kind}"
    moves = 0 if kind else len(legal_moves(board))
    if len(record.codes) != moves:
        return f"it has {len(record.codes)} priors for {moves} legal moves"
    if kind and record.flags & 63 != TERMINAL_FLAGS[kind]:
        return f"its bounds (flags {record.flags}) are not the result of a finished game"
    lower, upper = (record.flags >> LOWER_SHIFT & 3) - 1, (record.flags >> UPPER_SHIFT & 3) - 1
    if not lower <= upper <= 1:
        return f"bounds [{lower}, {upper}] are not an interval"
    if record.evaluator > MAX_EVALUATOR:
        return f"it is of evaluator {record.evaluator}, numbers go up to {MAX_EVALUATOR}"
    return "; ".join(problems(record))


def _is_legal(board: chess.Board) -> bool:
    if board.was_into_check() or board.clean_castling_rights() != board.castling_rights:
        return False
    # of an en-passant square: a pawn has just passed it, and another stands ready to take
    square = board.ep_square
    return square is None or (board._valid_ep_square() == square and board.has_pseudo_legal_en_passant())


def unsound(batch: RecordBatch) -> list[tuple[int, str]]:
    """Returns the place and the fault of each unsound record."""
    return _unsound_of(batch, np.arange(len(batch)))


def _unsound_of(batch: RecordBatch, places: NDArray[np.int64]) -> list[tuple[int, str]]:
    """Returns the places, among some, of unsound records, each with its fault."""
    from .soundness_kernel import find_unsound

    bad = np.zeros(len(places), bool)
    if not len(places) or not find_unsound(board_tables(), columns_of(batch), owned(places, np.int64), bad):
        return []
    return [(i, fault_of(batch.record(i)) or "it breaks a rule") for i in places[bad].tolist()]


def sound_places(
    batch: RecordBatch, places: NDArray[np.int64], refuse: Callable[[CorruptRecordError], Any], name: str
) -> NDArray[np.int64]:
    """Returns the places, among some of a batch, of sound records, in the same order.

    Args:
      batch: decoded records.
      refuse: called with the error of each unsound record.
      name: the name of the file in messages.
    """
    bad = _unsound_of(batch, places)
    for i, what in bad:
        refuse(CorruptRecordError(f"{name}: {fault_message(batch, i, what)}"))
    return places[~np.isin(places, [i for i, _ in bad])] if bad else places


def sound_part(batch: RecordBatch, refuse: Callable[[CorruptRecordError], Any], name: str) -> RecordBatch:
    """Returns the sound records of a batch; the arguments are those of `sound_places`."""
    good = sound_places(batch, np.arange(len(batch)), refuse, name)
    return batch if len(good) == len(batch) else take(batch, good)


def fault_message(batch: RecordBatch, i: int, what: str) -> str:
    """Returns the message about the fault `what` of record `i`."""
    return f"record {key_of_words(batch.words[i]):016x}: {what}"
