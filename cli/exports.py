"""`graphsearch export`: a graph file, or a book in it, in the formats of other programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chess
import typer

from graphsearch.base.errors import InvalidPositionError
from graphsearch.book.questions import admitted_moves
from graphsearch.exchange.exports import SITE_VISITS, WRITERS
from graphsearch.exchange.exports import export as export_as
from graphsearch.exchange.output import ExportReport, new_output
from graphsearch.exchange.selection import Selection
from graphsearch.position.pgn import read_games

from .options import STDOUT, Count, Depth, LineOptions, Natural, OfBook, Side, StoreOption, side_of
from .output import fail, print_json, say
from .progress import StopSignals, progress_bar
from .tables import count, is_json

ENDINGS = {".pgn": "pgn", ".epd": "epd", ".bin": "polyglot", ".jsonl": "jsonl", ".csv": "csv"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of one call.

    Attributes:
      positions: POSITION...: Where to start; by default the roots of the book, the roots of searches, or the
        start position.
      output: -o --output OUT: File or folder to write; - for stdout.
      format: --format FORMAT: pgn, epd, polyglot (.bin), jsonl, csv, parquet or site; by default the ending
        of OUT says it.
      min_visits: --min-visits N: Only positions and moves with N or more visits.
      max_moves: --max-moves K: At most the K best moves of the side in a position; the other side's replies
        are not limited.
      all_moves: --all-moves: Of jsonl, csv, parquet: also the moves without visits, nine tenths of all.
      comments: --comments: Of pgn: also comments with N, Q, P, proofs and where a line goes on.
      weights: --weights POLICY: Of polyglot. n: visits; q: halved for every 25 centipawns lost against the
        best move. By default n, and q with --book.
      all: --all: Of a book: also the moves that were added before and that its rules no longer admit.
    """

    positions: list[str] | None = None
    store: StoreOption
    line: LineOptions
    output: str
    format: str | None = None
    book: OfBook = None
    side: Side = None
    depth: Depth = None
    min_visits: Natural | None = None
    max_moves: Count | None = None
    all_moves: bool = False
    comments: bool = False
    weights: str | None = None
    all: bool = False


def export(request: Request) -> int:
    """Write a graph, or a book in it, in the format of another program. The ending of OUT chooses it.

    pgn: one game tree per root, the best line first, every position expanded once. Moves have [%eval]; ?!, ?
    and ?? mark those with 10 or more visits that lose 0.1, 0.2 or 0.3 in Q; notes are comments. A game that
    leads to the position keeps its tags. --comments adds N, Q, P, and where a line goes on elsewhere. With
    --side and without --max-moves: a repertoire, the best move of that side against all replies.

    polyglot: an opening book (.bin). epd: a line per position, ce in centipawns for the side to move. jsonl,
    csv: positions and their visited moves; with --all-moves the others too, ten times as many. parquet: a
    folder with nodes.parquet and edges.parquet; needs pyarrow: pip install '.[parquet]'. site: a folder to
    open in a browser. schema/exports.md describes all of them.

    A book is exported as its rules admit it now (`book why`); --all adds the moves that they no longer admit.
    The moves of its .bin are weighted by value (--weights q), and lead from the game's start to the roots.

    JSON: `left_out` counts what was not written, by reason.

    \b
    Examples:
      graphsearch export first.graph -o first.pgn --min-visits 10
      graphsearch export first.graph -o white.bin --side white --max-moves 2 --weights q
      graphsearch export first.graph --format site -o first-site
    """
    form = (request.format or "").lower() or ENDINGS.get(Path(request.output).suffix.lower(), "")
    if form not in WRITERS:
        known = ", ".join(sorted(WRITERS))
        if request.format:
            raise typer.BadParameter(f"--format must be one of {known}, not {request.format!r}")
        raise typer.BadParameter(f"the ending of {request.output} names no format; give --format: {known}")
    _check(request, form)
    roots = _roots(request)
    if form == "site" and len(roots) > 1:
        raise typer.BadParameter("site starts from one POSITION")
    admits = None if request.all or request.book is None else admitted_moves
    # signals are not armed: Ctrl-C and SIGTERM end the export and leave no file behind
    mixed = request.output == STDOUT and sys.stdout.isatty()  # a bar would mix in
    progress = nullcontext() if mixed else progress_bar("Positions")
    with StopSignals(), progress as show:
        fewest = SITE_VISITS if form == "site" and request.book is None else 0
        selection = Selection(
            roots=roots,
            book=request.book,
            admits=admits,
            side=None if request.side is None else side_of(request.side) or "both",
            depth=request.depth,
            min_visits=fewest if request.min_visits is None else request.min_visits,
            max_moves=request.max_moves,
            all_moves=request.all_moves,
            headers=_headers(request) if form == "pgn" else {},
        )
        report = export_as(
            form,
            request.store,
            target_of(request.output),
            selection,
            comments=request.comments,
            weights=request.weights,
            on_progress=show,
        )
    if is_json():
        print_json(report.as_dict())
    else:
        for line in _summary(report):
            say(line) if request.output == STDOUT else print(line)
    for problem in report.problems:
        say(f"damaged: {problem}")
    if report.problems:
        return fail(f"{request.store} is damaged; only its readable part was exported")
    return 0


