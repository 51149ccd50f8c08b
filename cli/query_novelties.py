"""`graphsearch query novelties`: good moves that games hardly have, and popular bad ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import AnyPosition, Json, LineOptions, StoreOption
from .output import print_json, print_problems, print_view, say_if_unfinished
from .progress import progress_bar
from .render import count, cp_text, numbered
from .tables import FILL, RIGHT, WHOLE, fitting, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from graphsearch.query.novelties import NotableMove, Novelties

Book = Annotated[
    str | None,
    typer.Option("--book", metavar="NAME", help="Look at a book instead of POSITION.", show_default=False),
]
Games = Annotated[
    int, typer.Option("--games", metavar="N", min=0, help="A move is new if N games or fewer have it.")
]
Share = Annotated[
    float, typer.Option("--share", metavar="S", help="The best move is liked with this share of the visits.")
]
Cp = Annotated[
    int | None,
    typer.Option(
        "--cp",
        metavar="CP",
        min=0,
        help="Instead of --share: liked is each move that is at most CP centipawns worse than the best one.",
        show_default=False,
    ),
]
MinGames = Annotated[
    int,
    typer.Option("--min-games", metavar="N", min=1, help="Only positions that N games or more passed."),
]
MinVisits = Annotated[
    int, typer.Option("--min-visits", metavar="N", min=1, help="Only positions with N visits or more.")
]
MoveVisits = Annotated[
    int,
    typer.Option(
        "--move-visits",
        metavar="N",
        min=1,
        help="Only moves with N visits or more: the value of fewer says little.",
    ),
]
Popular = Annotated[
    float,
    typer.Option("--popular", metavar="S", help="A move is popular with this share of the games."),
]
Loss = Annotated[
    int, typer.Option("--loss", metavar="CP", min=0, help="A popular move is told if it loses CP or more.")
]
Top = Annotated[int, typer.Option("--top", metavar="K", min=1, help="Moves to list of each kind.")]
# column -> the narrowest terminal that has it
COLUMNS = {"Games": 0, "Of": 40, "N": 80, "N %": 60, "cp": 50, "Move": 0, "Best": 70, "Line": 0}
LOSSES = {"Games": 0, "Of": 40, "N": 80, "Loss": 0, "cp": 50, "Points": 90, "Move": 0, "Best": 70, "Line": 0}


@command(
    "List strong moves that games hardly know, and popular ones that lose.",
    "graphsearch query novelties startpos --store games.graph",
    "graphsearch query novelties --book white --store books.graph --cp 15 --games 2 --json",
    scores=True,
)
def novelties(
    store: StoreOption,
    line: LineOptions,
    position: AnyPosition = None,
    book: Book = None,
    games: Games = 0,
    share: Share = 0.1,
    cp: Cp = None,
    min_games: MinGames = 5,
    min_visits: MinVisits = 100,
    move_visits: MoveVisits = 30,
    popular: Popular = 0.1,
    loss: Loss = 30,
    top: Top = 20,
    json: Json = False,
) -> None:
    """List the best moves of the search that imported games have never or hardly played; then the reverse.

    The positions that games passed from POSITION on, or those of a book, are looked at. The first table has
    the novelties: what many games could have played comes first (games that passed the position, times the
    move's share of the visits). A move into a position that games passed in another order is none. The second
    table has popular moves that lose much against the best move: first what gave away most points of games,
    by the stored values. Of: games that passed the position.

    JSON: `reached` positions had enough games, `judged` of them enough visits; values are those of the side
    that moves.
    """
    from graphsearch.query.novelties import Rules
    from graphsearch.query.novelties import novelties as ask

    if (position is None) == (book is None):
        raise typer.BadParameter("name a POSITION or a --book, one of the two")
    if book is not None and line.given:
        raise typer.BadParameter("--moves, --game and --ply need a POSITION")
    rules = Rules(
        games=games,
        share=share,
        cp=cp,
        min_games=min_games,
        min_visits=min_visits,
        move_visits=move_visits,
        popular=popular,
        loss=loss,
    )
    board = None if position is None else line.board_after(position)
    with progress_bar("Following games") as show:
        shown = (lambda met: show(met, None)) if show else None
        found = ask(store, board, book=book, rules=rules, top=top, on_progress=shown)
    say_if_unfinished(store)
    if json:
        print_json(found.as_dict())
    else:
        _print(found, rules.games, cp)


def _print(found: Novelties, games: int, cp: int | None) -> None:
    print(f"{count(found.reached, 'position')} of games, {found.judged:,} of them searched")
    print_problems(found.problems, len(found.problems))
    liked = "Best by the search" if cp is None else f"Best by the search, or within {cp} cp"
    known = "no game" if not games else f"at most {count(games, 'game')}"
    for title, moves, columns in (
        (f"{liked}, in {known}", found.novelties, COLUMNS),
        ("Popular in games, and worse", found.popular, LOSSES),
    ):
        print(f"\n{title}: {'none' if not moves else ''}".rstrip())
        if moves:
            _print_table(moves, columns)


def _print_table(moves: Sequence[NotableMove], columns: dict[str, int]) -> None:
    def drawn(width: int | None) -> Table:
        kinds = {"Move": WHOLE, "Best": WHOLE, "Line": FILL}
        shown = {name: kinds.get(name, RIGHT) for name in fitting(columns, width)}
        return table(shown, map(_cells, moves), width=width)

    print_view(drawn)


def _cells(move: NotableMove) -> dict[str, str]:
    return {
        "Games": f"{move.games:,}",
        "Of": f"{move.reached:,}",
        "N": f"{move.n:,}",
        "N %": f"{100 * move.n_share:.1f}",
        "cp": cp_text(move.cp),
        "Loss": str(move.cost_cp),
        "Points": f"{move.weight:,.1f}",
        "Move": move.san,
        "Best": move.best,
        "Line": numbered(move.start, [*move.line, move.san]),
    }
