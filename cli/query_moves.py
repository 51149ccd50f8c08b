"""`graphsearch query moves` and `games`: the moves of one position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .commands import command
from .options import Json, PositionOptions, StoreOption
from .output import print_json, print_part, say, say_if_unfinished
from .render import RESULTS, node_summary, score, signed, wdl_text
from .tables import LEFT, RIGHT, table

if TYPE_CHECKING:
    from rich.table import Table

    from graphsearch.query.games import Games, PlayedMove
    from graphsearch.query.moves import Moves, StoredMove


@command(
    "Print all moves and mark stale values.",
    "graphsearch query moves startpos --store first.graph",
    'graphsearch query moves startpos --moves "e4 e5" --store first.graph --json',
    name="moves",
    scores=True,
)
def moves_of(
    store: StoreOption,
    position: PositionOptions,
    json: Json = False,
) -> None:
    """Print every move of a position, with the values of the position it leads to.

    `Child N` and `Child Q` are node N and minus node Q of the position after the move. Where Child Q differs
    from Q, the edge is stale; `graphsearch refresh` updates it. A `+` after Child N: that position was also
    reached by other moves, or searched by itself. Games counts the imported games with the move.

    JSON: as `show`, without lines; each move has `child_n`, `child_q`, `stale` (child_q minus q),
    `transposition` and `games` (null if the file has no tables of games).
    """
    from graphsearch.query.moves import moves as ask

    found = ask(store, position.board())
    say_if_unfinished(store)
    if json:
        print_json(found.as_dict())
        return
    print(found.node.position)
    print(node_summary(found.node))
    if found.moves:
        print_part(_moves_table(found))


def _moves_table(found: Moves) -> Table:
    games = any(move.games for move in found.moves)
    proven = any(_proof(move) for move in found.moves)
    columns = {"Move": LEFT, "N": RIGHT, "P": RIGHT, "Q": RIGHT, "WDL %": RIGHT, "cp": RIGHT}
    columns |= {"Child N": RIGHT, "Child Q": RIGHT}
    columns |= {"Games": RIGHT} if games else {}
    columns |= {"Proven": LEFT} if proven else {}
    return table(columns, map(_move_cells, found.moves))


def _move_cells(move: StoredMove) -> dict[str, str]:
    edge = move.view
    child = "" if move.child_n is None else f"{move.child_n:,} {'+' if move.transposition else ' '}"
    return {
        "Move": edge.san,
        "N": f"{edge.n:,}",
        "P": f"{100 * edge.p:.1f}%",
        "Q": signed(edge.q),
        "WDL %": wdl_text(edge.wdl),
        "cp": score(edge),
        "Child N": child,
        "Child Q": signed(move.child_q),
        "Games": f"{move.games:,}" if move.games else "",
        "Proven": _proof(move),
    }


def _proof(move: StoredMove) -> str:
    lower, upper = move.bounds
    if lower == upper:
        return RESULTS[lower]
    return "no loss" if lower == 0 else "no win" if upper == 0 else ""


@command(
    "Compare imported games with the search.",
    "graphsearch query games startpos --store first.graph",
    name="games",
    scores=True,
)
def games_of(
    store: StoreOption,
    position: PositionOptions,
    json: Json = False,
) -> None:
    """Compare the results of imported games with N and Q of the search, for each move of a position.

    White, Draw, Black and Score are per cent of the games that have a result; where some have none, Decided
    says how many have one. Score is the mean result for the side to move. Diff is this score as a value in
    [-1, 1] minus Q: above 0, the move did better in games than the search expects. `N %` is its share of all
    visits here.

    JSON: `score`, `share` and `n_share` are in [0, 1]; unknown values are null.
    """
    from graphsearch.query.games import games as ask

    found = ask(store, position.board())
    say_if_unfinished(store)
    if json:
        print_json(found.as_dict())
        return
    print(found.position)
    print(_summary(found))
    if not found.results.games:
        say("note: no imported game continues from this position; `graphsearch import pgn` adds games")
    if found.moves:
        print_part(_games_table(found))


def _games_table(found: Games) -> Table:
    columns = {"Move": LEFT}
    if found.results.games:
        decided = ("Decided",) if found.results.unknown else ()
        columns |= dict.fromkeys(("Games", *decided, "White", "Draw", "Black", "Score"), RIGHT)
    if found.n is not None:
        columns |= dict.fromkeys(("N", "N %", "Q"), RIGHT)
    columns |= {"Diff": RIGHT} if any(move.difference is not None for move in found.moves) else {}
    return table(columns, map(_game_cells, found.moves))


def _summary(found: Games) -> str:
    side = "White" if " w " in found.position else "Black"
    searched = "" if found.n is None or found.q is None else f"   N {found.n:,}   Q {signed(found.q)}"
    mean = "" if found.score is None else f"   score {100 * found.score:.1f} %"
    unknown = f" ({found.results.unknown:,} without a result)" if found.results.unknown else ""
    return f"{side} to move   games {found.results.games:,}{unknown}{mean}{searched}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1f}"


def _game_cells(move: PlayedMove) -> dict[str, str]:
    return {
        "Move": move.san,
        "Games": f"{move.results.games:,}" if move.results.games else "",
        "Decided": f"{move.results.decided:,}" if move.results.games else "",
        "White": _percent(move.white_percent),
        "Draw": _percent(move.draw_percent),
        "Black": _percent(move.black_percent),
        "Score": _percent(None if move.score is None else 100 * move.score),
        "N": "" if move.n is None else f"{move.n:,}",
        "N %": _percent(None if move.n_share is None else 100 * move.n_share),
        "Q": signed(move.q),
        "Diff": signed(move.difference),
    }
