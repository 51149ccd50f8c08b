"""Exports answers: listed games as PGN or CSV, changed lines and preparations as PGN, other rows as CSV."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import chess
import chess.pgn

from ..base.errors import GraphSearchError, ImportFileError
from ..position.board import board_of, legal_moves
from ..position.lines import number
from ..query.diff import Difference, Worth
from ..query.game_list import ListedGames
from ..query.prepare import Departure, Preparation
from ..query.pv import pv
from ..query.replay import start_of
from ..store.file import real_path
from ..store.store import Store
from ..store.tables.players import GameRow
from .kept_games import game_text, stored_text
from .output import Target, new_output
from .pgn_writing import MoveText, header


def export_games(path: str | os.PathLike[str], found: ListedGames, target: Target, *, form: str) -> int:
    """Writes listed games; returns the number of games without their full text (headers and moves only).

    Args:
      path: the graph file. form: `pgn` or `csv`.

    Raises:
      ExportError: if the file cannot be written.
      StoreError: if the graph file cannot be read.
    """
    bare = 0
    with new_output(target, store=real_path(path)) as out:
        if form == "csv":
            out.write(csv_text([game.as_dict() for game in found.games]).encode())
            return 0
        with Store.open(path, read_only=True) as store:
            for game in found.games:
                text, is_whole = stored_text(store, game.row), True
                if text is None:
                    text, is_whole = whole_text(path, game.row)
                bare += not is_whole
                out.write(f"{text}\n\n".encode())
    return bare


def whole_text(path: str | os.PathLike[str], row: GameRow) -> tuple[str, bool]:
    """Returns the text of a game, and whether it is the original text; else it has headers and moves only."""
    try:
        return game_text(path, row.source, row.number).text, True
    except ImportFileError:
        return plain_text(row), False


def plain_text(row: GameRow) -> str:
    """Returns a game as PGN with the stored headers and moves."""
    date = ".".join([*(row.date or "????").split("-"), "??", "??"][:3])
    names = {"Event": row.event, "Site": row.site, "Date": date, "Round": row.round}
    names |= {"White": row.white, "Black": row.black, "Result": row.result}
    more = {"WhiteElo": row.white_elo, "BlackElo": row.black_elo, "ECO": row.eco}
    lines = [header(name, str(value or "?")) for name, value in names.items()]
    lines += [header(name, str(value)) for name, value in more.items() if value]
    if start_of(row.fen).chess960:
        lines.append(header("Variant", "Chess960"))
    if row.fen:
        lines += [header("SetUp", "1"), header("FEN", row.fen)]
    return f"{b''.join(lines).decode()}\n{_moves(row)} {row.result}"


def _moves(row: GameRow) -> str:
    """Returns the moves of a game in SAN, up to the first invalid one."""
    board = start_of(row.fen)
    moves: list[chess.Move] = []
    walk = board.copy()
    for place in row.moves:
        legal = legal_moves(walk)
        if place >= len(legal):
            break
        moves.append(legal[place])
        walk.push(legal[place])
    return board.variation_san(moves)


def form_of(target: Path) -> str:
    """Returns the format of a games file by its suffix: `csv`, else `pgn`."""
    return "csv" if target.suffix.lower() == ".csv" else "pgn"


# ------------------------------------------------------------------ rows as CSV
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet reads text with these prefixes as a formula


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Returns rows as CSV (RFC 4180): a line of names, then a line for each row.

    Lists are joined by blanks, objects get one column per fact, unknown values are empty. Text that a
    spreadsheet would read as a formula gets an apostrophe in front.

    >>> csv_text([{"san": "e4", "n": 3, "worth": {"q": None, "pv": ["e4", "e5"]}, "name": "=1+1"}])
    "san,n,worth_q,worth_pv,name\\r\\ne4,3,,e4 e5,'=1+1\\r\\n"
    """
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return table_text(names, ([row.get(name) for name in names] for row in flat))


