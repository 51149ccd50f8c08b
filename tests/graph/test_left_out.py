"""One record that cannot be written keeps no other from being written, and is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch.base.errors import StoreError
from graphsearch.graph.arena import Arena
from graphsearch.position.board import MAX_MOVES, pack
from graphsearch.store.block import unfit as unfit_places
from graphsearch.store.record import NodeRecord, RecordBatch
from graphsearch.store.store import Store
from graphsearch.store.verify import verify
from tests.conftest import Cli
from tests.store.records import IDENTITY, Records, batch_of, contents, decode_blocks, plain_blocks
from tests.uci.engines import Played

RECORDS = Records(71, 200)
UNFIT = "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 1"
BAD = chess.Board(UNFIT)
FOUND = f"a record cannot be written and is lost: {UNFIT}"


def unfit(record: NodeRecord) -> NodeRecord:
    return replace(record, d=60_000)


def make_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the record of 1. e4 e5 one that the format has no place for, as it leaves memory."""
    before = Arena.copy_out
    men = pack(BAD)[:8]

    def copy_out(arena: Arena, slots: Any, words: Any) -> RecordBatch:
        batch = before(arena, slots, words)
        batch.d[(batch.words[:, :8] == men).all(axis=1)] = 60_000
        return batch

    monkeypatch.setattr(Arena, "copy_out", copy_out)


def test_a_store_writes_all_records_but_the_unfit_ones_and_names_those(tmp_path: Path) -> None:
    bad = {0, 17, 18, 199}
    given = [unfit(record) if i in bad else record for i, record in enumerate(RECORDS)]
    store = Store.open(tmp_path / "a.graph", create=True, identity=IDENTITY)
    store.append(batch_of(given), fresh=len(given))
    assert store.node_count == len(contents(store)) == 196
    with pytest.raises(StoreError, match=r"a record cannot be written and is lost: .* and 3 more"):
        store.close()
    assert not (tmp_path / "a.graph.lock").exists()
    assert not verify(tmp_path / "a.graph").problems


def test_a_batch_of_unfit_records_alone_writes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.graph", create=True, identity=IDENTITY) as store:
        store.append(batch_of([unfit(RECORDS[0])]), fresh=1)
        assert store.node_count == 0
        assert store.left_out_error() is not None
        assert store.left_out_error() is None
        assert store.connection.execute("SELECT count(*) FROM segment").fetchone()[0] == 0


def test_a_command_prints_its_result_names_what_is_lost_and_fails(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.graph"
    make_unfit(monkeypatch)
    done = cli("analyze", "startpos", "--visits", 600, "--store", path).ends(1, FOUND)
    assert "bestmove" in done.out
    with Store.open(path, read_only=True) as store:
        assert store.node_count == len(contents(store)) > 100
        assert store.read(chess.Board()) is not None
        assert store.read(BAD) is None
    assert not (tmp_path / "a.graph.lock").exists()
    cli("store", "verify", path).ends(0)


def test_an_engine_saves_all_else_names_what_is_lost_and_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.graph"
    played = Played({"GraphFile": str(path)})
    with played:
        played.ready()
        make_unfit(monkeypatch)
        played.ask("go nodes 600", until="bestmove")
    assert played.engine.has_lost
    assert any(f"ERROR: {path}: {FOUND}" in line for line in played.console.lines)
    assert not (tmp_path / "a.graph.lock").exists()
    with Store.open(path, read_only=True) as store:
        assert store.node_count > 100


# ------------------------------------------------------------------ as many moves as a record can have
def full_record(moves: int) -> NodeRecord:
    record = next(record for record in RECORDS if record.codes and record.edges)
    edges = tuple(record.edges[i % len(record.edges)] for i in range(moves))
    return replace(record, codes=bytes(1 + i % 63 for i in range(moves)), edges=edges)


@pytest.mark.parametrize(("moves", "alike"), [(218, 0), (219, 0), (253, 0), (MAX_MOVES, 0), (MAX_MOVES, 64)])
def test_records_with_as_many_moves_as_a_byte_counts_are_written_and_read_alike(
    moves: int, alike: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One such record among others, or a block of them."""
    monkeypatch.setattr(
        "graphsearch.store.block.unsound", lambda batch, places=None: []
    )  # more than the legal moves
    full = full_record(moves)
    others = [replace(full, words=record.words) for record in RECORDS[:alike]] or RECORDS
    given = [full, *(record for record in others if record.words != full.words)]
    assert decode_blocks(plain_blocks(batch_of([full]))).record(0) == full
    with Store.open(tmp_path / "a.graph", create=True, identity=IDENTITY) as store:
        store.append(batch_of(given), fresh=len(given))
        assert sorted(contents(store).values(), key=str) == sorted(given, key=str)


def test_a_record_with_more_moves_than_a_byte_counts_is_unfit() -> None:
    assert unfit_places(batch_of([full_record(MAX_MOVES + 1)])) == [(0, "a field out of range")]


def test_an_engine_that_cannot_save_says_so_fails_and_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played({"GraphFile": str(tmp_path / "a.graph")})
    with played:
        played.ready()
        played.ask("go nodes 600", until="bestmove")
        monkeypatch.setattr(Store, "append", refuse)
        played.engine.handle("position startpos moves e2e4")
        played.ask("go nodes 900", until="bestmove")
    assert played.engine.has_lost
    assert any("no room. What was not saved is lost" in line for line in played.console.lines)
    assert not (tmp_path / "a.graph.lock").exists()


def refuse(*_: object, **__: object) -> None:
    raise StoreError("no room")
