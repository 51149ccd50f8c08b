"""What the program does with the folder of a cluster that may hold anything.

An input is the lengths of the manifest and of two shards' files, and those behind them; length 0: no file.
"""

from __future__ import annotations

import json
import random
import sqlite3
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import chess

from graphsearch.base.errors import CorruptRecordError, GraphSearchError
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.search.job import SearchJob
from graphsearch.search.params import Limits, SearchParams
from graphsearch.search.shards import attempt, master
from graphsearch.search.shards.parting import split
from graphsearch.store.sharded.manifest import FACT, NAME
from graphsearch.store.sharded.saved_waves import FACT as SAVES
from graphsearch.store.upkeep.verify import verify

from ..support.clusters import ThreadLauncher, search_shards
from . import commands, damage, texts
from .files import DisagreementError
from .graphfile import repaged
from .mutators import json_values, mutated

FILES = (NAME, "shard-000.graph", "shard-001.graph")
LENGTHS = struct.Struct("<3Q")
RAM = 64_000_000
COMMANDS = (
    ("store", "merge", "{}", "-o", "one.graph", "--force"),
    ("lab", "mend", "{}"),
    ("store", "info", "{}"),
    ("show", "startpos", "--store", "{}"),
    ("find", "--min-visits", "2", "--store", "{}"),
    ("history", "{}"),
)
SOME = 2  # of the commands, for each input


def packed(files: list[bytes]) -> bytes:
    """Returns an input."""
    return LENGTHS.pack(*map(len, files)) + b"".join(files)


def unpacked(data: bytes) -> list[bytes]:
    """Returns the files of an input."""
    data = data.ljust(LENGTHS.size, b"\0")
    found, at = [], LENGTHS.size
    for length in LENGTHS.unpack_from(data):
        found.append(data[at : at + length])
        at += length
    return found


# ------------------------------------------------------------------ sound clusters
def seeds(folder: Path) -> list[bytes]:
    """Returns a cluster that was searched, and one of which a file is a save behind."""
    one, cluster = folder / "one.graph", folder / "a.cluster"
    made = commands.run("analyze", "startpos", "--visits", 60, "--evaluator", "uniform", "--store", one)
    assert made.code == 0, made.err
    split(one, cluster, shards=2)
    _search(cluster, run=2, save=0)
    first = _files(cluster)
    _search(cluster, run=3, save=1)
    second = _files(cluster)
    return [packed(second), packed([*second[:2], first[2]])]


def _search(cluster: Path, *, run: int, save: int) -> None:
    limits = Limits(visits=60)
    search_shards(
        cluster, "uniform", chess.Board(), 2, limits, run=run, save=save, ram_bytes=RAM, minibatch_size=16
    )


def _files(cluster: Path) -> list[bytes]:
    return [(cluster / NAME).read_bytes(), *(repaged(cluster / name) for name in FILES[1:])]


# ------------------------------------------------------------------ damage
def mutate(given: list[bytes], rng: random.Random) -> bytes:
    """Damages the manifest, a file, or what makes them belong together."""
    files = unpacked(rng.choice(given))
    what, at = rng.randrange(8), rng.choice((1, 2))
    if what == 0:
        files[0] = texts.json_words([files[0]], rng)
    elif what == 1:
        files[rng.randrange(3)] = b""
    elif what == 2:
        files[at] = files[3 - at]
    elif what in (3, 4):
        files[at] = damage.edited(files[at], lambda connection: _change_facts(connection, rng))
    else:
        change = rng.choice((damage.blocks, damage.rows, damage.schema, damage.pages))
        with suppress(CorruptRecordError):  # a segment without records has no blocks to damage
            files[at] = change(files[at], rng)
    return packed(files)


def _change_facts(connection: sqlite3.Connection, rng: random.Random) -> None:
    """Changes what a file says of its cluster, or of its saves."""
    name = rng.choice((FACT, SAVES, SAVES))
    row = connection.execute("SELECT value FROM store_info WHERE name = ?", (name,)).fetchone()
    text = bytes(row[0]) if row else b"[]"
    found = json.loads(text)
    text = json_values([text], rng) if rng.random() < 0.7 and found else mutated(text, rng)
    connection.execute("UPDATE store_info SET value = CAST(? AS TEXT) WHERE name = ?", (text, name))


# ------------------------------------------------------------------ what is done with it
def exercise(data: bytes, folder: Path) -> bool:
    """Checks, reads, merges, mends and searches a cluster; returns whether it was found sound."""
    cluster = folder / "a.cluster"
    cluster.mkdir()
    for name, content in zip(FILES, unpacked(data), strict=True):
        if content:
            (cluster / name).write_bytes(content)
    is_sound = _is_sound(cluster)
    rng = random.Random(zlib.crc32(data))
    for line in rng.sample(COMMANDS, SOME):
        commands.run(
            *(str(cluster) if w == "{}" else str(folder / w) if w[:4] == "one." else w for w in line)
        )
    _search_on(cluster)
    if is_sound and not (after := verify(cluster)).ok:
        raise DisagreementError(f"sound before the commands, not after them: {after.problems[:2]}")
    return is_sound


def _is_sound(cluster: Path) -> bool:
    try:
        return verify(cluster).ok
    except GraphSearchError:
        return False


def _search_on(cluster: Path) -> None:
    """Searches with shards in threads; what it refuses it refuses in one line."""
    params, uniform = SearchParams(overlap=0, minibatch_size=8), EvaluatorSpec(evaluator="uniform")
    with (
        suppress(GraphSearchError),
        patch.object(master, "launcher_for", lambda *_, **__: ThreadLauncher()),
        patch.object(attempt, "ShardProcess", lambda launcher, setting: launcher.start(setting)),
    ):
        job = SearchJob(board=chess.Board(), limits=Limits(visits=8), params=params)
        master.analyze(cluster, job, evaluator=uniform, ram_bytes=RAM)