def table_text(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table as CSV, with the same cell format as `csv_text`."""
    out = io.StringIO()
    writer = csv.writer(out)
    if names:
        writer.writerow([_cell(name) for name in names])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _flat(row: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}_")
        else:
            yield before + name, value


def _cell(value: object) -> object:
    if isinstance(value, str):
        plain = "".join(c if c.isprintable() else " " for c in value)
        return f"'{plain}" if value.startswith(FORMULA) else plain
    if isinstance(value, list | tuple):
        return _cell(" ".join(str(_cell(part)) for part in value if not isinstance(part, Mapping)))
    return value


# ------------------------------------------------------------------ lines that changed between two files
MOST_PLIES = 20  # of a line


def export_diff(found: Difference, target: Target) -> int:
    """Writes a game for each listed position that changed; returns the number of games.

    Each game begins with the position. The main line comes from the newer file, the variation from the older
    one; comments give N, centipawns for White and proven results of both.

    Raises:
      ExportError: if the file cannot be written.
      StoreError: if one of the graph files cannot be read.
    """
    with new_output(target, store=real_path(found.new)) as out:
        for change in found.changes:
            board = board_of(change.position)
            out.write(header("Event", f"changed: {', '.join(change.what)}"))
            out.write(header("Newer", Path(found.new).name))
            out.write(header("Older", Path(found.old).name))
            out.write(header("Result", "*") + header("SetUp", "1") + header("FEN", change.position) + b"\n")
            text = MoveText(out)
            _write_change(
                text,
                board,
                _best_line(found.new, board),
                _best_line(found.old, board),
                change.new,
                change.old,
            )
            text.word("*")
            text.end()
            out.write(b"\n")
    return len(found.changes)


def _best_line(path: str, board: chess.Board) -> list[str]:
    """Returns the best line of a position in SAN; empty if the query fails."""
    try:
        lines = pv(path, board).lines
    except GraphSearchError:
        return []
    return [ply.san for ply in lines[0].plies[:MOST_PLIES]] if lines else []


def _write_change(
    text: MoveText, board: chess.Board, new: Sequence[str], old: Sequence[str], now: Worth, then: Worth
) -> None:
    """Writes the newer line, with the older one as a variation on its first move."""
    if new:
        _write_moves(text, board, new[:1])
        text.comment(_comment_words("now", now, board))
    if old and old[:1] != new[:1]:
        if new:
            text.open()
        _write_moves(text, board, old[:1])
        text.comment(_comment_words("before", then, board))
        _write_moves(text, board, old[1:], skip=1)
        if new:
            text.close()
    elif old:
        text.comment(_comment_words("before", then, board))
    _write_moves(text, board, new[1:], skip=1)


def _write_moves(text: MoveText, board: chess.Board, sans: Sequence[str], *, skip: int = 0) -> None:
    """Writes moves; `skip`: plies between the position and the first move."""
    for k, san in enumerate(sans):
        before = number(board.ply() + skip + k, first=k == 0)
        if before:
            text.word(before)
        text.word(san)


def _comment_words(when: str, worth: Worth, board: chess.Board) -> list[str]:
    us, them = ("White", "Black") if board.turn else ("Black", "White")
    bounds = {(1, 1): [us, "wins"], (0, 0): ["draw"], (-1, -1): [them, "wins"]}.get(worth.bounds, [])
    cp = worth.cp if board.turn else -worth.cp
    return [f"{when}:", "N", f"{worth.n:,},", f"{cp:+d}", "cp", *bounds]


# ------------------------------------------------------------------ preparations
def write_lines(path: str | os.PathLike[str], found: Preparation, target: Target) -> int:
    """Writes the moves of a preparation, one game per start position; returns the number of games.

    Args:
      path: the graph file, which the PGN file must not replace. target: file, or binary stream.

    Raises:
      ExportError: if the file cannot be written.
    """
    starts = list(dict.fromkeys(move.start for move in found.moves))
    with new_output(target, store=Path(path)) as out:
        for start in starts:
            game = _game(found, start, [move for move in found.moves if move.start == start])
            out.write(f"{game}\n\n".encode())
    return len(starts)


def _game(found: Preparation, start: str | None, moves: Sequence[Departure]) -> chess.pgn.Game:
    game = chess.pgn.Game()
    if start:
        game.setup(board_of(start))
    name = " / ".join(found.players)
    game.headers["Event"] = f"Where {name} leaves {'the book ' + found.book if found.book else 'the graph'}"
    game.headers["Site"] = "graphsearch"
    for side in ("White", "Black"):
        game.headers[side] = name if found.color == side.lower() else "?"
    for move in moves:
        node: chess.pgn.GameNode = game
        for san in (*move.line, move.san):
            played = node.board().parse_san(san)
            node = node.variation(played) if node.has_variation(played) else node.add_variation(played)
        node.comment = _comment(move)
    return game


def _comment(move: Departure) -> str:
    score = "" if move.score is None else f", score {100 * move.score:.0f} %"
    score += f", {move.unknown} without a result" if move.unknown else ""
    worth = move.worth
    cost = "" if worth.cost_cp is None else f"; costs {worth.cost_cp} cp"
    best = f"; best {worth.best}" if worth.best and worth.best != move.san else ""
    answer = f"; answer {worth.answer}" if worth.answer else ""
    return f"{move.games} of {move.games_here} games{score}{cost}{best}{answer}"
