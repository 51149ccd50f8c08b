"""Pools of processes: the answers of one evaluator, whatever happens to its workers."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphsearch.base.errors import EvaluatorError, InvalidParameterError
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.pool import PooledEvaluator
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.workers import executor, ray_workers

from ..conftest import ROOT
from ..support import pools
from ..support.reference import HashEvaluator

BATCH = PositionBatch.from_boards(pools.games(200))
BAD = pools.games(101)[100].epd()
pytestmark = pytest.mark.usefixtures("importable")


def same(a: Evaluation, b: Evaluation) -> bool:
    return np.array_equal(a.wdl, b.wdl) and np.array_equal(a.priors, b.priors)


def expected(batch: PositionBatch = BATCH) -> Evaluation:
    return HashEvaluator().evaluate(batch)


def workers_of(log: Path) -> set[int]:
    """Returns the processes that have evaluated something."""
    return {int(file.name) for file in log.iterdir()}


def names(batch: PositionBatch) -> list[str]:
    return [board.epd() for board, _ in batch.boards()]


# ---------------------------------------------------------- the same answers
def test_every_position_is_evaluated_once_and_closing_closes_every_evaluator(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "LEAVING_SECONDS", 60.0)
    before = set(pools.children(os.getpid()))
    with PooledEvaluator(pools.Oracle(log, 0.02), 2) as pool:
        pools.all_ready(pool)
        assert same(pool.evaluate(BATCH), expected())
        assert pool.notes == ("a note",)  # the evaluator's
        workers = workers_of(log)
        assert workers <= set(pools.children(os.getpid())) - before
    assert sorted(pools.evaluated(log)) == sorted(names(BATCH))
    assert len(workers) == 2
    pools.until(lambda: not workers & set(pools.children(os.getpid())))
    assert {f"closed-{worker}" for worker in workers} == {file.name for file in log.glob("closed-*")}
    pool.close()
    with pytest.raises(EvaluatorError, match="the pool of workers is closed"):
        pool.evaluate(BATCH)


def test_batches_of_any_size_get_the_answers_of_one_evaluator_bit_for_bit() -> None:
    options = {"PolicyTemperature": "1.7"}
    plain = create("builtin", options)
    with PooledEvaluator(partial(create, "builtin", options), 2) as pool:
        for batch in (PositionBatch.from_boards(pools.games(count)) for count in (0, 1, 17)):
            assert same(pool.evaluate(batch), plain.evaluate(batch))
        assert (pool.identity, pool.temperature) == (plain.identity, 1.0)


# ---------------------------------------------------------- workers that fail
def test_a_search_with_a_pool_stores_the_same_records_although_a_worker_is_killed(
    log: Path, tmp_path: Path
) -> None:
    alone, once = HashEvaluator(), tmp_path / "once"
    plain = pools.searched(alone, 600)
    with PooledEvaluator(pools.Oracle(log, bad=alone.asked[200], how="hang", once=once), 2) as pool:
        thread = pools.in_the_middle(
            lambda: once.exists() and bool(once.read_text()),
            lambda: os.kill(int(once.read_text()), signal.SIGKILL),
        )
        found = pools.searched(pool, 600)
        thread.join()
        assert not pools.is_alive(int(once.read_text()))
        assert found == plain
        assert set(pools.evaluated(log)) == set(alone.asked)  # none is lost
        pools.until(
            lambda: pool.evaluate(BATCH) is not None and len(list(log.iterdir())) == 3
        )  # it was replaced


def test_a_worker_that_hangs_is_replaced_and_its_part_sent_again(log: Path, tmp_path: Path) -> None:
    oracle = pools.Oracle(log, bad=BAD, how="hang", once=tmp_path / "once")
    with PooledEvaluator(oracle, 2, timeout=1000.0) as pool:
        pools.all_ready(pool)
        before = set(pools.children(os.getpid()))
        pool._timeout = 8.0  # now that both have started
        assert same(pool.evaluate(BATCH), expected())
        assert len(before & set(pools.children(os.getpid()))) < len(before)
    assert (tmp_path / "once").exists()
    assert sorted(pools.evaluated(log)) == sorted(names(BATCH))


def test_a_part_that_three_workers_do_not_survive_is_an_error_that_names_its_first_position(
    log: Path,
) -> None:
    with PooledEvaluator(pools.Oracle(log, bad=BAD, how="die"), 1) as pool:
        with pytest.raises(
            EvaluatorError, match=r"3 workers in a row .* begins with (\S+ ){5}\d+: .* signal 9"
        ):
            pool.evaluate(BATCH)
        rest = PositionBatch.from_boards(pools.games(100))
        assert same(pool.evaluate(rest), expected(rest))  # and the pool is of use still
        (worker,) = filter(pools.is_alive, workers_of(log))
        os.kill(worker, signal.SIGKILL)  # it is idle
        pools.until(lambda: not pools.is_alive(worker))
        assert same(pool.evaluate(rest), expected(rest))


def test_what_an_evaluator_raises_arrives_with_its_text(log: Path) -> None:
    texts = {
        "raise": "the evaluator failed: ZeroDivisionError: division by zero",
        "odd": "engine code 7 at {bad}",
        "exit": "the evaluator failed: SystemExit: 3",
        "shape": r"the evaluator answered \(\d+, 3\) values",
    }
    bad = dict(zip(texts, (board.epd() for board in pools.games(len(texts))), strict=True))
    rest = PositionBatch.from_boards(pools.games(60)[len(texts) :])
    with PooledEvaluator(pools.Oracle(log, bad=" ".join(bad.values()), how=" ".join(bad)), 2) as pool:
        for k, (how, text) in enumerate(texts.items()):
            with pytest.raises(EvaluatorError, match=text.format(bad=bad[how])):
                pool.evaluate(
                    PositionBatch.from_boards([pools.games(len(texts))[k], *pools.games(60)[len(texts) :]])
                )
            assert same(pool.evaluate(rest), expected(rest))


def test_an_evaluator_that_cannot_be_made_gives_the_line_that_it_gives_without_a_pool() -> None:
    make = partial(create, "lc0:/no/such.pb.gz", {"threads": "many"})
    with pytest.raises(InvalidParameterError, match="threads must be") as plain:
        make()
    with pytest.raises(InvalidParameterError) as found:
        PooledEvaluator(make, 1)
    assert str(found.value) == str(plain.value)


def test_workers_whose_evaluators_differ_are_refused(log: Path) -> None:
    pool = PooledEvaluator(pools.Oracle(log, 0.01, how="differ"), 2)
    with pool, pytest.raises(EvaluatorError, match="the workers' evaluators differ"):
        _ = [pool.evaluate(BATCH) for _ in range(20)]


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"workers": 0}, "workers must be from 1"),
    ({"pool": "cluster"}, "the pool must be local, ray or ray:ADDRESS"),
    ({"pool": "ray:"}, "the pool must be local, ray or ray:ADDRESS"),
    ({"timeout": 0.0}, "timeout must be above 0"),
)


def test_wrong_use_is_refused_before_any_worker_starts(log: Path) -> None:
    before = set(pools.children(os.getpid()))
    for options, text in WRONG:
        with pytest.raises(InvalidParameterError, match=text):
            PooledEvaluator(pools.Oracle(log), **{"workers": 2, **options})
    with pytest.raises(EvaluatorError, match="cannot be sent to a worker"):
        PooledEvaluator(lambda: create("uniform"), 2)
    assert set(pools.children(os.getpid())) <= before


# ---------------------------------------------------------- the end
def test_a_pool_that_is_forgotten_ends_its_workers(log: Path) -> None:
    pool = PooledEvaluator(pools.Oracle(log), 1)
    pool.evaluate(BATCH)
    (worker,) = workers_of(log)
    del pool
    gc.collect()
    pools.until(lambda: not pools.is_alive(worker))


def test_closing_from_another_thread_ends_a_batch_that_is_under_way(log: Path) -> None:
    pool = PooledEvaluator(pools.Oracle(log, 0.05), 1)
    thread = pools.in_the_middle(lambda: len(pools.evaluated(log)) > 0, pool.close)
    with pytest.raises(EvaluatorError, match="the pool of workers is closed"):
        all(pool.evaluate(BATCH) for _ in range(1000))  # until it is closed
    thread.join()


HEAD = """
import signal, sys, time
from importlib import import_module
from pathlib import Path
from graphsearch.evaluators.pool import PooledEvaluator
from graphsearch.evaluators.protocol import PositionBatch
from tests.support.pools import Oracle, all_ready, games, until

