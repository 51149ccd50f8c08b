"""Workers on one file: what they find together, and what happens when one goes wrong."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import EvaluatorError, EvaluatorMismatchError, InvalidParameterError, StoreError
from graphsearch.book.executor import Outcome, Task
from graphsearch.book.workers.worker_executor import Timeouts, WorkerExecutor
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.store.store import Store
from graphsearch.store.upkeep.verify import verify
from graphsearch.workers import process
from graphsearch.workers.launcher import LocalLauncher
from graphsearch.workers.process import WorkerProcess

from ..conftest import ROOT, sql
from ..support.forks import Fork, Say
from ..support.forks import forked_workers as forked_workers
from ..support.graphs import check_invariants, numbers_below
from ..support.pools import Oracle, all_ready, children, evaluated, in_the_middle, is_alive, until
from ..support.reference import HashEvaluator
from ..support.tasks import BATCH, KINGS, task

pytestmark = pytest.mark.usefixtures("forked_workers")
PLAIN = (*BATCH, ("Overlap", "0"))


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets workers import the tests, whose evaluators they make."""
    monkeypatch.syspath_prepend(ROOT)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


@pytest.fixture
def file(tmp_path: Path) -> tuple[Path, int]:
    """A file for the hash evaluator, and a run in it."""
    path = tmp_path / "book.graph"
    with Store.open(path, identity=HashEvaluator.identity, create=True) as store:
        return path, store.begin_run("", {}, {}, kind="book")


def started(file: tuple[Path, int], make: Any, workers: int = 1, **options: Any) -> WorkerExecutor:
    path, run = file
    return WorkerExecutor(path, make, workers, book=1, run=run, **options)


TASKS = tuple(task(move, evaluations=200) for move in ("d3d4", "d3e4", "e2e4", "d3e3"))


def done(executor: WorkerExecutor, *tasks: Task, seconds: float = 300.0) -> dict[str, Outcome]:
    """Returns the outcomes of tasks by FEN, once all are there."""
    for one in tasks:
        executor.submit(one)
    return taken(executor, seconds)


def taken(executor: WorkerExecutor, seconds: float = 300.0) -> dict[str, Outcome]:
    end = time.monotonic() + seconds
    found: dict[str, Outcome] = {}
    while executor.open_tasks:
        assert time.monotonic() < end, "no outcome came"
        found |= {outcome.task.fen: outcome for outcome in executor.finished(1.0)}
    return found


def wait_for_evaluations(executor: WorkerExecutor, count: int) -> None:
    """Waits until more positions are evaluated."""
    until(lambda: executor._ledger.published > count)


def check_file(path: Path, *tasks: Task) -> int:
    """Asserts that a file and all edges below some positions are sound; returns the number of evaluations."""
    report = verify(path)
    assert report.problems == []
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        for one in tasks:
            check_invariants(graph, chess.Board(one.fen))
        assert graph.store is not None
        return sum(int((batch.flags & 3 == 0).sum()) for batch in graph.store.scan())


def test_two_workers_on_transposing_subtrees_evaluate_nothing_twice_but_for_what_a_killed_one_held(
    file: tuple[Path, int], log: Path
) -> None:
    path, _ = file
    with closing(started(file, Oracle(log, seconds=0.002), 2)) as executor:
        all_ready(executor)
        found = done(executor, *TASKS[:2])
        before, asked = executor._ledger.published, evaluated(log)
        assert executor.capacity == 2
        assert executor._writer.dropped > 0
        assert before < 2 * 200, "they met"
        assert len(asked) == len(set(asked)) == before
        assert len([one for one in log.iterdir() if one.name.isdigit()]) == 2, "both worked"
        for one in TASKS[2:]:
            executor.submit(one)
        wait_for_evaluations(executor, before + 60)
        os.kill(executor.processes[0], signal.SIGKILL)
        found |= taken(executor)
        paid = executor._ledger.published
        assert len(executor.processes) == 2
    assert {fen: outcome.error for fen, outcome in found.items()} == {one.fen: "" for one in TASKS}
    assert sum(outcome.evaluations for outcome in found.values()) == paid
    unused = paid - check_file(path, *TASKS)
    assert 0 <= unused <= 64, "the last that the killed one had published, if no other search came there"
    twice = [name for name, count in Counter(evaluated(log)).items() if count > 1]
    assert len(twice) <= 16, "at most the batch that was answered and not yet sent"


