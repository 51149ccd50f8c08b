"""Nodes as tables: the best lines of a search or of a stored node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from .tables import FILL, LEFT, RIGHT, WHOLE, fitting, table

if TYPE_CHECKING:
    import chess
    from rich.console import RenderableType
    from rich.table import Table

    from graphsearch.graph.view import MoveView, NodeView, Origin
    from graphsearch.position.values import WDL

MAX_PV = 12  # plies of a line that a table shows; JSON has them all
# column -> the narrowest terminal that has it
COLUMNS = {"Move": 0, "N": 0, "P": 52, "Q": 26, "WDL %": 66, "cp": 40, "PV": 34}
RESULTS = {1: "win", 0: "draw", -1: "loss"}
BY_CLOCK = "draw by the 50-move rule"
TERMINAL_NAMES = {1: "checkmate", 2: "stalemate", 3: "draw by insufficient material"}


class Step(Protocol):
    """A move of a stored line."""

    @property
    def san(self) -> str: ...  # noqa: D102
    @property
    def move(self) -> str: ...  # noqa: D102
    @property
    def n(self) -> int: ...  # noqa: D102
    @property
    def q(self) -> float: ...  # noqa: D102


def moves_table(node: NodeView, multipv: int, width: int | None) -> Table:
    """Returns the best `multipv` moves of a node (0 for all) as a table, best first.

    `width` is the terminal's, which the lines fill and never pass; None for as wide as needed.
    """
    from graphsearch.position.board import board_of

    board = board_of(node.position)
    columns = {name: {"Move": WHOLE, "PV": FILL}.get(name, RIGHT) for name in fitting(COLUMNS, width)}
    return table(columns, [_cells(board, move) for move in node.moves[: multipv or None]], width=width)


def steps_table(position: str, steps: Iterable[Step]) -> Table:
    """Returns the moves of a line from a position, each with N and Q, as a table."""
    from graphsearch.position.board import board_of

    board = board_of(position)
    rows = []
    for step in steps:
        number = move_number(board.fullmove_number, white=board.turn)
        rows.append([f"{number} {step.san}", f"{step.n:,}", signed(step.q)])
        board.push_uci(step.move)
    return table({"Move": LEFT, "N": RIGHT, "Q": RIGHT}, rows)


def move_number(number: int, *, white: bool) -> str:
    """Returns the number of a move as it stands before it: `1.` for White, `1...` for Black."""
    return f"{number}{'.' if white else '...'}"


def _cells(board: chess.Board, move: MoveView) -> dict[str, str]:
    return {
        "Move": move.san,
        "N": f"{move.n:,}",
        "P": f"{100 * move.p:.1f}%",
        "Q": signed(move.q),
        "WDL %": wdl_text(move.wdl),
        "cp": score(move),
        "PV": line_of(board, move),
    }


def signed(q: float | None) -> str:
    """Returns a Q with its sign and three decimals; zero has no sign, and None is empty.

    >>> signed(0.25), signed(-0.0001), signed(None)
    ('+0.250', '0.000', '')
    """
    if q is None:
        return ""
    text = f"{q:+.3f}"
    return "0.000" if float(text) == 0 else text


def wdl_text(wdl: WDL | None) -> str:
    """Returns win, draw and loss in per cent: `45/32/23`."""
    return "" if wdl is None else "/".join(f"{100 * part:.0f}" for part in wdl.as_list())


def numbered(start: str | None, sans: Sequence[str]) -> str:
    """Returns moves in SAN with their numbers, from a FEN, None being the start position.

    >>> numbered(None, ["e4", "e5", "Nf3"]), numbered("8/8/8/8/8/k7/8/K7 b - - 0 9", ["Kb3"])
    ('1. e4 e5 2. Nf3', '9... Kb3')
    """
    fields = (start or "x w - - 0 1").split()
    white, number, words = fields[1] == "w", int(fields[-1]), []
    for place, san in enumerate(sans):
        words.append(f"{move_number(number, white=white)} {san}" if white or not place else san)
        number, white = number + (not white), not white
    return " ".join(words)


def score(move: MoveView) -> str:
    """Returns the move's centipawns, or its proven mate: `+31`, `#5`, `#-3`."""
    if move.mate is not None:
        return f"#{move.mate}"
    return cp_text(move.cp)


def cp_text(cp: int | None) -> str:
    """Returns centipawns with their sign: `+31`, `0`; empty for None."""
    return "" if cp is None else f"{cp:+d}" if cp else "0"


def line_of(board: chess.Board, move: MoveView) -> str:
    """Returns the move's line in SAN: `1. e4 e5 2. Nf3`."""
    pv: Sequence[chess.Move] = move.pv if move.pv and move.pv[0] == move.move else (move.move, *move.pv)
    return board.variation_san(pv[:MAX_PV])


def node_summary(node: NodeView) -> str:
    """Returns a node's own numbers in one line, as its side to move sees them."""
    side = "White" if " w " in node.position else "Black"
    ended = TERMINAL_NAMES.get(node.terminal)
    if ended:
        return f"{side} to move: {ended}"
    proven = f"   proven: {proven_text(node)}" if node.bounds[0] == node.bounds[1] else ""
    return f"{side} to move   N {node.visits:,}   Q {signed(node.q)}   WDL % {wdl_text(node.wdl)}{proven}"


def proven_text(node: NodeView) -> str:
    """Returns the proven result of a node: `win, mate in 3`."""
    if not node.mate:
        return RESULTS[node.bounds[0]]
    return f"{RESULTS[node.bounds[0]]}, mate in {abs(node.mate)}"


def moment(text: str | None) -> str:
    """Returns an ISO 8601 time to the second: `2025-01-31 12:00:00`."""
    return (text or "")[:19].replace("T", " ")


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


def node_view(node: NodeView, multipv: int, width: int | None = None) -> RenderableType:
    """Returns a node's summary above its best moves; `width` as for `moves_table`."""
    from rich.console import Group
    from rich.text import Text

    if not node.moves:
        return Text(node_summary(node))
    return Group(Text(node_summary(node)), moves_table(node, multipv, width))


def board_text(position: str) -> str:
    """Returns a small diagram with White at the bottom: letters, dots and coordinates."""
    import chess

    rows = str(chess.Board(position)).splitlines()
    return "\n".join([*(f"{8 - i} {row}" for i, row in enumerate(rows)), "  a b c d e f g h"])


def count(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun, whose plural has an s unless it is given.

    >>> count(1, "node"), count(12345, "node"), count(2, "leaf", "leaves")
    ('1 node', '12,345 nodes', '2 leaves')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def rate(number: float) -> str:
    """Returns a rate in three figures.

    >>> rate(950.4), rate(81234), rate(1234567)
    ('950', '81.2k', '1.23M')
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.3g}"


def size(number: float) -> str:
    """Returns a number of bytes in a readable unit.

    >>> size(999), size(1234567)
    ('999 bytes', '1.2 MB')
    """
    if number < 1000:
        return f"{number:.0f} bytes"
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number / 1e3:.1f} kB"
