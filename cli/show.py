"""`graphsearch show`, `lines`, `tree`, `curve`, `store info`: what a file holds of a position, and in all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chess
import numpy as np

from graphsearch.base.errors import GraphSearchError
from graphsearch.position.board import KEY, MAX_MOVES
from graphsearch.position.openings import Opening, opening_names, opening_of, opening_places
from graphsearch.position.values import wdl_from_q

from . import render, tables
from .options import AnyPositionOptions, Count, Depth, Lines, PositionOptions, StoreOption
from .output import fail, print_answer, say
from .tables import LEFT, VIEW, Part, Table, count, detail, is_detailed, is_white, moment, score, signed, size

if TYPE_CHECKING:
    from graphsearch.query.line import Line, LinePly, LinePoint, LineValues
    from graphsearch.query.line import Lines as BestLines
    from graphsearch.query.position import Position
    from graphsearch.query.routes import Way
    from graphsearch.query.tree import Branch, Tree
    from graphsearch.store.entries import EntryRun
    from graphsearch.store.info import StoreInfo
    from graphsearch.store.provenance import RootInfo, RunInfo
    from graphsearch.store.tables.games import GameSource


def _board(store: Path, position: AnyPositionOptions) -> chess.Board:
    """Returns the position that is named, or where to look at a file first."""
    from graphsearch.query.source import first_look

    return position.board() or first_look(store)


def show(store: StoreOption, position: AnyPositionOptions, lines: Lines = 0, since: str | None = None) -> int:
    """Print the stored data of a position: its moves with their lines, imported games, the books that have
    it, and the note on it. Nothing is searched.

    The first sentences say what to play, how sure that is, why, what would change it, and what changed.

    Without POSITION: of the start position, or of the root searched last if the file lacks that. Exit code 1
    if the file knows nothing of the position.

    JSON: `evaluator` (number in the file, kind and description) is the source of V and P; number 0 is the
    rules of chess. `run` is the search that asked it (number, kind, start, and the position that was
    searched), null if the file does not know. `games` has the results of imported games by move; `books` each
    book's state, value and moves; `note` is its text, empty without one. A position that was not searched has
    only these and `position` and `key`.

    \b
    Examples:
      graphsearch show first.graph
      graphsearch show first.graph "1. e4 e5" --since 7d
      graphsearch show first.graph "1. e4 e5" --json

    Args:
      since: --since MOMENT: Say what changed since a run's number, last, yesterday, 7d, 12h, or a time such
        as 2026-01-31T12:00 (UTC), not since the session before the last search of the position.
    """
    from graphsearch.query.position import position as position_in

    board = _board(store, position)
    found = position_in(store, board, lines=MAX_MOVES, since=since)
    if not (found.moves or found.games or found.books or found.note):
        return fail(f"{store} does not hold this position: {board.fen()}")
    opening = opening_of(board)
    facts = found.as_dict()  # beside the search, and in place of `node` its own
    del facts["node"]
    if found.moves and found.origin:
        facts |= found.moves.node.as_dict() | found.origin.as_dict()
    facts["opening"] = opening.as_dict() if opening else None
    print_answer(facts, _position(found, opening, lines))
    return 0


def _position(found: Position, opening: Opening | None, lines: int) -> Iterator[Part]:
    rows = str(chess.Board(found.position)).splitlines()
    yield "\n".join([*(f"{8 - i} {row}" for i, row in enumerate(rows)), "  a b c d e f g h"])
    yield f"\n{found.position}" + (f"   key {found.key}" if is_detailed() else "")
    yield from render.opening_line(opening)
    if found.moves and found.origin:
        yield f"{render.origin_line(found.origin)}\n" if is_detailed() else ""
        yield from render.brief_parts(found.brief.lines if found.brief else ())
        yield from render.node_parts(found.moves.node, lines)
    if not found.moves:
        yield "not searched"
    games = sum(results.games for results in found.games.values())
    if games:
        yield f"games: {count(games, 'game')} in {count(len(found.games), 'move')}"
    for book in found.books:
        mate = found.moves.node.mate if found.moves else None
        worth = "" if book.value is None else f", {render.value_score(book.value, mate, found.position)}"
        moves = f", {count(len(book.moves), 'move')}" if book.moves else ""
        yield f"book {book.book}: {book.state}, ply {book.ply}{worth}{moves}"
    if found.note:
        yield f"note: {found.note}"


ENDS = {
    "unvisited": "no further move was visited",
    "unknown": "the file does not hold that position",
    "repetition": "that position occurred before",
    "clock": "draw by the 50-move rule",
    "checkmate": "checkmate",
    "stalemate": "stalemate",
    "dead": "draw by insufficient material",
    "length": "200 plies",
}


def _lines(found: BestLines) -> Iterator[Part]:
    yield from render.opening_line(render.opening_at(found.position))
    if not found.lines:
        say("note: no move from this position was visited")
    yield f"{count(found.visits, 'visit')}   {VIEW}"
    yield Table([_line_cells(found.position, line) for line in found.lines], {"Line": LEFT})
    for line in found.lines if is_detailed() else ():
        yield ""
        yield Table(map(_ply_cells, line.plies))


def _ply_cells(ply: LinePly) -> dict[str, str]:
    step, white = ply.step, ply.step.board.turn
    number = render.move_number(step.board.fullmove_number, white=white)
    return {
        "Move": f"{number} {step.san}",
        "Visits": f"{step.edge.n:,}",
        "Q": signed(ply.q, white=white),
    }


def _line_cells(position: str, line: Line) -> dict[str, str]:
    first, white = line.plies[0], is_white(position)
    cells = render.line_cells(position, [ply.step.san for ply in line.plies])
    moves = cells.pop("Line")
    return {
        "Score": score(first.cp, first.mate, white=white),
        "W D L": render.wdl(wdl_from_q(first.q, first.step.edge.draws), white=white),
        "Visits": f"{first.step.edge.n:,}",
        "Note": render.APART if first.step.edge.apart else "",
        **cells,
        "Line": f"{moves} ({ENDS[line.end]})",
    }


def lines_of(store: StoreOption, position: AnyPositionOptions, lines: Lines = 1) -> None:
    """Print the best lines, the score and visits of their first move, and why they end; with --details every
    move.

    Without POSITION: from the start position, or the root searched last if the file lacks that.

    JSON: values are seen by the side to move at POSITION, all along the line. `end` of a line is unvisited,
    unknown (not in the file), repetition, clock (50-move rule), checkmate, stalemate, dead (insufficient
    material) or length (200 plies); `last` is its last position.

    \b
    Examples:
      graphsearch lines first.graph --lines 3
      graphsearch lines first.graph "1. e4 e5" --json
    """
    from graphsearch.query.line import pv

    found = pv(store, _board(store, position), lines=lines or MAX_MOVES)
    print_answer(found, _lines(found), fits=True)


def _tree(found: Tree, store: Path) -> Iterator[Part]:
    yield from render.position_heading(store, found.root.position)
    yield from _drawing(found.root)
    met = f"{count(found.positions, 'position')}, {count(found.transpositions, 'transposition')}"
    yield f"{met}; depth {found.depth}, moves with {count(found.min_visits, 'visit')} or more"


def tree(
    store: StoreOption,
    position: AnyPositionOptions,
    depth: Depth = 3,
    min_visits: Count | None = None,
    max_moves: Count | None = None,
) -> None:
    """Draw the well-visited moves below a position as a tree in which every position is expanded once.

    Scores and visits belong to the move. Where lines meet, the position is expanded in the shortest one, and
    the others point to it. Without POSITION: from the start position, or the root searched last if the file
    lacks that.

    JSON: `tree` is nested by `branches`; values are seen by the side that plays the move. For a position that
    is expanded elsewhere, `transposes_to` has the moves to that place. `hidden` counts the visited moves that
    are not followed.

    \b
    Examples:
      graphsearch tree first.graph --depth 3 --min-visits 20
      graphsearch tree first.graph --depth 4 --max-moves 2 --json

    Args:
      min_visits: --min-visits N: Follow moves with N or more visits; a fiftieth of the position's visits by
        default.
      max_moves: --max-moves K: Follow at most K moves per position.
    """
    from graphsearch.query.tree import tree as tree_in

    board, most = _board(store, position), 3 if depth is None else depth
    found = tree_in(store, board, depth=most, min_visits=min_visits, width=max_moves)
    print_answer(found, _tree(found, store))


def _drawing(root: Branch) -> Iterator[str]:
    def below(above: Branch) -> list[tuple[str, Branch | None]]:
        white, number = is_white(above.position), int(above.position.split()[5])
        drawn: list[tuple[str, Branch | None]] = []
        own, *names = _openings([above, *above.branches])
        for branch, name in zip(above.branches, names, strict=True):
            place = name if name != own else ""
            if branch.transposes_to is not None:
                place = " ".join((tables.signs("\u2192", "->"), *(branch.transposes_to or ["the root"])))
            move = f"{render.move_number(number, white=white)} {branch.san}"
            drawn.append((f"{move}  {_worth(branch, white=white)}  {place}".rstrip(), branch))
        return [*drawn, (f"{above.hidden} more", None)] if above.hidden and drawn else drawn

    yield "  ".join(filter(None, (_worth(root, white=is_white(root.position)), *_openings([root]), VIEW)))
    yield from tables.tree_lines(root, below)


def _openings(branches: Sequence[Branch]) -> list[str]:
    """Returns the code and name of the opening of each position, empty without one."""
    places = opening_places(np.array([branch.words[KEY] for branch in branches]))
    return [opening_names()[place] if place >= 0 else "" for place in places.tolist()]


def _worth(branch: Branch, *, white: bool) -> str:
    """Returns score and visits of a move; `white`: whether White plays it."""
    more = detail(f"  Q {signed(branch.q, white=white)}")
    apart = f"  {render.APART}" if branch.apart else ""
    return f"{score(branch.cp, branch.mate, white=white)}  {branch.n:,}{more}{apart}"


def curve_of(store: StoreOption, position: PositionOptions) -> None:
    """Print the values along a line or a game as a curve and as a table, from White's view.

    The line is the game of a PGN file, or the moves of POSITION. Scores and visits belong to the positions.
    `Loss` is how much worse the move played is than the best one, in pawns, by current values, of which each
    counts as at most ten pawns. Positions that the file does not hold are gaps.

    JSON: `points`, one per position, from White's view; unknown values are null.

    \b
    Examples:
      graphsearch curve first.graph "1. e4 e5 2. Nf3 Nc6"
      graphsearch curve first.graph games.pgn --game 2 --json
    """
    from graphsearch.query.line import values

    found = values(store, position.board())
    print_answer(found, _values(found))


def _values(found: LineValues) -> Iterator[Part]:
    if found.unknown:
        say(f"note: the file does not hold {count(found.unknown, 'position')} of this line")
    yield VIEW
    most = max((abs(point.q) for point in found.points if point.q is not None), default=0.0)
    signs = tables.signs("\u2588\u2502", "#|")
    rows = [
        _point_cells(point)
        | {"Curve": "" if point.q is None else bar(point.q / max(most, LEAST_TOP), *signs)}
        for point in found.points
    ]
    yield Table(rows)


def _point_cells(point: LinePoint) -> dict[str, str]:
    white = point.turn == "w"
    number = render.move_number(point.number, white=white)
    return {
        "Move": f"{number} {point.san}" if point.san else "(end)",
        "Score": score(point.cp, point.mate, white=True),
        "Visits": "not stored" if point.n is None else f"{point.n:,}",
        "Best": point.best_san or "",
        "Loss": "" if point.loss_cp is None else f"{point.loss_cp / 100:.2f}",
        "Q": signed(point.q),
    }


HALF_BAR = 10  # characters
LEAST_TOP = 0.05  # Q of the longest bar, at least


def bar(share: float, ink: str = "#", middle: str = "|") -> str:
    """Returns a value in [-1, 1] as a bar to the right of a line, or to the left of it.

    >>> [bar(share).rstrip() for share in (0.5, 0.0, -0.2)]
    ['          |#####', '          |', '        ##|']
    """
    length = ink * round(HALF_BAR * abs(share))
    left, right = (length, "") if share < 0 else ("", length)
    return f"{left:>{HALF_BAR}}{middle}{right:<{HALF_BAR}}"


# ------------------------------------------------------------------ info
SHOWN_ROWS = 20  # searches and roots in a table; JSON has all
INFO_SPARE = ("Position", "Opening", "Parameters", "Started (UTC)", "ECO", "Limits", "Time")


def info(store: StoreOption) -> None:
    """Print what a graph file holds: nodes, bytes, evaluators, roots and every run.

    JSON: `evaluator` is the one that the file is bound to, null while it is bound to none; `evaluators` are
    all sources of its contents, by number. In `runs`, `evaluator` is the number of the evaluator, `kind` is
    search or another purpose, and `program` is the version of graphsearch (null if unknown). `imported`
    counts what `graphsearch import` added, file by file in `sources`. `entries` counts transposition entries
    by evaluation, superseded ones included; `entry_runs` are the searches to a fixed depth and the mate
    proofs that left them.

    \b
    Example:
      graphsearch store info first.graph
    """
    from graphsearch.store.info import info as facts_of

    found = facts_of(store)
    print_answer(found, _info(found, store))


def _info(found: StoreInfo, store: Path) -> Iterator[Part]:
    from graphsearch.query.routes import routes

    yield _summary(str(store), found)
    roots, runs = found.roots[:SHOWN_ROWS], found.runs[-SHOWN_ROWS:]  # the last searched root comes first
    solved, sources = found.entry_runs[-SHOWN_ROWS:], found.imported.sources[-SHOWN_ROWS:]
    ways: Mapping[str, Way] = {}
    with suppress(GraphSearchError):  # `store verify` lists the problems
        fens = [*(root.position for root in roots), *(run.position for run in runs)]
        ways = routes(store, filter(None, [*fens, *(run.fen for run in solved)]))
    kinds = {run.kind for run in found.runs}
    for name, rows, total in (
        ("Roots", [_root(root, ways) for root in roots], found.roots),
        (
            "Searches" if kinds <= {"search"} else "Runs",
            [_run(run, found, ways, several=not kinds <= {"search"}) for run in runs],
            found.runs,
        ),
        ("Fixed depth and mates", [_entry_run(run, ways) for run in solved], found.entry_runs),
        ("Imports", [_import(source) for source in sources], found.imported.sources),
    ):
        if rows:
            last = f"the last {SHOWN_ROWS} of {len(total)}; --json has all"
            more = last if len(total) > SHOWN_ROWS else f"{len(total)}"
            yield ""
            yield Table(rows, {"Value": LEFT}, spare=INFO_SPARE, title=f"{name} ({more})")


def _summary(name: str, found: StoreInfo) -> str:
    each = f" ({found.bytes_per_node:.1f} bytes per node)" if found.nodes else ""
    several = found.evaluators if len(found.evaluators) > 1 else {}
    held, imported = found.entries, found.imported
    of = [f"{held.proofs:,} proofs"] if held.proofs else []
    of += [f"{number:,} of evaluation {digest[:8]}" for digest, number in held.evaluations.items()]
    games = count(imported.games, "game")
    played = f"{games}, {count(imported.positions, 'position')}, {count(imported.moves, 'move')}"
    kinds = {source.kind for source in imported.sources}
    lines = {
        "File": name,
        "Format": str(found.format_version),
        "Evaluator": found.evaluator.describe() if found.evaluators else "none yet; the first search sets it",
        **{f"  {number}": identity.describe() for number, identity in several.items()},
        "Nodes": f"{found.nodes:,}",
        "Size": size(found.file_bytes) + each,
        "Entries": f"{held.entries:,} ({size(held.bytes)}): {', '.join(of)}" if held.entries else "",
        "Games": played if "pgn" in kinds else "",
        "Polyglot": f"{imported.entries:,} entries" if "polyglot" in kinds else "",
        "EPD": count(imported.epd_positions, "position") if "epd" in kinds else "",
    }
    return "\n".join(f"{label + ':':<11}{text}" for label, text in lines.items() if text)


def _root(root: RootInfo, ways: Mapping[str, Way]) -> dict[str, str]:
    visited = moment(root.last_searched)
    lead = render.way_cells(ways.get(root.position), root.position)
    return {**lead, "Visits": f"{root.visits:,}", "Searched (UTC)": visited}


def _import(source: GameSource) -> dict[str, str]:
    return {
        "Kind": source.kind,
        "Started (UTC)": moment(source.started),
        "Taken": f"{source.taken:,}",
        "Skipped": f"{source.skipped:,}",
        "State": "complete" if source.finished else "interrupted",
        "File": source.name,
    }


def _entry_run(run: EntryRun, ways: Mapping[str, Way]) -> dict[str, str]:
    return {
        **render.way_cells(ways.get(run.fen), run.fen),
        "Kind": run.kind,
        "Started (UTC)": moment(run.started),
        "Depth": "" if run.depth is None else str(run.depth),
        "Value": render.bounded_score(run.value, run.bound or "", white=is_white(run.fen)),
        "Nodes": f"{run.nodes:,}",
        "Time": f"{run.seconds:.1f} s",
        "State": "" if run.finished else "interrupted",
    }


def _run(run: RunInfo, found: StoreInfo, ways: Mapping[str, Way], *, several: bool) -> dict[str, str]:
    """Returns the cells of a run; `several`: whether the file has runs of other kinds than searches."""
    from graphsearch.search.params import SearchParams

    defaults = SearchParams().as_dict()  # of this version
    changed = {name: value for name, value in run.params.items() if defaults.get(name) != value}
    return {
        "Run": str(run.id),
        "Line": render.way_cells(ways.get(run.position), run.position)["Line"] if run.position else "",
        "Kind": run.kind if several else "",
        "Evaluator": str(run.evaluator) if len(found.evaluators) > 1 else "",
        "Started (UTC)": moment(run.started),
        "Limits": _pairs(run.limits) or "none",
        "Parameters": _pairs(changed) or "defaults",
        "Visits": f"{run.visits:,}",
        "Evaluations": f"{run.evaluations:,}",
    }


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(
        f"{name}={value if isinstance(value, str) else f'{value:g}'}" for name, value in values.items()
    )
