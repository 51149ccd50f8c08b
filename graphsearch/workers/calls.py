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
from ..base.errors import EvaluatorDefectError, GraphSearchError
from ..base.version import __version__

START_SECONDS = 600.0  # until a worker can be called: it may load a large network
SAME_VERSION = "install the same version of graphsearch on all machines"


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


def own_place() -> str:
    """Returns the host name and the process, for messages."""
    return f"{platform.node()}, process {os.getpid()}"


@dataclass(frozen=True, slots=True)
class Greeting:
    """The first answer of a worker.

    Attributes:
      place: host name and process. version: of graphsearch there. begun: of the first call
    """

    place: str
    version: str
    begun: Any = None

    @property
    def fault(self) -> str:
        """A message if the worker cannot be used; empty if it can."""
        if self.version == __version__:
            return ""
        text = f"it has graphsearch {self.version}, this machine has {__version__}; {SAME_VERSION}"
        return f"{text} ({self.place})"


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


def guarded(call: Callable[[], Any]) -> Any:
    """Returns the result of a call, or its Failure; SystemExit too: the caller needs the reason."""
    try:
        return call()
    except BaseException as error:
        return failure_of(error, own_place())


def greeting(begin: Callable[[], Any] | None) -> Greeting:
    """Returns this process's greeting, with the result of its first call."""
    return Greeting(own_place(), __version__, begin and guarded(begin))
