"""One game tree per root as PGN: each position expanded once, the best line first.

The walk comes first and decides who expands a position: the main line of a root, else the shortest way from a
root, of equally short ones that of the better moves. Then the text is written depth first, out of the walk's
temporary file, so that neither a large tree nor a deep one has to be in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

import chess

from ..errors import ExportError
from ..position.board import fen_of as board_fen
from ..position.board import is_chess960
from ..position.fens import fens
from ..position.values import cp_from_q, scores_by, shown_score_type
from ..store.sharded.files import open_to_read
from .candidates import source_of
from .export_report import ExportReport
from .output import Target, new_output, scratch_folder, scratch_path, target_name
from .pgn_graph import keep_graph
from .pgn_writing import MoveText, eval_text, header, line, mistake, number
from .scratch import Met, Scratch
from .selection import ExportPlan, Selection, plan, with_one_move, without_clocks
from .walk import OnProgress, Walk

NAMES_KEPT = 1 << 16  # positions whose way up is remembered
OPEN, CLOSE = "open", "close"


class _Move(NamedTuple):
    """A move of the tree with what is known about the position behind it.

    Attributes:
      q, cp: value that is shown, seen by the side that plays it. owned: whether it expands that position.
      expanded: whether that position has moves in the tree. mate: plies to a proven
        mate there, as `Seen.mate`.
    """

    node: int
    ply: int
    san: str
    n: int
    p: float | None
    q: float | None
    cp: int | None
    nag: int | None
    child: int | None
    owned: bool
    expanded: bool
    mate: int | None
    note: str | None


_Task = _Move | tuple[int, int] | str  # a move, a position (id, ply), or a parenthesis


def export_pgn(
    path: str | Path,
    target: Target,
    selection: Selection | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Writes the game trees of a graph file as PGN, and returns what was written.

    Args:
      path: the graph file; it is only read, also while a search writes it.
      target: the PGN file, replaced as a whole; or a binary stream.
      selection: what is exported; of one side and without `max_moves`, its best moves against all replies.
      on_progress: called with positions visited and met.

    Raises:
      InvalidParameterError: if there is no such book.
      ExportError: if there is nothing to write, or no place for it.
      StoreError: if the graph file cannot be read.
    """
    started = time.monotonic()
    report = ExportReport("pgn", target_name(target))
    with (
        scores_by((selection or Selection()).score_type),
        open_to_read(path) as store,
        new_output(target, store=store.path) as out,
        Scratch(scratch_path(target)) as scratch,
    ):
        chosen = plan(store, with_one_move(selection or Selection()))
        if chosen.book is None:
            keep_graph(store, chosen, scratch_folder(target), scratch, report, on_progress)
        else:
            source = source_of(store, chosen.book)
            Walk(
                store, chosen, source, scratch, report, leaves=False, keep=True, on_progress=on_progress
            ).exhaust()
        claim_main_lines(scratch)
        _Writer(scratch, out, report, store.path.name, chosen).write()
        if not report.games:
            raise ExportError(f"{store.path}: nothing to export: it has none of the roots")
    report.seconds = time.monotonic() - started
    return report


def claim_main_lines(scratch: Scratch) -> None:
    """Makes the best line of every tree the owner of its positions, as far as no other has claimed them."""
    execute = scratch.connection.execute
    execute("CREATE TABLE claimed (id INTEGER PRIMARY KEY)")
    for (root,) in execute("SELECT id FROM node WHERE parent IS NULL ORDER BY id").fetchall():
        node = root
        while True:
            execute("INSERT OR IGNORE INTO claimed VALUES (?)", (node,))
            step = execute(_BEST_STEP, (node,)).fetchone()
            if step is None:
                break
            child, san = step
            execute("UPDATE node SET parent = ?, san = ? WHERE id = ?", (node, san, child))
            node = child


