"""Exports one game tree per root as PGN; expands each position once, the best line first.

The walk runs first and assigns each position to one parent: on the main line of a root, else on the shortest
path from a root, with ties broken by better moves. Then the text is written depth first.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from math import isnan
from typing import BinaryIO, NamedTuple

import chess
import chess.pgn
import numpy as np

from ..base.errors import ExportError
from ..position.board import fen_of, key_texts
from ..position.notation import number, sans_of
from ..position.openings import opening_of
from ..query.brief import brief
from ..query.columns import cps_of
from ..query.source import RecordSource
from ..store.tables.studies import all_notes
from .output import JUDGED_VISITS, MISTAKES, header
from .selection import Export, without_clocks
from .walk import NOTES, UNKNOWN, Columns, Positions, Tree, Walk

BRIEF = 3  # lines: what, how sure, and why
DRAWN = "draw by repetition or the fifty-move rule"


def write_pgn(export: Export, out: BinaryIO, *, comments: bool = False) -> None:
    """Writes the game trees of a graph file as PGN.

    Moves have `[%eval]`, NAGs, and the notes on the positions after them as comments. If the selection names
    a side but neither a book nor a number of moves: that side's best moves against all replies.

    Args:
      comments: also write N, Q, P, what is proven, where a line goes on that is not continued, and the brief
        of a root.

    Raises:
      ExportError: if there is nothing to write.
    """
    chosen = export.selection
    if chosen.book is None and chosen.max_moves is None and chosen.side in ("white", "black"):
        export.selection = replace(chosen, max_moves=1)
    with export.store.reading() as connection:
        notes = {note.key: " ".join(note.text.split()) for note in all_notes(connection)}
    columns = partial(_columns, notes=notes, of_book=export.book is not None)
    tree = Tree(export, Walk(export, leaves=False), columns)
    if tree.visited:
        claim_main_lines(tree, len(export.roots))
        text = io.TextIOWrapper(out, encoding="utf-8", newline="\n")
        _Writer(tree, text, export, comments=comments).write()
        text.detach()
    if not export.report.games:
        why = export.report.left_out_lines()
        raise ExportError("; ".join([f"{export.store.path}: nothing to export", *why]))


def _columns(found: Positions, *, notes: Mapping[str, str], of_book: bool) -> tuple[Columns, Columns]:
    """Returns the columns of positions and of moves that a tree holds."""
    moves, edges = found.moves, found.move_worth
    n, cp, value = edges.n, edges.cp, edges.value
    if of_book:
        cp[~np.isnan(value)] = cps_of(value[~np.isnan(value)])
    counts = np.bincount(moves.of, minlength=len(found))
    best = np.zeros(len(found))
    best[counts > 0] = value[(np.cumsum(counts) - counts)[counts > 0]]
    loss, nags = best[moves.of] - value, np.zeros(len(n), np.uint8)
    for least, nag in reversed(MISTAKES):  # as `mistake_of`
        nags[(loss >= least - 1e-9) & (n >= JUDGED_VISITS)] = nag
    keys = key_texts(found.words) if notes else [""] * len(found)
    positions = {
        "ply": np.asarray(found.ply),
        "mate": found.proofs.mates,
        "proof": found.notes,
        "note": np.array([notes.get(key, "") for key in keys], object),
        "n": np.where(found.known, found.n, UNKNOWN),
        "q": found.value,
    }
    p = 100 * found.any_priors
    return positions, {"san": found.names[0], "nag": nags, "cp": cp, "n": n, "q": value, "p": p}


def claim_main_lines(tree: Tree, roots: int) -> None:
    """Attaches the positions of each root's best line to that line, up to the first one already claimed."""
    positions, child_of = tree.positions, tree.moves["child"]
    parent, way, first, size = (positions[name] for name in ("parent", "way", "first", "size"))
    claimed: set[int] = set()
    for root in [root for root in range(1, min(roots, len(positions)) + 1) if parent[root - 1] == 0]:
        node = root
        while True:
            claimed.add(node)
            if not size[node - 1]:
                break
            move = int(first[node - 1])
            child = int(child_of[move])
            # a root keeps a tree of its own, unless it was adopted
            if not child or parent[child - 1] == 0 or child in claimed:
                break
            parent[child - 1], way[child - 1] = node, move
            node = child


