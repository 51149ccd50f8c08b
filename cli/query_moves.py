"""`graphsearch games` and `lab moves`: the moves of a position in games and searches, and games."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import report
from .options import (
    ALL_LINES,
    AnyPositionOptions,
    Lines,
    PositionOptions,
    Side,
    Since,
    StoreOption,
    option,
    side_of,
)
from .output import one_line, say
from .query_find import range_of
from .render import APART, count, node_summary, opening_at, opening_line, proven_result
from .scores import detailed, heading, is_white, score, seen, signed, wdl
from .tables import FILL, LEFT, WHOLE, Part, table

if TYPE_CHECKING:
    import chess

    from graphsearch.query.game_list import GameFilters, ListedGame, ListedGames
    from graphsearch.query.games import Games, PlayedMove
    from graphsearch.query.position import Moves, StoredMove


LIST_TEXTS = {
    "White": FILL,
    "Black": FILL,
    "Opening": WHOLE,
    **dict.fromkeys(("Date", "Result", "ECO", "Game"), LEFT),
}
LIST_SPARE = ("Event", "Opening", "Moves", "Elo W", "Elo B")
DOWN = {"date", "white_elo", "black_elo", "plies"}  # the greatest first, unless a minus turns the order


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The filters, order and output of a list of games."""

    listed: Annotated[
        bool, option("--list", "List the games themselves; with POSITION those that reach it.")
    ] = False
    player: Annotated[
        list[str] | None,
        option(
            "--player NAME",
            "Listed: games of a player; given twice, the games of these two with each other.",
        ),
    ] = None
    side: Side = None
    opening: Annotated[
        str | None, option("--opening TEXT", "Listed: an ECO code, its beginning, or part of a name.")
    ] = None
    result: Annotated[str | None, option("--result R", "Listed: 1-0, 0-1, 1/2-1/2 or *.")] = None
    elo: Annotated[str | None, option("--elo MIN..MAX", "Listed: rating of both players.")] = None
    since: Since = None
    until: Annotated[str | None, option("--until DATE", "Only games of this date or earlier.")] = None
    file: Annotated[str | None, option("--file NAME", "Listed: part of the name of the PGN file.")] = None
    by: Annotated[
        str,
        option(
            "--by WHAT",
            "Listed by number, date, white, black, white_elo, black_elo, result, eco, plies or event; a "
            "minus turns the order: --by=-date.",
        ),
    ] = "date"
    lines: Lines = 30
    output: Annotated[
        Path | None, option("-o --output OUT", "Listed: also write these games as PGN, or .csv.")
    ] = None

    @property
    def given(self) -> bool:
        """Whether any filter or the output is given."""
        named = (self.player, self.side, self.opening, self.result, self.elo, self.since, self.until)
        return any((*named, self.file, self.output))

    def filters(self, position: chess.Board | None) -> GameFilters:
        """Returns the filters of the query."""
        from graphsearch.query.game_list import GameFilters

        names = self.player or []
        if len(names) > 2:
            raise typer.BadParameter("give --player once, or twice for games between two players")
        least, most = range_of("--elo", self.elo, int)
        return GameFilters(
            player=names[0] if names else "",
            opponent=names[1] if len(names) > 1 else "",
            color=side_of(self.side),
            opening=self.opening or "",
            result=self.result,
            least_elo=least,
            most_elo=most,
            since=self.since,
            until=self.until,
            file=self.file or "",
            position=position,
        )


def _list_games(store: Path, position: chess.Board | None, given: ListOptions) -> ListedGames:
    """Returns the matching games, and writes them to a file if one is named."""
    from graphsearch.exchange.games_export import export_games, form_of
    from graphsearch.exchange.output import check_target
    from graphsearch.query.game_list import Order, list_games
    from graphsearch.store.file import real_path

    check_target(given.output, store=real_path(store))
    by = given.by.removeprefix("-")
    down = (by in DOWN) != given.by.startswith("-")
    found = list_games(store, given.filters(position), Order(by=by, down=down, most=given.lines or ALL_LINES))
    if given.output:
        bare = export_games(store, found, given.output, form=form_of(given.output))
        say(f"wrote {given.output}: {count(len(found.games), 'game')}")
        if bare:
            say(f"note: of {count(bare, 'game')} only headers and moves are kept, without comments")
    return found


def _listed(found: ListedGames) -> Iterator[Part]:
    yield f"{count(found.total, 'game')} of {found.all_games:,}"
    yield table(map(_listed_cells, found.games), LIST_TEXTS, spare=LIST_SPARE)
    if found.total > len(found.games):
        say(f"note: {found.total - len(found.games):,} more games; --lines 0 lists them all")


def _listed_cells(game: ListedGame) -> dict[str, str]:
    row = game.row
    return {
        "Date": row.date or "",
        "White": one_line(row.white or "?"),
        "Elo W": str(row.white_elo or ""),
        "Black": one_line(row.black or "?"),
        "Elo B": str(row.black_elo or ""),
        "Result": row.result,
        "ECO": one_line(game.eco or ""),
        "Opening": (game.opening or "")[4:],
        "Moves": str((game.plies + 1) // 2),
        "Event": one_line(row.event or ""),
        "Ply": "" if game.ply is None else str(game.ply),
        "Game": f"{row.source}:{row.number}",
    }


MOVES_SPARE = ("W D L", "Child N", "P", "Q")
GAMES_SPARE = ("Decided", "Share", "Diff", "White", "Draw", "Black", "Visits")


def _moves(found: Moves) -> Iterator[Part]:
    yield found.node.position
    yield node_summary(found.node)
    white = is_white(found.node.position)
    rows = [_move_cells(move, white=white) for move in found.moves]
    yield table(rows, {"Move": WHOLE, "Note": WHOLE, "Proven": WHOLE}, spare=MOVES_SPARE)


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
    from graphsearch.query.position import moves

    return moves(store, position.board())


def _move_cells(move: StoredMove, *, white: bool) -> dict[str, str]:
    edge = move.view
    child = "" if move.child_n is None else f"{move.child_n:,} {'+' if move.transposition else ' '}"
    return {
        "Move": edge.san,
        "Score": score(edge.cp, edge.mate, white=white),
        "W D L": wdl(edge.wdl, white=white),
        "Visits": f"{edge.n:,}",
        "Note": APART if edge.apart else "",
        "P": f"{100 * edge.p:.1f}%",
        "Q": signed(edge.q, white=white),
        "Child N": child,
        "Child Q": signed(move.child_q, white=white),
        "Games": f"{move.games:,}" if move.games else "",
        "Proven": proven_result(move.bounds, white=white),
    }


def _games(found: Games | ListedGames) -> Iterator[Part]:
    from graphsearch.query.game_list import ListedGames

    if isinstance(found, ListedGames):
        yield from _listed(found)
        return
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
        return _list_games(store, position.board(), wanted)
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
