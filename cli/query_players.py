"""`graphsearch players`, `prepare` and `lab game`: players of the imported games."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command, report
from .options import ALL_LINES, Json, Lines, LinesOutput, Side, Since, StoreOption, argument, option, side_of
from .output import one_line, print_answer, say, say_if_unfinished
from .progress import progress_bar
from .render import count, line_cells
from .scores import heading, is_white, score
from .tables import FILL, LEFT, WHOLE, Part, table

if TYPE_CHECKING:
    from graphsearch.exchange.kept_games import GameText
    from graphsearch.query.players import Players
    from graphsearch.query.prepare import Departure, Preparation
    from graphsearch.store.tables.players import PlayerRow

SomeName = Annotated[str, argument("NAME", "Part of a name; all players by default.")]
GameNumber = Annotated[str, argument("GAME", "SOURCE:NUMBER, as other queries list it.")]
PgnFile = Annotated[Path | None, option("--file FILE.pgn", "Where its PGN file is now.")]
MinGames = Annotated[int, option("--min-games N", "Only moves that were played N times or more.", min=1)]
TEXTS = {"Line": FILL, "ECO": WHOLE, "Opening": WHOLE, "Best": LEFT, "Answer": LEFT, "Last": LEFT}
SPARE = ("Opening", "Last", "Answer", "Of", "ECO", "Best", "Cost", "Result", "Score")


def _players(found: Players) -> Iterator[Part]:
    yield f"{count(found.games, 'game')} of {count(found.total, 'player')}"
    yield table(map(_player_cells, found.rows), {"Player": FILL})


def _player_cells(row: PlayerRow) -> dict[str, str]:
    return {
        "Player": one_line(row.name),
        "Games": f"{row.games:,}",
        "White": f"{row.white:,}",
        "Black": f"{row.black:,}",
        "From": (row.first or "")[:4],
        "To": (row.last or "")[:4],
        "Elo": str(row.elo or ""),
    }


@report(
    "List who played the imported games.",
    "graphsearch players games.graph",
    "graphsearch players games.graph kasparov --json",
    name="players",
    view=_players,
)
def players_of(store: StoreOption, name: SomeName = "", lines: Lines = 30) -> Players:
    """List the players of the imported games: games of each colour, first and last year, highest Elo.

    A name is found by words or their beginnings, in any order; case, accents and punctuation do not matter.
    `graphsearch import --players` keeps who played. The view `played_games` has every game for SQL.

    JSON: `games` and `total` count all games and players of the file.
    """
    from graphsearch.query.players import players

    found = players(store, name, top=lines or ALL_LINES)
    if not found.rows:
        say(f"note: no player's name contains {name!r}")
    return found


def _game(found: GameText) -> Iterator[Part]:
    for line in found.text.splitlines():
        yield "".join(c if c.isprintable() or c == "\t" else "?" for c in line)


@report(
    "Print an imported game with its comments.",
    "graphsearch lab game games.graph 1:2",
    name="game",
    view=_game,
)
def game_of(store: StoreOption, game: GameNumber, file: PgnFile = None) -> GameText:
    """Print the text of an imported game as it stood in its PGN file, with comments and variations.

    Graph files that were made before they kept texts need the PGN file, with the same bytes as when it was
    imported. `games --list`, `prepare` and the view `played_games` have the numbers of games.

    JSON: what the graph file keeps of the game, and its `text`.
    """
    from graphsearch.exchange.kept_games import game_text

    source, _, number = game.partition(":")
    if not (source.isdecimal() and number.isdecimal() and len(game) < 40):
        raise typer.BadParameter(f"a game is SOURCE:NUMBER, such as 1:27, not {game!r}", param_hint="GAME")
    return game_text(store, int(source), int(number), file=file)


@command(
    "List where an opponent's games leave your book.",
    'graphsearch prepare games.graph --player "Kasparov"',
    "graphsearch prepare books.graph --player carlsen --side black --since 2022 --book white -o carlsen.pgn",
    views=True,
)
def prepare(
    store: StoreOption,
    player: Annotated[
        list[str], option("--player NAME", "The opponent's name, or the beginning of a word in it.")
    ],
    side: Side = None,
    since: Since = None,
    book: Annotated[str | None, option("--book NAME", "Your book; else the stored graph.")] = None,
    min_visits: Annotated[
        int, option("--min-visits N", "Without --book: a position is known with N visits or more.", min=1)
    ] = 10,
    min_games: MinGames = 1,
    lines: Lines = 30,
    by: Annotated[
        str, option("--by WHAT", "games: most played first; cost: first what costs most, times its games.")
    ] = "games",
    output: LinesOutput = None,
    json: Json = False,
) -> None:
    """List the moves by which an opponent leaves your book, or what the graph file has searched.

    A move leaves if the position behind it is not in the book; with a book of one side, games of the
    other colour count. For each move: the games with it, of all games there; the player's score in per cent;
    what it costs against the best move, in pawns by the stored values; that best move; your best answer,
    if it is stored; and the line. A name may be exact, or beginnings of its words that only one player has;
    several --player are taken together. A game between two of them counts for each. Without a book, the best
    move of a position never leaves: there only the searched part ends.

    JSON: values and score are the player's; `games_here` are games in the position; `entered` games met a
    known position, in `left_by_other` the other side led out of it first, `stayed` ended inside.
    """
    from graphsearch.exchange.output import check_target
    from graphsearch.query.prepare import prepare as ask
    from graphsearch.store.file import real_path

    check_target(output, store=real_path(store))
    with progress_bar("Following games") as show:
        found = ask(
            store,
            player,
            color=side_of(side),
            since=since,
            book=book,
            min_visits=min_visits,
            min_games=min_games,
            top=lines or ALL_LINES,
            by=by,
            on_progress=show,
        )
    say_if_unfinished(store)
    if found.damaged:
        say(f"note: {count(found.damaged, 'game')} with illegal moves; only the moves before those count")
    print_answer(found, _preparation(found), json=json)
    if output:
        _write(store, found, output)


def _preparation(found: Preparation) -> Iterator[Part]:
    names, side = " / ".join(map(one_line, found.players)), f" as {found.color}" if found.color else ""
    where = f"the book {one_line(found.book)}" if found.book else "the graph"
    yield f"{names}{side}: {count(found.games, 'game')}, {found.entered:,} in {where}"
    yield (
        f"Left by the player: {found.left:,}   left by the other side before: {found.left_by_other:,}"
        f"   ended inside: {found.stayed:,}   ({heading()})"
    )
    yield table(map(_cells, found.moves), TEXTS, spare=SPARE)
    if found.total > len(found.moves):
        say(f"note: {found.total - len(found.moves):,} more moves; --lines 0 lists them all")


def _write(store: Path, found: Preparation, pgn: Path) -> None:
    from graphsearch.exchange.games_export import write_lines

    if not found.moves:
        say(f"note: there is no line to write; {pgn} was not changed")
        return
    write_lines(store, found, pgn)
    say(f"wrote {pgn}: {count(len(found.moves), 'line')}")


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
    worth, cells = move.worth, line_cells(move.start, [*move.line, move.san])
    return {
        **cells,
        "Line": f"{_begin(move.start)}{cells['Line']}",
        "Score": score(worth.cp, None, white=is_white(move.position)),
        "Cost": "" if worth.cost_cp is None else f"{worth.cost_cp / 100:.2f}",
        "Best": worth.best or "",
        "Answer": worth.answer or "",
        "Games": f"{move.games:,}",
        "Of": f"{move.games_here:,}",
        "Result": "" if move.score is None else f"{100 * move.score:.0f}%",
        "Last": f"{move.last or ''} {move.source}:{move.number}".strip(),
    }
