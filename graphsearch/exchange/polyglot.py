"""Polyglot books: their format, their import, and the export of a file as one.

A book has entries of 16 bytes, big-endian, sorted by key:

    key u64, raw move u16, weight u16, learn u32

A raw move has from bit 0 three bits each for the target file and rank, the source file and rank, and the
promotion (0 none, 1-4 knight to queen). Castling is the king capturing its own rook, such as e1h1.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import BinaryIO

import chess
import chess.polyglot
import numpy as np
from numpy.typing import NDArray

from ..base.errors import ExportError, ImportFileError, InvalidParameterError
from ..base.limits import BOOK, check_size
from ..position.board import CHESS960, KEY, KINGS, META, board_of, encode_move, fen_of, pack
from ..position.board import unpack as unpacked
from ..position.values import cp_of, negate
from ..query.columns import cps_of
from ..query.steps import CASTLING_STEP, Floats, Ints, Mask, Words, legal_codes, positions_after
from ..store.store import Store
from ..store.tables import games as tables
from .importing import Importing, Input, Problem
from .selection import Export, without_clocks
from .walk import Positions, Walk

ENTRY = np.dtype([("key", ">u8"), ("move", ">u2"), ("weight", ">u2"), ("learn", ">u4")])
ENTRY_BYTES = 8 + 2 + 2 + 4
assert ENTRY.itemsize == ENTRY_BYTES
MAX_WEIGHT = (1 << 16) - 1
HALF, SLIGHTLY = 0.5, 1e-9  # values within 1e-9 of a half round down, whatever their last bits


def fitted(
    weights: NDArray[np.float64], largest: NDArray[np.float64] | NDArray[np.int64], *, fill: bool = False
) -> NDArray[np.int64]:
    """Returns weights in 16 bits: unchanged, or scaled if the largest of their position does not fit.

    Args:
      largest: in each move's position; it stays at least 1. fill: always scale it to 65,535.

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


def legal_move(board: chess.Board, raw: int) -> chess.Move | None:
    """Returns a raw move as a legal move of the position, castling in its notation; None if illegal."""
    move = written_move(raw)
    try:
        return board.parse_uci(move.uci()) if move else None
    except ValueError:
        return None


# ------------------------------------------------------------------ import
ENTRIES_AT_ONCE = 1 << 15  # of one transaction
NAMES_AT_ONCE = 10_000

Row = tuple[str, str, str | None, str, int, int]  # as `games.name_entries` takes it

_TEXT = re.compile(rb"[ -~\r\n]*")


def read_book(importing: Importing, given: Input) -> None:
    """Imports every entry of a Polyglot book."""
    _PolyglotImport(importing, given).read()


