"""Graph files are put together: what each rule says, that nothing is lost, and that a stop does no harm."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch.base import errors
from graphsearch.evaluators.factory import create
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.graph.sweeps.merge import merge
from graphsearch.graph.sweeps.reevaluate import reevaluate
from graphsearch.graph.sweeps.refresh import WRITING, refresh
from graphsearch.graph.view import view
from graphsearch.store.index import Sizes
from graphsearch.store.provenance import UNSETTLED, EvaluatorIdentity, Unfinished
from graphsearch.store.record import NodeRecord
from graphsearch.store.rewrite import Progress, compact
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.tables import games
from graphsearch.store.transposition_kernel import BOUND_AT, DEPTH_AT, EXACT, LOWER, PROOF, VALUE_BIAS
from graphsearch.store.union import better
from graphsearch.store.verify import verify

from ...conftest import ROOT, sql
from ...query.handmade import LINES, Edges, graph_file
from ...store.records import batch_of, by_identity, filled, held, identity, random_records, sized
from ...store.test_records import united, version
from ...support.forks import Fork
from ...support.graphs import searched
from .test_refresh import Stop, stopping

SMALL = Sizes(chunk_blocks=4, step_blocks=4, scan_blocks=3, vacuum_pages=1)
SMALLEST = replace(SMALL, step_blocks=1)


@cache
def ours() -> list[NodeRecord]:
    return random_records(71, 250)[:150]


@cache
def theirs() -> list[NodeRecord]:
    """Returns other versions of fifty of these records, and a hundred others."""
    some, rng = random_records(71, 250), random.Random(5)
    new = [version(r, rng) if r.codes else r for r in some[100:150]] + some[150:]
    return [replace(record, evaluator=1, run=0) for record in new]


@cache
def union() -> dict[tuple[int, ...], NodeRecord]:
    new = by_identity(theirs())
    return new | {key: united(r, new[key])[0] if key in new else r for key, r in by_identity(ours()).items()}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return filled(tmp_path / "a.graph", ours(), runs=3), filled(tmp_path / "b.graph", theirs(), runs=2)


def dump(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Returns the rows of all plain tables but those that tell how records are stored."""
    own = {"segment", "chunk", "block", "sqlite_sequence", "store_info"}
    names = {name for (name,) in sql(path, "SELECT name FROM sqlite_master WHERE type = 'table'")} - own
    return {name: sorted(sql(path, f"SELECT * FROM {name}"), key=repr) for name in names}


