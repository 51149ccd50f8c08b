"""Kills shards of a search at random moments, and checks that the search continues to the same records."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.graph.graph import Graph
from graphsearch.search.job import Control, SearchJob
from graphsearch.search.loop import analyze
from graphsearch.search.params import Limits, SearchParams
from graphsearch.search.shards import hosts, master
from graphsearch.search.shards.host import Setting
from graphsearch.search.shards.parting import merge
from graphsearch.store.record.node import RecordBatch
from graphsearch.store.store import Store
from graphsearch.store.upkeep.verify import verify
from graphsearch.workers.ray_workers import ENVIRONMENT

from .harness import Row, benchmark

SPEC = EvaluatorSpec(evaluator="uniform")
PARAMS = SearchParams(overlap=0, minibatch_size=4096)
SAVE_SECONDS = 0.5
QUICK = {  # detects a lost node within seconds
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
}
NODE: dict[str, Any] = {"num_cpus": 4, "object_store_memory": 80_000_000}


class Killer:
    """Kills a process or node at `times` random moments of a search."""

    def __init__(self, times: int, seed: int) -> None:
        self.left, self.done = times, 0
        self._draw = random.Random(seed)
        self._next = 0.0  # 0: not set; set at the next progress report of the search

    def _moment(self) -> float:
        return time.monotonic() + self._draw.uniform(0.5, 4.0)

    def kill(self) -> None:
        """Kills a process or node."""
        raise NotImplementedError

    def look(self, progress: Any) -> None:
        """Kills if the time has come; called as `on_progress`."""
        if not self._next:
            self._next = self._moment()
        elif self.left and time.monotonic() > self._next:
            self.left, self.done = self.left - 1, self.done + 1
            self.kill()
            self._next = 0.0

    def restarted(self, line: str) -> None:
        """Reports a loss on stderr; called as `on_loss`."""
        self._next = 0.0
        print(f"{self.done}: {line}", file=sys.stderr, flush=True)


class LocalKiller(Killer):
    """Kills processes of this machine."""

    def __init__(self, times: int, seed: int, shards: int, stack: ExitStack) -> None:
        super().__init__(times, seed)
        started: list[hosts.ShardProcess] = []
        self._started, self._shards = started, shards

        class Known(hosts.ShardLauncher):
            def start(self, setting: Setting) -> hosts.ShardProcess:
                started.append(super().start(setting))
                return started[-1]

        stack.callback(setattr, hosts, "ShardLauncher", hosts.ShardLauncher)
        hosts.ShardLauncher = Known  # type: ignore[misc]

    def kill(self) -> None:
        """Kills one of the running shards."""
        self._draw.choice(self._started[-self._shards :]).kill()


class NodeKiller(Killer):
    """Kills the node with the shards in a Ray cluster, and adds a new node."""

    def __init__(self, times: int, seed: int, stack: ExitStack) -> None:
        super().__init__(times, seed)
        import ray
        from ray.cluster_utils import Cluster

        os.environ.update(ENVIRONMENT | {"RAY_AUTH_MODE": "disabled", "PYTHONPATH": str(Path.cwd())})
        head = NODE | {"num_cpus": 0, "include_dashboard": False, "_system_config": QUICK}
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        stack.callback(self._cluster.shutdown)
        self._node = self._cluster.add_node(**NODE)
        ray.init(address=self._cluster.address, namespace="graphsearch", log_to_driver=False)
        stack.callback(ray.shutdown)

    def kill(self) -> None:
        """Kills the node and adds the next one; Ray requires the main thread for that."""
        with suppress(Exception):
            self._cluster.remove_node(self._node, allow_graceful=False)
        self._node = self._cluster.add_node(**NODE)


def same(one: Path, other: Path) -> bool:
    """Returns whether two files hold the same records, bit for bit."""
    with Store.open(one, read_only=True) as first, Store.open(other, read_only=True) as second:
        held = [RecordBatch.concat(list(store.scan())) for store in (first, second)]
    return all(
        np.array_equal(getattr(held[0], name), getattr(held[1], name)) for name in RecordBatch.__slots__
    )


@benchmark("shards", "ray")
def kills(
    *, times: int = 20, shards: int = 4, visits: int = 20_000_000, seed: int = 1, ray: bool = False
) -> Iterator[Row]:
    """Kills shards of a search at random moments: losses, soundness, records equal to those of one process.

    One process of this machine at a time is killed, or with --ray the second node of a Ray cluster on this
    machine, on which all shards are, and which is then replaced. A search of --visits may end before all
    kills are done.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        killer = NodeKiller(times, seed, stack) if ray else LocalKiller(times, seed, shards, stack)
        found = master.analyze(
            folder / "a.cluster",
            SearchJob(
                board=chess.Board(),
                limits=Limits(visits=visits),
                params=PARAMS,
                save_seconds=SAVE_SECONDS,
            ),
            Control(on_progress=killer.look, on_loss=killer.restarted, interval=0.1),
            evaluator=SPEC,
            shards=shards,
            pool="ray" if ray else None,
        )
        report = verify(folder / "a.cluster")
        merge(folder / "a.cluster", folder / "whole.graph")
        with Graph.open(folder / "one.graph", evaluator="uniform") as graph:
            analyze(graph, chess.Board(), Limits(visits=found.result.new_visits), PARAMS)
        yield {
            "shards": shards,
            "ray": ray,
            "kills": killer.done,
            "losses": len(found.losses),
            "nodes": found.result.nodes,
            "visits": found.result.new_visits,
            "sound": report.ok,
            "equal": same(folder / "one.graph", folder / "whole.graph"),
        }
