"""The exception tree: everything this package raises on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class GraphSearchError(Exception):
    """Base of every error of this package; its text is one line a person can act on."""


class InvalidPositionError(GraphSearchError, ValueError):
    """A FEN, move list or game that does not describe a legal chess position."""


class InvalidParameterError(GraphSearchError, ValueError):
    """A search parameter or limit with an unknown name or a value out of range."""


class BookConfigError(InvalidParameterError):
    """A BOOK.toml that is no description of a book; `problems` has a line for each fault, with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class ShapeError(GraphSearchError, ValueError):
    """Arrays whose lengths or types do not fit together."""


class EvaluatorError(GraphSearchError):
    """An evaluator that is unknown, cannot be made, fails, or answers what is not an evaluation."""


class UnknownEvaluatorError(EvaluatorError, ValueError):
    """The name of an evaluator that there is not."""


class StoreError(GraphSearchError):
    """A graph file that cannot be read, written or created."""


class UnsavedError(StoreError):
    """A search that could not be saved; `result` is what it found, from memory."""

    result: Any = None


class SchemaVersionError(StoreError):
    """A graph file of a format that this version does not read."""


class CorruptRecordError(StoreError, ValueError):
    """Bytes that are not a record, or a record that breaks an invariant."""


class StoreLockedError(StoreError):
    """A graph file that another process is writing."""


class EvaluatorMismatchError(StoreError):
    """A graph file bound to another evaluator than the one asked for."""


class UnfinishedError(StoreError):
    """A graph file that is on its way from one evaluator to another; its values are mixed."""


class ImportFileError(GraphSearchError):
    """A file of games, a book or a list of positions that cannot be read, or holds nothing of its kind."""


class UnknownPositionError(GraphSearchError):
    """A position that a graph file does not hold."""


class CapacityError(GraphSearchError):
    """A count, a graph or a wave that does not fit the space or the integer meant for it."""


class ExportError(GraphSearchError):
    """An export that finds nothing to write, or no place to write it to."""
