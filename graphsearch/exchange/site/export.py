"""`export --format site`: writes a folder with a page that shows a selection, and its data.

A page opened from a folder can neither load modules nor fetch files: it has one classic script, and each part
of the data is a script.

`data/N.js` calls `graphsearchPart(N, rows)`. Rows are positions in the order of the walk, each

    [fen, n, q, mate, note, level, state, moves, ways]
    move: [uci, san, child, n, p, q, cp], of a book also value and rule
    way:  [number of the parent position, san, n], the shortest way from a root first

`child` is the number of a position, -1 if it is not in the site. q, p and value are in units of 1e-4, seen by
the side to move; `mate` is in plies, negative if that side is mated; null is unknown. `data/site.js` has the
data of the whole site.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ...base.errors import ExportError
from ...base.version import __version__
from ...position.board import fens, key_texts
from ...query.steps import code_of, uci_names
from ..pieces import sprite
from ..selection import Export
from ..walk import NOTES, UNKNOWN, BookEntry, Columns, Positions, Tree, Walk, book_entries

SCALE = 10_000
MOST_WAYS = 50  # listed per position
MOVES = 7  # index of the moves in a row

_MOVES = ("code", "san", "n", "p", "q", "cp", "value")


def in_units(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns values in units of 1e-4, UNKNOWN for NaN.

    >>> in_units(np.array([0.25, np.nan])).tolist() == [2500, UNKNOWN]
    True
    """
    return np.where(np.isnan(values), UNKNOWN, np.rint(np.nan_to_num(values) * SCALE).astype(np.int64))


def _columns(found: Positions) -> tuple[Columns, Columns]:
    """Returns the columns of positions and of moves that a tree holds."""
    edges = found.move_worth
    positions = {
        "n": np.where(found.known, found.n, UNKNOWN),
        "q": in_units(found.value),
        "mate": found.proofs.mates,
        "note": found.notes,
    }
    moves = {
        "code": found.moves.code,
        "san": found.names[0],
        "n": edges.n,
        "p": in_units(found.any_priors),
        "q": in_units(np.where(edges.n > 0, edges.q, np.nan)),
        "cp": edges.cp,
        "value": in_units(edges.value),
    }
    return positions, moves


class Pages:
    """The visited positions of a walk, numbered in the order in which it met them, and the ways to each."""

    def __init__(self, export: Export, walk: Walk, tree: Tree) -> None:
        self._store, self._book, self._rows = export.store, export.book, walk.met.rows
        self._limit, self._roots = export.selection.depth, len(export.roots)
        self.positions, self.moves, self._owner = tree.positions, tree.moves, tree.owner - 1
        visited = self.positions["visited"]
        self._ids = np.flatnonzero(visited)
        self._numbers = np.where(visited, np.cumsum(visited) - 1, -1)
        child = self.moves["child"]
        shortest = self.positions["parent"][np.maximum(child - 1, 0)] == self._owner + 1
        self._ways = np.lexsort((-self.moves["n"].astype(np.int64), ~shortest, child))
        self._ways_begin = np.searchsorted(child[self._ways], np.arange(len(visited) + 1) + 1)

    def roots(self) -> Iterator[tuple[int, str]]:
        """Yields the number and the FEN of each root in the site."""
        ids = self._ids[self._ids < self._roots]
        yield from zip(self._numbers[ids].tolist(), self._fens(ids, self._rows["words"][ids]), strict=True)

    def parts(self, size: int) -> Iterator[list[list[Any]]]:
        """Yields the rows of all positions, in parts of `size`."""
        for first in range(0, len(self._ids), size):
            ids = self._ids[first : first + size]
            words = self._rows["words"][ids]
            keys = key_texts(words)
            there = {} if self._book is None else book_entries(self._store, self._book, keys)
            columns = (self.positions[name][ids].tolist() for name in ("n", "q", "mate", "note"))
            yield [
                [
                    fen,
                    _known(n),
                    _known(q),
                    mate or None,
                    NOTES[note],
                    level,
                    there[key].position["state"] if key in there else "",
                    [] if level == self._limit else self._moves(i, there.get(key)),
                    self._ways_to(i),
                ]
                for i, key, fen, level, n, q, mate, note in zip(
                    ids.tolist(),
                    keys,
                    self._fens(ids, words),
                    self._rows["depth"][ids].tolist(),
                    *columns,
                    strict=True,
                )
            ]

    def _fens(self, ids: NDArray[np.int64], words: NDArray[np.uint64]) -> list[str]:
        return fens(words, self._rows["ply"][ids].tolist())

    def _moves(self, i: int, entry: BookEntry | None) -> list[list[Any]]:
        first = int(self.positions["first"][i])
        some = slice(first, first + int(self.positions["size"][i]))
        code, san, n, p, q, cp, value = (self.moves[name][some] for name in _MOVES)
        child = self.moves["child"][some]
        children = np.where(child > 0, self._numbers[child - 1], -1)
        lists = [column.tolist() for column in (code, children, n, p, q, cp, value)]
        rules, uci = {code_of(move.move): move.rule for move in entry.moves} if entry else {}, uci_names()
        return [
            [uci[code], san.decode(), child, n, _known(p), _known(q), _known(cp)]
            + ([] if self._book is None else [_known(value), rules.get(code, "")])
            for san, code, child, n, p, q, cp, value in zip(san.tolist(), *lists, strict=True)
        ]

    def _ways_to(self, i: int) -> list[list[Any]]:
        """Returns the moves that lead to a position: the one of the shortest way first, then by visits."""
        begin, end = self._ways_begin[i], min(self._ways_begin[i + 1], self._ways_begin[i] + MOST_WAYS)
        moves = self._ways[begin:end]
        before, sans = self._numbers[self._owner[moves]].tolist(), self.moves["san"][moves].tolist()
        n = self.moves["n"][moves].tolist()
        return [list(way) for way in zip(before, [san.decode() for san in sans], n, strict=True)]


