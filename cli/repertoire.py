"""`graphsearch repertoire`: own moves, the replies they meet, and their gaps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command, group, report
from .exports import STDOUT, write_text
from .imports import given_file
from .options import (
    ALL_LINES,
    Depth,
    Json,
    Lines,
    PgnInput,
    PositionOptions,
    Side,
    StoreOption,
    option,
    side_of,
)
from .output import print_answer, print_json, problem_lines, say, speaks_unicode
from .render import count, numbered
from .scores import detail, heading, is_white, score, signed
from .tables import LEFT, WHOLE, Part, table

if TYPE_CHECKING:
    from rich.tree import Tree as Drawing

    from graphsearch.book.study.repertoire.moves import RepertoireChange
    from graphsearch.book.study.repertoire.survey import Gap, Survey, SurveyedMove, SurveyedPosition, WeakSpot

OneSide = Annotated[str, option("--side SIDE", "white or black: whose repertoire.")]
GLYPHS = {6: "?!", 2: "?", 4: "??"}
TOML = ".toml"


def _side(text: str) -> str:
    """Returns the side that `--side` names.

    Raises:
      typer.BadParameter: if it names none, or both.
    """
    found = side_of(text)
    if found is None:
        raise typer.BadParameter("--side must be white or black here")
    return found


# ------------------------------------------------------------------ changes
def _changed(found: RepertoireChange) -> Iterator[Part]:
    done = f"{count(found.added, 'move')} added" if found.added or not found.removed else ""
    gone = f"{count(found.removed, 'move')} removed" if found.removed else ""
    yield f"{found.side.capitalize()}'s repertoire: {done or gone}, {count(found.moves, 'move')} now"


@report(
    "Add a line to a repertoire.",
    'graphsearch repertoire add first.graph "1. e4 c5 2. Nf3" --side white',
    "graphsearch repertoire add first.graph games.pgn --game 2 --ply 12 --side black",
    view=_changed,
)
def add(store: StoreOption, position: PositionOptions, side: OneSide) -> RepertoireChange:
    """Add the moves of a line to the repertoire of a side: own moves, and the replies that they meet.

    A repertoire consists of positions, so a line that transposes into it goes on with what is known there.
    The file can be searched meanwhile.

    JSON: `added` and `removed` count moves, `moves` are all moves now.
    """
    from graphsearch.book.study.repertoire.moves import add_line

    return add_line(store, _side(side), position.board())


@report(
    "Remove a move from a repertoire.",
    'graphsearch repertoire remove first.graph "1. e4 c5 2. Nf3" --side white',
    view=_changed,
)
def remove(store: StoreOption, position: PositionOptions, side: OneSide) -> RepertoireChange:
    """Remove the last move of a line from the repertoire of a side, with everything that only it reached.

    JSON: as `repertoire add`.
    """
    from graphsearch.book.study.repertoire.moves import remove_move

    return remove_move(store, _side(side), position.board())


@command(
    "Add the lines of a PGN file to a repertoire.",
    "graphsearch repertoire import first.graph white.pgn --side white",
    name="import",
)
def import_pgn(file: PgnInput, store: StoreOption, side: OneSide, json: Json = False) -> None:
    """Add all lines of a PGN file to the repertoire of a side, variations included.

    JSON: `added` counts moves; `left_out` has at most 1,000 reasons, `found` counts all.
    """
    from graphsearch.book.study.repertoire.moves import import_file

    found = import_file(store, _side(side), given_file(file))
    if json:
        print_json(found.as_dict())
        return
    for line in problem_lines(found.problems, found.found):
        say(f"left out: {line}")
    print(
        f"{count(found.games, 'game')}: {count(found.added, 'move')} added, {count(found.moves, 'move')} now"
    )


@command(
    "Write a repertoire as PGN, or as the TOML of a book.",
    "graphsearch repertoire export first.graph --side white -o white.pgn",
    "graphsearch repertoire export first.graph --side white -o white.toml",
)
def export(
    store: StoreOption,
    side: OneSide,
    output: Annotated[str, option("-o --output OUT", "File to write; - for PGN on stdout.")] = STDOUT,
    json: Json = False,
) -> None:
    """Write a repertoire as PGN from move one, each position once; a comment says where a line transposes to.

    If OUT ends in .toml, it is a book: `book build` keeps to the repertoire and answers what it lacks.

    JSON: `text` of the file.
    """
    from graphsearch.book.study.repertoire.writing import pgn_of_repertoire, toml_of_repertoire

    wanted, target = _side(side), Path(output)
    is_book = target.suffix.lower() == TOML
    text = toml_of_repertoire(store, wanted, target.stem) if is_book else pgn_of_repertoire(store, wanted)
    if json:
        print_json({"text": text})
    else:
        write_text(text, output, store)


# ------------------------------------------------------------------ looking
@command(
    "Print a repertoire with its gaps and weak spots.",
    "graphsearch repertoire show first.graph --side white",
    "graphsearch repertoire show first.graph --depth 6 --json",
    views=True,
)
def show(
    store: StoreOption, side: Side = None, depth: Depth = None, lines: Lines = 20, json: Json = False
) -> None:
    """Print the repertoires of a file as trees, with their gaps and weak spots, the likeliest first.

    A gap is a reply without an answer that is played at least 5 % of the time and met in at least 1 of 100
    games. Its share comes from imported games where 20 or more are known, else from P or the visits,
    whichever is greater. A weak spot is an own move that loses 0.1 (?!), 0.2 (?) or 0.3 (??) of Q against the
    best one, or that no search knows.

    JSON: `repertoires`, each with all `positions` and their `replies`; values are seen by the side that plays
    the move. `reach` is the probability of a line.
    """
    from graphsearch.book.study.repertoire.moves import SIDES
    from graphsearch.book.study.repertoire.survey import survey

    wanted = side_of(side)
    found = [survey(store, one) for one in ([wanted] if wanted else SIDES)]
    if json:
        print_json({"repertoires": [one.as_dict() for one in found]})
        return
    shown = [one for one in found if one.moves] or found[: 1 if wanted else 0]
    if not shown:
        print("There are no repertoires.")
    for one in shown:
        print_answer(one, _survey(one, depth, lines or ALL_LINES), json=False)


def _survey(found: Survey, depth: int | None, lines: int) -> Iterator[Part]:
    facts = f"{count(found.own, 'own move')}, {count(found.moves - found.own, 'reply', 'replies')}"
    weak = count(len(found.weak), "weak spot")
    yield f"{found.side.capitalize()}: {facts}; {count(len(found.gaps), 'gap')}, {weak}   ({heading()})"
    if found.moves:
        yield _drawing(found, depth)
    yield table(map(_gap, found.gaps[:lines]), {"Line": LEFT, "Reply": WHOLE}, title="Gaps")
    yield table(
        map(_weak, found.weak[:lines]), {"Line": LEFT, "Move": WHOLE, "Best": WHOLE}, title="Weak spots"
    )


def _gap(gap: Gap) -> dict[str, str]:
    return {
        "Line": numbered(gap.root, gap.line) if gap.line else "start",
        "Reply": gap.san,
        "Met in": f"{100 * gap.reach:.1f}%",
        "P": "" if gap.p is None else f"{100 * gap.p:.1f}%",
        "Visits": f"{gap.n:,}",
        "Games": f"{gap.games:,}" if gap.games else "",
    }


def _weak(spot: WeakSpot) -> dict[str, str]:
    move, white = spot.move, is_white(spot.position)
    return {
        "Line": numbered(spot.root, spot.line) if spot.line else "start",
        "Move": f"{move.san}{GLYPHS.get(move.nag or 0, '')}",
        "Score": score(move.cp, None, white=white) or "never searched",
        "Loss of Q": "" if move.loss is None else f"{move.loss:.3f}",
        "Best": move.best or "",
    }


def _drawing(found: Survey, depth: int | None) -> Drawing:
    """Returns the tree; it expands every position once."""
    from rich.text import Text
    from rich.tree import Tree as Drawing

    by_key = {one.key: one for one in found.positions}
    gaps: dict[str, list[Gap]] = {}
    for gap in found.gaps:
        gaps.setdefault(gap.position, []).append(gap)
    drawing = Drawing(Text(""), hide_root=True)
    waiting = [(drawing, one) for one in found.positions if not one.line and one.replies]
    while waiting:
        above, one = waiting.pop(0)
        for move in one.replies if depth is None or len(one.line) < depth else ():
            child = by_key[move.child]
            is_here = child.moves == (*one.moves, move.move) and child.root == one.root
            branch = above.add(Text(_label(one, move, child, is_here=is_here)))
            if is_here:
                waiting.append((branch, child))
        for gap in gaps.get(one.position, ()):
            if all(gap.reply != move.move for move in one.replies):
                above.add(Text(f"{numbered(one.position, [gap.san])}  {100 * gap.share:.0f}%  no answer"))
    return drawing


def _label(one: SurveyedPosition, move: SurveyedMove, child: SurveyedPosition, *, is_here: bool) -> str:
    white = is_white(one.position)
    parts = [f"{numbered(one.position, [move.san])}{GLYPHS.get(move.nag or 0, '')}"]
    parts.append(score(move.cp, None, white=white) or "never searched")
    parts.append(f"{move.n or 0:,}{detail(f'  Q {signed(move.q, white=white)}')}")
    if not one.own:
        parts.append(f"{100 * move.share:.0f}%" + ("" if child.replies else "  no answer"))
    if not is_here:
        arrow = "\u2192" if speaks_unicode() else "->"
        parts.append(f"{arrow} {numbered(child.root, child.line) or 'start'}")
    elif child.opening and child.opening != one.opening:
        parts.append(child.opening)
    return "  ".join(parts)


app = group(
    "Repertoires of White and of Black: show, add, remove, import, export.",
    show,
    add,
    remove,
    import_pgn,
    export,
)
