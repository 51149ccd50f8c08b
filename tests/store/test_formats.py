"""The descriptions of the formats against the code, and the golden file of format 1."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
from pathlib import Path

import chess

from graphsearch.position import pack
from graphsearch.record import MAX_CODE, MAX_MOVES
from graphsearch.store import Store, info, verify
from graphsearch.store.catalog import signed
from graphsearch.store.order import sort_keys

from .formats import SCHEMA, example
from .records import IDENTITY, contents, filled, identity, random_records

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "format1.graph"


def digest(store: Store) -> str:
    """Returns a hash over all live records, independent of how they are stored."""
    lines = []
    for record in contents(store).values():
        edges = [(edge.n, edge.r, edge.q.hex(), edge.d) for edge in record.edges]
        numbers = [record.v.hex(), record.d, record.evaluator, record.flags, record.codes.hex()]
        lines.append(json.dumps([list(record.words), numbers, edges]))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def test_the_golden_file_of_format_1_is_read_as_ever(tmp_path: Path) -> None:
    path = Path(shutil.copy(GOLDEN, tmp_path / "old.graph"))
    facts = json.loads(GOLDEN.with_suffix(".json").read_text())
    assert verify(path).problems == []
    assert info(path).nodes == facts["nodes"]
    assert [run.position for run in info(path).runs] == facts["runs"]
    with Store.open(path, read_only=True) as store:
        assert digest(store) == facts["sha256"]
        record = store.read(chess.Board())
        assert record is not None
        assert [record.v.hex(), record.visits] == facts["start"]


def test_the_golden_file_has_blocks_with_and_without_dictionaries() -> None:
    connection = sqlite3.connect(f"{GOLDEN.as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        sizes = [row[0] for row in connection.execute("SELECT length(dictionary) FROM chunk")]
    finally:
        connection.close()
    assert min(sizes) == 0
    assert max(sizes) > 500


def test_the_documented_sort_key_is_that_of_the_code() -> None:
    documented = int.from_bytes(example("segment.md")["sort_key"], "big")
    assert sort_keys(pack(chess.Board()).reshape(1, -1)).tolist() == [documented]


def test_every_table_and_column_is_documented(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.graph", random_records(1, 3))
    connection = sqlite3.connect(path)
    try:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        columns = {t: [row[1] for row in connection.execute(f"PRAGMA table_info({t})")] for t in tables}
    finally:
        connection.close()
    pages = (SCHEMA / "store.md").read_text() + (SCHEMA / "segment.md").read_text()
    for table in set(tables) - {"sqlite_sequence"}:
        assert re.search(rf"\b{table}\b", pages), table
        missing = [name for name in columns[table] if not re.search(rf"\b{name}\b", pages)]
        assert not missing, (table, missing)


def test_the_documented_ranges_are_those_of_the_code() -> None:
    page = (SCHEMA / "node_record.md").read_text()
    assert f"in 1..{MAX_CODE}." in page
    assert f"| 0..{MAX_MOVES} |" in page


def test_every_description_has_a_stability_section() -> None:
    assert all("## Stability" in page.read_text() for page in SCHEMA.glob("*.md"))


def test_unsigned_words_keep_their_bits_in_sqlite() -> None:
    assert [signed(x) & ((1 << 64) - 1) for x in (0, 1 << 63, (1 << 64) - 1)] == [0, 1 << 63, (1 << 64) - 1]


def make_golden() -> None:
    """Writes the golden file; run it only for a new format."""
    import random

    from graphsearch.store import compression

    from .records import batch_of, record_of

    compression.TRAINED_FROM = 8  # small enough to keep
    GOLDEN.unlink(missing_ok=True)
    start_record = record_of(chess.Board(), random.Random(1))
    records = [r for r in random_records(1, 320) if identity(r) != identity(start_record)]
    records.append(start_record)
    filled(GOLDEN, records)
    with Store.open(GOLDEN) as store:
        store.finish_run(store.begin_run(chess.STARTING_FEN, {"visits": 7}, {"cpuct": 1.745}), 7, 6)
        store.append(batch_of(records[::7]), fresh=0)
        start = store.read(chess.Board())
        assert start is not None
        facts = {
            "nodes": store.node_count,
            "runs": [chess.STARTING_FEN],
            "sha256": digest(store),
            "start": [start.v.hex(), start.visits],
        }
    connection = sqlite3.connect(GOLDEN, isolation_level=None)
    for statement in ("journal_mode = DELETE", "page_size = 4096"):  # small enough to keep
        connection.execute(f"PRAGMA {statement}")
    connection.execute("VACUUM")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    GOLDEN.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")
    assert info(GOLDEN).evaluator == IDENTITY
