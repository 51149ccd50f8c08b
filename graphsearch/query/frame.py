"""Answers as DataFrames of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from .sql import Result

if TYPE_CHECKING:
    from pandas import DataFrame


class Row(Protocol):
    """An item of an answer: a move, a line, a game."""

    def as_dict(self) -> Mapping[str, object]:
        """Returns it as the command's JSON has it."""


def frame(answer: Result | Iterable[Row]) -> DataFrame:
    """Returns a pandas DataFrame with a row for each item, and the keys of the commands' JSON as columns.

    Args:
      answer: the answer of `query.sql.sql`, or items that have `as_dict`, such as the moves of a node.

    Example:
      >>> import chess
      >>> from graphsearch import Graph, Limits, analyze
      >>> with Graph.open(None) as graph:
      ...     moves = analyze(graph, chess.Board(), Limits(visits=50)).node.moves
      >>> list(frame(moves).columns)[:5]
      ['move', 'san', 'n', 'p', 'q']
    """
    import pandas as pd

    if isinstance(answer, Result):
        return pd.DataFrame(answer.rows, columns=list(answer.columns))
    return pd.DataFrame([row.as_dict() for row in answer])
