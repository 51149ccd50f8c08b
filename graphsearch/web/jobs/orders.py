"""Messages between the server and the process of a task during its work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .tasks import Stop, Watch

if TYPE_CHECKING:
    from ...workers.child import Pipe

Tell = Callable[[dict[str, Any]], None]


class Orders:
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
