"""Exports one game tree per root as PGN; expands each position once, the best line first.

The walk runs first and assigns each position to one parent: on the main line of a root, else on the shortest
path from a root, with ties broken by better moves. Then `pgn_kernel.py` writes the text depth first from
temporary files, so a large or deep tree need not fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.errors import ExportError
from ..jit.pointers import ptr
from ..position.board import fen_of, is_chess960, pack
from ..position.lines import numbered, sans_of
from ..position.openings import opening_of
from . import pgn_kernel as kernel
from .columns import cps_of
from .output import ExportReport, Target, new_output, open_export, scratch_folder, target_name
from .pgn_writing import JUDGED_VISITS, MISTAKES, MoveText, header
from .selection import ExportPlan, Selection, plan, with_one_move, without_clocks
from .text_rows import bytes_of, fixed, names_of
from .tree import Tree
from .walk import NOTES, OnProgress, Visits, Walk

BUFFER = 1 << 20  # bytes of text per write

POSITIONS = {
    "ply": np.int32,
    "mate": np.int32,
    "note": np.uint8,
    "n": np.int64,
    "q": np.int32,
    "game": np.int32,
    **dict.fromkeys(("opened", "steps", "path"), np.int64),
}
MOVES = {
    "san": np.uint64,
    "n": np.uint32,
    "p": np.int32,
    "q": np.int32,
    "cp": np.int32,
    "nag": np.uint8,
}


def export_pgn(
    path: str | Path,
    target: Target,
    selection: Selection | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Writes the game trees of a graph file as PGN; returns a report.

    Args:
      path: the graph file, opened read-only; a search may write it meanwhile.
      target: the PGN file, replaced atomically; or a binary stream.
      selection: what to export; for one side without `max_moves`, its best moves against all replies.
      on_progress: called with positions visited and met.

    Raises:
      InvalidParameterError: if there is no such book.
      ExportError: if there is nothing to write, or the output cannot be written.
      StoreError: if the graph file cannot be read.
    """
    report = ExportReport("pgn", target_name(target))
    folder, selection = scratch_folder(target), selection or Selection()
    with (
        open_export(path, partial(new_output, target), report) as (store, out),
        Tree(folder, POSITIONS, MOVES) as tree,
    ):
        chosen = plan(store, with_one_move(selection))
        adopted = len(chosen.roots) if chosen.soft and len(chosen.roots) > 1 else 0
        with Walk(store, chosen, folder, report, leaves=False, on_progress=on_progress) as walk:
            for visits in walk.visits():
                _add(tree, visits, adopted, of_book=chosen.book is not None)
        claim_main_lines(tree, len(chosen.roots))
        _Writer(tree, out, report, chosen).write(store.path.name)
        if not report.games:
            raise ExportError(f"{store.path}: nothing to export: it has none of the roots")
    return report


def _add(tree: Tree, visits: Visits, adopted: int, *, of_book: bool) -> None:
    moves, worth = visits.moves, visits.worth(proven=True)
    edges = visits.move_worth(moves)
    names = names_of(visits.batch.words, moves.of, moves.code)
    n, cp, value = edges.n, edges.cp, edges.value
    if of_book:
        cp[~np.isnan(value)] = cps_of(value[~np.isnan(value)])
    counts = np.bincount(moves.of, minlength=len(visits))
    best = np.zeros(len(visits))
    best[counts > 0] = value[(np.cumsum(counts) - counts)[counts > 0]]
    loss, nags = best[moves.of] - value, np.zeros(len(n), np.uint8)
    for least, nag in reversed(MISTAKES):  # as `pgn_writing.mistake_of`
        nags[(loss >= least - 1e-9) & (n >= JUDGED_VISITS)] = nag
    positions: dict[str, NDArray[Any]] = {
        "ply": visits.ply,
        "mate": worth.mates,
        "note": visits.notes(worth),
        "n": np.where(visits.known, visits.n, kernel.UNKNOWN),
        "q": _fixed(visits.value(worth), 3),
    }
    columns: dict[str, NDArray[Any]] = {
        "san": names.san,
        "n": n,
        "p": _fixed(100 * visits.any_priors(moves), 1),
        "q": _fixed(value, 3),
        "cp": cp,
        "nag": nags,
    }
    tree.add(visits, positions, columns, adopted=adopted)


def _fixed(values: NDArray[np.float64], decimals: int) -> NDArray[np.int64]:
    """Returns values in a FIXED field's encoding, UNKNOWN for NaN."""
    return np.where(np.isnan(values), kernel.UNKNOWN, fixed(np.nan_to_num(values), decimals))


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


