"""Questions to the memory of a running search: the server asks, its process answers between two slices.

What is found there is as new as the search itself; the file has the state of the last save.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chess

from ...base.answer import Answer
from ...base.errors import GraphSearchError
from ...query.moves import moves_with
from ...query.source import Records

if TYPE_CHECKING:
    from ...graph.view import Reader
    from ...store.record.node import NodeRecord

ANSWER_SECONDS = 0.5  # the most that an answer is waited for; then the file answers
DEAF_SECONDS = 1.0  # for which a search that gave no answer is not asked again: it saves, or reads

# of records, or of a file; it goes to another process, as a partial of a function
Ask = Callable[[Any], Answer | dict[str, Any]]


class Memory(Records):
    """Records in the memory of a search."""

    def __init__(self, path: Path, read: Reader) -> None:
        super().__init__(path)
        self._read = read

    def _stored(self, board: chess.Board) -> NodeRecord | None:
        return self._read(board)


def node(records: Records, board: chess.Board) -> dict[str, Any]:
    """Returns the node of a position as the page has it, without its games and without lines."""
    found = moves_with(records, board, {})
    return found.as_dict() | {"mate": found.node.mate}


@dataclass(frozen=True, slots=True)
class Question:
    """A question for the process of a search; `ask` takes records."""

    number: int
    ask: Ask


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """Its answer as a JSON object; None if memory has none, or the question was refused."""

    number: int
    found: dict[str, Any] | None


def answer_of(question: Question, records: Records) -> MemoryAnswer:
    """Returns the answer to a question, in the process of the search."""
    try:
        found = question.ask(records)
    except GraphSearchError:  # the file gives the reason
        return MemoryAnswer(question.number, None)
    return MemoryAnswer(question.number, json_of(found))


def json_of(found: Answer | dict[str, Any]) -> dict[str, Any]:
    """Returns an answer as a JSON object."""
    return found if isinstance(found, dict) else found.as_dict()


class OpenQuestions:
    """The questions of the server that a search has not answered yet; for any thread."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, Future[dict[str, Any] | None]] = {}
        self._lock = threading.Lock()
        self._deaf_until = 0.0

    def ask(self, send: Callable[[Question], None], ask: Ask) -> dict[str, Any] | None:
        """Sends a question; returns its answer, None if there is none in time."""
        if time.monotonic() < self._deaf_until:
            return None
        waiting: Future[dict[str, Any] | None] = Future()
        with self._lock:
            number = next(self._numbers)
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
            with self._lock:
                self._open.pop(number, None)

    def settle(self, answer: MemoryAnswer) -> None:
        """Gives an answer to who waits for it."""
        with self._lock:
            waiting = self._open.get(answer.number)
        if waiting is not None and waiting.set_running_or_notify_cancel():
            waiting.set_result(answer.found)

    def cancel(self) -> None:
        """Answers none of the open questions: their search has ended."""
        self._deaf_until = 0.0
        with self._lock:
            for waiting in self._open.values():
                waiting.cancel()
