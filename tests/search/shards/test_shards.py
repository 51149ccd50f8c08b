"""Shards that stay from one search to the next, reviews that use them, and clusters of one shard."""

from __future__ import annotations

import io
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import InvalidParameterError, ShardLostError, StoreLockedError
from graphsearch.book.review.results import ReviewReport
from graphsearch.book.review.review import ReviewSettings, review
from graphsearch.book.review.sessions import UNKEPT
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.exchange.sources import FileProgress, GivenFile
from graphsearch.search.job import Control, SearchJob
from graphsearch.search.shards import master, parting
from graphsearch.search.shards.host import Setting
from graphsearch.search.shards.master import MACHINES
from graphsearch.search.shards.session import ShardSearch
from graphsearch.store.info import info
from graphsearch.store.sharded.files import files_of, open_to_read
from graphsearch.store.sharded.manifest import read_manifest
from graphsearch.store.sharded.saved_waves import saves_of
from graphsearch.store.store import Store
from graphsearch.store.upkeep.verify import verify

from ...conftest import Cli
from ...support.clusters import ThreadLauncher, records_of, use
from ...support.reference import HashEvaluator

PARAMS = SearchParams(overlap=0, minibatch_size=64)
BOARDS = (chess.Board(), chess.Board("4k3/8/8/8/8/8/4P3/4K2R b K - 0 1"))
GAMES = f"""[White "A"]

1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 5. e4 e5 *

[SetUp "1"]
[FEN "{BOARDS[1].fen()}"]

1... Kd7 2. O-O Kc6 *
"""


class CountedLauncher(ThreadLauncher):
    """Counts the shards that are started; the first one whose number is `dies` ends after a search."""

    def __init__(self, dies: int | None = None) -> None:
        super().__init__()
        self.started, self.dies = 0, dies

    def start(self, setting: Setting) -> Any:
        self.started += 1
        found = super().start(setting)
        if setting.number == self.dies:
            self.dies = None
            return _Mortal(found)
        return found


class _Mortal:
    """A shard whose process ends after its first search."""

    place = ""

    def __init__(self, shard: Any) -> None:
        self._shard, self._searches = shard, 0
        self.leave, self.kill = shard.leave, shard.kill

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        self._searches += method == "listen"
        if self._searches < 2:
            found: Future[Any] = self._shard.call(method, *arguments)
            return found
        lost = Future[Any]()
        lost.set_exception(ShardLostError("shard 1 is lost: its process has ended"))
        return lost


class Rig:
    """A cluster whose shards are threads of this process; all that they ask of evaluators is noted."""

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, launcher: CountedLauncher, shards: int = 2
    ) -> None:
        self.folder, self.launcher = folder, launcher
        self.evaluators = [HashEvaluator() for _ in range(12)]
        parting.new_cluster(folder, shards=shards, identity=HashEvaluator.identity)
        use(patch, launcher, *self.evaluators)

    @property
    def asked(self) -> list[str]:
        return [position for evaluator in self.evaluators for position in evaluator.asked]

    def review(self, **options: Any) -> tuple[ReviewReport, bytes]:
        return reviewed(self.folder, EvaluatorSpec(), **options)


def reviewed(path: Path, evaluator: Any, **options: Any) -> tuple[ReviewReport, bytes]:
    """Returns the report and the annotated games of a review."""
    pgn = io.BytesIO()
    settings = ReviewSettings(visits=30, pgn=pgn, params=PARAMS)
    given = GivenFile("games.pgn", io.BytesIO(GAMES.encode()))
    report = review(path, given, settings, evaluator=evaluator, **options)
    return report, pgn.getvalue()


# ------------------------------------------------------------------ one search after the other
@pytest.mark.parametrize(("dies", "started"), [(None, 2), (1, 4)])
def test_shards_that_stay_find_what_new_ones_find_and_a_lost_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: int | None, started: int
) -> None:
    stay = Rig(tmp_path / "stay.cluster", monkeypatch, CountedLauncher(dies))
    lines: list[str] = []
    jobs = [SearchJob(board=board, limits=Limits(visits=70), params=PARAMS) for board in BOARDS]
    with master.searching(stay.folder) as shards:
        found = [shards.search(job, Control(on_loss=lines.append)) for job in jobs]
    assert stay.launcher.started == started
    assert len(lines) == len(found[1].losses) == (started - 2) // 2
    new = Rig(tmp_path / "new.cluster", monkeypatch, CountedLauncher())
    alone = [master.analyze(new.folder, job) for job in jobs]
    assert new.launcher.started == 4
    assert records_of(files_of(stay.folder)) == records_of(files_of(new.folder))
    for one, other in zip(found, alone, strict=True):
        assert one.result.node == other.result.node
        for count in ("new_visits", "evaluations"):
            assert getattr(one.result, count) == getattr(other.result, count)
    runs = [[(run.id, run.visits, run.evaluations) for run in info(rig.folder).runs] for rig in (stay, new)]
    assert runs[0] == runs[1]


def test_a_cluster_is_held_while_its_shards_stay_and_free_again_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path / "a.cluster", monkeypatch, CountedLauncher())
    job = SearchJob(board=BOARDS[1], limits=Limits(visits=20), params=PARAMS)
    with master.searching(rig.folder) as shards:
        shards.search(job)
        with pytest.raises(StoreLockedError):
            master.analyze(rig.folder, job)
    assert master.analyze(rig.folder, job).result.new_visits >= 20


