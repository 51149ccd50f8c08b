"""The exception tree: everything this package raises on purpose."""

from __future__ import annotations

from typing import Any


class GraphSearchError(Exception):
    """Base of every error of this package; its text is one line a person can act on."""


class InvalidPositionError(GraphSearchError, ValueError):
    """A FEN, move list or game that does not describe a legal chess position."""


class InputFileError(GraphSearchError, ValueError):
    """A file that cannot be used as input: not a regular file, malformed, or above a limit."""


class InvalidParameterError(GraphSearchError, ValueError):
    """A search parameter or limit with an unknown name or a value out of range."""


class BookConfigError(InvalidParameterError):
    """A BOOK.toml with faults; its text has one line for each, with its place."""


class StatementLimitError(GraphSearchError):
    """A request or an SQL statement that exceeds its time or memory limit."""


class EvaluatorError(GraphSearchError):
    """An evaluator that is unknown, cannot be created, fails, or returns an invalid result."""


class EvaluatorFileError(EvaluatorError, InputFileError):
    """A missing network, engine or tablebase folder, or a network that is too large or not a file."""


class EvaluatorDefectError(EvaluatorError):
    """An unexpected exception in an evaluator; `trace` is its traceback in another process."""

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(" ".join(message.split()))  # libraries write several lines
        self.trace = trace


class UnknownEvaluatorError(EvaluatorError, ValueError):
    """The name of an evaluator that does not exist."""


class StoreError(GraphSearchError):
    """A graph file that cannot be read, written or created."""


class UnsavedError(StoreError):
    """A search that could not be saved; `result` has the result, from memory."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class MissingStoreError(StoreError, InputFileError):
    """A graph file, or a folder for one, that does not exist."""


class StoreTargetError(StoreError, InputFileError):
    """A path for a new graph file that cannot be used: something else is there."""


class StoreMovedError(StoreError):
    """A graph file that was moved, replaced, overwritten or deleted while it was open."""


class SchemaVersionError(StoreError):
    """A graph file in a format that this version cannot read."""


class CorruptRecordError(StoreError, ValueError):
    """Bytes that are not a record, or a record that breaks an invariant."""


class UnfitRecordError(CorruptRecordError):
    """A record that the format cannot represent."""


class UnsoundRecordError(CorruptRecordError):
    """A record with intact bytes but impossible contents: it does not fit the position's legal moves."""


class StoreLockedError(StoreError):
    """A graph file that another process is writing."""


class ChangedMeanwhileError(StoreError):
    """A study or a note that somebody else has changed since it was read."""


class EvaluatorMismatchError(StoreError):
    """A graph file that is bound to an evaluator other than the given one."""


class UnfinishedError(StoreError):
    """A graph file that is being moved from one evaluator to another; its values are mixed."""


class ImportFileError(GraphSearchError):
    """A file of games, book entries or positions that cannot be read, or that has none."""


class UnusableFileError(InvalidPositionError, ImportFileError):
    """A file of games or positions that has none, or whose wanted one cannot be read."""


class UnknownPositionError(GraphSearchError):
    """A position that a graph file does not hold."""


class CapacityError(GraphSearchError):
    """A count, a graph or a wave that does not fit the space or the integer meant for it."""


class CompilerError(GraphSearchError):
    """A release of the compiler, Numba, that cannot compile the kernels."""


class ExportError(GraphSearchError):
    """An export that has nothing to write, or cannot write it."""


class ExportTargetError(ExportError, InputFileError):
    """An export path that cannot be used: its folder does not exist, or something else is there."""


class MissingPackageError(EvaluatorError, ExportError):
    """A package of an optional extra that is not installed; the text has the command that installs it."""


def check_least(least: int, **numbers: float | None) -> None:
    """Raises InvalidParameterError unless all numbers but None are at least `least`."""
    for name, number in numbers.items():
        if number is not None and number < least:
            raise InvalidParameterError(f"{name} must be at least {least}, not {number}")
