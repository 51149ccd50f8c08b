"""Queries the memory of a running search: the server asks, the search answers between two slices.

The answer has the current state of the search; the file has the state of the last save.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chess

from ...base.answer import Answer
from ...base.errors import GraphSearchError
from ...query.position import moves
from ...query.source import Records

if TYPE_CHECKING:
    from ...graph.view import Reader
    from ...store.record import NodeRecord

ANSWER_SECONDS = 0.5  # timeout of an answer; then the file answers
DEAF_SECONDS = 1.0  # without questions after a timeout: the search is saving or reading

# a function of records, or of a file; sent to another process as a partial
Ask = Callable[[Any], Answer | dict[str, Any]]


class LiveRecords(Records):
    """Records in the memory of a search."""

    def __init__(self, path: Path, read: Reader) -> None:
        super().__init__(path)
        self._read = read

    def _stored(self, board: chess.Board, key: str) -> NodeRecord | None:
        return self._read(board)


def node(records: Records, board: chess.Board) -> dict[str, Any]:
    """Returns the node of a position for the page, without its games and lines."""
    found = moves(records, board)
    return found.as_dict() | {"mate": found.node.mate}


@dataclass(frozen=True, slots=True)
class Question:
    """A question for the process of a search; `ask` takes records."""

    number: int
    ask: Ask


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """The answer to a question as a JSON object; None if the search refused it."""

    number: int
    found: dict[str, Any] | None


def answer_of(question: Question, records: Records) -> LiveAnswer:
    """Returns the answer to a question, in the process of the search."""
    try:
        return LiveAnswer(question.number, json_of(question.ask(records)))
    except GraphSearchError:  # the file gives the reason
        return LiveAnswer(question.number, None)


def json_of(found: Answer | dict[str, Any]) -> dict[str, Any]:
    """Returns an answer as a JSON object."""
    return found if isinstance(found, dict) else found.as_dict()


class OpenQuestions:
    """The server's questions that a search has not answered yet; thread-safe."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, Future[dict[str, Any] | None]] = {}
        self._deaf_until = 0.0

    def ask(self, send: Callable[[Question], None], ask: Ask) -> dict[str, Any] | None:
        """Sends a question; returns its answer, None if there is none within `ANSWER_SECONDS`."""
        if time.monotonic() < self._deaf_until:
            return None
        number, waiting = next(self._numbers), Future[dict[str, Any] | None]()
        self._open[number] = waiting
        try:
            send(Question(number, ask))
            return waiting.result(ANSWER_SECONDS)
        except TimeoutError:
            self._deaf_until = time.monotonic() + DEAF_SECONDS
            return None
        except CancelledError:
            return None
        finally:
            self._open.pop(number, None)

    def settle(self, answer: LiveAnswer) -> None:
        """Passes an answer to the thread that asked."""
        waiting = self._open.get(answer.number)
        if waiting is not None and waiting.set_running_or_notify_cancel():
            waiting.set_result(answer.found)

    def cancel(self) -> None:
        """Cancels the open questions: their search has ended."""
        self._deaf_until = 0.0
        for waiting in list(self._open.values()):
            waiting.cancel()
