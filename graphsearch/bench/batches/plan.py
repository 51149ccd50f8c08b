"""What `graphsearch bench --batches` measures: which graphs, batches and positions, and what that costs.

filling   evaluator x graph size x root x batch x gatherer      one wave each, timed, nothing beside it
price     evaluator x evaluations x position                    all gatherers and batches, on every core
solved    evaluator x evaluations x problem                     the same
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...evaluators.factory import create
from ...evaluators.kinds import BUILTIN, EXTERNAL, UNIFORM
from ...search.params import GATHERERS

BATCHES = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)
SIZES = (1_000, 20_000, 100_000, 1_000_000)  # nodes
NODES = SIZES[-1]
LONGER = 4  # times as many evaluations as the search that tells waste from use


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured with one kind of evaluator.

    Attributes:
      largest_graph: nodes. graphs: of each size, from as many roots.
      repeats: timed gathers of each batch, at least; medians count.
      largest_wave: most positions of a wave that is evaluated to time it as a whole.
      timed: evaluations of the waves that are timed together, at least one wave.
      prices: (most evaluations, positions) in ascending order: a search of so many evaluations is compared
        on so many positions; none beyond the last.
      problems: most evaluations of a search that has to solve the EPD problems, 0 for none.
    """

    largest_graph: int
    graphs: int
    repeats: int
    largest_wave: int
    timed: int
    prices: tuple[tuple[int, int], ...] = ()
    problems: int = 0

    def positions(self, evaluations: int) -> int:
        """Returns on how many positions searches of so many evaluations are compared.

        >>> prices = ((1000, 40), (9000, 8))
        >>> effort = Effort(largest_graph=1, graphs=1, repeats=1, largest_wave=1, timed=1, prices=prices)
        >>> effort.positions(1000), effort.positions(1001), effort.positions(9001)
        (40, 8, 0)
        """
        return next((count for most, count in self.prices if evaluations <= most), 0)


