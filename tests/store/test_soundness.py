"""Records whose bytes are right and that cannot be: named, left out, evaluated again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.base.errors import CorruptRecordError, UnsoundRecordError
from graphsearch.position.board import CASTLING_FIELDS, castling_fields, pack, unpack
from graphsearch.query.line import pv
from graphsearch.store.block import unsound
from graphsearch.store.record import UNPROVEN, Edge, NodeRecord
from graphsearch.store.rewrite import compact
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from .records import Records, batch_of, contents, filled, random_records, words_of

RECORDS = Records(71, 400)


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.store.segment._said", set())


def broken(record: NodeRecord) -> Iterator[tuple[str, NodeRecord]]:
    """Yields what an open record with edges cannot be."""
    first, *rest = record.edges
    moves, (*men, meta, key) = len(record.codes), record.words
    yield "priors for", replace(record, codes=record.codes + b"\x05")
    yield "priors for", replace(record, codes=record.codes[:-1], edges=record.edges[: moves - 1])
    yield "priors for", replace(record, codes=b"", edges=())
    yield "not an interval", replace(record, flags=0 | 0 << 2 | 3 << 4)
    yield "not an interval", replace(record, flags=0 | 2 << 2 | 1 << 4)
    yield "terminal kind 1", replace(record, codes=b"", edges=(), flags=1, v=-1.0, d=0)
    yield "terminal kind 2", replace(record, codes=b"", edges=(), flags=2 | 1 << 2 | 1 << 4, v=0.0, d=1000)
    yield "V has", replace(record, v=0.5, d=900)
    yield "has Q", replace(record, edges=(Edge(5, 0, 0.75, 400), *rest))
    yield "r = ", replace(record, edges=(Edge(first.n, first.n + 1 & 0xFFFFFFFF, 0.0, 0), *rest))
    yield "value without visits", replace(record, edges=(Edge(3, 3, 0.5, 1), *rest))
    yield "proven", replace(record, edges=(Edge(3, 0, 0.5, 1001), *rest))
    yield "evaluator 200", replace(record, evaluator=200)
    for other in (meta | 1 << 1, meta & 0xFF01F | 30 << 5, meta ^ 1):  # castling, en passant, turn
        yield "illegal", replace(record, words=(*men, other, key))


def unsound_records() -> list[tuple[str, NodeRecord]]:
    """Returns a record of every kind that cannot be, each of a position of its own."""
    plain = [r for r in random_records(72, 400) if 2 < len(r.edges) < 99 and not r.words[8] >> 1 & 15]
    kinds = range(len(list(broken(plain[0]))) - 1)  # the other side's turn is often legal
    found = [list(broken(plain[kind]))[kind] for kind in kinds]
    legal = pack(chess.Board("4k3/8/8/8/4R3/8/8/4K3 b - - 0 1"))
    legal[8] ^= np.uint64(1)  # White could take the king
    return [*found, ("illegal", NodeRecord(tuple(legal.tolist()), 0.0, 0, 1, UNPROVEN, bytes([9] * 15), ()))]


def test_what_cannot_be_is_named() -> None:
    assert unsound(batch_of(RECORDS)) == []
    tried = 0
    for record in RECORDS[:150]:
        if record.terminal or len(record.edges) < 2:
            continue
        found = list(broken(record))
        bad = dict(unsound(batch_of([one for _, one in found])))
        for i, (what, one) in enumerate(found):
            if what == "illegal":  # another turn, or other rights, may be legal
                assert (i in bad) == (not _is_legal(one)), one
            else:
                assert what in bad[i], (what, bad[i])
        tried += len(bad)
    assert tried > 200


def _is_legal(record: NodeRecord) -> bool:
    board = unpack(record.words)
    if castling_fields(board) != record.words[8] & CASTLING_FIELDS or board.was_into_check():
        return False
    if board.clean_castling_rights() != board.castling_rights:
        return False
    square = board.ep_square
    passed = square is None or (board._valid_ep_square() == square and board.has_pseudo_legal_en_passant())
    return passed and len(list(board.legal_moves)) == len(record.codes)


def test_castling_is_judged_as_by_python_chess() -> None:
    words = [record.words for record in RECORDS[:60]]
    chess960 = [record.words for record in RECORDS if record.words[8] >> 20][:30]
    made = [
        replace(RECORDS[0], words=(*men, meta ^ 1 << bit, key))
        for *men, meta, key in (*words, *chess960)
        for bit in (1, 2, 3, 4, *range(20, 33))
    ]
    bad = dict(unsound(batch_of(made)))
    fits = [castling_fields(unpack(one.words)) == one.words[8] & CASTLING_FIELDS for one in made]
    boards = [unpack(one.words) for one in made]
    assert [bad.get(i) == "its position is illegal" for i in range(len(made))] == [
        not fit or board.clean_castling_rights() != board.castling_rights
        for fit, board in zip(fits, boards, strict=True)
    ]
    assert 0 < sum(fits) < len(made) / 5
    assert len(chess960) == 30


def test_records_that_cannot_be_are_named_left_out_and_not_salvaged(tmp_path: Path) -> None:
    whats, bad = zip(*unsound_records(), strict=True)
    path, count = filled(tmp_path / "a.graph", [*RECORDS[:50], *bad]), len(bad)

    def all_named(lines: list[str]) -> bool:
        return all(sum(what in line for line in lines) >= whats.count(what) for what in whats)

    assert all_named(verify(path).problems)
    with Store.open(path, read_only=True) as store:
        seen: list[CorruptRecordError] = []
        assert sum(len(batch) for batch in store.scan(on_corrupt=seen.append)) == 50
        assert all_named(list(map(str, seen)))
        for what, record in zip(whats, bad, strict=True):
            if what != "illegal":
                with pytest.raises(UnsoundRecordError, match=what):
                    store.read(unpack(record.words))
        words = words_of([*RECORDS[:50], *bad])
        with store.reader() as reader:
            found, batch = reader.find(words)
            assert found.tolist() == [True] * 50 + [False] * count
            assert all_named(reader.problems)
            assert len(batch) == 50
    report = salvage(path, tmp_path / "new.graph")
    assert (report.records, report.records_unsound) == (50, count)
    assert verify(tmp_path / "new.graph").ok


def test_searches_evaluate_it_again_queries_pass_by(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(evaluations=60))
    spoil(path, chess.Board("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"))
    with caplog.at_level(logging.WARNING, "graphsearch"):
        assert len(pv(path, chess.Board(), lines=20).lines) == 20
    assert "damaged, and left out" in caplog.text
    assert "priors for 20 legal moves" in caplog.text
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(evaluations=60))
    compact(path)
    assert verify(path).problems == []
    with Store.open(path, read_only=True) as store:
        assert len(contents(store)) == store.node_count


def spoil(path: Path, board: chess.Board) -> None:
    """Gives the newest version of a record one prior too many."""
    with Store.open(path) as store:
        record = store.read(board)
        assert record is not None
        store.connection.execute("DELETE FROM top_position")  # which would follow the record
        store.append(batch_of([replace(record, codes=record.codes + b"\x05")]), fresh=0)
