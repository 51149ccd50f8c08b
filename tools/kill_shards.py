"""Kills shards of a search at random moments, and says what that cost: `python -m tools.kill_shards`.

A search over four shards is killed again and again while it goes on: one process of this machine at a time,
or with `--ray` the whole second node of a Ray cluster on this machine, on which all shards are, and which is
then replaced. At the end the cluster must verify, and hold the records of the search in one process.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch.cluster import hosts, master
from graphsearch.cluster.host import Setting
from graphsearch.cluster.parting import merge
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.graph.graph import Graph
from graphsearch.record.node import RecordBatch
from graphsearch.search.loop import analyze
from graphsearch.search.params import Limits, SearchParams
from graphsearch.store.store import Store
from graphsearch.store.upkeep.verify import verify
from graphsearch.workers.ray_cluster import ENVIRONMENT

SPEC = EvaluatorSpec(evaluator="uniform")
PARAMS = SearchParams(overlap=0, minibatch_size=4096)
SAVE_SECONDS = 0.5
QUICK = {  # so that a node that is gone is missed within seconds
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
}
NODE: dict[str, Any] = {"num_cpus": 4, "object_store_memory": 80_000_000}


class Killer:
    """Kills at random moments of a search, so many times."""

    def __init__(self, times: int, seed: int) -> None:
        self.left, self.done = times, 0
        self._draw = random.Random(seed)
        self._next = 0.0  # none yet: counted from when the search is seen to run

    def _moment(self) -> float:
        return time.monotonic() + self._draw.uniform(0.5, 4.0)

    def kill(self) -> None:
        """Kills one of what runs."""
        raise NotImplementedError

    def look(self, progress: Any) -> None:
        """Kills if it is time; called while the search goes on."""
        if not self._next:
            self._next = self._moment()
        elif self.left and time.monotonic() > self._next:
            self.left, self.done = self.left - 1, self.done + 1
            self.kill()
            self._next = 0.0

    def restarted(self, line: str) -> None:
        """Says what was lost."""
        self._next = 0.0
        print(f"{self.done}: {line}", file=sys.stderr, flush=True)


class LocalKiller(Killer):
    """Kills processes of this machine."""

    def __init__(self, times: int, seed: int, shards: int) -> None:
        super().__init__(times, seed)
        started: list[hosts.ShardProcess] = []
        self._started, self._shards = started, shards

        class Known(hosts.Hosts):
            def start(self, setting: Setting) -> hosts.ShardProcess:
                started.append(super().start(setting))
                return started[-1]

        hosts.Hosts = Known  # type: ignore[misc]

    def kill(self) -> None:
        """Kills one of the shards that run now."""
        self._draw.choice(self._started[-self._shards :]).kill()


class NodeKiller(Killer):
    """Kills the node of a Ray cluster that has the shards, and adds another one."""

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
        """Kills the node at once, and adds the next one: Ray wants the main thread for that."""
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


def main() -> None:
    """Searches, kills, compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--visits", type=int, default=20_000_000, help="ends later if kills are left")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ray", action="store_true", help="kill the node of a Ray cluster")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, limits = Path(name), Limits(visits=chosen.visits)
        killer = (
            NodeKiller(chosen.kills, chosen.seed, stack)
            if chosen.ray
            else LocalKiller(chosen.kills, chosen.seed, chosen.shards)
        )
        found = master.analyze(
            folder / "a.cluster",
            chess.Board(),
            limits,
            PARAMS,
            evaluator=SPEC,
            shards=chosen.shards,
            pool="ray" if chosen.ray else None,
            on_progress=killer.look,
            on_loss=killer.restarted,
            interval=0.1,
            save_seconds=SAVE_SECONDS,
        )
        report = verify(folder / "a.cluster")
        merge(folder / "a.cluster", folder / "whole.graph")
        with Graph.open(folder / "one.graph", evaluator="uniform") as graph:
            analyze(graph, chess.Board(), limits, PARAMS)
        equal = same(folder / "one.graph", folder / "whole.graph")
    print(f"kills {killer.done}, losses that were gone on from {len(found.losses)}")
    print(f"nodes {found.result.nodes:,}, visits {found.result.new_visits:,}")
    print(f"verify: {'sound' if report.ok else report.problems[:3]}")
    print(f"equal to one process: {'yes' if equal else 'NO'}")
    sys.exit(0 if report.ok and equal else 1)


if __name__ == "__main__":
    main()
