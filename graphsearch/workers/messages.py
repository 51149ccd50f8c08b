"""Messages of all workers.

An error is sent as text and becomes an exception again at the receiver: exceptions with arguments of their
own cannot be unpickled, and a worker that sent one would look dead.
"""

from __future__ import annotations

import os
import platform
import traceback
from dataclasses import dataclass

from ..base import errors
from ..base.errors import EvaluatorDefectError, GraphSearchError


def own_place() -> str:
    """Returns the host name and the process, for messages."""
    return f"{platform.node()}, process {os.getpid()}"


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker is ready for work.

    Attributes:
      place: host name and process, for messages.
      identity: of its evaluator, as JSON; empty if it has none. All workers must have the same.
      notes: of its evaluator, for the user.
      wants_lines: whether its evaluator wants the moves before a position.
      batch_size: the smallest batch that keeps its evaluator busy.
    """

    place: str
    identity: str = ""
    notes: tuple[str, ...] = ()
    wants_lines: bool = False
    batch_size: int = 1


@dataclass(frozen=True, slots=True)
class Leave:
    """Asks a worker to finish its work, to close its files, and to end."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception.

    Attributes:
      kind: name of a class of `graphsearch.base.errors`. text: its message. place: host name and process.
      trace: the traceback of an unexpected exception.
    """

    kind: str
    text: str
    place: str = ""
    trace: str = ""

    def as_error(self, *, placed: bool = False) -> GraphSearchError:
        """Returns the exception, with the place in its text if `placed`.

        >>> Failure("EvaluatorError", "no such network", "pc, process 7").as_error(placed=True)
        EvaluatorError('no such network (pc, process 7)')
        """
        kind: type[GraphSearchError] = getattr(errors, self.kind)
        text = f"{self.text} ({self.place})" if placed and self.place else self.text
        return EvaluatorDefectError(text, self.trace) if self.trace else kind(text)


def failure_of(error: BaseException, place: str = "") -> Failure:
    """Returns the message for an exception.

    >>> failure_of(ZeroDivisionError("division by zero")).text
    'the evaluator failed: ZeroDivisionError: division by zero'
    """
    if not isinstance(error, GraphSearchError):
        trace = "".join(traceback.format_exception(error))
        text = f"the evaluator failed: {type(error).__name__}: {error}"
        return Failure(EvaluatorDefectError.__name__, text, place, trace)
    ours = next(base for base in type(error).__mro__ if base.__module__ == errors.__name__)
    trace = error.trace if isinstance(error, EvaluatorDefectError) else ""
    return Failure(ours.__name__, str(error), place, trace)
