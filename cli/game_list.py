"""`graphsearch games --list`: imported games by player, opening, result, rating, date, file and position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import ALL_LINES, Lines, Side, Since, option, side_of
from .output import one_line, say
from .query_find import range_of
from .render import count
from .tables import FILL, LEFT, WHOLE, Part, table

if TYPE_CHECKING:
    import chess

    from graphsearch.query.game_list import GameFilters, ListedGame, ListedGames

TEXTS = {
    "White": FILL,
    "Black": FILL,
    "Opening": WHOLE,
    **dict.fromkeys(("Date", "Result", "ECO", "Game"), LEFT),
}
SPARE = ("Event", "Opening", "Moves", "Elo W", "Elo B")
DOWN = {"date", "white_elo", "black_elo", "plies"}  # the greatest first, unless a minus turns the order


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The filters, order and output of a list of games."""

    listed: Annotated[
        bool, option("--list", "List the games themselves; with POSITION those that reach it.")
    ] = False
    player: Annotated[
        list[str] | None,
        option("--player NAME", "Listed: his games; given twice, the games of these two with each other."),
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


def listed_games(store: Path, position: chess.Board | None, given: ListOptions) -> ListedGames:
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


def view(found: ListedGames) -> Iterator[Part]:
    """Yields the list for a person."""
    yield f"{count(found.total, 'game')} of {found.all_games:,}"
    yield table(map(_cells, found.games), TEXTS, spare=SPARE)
    if found.total > len(found.games):
        say(f"note: {found.total - len(found.games):,} more games; --lines 0 lists them all")


def _cells(game: ListedGame) -> dict[str, str]:
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