def _known(value: int) -> int | None:
    return None if value == UNKNOWN else value


SHARED = ("chess.js", "board.js", "layers.js")  # modules of the explorer
NAMES = "Board, menOf, layered"  # that they export, and the site uses
OWN = ("data.js", "chosen.js", "look.js", "views.js", "page.js")

_IMPORT = re.compile(r"^import\b[^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export\s+", re.MULTILINE)


@cache
def script() -> str:
    """Returns the script of all sites: modules of the explorer, then the site's own scripts."""
    shared = "\n".join(plain(_shared(name)) for name in SHARED)
    own = "\n".join(_own(name) for name in OWN)
    return (
        '(() => {\n"use strict";\n'
        f"const {{ {NAMES} }} = (() => {{\n{shared}\nreturn {{ {NAMES} }};\n}})();\n{own}\n}})();\n"
    )


def plain(module: str) -> str:
    r"""Returns a module as part of a classic script, without imports and `export` keywords.

    >>> plain('import { a } from "./a.js";\nexport class B {}\n')
    'class B {}\n'
    """
    return _EXPORT.sub("", _IMPORT.sub("", module))


def _shared(name: str) -> str:
    return resources.files("graphsearch").joinpath("web", "static", name).read_text("utf-8")


def _own(name: str) -> str:
    return resources.files(__package__).joinpath("static", name).read_text("utf-8")


def _page(site: Mapping[str, Any], roots: Iterable[tuple[int, str]]) -> str:
    """Returns the page; text from the file is escaped. `roots`: number and FEN of each."""
    what, noun = "graph" if site["book"] is None else "book", "position" + "s" * (site["positions"] != 1)
    values = {
        "title": escape(site["title"]),
        "about": f"{what}, {site['positions']:,} {noun}",
        "roots": "".join(f'<option value="{number}">{escape(fen)}</option>' for number, fen in roots),
        "pieces": sprite(),
        "program": escape(f"graphsearch {__version__}"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _own("index.html"))


MARK = "site.js"  # an existing folder is replaced if it has this and an index.html
PART = 400  # positions in a script: some 300 kB


def write_site(export: Export, folder: Path) -> None:
    """Writes a page that shows a book, or the graph below a position; it needs no server.

    Raises:
      ExportError: if there is nothing to export.
    """
    walk, report = Walk(export, leaves=True), export.report
    tree = Tree(export, walk, _columns)
    report.positions = tree.visited
    if not report.positions:
        least = f"no position of this selection has {export.selection.min_visits} or more visits"
        raise ExportError(f"{export.store.path}: nothing to export; {least}")
    pages = Pages(export, walk, tree)
    data = folder / "data"
    data.mkdir()
    for number, part in enumerate(pages.parts(PART)):
        report.moves += sum(len(row[MOVES]) for row in part)
        rows = ",\n".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in part)
        text = f"graphsearchPart({number},[\n{rows}\n]);\n"
        (data / f"{number}.js").write_bytes(text.encode())
    is_start = export.roots[0].board_fen() == chess.STARTING_BOARD_FEN
    roots = list(pages.roots())
    site = {
        "title": export.selection.book or ("Start position" if is_start else "Position"),
        "book": export.selection.book,
        "black": export.side == "black",  # shows the board from Black's side
        "partSize": PART,
        "positions": report.positions,
        "roots": [number for number, _ in roots],
    }
    (data / "site.js").write_bytes(f"const SITE = {json.dumps(site)};\n".encode())
    page = {
        "index.html": _page(site, roots),
        "site.css": f"{_shared('board.css')}\n{_own('site.css')}",
        "site.js": script(),
    }
    for name, text in page.items():
        (folder / name).write_bytes(text.encode())


def is_site(folder: Path) -> bool:
    """Returns whether a folder is an earlier export."""
    return (folder / MARK).is_file() and (folder / "index.html").is_file()
