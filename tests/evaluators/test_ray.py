"""Pools of Ray's actors: a cluster of two nodes on this machine, one of which is killed."""

from __future__ import annotations

import os
import signal
import socket
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
from graphsearch.evaluators.protocol import PositionBatch
from graphsearch.workers import ray_workers
from graphsearch.workers.ray_workers import ENVIRONMENT

from ..conftest import ROOT
from ..support.pools import (
    Oracle,
    children,
    evaluated,
    games,
    in_the_middle,
    is_alive,
    run_script,
    searched,
    until,
)
from ..support.ray_clusters import shut_down
from ..support.reference import HashEvaluator

# found, not imported: every process of tests reads this file
pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install '.[ray]'")

BATCH = PositionBatch.from_boards(games(200))
NODE: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 80_000_000}
QUIET = ENVIRONMENT | {"RAY_AUTH_MODE": "disabled"}  # no token in the home folder
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
        shut_down(found)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(ROOT)
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


# ---------------------------------------------------------- a cluster of one's own
SCRIPT = """
import sys, time
from pathlib import Path
from importlib import import_module
from graphsearch.evaluators.pool import PooledEvaluator
from graphsearch.evaluators.protocol import PositionBatch
from tests.support.pools import Oracle, games, until

if __name__ == "__main__":
    log = Path(sys.argv[0]).parent / "log"
    with import_module("graphsearch.cli.signals").StopSignals() as signals:
        pool = PooledEvaluator(Oracle(log, 0.01), 2, "ray")
        signals.arm()
        batch = PositionBatch.from_boards(games(64))
        print(len(pool.evaluate(batch).wdl), flush=True)
        signals.stop.wait(60)
        print(len(pool.evaluate(batch).wdl), flush=True)
        time.sleep(4)  # Ray would abort a process three seconds after SIGTERM
        until(lambda: signals._count > 1)
        pool.close()
    print("saved")
    sys.exit(signals.exit_code)
"""


@pytest.mark.slow
def test_a_cluster_of_ones_own_survives_signals_and_ends_with_the_program(tmp_path: Path, log: Path) -> None:
    process = run_script(tmp_path / "script.py", SCRIPT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "64\n", process.communicate()
        started = children(process.pid)
        process.terminate()  # alone: no group of processes survives this one
        assert process.stdout.readline() == "64\n", process.communicate()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (out, process.returncode) == ("saved\n", 143)
    assert [line.split(":")[0].split(";")[0] for line in err.splitlines()] == ["Stopping", "Still saving"]
    until(lambda: not any(is_alive(child) for child in started))


# ---------------------------------------------------------- two nodes
@pytest.mark.slow
def test_an_actor_that_is_killed_is_started_again_and_its_part_done_by_another(nodes: Any, log: Path) -> None:
    with PooledEvaluator(Oracle(log, 0.01), 2, f"ray:{nodes.address}") as pool:
        pool.evaluate(PositionBatch.from_boards(games(64)))
        first = {int(file.name) for file in log.iterdir()}
        thread = in_the_middle(lambda: len(evaluated(log)) > 80, lambda: os.kill(min(first), signal.SIGKILL))
        for _ in range(3):
            found = pool.evaluate(BATCH)
            assert np.array_equal(found.wdl, HashEvaluator().evaluate(BATCH).wdl)
        thread.join()
        names = {int(file.name) for file in log.iterdir()}
        until(lambda: pool.evaluate(BATCH) is not None and len(list(log.iterdir())) > len(first))
        assert names >= first


@pytest.mark.slow
def test_what_cannot_be_made_on_a_cluster_is_one_line_that_says_where(nodes: Any, log: Path) -> None:
    with pytest.raises(EvaluatorError, match=r"^the network /no/such.pb.gz cannot be read.*process \d+\)$"):
        PooledEvaluator(partial(create, "lc0:/no/such.pb.gz"), 2, f"ray:{nodes.address}")


@pytest.mark.slow
def test_a_node_killed_in_the_middle_of_a_search_costs_nothing_but_time(
    nodes: Any, log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = searched(HashEvaluator(), 800)
    victim = nodes.worker_nodes[0] if isinstance(nodes.worker_nodes, list) else next(iter(nodes.worker_nodes))
    before = signal.getsignal(signal.SIGTERM)
    with PooledEvaluator(Oracle(log, 0.005), 4, f"ray:{nodes.address}") as pool:
        assert signal.getsignal(signal.SIGTERM) == before
        everyone = PositionBatch.from_boards(games(64))
        until(lambda: pool.evaluate(everyone) is not None and len(list(log.iterdir())) == 4)
        workers = [int(file.name) for file in log.iterdir()]
        for file in log.iterdir():
            file.unlink()
        thread = in_the_middle(
            lambda: len(evaluated(log)) > 150, lambda: nodes.remove_node(victim, allow_graceful=False)
        )
        found = searched(pool, 800)
        thread.join()
        assert sum(map(is_alive, workers)) == 2  # it was the middle, and they were two of four
    assert found == plain
    assert len(set(evaluated(log))) == found[1]  # no result is lost
    assert capfd.readouterr() == ("", "")  # Ray says nothing: results belong on stdout


# ---------------------------------------------------------- which cluster
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
    monkeypatch.setattr(ray_workers, "import_ray", lambda: ray)
    monkeypatch.setattr(ray_workers.RaySite, "_silence", lambda self: None)
    joined = ray_workers.RaySite(given, 2)
    assert (found, joined.is_remote) == (asked, asked != ["local"])


# ---------------------------------------------------------- without a cluster
def test_an_address_where_nothing_listens_is_refused_within_seconds(log: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(EvaluatorError, match=f"no Ray cluster answers at {address}: Connection refused"):
            PooledEvaluator(Oracle(log), 2, f"ray:{address}")


@pytest.mark.parametrize("address", ["nowhere", "host:port", "host:0", "ray://host:10001", ":6379"])
def test_what_is_no_address_is_wrong_use(log: Path, address: str) -> None:
    with pytest.raises(InvalidParameterError, match="HOST:PORT or auto"):
        PooledEvaluator(Oracle(log), 2, f"ray:{address}")


def test_without_ray_one_line_says_how_to_install_it(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(EvaluatorError, match=r"pip install '\.\[ray\]'"):
        PooledEvaluator(Oracle(log), 2, "ray")
