"""The descriptions of the formats against the code: the golden file, and a reader made from schema/ alone."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsearch import Graph, Limits, analyze
from graphsearch.position.board import MAX_MOVES, board_of, key_of, legal_moves, pack, unpack
from graphsearch.store import entries, file, index, index_kernel, provenance, ranking
from graphsearch.store.info import info
from graphsearch.store.record import NodeRecord, keys_of, sort_keys
from graphsearch.store.record_kernel import CODE
from graphsearch.store.store import Store
from graphsearch.store.tables import games, history
from graphsearch.store.verify import verify

from ..conftest import ROOT, sql
from ..support.positions import after_line
from . import independent_reader as reader
from . import records as made

SCHEMA = ROOT / "schema"
FOLDER = ROOT / "tests" / "golden"
GOLDEN = FOLDER / f"format{file.FORMAT_VERSION}.graph"
FACTS: dict[str, Any] = json.loads(GOLDEN.with_suffix(".json").read_text())
START = "463b96181691fc9c"  # key of the start position
EVALUATION = "ab" * 32
OTHER = provenance.EvaluatorIdentity("net", "1a2b3c4d", {"PolicyTemperature": 1.5}, "wdl")


def example(name: str) -> dict[str, bytes]:
    """Returns the hex blocks of a description by title: lines ```` ```hex title ```` up to the next fence."""
    text = (SCHEMA / name).read_text("utf-8")
    found = {
        title: bytes.fromhex("".join(line.split("#")[0] for line in body.splitlines()))
        for title, body in re.findall(r"```hex (\w+)\n(.*?)```", text, re.DOTALL)
    }
    assert found, f"{name} has no worked example"
    return found


def digest(store: Store) -> str:
    """Returns a hash over all live records, however they are stored."""
    lines = []
    for record in made.contents(store).values():
        edges = [(edge.n, edge.r, edge.q.hex(), edge.d) for edge in record.edges]
        numbers = [record.v.hex(), record.d, record.evaluator, record.flags, record.codes.hex(), record.run]
        lines.append(json.dumps([list(record.words), numbers, edges]))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def test_the_golden_file_is_read_as_ever(tmp_path: Path) -> None:
    path = Path(shutil.copy(GOLDEN, tmp_path / "a.graph"))
    assert verify(path).problems == []
    assert info(path).format_version == file.FORMAT_VERSION
    with Store.open(path, read_only=True) as store:
        assert facts_of(store) == FACTS
        assert store.evaluators() == {1: made.IDENTITY, 2: OTHER}
        start = games.counts(store, [START])[START]
        assert [(m.san, m.results.white, m.results.games) for m in start] == [("e4", 2, 3), ("d4", 0, 1)]
        assert games.entries_of(store, 2, START) == [(0, 0x31C)]
    assert path.read_bytes() == GOLDEN.read_bytes()
    assert min(FACTS["records_by_run"].values()) > 0, "it has something in every part"
    assert all(FACTS[part] for part in ("history", "imported", "entries", "players"))
    sizes = [size for (size,) in sql(path, "SELECT length(dictionary) FROM chunk")]
    assert min(sizes) == 0, "blocks without dictionaries"
    assert max(sizes) > 500


def facts_of(store: Store) -> dict[str, Any]:
    start = store.read(chess.Board())
    assert start is not None
    found = made.contents(store).values()
    facts = {
        "nodes": store.node_count,
        "runs": [run.position for run in store.runs()],
        "kinds": [[run.kind, run.evaluator] for run in store.runs()],
        "records_by_run": {str(run): sum(r.run == run for r in found) for run in range(5)},
        "sha256": digest(store),
        "start": [start.v.hex(), start.visits],
        "imported": games.imported(store).as_dict(),
        "entries": entries_in(store),
        "players": played_in(store),
        "history": [[row.run, row.n, row.q, row.best_move] for row in history.of_root(store, START)],
    }
    return cast(dict[str, Any], json.loads(json.dumps(facts)))


def entries_in(store: Store) -> dict[str, object]:
    """Returns entries of two evaluations, proofs and two runs."""
    held = entries.load(store, EVALUATION)
    return {
        "words": [held.keys.tolist(), held.data.tolist()],
        "runs": [[run.kind, run.value] for run in entries.runs(store)],
    }


def played_in(store: Store) -> list[list[object]]:
    """Returns players, their games, and the history of the start position in books and by its lines."""
    found = games.players(store)
    played: list[object] = [
        row._asdict() | {"moves": row.moves.hex(), "keys": row.keys.hex()}
        for row in games.games_of(store, [p.id for p in found])
    ]
    lines: list[object] = [[row.depth, *(row.pv or "").split()] for row in history.of_root(store, START)]
    books = [[row.book, row.value, *(row.pv or "").split()] for row in history.of_books(store, START)]
    return [[asdict(row) for row in found], played, [*(lines if found else []), *books]]


def test_the_documented_numbers_are_those_of_the_code() -> None:
    documented = int.from_bytes(example("segment.md")["sort_key"], "big")
    assert sort_keys(pack(chess.Board()).reshape(1, -1)).tolist() == [documented]
    page = (SCHEMA / "node_record.md").read_text()
    assert f"in 1..{CODE}." in page
    assert f"| 0..{MAX_MOVES} |" in page
    assert all("## Stability" in page.read_text() for page in SCHEMA.glob("*.md"))


def test_every_table_view_and_column_is_documented(tmp_path: Path) -> None:
    path = made.filled(tmp_path / "a.graph", made.random_records(71, 3))
    tables = [name for (name,) in sql(path, "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")]
    columns = {table: [row[1] for row in sql(path, f"PRAGMA table_info({table})")] for table in tables}
    pages = (SCHEMA / "store.md").read_text() + (SCHEMA / "segment.md").read_text()
    for table in set(tables) - {"sqlite_sequence"}:
        assert re.search(rf"\b{table}\b", pages), table
        missing = [name for name in columns[table] if not re.search(rf"\b{name}\b", section(pages, table))]
        assert not missing, (table, missing)


def section(pages: str, name: str) -> str:
    """Returns what the pages say under the heading of a view, all of them for a table."""
    found = re.search(rf"^### {name}\n(.*?)(?=^##)", pages, re.MULTILINE | re.DOTALL)
    return found[1] if found else pages


def import_into(store: Store) -> None:
    """Fills the tables of imports as three small files would."""
    board = chess.Board()
    position = (START, board.fen(), 0)
    moves = [(START, "e2e4", "e4", 2, 1, 0, 0, 1), (START, "d2d4", "d4", 0, 0, 1, 0, 0)]
    with store.transaction():
        rows = [games.begin_source(store, kind, f"a.{kind}", "00", {}) for kind in ("pgn", "polyglot", "epd")]
        games.add_games(store, [position], moves)
        games.add_entries(store, [(START, "e2e4", rows[1].id, 0, 0x31C, 7, 0)])
        games.name_entries(store, [(board.fen(), "e2e4", "e4", START, rows[1].id, 0)])
        games.add_epd(store, [(rows[2].id, 1, START, board.fen(), '{"bm": ["e2e4"]}')])
        for row, taken in zip(rows, (4, 1, 1), strict=True):
            kept = taken if row.kind == "pgn" else None
            finished = row.kind != "epd"
            games.update_source(store, row, taken=taken, skipped=0, finished=finished, players=kept)
        games.add(store, rows[0].id, [played("Ann", "Bob", 1), played("Bob", None, 2, date="2024-03-15")])


def played(white: str | None, black: str | None, number: int, *, date: str | None = None) -> games.GameRow:
    players = (white, black, 2700, None, date, "Cup", "", "1")
    return games.GameRow(0, number, 90 * number, 88, *players, "1-0", "C20", None, b"\x12\x00")


def enter_into(store: Store) -> None:
    """Writes entries of two evaluations, proofs and two runs."""
    rng = np.random.default_rng(4)
    keys, data = (rng.integers(1, 1 << 64, 300, dtype=np.uint64) for _ in range(2))
    data[:20] |= np.uint64(127 << 34)
    with store.transaction():
        entries.append(store, keys[:200], data[:200] ^ np.uint64(1), EVALUATION)
        entries.append(store, keys, data, EVALUATION)
        entries.append(store, keys[:9], data[:9], "cd" * 32)
        found = entries.RunOutcome(
            depth=3, alpha=-200000, beta=200000, value=31, bound="exact", pv="e2e4", nodes=9
        )
        for kind in (entries.ALPHABETA, "mate"):
            run = entries.begin(store, kind, chess.STARTING_FEN, START, {"depth": 3}, EVALUATION)
            entries.add_iteration(store, run, found)
            entries.update(store, run, found, finished=True)


def make_golden() -> None:
    """Writes the golden file; run it only for a new format."""
    import random

    from graphsearch.store import block

    block.TRAINED_FROM = 8  # small enough to keep
    GOLDEN.unlink(missing_ok=True)
    start_record = made.record_of(chess.Board(), random.Random(1))
    records = [r for r in made.random_records(71, 320) if made.identity(r) != made.identity(start_record)]
    records = [replace(r, run=(k // 3) % 4) for k, r in enumerate([*records, start_record])]
    made.filled(GOLDEN, records)
    with Store.open(GOLDEN) as store:
        for k in range(3):
            run = store.begin_run(chess.STARTING_FEN, {"visits": 7}, {"cpuct": 1.745})
            store.update_run(run, 7 + k, 6, finished=True)
            line: dict[str, Any] = {"best_move": "e2e4", "pv": "e2e4 e7e5"}
            root = history.RootValues(key=START, n=8 + 7 * k, q=k / 8, draw=0.5, depth=k, **line)
            history.write(store, run, root)
            book = history.BookValues(key=START, searched=k, positions=2 * k, value=k / 4, n=8, **line)
            history.write(store, run, book, 1)
        other = store.add_evaluator(OTHER)
        store.update_run(
            store.begin_run("", {}, {}, kind="reevaluate", evaluator=other), 0, 46, finished=True
        )
        store.append(made.batch_of([replace(r, run=4, evaluator=other) for r in records[::7]]), fresh=0)
        import_into(store)
        enter_into(store)
        facts = facts_of(store)
    connection = sqlite3.connect(GOLDEN, isolation_level=None)
    for statement in ("journal_mode = DELETE", "page_size = 4096"):  # small enough to keep
        connection.execute(f"PRAGMA {statement}")
    connection.execute("VACUUM")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    GOLDEN.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")
    assert info(GOLDEN).evaluator == made.IDENTITY


# ------------------------------------------------------------------ a reader written from the schema alone
def check_equal(own: NodeRecord, read: reader.Record) -> None:
    """Holds what the second reader says of a position to what this program says."""
    assert own.words == read.words
    assert (own.v, own.d, own.evaluator, own.flags, own.run) == (
        read.v, read.draws, read.evaluator, read.flags, read.run,
    )  # fmt: skip
    assert own.codes == read.codes
    assert [(e.n, e.r, e.q, e.d) for e in own.edges] == [(e.n, e.r, e.q, e.draws) for e in read.edges]
    assert (own.bounds, ranking.node_mean(own)[0], own.visits) == (read.bounds, read.q, read.n)
    assert key_of(unpack(own.words)) == read.key
    moves = legal_moves(unpack(own.words))
    assert [moves[k].uci() for k in own.order[: len(own.edges)]] == [edge.move for edge in read.edges]
    assert [own.priors[k] for k in own.order[: len(own.edges)]] == [edge.p for edge in read.edges]


def check_file(path: Path) -> int:
    """Compares what both readers say of all records of a file; returns how many there are."""
    own, found = list(made.held(path).values()), reader.read_records(path)
    by_words = {record.words: record for record in found.values()}
    assert len(own) == len(found)
    for record in own:
        check_equal(record, by_words[record.words])
    words = made.words_of(own)
    assert keys_of(words).tolist() == [by_words[record.words].key for record in own]
    assert sort_keys(words).tolist() == [reader.sort_key(record.words) for record in own]
    return len(own)


def test_a_reader_from_the_schema_reads_the_golden_file(tmp_path: Path) -> None:
    path = Path(shutil.copy(GOLDEN, tmp_path / "a.graph"))
    assert check_file(path) == FACTS["nodes"]
    keys, data = FACTS["entries"]["words"]
    found = reader.read_entries(path, EVALUATION)
    assert sorted(found.values()) == sorted(data)
    assert sorted(key for key, _ in found) == sorted(keys)
    assert all(word >> 48 == check for (_, check), word in found.items())


@pytest.mark.parametrize(
    "fen",
    [
        "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 74 90",  # children of several clocks
        "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9",
        "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
    ],
)
def test_it_reads_what_a_search_has_just_written(fen: str, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, board_of(fen), Limits(visits=200))
    assert check_file(path) > 100


def test_the_hashes_of_the_examples_are_those_of_the_pages() -> None:
    start = reader.START_WORDS
    assert reader.check_hash((*start, 15 << 1)) & 0xFFFF == 0xF47F
    moved = after_line("e4")
    pawns, white = int(moved.pawns), int(moved.occupied_co[chess.WHITE])
    assert reader.check_hash((pawns, *start[1:6], white, start[7], 1 | 15 << 1)) & 0xFFFF == 0xC5A6
    page = (ROOT / "schema" / "node_record.md").read_text(encoding="utf-8")
    assert f"term(76) is `{reader.clock_term(76):016x}`" in page
    assert reader.clock_term(75) == 0


def test_the_reader_imports_nothing_of_this_program() -> None:
    assert "graphsearch" not in Path(reader.__file__).read_text(encoding="utf-8")


# ------------------------------------------------------------------ order and filters
@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=300))
def test_a_bloom_filter_holds_what_was_added(keys: list[int]) -> None:
    bloom = index.bloom_of(np.array(keys, np.uint64))
    others = np.random.default_rng(len(keys)).integers(0, 1 << 64, 200, np.uint64)
    asked = np.append(np.array(keys, np.uint64), others)
    found = np.zeros(len(asked), bool)
    index_kernel.find_held(bloom, asked, found)
    assert found.tolist() == [reader.may_hold(bloom.tobytes(), key) for key in asked.tolist()]
    assert found[: len(keys)].all()
    assert len(keys) < 20 or found[len(keys) :].sum() < 30, "few others pass"


@pytest.mark.parametrize("runs", [1, 6])
def test_a_filter_knows_every_record_and_says_what_single_reads_say(tmp_path: Path, runs: int) -> None:
    records = made.random_records(71, 600)
    path = made.filled(tmp_path / "a.graph", records[:400], runs=runs, sizes=index.Sizes(chunk_blocks=2))
    words = made.words_of(records)
    with Store.open(path, read_only=True) as store, store.reader() as own:
        arrays = own.filter()
        found = made.stored_each(arrays, words).tolist()
        assert found[:400] == [True] * 400
        assert found == store.may_hold(words, keys_of(words)).tolist()
        assert sum(found[400:]) < 40
        assert all(array.flags.writeable and array.flags.c_contiguous for array in arrays.arrays())
        assert (len(arrays.segments) - 1, len(arrays.blooms)) == (runs, len(arrays.firsts))
