"""Transposition entries of fixed-depth searches and mate proofs, in memory and in the file, and their runs.

Saves append entries as pieces, which are rewritten when their number has doubled. A piece belongs to one
evaluation, or contains proofs, which are valid under every evaluation. Of two entries of a position a proof
counts, else the newest. Values are thousandths of a pawn for the side to move, moves of runs UCI.

`transposition_kernel.py` has the fields of the data word, `schema/entries.md` the bytes of the file,
`schema/store.md` the tables. Call functions that write inside `Store.transaction`.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, get_frame_parameters

from ..base.answer import Answer
from ..base.errors import CorruptRecordError
from ..base.version import __version__
from ..jit.types import uint64
from ..position.board import decode_move, encode_move, key_of, pack
from ..position.values import MATE
from . import transposition_kernel as kernel
from .file import sql_errors
from .provenance import fact_number, now, set_fact
from .store import Store
from .tables.rows import TABLES, fault_of_row, json_object, read_rows, rows, update_row, write_row
from .transposition_kernel import DEPTH_AT, DEPTH_MASK, PROOF, Words, bits_at, checks

# ------------------------------------------------------------------ entries in memory
PLACE_BYTES = 17  # of one entry
LEAST_PLACES = 1 << 10
Places = NDArray[np.intp]
BOUNDS = ("", "upper", "lower", "exact")
TYPES = ("", "pv", "cut", "all")


@dataclass(frozen=True, slots=True)
class Entry:
    """The result of a fixed-depth search, or a proof, for one position.

    Attributes:
      value: thousandths of a pawn for the side to move; MATE - n: it mates in n plies; n - MATE: it is mated.
      depth: full-width plies searched; PROOF: the entry holds at every depth.
      bound: `exact`, `lower` (at least the value), `upper` (at most), or empty if only the move is known.
      move: best move; None if none is known.
      kind: expected node type: `pv`, `cut`, `all` or empty.
      cut: number, from 1, of the move in order that caused the cutoff, at most 7; 0: no cutoff.
    """

    value: int
    depth: int
    bound: str
    move: chess.Move | None
    kind: str
    cut: int

    @property
    def mate_plies(self) -> int | None:
        """Plies to a proven mate, negative if the side to move is mated; None if the entry proves none."""
        if not kernel.proves_mate(self.value, BOUNDS.index(self.bound)):
            return None
        plies = MATE - abs(self.value)
        return plies if self.value > 0 else -plies


def decoded(data: int) -> Entry:
    """Returns the entry of a data word."""
    move = data >> kernel.MOVE_AT & kernel.MOVE_MASK
    return Entry(
        value=(data & kernel.VALUE_MASK) - kernel.VALUE_BIAS,
        depth=data >> kernel.DEPTH_AT & kernel.DEPTH_MASK,
        bound=BOUNDS[data >> kernel.BOUND_AT & kernel.BOUND_MASK],
        move=decode_move(move) if move else None,
        kind=TYPES[data >> kernel.TYPE_AT & kernel.TYPE_MASK],
        cut=data >> kernel.CUT_AT & kernel.CUT_MASK,
    )


def encoded(entry: Entry, board: chess.Board) -> int:
    """Returns the data word of an entry of a position."""
    move, bound = encode_move(entry.move) if entry.move else 0, BOUNDS.index(entry.bound)
    kind, check = TYPES.index(entry.kind), uint64(check_of(board))
    return int(kernel.packed_entry(entry.value, move, entry.depth, bound, kind, entry.cut, check))


def check_of(board: chess.Board) -> int:
    """Returns the check hash of a position, 32 bits, as the kernels compute it."""
    return int(kernel.check_of_words(np.array(pack(board), np.uint64)))


class EntryTable:
    """Entries in memory, in a fixed number of places; the least valuable are evicted. One writer."""

    def __init__(self, size: int) -> None:
        """Creates an empty table of at most `size` bytes (a power of two entries)."""
        places = LEAST_PLACES
        while 2 * places * PLACE_BYTES <= size:
            places *= 2
        self.arrays = kernel.new_entries(places)

    @property
    def count(self) -> int:
        """Entries in the table."""
        return int(self.arrays.counters[kernel.STORED])

    @property
    def dirty_count(self) -> int:
        """Entries that are not in the file."""
        return int(self.arrays.counters[kernel.DIRTY_ENTRIES])

    def next_search(self) -> None:
        """Begins a search; entries of earlier searches are evicted first."""
        counters = self.arrays.counters
        counters[kernel.GENERATION] = counters[kernel.GENERATION] % kernel.AGE + 1

    def get(self, board: chess.Board) -> Entry | None:
        """Returns the entry of a position, None if there is none."""
        at = kernel.find_entry(self.arrays, uint64(key_of(board)), uint64(check_of(board)))
        return decoded(int(self.arrays.data[at])) if at >= 0 else None

    def put(self, board: chess.Board, entry: Entry) -> None:
        """Writes an entry and marks it dirty."""
        key, data = uint64(key_of(board)), uint64(encoded(entry, board))
        at = kernel.place_for(self.arrays, key, kernel.check_in(data))
        kernel.put_entry(self.arrays, at, key, data, True)

    def enter(self, keys: Words, data: Words) -> None:
        """Adds entries read from a file; existing entries that are at least as deep stay."""
        kernel.enter(self.arrays, keys, data)

    def take_dirty(self) -> tuple[Places, Words, Words]:
        """Returns (places, keys, data) of the dirty entries and marks them clean."""
        arrays = self.arrays
        places = np.flatnonzero(arrays.ages >= kernel.UNSAVED)  # the highest bit; & took eight times as long
        arrays.ages[places] &= kernel.AGE
        arrays.counters[kernel.DIRTY_ENTRIES] = 0
        return places, arrays.keys[places], arrays.data[places]

    def touch_again(self, places: Places) -> None:
        """Marks entries from `take_dirty`, or those now in their places, dirty after saving failed."""
        self.arrays.ages[places] |= kernel.UNSAVED
        self.arrays.counters[kernel.DIRTY_ENTRIES] = np.count_nonzero(self.arrays.ages & kernel.UNSAVED)


# ------------------------------------------------------------------ the bytes of a piece
MOST_ENTRIES = 1 << 16  # of a piece
ENTRY_BYTES = 16  # before compression
LEVEL = 1  # zstd; only its entropy coding matters here, higher levels are slower and gain nothing


def encode(keys: Words, data: Words) -> bytes:
    """Returns the bytes of a piece of `distinct` entries, place by place, steps from key to key first."""
    words = np.stack([np.diff(keys, prepend=np.uint64(0)), data], 1).astype("<u8")
    return ZstdCompressor(level=LEVEL).compress(words.view(np.uint8).reshape(-1, ENTRY_BYTES).T.tobytes())


def decode(blob: bytes, entries: int) -> tuple[Words, Words]:
    """Returns the keys and data words of a piece, in order; CorruptRecordError if it has other entries."""
    size = ENTRY_BYTES * entries
    try:
        if get_frame_parameters(blob).content_size != size:
            raise CorruptRecordError(f"it does not expand to {entries} entries")
        plain = ZstdDecompressor().decompress(blob)
    except ZstdError as error:
        raise CorruptRecordError(f"it cannot be expanded: {error}") from None
    words = np.frombuffer(plain, np.uint8).reshape(ENTRY_BYTES, -1).T.copy().view("<u8").astype(np.uint64)
    return np.cumsum(words[:, 0], dtype=np.uint64), words[:, 1].copy()


def distinct(keys: Words, data: Words) -> tuple[Words, Words]:
    """Returns the first entry of each position, in order of key, then of check hash.

    >>> one, two = np.array([7, 3, 7], np.uint64), np.array([1, 2, 3], np.uint64)
    >>> [words.tolist() for words in distinct(one, two)]
    [[3, 7], [2, 1]]
    """
    order = np.lexsort((checks(data), keys))
    keys, data = keys[order], data[order]
    check = checks(data)
    first = np.ones(len(keys), bool)
    first[1:] = (keys[1:] != keys[:-1]) | (check[1:] != check[:-1])
    return keys[first], data[first]


def depths(data: Words) -> NDArray[np.int64]:
    """Returns the depth of each entry; one of depth PROOF is valid under every evaluation."""
    return bits_at(data, DEPTH_AT, DEPTH_MASK)


# ------------------------------------------------------------------ the pieces of a file
PROOFS = ""  # the evaluation of pieces that are valid under every evaluation
FEW_PIECES = 16  # that are not worth a rewrite
FACT = "entry_pieces"  # row of store_info: number of pieces after the last rewrite

Report = Callable[[str], object]


@dataclass(slots=True)
class Loaded:
    """The entries of a file that are valid under an evaluation, one for each position.

    Attributes:
      keys, data: uint64[K], ascending by key.
      ignored: entries of other evaluations.
      pieces: ids of the pieces that were read.
      problems: one line for each damaged piece that was left out.
    """

    keys: Words
    data: Words
    ignored: int
    pieces: list[int]
    problems: list[str]


@dataclass(frozen=True, slots=True)
class EntryFacts(Answer):
    """The numbers of entries in a file; superseded versions count until the next rewrite.

    Attributes:
      entries: of all evaluations, proofs included. proofs: entries that are valid under every evaluation.
      pieces: number of pieces. bytes: of the pieces.
      evaluations: entries by evaluation, without the proofs.
    """

    entries: int = 0
    proofs: int = 0
    pieces: int = 0
    bytes: int = 0
    evaluations: dict[str, int] = field(default_factory=dict)


def facts(store: Store) -> EntryFacts:
    """Returns the numbers of entries in a file, without reading the entries."""
    statement = "SELECT evaluation, entries, length(data) FROM entry_piece ORDER BY evaluation"
    columns = ("entry_piece.evaluation", "entry_piece.entries", "entry_piece.id")
    pieces = store.query(statement, (), *columns)
    found: dict[str, int] = {}
    for evaluation, entries, _ in pieces:
        found[evaluation] = found.get(evaluation, 0) + entries
    size = sum(row[2] for row in pieces)
    return EntryFacts(sum(found.values()), found.pop(PROOFS, 0), len(pieces), size, found)


def load(store: Store, evaluation: str = PROOFS) -> Loaded:
    """Returns the entries that are valid under an evaluation (a digest), proofs included; default: these."""
    with sql_errors(store.path, "read it"), store.snapshot():
        return load_only(store, PROOFS, evaluation)


def load_only(store: Store, *evaluations: str) -> Loaded:
    """Returns the entries of some evaluations: proofs before others, newer pieces before older ones."""
    found: dict[int, tuple[Words, Words]] = {}
    problems: list[str] = []
    ignored = 0
    for number, evaluation, entries in listed(store, problems.append):
        if evaluation not in evaluations:
            ignored += entries
        elif piece := _read(store, number, problems.append):
            found[number] = piece
    none = np.zeros(0, np.uint64)
    keys, data = (np.concatenate([none, *(piece[i] for piece in found.values())]) for i in (0, 1))
    return Loaded(*distinct(keys, data), ignored, list(found), problems)


def listed(store: Store, report: Report) -> list[tuple[int, str, int]]:
    """Returns id, evaluation and entries of sound rows, proofs first, newer ones first; reports others."""
    statement = (
        f"SELECT id, evaluation, entries, {fault_of_row('entry_piece')} FROM entry_piece"  # noqa: S608 (constants)
        " ORDER BY evaluation <> '', id DESC"
    )
    found = store.connection.execute(statement).fetchall()
    for number, *_, fault in found:
        if fault:
            report(f"{store.path}: piece {number} of the entries is damaged: {fault}")
    return [(number, evaluation, entries) for number, evaluation, entries, fault in found if not fault]


def _read(store: Store, number: int, report: Report) -> tuple[Words, Words] | None:
    """Returns the entries of a piece, None after a report if it is damaged."""
    columns = ("evaluation", "entries", "checksum", "data")
    try:
        row = next(rows(store.connection, "entry_piece", columns, "WHERE id = ?", (number,)), None)
        if row is None:  # a page of the table is damaged
            raise CorruptRecordError("its row is not found by its number")
        evaluation, entries, checksum, blob = row
        if _checksum(evaluation, blob) != checksum:
            raise CorruptRecordError("checksum")
        keys, data = decode(blob, entries)
        if evaluation == PROOFS and (depths(data) != PROOF).any():
            raise CorruptRecordError("not all of its entries are proofs")
    except (CorruptRecordError, sqlite3.DatabaseError) as error:
        report(f"{store.path}: piece {number} of the entries is damaged: {error}")
        return None
    return keys, data


def sizes(store: Store, report: Report) -> dict[int, int]:
    """Returns the number of sound entries by piece; 0, after a report, for a damaged piece."""
    ids = store.connection.execute("SELECT id FROM entry_piece ORDER BY id").fetchall()
    return {number: len((_read(store, number, report) or [()])[0]) for (number,) in ids}


def append(store: Store, keys: Words, data: Words, evaluation: str) -> None:
    """Adds entries, which supersede earlier ones of their positions; rewrites all if there are many pieces.

    A rewrite deletes the entries of other evaluations. `keys`, `data`: uint64[K] in any order; `evaluation`:
    the digest of what computed their values.
    """
    proofs = depths(data) == PROOF
    for of, chosen in ((PROOFS, proofs), (evaluation, ~proofs)):
        insert(store.connection, *distinct(keys[chosen], data[chosen]), of)
    held = 0  # after the last rewrite, if its row is not damaged
    with suppress(CorruptRecordError):
        held = fact_number(store.connection, FACT)
    if _count(store) > FEW_PIECES + 2 * held:
        others = "DELETE FROM entry_piece WHERE evaluation NOT IN (?, ?)"
        store.connection.execute(others, (PROOFS, evaluation))
        rewrite(store)


def _count(store: Store) -> int:
    return int(store.connection.execute("SELECT count(*) FROM entry_piece").fetchone()[0])


def insert(connection: sqlite3.Connection, keys: Words, data: Words, evaluation: str) -> None:
    """Writes entries, as `distinct` returns them, as pieces of almost equal size."""
    for part in np.array_split(np.arange(len(keys)), -(-len(keys) // MOST_ENTRIES) or 1):
        if len(part):
            blob = encode(keys[part], data[part])
            row = {"evaluation": evaluation, "entries": len(part), "data": blob}
            write_row(connection, "entry_piece", row | {"checksum": _checksum(evaluation, blob)})


def _checksum(evaluation: str, blob: bytes) -> int:
    return zlib.crc32(blob, zlib.crc32(evaluation.encode()))


def rewrite(store: Store) -> list[str]:
    """Rewrites all entries, one of each evaluation for each position; returns a line for each damaged piece.

    Damaged pieces stay, so that `store verify` reports them.
    """
    problems: list[str] = []
    for evaluation in sorted({evaluation for _, evaluation, _ in listed(store, problems.append)}):
        found = load_only(store, evaluation)
        problems += found.problems
        store.connection.executemany("DELETE FROM entry_piece WHERE id = ?", [(n,) for n in found.pieces])
        insert(store.connection, found.keys, found.data, evaluation)
    count = _count(store)
    set_fact(store.connection, FACT, str(count) if count else None)
    return list(dict.fromkeys(problems))


# ------------------------------------------------------------------ the runs
ALPHABETA = "alphabeta"  # kind of a run; others are `mate`
HISTORY = "history"  # limit of a run: number of earlier positions that have occurred twice


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The result so far of a run, or of one of its iterations.

    Attributes:
      depth: completed plies of full width; None for a mate proof.
      alpha, beta: the window; None for a mate proof.
      value: thousandths of a pawn for the side to move; None if nothing is known.
      bound: `exact`, `lower`, `upper`, or empty.
      best_move, pv: UCI, the line's moves separated by spaces.
      nodes, hits, stored_hits, cutoffs, first_cutoffs: as in `solvers.alphabeta.search.Counts`; the last two
        are stored of an iteration only.
      seconds: duration.
    """

    depth: int | None = None
    alpha: int | None = None
    beta: int | None = None
    value: int | None = None
    bound: str | None = ""
    best_move: str | None = None
    pv: str = ""
    nodes: int = 0
    hits: int = 0
    stored_hits: int = 0
    seconds: float = 0.0
    cutoffs: int = 0
    first_cutoffs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRun(RunOutcome, Answer):
    """A row of `entry_run`; `finished` is None while it runs, or if it was killed."""

    id: int
    kind: str
    started: str
    finished: str | None
    fen: str
    key: str
    limits: Mapping[str, Any]
    evaluation: str
    program: str

    json_keys = " ".join(TABLES["entry_run"].columns)