@pytest.mark.parametrize("reads_file", [True, False])
def test_one_worker_finds_what_a_search_in_this_process_finds(
    file: tuple[Path, int], log: Path, tmp_path: Path, reads_file: bool
) -> None:
    path, _ = file
    launcher = LocalLauncher(1)
    launcher.shares_files = reads_file
    tasks = [task(evaluations=60, params=PLAIN)]
    tasks.append(task("d3d4", evaluations=None, visits=90, params=PLAIN))
    tasks.append(task("e2e4", evaluations=60, params=PLAIN, moves=("d6c5", "d6e6")))
    with closing(started(file, Oracle(log), launcher=launcher)) as executor:
        outcomes = [done(executor, one)[one.fen] for one in tasks]
    assert [outcome.error for outcome in outcomes] == ["", "", ""]
    assert len(list(log.glob("closed-*"))) == 1
    with Graph.open(tmp_path / "local.graph", evaluator=HashEvaluator()) as local:
        for one, outcome in zip(tasks, outcomes, strict=True):
            result = analyze(
                local,
                chess.Board(one.fen),
                Limits(evaluations=one.evaluations, visits=one.visits),
                SearchParams.from_options([f"{name}={value}" for name, value in one.params]),
                searchmoves=[chess.Move.from_uci(move) for move in one.moves],
            )
            assert outcome.visits == result.new_visits
        with Graph.open(path, evaluator=HashEvaluator()) as other:
            for one in tasks:
                board = chess.Board(one.fen)
                assert numbers_below(other, board) == numbers_below(local, board)


def test_an_executor_reads_notes_saves_and_lists_leases(file: tuple[Path, int], log: Path) -> None:
    path, run = file

    def rows(table: str) -> list[tuple[object, ...]]:
        return sql(path, f"SELECT * FROM {table}")

    with closing(WorkerExecutor(path, Oracle(log, seconds=0.005), 1, book=7, run=run)) as executor:
        one = task()
        executor.submit(one)
        until(lambda: rows("book_lease") != [])
        (lease,) = rows("book_lease")
        assert lease[:4] == (7, one.key, 0, executor.processes[0])
        assert str(lease[4]) < str(lease[5])
        assert executor.read(chess.Board(one.fen)) is None or executor.finished(0) == []
        taken(executor)
        record = executor.read(chess.Board(one.fen))
        assert record is not None
        assert record.run == run
        executor.note(lambda store: store.write_fact("noted", "first"))
        executor.save(wait=True)
        assert ("noted", "first") in rows("store_info")
        executor.note(lambda store: store.write_fact("noted", "second"))
        until(lambda: rows("book_lease") == [])
        executor.note(lambda store: store.write_fact("noted", "third"))
        executor.save(wait=False)
        until(lambda: ("noted", "third") in rows("store_info"))
        assert executor.finished(5.0) == []
        executor.submit(one)
    assert rows("book_lease") == []


def test_a_worker_whose_evaluator_hangs_is_replaced(
    file: tuple[Path, int], log: Path, tmp_path: Path
) -> None:
    path, _ = file
    once = tmp_path / "once"
    oracle = Oracle(log, bad=chess.Board(TASKS[0].fen).epd(), how="hang", once=once)

    def end_its_time() -> None:
        with executor.changed:
            holder = executor._holders[0]
            assert time.monotonic() < holder.deadline < time.monotonic() + 1000
            holder.deadline = 0.0

    with closing(started(file, oracle, timeouts=Timeouts(result=1000.0))) as executor:
        thread = in_the_middle(once.exists, end_its_time)
        found = done(executor, *(replace(one, evaluations=80) for one in TASKS[:2]))
        thread.join()
    assert [outcome.error for outcome in found.values()] == ["", ""]
    assert check_file(path, *TASKS[:2]) == len(set(evaluated(log)))


def test_a_worker_that_gives_no_sign_of_life_is_replaced(file: tuple[Path, int], log: Path) -> None:
    def silent(process: int) -> bool:
        """Lets the last sign of life of a worker be old; returns whether it was replaced."""
        with executor.changed:
            worker = executor.seats[0].worker
            if isinstance(worker, WorkerProcess) and worker.pid == process:
                worker.last_heard = time.monotonic() - 1001
        return executor.processes not in ([process], [])

    with closing(started(file, Oracle(log, seconds=0.002), timeouts=Timeouts(heartbeat=1000.0))) as executor:
        (before,) = executor.processes
        executor.submit(task(evaluations=120))
        wait_for_evaluations(executor, 30)
        os.kill(before, signal.SIGSTOP)
        until(lambda: silent(before))
        (outcome,) = taken(executor).values()
        assert executor.processes != [before]
    assert outcome.error == ""