log = Path(sys.argv[0]).parent / "log"
if __name__ == "__main__":
"""
SCRIPT = """
    for number in {handled}:
        signal.signal(number, lambda *_: None)
    print("ready", flush=True)
    pool = PooledEvaluator(Oracle(log, {seconds}), 2)
    all_ready(pool)
    batch = PositionBatch.from_boards(games(200))
    {body}
"""


@pytest.fixture
def script(tmp_path: Path, log: Path) -> Iterator[Any]:
    """Starts a script that has a pool; what is left of it at the end of the test is killed."""
    started = []

    def start(body: str, seconds: float = 0.0, handled: tuple[int, ...] = (), text: str = SCRIPT) -> Any:
        text = HEAD + text.format(seconds=seconds, body=body, handled=handled)
        process: Any = pools.run_script(tmp_path / "script.py", text)
        started.append(process)
        assert process.stdout.readline() == "ready\n", process.communicate()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


@needs_proc
def test_workers_vanish_with_a_parent_that_is_killed(script: Any, log: Path) -> None:
    process = script("while True:\n        pool.evaluate(batch)", 0.05)
    pools.until(lambda: len(list(log.iterdir())) == 2)
    found = pools.children(process.pid)
    assert workers_of(log) <= set(found)
    process.kill()
    pools.until(lambda: not any(pools.is_alive(child) for child in found))


@needs_proc
def test_signals_to_the_whole_group_leave_the_workers_at_work_and_the_program_ends_without_a_word(
    script: Any, log: Path
) -> None:
    numbers = (signal.SIGINT, signal.SIGHUP)
    waits = "until((log.parent / 'sent').exists)"  # at its very end Python lets signals kill a process
    body = f"print(len(pool.evaluate(batch).wdl)); {waits}"  # and ends without closing its pool
    process = script(body, 0.01, tuple(map(int, numbers)))
    for turn in range(40):  # as workers start
        os.killpg(process.pid, numbers[turn % 2])
        time.sleep(0.02)
    for count in (1, 60, 120):  # in the middle
        pools.until(lambda count=count: len(pools.evaluated(log)) >= count)  # type: ignore[misc]
        for number in numbers:
            os.killpg(process.pid, number)
    (log.parent / "sent").touch()
    out, err = process.communicate(timeout=120)
    assert (out, err, process.returncode) == ("200\n", "", 0)
    assert len(pools.evaluated(log)) == 200
    assert sum(file.name.isdigit() for file in log.iterdir()) == 2


# ---------------------------------------------------------- Ray: two nodes here, of which one is killed
# found, not imported: every process of tests reads this file
def needs_ray(test: Any) -> Any:
    found = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install '.[ray]'")
    return found(pytest.mark.usefixtures("_quiet")(test))


NODE: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 80_000_000}
QUIET = ray_workers.ENVIRONMENT | {"RAY_AUTH_MODE": "disabled"}  # no token in the home folder
QUICK = {  # so that a node that is gone is missed within seconds
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of two nodes with two CPUs each; its workers can import the tests."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        for name, value in QUIET.items():
            patch.setenv(name, value)
        found: Any = Cluster(
            initialize_head=True,
            head_node_args=NODE | {"include_dashboard": False, "_system_config": QUICK},
        )
        found.add_node(**NODE)
        yield found
        found.shutdown()
        with warnings.catch_warnings():  # Python would warn of processes that Ray does not wait for
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)


# ---------------------------------------------------------- a cluster of one's own
RAY_SCRIPT = """
    with import_module("graphsearch.cli.progress").StopSignals() as signals:
        pool = PooledEvaluator(Oracle(log, 0.01), 2, "ray")
        signals.arm()
        batch = PositionBatch.from_boards(games(64))
        pool.evaluate(batch)
        print("ready", flush=True)
        signals.stop.wait(60)
        print(len(pool.evaluate(batch).wdl), flush=True)
        time.sleep(4)  # Ray would abort a process three seconds after SIGTERM
        until(lambda: signals._count > 1)
        pool.close()
    print("saved")
    sys.exit(signals.exit_code)