def _check(request: Request, form: str) -> None:
    """Refuses options that a format does not have."""
    if request.output == STDOUT and form in ("polyglot", "parquet", "site"):
        raise typer.BadParameter(f"{form} cannot go to stdout; name a file or folder with -o")
    given = {
        "--weights": request.weights is not None and form != "polyglot",
        "--comments": request.comments and form != "pgn",
        "--all": request.all and request.book is None,
        "--side": request.side is not None and form == "site",
        "--max-moves": request.max_moves is not None and form == "site",
        "--all-moves": request.all_moves and form not in ("jsonl", "csv", "parquet"),
    }
    if request.all_moves and request.min_visits:
        raise typer.BadParameter("--all-moves and --min-visits exclude each other")
    for name, wrong in given.items():
        if wrong:
            raise typer.BadParameter(f"{name} does not apply to {form if name != '--all' else 'a graph'}")


def _roots(request: Request) -> tuple[chess.Board, ...]:
    """Returns the positions to start from; none means the roots of the file or the book."""
    texts = request.positions or (["startpos"] if request.line.given else [])
    if request.line.given and len(texts) > 1:
        raise typer.BadParameter("--moves, --game and --ply need exactly one POSITION")
    return tuple(request.line.board_after(text) for text in texts)


def _headers(request: Request) -> dict[str, str]:
    """Returns the tags of the game that leads to the only position; none if that is not in a PGN file."""
    [name] = names if len(names := request.positions or []) == 1 else [""]
    if not Path(name).is_file():
        return {}
    try:
        found = next(read_games(Path(name), only={request.line.game or 1}), None)
    except InvalidPositionError:
        return {}
    return found.headers if found else {}


def target_of(output: str) -> Any:
    """Returns the target of an output: a path, or stdout as a stream, if no JSON goes there."""
    if is_json() and output == STDOUT:
        raise typer.BadParameter("--json and -o - both write to stdout; name a file with -o")
    return sys.stdout.buffer if output == STDOUT else Path(output)


def write_text(text: str, output: str, store: Path) -> None:
    """Writes text to a file, which must not be its source `store`, and prints its size; or to stdout."""
    if output == STDOUT:
        print(text, end="")
        return
    data = text.encode()
    with new_output(output, store=store) as out:
        out.write(data)
    print(f"{output}: {count(len(data), 'byte')}")


def _summary(report: ExportReport) -> Iterator[str]:
    games = f"{count(report.games, 'game tree')}, " if report.games else ""
    written = f"{games}{count(report.positions, 'position')}, {count(report.moves, 'move')}"
    yield f"{report.path}: {written}, {report.seconds:.1f} s"
    if report.transpositions:
        yield f"{count(report.transpositions, 'move')} to a position that is expanded elsewhere"
    if report.scaled:
        yield f"scaled: {count(report.scaled, 'move')} of positions whose weights did not fit 16 bits"
    yield from report.left_out_lines()