_OUTCOME_COLUMNS = tuple(one.name for one in fields(RunOutcome))


def begin(store: Store, kind: str, fen: str, key: str, limits: Mapping[str, Any], evaluation: str) -> int:
    """Records a new run that starts now; returns its number.

    Args:
      fen, key: the position, its key as `key_text` returns it. limits: by name. evaluation: its digest.
    """
    row = {
        "kind": kind,
        "started": now(),
        "fen": fen,
        "key": key,
        "limits": json.dumps(dict(limits)),
        "evaluation": evaluation,
        "program": __version__,
    }
    return write_row(store.connection, "entry_run", row, otherwise="ABORT")


def update(store: Store, run: int, outcome: RunOutcome, *, finished: bool) -> None:
    """Records the result of a run so far, and its end if `finished`."""
    row = {name: value for name, value in asdict(outcome).items() if name in TABLES["entry_run"].columns}
    update_row(store.connection, "entry_run", run, row | ({"finished": now()} if finished else {}))


def add_iteration(store: Store, run: int, outcome: RunOutcome) -> None:
    """Records a complete iteration."""
    write_row(store.connection, "entry_iteration", {"run": run, **asdict(outcome)}, otherwise="ABORT")


def runs(store: Store) -> list[EntryRun]:
    """Returns all rows of `entry_run` of a file, oldest first."""
    with store.reading() as connection:
        return read_rows(connection, "entry_run", EntryRun, "ORDER BY id", objects=("limits",))