"""


@needs_ray
@pytest.mark.slow
def test_a_cluster_of_ones_own_survives_signals_and_ends_with_the_program(script: Any) -> None:
    process = script("", text=RAY_SCRIPT)
    started = pools.children(process.pid)
    process.terminate()  # alone: no group of processes survives this one
    assert process.stdout.readline() == "64\n", process.communicate()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (out, process.returncode) == ("saved\n", 143)
    assert [line.split(":")[0].split(";")[0] for line in err.splitlines()] == ["Stopping", "Still saving"]
    pools.until(lambda: not any(pools.is_alive(child) for child in started))


# ---------------------------------------------------------- two nodes
@needs_ray
@pytest.mark.slow
def test_an_actor_that_is_killed_is_started_again_and_its_part_done_by_another(nodes: Any, log: Path) -> None:
    with PooledEvaluator(pools.Oracle(log, 0.01), 2, f"ray:{nodes.address}") as pool:
        pool.evaluate(PositionBatch.from_boards(pools.games(64)))
        first = workers_of(log)
        thread = pools.in_the_middle(
            lambda: len(pools.evaluated(log)) > 80, lambda: os.kill(min(first), signal.SIGKILL)
        )
        for _ in range(3):
            assert np.array_equal(pool.evaluate(BATCH).wdl, HashEvaluator().evaluate(BATCH).wdl)
        thread.join()
        names = workers_of(log)
        pools.until(lambda: pool.evaluate(BATCH) is not None and len(list(log.iterdir())) > len(first))
        assert names >= first


@needs_ray
@pytest.mark.slow
def test_what_cannot_be_made_on_a_cluster_is_one_line_that_says_where(nodes: Any, log: Path) -> None:
    with pytest.raises(EvaluatorError, match=r"^the network /no/such.pb.gz cannot be read.*process \d+\)$"):
        PooledEvaluator(partial(create, "lc0:/no/such.pb.gz"), 2, f"ray:{nodes.address}")


@needs_ray
@pytest.mark.slow
def test_a_node_killed_in_the_middle_of_a_search_costs_nothing_but_time(
    nodes: Any, log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = pools.searched(HashEvaluator(), 800)
    victim = nodes.worker_nodes[0] if isinstance(nodes.worker_nodes, list) else next(iter(nodes.worker_nodes))
    before = signal.getsignal(signal.SIGTERM)
    with PooledEvaluator(pools.Oracle(log, 0.005), 4, f"ray:{nodes.address}") as pool:
        assert signal.getsignal(signal.SIGTERM) == before
        everyone = PositionBatch.from_boards(pools.games(64))
        pools.until(lambda: pool.evaluate(everyone) is not None and len(list(log.iterdir())) == 4)
        workers = workers_of(log)
        for file in log.iterdir():
            file.unlink()
        thread = pools.in_the_middle(
            lambda: len(pools.evaluated(log)) > 150, lambda: nodes.remove_node(victim, allow_graceful=False)
        )
        found = pools.searched(pool, 800)
        thread.join()
        assert sum(map(pools.is_alive, workers)) == 2  # it was the middle, and they were two of four
    assert found == plain
    assert len(set(pools.evaluated(log))) == found[1]  # no result is lost
    assert capfd.readouterr() == ("", "")  # Ray says nothing: results belong on stdout


# ---------------------------------------------------------- which cluster
@needs_ray
@pytest.mark.parametrize(
    ("named", "given", "asked"),
    [
        (None, "", ["auto"]),
        ("", "", ["auto"]),
        ("local", "", ["local"]),
        ("auto", "", ["auto"]),
        ("local", "auto", ["auto"]),
    ],
)
def test_a_cluster_is_joined_by_name_or_because_it_runs_here_unless_local_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, named: str | None, given: str, asked: list[str]
) -> None:
    assert os.environ["RAY_ADDRESS"] == "local", "no test joins what runs here by chance"
    monkeypatch.delenv("RAY_ADDRESS")
    if named is not None:
        monkeypatch.setenv("RAY_ADDRESS", named)
    found: list[str] = []
    ray = SimpleNamespace(is_initialized=lambda: bool(found), init=lambda address, **_: found.append(address))
    ray.remote = lambda kind: SimpleNamespace(options=lambda **_: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(ray_workers.RaySite, "_silence", lambda self: None)
    joined = ray_workers.RaySite(given, 2)
    assert (found, joined.is_remote) == (asked, asked != ["local"])


# ---------------------------------------------------------- without a cluster
@needs_ray
def test_an_address_where_nothing_listens_is_refused_within_seconds(log: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(EvaluatorError, match=f"no Ray cluster answers at {address}: Connection refused"):
            PooledEvaluator(pools.Oracle(log), 2, f"ray:{address}")


@needs_ray
@pytest.mark.parametrize("address", ["nowhere", "host:port", "host:0", "ray://host:10001", ":6379"])
def test_what_is_no_address_is_wrong_use(log: Path, address: str) -> None:
    with pytest.raises(InvalidParameterError, match="HOST:PORT or auto"):
        PooledEvaluator(pools.Oracle(log), 2, f"ray:{address}")


@needs_ray
def test_without_ray_one_line_says_how_to_install_it(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(EvaluatorError, match=r"pip install '\.\[ray\]'"):
        PooledEvaluator(pools.Oracle(log), 2, "ray")
