"""`graphsearch games` and `lab moves`: the moves of one position, in games and in the search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from . import game_list
from .commands import report
from .game_list import ListOptions
from .options import AnyPositionOptions, PositionOptions, StoreOption
from .output import say
from .render import count, node_summary, opening_at, opening_line, proven_result
from .scores import detailed, heading, is_white, score, seen, signed, wdl
from .tables import WHOLE, Part, table

if TYPE_CHECKING:
    from graphsearch.query.game_list import ListedGames
    from graphsearch.query.games import Games, PlayedMove
    from graphsearch.query.moves import Moves, StoredMove

MOVES_SPARE = ("W D L", "Child N", "P", "Q")
GAMES_SPARE = ("Decided", "Share", "Diff", "White", "Draw", "Black", "Visits")


def _moves(found: Moves) -> Iterator[Part]:
    yield found.node.position
    yield node_summary(found.node)
    white = is_white(found.node.position)
    rows = [_move_cells(move, white=white) for move in found.moves]
    yield table(rows, {"Move": WHOLE, "Proven": WHOLE}, spare=MOVES_SPARE)


@report(
    "Print all moves and mark stale values.",
    "graphsearch lab moves first.graph",
    'graphsearch lab moves first.graph "1. e4 e5" --json',
    name="moves",
    view=_moves,
    noted="store",
    views=True,
)
def moves_of(store: StoreOption, position: PositionOptions) -> Moves:
    """Print every move of a position, with the values of the position it leads to.

    `Child N` and `Child Q` are node N and minus node Q of the position after the move. Where Child Q differs
    from Q, the edge is stale; `graphsearch lab refresh` updates it. A `+` after Child N: that position was
    also reached by other moves, or searched by itself. Games counts the imported games with the move.

    JSON: as `show`, without lines; each move has `child_n`, `child_q`, `stale` (child_q minus q),
    `transposition` and `games`.
    """
    from graphsearch.query.moves import moves

    return moves(store, position.board())


def _move_cells(move: StoredMove, *, white: bool) -> dict[str, str]:
    edge = move.view
    child = "" if move.child_n is None else f"{move.child_n:,} {'+' if move.transposition else ' '}"
    return {
        "Move": edge.san,
        "Score": score(edge.cp, edge.mate, white=white),
        "W D L": wdl(edge.wdl, white=white),
        "Visits": f"{edge.n:,}",
        "P": f"{100 * edge.p:.1f}%",
        "Q": signed(edge.q, white=white),
        "Child N": child,
        "Child Q": signed(move.child_q, white=white),
        "Games": f"{move.games:,}" if move.games else "",
        "Proven": proven_result(move.bounds, white=white),
    }


def _games(found: Games | ListedGames) -> Iterator[Part]:
    from graphsearch.query.game_list import ListedGames

    yield from game_list.view(found) if isinstance(found, ListedGames) else _moves_of_games(found)


def _moves_of_games(found: Games) -> Iterator[Part]:
    yield from opening_line(opening_at(found.position))
    yield _summary(found)
    if not found.results.games:
        say("note: no imported game continues from this position; `graphsearch import` adds games")
    decided = found.results.unknown > 0
    white = is_white(found.position)
    rows = [_game_cells(move, decided=decided, white=white) for move in found.moves]
    yield table(rows, {"Move": WHOLE}, spare=GAMES_SPARE)


@report(
    "Compare imported games with the search, or list them.",
    "graphsearch games first.graph",
    "graphsearch games games.graph --list --player carlsen --opening B90 --elo 2500.. --since 2020",
    'graphsearch games games.graph "1. e4 c5 2. Nf3" --list --result 0-1 -o lost.pgn',
    name="games",
    view=_games,
    noted="store",
    views=True,
)
def games_of(store: StoreOption, position: AnyPositionOptions, wanted: ListOptions) -> Games | ListedGames:
    """Compare the results of imported games with N and Q of the search, for each move of a position.

    White, Draw, Black and Result are per cent of the games that have a result; where some have none, Decided
    says how many have one. Result is the mean result, White's as every score. Diff is what this result says
    as a value in [-1, 1], minus Q: the games did better than the search expects. Share is the move's share of
    all visits here.

    With --list: the games that meet all conditions, the latest first; with POSITION those that reach it,
    whatever their order of moves. `import --players` keeps them, with comments and variations; `lab game`
    prints one. A name is the beginning of words in it; a date without a day counts as before all days of it.

    JSON: `score`, `share` and `n_share` are in [0, 1]; values are seen by the side to move; unknown ones are
    null. With --list `total` counts the games that meet the conditions, and `ply` is where a game reaches the
    position.
    """
    if wanted.listed:
        return game_list.listed_games(store, position.board(), wanted)
    if wanted.given:
        raise typer.BadParameter("conditions on games are options of --list")
    from graphsearch.position.notation import named_board
    from graphsearch.query.games import games

    return games(store, position.board() or named_board("startpos"))


def _summary(found: Games) -> str:
    white = is_white(found.position)
    searched = "" if found.n is None else f"   {count(found.n, 'visit')}"
    mean = "" if found.score is None else f"   result {100 * _result(found.score, white=white):.1f}%"
    unknown = ""
    if found.results.unknown:
        unknown = f" ({found.results.decided:,} with a result)"
        mean = f"{mean} of these {found.results.decided:,}" if mean else ""
    side = "White" if white else "Black"
    games = count(found.results.games, "game")
    return f"{side} to move   {games}{unknown}{mean}{searched}   ({heading()})"


def _result(mean: float, *, white: bool) -> float:
    """Returns the mean result of the side to move, in [0, 1], in the shown view."""
    return (1.0 + seen(2.0 * mean - 1.0, white=white)) / 2.0


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1f}"


def _game_cells(move: PlayedMove, *, decided: bool, white: bool) -> dict[str, str]:
    mean = None if move.score is None else 100 * _result(move.score, white=white)
    return {
        "Move": move.san,
        "Games": f"{move.results.games:,}" if move.results.games else "",
        "Decided": f"{move.results.decided:,}" if decided and move.results.games else "",
        "White": _percent(move.white_percent),
        "Draw": _percent(move.draw_percent),
        "Black": _percent(move.black_percent),
        "Result": _percent(mean),
        "Score": score(move.cp, None, white=white),
        "Visits": "" if move.n is None else f"{move.n:,}",
        "Share": _percent(None if move.n_share is None else 100 * move.n_share),
        **detailed({"Q": signed(move.q, white=white)}),
        "Diff": signed(move.difference, white=white),
    }
