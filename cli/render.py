"""Positions, moves, lines and nodes as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import chess

from graphsearch.position import notation, openings, values
from graphsearch.position.board import board_of
from graphsearch.position.notation import sans_of
from graphsearch.position.openings import Opening, opening_after
from graphsearch.position.values import WDL, cp_of, rounded_shares
from graphsearch.store.record import TERMINALS

from .tables import VIEW, Part, Prose, Table, count, is_white, moment, score, signed

if TYPE_CHECKING:
    from graphsearch.graph.view import MoveView, NodeView, Origin
    from graphsearch.query.routes import Way


def value_score(value: float | None, mate: int | None, position: str) -> str:
    """Returns a value of a book for the side to move as a score; `mate` is that of its record, if proven."""
    known = mate if value in (-1.0, 1.0) else None  # else it is of an earlier build
    return "" if value is None else score(cp_of(value), known, white=is_white(position))


SIGNS = {"lower": ">=", "upper": "<=", "exact": ""}


def bounded_score(value: int | None, bound: str, *, white: bool = True) -> str:
    """Returns a value of an alpha-beta search in pawns, or as a mate in moves, with the sign of its bound.

    >>> [bounded_score(*one) for one in ((314, "exact"), (-500, "upper"), (99_995, "lower"), (None, ""))]
    ['+0.31', '<=-0.50', '>=#3', '']
    >>> bounded_score(314, "lower", white=False)
    '<=-0.31'
    """
    if value is None:
        return ""
    if not white:
        bound = {"lower": "upper", "upper": "lower"}.get(bound, bound)
    mate = values.mate_moves(value)
    return SIGNS.get(bound, "") + score(values.centipawns(value) or 0, mate, white=white)


def wdl(shares: WDL | None, *, white: bool) -> str:
    """Returns win, draw and loss in per cent: `45 32 23`; those of White in White's view."""
    if shares is None:
        return ""
    parts = rounded_shares(shares, 100)
    return " ".join(f"{part:2}" for part in (parts if white else parts[::-1]))


MAX_PV = 12  # plies of a line that a table shows; JSON has them all
APART = "searched apart"  # its numbers are those of the position after it


def move_number(number: int, *, white: bool) -> str:
    """Returns the number before a move: `1.` for White, `1...` for Black."""
    return f"{number}{'.' if white else '...'}"


def _cells(board: chess.Board, move: MoveView) -> dict[str, str]:
    white = board.turn
    pv: Sequence[chess.Move] = move.pv if move.pv and move.pv[0] == move.move else (move.move, *move.pv)
    return {
        "Move": move.san,
        "Score": score(move.cp, move.mate, white=white),
        "W D L": wdl(move.wdl, white=white),
        "Visits": f"{move.n:,}",
        "P": f"{100 * move.p:.1f}%",
        "Q": signed(move.q, white=white),
        "Note": APART if move.apart else "",
        "Line": line_text(board, pv),
    }


def numbered(start: str | None, sans: Sequence[str]) -> str:
    """Returns moves in SAN with their numbers, from a FEN; None is the start position.

    >>> numbered(None, ["e4", "e5", "Nf3"]), numbered("8/8/8/8/8/k7/8/K7 b - - 0 9", ["Kb3"])
    ('1. e4 e5 2. Nf3', '9... Kb3')
    """
    return notation.numbered(sans, notation.ply_of(start) if start else 0)


def way_text(way: Way | None, position: str) -> str:
    """Returns the moves to a position; its FEN if none are known."""
    if way is None or not (way.line or way.start is None):
        return position
    start = "" if way.start is None else f"{way.start}: "
    return f"{start}{numbered(way.start, way.line)}" if way.line else "start"


def position_heading(store: Path, position: str) -> Iterator[str]:
    """Yields the line to a position of a file, if one is known, and its FEN."""
    from graphsearch.query.routes import routes

    yield from named(way_text(routes(store, [position]).get(position), position), position)


def named(line: str, position: str) -> Iterator[str]:
    """Yields the line to a position and its FEN, each once; the start position needs no FEN.

    >>> list(named("start", "FEN")), list(named("1. e4", "FEN")), list(named("FEN", "FEN"))
    (['start'], ['1. e4', 'FEN'], ['FEN'])
    """
    yield line
    if line not in ("start", position):
        yield position


