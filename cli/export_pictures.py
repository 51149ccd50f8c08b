"""The pictures and the site of `graphsearch export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .export_summary import finish, opened_target
from .options import SelectionOptions
from .output import say_if_unfinished
from .progress import progress_shown
from .signals import StopSignals

if TYPE_CHECKING:
    import chess


def draw(
    form: str,
    store: Path,
    output: str,
    root: chess.Board | None,
    chosen: SelectionOptions,
    *,
    most: int,
    json: bool,
) -> None:
    """Writes at most so many positions below a root, or of a book, as SVG or for Graphviz."""
    from graphsearch.exchange.picture import export_picture

    say_if_unfinished(store)
    with opened_target(output) as target:
        report = export_picture(
            store,
            target,
            form,
            root,
            depth=chosen.depth,
            min_visits=chosen.min_visits,
            most=most,
            book=chosen.book,
        )
    finish(report, store, output, json=json)


def write_site(
    store: Path, folder: Path, root: chess.Board | None, chosen: SelectionOptions, *, json: bool
) -> None:
    """Writes a folder with board, moves, graph and values of a book, or of what follows a root."""
    from graphsearch.exchange.site.export import export_site

    say_if_unfinished(store)
    # signals are not armed: Ctrl-C and SIGTERM end the export and leave no folder behind
    with StopSignals(), progress_shown("Positions") as show:
        report = export_site(
            store,
            folder,
            root,
            book=chosen.book,
            depth=chosen.depth,
            min_visits=chosen.min_visits,
            on_progress=show,
        )
    finish(report, store, str(folder), json=json)
