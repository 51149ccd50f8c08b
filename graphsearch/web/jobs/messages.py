"""What the functions of a task share: progress to the server, requests from it, compiled kernels."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...evaluators.factory import EvaluatorSpec, create
from .tasks import Stop, Watch

if TYPE_CHECKING:
    from ...evaluators.protocol import Evaluator
    from ...workers.process import Pipe

SendProgress = Callable[[dict[str, Any]], None]


class Requests:
    """The server's requests to a task."""

    def __init__(self, pipe: Pipe) -> None:
        self.stop = threading.Event()
        self.watched: tuple[str, ...] = ()
        threading.Thread(target=self._listen, args=(pipe,), daemon=True).start()

    def _listen(self, pipe: Pipe) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = pipe.recv()
                if isinstance(message, Stop):
                    self.stop.set()
                if isinstance(message, Watch):
                    self.watched = message.positions
        self.stop.set()


@contextlib.contextmanager
def ready(spec: EvaluatorSpec, send: SendProgress) -> Iterator[Evaluator]:
    """Yields an evaluator with its kernels, and those of a search that saves, compiled.

    A task calls it before it opens the file: a stop can then end its process at once.
    """
    from ...search.warm import kernels_missing

    with contextlib.closing(create(spec)) as evaluator:
        if kernels_missing(evaluator, filed=True):
            from ...search.params import SearchParams
            from ...solvers.mate.beside import compile_search

            send({"stage": "compiling"})
            compile_search(evaluator, SearchParams(), filed=True, told=True)
            send({"stage": "starting"})
        yield evaluator