def game_text(board: chess.Board) -> str:
    """Returns the line to a position, as it was given: `1. e4 e5`, `start`; its FEN without one."""
    from graphsearch.query.routes import Way

    root = board.root()
    start = None if root.fen() == chess.STARTING_FEN else root.fen()
    return way_text(Way(start, sans_of(root, board.move_stack), None), board.fen())


def way_cells(way: Way | None, position: str) -> dict[str, str]:
    """Returns the first columns of a list of positions: the line from a root, its opening, and FEN."""
    text = way_text(way, position)
    return {
        "Line": text,
        **opening_cells(way.opening if way else None),
        "Position": "" if text == position else position,
    }


def opening_cells(opening: Opening | None) -> dict[str, str]:
    """Returns the columns of an opening: its code, and its name."""
    return {"ECO": opening.eco if opening else "", "Opening": opening.name if opening else ""}


def opening_at(position: str) -> Opening | None:
    """Returns the opening of a position given as FEN."""
    return openings.opening_at(board_of(position))


def line_cells(start: str | None, sans: Sequence[str]) -> dict[str, str]:
    """Returns the first columns of a list of lines: moves from a FEN (None: the start), and opening."""
    return {"Line": numbered(start, sans), **opening_cells(opening_after(start, sans))}


def opening_line(opening: Opening | str | None) -> list[str]:
    """Returns the line that names an opening; no line without an opening."""
    return [f"Opening: {opening}"] if opening else []


def line_text(board: chess.Board, pv: Sequence[chess.Move]) -> str:
    """Returns the first moves of a line in SAN: `1. e4 e5 2. Nf3`."""
    return numbered(board.fen(), sans_of(board, pv[:MAX_PV]))


def node_summary(node: NodeView) -> str:
    """Returns a node's own numbers and the name of their view in one line."""
    white = is_white(node.position)
    side = "White" if white else "Black"
    ended = TERMINALS.get(node.terminal)
    if ended:
        return f"{side} to move: {ended}"
    worth = score(cp_of(node.q), node.mate, white=white)
    mate = f", mate in {abs(node.mate)}" if node.mate else ""
    is_proven = node.bounds[0] == node.bounds[1]
    proven = f"   proven: {proven_result(node.bounds, white=white)}{mate}" if is_proven else ""
    chances = f"W D L {wdl(node.wdl, white=white)}"
    return f"{side} to move   {worth}   {chances}   {count(node.visits, 'visit')}{proven}   {VIEW}"


def proven_result(bounds: tuple[int, int], *, white: bool) -> str:
    """Returns a proven result as text, empty if nothing is proven; `white`: whether White is to move.

    >>> [proven_result(bounds, white=False) for bounds in ((1, 1), (0, 1), (-1, 1))]
    ['Black wins', 'Black holds', '']
    """
    lower, upper = bounds
    us, them = ("White", "Black") if white else ("Black", "White")
    texts = {(1, 1): f"{us} wins", (0, 0): "draw", (-1, -1): f"{them} wins", (0, 1): f"{us} holds"}
    return texts.get((lower, upper), f"{them} holds" if (lower, upper) == (-1, 0) else "")


def origin_line(origin: Origin) -> str:
    """Returns the source of V and P of a node, in one line."""
    if origin.run is None:
        return f"V and P of {origin.description}; the file does not know from which run"
    if origin.search is None:
        return f"V and P of {origin.description}, in run {origin.run}, which the file does not list"
    root = f" of {origin.search.position}" if origin.search.position else ""
    return (
        f"V and P of {origin.description}, in run {origin.run}:"
        f" {origin.search.kind}{root}, {moment(origin.search.started)} UTC"
    )


def node_parts(node: NodeView, multipv: int) -> Iterator[Part]:
    """Yields a node's summary and its best `multipv` moves (0 for all), best first."""
    yield node_summary(node)
    if node.moves:
        board = board_of(node.position)
        yield Table([_cells(board, move) for move in node.moves[: multipv or None]])


def brief_parts(lines: Sequence[str]) -> list[Part]:
    """Returns the lines of a brief, which a terminal folds between words, and an empty one."""
    return [*map(Prose, lines), ""] if lines else []
