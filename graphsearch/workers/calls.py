"""The worker's side: calls, and what they return.

An error is sent as text and becomes an exception again at the receiver: exceptions with arguments of their
own cannot be unpickled, and a worker that sent one would look dead.
"""

from __future__ import annotations

import os
import platform
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..base import errors
from ..base.errors import EvaluatorDefectError, EvaluatorError, GraphSearchError
from ..base.version import __version__

SAME_VERSION = "install the same version of graphsearch on all machines"


class WorkerLostError(Exception):
    """Raised if a worker has ended; the message says how."""


class StopFlag(Protocol):
    """A flag that the owner of the workers sets, such as an event of threads or of processes."""

    def is_set(self) -> bool:
        """Returns whether it is set."""


class Stopping(threading.Event):
    """Whether the owner wants calls to end soon; as the `stop` of a search."""

    def __init__(self) -> None:
        super().__init__()
        self.flag: StopFlag = threading.Event()

    def is_set(self) -> bool:
        """Returns whether calls should end soon."""
        return self.flag.is_set()


STOPPING = Stopping()  # of this process


def require_version(version: str) -> None:
    """Raises EvaluatorError unless this worker has the owner's version of graphsearch."""
    if version != __version__:
        raise EvaluatorError(f"it has graphsearch {__version__}, this machine has {version}; {SAME_VERSION}")


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


def failure_of(error: BaseException) -> Failure:
    """Returns the message for an exception in this process.

    >>> failure_of(ZeroDivisionError("division by zero")).text
    'the evaluator failed: ZeroDivisionError: division by zero'
    """
    place = f"{platform.node()}, process {os.getpid()}"
    if not isinstance(error, GraphSearchError):
        trace = "".join(traceback.format_exception(error))
        text = f"the evaluator failed: {type(error).__name__}: {error}"
        return Failure(EvaluatorDefectError.__name__, text, place, trace)
    ours = next(base for base in type(error).__mro__ if base.__module__ == errors.__name__)
    trace = error.trace if isinstance(error, EvaluatorDefectError) else ""
    return Failure(ours.__name__, str(error), place, trace)


def guarded(call: Callable[[], Any]) -> Any:
    """Returns the result of a call, or its Failure; SystemExit too: the caller needs the reason."""
    try:
        return call()
    except BaseException as error:
        return failure_of(error)
