"""`graphsearch study`, `note` and `repertoire`: what a person adds to a graph file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import chess
import typer

from graphsearch.base.answer import plain
from graphsearch.base.limits import LINE, check_size
from graphsearch.book.study import repertoire, studies
from graphsearch.book.study.repertoire import Gap, MainLine, Survey, SurveyedMove, SurveyedPosition, WeakSpot
from graphsearch.store.store import Store

from . import options, tables
from .exports import write_text
from .games import given_file
from .output import fail, print_answer, print_json, problem_lines, say
from .render import numbered

GLYPHS = {6: "?!", 2: "?", 4: "??"}
TOML = ".toml"

OneSide = Annotated[str, options.option("--side SIDE", "white or black: whose repertoire.")]


def _made(store: Path) -> Path:
    """Returns a graph file, made if it is missing."""
    if not store.exists():
        Store.open(store, create=True, unbound=True).close()
    return store


def _print_imported(found: Any, lines: Iterator[str]) -> None:
    """Prints the result of an import, and what was left out."""
    if not tables.is_json():
        for line in problem_lines(found.problems, found.found):
            say(f"left out: {line}")
    print_answer(found, lines)


# ------------------------------------------------------------------ studies
def list_studies(store: options.StoreOption) -> None:
    """List the studies of a graph file, with the number of their moves.

    JSON: `id` is the number in the page's addresses, `revision` grows with every change.

    \b
    Example:
      graphsearch study list first.graph
    """
    found = studies.list_studies(store)
    rows = (
        {"Study": one.name, "Moves": f"{one.moves:,}", "Changed (UTC)": tables.moment(one.changed)}
        for one in found
    )
    print_answer({"studies": plain(found)}, [tables.Table(rows) if found else "There are no studies."])


def import_studies(file: options.PgnInput, store: options.StoreToMake, name: str = "") -> None:
    """Make a study of each game of a PGN file, with its variations, comments and glyphs.

    A name that is taken gets a number. What cannot be kept, such as an illegal move and the line behind it,
    is listed with its reason. The file can be searched meanwhile.

    JSON: `studies` were made; `left_out` has at most 1,000 reasons, `found` counts all.

    \b
    Examples:
      graphsearch study import first.graph game.pgn
      graphsearch study import first.graph game.pgn --name "My game"

    Args:
      name: --name NAME: Name of the study; by default players and event name it.
    """
    found = studies.import_studies(_made(store), given_file(file), name=name)
    _print_imported(found, (f"{one.name}: {tables.count(one.moves, 'move')}" for one in found.studies))


def export_studies(
    store: options.StoreOption, names: list[str] | None = None, output: str = options.STDOUT
) -> None:
    """Write studies as PGN, with everything in them.

    JSON: `pgn` is the text.

    \b
    Examples:
      graphsearch study export first.graph "My game" -o game.pgn
      graphsearch study export first.graph > all.pgn

    Args:
      names: NAME...: Names of studies; all by default.
      output: -o --output OUT: PGN file to write; - for stdout.
    """
    text = studies.export_studies(store, names or [])
    if tables.is_json():
        print_json({"pgn": text})
    else:
        write_text(text, output, store)


# ------------------------------------------------------------------ notes
def note(store: options.StoreOption, position: options.AnyPositionOptions, text: str | None = None) -> int:
    """List the notes of a graph file, the last changed first. With POSITION, print the note on it, and the
    studies that reach it; with --text, write the note in place of the one that it has.

    The file can be searched meanwhile. Exit code 1 if a position has no note and no study.

    JSON: `notes`, each with the columns of the table `note` (`schema/store.md`); of a position `text`, empty
    without a note, and `studies` with `id`, `name` and the number of the `move`.

    \b
    Examples:
      graphsearch note first.graph
      graphsearch note first.graph "1. e4 c5" --text "Ask Ann about 2. c3"

    Args:
      text: --text TEXT: Write this note, - for standard input; an empty text deletes the note.
    """
    board = position.board()
    if text is not None:
        given = (
            sys.stdin.buffer.read(LINE.most + 1).decode("utf-8", "replace") if text == options.STDIN else text
        )
        check_size(len(given.encode()), LINE, "the note")
        studies.write_note(store, board or chess.Board(), given.strip() and given)
        return 0
    if board is None:
        notes = studies.list_notes(store)
        rows = [
            {
                "Changed (UTC)": tables.moment(one.changed),
                "Position": one.fen,
                "Note": " ".join(one.text.split()),
            }
            for one in notes
        ]
        shown = tables.Table(rows, {"Position": tables.WHOLE})
        print_answer({"notes": plain(notes)}, [shown if rows else "There are no notes."])
        return 0
    found = studies.note_on(store, board)
    texts = [found.note.text] if found.note else []
    print_answer(found, [*texts, *(f"in the study {name}" for _, name, _ in found.studies)])
    return 0 if found.note or found.studies else fail(f"{store} has no note on {found.position}")


# ------------------------------------------------------------------ repertoires
def one_side(text: str) -> str:
    """Returns the one side that `--side` names; raises typer.BadParameter for none or both."""
    found = options.side_of(text)
    if found is None:
        raise typer.BadParameter("--side must be white or black here")
    return found


Change = Callable[[Path, str, chess.Board], repertoire.RepertoireChange]


def _change(change: Change, store: Path, side: str, position: options.PositionOptions) -> None:
    """Changes a repertoire by a line, and prints what has changed."""
    found = change(store, one_side(side), position.board())
    number, word = (found.removed, "removed") if found.removed else (found.added, "added")
    done = f"{tables.count(number, 'move')} {word}, {tables.count(found.moves, 'move')} now"
    print_answer(found, [f"{found.side.capitalize()}'s repertoire: {done}"])


def add_line(store: options.StoreOption, position: options.PositionOptions, side: OneSide) -> None:
    """Add the moves of a line to the repertoire of a side: own moves, and the replies that they meet.

    A repertoire consists of positions, so a line that transposes into it goes on with what is known there.
    The file can be searched meanwhile.

    JSON: `added` and `removed` count moves, `moves` are all moves now.

    \b
    Examples:
      graphsearch repertoire add first.graph "1. e4 c5 2. Nf3" --side white
      graphsearch repertoire add first.graph games.pgn --game 2 --ply 12 --side black
    """
    _change(repertoire.add_line, store, side, position)


def remove_move(store: options.StoreOption, position: options.PositionOptions, side: OneSide) -> None:
    """Remove the last move of a line from the repertoire of a side, with everything that only it reached.

    JSON: as `repertoire add`.

    \b
    Example:
      graphsearch repertoire remove first.graph "1. e4 c5 2. Nf3" --side white
    """
    _change(repertoire.remove_move, store, side, position)


def import_lines(file: options.PgnInput, store: options.StoreToMake, side: OneSide) -> None:
    """Add all lines of a PGN file to the repertoire of a side, variations included.

    JSON: `added` counts moves; `left_out` has at most 1,000 reasons, `found` counts all.

    \b
    Example:
      graphsearch repertoire import first.graph white.pgn --side white
    """
    found = repertoire.import_file(_made(store), one_side(side), given_file(file))
    added = f"{tables.count(found.added, 'move')} added, {tables.count(found.moves, 'move')} now"
    _print_imported(found, iter([f"{tables.count(found.games, 'game')}: {added}"]))


def export_repertoire(store: options.StoreOption, side: OneSide, output: str = options.STDOUT) -> None:
    """Write a repertoire as PGN from move one, each position once; a comment says where a line transposes to.

    If OUT ends in .toml, it is a book: `book build` keeps to the repertoire and answers what it lacks.

    JSON: `text` of the file.

    \b
    Examples:
      graphsearch repertoire export first.graph --side white -o white.pgn
      graphsearch repertoire export first.graph --side white -o white.toml

    Args:
      output: -o --output OUT: File to write; - for PGN on stdout.
    """
    wanted, target = one_side(side), Path(output)
    if target.suffix.lower() == TOML:
        text = repertoire.toml_of_repertoire(store, wanted, target.stem)
    else:
        text = repertoire.pgn_of_repertoire(store, wanted)
    if tables.is_json():
        print_json({"text": text})
    else:
        write_text(text, output, store)


def show_repertoire(
    store: options.StoreOption,
    side: options.Side = None,
    depth: options.Depth = None,
    lines: options.Lines = 20,
) -> None:
    """Print the repertoires of a file as trees, with their gaps and weak spots, the likeliest first.

    A gap is a reply without an answer, played at least 5 % of the time and met in at least 1 of 100 games.
    Its share comes from imported games, from 20 on, else from P or the visits, whichever is greater. A weak
    spot is an own move that loses 0.1 (?!), 0.2 (?) or 0.3 (??) of Q, or that no search knows.

    JSON: `repertoires`, each with all `positions` and their `replies`; values are seen by the side that plays
    the move. `reach` is the probability of a line.

    \b
    Examples:
      graphsearch repertoire show first.graph --side white
      graphsearch repertoire show first.graph --depth 6 --json
    """
    wanted = options.side_of(side)
    found = [repertoire.survey(store, one) for one in ([wanted] if wanted else repertoire.SIDES)]
    if tables.is_json():
        print_json({"repertoires": [one.as_dict() for one in found]})
        return
    shown = [one for one in found if one.moves] or found[: 1 if wanted else 0]
    if not shown:
        print("There are no repertoires.")
    for one in shown:
        print_answer(one, _survey(one, depth, lines or options.ALL_LINES))


def _survey(found: Survey, depth: int | None, lines: int) -> Iterator[tables.Part]:
    replies = tables.count(found.moves - found.own, "reply", "replies")
    moves = f"{tables.count(found.own, 'own move')}, {replies}"
    gaps, weak = tables.count(len(found.gaps), "gap"), tables.count(len(found.weak), "weak spot")
    yield f"{found.side.capitalize()}: {moves}; {gaps}, {weak}   {tables.VIEW}"
    if found.moves:
        yield from _drawing(found, depth)
    yield tables.Table(map(_gap, found.gaps[:lines]), {"Line": tables.LEFT, "P": tables.RIGHT}, title="Gaps")
    yield tables.Table(map(_weak, found.weak[:lines]), {"Line": tables.LEFT}, title="Weak spots")


def _line(at: MainLine) -> str:
    """Returns the line to a position, behind its first position if that is not the start of the game."""
    start = "" if at.root == chess.STARTING_FEN else at.root
    return ": ".join(filter(None, (start, numbered(at.root, at.line)))) or "start"


def _gap(gap: Gap) -> dict[str, str]:
    return {
        "Line": _line(gap.at),
        "Reply": gap.san,
        "Met in": f"{100 * gap.reach:.1f}%",
        "P": "" if gap.p is None else f"{100 * gap.p:.1f}%",
        "Visits": f"{gap.n:,}",
        "Games": f"{gap.games:,}" if gap.games else "",
    }


def _weak(spot: WeakSpot) -> dict[str, str]:
    move, white = spot.move, tables.is_white(spot.at.position)
    return {
        "Line": _line(spot.at),
        "Move": f"{move.san}{GLYPHS.get(move.nag or 0, '')}",
        "Score": tables.score(move.cp, move.mate, white=white) or "never searched",
        "Loss of Q": "" if move.loss is None else f"{move.loss:.3f}",
        "Best": move.best_san or "",
    }


def _drawing(found: Survey, depth: int | None) -> Iterator[str]:
    """Yields the lines of the tree; it expands every position once."""
    by_key = {one.key: one for one in found.positions}
    gaps: dict[str, list[Gap]] = {}
    for gap in found.gaps:
        gaps.setdefault(gap.at.position, []).append(gap)

    def below(one: SurveyedPosition) -> list[tuple[str, SurveyedPosition | None]]:
        drawn: list[tuple[str, SurveyedPosition | None]] = []
        for move in one.replies if depth is None or len(one.at.line) < depth else ():
            child = by_key[move.child]
            is_here = child.at.moves == (*one.at.moves, move.move) and child.at.root == one.at.root
            drawn.append((_label(one, move, child, is_here=is_here), child if is_here else None))
        for gap in gaps.get(one.at.position, ()):
            if all(gap.reply != move.move for move in one.replies):
                reply = numbered(one.at.position, [gap.san])
                drawn.append((f"{reply}  {100 * gap.share:.0f}%  no answer", None))
        return drawn

    for root in (one for one in found.positions if not one.at.line):
        yield _line(root.at)
        for text, child in below(root):
            yield text
            yield from tables.tree_lines(child, below)


def _label(one: SurveyedPosition, move: SurveyedMove, child: SurveyedPosition, *, is_here: bool) -> str:
    white = tables.is_white(one.at.position)
    parts = [f"{numbered(one.at.position, [move.san])}{GLYPHS.get(move.nag or 0, '')}"]
    parts.append(tables.score(move.cp, move.mate, white=white) or "never searched")
    parts.append(f"{move.n or 0:,}{tables.detail(f'  Q {tables.signed(move.q, white=white)}')}")
    if not one.own:
        is_over = not any(child.at.board.legal_moves)
        parts.append(f"{100 * move.share:.0f}%" + ("" if child.replies or is_over else "  no answer"))
    if not is_here:
        parts.append(" ".join((tables.signs("\u2192", "->"), _line(child.at))))
    elif child.opening and child.opening != one.opening:
        parts.append(child.opening)
    return "  ".join(parts)
