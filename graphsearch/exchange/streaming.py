"""What EPD, JSON lines and CSV share: one record of text after the other, as the walk visits positions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..errors import ExportError
from ..position.fens import fens
from ..position.values import scores_by
from ..store.reading import Reader
from ..store.sharded.files import open_to_read
from ..store.store import Store
from .candidates import source_of
from .export_report import ExportReport
from .graph_stream import GraphTexts, write_graph
from .output import Target, new_output, scratch_folder, scratch_path, target_name
from .scratch import Scratch
from .selection import ExportPlan, Selection, plan
from .walk import OnProgress, Stop, Walk

# the text of some positions, whose FENs are given; what it adds to the report's moves
Render = Callable[[list[Stop], list[str], Reader], Iterable[tuple[bytes, int]]]
Prepare = Callable[[Store, int | None], Render]  # of a file and the number of the book


def export_stream(
    path: str | Path,
    target: Target,
    selection: Selection | None,
    form: str,
    prepare: Prepare,
    texts: GraphTexts,
    *,
    head: bytes = b"",
    rest: bool = True,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Writes the text of every position of a selection, and returns what was written.

    Of one side, positions where that side moves are written, and only those.

    Args:
      prepare: makes the text of single positions, of a book. texts: that of many, of a graph.
      head: what stands before the positions. rest: whether moves without visits are written.

    Raises:
      InvalidParameterError: if there is no such book.
      ExportError: if there is nothing to write, or no place for it.
      StoreError: if the graph file cannot be read.
    """
    started = time.monotonic()
    report = ExportReport(form, target_name(target))
    with (
        scores_by((selection or Selection()).score_type),
        open_to_read(path) as store,
        new_output(target, store=store.path) as out,
    ):
        chosen = plan(store, selection or Selection())
        if chosen.book is None:
            write_graph(store, chosen, texts, scratch_folder(target), out, head, rest, report, on_progress)
        else:
            _write_book(store, chosen, prepare, scratch_path(target), out, head, report, on_progress)
        if not report.positions:
            raise ExportError(f"{store.path}: nothing to export; it has no position of this selection")
    report.seconds = time.monotonic() - started
    return report


def _write_book(
    store: Store,
    chosen: ExportPlan,
    prepare: Prepare,
    path: Path,
    out: BinaryIO,
    head: bytes,
    report: ExportReport,
    on_progress: OnProgress | None,
) -> None:
    """Writes the positions of a plan one by one, with the temporary file at a path."""
    with Scratch(path) as scratch, store.reader() as lines:
        render = prepare(store, chosen.book)
        source = source_of(store, chosen.book)
        walk = Walk(store, chosen, source, scratch, report, leaves=True, on_progress=on_progress)
        for stops in walk.stops():
            own = [stop for stop in stops if stop.own]
            report.left_out["other_side"] += len(stops) - len(own)
            if not own:
                continue
            if not report.positions:
                out.write(head)
            _write(out, own, render(own, fens_of(own), lines), report)
        report.problems += [line for line in lines.problems if line not in report.problems]


def _write(
    out: BinaryIO, stops: list[Stop], texts: Iterable[tuple[bytes, int]], report: ExportReport
) -> None:
    for _, (text, moves) in zip(stops, texts, strict=True):
        out.write(text)
        report.positions += 1
        report.moves += moves


def fens_of(stops: list[Stop]) -> list[str]:
    """Returns the FENs of visited positions, with their move numbers."""
    if not stops:
        return []
    texts = fens(np.array([stop.met.words for stop in stops], np.uint64))
    return [
        f"{text.rpartition(' ')[0]} {stop.met.ply // 2 + 1}" for text, stop in zip(texts, stops, strict=True)
    ]
