"""Evaluators by name, and what they say about positions without any search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import chess

from ..errors import InvalidParameterError, UnknownEvaluatorError
from ..position import CHECKMATE, NOT_TERMINAL, check, terminal_kind
from ..values import WDL, cp_from_q
from .base import Evaluation, Evaluator, PositionBatch, checked
from .builtin import BuiltinEvaluator
from .lc0 import DEFAULT_TEMPERATURE, Lc0Evaluator
from .pool import PooledEvaluator, pooled
from .table import TableEntry, TableEvaluator
from .uniform import UniformEvaluator

__all__ = [
    "NAMES",
    "OPTIONS",
    "Assessment",
    "BuiltinEvaluator",
    "Evaluation",
    "Evaluator",
    "Lc0Evaluator",
    "PooledEvaluator",
    "PositionBatch",
    "TableEntry",
    "TableEvaluator",
    "UniformEvaluator",
    "assess",
    "checked",
    "create",
    "pooled",
    "split_options",
]

NAMES = ("builtin", "uniform", "lc0:FILE")
OPTIONS = ("PolicyTemperature", "device", "threads")  # of evaluators; params.OPTION_NAMES has the search's

MAX_THREADS = 1024

ASSESS_BATCH = 256


def create(name: str, options: Mapping[str, str] | None = None) -> Evaluator:
    """Returns an evaluator by name.

    Args:
      name: one of `NAMES`.
      options: `PolicyTemperature` (builtin, lc0): above 1 flattens the priors, below 1 sharpens them.
        `device` (lc0): `auto`, `cpu`, `cuda`, ... `threads` (lc0): of the CPU, 0 for all cores.

    Raises:
      UnknownEvaluatorError: for an unknown name.
      EvaluatorError: if the evaluator cannot be made: its file, its packages or its device fail.
      InvalidParameterError: for an option that this evaluator does not have, or a value out of range.
    """
    options = dict(options or {})
    kind, _, file = name.partition(":")
    if name == "builtin":
        temperature = _temperature(options, 1.0)
        _none_left(name, options)
        return BuiltinEvaluator(temperature)
    if name == "uniform":
        _none_left(name, options)
        return UniformEvaluator()
    if kind == "lc0" and file:
        return _lc0(file, options)
    raise UnknownEvaluatorError(f"unknown evaluator {name!r}; known are {', '.join(NAMES)}")


def _lc0(file: str, options: dict[str, str]) -> Lc0Evaluator:
    temperature = _temperature(options, DEFAULT_TEMPERATURE)
    device = options.pop("device", "auto").lower()
    threads = _threads(options)
    _none_left("lc0", options)
    return Lc0Evaluator(file, temperature=temperature, device=device, threads=threads)


def split_options(options: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Returns the evaluator's options of some `NAME=VALUE` texts as a dict, and the other texts.

    >>> split_options(["CPuct=2", "policytemperature=1.2"])
    ({'PolicyTemperature': '1.2'}, ['CPuct=2'])
    """
    known = {name.lower(): name for name in OPTIONS}
    evaluator: dict[str, str] = {}
    others = []
    for option in options:
        name, sign, value = option.partition("=")
        if sign and name.strip().lower() in known:
            evaluator[known[name.strip().lower()]] = value.strip()
        else:
            others.append(option)
    return evaluator, others


def _temperature(options: dict[str, str], default: float) -> float:
    """Takes PolicyTemperature out of the options and returns it."""
    text = options.pop("PolicyTemperature", str(default))
    try:
        value = float(text)
    except ValueError:
        raise InvalidParameterError(f"PolicyTemperature must be a number, not {text!r}") from None
    if not 0.1 <= value <= 10:
        raise InvalidParameterError(f"PolicyTemperature must be from 0.1 to 10, not {text}")
    return value


def _threads(options: dict[str, str]) -> int:
    """Takes the number of threads out of the options and returns it."""
    text = options.pop("threads", "0")
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_THREADS):
        raise InvalidParameterError(f"threads must be a whole number from 0 to {MAX_THREADS}, not {text!r}")
    return int(text)


def _none_left(name: str, options: Mapping[str, str]) -> None:
    if options:
        raise InvalidParameterError(f"the evaluator {name} has no option {', '.join(options)}")


@dataclass(frozen=True, slots=True)
class Assessment:
    """What an evaluator says about one position, seen by its side to move.

    Attributes:
      position: FEN.
      wdl, q, cp: the value V; cp by lc0's mapping.
      priors: P by move (UCI), largest first; empty for a finished game.
      terminal: `position.CHECKMATE`, `STALEMATE`, `DEAD` or `NOT_TERMINAL`; if the game is over by rule,
        the value is exact and no evaluator was asked.
    """

    position: str
    wdl: WDL
    q: float
    cp: int
    priors: dict[str, float]
    terminal: int

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch evaluate`."""
        return {
            "position": self.position,
            "wdl": self.wdl.as_list(),
            "q": self.q,
            "cp": self.cp,
            "priors": self.priors,
        }


def assess(evaluator: Evaluator, boards: Sequence[chess.Board]) -> Iterator[Assessment]:
    """Yields what an evaluator says about each position, in order.

    Raises:
      InvalidPositionError: for a position that is not legal, before any is evaluated.
      EvaluatorError: if the evaluator fails.
    """
    for board in boards:
        check(board)
    for begin in range(0, len(boards), ASSESS_BATCH):
        yield from _assess_some(evaluator, boards[begin : begin + ASSESS_BATCH])


def _assess_some(evaluator: Evaluator, boards: Sequence[chess.Board]) -> Iterator[Assessment]:
    kinds = [terminal_kind(board) for board in boards]
    batch = PositionBatch.from_boards(
        [b for b, kind in zip(boards, kinds, strict=True) if kind == NOT_TERMINAL]
    )
    found = checked(batch, evaluator.evaluate(batch)) if len(batch) else None
    rows = iter(zip(range(len(batch)), batch.boards(), strict=True))
    for board, kind in zip(boards, kinds, strict=True):
        if kind != NOT_TERMINAL or found is None:
            yield _exact(board, kind)
            continue
        row, (_, moves) = next(rows)
        p = found.priors[batch.offsets[row] : batch.offsets[row + 1]]
        pairs = sorted(zip((m.uci() for m in moves), p.tolist(), strict=True), key=lambda pair: -pair[1])
        wdl = WDL(*found.wdl[row].tolist())
        yield Assessment(board.fen(), wdl, wdl.q, cp_from_q(wdl.q), dict(pairs), kind)


def _exact(board: chess.Board, kind: int) -> Assessment:
    wdl = WDL(0.0, 0.0, 1.0) if kind == CHECKMATE else WDL(0.0, 1.0, 0.0)
    return Assessment(board.fen(), wdl, wdl.q, cp_from_q(wdl.q), {}, kind)
