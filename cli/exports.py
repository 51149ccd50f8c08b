"""`graphsearch export`: a graph file, or a book in it, in the formats of other programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import export_pictures, export_site
from .commands import command, group
from .export_summary import STDOUT, Output, finish, opened_target
from .options import Json, StoreOption
from .output import say_if_unfinished
from .progress import progress_shown
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.exchange.export_report import ExportReport
    from graphsearch.exchange.selection import Selection

BookOutput = Annotated[
    str, typer.Option("-o", "--output", metavar="OUT", help="The book file to write.", show_default=False)
]
Folder = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="The folder to write; replaced if it holds nothing but such tables.",
        show_default=False,
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="POLICY",
        help="n: visits; q: halved for every 25 centipawns lost against the best move; minimax: the same, "
        "by minimax over what is exported; games: 2 * wins + draws + games without a result, "
        "of imported games; imported: as imported.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions:
    """The positions and moves to export."""

    root: Annotated[
        list[str] | None,
        typer.Option(
            "--root",
            metavar="POSITION",
            help="Where to start: startpos, chess960:N, a FEN in quotes, a PGN file, a line such as "
            '"1. e4 e5", or '
            "POSITION moves LINE. May be repeated. By default the roots of the book, the roots of "
            "searches, or the start position.",
        ),
    ] = None
    book: Annotated[
        str | None,
        typer.Option(
            "--book",
            metavar="NAME",
            help="Export only the positions and moves of this book, with its values.",
        ),
    ] = None
    side: Annotated[
        str | None,
        typer.Option(
            "--side",
            metavar="SIDE",
            help="Whose moves: white, black or both; by default the book's side, or both.",
        ),
    ] = None
    depth: Annotated[
        int | None,
        typer.Option("--depth", metavar="PLIES", min=0, help="Plies below a root; all by default."),
    ] = None
    min_visits: Annotated[
        int,
        typer.Option(
            "--min-visits", metavar="N", min=0, help="Only positions and moves with N or more visits."
        ),
    ] = 0
    max_moves: Annotated[
        int | None,
        typer.Option(
            "--max-moves",
            metavar="K",
            min=1,
            help="At most the K best moves of the side in a position; the other side's replies are not "
            "limited.",
        ),
    ] = None

    def selection(self) -> Selection:
        """Returns the selection for an export.

        Raises:
          InvalidParameterError: if the side or a number is out of range.
          InvalidPositionError: if a root cannot be read.
        """
        from graphsearch.exchange.selection import Selection, read_root

        return Selection(
            roots=tuple(read_root(text) for text in self.root or ()),
            book=self.book,
            side=self.side,  # type: ignore[arg-type] # checked there
            depth=self.depth,
            min_visits=self.min_visits,
            max_moves=self.max_moves,
        )


@command(
    "Write a Polyglot opening book.",
    "graphsearch export polyglot --store first.graph -o first.bin --weights q --depth 6",
    "graphsearch export polyglot --store first.graph -o white.bin --side white --max-moves 2 --json",
)
def polyglot(
    store: StoreOption,
    output: BookOutput,
    chosen: SelectionOptions,
    weights: Weights = "n",
    json: Json = False,
) -> None:
    """Write a Polyglot opening book (.bin): entries sorted by key, weights scaled to 16 bits per position.

    With --weights games or imported (and no --book), the moves are those of the imported games or entries,
    whether the graph knows them or not; --min-visits then counts games or weight. Without --root and limits,
    imported entries are written as they were read, including those of unknown positions.

    JSON: `scaled` counts moves whose weight did not fit into 16 bits, `merged` entries that became one;
    `left_out` counts what is not in the book, by reason.
    """
    if output == STDOUT:
        raise typer.BadParameter("a Polyglot book is binary and cannot go to stdout; name a file with -o")
    from graphsearch.exchange.polyglot_export import export_polyglot

    _export(export_polyglot, store, output, chosen, json=json, weights=weights)


@command(
    "Write game trees as PGN.",
    "graphsearch export pgn --store first.graph -o first.pgn --root startpos --min-visits 10",
    "graphsearch export pgn --store first.graph -o white.pgn --root startpos --side white --depth 8",
    scores=True,
)
def pgn(
    store: StoreOption,
    output: Output,
    chosen: SelectionOptions,
    json: Json = False,
) -> None:
    """Write one game tree per root as PGN: the best line first, every position expanded once.

    Where a line reaches a position that is expanded elsewhere, a comment says where. Comments have [%eval]
    (in pawns for White, #3 for a proven mate), N, Q (for the side that moves) and P. ?!, ? and ?? mark moves
    with 10 or more visits that lose 0.1, 0.2 or 0.3 in Q against the best move. With --side and without
    --max-moves: the best move of that side against all replies.
    """
    from graphsearch.exchange.pgn_export import export_pgn

    _export(export_pgn, store, output, chosen, json=json)


@command(
    "Write positions as EPD.",
    'graphsearch export epd --store first.graph -o first.epd --root "1. e4 e5" --depth 4',
    scores=True,
)
def epd(
    store: StoreOption,
    output: Output,
    chosen: SelectionOptions,
    json: Json = False,
) -> None:
    """Write one line of EPD per position: ce, acn, bm, pv and more.

    ce is in centipawns for the side to move, acn counts visits, acd is the length of pv, id is the key of the
    position; c0 has Q and WDL, c1 what is proven, hmvc and fmvn are the clocks. With --side: only positions
    in which that side moves.
    """
    from graphsearch.exchange.epd_export import export_epd

    _export(export_epd, store, output, chosen, json=json)


@command(
    "Write positions as JSON lines.",
    "graphsearch export jsonl --store first.graph -o - --root startpos --depth 1",
    scores=True,
)
def jsonl(
    store: StoreOption,
    output: Output,
    chosen: SelectionOptions,
    json: Json = False,
) -> None:
    """Write one JSON object per position, with all its moves, as the records hold them.

    Moves without visits are included unless --min-visits or --max-moves is given. With --side: only positions
    in which that side moves. docs/exchange.md lists the fields.
    """
    from graphsearch.exchange.rows_export import export_jsonl

    _export(export_jsonl, store, output, chosen, json=json)


@command(
    "Write moves as CSV.",
    "graphsearch export csv --store first.graph -o first.csv --min-visits 2",
    scores=True,
)
def csv(
    store: StoreOption,
    output: Output,
    chosen: SelectionOptions,
    json: Json = False,
) -> None:
    """Write one row per move, and one per position without moves, as CSV (RFC 4180) with a header.

    The contents are those of `export jsonl`.
    """
    from graphsearch.exchange.rows_export import export_csv

    _export(export_csv, store, output, chosen, json=json)


@command(
    "Write positions and moves as Parquet.",
    "graphsearch export parquet --store first.graph -o first-tables",
    'graphsearch export parquet --store first.graph -o open-tables --root "1. e4 e5" --min-visits 2 --json',
)
def parquet(
    store: StoreOption,
    output: Folder,
    chosen: SelectionOptions,
    json: Json = False,
) -> None:
    """Write a folder with nodes.parquet and edges.parquet, for DuckDB, Polars, pandas and others.

    Without other options than --min-visits, every record of the file is taken, in its own order, as the file
    was at one moment; else positions are walked over from the roots, and have a depth. Moves without visits
    are included unless --min-visits or --max-moves is given. docs/exchange.md lists the columns. Needs
    pyarrow: pip install '.[parquet]'.

    JSON: as the other exports; `left_out` counts what is not in the tables, by reason.
    """
    from graphsearch.exchange.parquet_export import export_parquet

    selection = chosen.selection()
    say_if_unfinished(store)
    # signals are not armed: Ctrl-C and SIGTERM end the export and leave no folder behind
    with StopSignals(), progress_shown("Positions") as show:
        report = export_parquet(store, output, selection, on_progress=show)
    finish(report, store, str(output), json=json)


def _export(
    write: Callable[..., ExportReport],
    store: Path,
    output: str,
    chosen: SelectionOptions,
    *,
    json: bool,
    **more: Any,
) -> None:
    """Exports, and prints the summary: on stdout, or on stderr if the data goes to stdout."""
    if json and output == STDOUT:
        raise typer.BadParameter("--json and -o - both write to stdout; name a file with -o")
    selection = chosen.selection()
    say_if_unfinished(store)
    # signals are not armed: Ctrl-C and SIGTERM end the export and leave no file behind
    with (
        StopSignals(),
        progress_shown("Positions") as show,
        opened_target(output) as target,
    ):
        report = write(store, target, selection, on_progress=show, **more)
    finish(report, store, output, json=json)


app = group(
    "Export a graph, or a book in it, to other formats.",
    polyglot,
    pgn,
    epd,
    jsonl,
    csv,
    parquet,
    export_pictures.svg,
    export_pictures.dot,
    export_site.site,
)
