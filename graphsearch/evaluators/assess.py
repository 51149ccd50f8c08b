"""Evaluates positions, from Boards or lines of text, without any search."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from typing import BinaryIO, cast

import chess
import numpy as np

from ..base.answer import Answer
from ..base.errors import InvalidPositionError
from ..base.limits import LINE, PIECE, long_line
from ..position.board import CHECKMATE, NOT_TERMINAL, decode_move, fens, pack_checked
from ..position.board_kernel import MAX_LEGAL_MOVES, list_all
from ..position.notation import read_fen_lines
from ..position.tables import load_tables
from ..position.values import WDL, cp_of
from .protocol import EXTERNAL, OUTSIDE_BATCH, Evaluation, Evaluator, Lines, PositionBatch, answer

KERNEL_CHUNK = 1024  # positions in one batch for kernels: some 20 ms


@dataclass(frozen=True, slots=True)
class Assessment(Answer):
    """The evaluation of one position, seen by its side to move.

    Attributes:
      position: FEN. wdl, q, cp: the value V, exact if the game is over.
      priors: P by move (UCI), largest first; empty for a finished game.
      terminal: `CHECKMATE`, `STALEMATE`, `DEAD` or `NOT_TERMINAL`.
    """

    json_keys = "position wdl q cp priors"

    position: str
    wdl: WDL
    q: float
    cp: int
    priors: dict[str, float]
    terminal: int


def assess_boards(evaluator: Evaluator, boards: Iterable[chess.Board]) -> Iterator[list[Assessment]]:
    """Returns the evaluations of Boards that passed `check`, in batches; reads Boards only as needed.

    Raises:
      EvaluatorError: if the evaluator fails; all earlier batches have been yielded.
    """
    rest, size = iter(boards), _batch_size(evaluator)
    while found := list(islice(rest, size)):
        yield _evaluate(evaluator, found)


def assess_lines(
    evaluator: Evaluator, file: BinaryIO, name: str, on_bad: Callable[[int, InvalidPositionError], object]
) -> Iterator[list[Assessment]]:
    """Returns the evaluations of the positions of lines of FEN and EPD, in batches of the available lines.

    Args:
      file: from `open_file`, or standard input. name: its name, for messages.
      on_bad: called with the number of each line that holds no legal position, and the reason.

    Raises:
      InputFileError: if a line is too long to be text.
      EvaluatorError: if the evaluator fails; all earlier batches have been yielded.
    """
    size, longest, first, rest, ended = _batch_size(evaluator), LINE.most, 1, b"", False
    while not ended:
        piece = cast(io.BufferedReader, file).read1(PIECE)
        ended = not piece
        *lines, rest = (rest + piece).split(b"\n")
        for number, line in enumerate([*lines, rest], first):
            if len(line) > longest:
                raise long_line(name, number)
        lines += [rest] if ended else []
        for begin in range(0, len(lines), size):
            boards, some = list[chess.Board](), lines[begin : begin + size]
            for number, item in read_fen_lines(line.decode("utf-8", "replace") for line in some):
                if isinstance(item, InvalidPositionError):
                    on_bad(first + begin + number - 1, item)
                else:
                    item.clear_stack()  # the moves behind a FEN are no game
                    boards.append(item)
            yield from assess_boards(evaluator, boards)
        first += len(lines)


def _batch_size(evaluator: Evaluator) -> int:
    return max(OUTSIDE_BATCH, evaluator.batch_size) if evaluator.kernel_kind == EXTERNAL else KERNEL_CHUNK


def _evaluate(evaluator: Evaluator, boards: Sequence[chess.Board]) -> list[Assessment]:
    words, count = np.array([pack_checked(board) for board in boards]), len(boards)
    offsets, kinds = np.zeros(count + 1, np.int64), np.zeros(count, np.uint8)
    moves = np.zeros(count * MAX_LEGAL_MOVES, np.uint16)
    list_all(load_tables(), words.reshape(-1), offsets, moves, kinds)
    lines = Lines.from_boards(boards) if evaluator.wants_lines else None
    going = kinds == NOT_TERMINAL
    batch = PositionBatch(words, moves[: offsets[-1]], offsets, lines).rows(going)
    found = answer(evaluator, batch) if len(batch) else Evaluation.of_parts([])
    wdl, lengths = np.zeros((count, 3)), np.zeros(count, np.int64)
    wdl[going], lengths[going] = found.wdl, np.diff(batch.offsets)
    wdl[~going, np.where(kinds[~going] == CHECKMATE, 2, 1)] = 1.0
    names, p = [_name(code) for code in batch.moves.tolist()], found.priors.tolist()
    ends = pairwise([0, *np.cumsum(lengths).tolist()])
    assessments = []
    numbers = (board.fullmove_number for board in boards)
    rows = zip(fens(words), numbers, kinds.tolist(), wdl.tolist(), ends, strict=True)
    for fen, number, kind, values, (begin, end) in rows:
        value, order = WDL(*values), sorted(range(begin, end), key=p.__getitem__, reverse=True)
        shown = {names[k]: p[k] for k in order}
        assessments.append(Assessment(f"{fen[:-1]}{number}", value, value.q, cp_of(value.q), shown, kind))
    return assessments


@cache
def _name(code: int) -> str:
    return decode_move(code).uci()
