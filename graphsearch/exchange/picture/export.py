"""`export svg` and `export dot`: a picture of a neighbourhood or a book, in a file that appears whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import chess

from ...query.neighbourhood import Neighbourhood, neighbourhood
from ..export_report import ExportReport
from ..output import Target, new_output
from .dot import dot_of
from .svg import svg_of

POSITIONS = 60  # as many as a page shows
FORMS: dict[str, Callable[[Neighbourhood], str]] = {"svg": svg_of, "dot": dot_of}


def export_picture(
    path: str | Path,
    target: Target,
    form: str,
    board: chess.Board | None = None,
    *,
    depth: int | None = None,
    min_visits: int | None = None,
    most: int = POSITIONS,
    book: str | None = None,
) -> ExportReport:
    """Draws what `query.neighbourhood` finds.

    Args:
      target: file, or binary stream. form: `svg` or `dot`.
      board, depth, min_visits, most, book: as `neighbourhood`.

    Raises:
      ExportError: if the output cannot be written.
      GraphSearchError: as `neighbourhood`.
    """
    began = time.monotonic()
    picture = neighbourhood(path, board, depth=depth, min_visits=min_visits, most=most, book=book)
    with new_output(target, store=Path(path)) as out:
        out.write(FORMS[form](picture).encode())
    name = str(target) if isinstance(target, str | Path) else "-"
    report = ExportReport(form, name, positions=len(picture.nodes), moves=len(picture.edges))
    report.left_out["moves_outside"] = picture.hidden
    report.seconds = time.monotonic() - began
    return report
