"""What `graphsearch bench --offload` measures with: clocks, counters of the system, a slow evaluator."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import chess
import numpy as np

from ...errors import GraphSearchError
from ...evaluators.protocol import Evaluation, Evaluator, PositionBatch
from ...evaluators.uniform import UniformEvaluator
from ...graph.graph import Graph
from ...search.loop import analyze
from ...search.params import SearchParams
from ...search.results import Progress
from ...workers.process import counters
from ..board_kernel import spin

SLOW_US = 100.0  # microseconds that the slow evaluator takes for a position
SLICES = 10  # parts of a measured search, of which the median counts
LONGEST_WARM_UP = 8  # times the wished-for one, if memory does not fill

_ROUNDS = 500_000
_REPEATS = 60


# ------------------------------------------------------------------ the system's counters
def resident_bytes() -> int | None:
    """Returns the bytes that this process has in memory now, None where that is not told."""
    kib = counters("status").get("VmRSS")
    return None if kib is None else kib << 10


def io_counters() -> dict[str, int]:
    """Returns this process's bytes given to write() (`wchar`), written to disk and read from it, and more."""
    return counters("io")


def queued_seconds() -> float:
    """Returns how long this thread has waited for a core, 0.0 where that is not told.

    It tells the load of the machine, which is no fault of the search, from waiting for disk or locks.
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def per(count: int, before: dict[str, int], name: str) -> float | None:
    """Returns by how much a counter of `io_counters` has grown, divided; None where it is not told."""
    now = io_counters()
    if name not in now or name not in before or not count:
        return None
    return round((now[name] - before[name]) / count, 1)


# ------------------------------------------------------------------ where time goes
class Stopwatch:
    """The seconds that chosen methods take, each without the chosen ones that it calls; for one thread.

    Attributes:
      seconds, calls: by the names that were given to the methods.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._inside: list[float] = []

    def watch(self, owner: object, method: str, name: str) -> None:
        """Counts the time of a method of one object under a name."""
        inner = getattr(owner, method)

        @wraps(inner)
        def outer(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            begin = time.perf_counter()
            self._inside.append(0.0)
            try:
                return inner(*args, **kwargs)
            finally:
                spent = time.perf_counter() - begin
                self.seconds[name] += spent - self._inside.pop()
                if self._inside:
                    self._inside[-1] += spent

        setattr(owner, method, outer)


# ------------------------------------------------------------------ a slow evaluator
def rounds_per_us() -> float:
    """Returns how many steps of `spin` one core does in a microsecond while another one is busy too."""
    spin(1)
    other = threading.Thread(target=spin, args=(2 * _REPEATS * _ROUNDS,), daemon=True)
    other.start()
    seconds = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        spin(_ROUNDS)
        seconds.append(time.perf_counter() - begin)
    other.join()
    return _ROUNDS / (1e6 * min(seconds))  # the least disturbed one


class SlowEvaluator(Evaluator):
    """Answers like `uniform`, from outside the kernels, and keeps one core busy for some time a position.

    Attributes:
      seconds, positions: what it took so far, and for how many.
    """

    identity = UniformEvaluator.identity

    def __init__(self, rounds: int) -> None:
        """Makes one that does so many steps of `spin` a position."""
        self._rounds = rounds
        self._uniform = UniformEvaluator()
        self.seconds = 0.0
        self.positions = 0

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns equal probabilities, late."""
        begin = time.perf_counter()
        spin(self._rounds * len(batch))
        answer = self._uniform.evaluate(batch)
        self.seconds += time.perf_counter() - begin
        self.positions += len(batch)
        return answer

    @property
    def us(self) -> float:
        """Microseconds a position, as measured; 0 if it was never asked."""
        return 1e6 * self.seconds / self.positions if self.positions else 0.0


# ------------------------------------------------------------------ the rates of a search
@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What has been counted at one moment of a search.

    Attributes:
      wall, cpu, thread: seconds of the clock, of the process's CPU time, of this thread's.
      queued: seconds that this thread has waited for a core.
      done: visits or evaluations. nodes: of the graph. parts, calls: a stopwatch's.
    """

    wall: float
    cpu: float
    thread: float
    queued: float
    done: int
    visits: int
    nodes: int
    read_back: int
    written: int
    parts: dict[str, float]
    calls: Counter[str]


@dataclass
class SearchRates:
    """How a search went: its marks (seconds, done) after every step, and two moments between which it counts.

    Attributes:
      finished: when `search` returned, all saved; what was left to save after the last step is in it.
    """

    marks: list[tuple[float, int]] = field(default_factory=list)
    begin: Moment | None = None
    end: Moment | None = None
    finished: float = 0.0

    def rate(self) -> float:
        """Returns visits or evaluations a second of the clock: the median of some parts of equal work."""
        begin, end = self._ends()
        seconds, done = np.array(self.marks, np.float64).T
        bounds = np.linspace(begin.done, end.done, SLICES + 1)
        rates = np.diff(bounds) / np.diff(np.interp(bounds, done, seconds))
        return float(np.median(rates))

    def whole_rate(self) -> float:
        """Returns the same over all, until the last record was saved."""
        begin, end = self._ends()
        return (end.done - begin.done) / (self.finished - begin.wall)

    def cpu_rate(self) -> float:
        """Returns the same per second of the process's CPU time, until the last step."""
        begin, end = self._ends()
        return (end.done - begin.done) / (end.cpu - begin.cpu)

    def longest_gap(self) -> float:
        """Returns the longest time between two steps, of a warm-up too; 0 if there was one step only."""
        return max((b[0] - a[0] for a, b in zip(self.marks, self.marks[1:], strict=False)), default=0.0)

    def figures(self, suffix: str) -> dict[str, float | int | None]:
        """Returns what the measured part read, wrote and spent its time on; `share_*` of the wall time."""
        a, b = self._ends()
        visits, wall = max(1, b.visits - a.visits), b.wall - a.wall
        parts = {name: (b.parts[name] - a.parts.get(name, 0.0)) / wall for name in b.parts}
        found = {
            "new_nodes_per_visit": (b.nodes - a.nodes) / visits,
            "reads_per_visit": (b.read_back - a.read_back) / visits,
            "records_per_read": (b.read_back - a.read_back) / max(1, (b.calls - a.calls)["reading"]),
            "records_written_per_visit": (b.written - a.written) / visits,
            "cores_used": (b.cpu - a.cpu) / wall,
            "search_thread_busy": (b.thread - a.thread) / wall,
            "search_thread_queued": (b.queued - a.queued) / wall,
            **{f"share_{name}": share for name, share in parts.items()},
            "share_waves": 1 - sum(parts.values()),
        }
        return {f"{name}_{suffix}": round(value, 3) for name, value in found.items()}

    def _ends(self) -> tuple[Moment, Moment]:
        assert self.begin is not None
        assert self.end is not None
        return self.begin, self.end


class MeasuredSearch:
    """A search of the start position that stops by itself once so much was done after a warm-up."""

    def __init__(
        self,
        graph: Graph,
        *,
        of: str,
        warm_up: int,
        amount: int,
        batch: int,
        is_warm: Callable[[], bool] = lambda: True,
        watch: Stopwatch | None = None,
    ) -> None:
        """Prepares one.

        Args:
          of: what is counted, `new_visits` or `evaluations`.
          warm_up: how many of them before it counts; more, up to a limit, until `is_warm`.
          amount: how many are measured.
          batch: leaves of a wave.
          watch: what counts where the time goes.
        """
        self._graph, self._of, self._batch, self._is_warm = graph, of, batch, is_warm
        self._warm_up, self._amount = warm_up, amount
        self._watch = watch or Stopwatch()
        self._stop = threading.Event()
        self._rates = SearchRates()

    def search(self) -> SearchRates:
        """Returns how it went, after all of it was saved.

        Raises:
          GraphSearchError: if it could not go on, as when the budget is too small for a wave.
        """
        params = SearchParams(minibatch_size=self._batch)
        result = analyze(
            self._graph, chess.Board(), None, params, on_progress=self._step, interval=0.0, stop=self._stop
        )
        self._rates.finished = time.perf_counter()
        if self._rates.end is None:
            raise GraphSearchError(f"a search of {self._amount:,} {self._of} ended by {result.stop_reason}")
        return self._rates

    def _step(self, progress: Progress) -> None:
        rates, done = self._rates, int(getattr(progress, self._of))
        if rates.end is not None:  # the one at the end, when nothing was done
            return
        rates.marks.append((time.perf_counter(), done))
        if rates.begin is None:
            if done >= self._warm_up and (self._is_warm() or done >= LONGEST_WARM_UP * self._warm_up):
                rates.begin = self._moment(progress, done)
        elif done - rates.begin.done >= self._amount:
            rates.end = self._moment(progress, done)
            self._stop.set()

    def _moment(self, progress: Progress, done: int) -> Moment:
        return Moment(
            wall=self._rates.marks[-1][0],
            cpu=time.process_time(),
            thread=time.thread_time(),
            queued=queued_seconds(),
            done=done,
            visits=progress.new_visits,
            nodes=progress.nodes,
            read_back=progress.read_back,
            written=progress.written,
            parts=dict(self._watch.seconds),
            calls=self._watch.calls.copy(),
        )
