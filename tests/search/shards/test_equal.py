"""A search with any number of shards makes the records of the search in one process, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.position.board import pack
from graphsearch.search.shards import parting
from graphsearch.search.shards.part import ShardReport
from graphsearch.store.record.node import NodeRecord
from graphsearch.store.sharded.files import files_of, open_to_read
from graphsearch.store.upkeep.verify import verify

from ...support.clusters import Records, records_of, search_shards
from ...support.positions import KIWIPETE, played
from ...support.reference import HashEvaluator

ROOK_ENDING = "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1"
NEAR_MOVE_50 = "8/8/4k3/8/8/4K3/4P3/R6r w - - 93 80"

CASES: list[tuple[str, int, int, dict[str, Any]]] = [  # position, visits, shards, parameters
    (chess.STARTING_FEN, 300, 3, {"minibatch_size": 1024}),
    (chess.STARTING_FEN, 60, 2, {"minibatch_size": 1}),
    (NEAR_MOVE_50, 250, 2, {"minibatch_size": 128}),
    (ROOK_ENDING, 250, 5, {"minibatch_size": 256, "catch_up_ratio": 2.0, "cpuct": 3.0}),
    (KIWIPETE, 200, 3, {"minibatch_size": 64, "fpu_value": 0.1}),
]


def search_alone(path: Path, board: chess.Board, limits: Limits, **params: Any) -> Any:
    searchmoves = [chess.Move.from_uci(move) for move in params.pop("searchmoves", ())]
    ram_bytes = params.pop("ram_bytes", None)
    evaluator = params.pop("evaluator", None) or HashEvaluator()
    with Graph.open(path, evaluator=evaluator, ram_bytes=ram_bytes) as graph:
        return analyze(graph, board, limits, SearchParams(**params), searchmoves=searchmoves)


def check_equal(tmp_path: Path, board: chess.Board, visits: int, shards: int, **params: Any) -> Any:
    params = {"overlap": 0, "max_wave_share": 1.0} | params
    limits = Limits(visits=visits)
    alone = search_alone(tmp_path / "one.graph", board, limits, **params)
    folder = tmp_path / "shards"
    evaluator = params.pop("evaluator", None) or HashEvaluator()
    reports = search_shards(folder, evaluator, board, shards, limits, **params)
    assert records_of(folder.glob("*.graph")) == records_of([tmp_path / "one.graph"])
    assert sum(report.visits for report in reports) == alone.new_visits
    assert sum(report.evaluations for report in reports) == alone.evaluations
    assert {report.stop_reason for report in reports} <= {"", alone.stop_reason}
    return reports


@pytest.mark.parametrize(("fen", "visits", "shards", "params"), CASES)
def test_shards_make_the_records_of_one_process(
    tmp_path: Path, fen: str, visits: int, shards: int, params: dict[str, Any]
) -> None:
    check_equal(tmp_path, chess.Board(fen), visits, shards, **params)


def test_history_and_searchmoves_hold_at_the_root_and_are_not_kept_by_any_shard(tmp_path: Path) -> None:
    board = played("7k/8/8/8/8/8/R7/K7 w - - 0 1", ["a2b2", "h8g8", "b2a2", "g8h8"] * 2)
    for name, moves in (("all", ()), ("some", ("a2b2", "a1b1"))):
        (tmp_path / name).mkdir()
        check_equal(tmp_path / name, board, 200, 2, minibatch_size=64, searchmoves=moves)


def test_shards_that_evict_make_the_same_records(tmp_path: Path) -> None:
    evaluator = UniformEvaluator()
    evaluator.threads = 1  # then shards evaluate while they wait for messages
    little = {"evaluator": evaluator, "minibatch_size": 256, "ram_bytes": 700_000}
    reports = check_equal(tmp_path, chess.Board(), 12_500, 2, **little)
    assert all(report.read_back for report in reports)


@pytest.mark.parametrize("whole", [False, True])
def test_a_search_goes_on_from_the_files_of_the_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """`whole`: from files that are so large that they are read as a whole while the search has begun."""
    read: list[int] = []
    end_loading = Graph._end_loading

    def noting(self: Graph) -> None:
        if self.loading:
            assert self.pager.complete
            read.append(self.loading.done)
        end_loading(self)

    if whole:
        monkeypatch.setattr("graphsearch.graph.graph.LOADED_AT_ONCE", 0)
        monkeypatch.setattr("graphsearch.graph.loading.LEAST_SINGLE_READS", 8)
        monkeypatch.setattr(Graph, "_end_loading", noting)
    params: dict[str, Any] = {"overlap": 0, "max_wave_share": 1.0, "minibatch_size": 128}
    board, limits = chess.Board(), Limits(visits=1000 if whole else 400)
    for run in (1, 2):
        search_alone(tmp_path / "one.graph", board, limits, **params)
        again: dict[str, Any] = {"run": run, "save": run - 1} | params
        search_shards(tmp_path / "s", HashEvaluator(), board, 2, limits, **again)
    assert len(read) == (3 if whole else 0), "the one process and both shards"
    assert min(read, default=1000) > 200
    assert records_of((tmp_path / "s").glob("*.graph")) == records_of([tmp_path / "one.graph"])


def test_a_finished_game_and_a_proven_root_end_the_search(tmp_path: Path) -> None:
    for fen, reason in (
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "finished"),
        ("7k/8/5KQ1/8/8/8/8/8 w - - 0 1", "proven"),
    ):
        folder = tmp_path / reason
        reports = search_shards(folder, HashEvaluator(), chess.Board(fen), 2, Limits(visits=5000), overlap=0)
        assert reason in {report.stop_reason for report in reports}


def test_searchmoves_leave_the_root_of_a_cluster_as_it_was_and_go_on(tmp_path: Path) -> None:
    board, listed = chess.Board(), "a2a3"
    params: dict[str, Any] = {"overlap": 0, "minibatch_size": 64}

    def search(run: int, **fields: Any) -> list[ShardReport]:
        options: dict[str, Any] = {"run": run, "save": run - 1} | params | fields
        return search_shards(tmp_path / "s", HashEvaluator(), board, 2, Limits(visits=300), **options)

    def root() -> NodeRecord:
        words = tuple(int(word) for word in pack(board))
        return records_of((tmp_path / "s").glob("*.graph"))[words]

    search(1)
    before = [(edge.n, edge.r) for edge in root().edges]
    known = 301
    for session in (1, 2):
        reports = search(1 + session, searchmoves=(listed,))
        (leader,) = (report for report in reports if report.leads)
        assert leader.root is not None
        assert leader.root.visits > known + 120
        known = leader.root.visits
        assert 300 <= leader.visits < 500
        assert sum(report.evaluations for report in reports) > 60
        assert [(edge.n, edge.r) for edge in root().edges] == before
        assert "root" not in leader.as_dict()


# ------------------------------------------------------------------ waves that overlap
OVERLAPPED: dict[str, Any] = {"overlap": 1, "max_wave_share": 1.0, "minibatch_size": 32}

# where the last wave completes a quarter fewer visits than it asks for: the search goes on to its limit
ROOT = chess.Board(KIWIPETE)
VISITS = 1500


def records_overlapped(folder: Path, shards: int) -> Records:
    """Returns what so many shards make of a search whose waves overlap; checks that no visit is lost."""
    evaluator = HashEvaluator()
    parting.new_cluster(folder, shards=shards, identity=evaluator.identity)
    reports = search_shards(folder, evaluator, ROOT, shards, Limits(visits=VISITS), **OVERLAPPED)
    with open_to_read(folder) as whole:
        root = whole.read(ROOT)
    assert root is not None
    assert root.visits == sum(report.visits for report in reports) >= VISITS
    assert sum(report.evaluations for report in reports) == len(evaluator.asked) == len({*evaluator.asked})
    assert verify(folder).ok
    return records_of(files_of(folder))


def test_overlapped_waves_make_the_same_records_with_any_number_of_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlapped = records_overlapped(tmp_path / "1", 1)
    assert records_overlapped(tmp_path / "3", 3) == overlapped
    monkeypatch.setitem(OVERLAPPED, "overlap", 0)
    assert records_overlapped(tmp_path / "alone", 1) != overlapped
