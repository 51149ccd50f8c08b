"""Exports a graph file, or a book in it, in the formats of other programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..store.store import Store
from .epd_export import write_epd
from .output import ExportReport, Target, new_folder, new_output, target_name
from .pgn_export import write_pgn
from .polyglot import write_polyglot
from .rows_export import is_tables, write_csv, write_jsonl, write_parquet
from .selection import Export, OnProgress, Selection
from .site.export import is_site, write_site

SITE_VISITS = 10  # least visits of a site, unless a selection says otherwise
WRITERS: dict[str, Callable[..., None]] = {
    "pgn": write_pgn,
    "epd": write_epd,
    "polyglot": write_polyglot,
    "jsonl": write_jsonl,
    "csv": write_csv,
    "parquet": write_parquet,
    "site": write_site,
}
# formats that are folders -> whether a folder is an earlier export, which may be replaced
FOLDERS: dict[str, Callable[[Path], bool]] = {"parquet": is_tables, "site": is_site}


def export(
    form: str,
    path: str | Path,
    target: Target,
    selection: Selection | None = None,
    *,
    comments: bool = False,
    weights: str | None = None,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Writes a graph file in a format; returns a report.

    Args:
      form: a name of `WRITERS`; schema/exports.md describes what each holds.
      path: the graph file, opened read-only; a search may write it meanwhile.
      target: the file or folder, replaced atomically; or a binary stream, not for a folder.
      selection: None: all, and of a site what has `SITE_VISITS` or more visits.
      comments: of pgn, as `write_pgn`. weights: of polyglot, as `write_polyglot`.

    Raises:
      InvalidParameterError: if there are no such weights, or no such book.
      ExportError: if there is nothing to write, the output cannot be written, or pyarrow is not installed.
      StoreError: if the graph file cannot be read.
    """
    started, report = time.monotonic(), ExportReport(form, target_name(target))
    options: dict[str, dict[str, Any]] = {"pgn": {"comments": comments}, "polyglot": {"weights": weights}}
    chosen = selection or Selection(min_visits=SITE_VISITS if form == "site" else 0)
    output: Any = partial(new_output, target)
    if form in FOLDERS:
        output = partial(new_folder, str(target), is_own=FOLDERS[form])
    with Store.open(path, read_only=True) as store, output(store=store.path) as out:
        WRITERS[form](Export(store, chosen, report, on_progress), out, **options.get(form, {}))
    report.seconds = time.monotonic() - started
    return report
