"""Forecast: predicts the size of file and memory from the bytes that a file's own records take now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from ...base.answer import Answer
from ...base.errors import StoreError
from ..codec.layout import BLOCK
from ..file import sql_errors
from ..index.catalog import KEPT_DICTIONARIES, Chunk
from ..record.node import RecordBatch
from ..record.node_layout import BLOCK_HEADER, CAPACITIES, HEADER_WORDS
from ..record.provenance import RunInfo
from ..segments import CHUNK_BLOCKS, Span, fetch_spans
from ..sharded.files import open_to_read
from ..store import Store

SIZES = (10**8, 10**9)
SAMPLE_BLOCKS = 1024  # some 32,000 records, from everywhere in the file
RELIABLE_FROM = CHUNK_BLOCKS * BLOCK  # nodes; smaller files have smaller chunks, and more overhead
DICTIONARY_RAM = 60_000  # bytes of a chunk's dictionaries, loaded
TABLE_BYTES = 11.0  # of the arena's hash table for a node: 9.4 to 12.7, as it grows
WORKING_SHARE = 0.05  # of the nodes: with less in memory, nearly every visit waits for the file


@dataclass(frozen=True, slots=True)
class FileFigures:
    """The current size of a file's records.

    Attributes:
      nodes: distinct records.
      superseded_share: older versions per distinct record.
      block_bytes, index_bytes, sqlite_bytes: per record: in its block; in keys, dictionaries and bloom
        filter; overhead of SQLite.
      ram_bytes: in the arena, per node.
      nodes_per_run, nodes_per_s: nodes added per search, and per second of the finished searches; None if
        unknown.
      sampled: number of records in the sample.
      reliable: whether the file is large enough for a forecast: at least 65,536 nodes.
    """

    nodes: int
    superseded_share: float
    block_bytes: float
    index_bytes: float
    sqlite_bytes: float
    ram_bytes: float
    nodes_per_run: float | None
    nodes_per_s: float | None
    sampled: int
    reliable: bool


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted size of a graph.

    Attributes:
      nodes: distinct records.
      file_bytes: the file with as large a share of superseded versions as now.
      file_bytes_compact: the file after `store compact`.
      ram_all_bytes: memory with the whole graph in it.
      ram_index_bytes: memory for the index of the file, which is always there.
      ram_least_bytes: the least useful memory: the index, and one node in twenty.
      seconds: time to get there from now at the file's own rate, None if unknown.
    """

    nodes: int
    file_bytes: int
    file_bytes_compact: int
    ram_all_bytes: int
    ram_index_bytes: int
    ram_least_bytes: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Forecast(Answer):
    """A file's figures and what follows from them."""

    file: FileFigures
    predictions: list[Prediction]


def forecast(path: str | os.PathLike[str], sizes: Sequence[int] = SIZES) -> Forecast:
    """Predicts the size of graphs of some numbers of nodes that grow as this file does; it is only read.

    Raises:
      StoreError: as `Store.open` for reading, or if the file has no nodes.
    """
    with open_to_read(path) as store:
        if not store.node_count:
            raise StoreError(f"{store.path} has no nodes to forecast from; search first")
        with sql_errors(store.path, "read it"), store.snapshot():
            figures = _figures(store)
    return Forecast(figures, [predict(figures, nodes) for nodes in sizes])


def predict(file: FileFigures, nodes: int) -> Prediction:
    """Returns the prediction for a graph of `nodes` nodes."""
    each = file.block_bytes + file.index_bytes + file.sqlite_bytes
    versions = nodes * (1 + file.superseded_share)
    chunks = versions / RELIABLE_FROM
    index = int(versions * file.index_bytes + min(chunks, KEPT_DICTIONARIES) * DICTIONARY_RAM)
    arena = nodes * file.ram_bytes
    seconds = max(nodes - file.nodes, 0) / file.nodes_per_s if file.nodes_per_s else None
    return Prediction(
        nodes,
        int(versions * each),
        int(nodes * each),
        int(arena) + index,
        index,
        int(WORKING_SHARE * arena) + index,
        seconds,
    )


