"""Fixed-depth searches and mate proofs in the file: their transposition entries, and their runs as rows.

Saves append entries as pieces, which are rewritten when their number has doubled. A piece belongs to one
evaluation, or contains proofs, which are valid under every evaluation. Of two entries of a position a proof
counts, else the newest. Values are thousandths of a pawn for the side to move, moves of runs UCI.

Call functions that write inside `Store.transaction`. `schema/entries.md` describes the bytes,
`schema/store.md` the tables.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, get_frame_parameters

from ..base.answer import Answer
from ..base.errors import CorruptRecordError
from ..base.version import __version__
from .file import sql_errors
from .provenance import fact_number, now, set_fact
from .store import Store
from .tables.rows import TABLES, fault_of_row, json_object, query, read_rows, rows, update_row, write_row
from .transposition_kernel import DEPTH_AT, DEPTH_MASK, PROOF, Words, bits_at, checks

# ------------------------------------------------------------------ the bytes of a piece
MOST_ENTRIES = 1 << 16  # of a piece
ENTRY_BYTES = 16  # before compression
LEVEL = 1  # zstd; only its entropy coding matters here, higher levels are slower and gain nothing


def encode(keys: Words, data: Words) -> bytes:
    """Returns the bytes of a piece: those of all entries at each place, steps from key to key first.

    Args:
      keys, data: entries as `distinct` returns them.
    """
    words = np.stack([np.diff(keys, prepend=np.uint64(0)), data], 1).astype("<u8")
    planes = words.view(np.uint8).reshape(-1, ENTRY_BYTES).T
    return ZstdCompressor(level=LEVEL).compress(planes.tobytes())


def decode(blob: bytes, entries: int) -> tuple[Words, Words]:
    """Returns the keys and data words of a piece of so many entries, in order.

    Raises:
      CorruptRecordError: if the bytes are not such a piece.
    """
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


def is_proof(data: Words) -> NDArray[np.bool_]:
    """Returns which entries are valid at every depth, and therefore under every evaluation."""
    return np.asarray(depths(data) == PROOF)


def depths(data: Words) -> NDArray[np.int64]:
    """Returns the depth of each entry."""
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
    with store.reading() as connection:
        pieces = list(query(connection, statement, (), *columns))
    found: dict[str, int] = {}
    for evaluation, entries, _ in pieces:
        found[evaluation] = found.get(evaluation, 0) + entries
    size = sum(row[2] for row in pieces)
    return EntryFacts(sum(found.values()), found.pop(PROOFS, 0), len(pieces), size, found)


def load(store: Store, evaluation: str = PROOFS) -> Loaded:
    """Returns the entries that are valid under an evaluation; by default only proven mates.

    Args:
      evaluation: the digest of the evaluation; the result always includes the proofs.

    Raises:
      StoreError: if the file cannot be read at all; a damaged piece is left out and reported in `problems`.
    """
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
        for evaluation, entries, checksum, blob in rows(
            store.connection, "entry_piece", columns, "WHERE id = ?", (number,)
        ):
            if _checksum(evaluation, blob) != checksum:
                raise CorruptRecordError("checksum")
            keys, data = decode(blob, entries)
            if evaluation == PROOFS and not is_proof(data).all():
                raise CorruptRecordError("not all of its entries are proofs")
            return keys, data
        raise CorruptRecordError("its row is not found by its number")  # a page of the table is damaged
    except (CorruptRecordError, sqlite3.DatabaseError) as error:
        report(f"{store.path}: piece {number} of the entries is damaged: {error}")
    return None


def sizes(store: Store, report: Report) -> dict[int, int]:
    """Returns the number of sound entries by piece; 0, after a report, for a damaged piece."""
    ids = store.connection.execute("SELECT id FROM entry_piece ORDER BY id").fetchall()
    return {number: len((_read(store, number, report) or [()])[0]) for (number,) in ids}


def append(store: Store, keys: Words, data: Words, evaluation: str) -> None:
    """Adds entries, which supersede earlier ones of their positions; rewrites all if there are many pieces.

    A rewrite deletes the entries of other evaluations.

    Args:
      keys, data: uint64[K] in any order.
      evaluation: the digest of the evaluation that computed their values.
    """
    proofs = is_proof(data)
    for of, chosen in ((PROOFS, proofs), (evaluation, ~proofs)):
        insert(store.connection, *distinct(keys[chosen], data[chosen]), of)
    count = store.connection.execute("SELECT count(*) FROM entry_piece").fetchone()[0]
    held = 0  # after the last rewrite, if its row is not damaged
    with suppress(CorruptRecordError):
        held = fact_number(store.connection, FACT)
    if count > FEW_PIECES + 2 * held:
        others = "DELETE FROM entry_piece WHERE evaluation NOT IN (?, ?)"
        store.connection.execute(others, (PROOFS, evaluation))
        rewrite(store)


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
    count = store.connection.execute("SELECT count(*) FROM entry_piece").fetchone()[0]
    set_fact(store.connection, FACT, str(count) if count else None)
    return list(dict.fromkeys(problems))


# ------------------------------------------------------------------ the runs
ALPHABETA, MATE = "alphabeta", "mate"  # kinds
HISTORY = "history"  # limit of a run: number of earlier positions that have occurred twice


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result so far of a run, or of one of its iterations.

    Attributes:
      depth: completed plies of full width; None for a mate proof.
      alpha, beta: the window; None for a mate proof.
      value: thousandths of a pawn for the side to move; None if nothing is known.
      bound: `exact`, `lower`, `upper`, or empty.
      best_move, pv: UCI, the line's moves separated by spaces.
      nodes, hits, stored_hits: as in `solvers.alphabeta.search.Counts`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome(Outcome):
    """An `Outcome` with the counts of `solvers.alphabeta.search.Counts` that only an iteration stores."""

    cutoffs: int = 0
    first_cutoffs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRun(Outcome, Answer):
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


_STEP_COLUMNS = tuple(TABLES["entry_iteration"].columns)[2:]  # without its id and its run
_RUN_COLUMNS = tuple(field.name for field in fields(Outcome))


def begin(store: Store, kind: str, fen: str, key: str, limits: Mapping[str, Any], evaluation: str) -> int:
    """Records a new run that starts now; returns its number.

    Args:
      kind: ALPHABETA or MATE. fen, key: the position, its key as `key_text` returns it.
      limits: the limits of the run, by name. evaluation: digest of the evaluation.
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


