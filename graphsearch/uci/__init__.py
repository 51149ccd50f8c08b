"""The search as a UCI engine: commands in, lines out, and a graph file as its memory.

    stdin --> Engine.handle --> worker thread: opens the graph, searches, saves
                 |    |                |
                 |    +--> one clock thread a search: answers in time, whatever the worker is at
                 +--> Writer <---------+

Text comes in through `Engine.handle` and goes out through a `Writer`: nothing here touches a stream.
"""

from .engine import Engine
from .writer import Writer

__all__ = ["Engine", "Writer"]
