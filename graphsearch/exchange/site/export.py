"""`export --format site`: the walk over the exported positions, and the folder with the page and its data.

The page has one classic script, because a page in a folder may load no modules.
"""

from __future__ import annotations

import re
import time
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path

import chess

from ...errors import ExportError
from ...position.values import scores_by
from ...store.sharded.files import open_to_read
from ...version import __version__
from ..choices import tables_of
from ..output import ExportReport, new_folder
from ..pieces import sprite
from ..selection import ExportPlan, Selection, plan
from ..walk import OnProgress, Walk
from .parts import MOVES, Pages, Site, part_text, site_text

MARK = "site.js"  # an existing folder is replaced if it has this and an index.html
PART = 400  # positions in a script: some 300 kB
MIN_VISITS = 10  # of a graph, unless told otherwise


def export_site(
    path: str | Path,
    target: str | Path,
    board: chess.Board | None = None,
    *,
    book: str | None = None,
    depth: int | None = None,
    min_visits: int | None = None,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Writes a folder with a page that shows a book, or what follows a position; it needs no server.

    Args:
      path: the graph file; it is only read.
      target: the folder; it is made, or replaced if it is a site that was exported before.
      board: where it begins; None: the roots of the book, or all roots of searches.
      book: name of the book whose positions and moves alone are taken; None: those of the graph.
      depth: plies below a root; None: all.
      min_visits: only positions and moves with so many visits; None: 10, of a book 0.
      on_progress: called with the positions visited, and met.

    Raises:
      InvalidParameterError: if a number is out of range, or there is no such book.
      ExportError: if there is nothing to export, or no place for it.
      StoreError: if the graph file cannot be read.
    """
    started = time.monotonic()
    least = min_visits if min_visits is not None else 0 if book is not None else MIN_VISITS
    roots = (board,) if board is not None else ()
    selection = Selection(roots=roots, book=book, depth=depth, min_visits=least)
    report = ExportReport("site", str(target))
    with (
        scores_by(selection.score_type),
        open_to_read(path) as store,
        new_folder(target, store=store.path, is_own=_is_site) as folder,
    ):
        chosen = plan(store, selection)
        tables = tables_of(store, chosen.book)
        place = folder.parent
        with (
            Walk(store, chosen, place, report, leaves=True, tables=tables, on_progress=on_progress) as walk,
            Pages(place, store, chosen, walk) as pages,
        ):
            for visits in walk.visits():
                pages.visit(visits)
                report.positions += len(visits)
            if not report.positions:
                nothing = f"nothing to export; no position of this selection has {least} or more visits"
                raise ExportError(f"{store.path}: {nothing}")
            pages.sort()
            _write(folder, pages, chosen, report)
    report.seconds = time.monotonic() - started
    return report


def _write(folder: Path, pages: Pages, chosen: ExportPlan, report: ExportReport) -> None:
    """Writes the page and its data."""
    data = folder / "data"
    data.mkdir()
    for number, part in enumerate(pages.parts(PART)):
        report.moves += sum(len(row[MOVES]) for row in part)
        (data / f"{number}.js").write_text(part_text(number, part), encoding="ascii")
    site = Site(
        title=_title(chosen),
        book=chosen.selection.book,
        black=chosen.side == "black",
        part_size=PART,
        positions=report.positions,
        roots=tuple(pages.roots()),
    )
    (data / "site.js").write_text(site_text(site), encoding="ascii")
    for name, text in page_files(site).items():
        (folder / name).write_text(text, encoding="utf-8")


def _title(chosen: ExportPlan) -> str:
    if chosen.selection.book is not None:
        return chosen.selection.book
    return "Start position" if chosen.roots[0].board_fen() == chess.STARTING_BOARD_FEN else "Position"


def _is_site(folder: Path) -> bool:
    return (folder / MARK).is_file() and (folder / "index.html").is_file()


SHARED = ("chess.js", "board.js")  # modules of the explorer
OWN = ("data.js", "layers.js", "look.js", "views.js", "page.js")

_IMPORT = re.compile(r"^import\b[^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export\s+", re.MULTILINE)


def page_files(site: Site) -> dict[str, str]:
    """Returns the files of the page itself, by name."""
    return {
        "index.html": _page(site),
        "site.css": f"{_shared('board.css')}\n{_own('site.css')}",
        "site.js": script(),
    }


@cache
def script() -> str:
    """Returns the script of all sites: the modules of the board, then what is ours."""
    board = "\n".join(plain(_shared(name)) for name in SHARED)
    own = "\n".join(_own(name) for name in OWN)
    return (
        '(() => {\n"use strict";\n'
        f"const {{ Board, menOf }} = (() => {{\n{board}\nreturn {{ Board, menOf }};\n}})();\n{own}\n}})();\n"
    )


def plain(module: str) -> str:
    r"""Returns a module as part of a classic script: without imports, and its names exported to nobody.

    >>> plain('import { a } from "./a.js";\nexport class B {}\n')
    'class B {}\n'
    """
    return _EXPORT.sub("", _IMPORT.sub("", module))


def _shared(name: str) -> str:
    return resources.files("graphsearch").joinpath("web", "static", name).read_text("utf-8")


def _own(name: str) -> str:
    return resources.files(__package__).joinpath("static", name).read_text("utf-8")


def _page(site: Site) -> str:
    """Returns the page; whatever comes from the file is escaped."""
    values = {
        "title": escape(site.title),
        "about": escape(_about(site)),
        "roots": "".join(f'<option value="{number}">{escape(fen)}</option>' for number, fen in site.roots),
        "pieces": sprite(),
        "program": escape(f"graphsearch {__version__}"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _own("index.html"))


def _about(site: Site) -> str:
    what = "book" if site.book is not None else "graph"
    return f"{what}, {site.positions:,} positions" if site.positions > 1 else f"{what}, 1 position"
