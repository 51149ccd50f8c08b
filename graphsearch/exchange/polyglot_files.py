"""Reads Polyglot book files and merges several into one.

A merged book has every move of every book. The weights of the same move in the same position are added. If
the largest weight of a position then exceeds 16 bits, all weights of the position are scaled down; a weight
above 0 stays at least 1. The learn field comes from the first book with a nonzero one. Entries are sorted by
key, then by descending weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer
from ..base.errors import ExportTargetError, InputFileError
from ..base.limits import BOOK, check_size, open_file
from .output import new_output
from .polyglot import ENTRIES, ENTRY_BYTES, MAX_WEIGHT, fitted
from .pool import Ints

Entries = NDArray[np.void]  # of ENTRIES


@dataclass(frozen=True, slots=True)
class BookFile(Answer):
    """A book: its entries sorted by key, and notes about the file.

    Attributes:
      notes: one line each.
    """

    json_keys = "file=path entries=count positions notes"

    path: str
    rows: Entries
    notes: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.rows)

    @property
    def positions(self) -> int:
        """The number of positions."""
        return len(np.unique(self.rows["key"]))


@dataclass(slots=True)
class BookMerge(Answer):
    """The report of a merge.

    Attributes:
      inputs: the books. path: of the new one. positions, moves: written.
      added: moves with weights from several entries. scaled: moves in positions scaled to fit 16 bits.
      dry_run: True if nothing was written.
    """

    path: str
    inputs: list[BookFile] = field(default_factory=list)
    positions: int = 0
    moves: int = 0
    added: int = 0
    scaled: int = 0
    dry_run: bool = False


def read_book(path: Path) -> BookFile:
    """Returns the book of a file.

    Raises:
      InputFileError: if the file cannot be read, or its size is not a multiple of an entry's.
    """
    try:
        with open_file(path) as file:
            data = file.read(BOOK.most + 1)
    except OSError as error:
        raise InputFileError(f"cannot read {path}: {error.strerror or error}") from None
    check_size(len(data), BOOK, str(path))
    if len(data) % ENTRY_BYTES:
        raise InputFileError(
            f"{path} has {len(data):,} bytes, and a Polyglot book {ENTRY_BYTES} for each entry:"
            " it is cut short or not a book"
        )
    rows = np.frombuffer(data, ENTRIES)
    keys = rows["key"].astype(np.uint64)
    down = np.flatnonzero(keys[1:] < keys[:-1])
    if not len(down):
        return BookFile(str(path), rows)
    note = f"{path}: its entries are out of order from entry {down[0] + 1:,} on; programs will miss some"
    return BookFile(str(path), rows[np.argsort(keys, kind="stable")], (note,))


def merge_books(
    paths: Sequence[Path], target: Path, *, dry_run: bool = False, force: bool = False
) -> BookMerge:
    """Merges books into a new one; returns a report.

    Args:
      dry_run: write nothing. force: replace an existing file.

    Raises:
      InputFileError: if a book cannot be read. ExportError: if the new one cannot be written.
    """
    if target.exists() and not force:
        raise ExportTargetError(f"{target} exists already; name a new file, or use --force")
    report = BookMerge(str(target), [read_book(path) for path in paths], dry_run=dry_run)
    rows = _merged(np.concatenate([one.rows for one in report.inputs], dtype=ENTRIES), report)
    report.moves, report.positions = len(rows), len(np.unique(rows["key"]))
    if not dry_run:
        with new_output(target, store=None) as out:
            out.write(rows.tobytes())
    return report


def _merged(rows: Entries, report: BookMerge) -> Entries:
    """Returns the entries of a merged book."""
    if not len(rows):
        return rows
    keys, moves = rows["key"].astype(np.uint64), rows["move"].astype(np.int64)
    order = np.lexsort((moves, keys))  # stable: the entries of the first book come first
    keys, moves = keys[order], moves[order]
    begins = _begins((keys[1:] != keys[:-1]) | (moves[1:] != moves[:-1]))
    weights = np.add.reduceat(rows["weight"][order].astype(np.int64), begins)
    report.added = int((np.diff(np.append(begins, len(rows))) > 1).sum())
    found = rows[order[begins]]
    found["learn"] = _first_learn(rows["learn"][order].astype(np.int64), begins)
    positions = _begins(keys[begins][1:] != keys[begins][:-1])
    largest = np.repeat(np.maximum.reduceat(weights, positions), np.diff(np.append(positions, len(begins))))
    report.scaled = int((largest > MAX_WEIGHT).sum())
    scaled = np.maximum(fitted(weights.astype(np.float64), largest), weights > 0)
    found["weight"] = scaled
    return np.asarray(found[np.lexsort((order[begins], -scaled, keys[begins]))])


def _begins(changes: NDArray[np.bool_]) -> Ints:
    """Returns the start of each group; `changes[i]`: whether element i + 1 begins a group."""
    return np.concatenate([[0], np.flatnonzero(changes) + 1])


def _first_learn(learn: Ints, begins: Ints) -> Ints:
    """Returns the first nonzero learn field of each group."""
    some = np.flatnonzero(learn)
    groups, first = np.unique(np.searchsorted(begins, some, side="right") - 1, return_index=True)
    found = np.zeros(len(begins), np.int64)
    found[groups] = learn[some[first]]
    return found
