"""A reader that was written from schema/ alone reads the golden file as this program does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.position.board import key_of, legal_moves, unpack
from graphsearch.store.ranking import node_mean
from graphsearch.store.record import NodeRecord

from ..conftest import ROOT
from ..support.positions import after_line
from . import independent_reader as reader
from .records import held
from .test_formats import EVALUATION, GOLDEN


def check_equal(own: NodeRecord, read: reader.Record) -> None:
    """Holds what the second reader says of a position to what this program says."""
    assert own.words == read.words
    assert (own.v, own.d, own.evaluator, own.flags, own.run) == (
        read.v, read.draws, read.evaluator, read.flags, read.run,
    )  # fmt: skip
    assert own.codes == read.codes
    assert [(e.n, e.r, e.q, e.d) for e in own.edges] == [(e.n, e.r, e.q, e.draws) for e in read.edges]
    assert (own.bounds, node_mean(own)[0], own.visits) == (read.bounds, read.q, read.n)
    assert key_of(unpack(own.words)) == read.key
    moves = legal_moves(unpack(own.words))
    assert [moves[k].uci() for k in own.order[: len(own.edges)]] == [edge.move for edge in read.edges]
    assert [own.priors[k] for k in own.order[: len(own.edges)]] == [edge.p for edge in read.edges]


def test_a_reader_from_the_schema_reads_the_golden_file(tmp_path: Path) -> None:
    path = Path(shutil.copy(GOLDEN, tmp_path / "a.graph"))
    found = reader.read_records(path)
    own = list(held(path).values())
    assert len(own) == len(found) == json.loads(GOLDEN.with_suffix(".json").read_text())["nodes"]
    by_words = {record.words: record for record in found.values()}
    for record in own:
        check_equal(record, by_words[record.words])
    keys, words = json.loads(GOLDEN.with_suffix(".json").read_text())["entries"]["words"]
    entries = reader.read_entries(path, EVALUATION)
    assert sorted(entries.values()) == sorted(words)
    assert sorted(key for key, _ in entries) == sorted(keys)
    assert all(word >> 48 == check for (_, check), word in entries.items())


FENS = (
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 74 90",  # children of several clocks
    "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
)


@pytest.mark.parametrize("fen", FENS)
def test_it_reads_what_a_search_has_just_written(fen: str, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    board = chess.Board(fen, chess960=True) if "HF" in fen else chess.Board(fen)
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, board, Limits(visits=200))
    found = {record.words: record for record in reader.read_records(path).values()}
    own = list(held(path).values())
    assert len(own) == len(found)
    for record in own:
        check_equal(record, found[record.words])


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
    text = Path(reader.__file__).read_text(encoding="utf-8")
    assert "graphsearch" not in text