class MoveText(chess.pgn.FileExporter):
    """Writes games to a text stream as `chess.pgn` does, from moves in SAN instead of boards."""

    def visit_san(self, ply: int, san: str) -> None:
        """Writes a move; `ply`: half-moves before it."""
        if not ply & 1:
            self.write_token(f"{ply // 2 + 1}. ")
        elif self.force_movenumber:
            self.write_token(f"{ply // 2 + 1}... ")
        self.write_token(f"{san} ")
        self.force_movenumber = False


class _Move(NamedTuple):
    """A move; `child`: id of the position after it, 0 for one that the walk did not meet."""

    child: int
    san: bytes
    nag: int
    cp: int
    n: int
    q: float
    p: float


Step = Callable[[], object]


class _Writer:
    def __init__(
        self, tree: Tree, out: io.TextIOWrapper[BinaryIO], export: Export, *, comments: bool
    ) -> None:
        self._tree, self._out, self._export, self._report = tree, out, export, export.report
        self._comments, self._records = comments, RecordSource(export.store)
        self._text = MoveText(out)

    def write(self) -> None:
        """Writes a game for every visited root without a parent that has a value or moves."""
        positions, roots = self._tree.positions, self._export.roots[: len(self._tree.positions)]
        known = positions["visited"] & (~np.isnan(positions["q"]) | (positions["size"] > 0))
        top = np.flatnonzero((known & (positions["parent"] == 0))[: len(roots)]).tolist()
        self._games = {i + 1: game for game, i in enumerate(top, 1)}
        for game, i in enumerate(top, 1):
            self._write_game(i, game)
        self._report.games = len(top)

    def _write_game(self, i: int, game: int) -> None:
        root, positions, text = self._export.roots[i], self._tree.positions, self._text
        headers = self._headers(root, game)
        self._out.write("".join(header(*pair).decode() for pair in headers.items()) + "\n")
        text.begin_game()
        text.force_movenumber = True
        before = self._export.games.get(without_clocks(fen_of(root)))
        if before is not None:
            start = before.root()
            for ply, san in enumerate(sans_of(start, before.move_stack), start.ply()):
                text.visit_san(ply, san)
        n, q, proof = (positions[column].item(i) for column in ("n", "q", "proof"))
        words = [] if n == UNKNOWN else [f"N {n}"]
        words += [] if isnan(q) else [f"Q {q:+.3f} for {'Black' if root.ply() & 1 else 'White'}"]
        words += [NOTES[proof]] if proof else []
        if self._comments and self._records.read(root):
            words = [*brief(self._records, root).lines[:BRIEF], *words]
        self._comment([], words, positions["note"].item(i))
        self._write_tree(i + 1, game)
        text.visit_result(headers["Result"])
        text.end_game()

    def _headers(self, root: chess.Board, game: int) -> dict[str, str]:
        """Returns the headers of a game: those of the game that leads to its root, where it is known."""
        given = dict(self._export.selection.headers)
        given["Annotator"] = "; ".join(filter(None, (given.get("Annotator"), "graphsearch")))
        found = dict(chess.pgn.Game().headers) | {
            "Event": f"graph {self._export.store.path.name}",
            "Date": datetime.now(UTC).strftime("%Y.%m.%d"),
            "Round": str(game),
        }
        found |= given
        before = self._export.games.get(without_clocks(fen_of(root)))
        start = root if before is None else before.root()
        opening = opening_of(root if before is None else before)
        if opening:
            found |= {"ECO": opening.eco, "Opening": opening.name} | given
        if root.chess960 or start.chess960:
            found["Variant"] = "Chess960"
        if fen_of(start) != chess.STARTING_FEN:
            found |= {"SetUp": "1", "FEN": fen_of(start)}
        return found

    def _write_tree(self, root: int, game: int) -> None:
        """Writes the moves below a root: the best, the others as variations, then those after the best."""
        waiting: list[Step] = []  # what is still to be written, the next one last

        def expand(node: int) -> None:
            steps, after = list[Step](), list[Step]()
            moves, ply = self._moves_of(node), int(self._tree.positions["ply"][node - 1])
            self._report.positions += 1
            self._report.moves += len(moves)
            for k, move in enumerate(moves):
                write = partial(self._write_move, node, ply, move, game)
                below: list[Step] = [partial(expand, move.child)] * self._expands(node, move.child)
                if k:
                    steps += [self._text.begin_variation, write, *below, self._text.end_variation]
                else:
                    steps, after = [write], below
            waiting.extend(reversed([*steps, *after]))

        expand(root)
        while waiting:
            waiting.pop()()

    def _moves_of(self, node: int) -> list[_Move]:
        first, size = (self._tree.positions[name].item(node - 1) for name in ("first", "size"))
        rows = (self._tree.moves[name][first : first + size].tolist() for name in _Move._fields)
        return [_Move(*row) for row in zip(*rows, strict=True)]

    def _expands(self, node: int, child: int) -> bool:
        """Returns whether the moves after a move are written here, not elsewhere in the tree."""
        positions = self._tree.positions
        here = child > 0 and positions["parent"].item(child - 1) == node
        return bool(here and positions["size"].item(child - 1))

    def _write_move(self, node: int, ply: int, move: _Move, game: int) -> None:
        san, positions = move.san.decode(), self._tree.positions
        self._text.visit_san(ply, san)
        if move.nag:
            self._text.visit_nag(move.nag)
        is_mate, words = san.endswith("#"), [f"N {move.n}"]
        words += [] if isnan(move.q) else [f"Q {move.q:+.3f}"]
        words += [] if isnan(move.p) else [f"P {move.p:.1f}%"]
        note = ""
        if move.child == 0:
            words.append(DRAWN)
        else:
            proof, note = (positions[column].item(move.child - 1) for column in ("proof", "note"))
            words += [NOTES[proof]] if proof and not is_mate else []
            if positions["size"].item(move.child - 1) and positions["parent"].item(move.child - 1) != node:
                self._report.transpositions += 1
                words += self._reference(node, move.child, game) if self._comments else ()
        self._comment([] if is_mate else self._eval(move, ply), words, note)

    def _comment(self, value: list[str], words: list[str], note: str) -> None:
        """Writes a comment: the value of a move, the note on a position, and the other words if wanted."""
        parts = [*value, *(words if self._comments else []), *([note] if note else [])]
        if parts:
            self._text.visit_comment(" ".join(parts))

    def _eval(self, move: _Move, ply: int) -> list[str]:
        """Returns the `[%eval]` of a move, seen by White: a proven mate, else centipawns; none if unknown."""
        mate = self._tree.positions["mate"].item(move.child - 1) if move.child else 0
        if not mate and move.cp == UNKNOWN:
            return []
        sign = -1 if ply & 1 else 1
        if mate:
            return [f"[%eval #{'-' if sign * mate > 0 else ''}{(abs(mate) + 1) // 2}]"]
        cp = sign * move.cp
        return [f"[%eval {'-' if cp < 0 else ''}{abs(cp) // 100}.{abs(cp) % 100:02}]"]

    def _reference(self, node: int, child: int, game: int) -> Iterator[str]:
        """Yields the words of a reference to the line where a move's child position is expanded."""
        positions, sans = self._tree.positions, self._tree.moves["san"]
        above = self._tree.above(child)
        *_, root = above
        yield "repeats" if child in self._tree.above(node) else "transposes to"
        in_game = self._games[root]
        if in_game != game:
            yield f"game {in_game}{',' if len(above) > 1 else ''}"
        elif len(above) == 1:
            yield "the first position"
        first = positions["ply"].item(root - 1)
        for ply, step in enumerate(reversed(above[:-1]), first):
            if ply == first or not ply & 1:
                yield number(ply)
            yield sans[positions["way"].item(step - 1)].decode()
