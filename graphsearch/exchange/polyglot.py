"""The Polyglot book format: entries of 16 bytes, big-endian, sorted by key.

    key u64, raw move u16, weight u16, learn u32

A raw move has from bit 0 three bits each for the target file and rank, the source file and rank, and the
promotion (0 none, 1-4 knight to queen). Castling is the king capturing its own rook, such as e1h1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer
from ..base.errors import ExportTargetError, InputFileError
from ..base.limits import BOOK, check_size, open_file
from ..query.steps import Ints
from .output import new_output

ENTRY = struct.Struct(">QHHI")  # key, raw move, weight, learn
ENTRY_BYTES = 8 + 2 + 2 + 4
MAX_WEIGHT = (1 << 16) - 1
ENTRIES = np.dtype([("key", ">u8"), ("move", ">u2"), ("weight", ">u2"), ("learn", ">u4")])
assert ENTRY.size == ENTRIES.itemsize == ENTRY_BYTES
HALF, SLIGHTLY = 0.5, 1e-9  # values within 1e-9 of a half round down, whatever their last bits

CASTLING = {  # source and target in the book -> target square of the king
    (chess.E1, chess.H1): chess.G1,
    (chess.E1, chess.A1): chess.C1,
    (chess.E8, chess.H8): chess.G8,
    (chess.E8, chess.A8): chess.C8,
}


class PolyglotEntry(NamedTuple):
    """One entry of a book file, in the order of `ENTRY`: a move in a position.

    >>> ENTRY.pack(*PolyglotEntry(0x463B96181691FC9C, 0x31C, 7)).hex()
    '463b96181691fc9c031c000700000000'
    """

    key: int
    raw_move: int
    weight: int
    learn: int = 0


def unpack(data: bytes) -> Iterator[PolyglotEntry]:
    """Yields the entries of `data`; its length must be a multiple of 16."""
    return map(PolyglotEntry._make, ENTRY.iter_unpack(data))


def fitted(
    weights: NDArray[np.float64], largest: NDArray[np.float64] | NDArray[np.int64], *, fill: bool = False
) -> NDArray[np.int64]:
    """Returns weights in 16 bits: unchanged, or scaled if the largest of their position does not fit.

    Args:
      largest: largest weight in each move's position; if positive, it stays at least 1.
      fill: always scale the largest to 65,535.

    >>> fitted(np.array([3.0, 1.0]), np.array([3, 3])).tolist()
    [3, 1]
    >>> fitted(np.array([131070.0, 2.0, 1.0]), np.array([131070] * 3)).tolist()
    [65535, 1, 0]
    >>> fitted(np.array([0.3, 0.1]), np.array([0.3, 0.3])).tolist()
    [1, 0]
    """
    scales = (largest > MAX_WEIGHT) | fill
    factor = np.where(scales, MAX_WEIGHT / np.where(largest > 0, largest, 1.0), 1.0)
    found = np.floor(weights * factor + HALF - SLIGHTLY).astype(np.int64)
    return np.asarray(np.maximum(found, (weights == largest) & (weights > 0)), np.int64)


def written_move(raw: int) -> chess.Move | None:
    """Returns a raw move literally, castling as e1h1; None if its bits are not a move.

    >>> written_move(chess.E1 << 6 | chess.H1).uci(), written_move(0), written_move(0x7000)
    ('e1h1', None, None)
    """
    promotion = raw >> 12
    source, target = raw >> 6 & 63, raw & 63
    if promotion > 4 or source == target:
        return None
    return chess.Move(source, target, promotion + 1 if promotion else None)


def raw_move(board: chess.Board, move: chess.Move) -> int:
    """Returns a legal move as a book has it; castling is the king capturing his own rook.

    >>> board = chess.Board("4k3/8/8/8/8/8/8/4K2R w K - 0 1")
    >>> written_move(raw_move(board, chess.Move.from_uci("e1g1"))).uci()
    'e1h1'
    """
    target = move.to_square
    if board.is_castling(move) and not board.chess960:
        target = chess.square(7 if board.is_kingside_castling(move) else 0, chess.square_rank(target))
    promotion = move.promotion - 1 if move.promotion else 0
    return promotion << 12 | move.from_square << 6 | target


def legal_move(board: chess.Board, raw: int) -> chess.Move | None:
    """Returns a raw move as a legal move of the position, castling in its notation; None if illegal."""
    move = written_move(raw)
    if move is None:
        return None
    king = CASTLING.get((move.from_square, move.to_square))
    if king is not None and board.kings & chess.BB_SQUARES[move.from_square]:
        castling = chess.Move(move.from_square, king)
        if board.is_castling(castling) and board.is_legal(castling):
            return castling
    return move if board.is_legal(move) else None


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

    It has every move of every book, sorted by key, then by descending weight. The weights of the same move in
    the same position are added. If the largest weight of a position then exceeds 16 bits, all weights of the
    position are scaled down; a weight above 0 stays at least 1. The learn field is the first nonzero one.

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
