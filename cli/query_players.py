"""`graphsearch query players`, `game` and `prepare`: players of the imported games."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import Json, StoreOption
from .output import one_line, print_json, print_view, say, say_if_unfinished
from .progress import progress_bar
from .render import count, cp_text, numbered
from .tables import FILL, LEFT, RIGHT, WHOLE, fitting, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from graphsearch.query.prepare import Departure, Preparation
    from graphsearch.store.tables.players import PlayerRow

SomeName = Annotated[
    str, typer.Argument(metavar="NAME", help="Part of a name; all players by default.", show_default=False)
]
Top = Annotated[int, typer.Option("--top", metavar="K", min=1, help="Rows to list.")]
GameNumber = Annotated[
    str, typer.Argument(metavar="GAME", help="SOURCE:NUMBER, as other queries list it.", show_default=False)
]
PgnFile = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE.pgn", help="Where its PGN file is now."),
]
Names = Annotated[
    list[str],
    typer.Option(
        "--player",
        metavar="NAME",
        help="The opponent: his name, or the beginning of a word in it.",
        show_default=False,
    ),
]
Color = Annotated[
    str | None,
    typer.Option(
        "--color", metavar="COLOUR", help="Only his games as white, or as black.", show_default=False
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="DATE",
        help="Only games of this date or later: YYYY, YYYY-MM or YYYY-MM-DD.",
        show_default=False,
    ),
]
Book = Annotated[
    str | None,
    typer.Option("--book", metavar="NAME", help="Your book; else the stored graph.", show_default=False),
]
MinVisits = Annotated[
    int,
    typer.Option(
        "--min-visits", metavar="N", min=1, help="Without --book: a position is known with N visits or more."
    ),
]
MinGames = Annotated[
    int, typer.Option("--min-games", metavar="N", min=1, help="Only moves that he played N times or more.")
]
By = Annotated[
    str,
    typer.Option(
        "--by", metavar="WHAT", help="games: most played first; cost: first what costs most, times its games."
    ),
]
Pgn = Annotated[
    Path | None,
    typer.Option("--pgn", metavar="FILE", help="Also write the lines into a PGN file, with comments."),
]
# column -> the narrowest terminal that has it
COLUMNS = {"Games": 0, "Of": 90, "Score": 50, "Move": 0, "Cost": 40, "cp": 80, "Best": 60, "Answer": 100}
COLUMNS |= {"Last": 120, "Line": 0}


@command(
    "List who played the imported games.",
    "graphsearch query players --store games.graph",
    "graphsearch query players kasparov --store games.graph --json",
    name="players",
)
def players_of(store: StoreOption, name: SomeName = "", top: Top = 30, json: Json = False) -> None:
    """List the players of the imported games: games of each colour, first and last year, highest Elo.

    A name is found by words or their beginnings, in any order; case, accents and punctuation do not matter.
    `graphsearch import pgn --players` keeps who played. The view `played_games` has every game for SQL.

    JSON: `games` and `total` count all games and players of the file.
    """
    from graphsearch.query.players import players as ask

    found = ask(store, name, top=top)
    if json:
        print_json(found.as_dict())
        return
    print(f"{count(found.games, 'game')} of {count(found.total, 'player')}")
    columns = {"Player": FILL} | dict.fromkeys(("Games", "White", "Black", "From", "To", "Elo"), RIGHT)
    if found.rows:
        print_view(lambda width: table(columns, map(_player_cells, found.rows), width=width))
    else:
        say(f"note: no player has {name!r} in his name")


def _player_cells(row: PlayerRow) -> list[str]:
    numbers = (row.games, row.white, row.black)
    years = ((date or "")[:4] for date in (row.first, row.last))
    return [one_line(row.name), *(f"{number:,}" for number in numbers), *years, str(row.elo or "")]


@command(
    "Print an imported game from its PGN file.",
    "graphsearch query game 1:2 --store games.graph",
    name="game",
)
def game_of(store: StoreOption, game: GameNumber, file: PgnFile = None, json: Json = False) -> None:
    """Print the text of an imported game as it stands in its PGN file, with comments and variations.

    The graph file knows where in the PGN file it is. The PGN file must have the same bytes as when it was
    imported. `query prepare` and the view `played_games` have the numbers of games.

    JSON: what the graph file keeps of the game, and its `text`.
    """
    from graphsearch.exchange.game_text import game_text

    source, _, number = game.partition(":")
    if not (source.isdecimal() and number.isdecimal() and len(game) < 40):
        raise typer.BadParameter(f"a game is SOURCE:NUMBER, such as 1:27, not {game!r}", param_hint="GAME")
    found = game_text(store, int(source), int(number), file=file)
    if json:
        print_json(found.as_dict())
    else:
        for line in found.text.splitlines():
            print("".join(c if c.isprintable() or c == "\t" else "?" for c in line))


@command(
    "List where an opponent's games leave your book.",
    'graphsearch query prepare --player "Kasparov" --store games.graph',
    "graphsearch query prepare --player carlsen --color black --since 2022 --book white --store books.graph"
    " --pgn carlsen.pgn",
    scores=True,
)
def prepare(
    store: StoreOption,
    player: Names,
    color: Color = None,
    since: Since = None,
    book: Book = None,
    min_visits: MinVisits = 10,
    min_games: MinGames = 1,
    top: Top = 30,
    by: By = "games",
    pgn: Pgn = None,
    json: Json = False,
) -> None:
    """List the moves by which an opponent leaves your book, or what the graph file has searched.

    A move leaves if the position behind it is not in the book; with a book of one side, his games of the
    other colour count. For each move: his games with it, of all his games there; his score in per cent; what
    it costs him against the best move, in centipawns by the stored values; that best move; your best answer,
    if it is stored; and the line. A name may be exact, or beginnings of its words that only one player has;
    several --player are taken together. A game that the player has on both sides counts for each.

    JSON: values and score are the player's; `games_here` are his games in the position; `entered` games met a
    known position, in `left_by_other` the other side led out of it first, `stayed` ended inside.
    """
    from graphsearch.exchange.output import check_target
    from graphsearch.query.prepare import prepare as ask
    from graphsearch.store.file import real_path

    check_target(pgn, store=real_path(store))
    with progress_bar("Following games") as show:
        found = ask(
            store,
            player,
            color=color,
            since=since,
            book=book,
            min_visits=min_visits,
            min_games=min_games,
            top=top,
            by=by,
            on_progress=show,
        )
    say_if_unfinished(store)
    if found.damaged:
        say(f"note: {count(found.damaged, 'game')} with moves that cannot be were followed up to there")
    if json:
        print_json(found.as_dict())
    else:
        _print(found)
    if pgn:
        _write(store, found, pgn)


def _print(found: Preparation) -> None:
    names, side = " / ".join(map(one_line, found.players)), f" as {found.color}" if found.color else ""
    where = f"the book {one_line(found.book)}" if found.book else "the graph"
    print(f"{names}{side}: {count(found.games, 'game')}, {found.entered:,} in {where}")
    print(
        f"Left by him: {found.left:,}   left by the other side before: {found.left_by_other:,}"
        f"   ended inside: {found.stayed:,}"
    )
    if found.moves:
        print_view(lambda width: _table(found.moves, width))
    if found.total > len(found.moves):
        say(f"note: {found.total - len(found.moves):,} more moves; --top lists more of them")


def _write(store: Path, found: Preparation, pgn: Path) -> None:
    from graphsearch.exchange.prepare_pgn import write_lines

    if not found.moves:
        say(f"note: no line to write; {pgn} is left as it is")
        return
    write_lines(store, found, pgn)
    say(f"wrote {pgn}: {count(len(found.moves), 'line')}")


def _table(moves: Sequence[Departure], width: int | None) -> Table:
    kinds = {"Move": WHOLE, "Best": LEFT, "Answer": LEFT, "Last": LEFT, "Line": FILL}
    columns = {name: kinds.get(name, RIGHT) for name in fitting(COLUMNS, width)}
    return table(columns, map(_cells, moves), width=width)


def _begin(start: str | None) -> str:
    """Returns the first position of a line, empty for the start position: games may begin anywhere.

    >>> _begin(None), _begin("bqnnrkrb/pppppppp/8/8/8/8/PPPPPPPP/BQNNRKRB w KQkq - 0 1")
    ('', 'chess960:3 ')
    """
    if start is None:
        return ""
    from graphsearch.position.board import board_of

    number = board_of(start).chess960_pos()
    return f"{start}: " if number is None else f"chess960:{number} "


def _cells(move: Departure) -> dict[str, str]:
    worth = move.worth
    return {
        "Games": f"{move.games:,}",
        "Of": f"{move.games_here:,}",
        "Score": "" if move.score is None else f"{100 * move.score:.0f}",
        "Move": move.san,
        "Cost": "" if worth.cost_cp is None else str(worth.cost_cp),
        "cp": cp_text(worth.cp),
        "Best": worth.best or "",
        "Answer": worth.answer or "",
        "Last": f"{move.last or ''} {move.source}:{move.number}".strip(),
        "Line": f"{_begin(move.start)}{numbered(move.start, [*move.line, move.san])}",
    }