# ------------------------------------------------------------------ records
def test_a_new_file_holds_what_both_know(files: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = files
    before = [path.read_bytes() for path in files]
    report = merge([a, b], new=tmp_path / "c.graph", ram_bytes=0)
    assert held(tmp_path / "c.graph") == union()
    assert [path.read_bytes() for path in files] == before
    one, other = (each.counts for each in report.inputs)
    assert (one.records, one.fresh, other.records, other.fresh) == (150, 150, 150, 100)
    assert report.nodes == len(union()) == 250
    assert other.unchanged == sum(union()[identity(r)] == r for r in ours()[100:])
    sized(replace(SMALL, piece_blocks=1), merge, [b], into=a, ram_bytes=0)
    assert held(a) == union(), "into a file, in small parts"


def test_what_is_merged_twice_changes_nothing(files: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = files
    c = tmp_path / "c.graph"
    merge([a, b], new=c, ram_bytes=0)
    before = held(c), dump(c)
    for again in (a, b, shutil.copy(c, tmp_path / "copy.graph")):
        report = merge([Path(again), c], into=c, ram_bytes=0)
        assert report.written == 0
        assert report.refreshed is None
        assert not any(one.rows.get(name) for one in report.inputs for name in one.rows)
    assert (held(c), dump(c)) == before


def test_an_input_that_is_written_is_read_in_one_state(files: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = files
    written: list[Progress] = []

    def write(now: Progress) -> None:
        if not written:  # the inputs are open
            written.append(now)
            writer.append(batch_of([replace(r, v=0.0, d=0, edges=()) for r in theirs()[75:]]), fresh=0)

    with Store.open(b) as writer:
        merge([a, b], new=tmp_path / "c.graph", ram_bytes=0, on_progress=write)
    assert held(tmp_path / "c.graph") == union()


# ------------------------------------------------------------------ values and evaluators
def test_values_follow_what_was_merged(tmp_path: Path) -> None:
    more: dict[str, Edges | None] = {"e4": {"e5": (40, -0.15), "c5": (200, 0.5)}}
    a = graph_file(tmp_path / "a.graph", LINES)
    b = graph_file(tmp_path / "b.graph", more)
    assert merge([a, b], new=tmp_path / "c.graph").refreshed is not None
    found = {r.words[9]: r for r in held(tmp_path / "c.graph").values()}
    child = found[0x823C9B50FD114196]
    root = found[0x463B96181691FC9C]
    assert [edge.n for edge in child.edges] == [200, 40] or sorted(e.n for e in child.edges) == [40, 200]
    mean = sum(e.n * e.q for e in child.edges) / child.visits
    assert max(root.edges, key=lambda e: e.n).q == pytest.approx(-mean, abs=1e-3)
    with Store.open(tmp_path / "c.graph", read_only=True) as store:
        visits = {"463b96181691fc9c": root.visits, "823c9b50fd114196": child.visits}
        assert {r.key: r.visits for r in store.roots()} == visits
        assert store.read_fact(UNSETTLED) is None


def test_two_evaluators_are_refused_with_a_remedy(files: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = files
    identity = EvaluatorIdentity("other").as_json()
    sql(b, "UPDATE evaluator SET kind = 'other', identity = ?", identity)
    with pytest.raises(errors.EvaluatorMismatchError, match=r"uniform.*other.*reevaluate"):
        merge([a, b], new=tmp_path / "c.graph")
    assert not (tmp_path / "c.graph").exists()
    with Store.open(a) as store, store.transaction():
        store.mark_unfinished(Unfinished(store.evaluator_number))
    with pytest.raises(errors.UnfinishedError):
        merge([a, a], new=tmp_path / "d.graph")


def test_a_file_merged_into_itself_stays_as_it_is(files: tuple[Path, Path]) -> None:
    a = files[0]
    before = a.read_bytes()
    for paths in ([a], [a, a]):
        report = merge(paths, into=a)
        assert (report.inputs, report.nodes, report.complete) == ([], len(ours()), True)
    assert a.read_bytes() == before


def test_files_that_make_no_sense_are_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = files
    for paths, new, into in (([a], "c", None), ([], None, a), ([a, b], "a", None), ([a, b], None, None)):
        with pytest.raises(errors.InvalidParameterError):
            merge(paths, new=new and tmp_path / f"{new}.graph", into=into)
    with pytest.raises(errors.StoreError, match="does not exist"):
        merge([a, tmp_path / "no.graph"], new=tmp_path / "c.graph")
    with pytest.raises(errors.StoreError, match="make this folder first"):
        merge([a, b], new=tmp_path / "no" / "c.graph")


def test_a_disk_that_is_too_small_is_seen_before_anything_is_written(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(errors.StoreError, match="0 MiB free, merging may take"):
        merge(files, new=tmp_path / "c.graph", ram_bytes=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.graph", "b.graph"]
    merge(files, new=tmp_path / "c.graph", ram_bytes=0, force=True)


# ------------------------------------------------------------------ plain tables
def test_a_pgn_file_counts_once_and_others_are_added(tmp_path: Path) -> None:
    def file(name: str, *sources: str) -> Path:
        path = tmp_path / f"{name}.graph"
        with Store.open(path, create=True, unbound=True) as store, store.transaction():
            for source in sources:
                row = games.begin_source(store, "pgn", f"{source}.pgn", source * 64, {})
                key = f"{ord(source):016x}"
                positions = [("0" * 16, chess.STARTING_FEN, 0), (key, chess.STARTING_FEN, 1)]
                moves = [("0" * 16, "e2e4", "e4", 1, 0, 0, 0, 0), (key, "e7e5", "e5", 0, 2, 0, 0, 0)]
                games.add_games(store, positions, moves)
                games.update_source(store, row, taken=1, skipped=0, finished=True)
        return path

    def counts(path: Path) -> tuple[list[str], int, int]:
        with Store.open(path, read_only=True) as store:
            moves = games.counts(store, ["0" * 16])["0" * 16]
            names = sorted(s.name[0] for s in games.sources(store))
            return names, moves[0].results.white, len(dump(path)["game_move"])

    x, y, xy, yz = file("x", "x"), file("y", "y"), file("xy", "x", "y"), file("yz", "y", "z")
    merge([x, y], new=tmp_path / "1.graph")
    merge([xy, y], new=tmp_path / "2.graph")
    merge([y, xy], new=tmp_path / "3.graph")
    for k in (1, 2, 3):
        assert counts(tmp_path / f"{k}.graph") == (["x", "y"], 2, 3)
    report = merge([xy, yz], new=tmp_path / "4.graph")
    assert counts(tmp_path / "4.graph") == (["x", "y"], 2, 3)
    assert not report.complete
    assert "counts those of z.pgn together with those of y.pgn" in report.problems[0]
    again = merge([x], into=tmp_path / "1.graph")
    assert (again.complete, counts(tmp_path / "1.graph")) == (True, (["x", "y"], 2, 3))


def test_who_played_is_kept_as_far_as_a_file_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = tmp_path / "first.pgn", tmp_path / "second.pgn"
    first.write_text('[White "A"]\n[Black "B"]\n[Result "1-0"]\n\n1. e4 e5 1-0\n')
    second.write_text('[White "C"]\n[Event "E"]\n[Result "1-0"]\n\n1. d4 1-0\n\n[White "A"]\n\n1. c4 *\n')
    a, b, c = (tmp_path / f"{name}.graph" for name in "abc")
    for path, file, keeps in ((a, first, False), (b, first, True), (c, second, True)):
        import_files("pgn", path, [GivenFile(file.name)], players=keeps)
    merge([b, c], into=a)
    with Store.open(a, read_only=True) as store:
        found = {(row.name, row.games) for row in games.players(store)}
        played = store.connection.execute("SELECT white, black, event, file FROM played_games").fetchall()
    assert found == {("A", 2), ("B", 1), ("C", 1)}
    wanted = [("A", "B", None, "first.pgn"), ("C", None, "E", "second.pgn"), ("A", None, None, "second.pgn")]
    assert sorted(played, key=str) == sorted(wanted, key=str)
    before = dump(a)
    merge([c, b], into=a)
    assert dump(a) == before
    (tmp_path / "third.pgn").write_text("1. a4 *\n")
    import_files("pgn", b, [GivenFile("third.pgn")], players=True)
    assert len(merge([b], into=a).problems) == 1  # the games of third.pgn, not their rows once more


def _fill_tables(path: Path, name: str, searches: int, side: str = "white") -> None:
    """Enters a row or more into every table whose rows refer to others."""
    key, start = "00000000000000aa", chess.STARTING_FEN
    with Store.open(path) as store, store.transaction():

        def put(table: str, *values: object) -> None:
            execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

        execute, run = store.connection.execute, 0
        for k in range(searches):
            run = store.begin_run(start, {"visits": k}, {})
            if k < searches - 1:
                store.update_run(run, k, k, finished=True)
        execute("UPDATE run SET started = '2026-01-0' || id")
        # runs that agree in every column are one; the clock may go on between two stores
        execute("UPDATE run SET finished = started WHERE finished IS NOT NULL")
        put("root_history", key, run, 7, "2026-01-09", 0.5, 0.25, "e2e4", 9, "e2e4 e7e5")
        put("book", 7, "mine", side, name, "2026-01-01", f"2026-01-0{searches}")
        put("book_run", 5, 7, run, f"2026-01-0{run}", None, "", 0, 0, 0, 0, 0, None)
        put("book_root", 7, key, start, "root 1")
        put("book_position", 7, key, start, searches, "open", searches, 9, 0, None, None, None, 5)
        move, state = ("e2e4", ("done", "2026-02-01")) if name == "a" else ("d2d4", ("waiting", None))
        put("book_move", 7, key, move, "x", "00000000000000bb", "own", 0.5, 3, 0, 0, None, 0, 0, 5)
        queue = "book_queue (book, fen, moves, origin, added, state, changed)"
        put(queue, "mine", start, "e2e4", "", "2026-01-01", *state)
        entry_run = "entry_run (id, kind, started, fen, key, limits, evaluation, program)"
        put(entry_run, 3, "mate", f"2026-01-0{searches}", start, key, "{}", "", "1")
        put("entry_iteration", 9, 3, 1, -1, 1, 0, "exact", None, "", 5, 0, 0, 0, 0, 0.5)


def test_rows_keep_what_they_refer_to_under_new_numbers(tmp_path: Path) -> None:
    a, b = filled(tmp_path / "a.graph", ours()[:3]), filled(tmp_path / "b.graph", ours()[:3])
    _fill_tables(a, "a", 3)  # searched more: its book's position, with its move, counts
    _fill_tables(b, "b", 2)
    c = tmp_path / "c.graph"
    merge([b, a], new=c, ram_bytes=0)
    found = dump(c)
    assert verify(c).problems == []
    assert [row[1] for row in found["run"]] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert [(row[1], row[2]) for row in found["root_history"]] == [(2, 7), (3, 7)]
    assert [(row[1], row[3]) for row in found["book"]] == [("mine", "a")]
    assert {(row[1], row[2]) for row in found["book_run"]} == {(1, 2), (1, 3)}
    assert [(row[0], row[3], row[5]) for row in found["book_position"]] == [(1, 2, 3)]
    assert [row[2] for row in found["book_move"]] == ["e2e4"]
    assert [row[6] for row in found["book_queue"]] == ["done"]
    assert sorted(row[1] for row in found["entry_iteration"]) == sorted(row[0] for row in found["entry_run"])
    merge([a, b], new=tmp_path / "d.graph", ram_bytes=0)
    assert dump(tmp_path / "d.graph")["run"] == found["run"]


def test_a_book_of_the_other_side_is_left_out_and_named(tmp_path: Path) -> None:
    a, b = filled(tmp_path / "a.graph", ours()[:3]), filled(tmp_path / "b.graph", ours()[:3])
    _fill_tables(a, "a", 3)
    _fill_tables(b, "b", 2, side="black")
    report = merge([a, b], new=tmp_path / "c.graph", ram_bytes=0)
    assert any("side is 'black' here, 'white' there; left out" in line for line in report.problems)
    assert [row[2] for row in dump(tmp_path / "c.graph")["book"]] == ["white"]
    assert verify(tmp_path / "c.graph").problems == []


def test_of_two_transposition_entries_the_deeper_one_counts() -> None:
    def word(depth: int, bound: int, value: int) -> int:
        return value + VALUE_BIAS | depth << DEPTH_AT | bound << BOUND_AT

    def chosen(known: dict[int, int], new: dict[int, int]) -> dict[int, int]:
        pairs = ((np.array([*one], np.uint64), np.array([*one.values()], np.uint64)) for one in (known, new))
        return {int(key): int(data) for key, data in zip(*better(*pairs), strict=True)}

    ours = {1: word(5, EXACT, 10), 2: word(5, LOWER, 10), 3: word(PROOF, EXACT, 99_990), 4: word(2, EXACT, 1)}
    theirs = {1: word(4, EXACT, 20), 2: word(5, EXACT, 10), 3: word(PROOF, EXACT, 99_996)}
    theirs[5] = word(1, LOWER, 0)
    assert chosen(ours, theirs) == {key: theirs[key] for key in (2, 3, 5)}
    assert chosen(theirs, ours) == {key: ours[key] for key in (1, 4)}
    assert chosen(ours, ours) == {}


def test_the_golden_file_is_merged(tmp_path: Path) -> None:
    one, new = tmp_path / "1.graph", tmp_path / "new.graph"
    shutil.copy(ROOT / "tests/golden/format4.graph", one)
    report = merge([one, one], new=new, ram_bytes=0)
    assert all("book_history" in line for line in report.problems)  # its rows name a book that is not listed
    before, found = held(one), held(new)
    assert {key: r.visits for key, r in found.items()} == {key: r.visits for key, r in before.items()}
    for table in ("root", "game_move", "book_move", "polyglot_entry", "epd_position"):
        assert len(dump(new)[table]) == len(dump(one)[table])


# ------------------------------------------------------------------ damage and stops
def spoil(path: Path) -> None:
    sql(path, "UPDATE block SET data = zeroblob(99) WHERE id = (SELECT min(id) FROM block)")


def test_of_a_damaged_input_what_can_be_read_is_merged_and_the_rest_is_named(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    a, b = files
    spoil(b)
    report = merge([a, b], new=tmp_path / "c.graph", ram_bytes=0)
    assert [one.salvaged for one in report.inputs] == [False, True]
    assert any("block" in line and "b.graph" in line for line in report.problems)
    found = held(tmp_path / "c.graph")
    assert set(found) >= by_identity(ours()).keys()
    assert 150 < len(found) < 250
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.graph", "b.graph", "c.graph"]
    with pytest.raises(errors.CorruptRecordError, match=r"b\.graph"):
        merge([a], into=b, ram_bytes=0)


def test_an_input_of_which_sqlite_reads_no_block_is_named_and_the_rest_is_merged(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    a, b = files
    (root,), (size,) = (
        sql(b, f"SELECT * FROM {name}")[0]
        for name in ("(SELECT rootpage FROM sqlite_master WHERE name = 'block')", "pragma_page_size")
    )
    with b.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(bytes(size))
    report = merge([a, b], new=tmp_path / "c.graph", ram_bytes=0)
    assert [one.salvaged for one in report.inputs] == [False, True]
    assert any("block" in line and "b.graph" in line for line in report.problems)
    assert held(tmp_path / "c.graph") == by_identity(ours())


@pytest.mark.parametrize("stop", [1, 4])
def test_a_merge_may_stop_at_any_step_and_be_repeated(
    files: tuple[Path, Path], tmp_path: Path, stop: int
) -> None:
    a, b = files
    calls = iter(range(1, 1000))

    def stopping(_: Progress) -> None:
        if next(calls) == stop:
            raise Stop

    with pytest.raises(Stop):
        sized(SMALLEST, merge, [b], into=a, ram_bytes=0, on_progress=stopping)
    part = held(a)
    before = by_identity(ours())
    assert all(record in (union()[key], before.get(key)) for key, record in part.items())
    assert set(part) >= set(before)
    calls = iter([stop])
    with pytest.raises(Stop):
        merge([a, b], new=tmp_path / "c.graph", ram_bytes=0, on_progress=stopping)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.graph", "b.graph"]
    merge([b], into=a, ram_bytes=0)
    assert held(a) == union()


def test_a_killed_merge_leaves_a_sound_file_and_the_same_command_finishes_it(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    a, b = files
    rng = random.Random(8)
    before = b.read_bytes()
    for k in range(3):
        path = Path(shutil.copy(a, tmp_path / f"{k}.graph"))
        with Fork(lambda _, path=path: sized(SMALLEST, merge, [b], into=path, ram_bytes=0)):  # type: ignore[misc]
            time.sleep(rng.random() * 0.1)
        assert set(held(path)) >= set(by_identity(ours()))
        merge([b], into=path, ram_bytes=0)
        assert held(path) == union()
    assert b.read_bytes() == before


# ------------------------------------------------------------------ the tables of the largest positions
BELOW = ("", "e4", "d4", "Nf3 Nf6 g3", "g3 Nf6 Nf3", "e4 e5 Nf3")  # transpositions among them
TABLES = ("top_position", "top_edge")
Rows = list[tuple[Any, ...]]


@pytest.fixture(autouse=True)
def few_top_rows() -> None:
    """Leaves the tables as they are: these tests are about them."""


def search(path: Path, line: str = "", visits: int = 40) -> Path:
    return searched(path, chess.STARTING_FEN, line, visits=visits)


def tables(path: Path) -> dict[str, Rows]:
    return {name: sql(path, f"SELECT * FROM {name} ORDER BY 1, 2") for name in TABLES}


def by_records(path: Path, fens: list[str]) -> tuple[dict[str, tuple[Any, ...]], dict[tuple[str, str], int]]:
    """Returns N, Q and best move of positions, and N of their moves, as views of their records have them."""
    positions: dict[str, tuple[Any, ...]] = {}
    moves: dict[tuple[str, str], int] = {}
    with Store.open(path, read_only=True) as store:
        for fen in fens:
            node = view(store.read, chess.Board(fen), lines=0)  # no PVs: they take the longest
            assert node is not None
            key = node.key
            positions[key] = (node.visits, node.q, node.moves[0].move.uci() if node.moves else None)
            moves |= {(key, move.move.uci()): move.n for move in node.moves if move.n}
    return positions, moves


def check(path: Path) -> None:
    """Compares the tables with records: all as `verify` does, every tenth position by views of the graph."""
    assert verify(path).problems == []
    found = tables(path)
    rows = found["top_position"][::10]
    positions, moves = by_records(path, [row[1] for row in rows])
    assert {row[0]: (row[2], row[3], row[7]) for row in rows} == positions
    assert {(row[0], row[1]): row[3] for row in found["top_edge"] if row[0] in positions} == moves


def test_the_tables_follow_any_sequence_of_commands(tmp_path: Path) -> None:
    rng = random.Random(0)
    path, other = tmp_path / "a.graph", tmp_path / "b.graph"
    search(path)
    steps: list[Callable[[], object]] = [
        lambda: search(path, rng.choice(BELOW), rng.randrange(20, 60)),
        lambda: refresh(path, rng.choice((1e-6, 1e-3))),
        lambda: compact(path, min_visits=2),
        lambda: merge([search(other, rng.choice(BELOW))], into=path),
        lambda: stopped_refresh(path, rng.randrange(1, 4)),
    ]
    for step in rng.sample(steps, len(steps)):
        step()
        check(path)
    reevaluate(path, create("uniform"))
    check(path)


def stopped_refresh(path: Path, step: int) -> bool:
    """Refreshes a file; stops at the given step of writing, and returns True, if there is one."""
    with suppress(Stop):
        sized(
            Sizes(step_blocks=2, scan_blocks=2), refresh, path, 1e-6, on_progress=stopping(WRITING, step - 1)
        )
        return False
    return True


DIFFER = "it, or its moves, differ from its record"
CHANGES = {
    "UPDATE top_position SET n = n + 5 WHERE best_move IS NOT NULL": DIFFER,
    "UPDATE top_position SET q = -q, win = loss, loss = win": DIFFER,
    "UPDATE top_edge SET n = 1 WHERE n > 1": DIFFER,
    "DELETE FROM top_edge": DIFFER,
    "DELETE FROM top_position": "has no such position",
    "UPDATE top_position SET fen = '8/8/4k3/8/8/4K3/4P3/8 w - - 0 1'": DIFFER,
}


@pytest.mark.parametrize("statement", CHANGES)
def test_rows_that_say_something_else_are_named_and_mended(statement: str, tmp_path: Path) -> None:
    path = search(tmp_path / "a.graph")
    right = tables(path)
    sql(path, statement)
    found = [line for line in verify(path).problems if "table top_" in line]
    assert found
    assert all(CHANGES[statement] in line and "`graphsearch lab refresh` mends it" in line for line in found)
    assert not salvage(path, tmp_path / "new.graph").problems
    assert [line for line in verify(tmp_path / "new.graph").problems if "table top_" in line] == []
    refresh(path)
    check(path)
    assert tables(path) == right