# ------------------------------------------------------------------ reviews
def test_a_review_by_shards_is_one_run_and_that_of_the_merged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path / "a.cluster", monkeypatch, CountedLauncher(dies=1))
    report, pgn = rig.review()
    assert (report.reviewed, report.searched, report.known, rig.launcher.started) == (2, 12, 3, 4)
    assert "shard 1 is lost" in report.notes[0]
    assert len(rig.asked) == len(set(rig.asked)) == report.evaluations
    found = info(rig.folder)
    assert [(run.kind, run.visits, run.evaluations) for run in found.runs] == [
        ("review", report.new_visits, report.evaluations)
    ]
    assert [root.position for root in found.roots] == [BOARDS[1].fen()]
    assert verify(rig.folder).ok
    with open_to_read(rig.folder) as store:
        assert store.read_fact(UNKEPT), "visits that draws by repetition in the first game took"
    again, same = rig.review()
    assert (again.searched, again.known, same) == (0, 15, pgn)
    parting.merge(rig.folder, tmp_path / "one.graph")
    merged, same = reviewed(tmp_path / "one.graph", HashEvaluator())
    assert (merged.searched, same) == (0, pgn)


def test_a_review_by_shards_that_was_stopped_goes_on_where_it_was_by_the_command(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path / "a.cluster", monkeypatch, CountedLauncher())
    stop = threading.Event()

    def look(progress: FileProgress) -> None:
        if progress.stage == "Searching" and progress.count > 60:
            stop.set()

    monkeypatch.setattr("graphsearch.book.review.review.SAY_SECONDS", 0.0)
    monkeypatch.setattr("graphsearch.search.shards.session.PROGRESS_SECONDS", 0.0)
    stopped, nothing = rig.review(stop=stop, on_progress=look)
    assert stopped.stopped
    assert 0 < stopped.searched < 12
    assert nothing == b""
    games = tmp_path / "a.pgn"
    games.write_text(GAMES)
    words = ("--visits", 30, "--param", "Overlap=0", "--param", "MinibatchSize=64", "--json")
    first, second = (cli("review", games, "--store", rig.folder, *words).ends(0).json for _ in range(2))
    assert (first["searched"] > 0, second["searched"]) == (True, 0)
    assert (tmp_path / "a-reviewed.pgn").read_text().count("[%eval") > 10
    assert len(rig.asked) == len(set(rig.asked))
    assert verify(rig.folder).ok


def test_a_review_of_a_cluster_needs_to_know_what_each_shard_makes_its_evaluator_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path / "a.cluster", monkeypatch, CountedLauncher())
    with pytest.raises(InvalidParameterError, match="each of its shards makes an evaluator"):
        reviewed(rig.folder, HashEvaluator())


# ------------------------------------------------------------------ one shard: no messages, as in one file
@pytest.fixture
def lone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster of one shard that makes no use of what shards need for each other."""
    monkeypatch.setattr(ShardSearch, "__init__", None)
    return Rig(tmp_path / "a.cluster", monkeypatch, CountedLauncher(), shards=1).folder


def test_the_only_shard_makes_the_records_and_runs_of_a_search_of_one_file(
    tmp_path: Path, lone: Path
) -> None:
    one, params = tmp_path / "one.graph", SearchParams(minibatch_size=64)
    with Graph.open(one, evaluator=HashEvaluator()) as graph:
        for words in ((), ("a2a3", "e2e4"), ()):
            moves = tuple(map(chess.Move.from_uci, words))
            job = SearchJob(board=BOARDS[0], limits=Limits(visits=150), params=params, searchmoves=moves)
            alone = analyze(graph, job.board, job.limits, job.params, searchmoves=moves)
            found = master.analyze(lone, job)
            for name in ("node", "new_visits", "evaluations", "stop_reason"):
                assert getattr(found.result, name) == getattr(alone, name)
            assert found.shards[0].traffic.steps == 0
    assert records_of(files_of(lone)) == records_of([one])
    runs = [[(run.id, run.visits, run.evaluations) for run in info(path).runs] for path in (one, lone)]
    assert runs[0] == runs[1]
    with Store.open(files_of(lone)[0], read_only=True) as store:
        assert saves_of(store)[0].run == 3
    assert verify(lone).ok


def test_shards_for_each_machine_are_one_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Rig(tmp_path / "two.cluster", monkeypatch, CountedLauncher())
    monkeypatch.setattr(master, "identity_of", lambda spec: HashEvaluator.identity)
    job = SearchJob(board=BOARDS[1], limits=Limits(visits=20), params=PARAMS)
    for _ in range(2):
        master.analyze(tmp_path / "new.cluster", job, shards=MACHINES)
    assert read_manifest(tmp_path / "new.cluster").shards == 1
    assert len(master.analyze(two.folder, job, shards=MACHINES).shards) == 2


def test_a_search_of_the_only_shard_is_stopped_from_outside(
    lone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    monkeypatch.setattr("graphsearch.search.shards.part.PROGRESS_SECONDS", 0.0)
    control = Control(on_progress=lambda _: stop.set(), interval=0.0, stop=stop)
    job = SearchJob(board=BOARDS[0], limits=Limits(visits=10**9), params=SearchParams(minibatch_size=64))
    assert master.analyze(lone, job, control).result.stop_reason == "stop"
    assert verify(lone).ok