def _figures(store: Store) -> FileFigures:
    stored = max(sum(part.catalog.records for part in store.parts), 1)
    batch, sampled_bytes = _sample(store)
    block_bytes = sampled_bytes / max(len(batch), 1)
    query = "SELECT sum(length(keys) + length(dictionary) + length(bloom)) FROM chunk"
    index = sum(int(part.connection.execute(query).fetchone()[0] or 0) for part in store.parts)
    rest = sum(map(_used_bytes, store.parts)) - index - block_bytes * stored
    runs = [run for run in store.runs() if run.kind == "search"]  # others add no nodes
    return FileFigures(
        nodes=store.node_count,
        superseded_share=max(stored / store.node_count - 1, 0.0),
        block_bytes=block_bytes,
        index_bytes=index / stored,
        sqlite_bytes=max(rest, 0.0) / stored,
        ram_bytes=float(arena_bytes(batch).mean()) + TABLE_BYTES,
        nodes_per_run=sum(run.evaluations for run in runs) / len(runs) if runs else None,
        nodes_per_s=nodes_per_s(runs),
        sampled=len(batch),
        reliable=store.node_count >= RELIABLE_FROM,
    )


def _sample(store: Store) -> tuple[RecordBatch, int]:
    """Returns the records of some blocks, evenly spread over all of them, and the bytes of these blocks."""
    batches, taken = [], 0
    for part, chunk, b in _places(store):
        fetched = fetch_spans(part.connection, part.catalog, [Span(chunk, b, b + 1)])
        batches.append(fetched.decode())
        taken += int(fetched.ends[-1])
    return RecordBatch.concat(batches), taken


def _places(store: Store) -> list[tuple[Store, Chunk, int]]:
    chunks = [
        (part, chunk) for part in store.parts for segment in part.catalog.segments for chunk in segment.chunks
    ]
    ends = np.cumsum([chunk.blocks - chunk.gone for _, chunk in chunks])
    total = int(ends[-1]) if chunks else 0
    found = []
    for place in np.unique(np.linspace(0, total - 1, min(total, SAMPLE_BLOCKS)).astype(np.int64)).tolist():
        c = int(np.searchsorted(ends, place, "right"))
        part, chunk = chunks[c]
        found.append((part, chunk, chunk.blocks - (int(ends[c]) - place)))
    return found


def _used_bytes(store: Store) -> int:
    """Returns the bytes of all pages in use, without those that every file has."""
    pages, free, size, tables = (
        int(store.connection.execute(query).fetchone()[0])
        for query in (
            "PRAGMA page_count",
            "PRAGMA freelist_count",
            "PRAGMA page_size",
            "SELECT count(*) FROM sqlite_master WHERE rootpage > 0",
        )
    )
    return (pages - free - tables - 2) * size  # 2: the first page, and that of pointers


def nodes_per_s(runs: Sequence[RunInfo]) -> float | None:
    """Returns the evaluations per second of finished searches; None if none has a duration above 0."""
    spans = [(run.evaluations, _seconds(run)) for run in runs if run.evaluations]
    timed = [(evaluations, seconds) for evaluations, seconds in spans if seconds > 0]
    return sum(n for n, _ in timed) / sum(s for _, s in timed) if timed else None


def _seconds(run: RunInfo) -> float:
    """Returns the duration of a search in seconds; 0 if it is unknown."""
    try:
        end = datetime.fromisoformat(run.finished or run.started)
        return max((end - datetime.fromisoformat(run.started)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0


def arena_bytes(batch: RecordBatch) -> NDArray[np.int64]:
    """Returns the bytes that each record takes in the arena, `[R]`, without the hash table.

    `store/record/node_layout.py` describes the layout: a header and P codes in words of 8 bytes, and a block
    of the smallest class with room for the visited edges; its entries are wider if one of them has r. A
    loaded graph takes exactly this; one that grows in memory leaves some 2 to 15 % of gaps.
    """
    codes, edges = np.diff(batch.code_offsets), np.diff(batch.edge_offsets)
    room = np.array([0, *CAPACITIES])[np.searchsorted(CAPACITIES, edges, "left") + (edges > 0)]
    owners = np.repeat(np.arange(len(batch)), edges)
    wide = np.bincount(owners[batch.r > 0], minlength=len(batch)) > 0
    block = np.where(edges > 0, 4 * (BLOCK_HEADER + room * (3 + wide)), 0)
    return np.asarray(8 * (HEADER_WORDS + (codes + 7) // 8) + block, np.int64)