def test_an_evaluator_that_fails_ends_its_task_with_an_error_and_the_others_go_on(
    file: tuple[Path, int], log: Path
) -> None:
    path, _ = file
    board = KINGS.copy()
    board.push_uci("e2e4")
    with closing(started(file, Oracle(log, bad=board.epd(), how="raise"))) as executor:
        found = done(executor, task("e2e4"), task(root=board, evaluations=5), task("d3e4", evaluations=40))
        wrong = done(executor, task(params=(("Nonsense", "1"),)), Task("0" * 16, "no position", visits=3))
        mute = done(executor, task("d3d4", evaluations=5))
    assert "division by zero" in found[board.fen()].error
    assert "Nonsense" in wrong[KINGS.fen()].error
    assert "no position" in wrong["no position"].error
    assert next(iter(mute.values())).error == ""
    check_file(path)


def test_what_no_worker_can_start_with_is_said_at_once(file: tuple[Path, int], log: Path) -> None:
    path, _ = file
    before = set(children(os.getpid()))  # of tests that ran in this process earlier
    refused: list[tuple[type[Exception], str, Any, dict[str, int]]] = [
        (EvaluatorError, r"nowhere\.pb\.gz", Oracle(log, how="unmakeable"), {}),
        (EvaluatorMismatchError, "hash", EvaluatorSpec(evaluator="uniform"), {}),
        (InvalidParameterError, "workers", Oracle(log), {"workers": 0}),
        (InvalidParameterError, "memory", Oracle(log), {"workers": 4, "ram_bytes": 10**7}),
        (InvalidParameterError, "no option", EvaluatorSpec(options=(("nonsense", "1"),)), {}),
    ]
    for error, words, make, options in refused:
        with pytest.raises(error, match=words):
            started(file, make, **options)
    with Store.open(path), pytest.raises(StoreError, match=r"locked|writ"):
        started(file, Oracle(log))
    until(lambda: all(_is_tracker(one) for one in set(children(os.getpid())) - before))  # the killed ones end


def _is_tracker(process: int) -> bool:
    try:
        return b"resource_tracker" in Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has ended meanwhile


def test_closing_stops_what_runs_saves_it_and_nothing_is_evaluated_again(
    file: tuple[Path, int], log: Path
) -> None:
    path, _ = file
    endless = [task("d3d4", evaluations=None), task("d3e4", evaluations=None)]
    for stops in (False, True):
        with closing(started(file, Oracle(log, seconds=0.002))) as executor:
            for one in endless:
                executor.submit(one)
            wait_for_evaluations(executor, 60)
            processes = executor.processes
            if stops:
                executor.stop()
                found = taken(executor)
                assert [outcome.error for outcome in found.values()] == [""]  # what waited is dropped
                assert found[endless[0].fen].visits > 60
        assert not any(is_alive(process) for process in processes)
        with pytest.raises(StoreError, match="stopped"):
            executor.submit(endless[0])
        asked = evaluated(log)
        assert len(asked) == len(set(asked)) == check_file(path, *endless)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_process_they_work_for_and_the_file_is_sound(
    file: tuple[Path, int], log: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    if number == signal.SIGKILL:
        monkeypatch.setattr(process, "get_context", get_context)  # as the program starts them
    path, _ = file

    def work(say: Say) -> None:
        os.setpgid(0, 0)
        executor = started(file, Oracle(log, seconds=0.002), 2)
        for move in ("d3d4", "d3e4"):
            executor.submit(task(move, evaluations=None))
        say(" ".join(map(str, executor.processes)))
        executor.finished(60)

    with Fork(work) as fork:
        workers = [int(word) for word in fork.line().split()]
        until(lambda: len(evaluated(log)) > 30)
        until(lambda: path.with_name("book.graph-wal").stat().st_size > 100_000)
        if number == signal.SIGKILL:
            fork.kill()
        else:
            os.killpg(fork.process, number)  # as from a terminal; nobody closes the executor
            fork.rest()
    until(lambda: not any(is_alive(one) for one in workers))
    assert check_file(path, task("d3d4"), task("d3e4")) > 0