FIVE_MINUTES: Mapping[int, Effort] = {
    UNIFORM: Effort(largest_graph=NODES, graphs=3, repeats=3, largest_wave=65536, timed=16384),
    BUILTIN: Effort(
        largest_graph=100_000,
        graphs=3,
        repeats=3,
        largest_wave=1024,
        timed=300,
        prices=((1_000, 40), (20_000, 8)),
        problems=1_000,
    ),
    EXTERNAL: Effort(
        largest_graph=20_000, graphs=2, repeats=3, largest_wave=256, timed=100, prices=((1_000, 8),)
    ),
}
FULL: Mapping[int, Effort] = {
    UNIFORM: Effort(largest_graph=1 << 40, graphs=5, repeats=5, largest_wave=65536, timed=16384),
    BUILTIN: Effort(
        largest_graph=1 << 40,
        graphs=5,
        repeats=5,
        largest_wave=65536,
        timed=300,
        prices=((1_000, 160), (20_000, 800), (100_000, 160)),
        problems=100_000,
    ),
    EXTERNAL: Effort(
        largest_graph=100_000,
        graphs=3,
        repeats=5,
        largest_wave=4096,
        timed=100,
        prices=((1_000, 48), (20_000, 48)),
        problems=20_000,
    ),
}
# evaluations a second and core by kind, roughly: for the estimate of the time left
RATES: Mapping[int, float] = {UNIFORM: 300_000, BUILTIN: 60_000, EXTERNAL: 300}
US_PER_LEAF = 4.0  # of a gather and of putting the graph back, roughly
CELL_SECONDS = 0.06  # of one cell at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run.

    Attributes:
      evaluators: names, as `evaluators.create` takes them. nodes: size of the largest graph.
      efforts: by kind of evaluator (`kernels.kinds`).
      positions: most of them that searches are compared on, whatever the efforts say; None: as they say.
      reference: positions with an engine's best move. epd: problems with their solutions (`bm`).
      workers: processes of the price; timing is done alone.
    """

    evaluators: tuple[str, ...] = ("uniform", "builtin")
    nodes: int = NODES
    efforts: Mapping[int, Effort] = field(default_factory=lambda: FIVE_MINUTES)
    positions: int | None = None
    reference: Path | None = None
    epd: Path | None = None
    batches: tuple[int, ...] = BATCHES
    gatherers: tuple[str, ...] = GATHERERS
    workers: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))

    def effort(self, evaluator: str) -> Effort:
        """Returns how much is measured with an evaluator."""
        return self.efforts[create(evaluator).kernel_kind]

    def all_sizes(self) -> tuple[int, ...]:
        """Returns the sizes of graphs: the usual ones below the largest, and the largest.

        >>> Plan(nodes=300_000).all_sizes()
        (1000, 20000, 100000, 300000)
        """
        return (*(size for size in SIZES if size < self.nodes), self.nodes)

    def sizes(self, evaluator: str) -> tuple[int, ...]:
        """Returns the sizes of graphs that are grown with an evaluator."""
        most = self.effort(evaluator).largest_graph
        return tuple(size for size in self.all_sizes() if size <= most)

    def positions_at(self, evaluator: str, evaluations: int) -> int:
        """Returns on how many positions searches of so many evaluations are compared."""
        count = self.effort(evaluator).positions(evaluations)
        return count if self.positions is None else min(count, self.positions)

    def prices(self, evaluator: str) -> tuple[int, ...]:
        """Returns the evaluations at which searches with an evaluator are compared."""
        return tuple(size for size in self.sizes(evaluator) if self.positions_at(evaluator, size))

    def problems(self, evaluator: str) -> tuple[int, ...]:
        """Returns the evaluations at which searches with an evaluator have to solve the EPD problems."""
        most = self.effort(evaluator).problems if self.epd else 0
        return tuple(size for size in self.prices(evaluator) if size <= most)

    def searched_batches(self, evaluations: int) -> tuple[int, ...]:
        """Returns the batches beyond 1 that differ in a search of so many evaluations.

        No wave there asks for more leaves than there are evaluations left: all larger batches are the same.

        >>> Plan().searched_batches(1000)
        (4, 16, 64, 256, 1024)
        """
        larger = [batch for batch in self.batches if batch > 1]
        below = [batch for batch in larger if batch < evaluations]
        return (*below, *larger[len(below) : len(below) + 1])

    def left_out(self) -> Iterator[str]:
        """Yields what a longer run would measure."""
        for evaluator in self.evaluators:
            sizes, prices = self.sizes(evaluator), self.prices(evaluator)
            yield from _missing("graphs", "nodes", evaluator, self.all_sizes(), sizes)
            if prices:
                yield from _missing("the price", "evaluations", evaluator, self.all_sizes(), prices)
            if prices and self.epd:
                yield from _missing("problems", "evaluations", evaluator, prices, self.problems(evaluator))
            most = self.effort(evaluator).largest_wave
            if most < max(self.batches):
                yield f"visits/s of waves of more than {most:,} positions with {evaluator}"

    # ---------------------------------------------------------- cost
    def filling_seconds(self, evaluator: str, size: int) -> float:
        """Returns roughly what one graph and its waves take."""
        effort, rate = self.effort(evaluator), RATES[create(evaluator).kernel_kind]
        before = max((s for s in self.sizes(evaluator) if s < size), default=0)
        leaves = sum(min(batch, size) for batch in self.batches)
        evaluated = sum(min(batch, size) for batch in self.batches if batch <= effort.largest_wave)
        each = leaves * (effort.repeats + 1) * US_PER_LEAF / 1e6 + evaluated / rate
        return (size - before) / rate + len(self.gatherers) * (each + len(self.batches) * CELL_SECONDS)

    def price_seconds(self, evaluator: str, evaluations: int, *, longer: bool) -> float:
        """Returns roughly what the searches of one position take, shared by all workers."""
        searches = len(self.gatherers) * len(self.searched_batches(evaluations)) + (LONGER if longer else 1)
        return searches * evaluations / RATES[create(evaluator).kernel_kind] / self.workers


def _missing(
    what: str, unit: str, evaluator: str, wanted: tuple[int, ...], done: tuple[int, ...]
) -> Iterator[str]:
    missing = [f"{size:,}" for size in wanted if size not in done]
    if missing:
        yield f"{what} at {' and '.join(missing)} {unit} with {evaluator}"
