"""What EPD, JSON lines and CSV of a graph share: the text of a thousand positions after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..store.store import Store
from .export_report import ExportReport
from .graph_rows import Part, Text
from .graph_walk import GraphWalk
from .pool import RecordPool
from .selection import ExportPlan
from .walk import OnProgress

# what makes the text of some positions, while it is open; of a file, records, and where temporary files go
GraphTexts = Callable[[Store, RecordPool, Path], AbstractContextManager[Callable[[Part], Text]]]


def write_graph(
    store: Store,
    plan: ExportPlan,
    texts: GraphTexts,
    folder: Path,
    out: BinaryIO,
    head: bytes,
    rest: bool,
    report: ExportReport,
    on_progress: OnProgress | None,
) -> None:
    """Writes the positions of a plan without a book.

    Args:
      folder: where the temporary files go. head: what stands before the positions.
      rest: whether moves without visits are written, where the selection has them.
    """
    with (
        GraphWalk(store, plan, folder, report, leaves=True, rest=rest, on_progress=on_progress) as walk,
        texts(store, walk.pool, folder) as text_of,
    ):
        for visits in walk.visits():
            rows = np.flatnonzero(visits.own)
            report.left_out["other_side"] += len(visits) - len(rows)
            if not len(rows):
                continue
            part = Part.of_visits(visits, rows)
            out.write(head if not report.positions else b"")
            out.write(text_of(part).data)
            report.positions += len(rows)
            report.moves += len(part.of)
