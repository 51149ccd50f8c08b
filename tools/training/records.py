"""The file format of labelled positions, shared by the tools that make, label and learn from them.

A set is a folder of shards. A shard is `NAME.positions`, an array of `RECORD`, and beside it `NAME.moves`,
int16: the concatenated move values of the records that have them, for each record in canonical order.

Scores are in 1/361 of a pawn (the unit of Stockfish's networks), seen by the side to move. Mates are beyond
MATED.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphsearch.position.board import POSITION_WORDS

RECORD = np.dtype(
    [
        ("words", "<u8", 9),  # the packed position without its key
        ("score", "<i2"),
        ("ply", "<u2"),  # of the game; an engine's winning chances depend on it
        ("win", "<u2"),  # per mille, by an engine; UNKNOWN: only the score is known
        ("loss", "<u2"),
        ("best", "<u2"),  # the engine's move, 0 if only values of the moves are known
        ("moves", "<u2"),  # number of move values of the record: 0 or all
        ("kind", "<u2"),  # IN_CHECK, PLAYED
        ("spare", "<u2"),
    ]
)
UNKNOWN = 0xFFFF
IN_CHECK, PLAYED = 1, 2  # PLAYED: a position of the game itself, not a child of one
MATED, MOST_SCORE = 30_000, 20_000
PAWN = 361
SUFFIX, MOVES_SUFFIX = ".positions", ".moves"
SEARCHED = 1.4  # ratio of Stockfish's score at 300,000 nodes to a label's score, in open positions
OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": True}

Records = NDArray[Any]
Values = NDArray[np.int16]


def write_shard(path: Path, records: Records, values: Values) -> None:
    """Writes a shard; `path` must end in `.positions`."""
    if int(records["moves"].astype(np.int64).sum()) != len(values):
        raise ValueError(f"{path}: {len(values)} values for {int(records['moves'].sum())} moves")
    values.astype("<i2").tofile(path.with_suffix(MOVES_SUFFIX))
    records.tofile(path)


def read_shard(path: Path) -> tuple[Records, Values]:
    """Returns a shard's records and the values of their moves."""
    values = path.with_suffix(MOVES_SUFFIX)
    return np.fromfile(path, RECORD), np.fromfile(values, "<i2") if values.exists() else np.zeros(0, np.int16)


def shards_of(folders: Sequence[Path]) -> list[Path]:
    """Returns the shards of some folders, in order.

    Raises:
      FileNotFoundError: if a folder has no shards.
    """
    found = []
    for folder in folders:
        shards = sorted(folder.glob(f"*{SUFFIX}"))
        if not shards:
            raise FileNotFoundError(f"{folder} holds no positions")
        found += shards
    return found


def read_sets(folders: Sequence[Path]) -> tuple[Records, Values]:
    """Returns all records of some sets, and the values of their moves."""
    parts = [read_shard(path) for path in shards_of(folders)]
    return np.concatenate([records for records, _ in parts]), np.concatenate([values for _, values in parts])


def hashes(folders: Sequence[Path]) -> Iterator[tuple[str, int, str]]:
    """Yields each folder's name, its number of positions and the SHA-256 of its shards."""
    for folder in folders:
        digest, count = hashlib.sha256(), 0
        for path in shards_of([folder]):
            data = path.read_bytes()
            digest.update(data)
            count += len(data) // RECORD.itemsize
        yield folder.name, count, digest.hexdigest()


def described(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Returns what a card says of the sets in some folders."""
    return [{"name": n, "positions": c, "sha256": d} for n, c, d in hashes(folders)]


def thinned(records: Records, values: Values, chosen: NDArray[np.bool_]) -> tuple[Records, Values]:
    """Returns some records and the values of their moves."""
    return records[chosen], values[np.repeat(chosen, records["moves"])]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def load_words(record: Any, words: Any) -> None:
    """Copies a record's position to uint64[10]."""
    for j in range(9):
        words[j] = record["words"][j]


def words_of(records: Records) -> NDArray[np.uint64]:
    """Returns the positions of records, without keys: uint64[len(records), POSITION_WORDS]."""
    words = np.zeros((len(records), POSITION_WORDS), np.uint64)
    words[:, : records["words"].shape[1]] = records["words"]
    return words


# ------------------------------------------------------------------ chances, by the model of Stockfish 15.1
@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def sigmoid(x: Any) -> Any:
    """Returns the logistic function."""
    return 1.0 / (1.0 + np.exp(-min(max(x, -40.0), 40.0)))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def engine_chances(score: Any, ply: Any) -> Any:
    """Returns Stockfish 15.1's chances of winning and losing for a score in 1/361 of a pawn at a ply."""
    m = min(240, ply) / 64.0
    a = ((-0.58270499 * m + 2.68512549) * m + 15.24638015) * m + 344.49745382
    b = ((-2.65734562 * m + 15.96509799) * m - 20.69040836) * m + 73.61029937
    return sigmoid((score - a) / b), sigmoid((-score - a) / b)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def chances_of_label(score: Any, ply: Any) -> Any:
    """Returns the chances of a label: those of SEARCHED times its score."""
    return engine_chances(SEARCHED * score, ply)