class _PolyglotImport:
    def __init__(self, importing: Importing, given: Input) -> None:
        self._importing, self._report, self._given = importing, importing.report, given
        self._names: list[Row] = []

    def read(self) -> None:
        """Imports the entries that are not imported yet, then names the positions and moves it can find."""
        keys, zero = [np.zeros(0, np.uint64)], 0
        for entries in self._pieces():
            keys.append(entries["key"].astype(np.uint64))
            zero += int((entries["weight"] == 0).sum())
            self._importing.show_progress()
            if self._importing.stop.is_set():
                return
        given = np.concatenate(keys)
        finder = Finder(self._importing.store, np.unique(given))
        for known in finder:
            self._name(known, finder)
            self._importing.show_progress("Naming the positions of", finder.found)
            if self._importing.stop.is_set() or len(self._names) >= NAMES_AT_ONCE:
                self._importing.save(self._write_names())
            if self._importing.stop.is_set():
                return
        self._add_notes(finder, given, zero)
        self._importing.save(self._write_names(), finished=True)

    def _pieces(self) -> Iterator[NDArray[np.void]]:
        """Yields the entries of the book, piece by piece, and imports those that are new."""
        place, rest = 0, b""
        for piece in self._given.pieces(ENTRIES_AT_ONCE * ENTRY_BYTES):
            if not place and _TEXT.fullmatch(piece[:4096]):
                raise ImportFileError(f"{self._given.name} is a text file, not a Polyglot book")
            check_size(place * ENTRY_BYTES, BOOK, self._given.name)
            entries = np.frombuffer(piece, ENTRY, len(piece) // ENTRY_BYTES)
            rest = piece[len(entries) * ENTRY_BYTES :]
            self._save(place, entries)
            place += len(entries)
            yield entries
        if rest:
            reason = f"{len(rest)} bytes at the end are not a whole entry; the book is cut short"
            self._report.problems.append(Problem(place, reason))
            self._report.skipped = 1

    def _save(self, place: int, entries: NDArray[np.void]) -> None:
        source, known = self._importing.source.id, max(0, self._report.taken - place)
        rows: list[tables.EntryRow] = [
            (f"{key:016x}", _as_written(raw), source, at, raw, weight, learn)
            for at, (key, raw, weight, learn) in enumerate(entries[known:].tolist(), place + known)
        ]
        if rows:
            self._report.taken += len(rows)
            self._importing.save(lambda store: tables.add_entries(store, rows))

    # -------------------------------------------------------------- names
    def _name(self, known: Place, finder: Finder) -> None:
        """Names the moves of a position, and passes them to the finder."""
        words, ply = known
        board = unpacked(words.tolist())
        board.fullmove_number = ply // 2 + 1
        fen, key, source = fen_of(board), f"{int(words[KEY]):016x}", self._importing.source.id
        moves = list[int]()
        for place, raw in tables.entries_of(self._importing.store, source, key):
            move = legal_move(board, raw)
            if move is None:
                text = _as_written(raw)
                reason = f"the move {text} ({raw:#06x}) is illegal in its position, {fen}"
                self._report.problems.append(Problem(place, reason))
                self._names.append((fen, text, None, key, source, place))
                continue
            self._names.append((fen, move.uci(), board.san(move), key, source, place))
            moves.append(encode_move(move))
        finder.follow(known, moves)

    def _write_names(self) -> tables.Write:
        names, self._names = self._names, []
        return lambda store: tables.name_entries(store, names)

    def _add_notes(self, finder: Finder, keys: NDArray[np.uint64], zero: int) -> None:
        notes, total = self._report.notes, len(np.unique(keys))
        notes.append(f"positions whose FEN is known: {finder.found:,} of {total:,}")
        if zero:
            notes.append(f"entries of weight 0, which programs do not play: {zero:,}")
        disorder = np.flatnonzero(keys[1:] < keys[:-1])
        if len(disorder):
            notes.append(
                f"its entries are out of order from entry {disorder[0] + 1} on; programs will miss some"
            )
        if not total:
            notes.append("it has no entries")


def _as_written(raw: int) -> str:
    """Returns a raw move in UCI, castling as e1h1; the null move if its bits are invalid."""
    move = written_move(raw)
    return move.uci() if move else chess.Move.null().uci()


# ------------------------------------------------------------------ positions of a book
Place = tuple[Words, int]  # a position and its ply


class Finder:
    """Yields each position found for a key of the book, and its ply; `follow` its moves before the next."""

    def __init__(self, store: Store, keys: NDArray[np.uint64]) -> None:
        """Begins to look for keys, sorted and distinct; `found`: number of positions so far."""
        self._store, self._keys = store, keys
        self._seen = np.zeros(len(self._keys), bool)
        self._ready: deque[Place] = deque()
        self._around: deque[Place] = deque()  # positions to expand by all legal moves
        self._passed: set[int] = set()  # keys of expanded positions that are not in the book
        self.found = 0

    def __iter__(self) -> Iterator[Place]:
        keys = (f"{key:016x}" for key in self._keys.tolist())
        fens = chain(tables.known_roots(self._store), tables.known_fens(self._store, keys))
        for fen in chain([chess.STARTING_FEN], fens):
            board = board_of(fen)
            self._meet(pack(board).reshape(1, -1), board.ply(), passes=True)
            yield from self._drained()
        while self._around and self.found < len(self._keys):
            self._look_around(self._around.popleft())
            yield from self._drained()

    def _drained(self) -> Iterator[Place]:
        while self._ready:
            known = self._ready.popleft()
            yield known
            self._around.append(known)

    def follow(self, known: Place, codes: Sequence[int], *, passes: bool = True) -> None:
        """Meets the positions after moves; `passes`: as in `_meet`."""
        words, ply = known
        if codes:
            after, _ = positions_after(words.reshape(1, -1), [0] * len(codes), codes)
            self._meet(after, ply + 1, passes=passes)

    def _look_around(self, known: Place) -> None:
        """Meets the positions after all legal moves of a position."""
        counts, codes, _ = legal_codes(known[0].reshape(1, -1))
        self.follow(known, codes[0, : counts[0]].tolist(), passes=False)

    def _meet(self, words: Words, ply: int, *, passes: bool) -> None:
        """Queues positions that are new and in the book; with `passes`, queues the others for expansion."""
        places = np.minimum(np.searchsorted(self._keys, words[:, KEY]), max(len(self._keys) - 1, 0))
        hits = self._keys[places] == words[:, KEY] if len(self._keys) else np.zeros(len(words), bool)
        for row, place, hit in zip(words, places.tolist(), hits.tolist(), strict=True):
            if hit and not self._seen[place]:
                self._seen[place] = True
                self.found += 1
                self._ready.append((row.copy(), ply))
            elif not hit and passes and int(row[KEY]) not in self._passed:
                self._passed.add(int(row[KEY]))
                self._around.append((row.copy(), ply))


# ------------------------------------------------------------------ export
# schema/exports.md has the weights: N (`n`), or 2 ** (-loss / 25) for a loss in centipawns (`q`), in 16 bits.
HALVING_CP = 25.0  # loss in centipawns that halves the weight


def write_polyglot(export: Export, out: BinaryIO, *, weights: str | None = None) -> None:
    """Writes a Polyglot book of a graph file; for one side, only positions with that side to move.

    Args:
      weights: `n` or `q`; None: q with a book, else n.

    Raises:
      InvalidParameterError: if there are no such weights.
      ExportError: if there is nothing to write.
    """
    if weights not in (None, "n", "q"):
        raise InvalidParameterError(f"weights must be n or q, not {weights!r}")
    by_value = weights == "q" or (weights is None and export.book is not None)
    parts = [_part(found, steps.ids) for found, steps in Walk(export, leaves=False).visits()]
    if parts:
        out.write(entries_of(parts, export, by_value=by_value).tobytes())
    if not export.report.moves:
        why = export.report.left_out_lines()
        raise ExportError("; ".join([f"{export.store.path}: nothing to export", *why]))


_Part = tuple[Ints, NDArray[np.uint64], Mask, Ints, Floats, Ints, Ints, Floats]


def _part(found: Positions, ids: Ints) -> _Part:
    """Returns columns: id, key, whether it is exported, number of moves and value; raw move, N and value."""
    moves, worth = found.moves, found.move_worth
    counts, raw = np.bincount(moves.of, minlength=len(found)), _raw_moves(found.words, moves.of, moves.code)
    positions = (ids, found.words[:, KEY], found.own, counts, found.worth.q)
    return (*positions, raw, worth.n.astype(np.int64), worth.value)


def entries_of(parts: Sequence[_Part], export: Export, *, by_value: bool) -> NDArray[np.void]:
    """Returns the entries of a walk, sorted by key, in each position by descending weight."""
    report = export.report
    ids, keys, own, counts, values, raw, n, value = map(np.concatenate, zip(*parts, strict=True))
    begins = np.cumsum(counts) - counts
    export.leave_out("other_side", ((counts > 0) & ~own).sum())
    rows = _without_clashes(np.flatnonzero((counts > 0) & own), keys, n, begins, export)
    first, of = np.cumsum(counts[rows]) - counts[rows], np.repeat(np.arange(len(rows)), counts[rows])
    moves = begins[rows][of] + np.arange(len(of)) - first[of]
    numbers = _weights_by_value(value[moves], first, of) if by_value else n[moves].astype(np.float64)
    largest = np.maximum.reduceat(numbers, first)
    scaled = np.maximum(fitted(numbers, largest[of], fill=by_value), np.isnan(value[moves]))
    kept = np.flatnonzero(scaled)
    kept = kept[np.lexsort((-scaled[kept], of[kept]))]
    report.scaled += 0 if by_value else int(counts[rows][largest > MAX_WEIGHT].sum())
    export.leave_out("moves_scaled_away", len(moves) - len(kept))
    found = np.zeros(len(kept), ENTRY)
    found["key"], found["move"], found["weight"] = keys[rows][of[kept]], raw[moves[kept]], scaled[kept]
    if export.book is not None:
        roots = dict(zip(ids.tolist(), values.tolist(), strict=True))
        found = np.concatenate([found, _ways_to_roots(export, roots, set(keys[counts > 0].tolist()))])
    report.positions += len(np.unique(found["key"]))
    report.moves += len(found)
    return found[np.argsort(found["key"], kind="stable")].astype(ENTRY)  # which numpy had made native


def _without_clashes(rows: Ints, keys: NDArray[np.uint64], n: Ints, begins: Ints, export: Export) -> Ints:
    """Returns rows sorted by key, of each key the one whose moves have the most visits, else the first."""
    visits = np.add.reduceat(np.append(n, 0), begins)
    rows = rows[np.lexsort((rows, -visits[rows], keys[rows]))]
    again = np.append(np.zeros(min(1, len(rows)), bool), keys[rows][1:] == keys[rows][:-1])
    export.leave_out("clashes", again.sum())
    return np.asarray(rows[~again])


def _weights_by_value(values: Floats, first: Ints, of: Ints) -> Floats:
    """Returns the weight of each move, 0 for one of unknown value; `first`, `of`: as in `entries_of`."""
    known = ~np.isnan(values)
    scores = np.where(known, cps_of(np.where(known, values, -1.0)), -(1 << 40))
    losses, which = np.unique(np.maximum.reduceat(scores, first)[of] - scores, return_inverse=True)
    found = np.array([weight_of_loss(loss) for loss in losses.tolist()], np.float64)[which]
    return np.where(known, found, 0.0)


def weight_of_loss(cp: int) -> float:
    """Returns the weight, in (0, 1], of a move that loses `cp` centipawns.

    >>> weight_of_loss(0), weight_of_loss(25)
    (1.0, 0.5)
    """
    return float(2.0 ** max(-cp / HALVING_CP, -1000.0))


def _ways_to_roots(export: Export, roots: dict[int, float], walked: set[int]) -> NDArray[np.void]:
    """Returns entries for the positions before the roots of a book, sorted by key, best move first.

    The moves are those that lead to the roots, by the roots' values; a position of the walk has its own.
    `roots`: values of positions by id, roots first. `walked`: keys of positions with moves.
    """
    values: dict[int, dict[int, float]] = {}
    for i, root in enumerate(export.roots, 1):
        game = export.games.get(without_clocks(fen_of(root)))
        value = roots.get(i, 0.0)
        walk = game.copy() if game else root
        while walk.move_stack:
            move, value = walk.pop(), negate(value)
            if export.side in ("both", chess.COLOR_NAMES[walk.turn]):
                found = values.setdefault(chess.polyglot.zobrist_hash(walk), {})
                code = np.array([encode_move(move)], np.uint16)
                raw = int(_raw_moves(pack(walk).reshape(1, -1), np.zeros(1, np.int64), code)[0])
                found[raw] = max(value, found.get(raw, value))
    rows = []
    for key in sorted(values.keys() - walked):
        scores = {raw: cp_of(value) for raw, value in values[key].items()}
        best = max(scores.values())
        numbers = np.array([weight_of_loss(best - cp) for cp in scores.values()], np.float64)
        fit = fitted(numbers, np.full(len(numbers), numbers.max()), fill=True).tolist()
        rows += [(key, raw, weight, 0) for weight, raw in sorted(zip(fit, scores, strict=True), reverse=True)]
    return np.array(rows, ENTRY)


def _raw_moves(words: Words, of: Ints, codes: NDArray[np.uint16]) -> Ints:
    """Returns moves, as for `positions_after`, as Polyglot has them: a castling king captures his rook."""
    origin, target = codes.astype(np.int64) & 63, codes.astype(np.int64) >> 6 & 63
    king = words[of, KINGS] >> origin.astype(np.uint64) & np.uint64(1) > 0
    standard = words[of, META] & np.uint64(CHESS960) == 0
    castles = king & standard & (np.abs((origin & 7) - (target & 7)) == CASTLING_STEP)
    rook = (origin & ~7) + np.where(target > origin, 7, 0)
    raw: Ints = np.where(castles, rook, target) | origin << 6 | codes & (7 << 12)
    return raw