def iterations(store: Store, fen: str, key: str, evaluation: str) -> dict[int, RunOutcome]:
    """Returns complete iterations for a position by depth: the last exact one of each, else the last one.

    Only runs with the same clock count, and with no earlier position that could occur a third time (HISTORY):
    their results hold whenever the position is the root again. Damaged rows are left out.

    Args:
      fen, key: the position, its key as `key_text` returns it. evaluation: digest of the evaluation.
    """
    columns = ", ".join(f"step.{name}" for name in _OUTCOME_COLUMNS)
    with store.reading() as connection:
        found = connection.execute(
            f"SELECT entry_run.fen, entry_run.limits, {columns} FROM"  # noqa: S608 (constants)
            f" (SELECT * FROM entry_iteration WHERE {fault_of_row('entry_iteration')} IS NULL) AS step"
            " JOIN entry_run ON entry_run.id = step.run"
            " WHERE entry_run.key = ? AND entry_run.evaluation = ? ORDER BY step.bound = 'exact', step.id",
            (key, evaluation),
        ).fetchall()
    same = [row for its_fen, limits, *row in found if _clock(its_fen) == _clock(fen) and _is_free(limits)]
    steps = [dict(zip(_OUTCOME_COLUMNS, row, strict=True)) for row in same]
    return {step["depth"]: RunOutcome(**step) for step in steps}


def _is_free(limits: object) -> bool:
    """Returns whether, by its stored limits, a run had no earlier position that could occur a third time."""
    found = json_object(limits)
    return found is not None and HISTORY not in found


def _clock(fen: object) -> str:
    """Returns the halfmove clock of a FEN, empty if it has none."""
    parts = fen.split() if isinstance(fen, str) else []
    return parts[4] if len(parts) > 4 else ""