def update(store: Store, run: int, outcome: Outcome, *, finished: bool) -> None:
    """Records the result of a run so far, and its end if `finished`."""
    row = {name: getattr(outcome, name) for name in _RUN_COLUMNS}
    update_row(store.connection, "entry_run", run, row | ({"finished": now()} if finished else {}))


def add_iteration(store: Store, run: int, outcome: RunOutcome) -> None:
    """Records a complete iteration."""
    write_row(store.connection, "entry_iteration", {"run": run, **asdict(outcome)}, otherwise="ABORT")


def runs(store: Store) -> list[EntryRun]:
    """Returns all rows of `entry_run` of a file, oldest first.

    Raises:
      CorruptRecordError: if a row is damaged.
      StoreError: if the file cannot be read.
    """
    with store.reading() as connection:
        return read_rows(connection, "entry_run", EntryRun, "ORDER BY id", objects=("limits",))


def iterations(store: Store, fen: str, key: str, evaluation: str) -> dict[int, RunOutcome]:
    """Returns complete iterations for a position by depth: the last exact one of each, else the last one.

    Only runs with the same clock count, and with no earlier position that could occur a third time (HISTORY):
    their results hold whenever the position is the root again. Damaged rows are left out; `check` names them.

    Args:
      fen, key: the position, its key as `key_text` returns it. evaluation: digest of the evaluation.
    """
    columns = ", ".join(f"step.{name}" for name in _STEP_COLUMNS)
    with store.reading() as connection:
        found = connection.execute(
            f"SELECT entry_run.fen, entry_run.limits, {columns} FROM"  # noqa: S608 (constants)
            f" (SELECT * FROM entry_iteration WHERE {fault_of_row('entry_iteration')} IS NULL) AS step"
            " JOIN entry_run ON entry_run.id = step.run"
            " WHERE entry_run.key = ? AND entry_run.evaluation = ? ORDER BY step.bound = 'exact', step.id",
            (key, evaluation),
        ).fetchall()
    same = [row for its_fen, limits, *row in found if _clock(its_fen) == _clock(fen) and _is_free(limits)]
    steps = [dict(zip(_STEP_COLUMNS, row, strict=True)) for row in same]
    return {step["depth"]: RunOutcome(**step) for step in steps}


def _is_free(limits: object) -> bool:
    """Returns whether, by its stored limits, a run had no earlier position that could occur a third time."""
    found = json_object(limits)
    return found is not None and HISTORY not in found


def _clock(fen: object) -> str:
    """Returns the halfmove clock of a FEN, empty if it has none."""
    parts = fen.split() if isinstance(fen, str) else []
    return parts[4] if len(parts) > 4 else ""
