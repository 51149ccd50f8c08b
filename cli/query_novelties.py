"""`graphsearch novelties`: good moves that are rare in games, and popular bad ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import report
from .options import ALL_LINES, AnyPositionOptions, Lines, OfBook, StoreOption, option
from .output import problem_lines
from .progress import progress_bar
from .render import count, line_cells
from .scores import heading, is_white, score
from .tables import FILL, WHOLE, Part, table

if TYPE_CHECKING:
    from graphsearch.query.novelties import NotableMove, Novelties

MinGames = Annotated[int, option("--min-games N", "Only positions that N games or more passed.", min=1)]
MinVisits = Annotated[int, option("--min-visits N", "Only positions with N visits or more.", min=1)]
TEXTS = {"Line": FILL, "ECO": WHOLE, "Opening": WHOLE, "Best": WHOLE}
SPARE = ("Opening", "Share", "Points", "Visits", "Best", "ECO", "Of")


def _view(found: Novelties, games: int, cp: int | None) -> Iterator[Part]:
    yield f"{count(found.reached, 'position')} of games, {found.judged:,} of them searched   ({heading()})"
    yield from problem_lines(found.problems, len(found.problems))
    liked = "Best by the search" if cp is None else f"Best by the search, or within {cp / 100:.2f}"
    known = "no game" if not games else f"at most {count(games, 'game')}"
    for title, moves, omitted in (
        (f"{liked}, in {known}", found.novelties, {"Loss", "Points"}),
        ("Popular in games, and worse", found.popular, {"Share"}),
    ):
        yield f"\n{title}: {'none' if not moves else ''}".rstrip()
        cells = map(_cells, moves)
        rows = [{name: text for name, text in row.items() if name not in omitted} for row in cells]
        yield table(rows, TEXTS, spare=SPARE)


@report(
    "List strong moves that games hardly know, and popular ones that lose.",
    "graphsearch novelties games.graph",
    "graphsearch novelties books.graph --book white --cp 15 --games 2 --json",
    view=_view,
    noted="store",
    views=True,
)
def novelties(
    store: StoreOption,
    position: AnyPositionOptions,
    book: OfBook = None,
    games: Annotated[int, option("--games N", "A move is new if N games or fewer have it.", min=0)] = 0,
    cp: Annotated[
        int | None,
        option(
            "--cp CP",
            "Also moves that are at most CP centipawns worse than the best one, however few their visits.",
            min=0,
        ),
    ] = None,
    min_games: MinGames = 5,
    min_visits: MinVisits = 100,
    lines: Lines = 20,
) -> Novelties:
    """List the best moves of the search that imported games have never or hardly played; then the reverse.

    The positions that games passed from POSITION on, or those of a book, are looked at. The first table has
    the novelties: what many games could have played comes first (games that passed the position, times the
    move's share of the visits). Moves that transpose into a position known
    from games are not novelties. The second
    table has popular moves that lose much against the best move: first what gave away most points of games,
    by the stored values. Of: games that passed the position.

    JSON: `reached` positions had enough games, `judged` of them enough visits; values are those of the side
    that moves.
    """
    import chess

    from graphsearch.query.novelties import Rules
    from graphsearch.query.novelties import novelties as ask

    if position.given and book is not None:
        raise typer.BadParameter("give a position or --book, one of the two")
    rules = Rules(games=games, cp=cp, min_games=min_games, min_visits=min_visits)
    board = None if book else position.board() or chess.Board()
    with progress_bar("Following games") as show:
        shown = (lambda met: show(met, None)) if show else None
        return ask(store, board, book=book, rules=rules, top=lines or ALL_LINES, on_progress=shown)


def _cells(move: NotableMove) -> dict[str, str]:
    white = is_white(move.position)
    return {
        **line_cells(move.start, [*move.line, move.san]),
        "Score": score(move.cp, None, white=white),
        "Best": move.best,
        "Loss": f"{move.cost_cp / 100:.2f}",
        "Games": f"{move.games:,}",
        "Of": f"{move.reached:,}",
        "Points": f"{move.weight:,.1f}",
        "Visits": f"{move.n:,}",
        "Share": f"{100 * move.n_share:.1f}%",
    }