class _Writer:
    def __init__(self, tree: Tree, out: BinaryIO, report: ExportReport, chosen: ExportPlan) -> None:
        self._tree, self._out, self._report, self._chosen = tree, out, report, chosen
        self._text = MoveText(out)
        texts = [text.encode() for text in (*kernel.TEXTS, *NOTES[1:])]
        self._texts = bytes_of(texts), np.cumsum([len(text) for text in texts], dtype=np.int64)
        self._buffer = np.zeros(BUFFER, np.uint8)

    def write(self, name: str) -> None:
        """Writes a game for every visited root without a parent."""
        positions, roots = self._tree.positions, self._chosen.roots[: len(self._tree.positions)]
        valued = (positions["parent"] == 0) & (positions["visited"] > 0) & (positions["q"] != kernel.UNKNOWN)
        top = np.flatnonzero(valued[: len(roots)]).tolist()
        positions["game"][top] = np.arange(1, len(top) + 1)
        for game, i in enumerate(top, 1):
            self._write_game(i, game, name)
        self._report.games = len(top)

    def _write_game(self, i: int, game: int, name: str) -> None:
        root, positions = self._chosen.roots[i], self._tree.positions
        if game > 1:
            self._out.write(b"\n")
        for key, text in self._headers(root, game, name):
            self._out.write(header(key, text))
        self._out.write(b"\n")
        before = self._chosen.games.get(without_clocks(fen_of(root)))
        if before is not None:
            for word in numbered(sans_of(before.root(), before.move_stack), before.root().ply()).split():
                self._text.word(word)
        n, q, note = (int(positions[column][i]) for column in ("n", "q", "note"))
        value = f"Q {'-' if q & 1 else '+'}{q // 2000}.{q // 2 % 1000:03}"
        words = [] if n == kernel.UNKNOWN else [f"N {n}"]
        words += [value, f"for {'Black' if root.ply() & 1 else 'White'}"]
        self._text.comment([*words, NOTES[note]] if note else words)
        self._write_tree(i + 1, game)
        self._text.word("*")
        self._text.end()

    def _headers(self, root: chess.Board, game: int, name: str) -> Iterator[tuple[str, str]]:
        yield "Event", f"graph {name}"
        yield "Site", "?"
        yield "Date", datetime.now(UTC).strftime("%Y.%m.%d")
        yield "Round", str(game)
        yield from (("White", "?"), ("Black", "?"), ("Result", "*"), ("Annotator", "graphsearch"))
        before = self._chosen.games.get(without_clocks(fen_of(root)))
        start = root if before is None else before.root()
        opening = opening_of(root if before is None else before)
        if opening:
            yield from (("ECO", opening.eco), ("Opening", opening.name))
        if is_chess960(pack(root)) or start.chess960:
            yield "Variant", "Chess960"
        if fen_of(start) != chess.STARTING_FEN:
            yield from (("SetUp", "1"), ("FEN", fen_of(start)))

    def _write_tree(self, root: int, game: int) -> None:
        tree = self._tree
        columns = kernel.TreeColumns(
            *(ptr(tree.positions[name], 0) for name in kernel.TreeColumns._fields[:8]),
            *(ptr(tree.moves[name], 0) for name in kernel.TreeColumns._fields[8:]),
        )
        state = np.zeros(kernel.STATES, np.int64)
        state[[kernel.DEPTH, kernel.GAME]] = 1, game
        opened, steps, path = (tree.positions[name] for name in ("opened", "steps", "path"))
        opened[0], steps[0] = root, 0
        column, word = self._text.pause()
        first = int(column == 0)  # no break stands before the first word
        while True:
            last = np.frombuffer(b" " + word.encode(), np.uint8)
            self._buffer[: len(last)] = last
            state[[kernel.AT, kernel.LAST, kernel.COLUMN]] = len(last), 1, column
            kernel.write_tree(columns, *self._texts, state, opened, steps, path, self._buffer)
            at, begin, column, needed = (
                int(state[i]) for i in (kernel.AT, kernel.LAST, kernel.COLUMN, kernel.NEEDED)
            )
            word = self._buffer[begin:at].tobytes().decode()
            if begin > 1:
                self._out.write(self._buffer[first : begin - 1].data)
                first = 0
            if not needed:
                break
            if needed + len(word) >= len(self._buffer):
                self._buffer = np.zeros(2 * (needed + len(word) + 1), np.uint8)
        self._text.resume(column, word)
        self._report.positions += int(state[kernel.POSITIONS])
        self._report.moves += int(state[kernel.MOVES])
        self._report.transpositions += int(state[kernel.TRANSPOSITIONS])