# a root keeps a tree of its own, unless it was adopted
_BEST_STEP = """
SELECT c.id, e.san FROM edge e JOIN node c ON c.id = e.child
WHERE e.node = ? AND e.rank = 0 AND c.parent IS NOT NULL AND c.id NOT IN (SELECT id FROM claimed)
"""
_MOVES = """
SELECT e.san, e.n, e.p, e.value, e.cp, e.child, c.parent, c.mate, c.note,
  EXISTS (SELECT 1 FROM edge x WHERE x.node = e.child)
FROM edge e LEFT JOIN node c ON c.id = e.child WHERE e.node = ? ORDER BY e.rank
"""


class _Writer:
    """Writes all games of a walk."""

    def __init__(
        self, scratch: Scratch, out: BinaryIO, report: ExportReport, name: str, chosen: ExportPlan
    ) -> None:
        self._execute = scratch.connection.execute
        self._out = out
        self._report = report
        self._name = name
        self._of_book = chosen.book is not None  # whose values have no chances to win and lose
        self._lines = chosen.games
        self._text = MoveText(out)
        self._games: dict[int, int] = {}
        self._game = 0
        self._above: Callable[[int], tuple[int | None, str, int]] = lru_cache(NAMES_KEPT)(self._read_above)

    def write(self) -> None:
        """Writes a game for every root that was visited and hangs below no other."""
        rows = self._execute(
            "SELECT id FROM node WHERE parent IS NULL AND value IS NOT NULL ORDER BY id"
        ).fetchall()
        self._games = {row[0]: k for k, row in enumerate(rows, 1)}
        for root, game in self._games.items():
            self._game = game
            self._write_game(root)
        self._report.games = len(self._games)

    def _write_game(self, root: int) -> None:
        row = self._execute("SELECT id, depth, ply, words, n, value, note FROM node WHERE id = ?", (root,))
        node, depth, ply, words, n, value, note = row.fetchone()
        met = Met.of(node, depth, ply, words)
        if self._game > 1:
            self._out.write(b"\n")
        for name, text in self._headers(met):
            self._out.write(header(name, text))
        self._out.write(b"\n")
        side = "Black" if ply & 1 else "White"
        self._write_line(self._lines.get(without_clocks(fen_of(met))))
        self._text.comment([*_numbers(n, value, None), f"for {side}", *([f"{note}"] if note else [])])
        self._write_tree(root, ply)
        self._text.word("*")
        self._text.end()

    def _write_line(self, game: chess.Board | None) -> None:
        """Writes the moves that lead to a root."""
        if game is None:
            return
        board, sans = game.root(), []
        ply = board.ply()
        for move in game.move_stack:
            sans.append(board.san(move))
            board.push(move)
        for word in line(sans, ply):
            self._text.word(word)

    def _headers(self, met: Met) -> Iterator[tuple[str, str]]:
        yield "Event", f"graph {self._name}"
        yield "Site", "?"
        yield "Date", datetime.now(UTC).strftime("%Y.%m.%d")
        yield "Round", str(self._game)
        yield from (("White", "?"), ("Black", "?"), ("Result", "*"), ("Annotator", "graphsearch"))
        yield "ScoreType", shown_score_type()  # of [%eval]
        fen = fen_of(met)
        game = self._lines.get(without_clocks(fen))
        if game is not None:
            fen = board_fen(game.root())
        if is_chess960(met.words) or (game is not None and game.chess960):
            yield "Variant", "Chess960"
        if fen != chess.STARTING_FEN:
            yield from (("SetUp", "1"), ("FEN", fen))

    def _write_tree(self, root: int, ply: int) -> None:
        """Writes the moves below a position: no recursion, because lines may be thousands of plies long."""
        tasks: list[_Task] = [(root, ply)]
        while tasks:
            task = tasks.pop()
            if task == OPEN:
                self._text.open()
            elif task == CLOSE:
                self._text.close()
            elif isinstance(task, _Move):
                self._write_move(task)
            else:
                tasks.extend(reversed(self._expanded(*task)))

    def _expanded(self, node: int, ply: int) -> list[_Task]:
        """Returns what is to be written at a position: best move, variations, what follows the best move."""
        moves = self._moves(node, ply)
        self._report.positions += 1
        self._report.moves += len(moves)
        tasks: list[_Task] = list(moves[:1])
        for move in moves[1:]:
            tasks += [OPEN, move, *_below(move), CLOSE]
        return tasks + (_below(moves[0]) if moves else [])

    def _moves(self, node: int, ply: int) -> list[_Move]:
        rows = self._execute(_MOVES, (node,)).fetchall()
        best = max((row[3] for row in rows[:1] if row[3] is not None), default=None)
        return [
            _Move(
                node=node,
                ply=ply,
                san=san,
                n=n,
                p=p,
                q=value,
                cp=cp if value is None or not self._of_book else cp_from_q(value),
                nag=None if best is None or value is None else mistake(best, value, n),
                child=child,
                owned=child is not None and parent == node,
                expanded=bool(expanded),
                mate=mate,
                note=note,
            )
            for san, n, p, value, cp, child, parent, mate, note, expanded in rows
        ]

    def _write_move(self, move: _Move) -> None:
        self._text.word(number(move.ply))
        self._text.word(move.san)
        if move.nag:
            self._text.word(f"${move.nag}")
        parts = [*_eval(move), *_numbers(move.n, move.q, move.p)]
        if move.note and not move.san.endswith("#"):
            parts.append(move.note)
        if move.child is None:
            parts.append("draw by repetition or the fifty-move rule")
        elif move.expanded and not move.owned:
            self._report.transpositions += 1
            parts += self._reference(move)
        self._text.comment(parts)

    def _reference(self, move: _Move) -> Iterator[str]:
        """Yields the words that say where the position after a move is expanded."""
        assert move.child is not None
        line_of_it, ply, root = self._line(move.child)
        if move.child in self._chain(move.node):
            yield "repeats"
        else:
            yield "transposes to"
        if self._games[root] != self._game:
            yield f"game {self._games[root]}" + ("," if line_of_it else "")
        elif not line_of_it:
            yield "the first position"
        yield from line(line_of_it, ply)

    def _line(self, node: int) -> tuple[list[str], int, int]:
        """Returns the moves to a position as the trees have it, the ply of their root, and that root."""
        sans: list[str] = []
        while True:
            parent, san, ply = self._above(node)
            if parent is None:
                return sans[::-1], ply, node
            sans.append(san)
            node = parent

    def _chain(self, node: int | None) -> Iterator[int]:
        while node is not None:
            yield node
            node = self._above(node)[0]

    def _read_above(self, node: int) -> tuple[int | None, str, int]:
        parent, san, ply = self._execute("SELECT parent, san, ply FROM node WHERE id = ?", (node,)).fetchone()
        return parent, san or "", ply


def _below(move: _Move) -> list[_Task]:
    """Returns the position behind a move if the move expands it."""
    return [(move.child, move.ply + 1)] if move.owned and move.expanded and move.child is not None else []


def _eval(move: _Move) -> Iterator[str]:
    """Yields the `[%eval]` of a move; a mate on the board needs none, and without a value there is none."""
    white = not move.ply & 1
    if move.san.endswith("#"):
        return
    if move.mate:
        moves = (abs(move.mate) + 1) // 2
        yield f"[%eval #{-moves if white == (move.mate > 0) else moves}]"
    elif move.cp is not None:
        yield eval_text(move.cp, white=white)


def _numbers(n: int | None, q: float | None, p: float | None) -> Iterator[str]:
    if n is not None:
        yield f"N {n}"
    if q is not None:
        yield f"Q {q:+.3f}"
    if p is not None:
        yield f"P {100 * p:.1f}%"


def fen_of(met: Met) -> str:
    """Returns the FEN of a position with its move number."""
    text = fens(met.words.reshape(1, -1))[0]
    return f"{text.rpartition(' ')[0]} {met.ply // 2 + 1}"
