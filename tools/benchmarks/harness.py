"""Runs benchmarks and summarises their samples.

A benchmark yields samples: dicts of key columns, which identify a measurement, and of figures. Samples with
equal keys are repeats of one measurement and become one row.

    repeats    figures are medians; a compared one gets `NAME_ratio`, the median of the ratios to the base
    positions  figures are means with `NAME_error`; a compared one gets `NAME_less`, the mean difference
               to the base, and `NAME_less_error`

The base is the first row that differs in the column `across` only. Ratios and differences pair samples in
the order of their arrival. Errors are standard errors.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, is_dataclass
from multiprocessing import get_context
from numbers import Real
from statistics import fmean, median, stdev
from typing import Any, TypeVar, get_type_hints

from graphsearch.cli.bench.speed import machine

Row = dict[str, Any]
Measure = Callable[..., Iterator[Row]]
T = TypeVar("T")

REGISTRY = {  # name -> module and function
    "aims": "aims.aims",
    "alphabeta": "alphabeta.alphabeta",
    "beyond-memory": "memory.beyond_memory",
    "book-workers": "workers.book_workers",
    "cluster": "cluster.cluster",
    "conversion": "conversion.conversion",
    "engine": "evaluators.engine",
    "explorer": "explorer.explorer",
    "explorer-lag": "explorer.lag",
    "explorer-search": "explorer.search",
    "exports": "exports.exports",
    "filling": "filling.filling",
    "games": "games.games",
    "kills": "kills.kills",
    "mates": "mates.mates",
    "mates-beside": "mates.beside",
    "network": "evaluators.network",
    "pool": "workers.pool",
    "quality": "quality.quality",
    "review": "review.review",
    "scale": "scale.scale",
    "simulation": "simulation.simulation",
    "soak": "soak.soak",
    "threads": "threads.threads",
}
SAY_SECONDS = 10.0  # between two progress lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A measurement, and how to summarise its samples.

    Attributes:
      measure: yields the samples; its keyword arguments are the command line's options.
      keys: columns that identify a measurement.
      across, compare: the key with the base as its first value, and the figures to compare with the base.
      positions: whether samples are from different positions: means and differences, not medians and ratios.
      plot: the key on the x axis, and the figures to draw.
    """

    measure: Measure
    keys: tuple[str, ...]
    across: str | None = None
    compare: tuple[str, ...] = ()
    positions: bool = False
    plot: tuple[str, tuple[str, ...]] | None = None

    @property
    def text(self) -> str:
        """The docstring of the measurement."""
        return inspect.cleandoc(self.measure.__doc__ or "")


def benchmark(*keys: str, **how: Any) -> Callable[[Measure], Benchmark]:
    """Returns a decorator that converts a generator of samples to a `Benchmark`."""
    return lambda measure: Benchmark(measure=measure, keys=keys, **how)


def find(name: str) -> Benchmark:
    """Returns a benchmark of the registry."""
    module, _, function = REGISTRY[name].partition(".")
    found = getattr(importlib.import_module(f"tools.benchmarks.{module}"), function)
    assert isinstance(found, Benchmark)
    return found


def options_of(measure: Measure) -> Iterator[tuple[str, Any, Any]]:
    """Yields name, type and default of every option of a measurement; expands dataclasses to their fields."""
    types = get_type_hints(measure)
    for name, parameter in inspect.signature(measure).parameters.items():
        if is_dataclass(types[name]):
            own = get_type_hints(types[name])
            yield from ((field.name, own[field.name], field.default) for field in fields(types[name]))
        else:
            yield name, types[name], parameter.default


def samples_with(measure: Measure, options: Row) -> Iterator[Row]:
    """Returns the samples of a measurement with the given options, and defaults for the others."""
    types, given = get_type_hints(measure), dict(options)
    bundles = {
        name: types[name] for name in inspect.signature(measure).parameters if is_dataclass(types[name])
    }
    made = {
        name: kind(**{field.name: given.pop(field.name) for field in fields(kind) if field.name in given})
        for name, kind in bundles.items()
    }
    return measure(**given, **made)


# ------------------------------------------------------------------ running
def fresh(work: Callable[..., T], *arguments: Any) -> T:
    """Returns the result of a call in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def samples_of(name: str, options: Row) -> list[Row]:
    """Returns the samples of one run; reports progress on stderr."""
    chosen, found, said = find(name), list[Row](), time.monotonic()
    for sample in samples_with(chosen.measure, options):
        found.append(sample)
        if time.monotonic() - said > SAY_SECONDS:
            said = time.monotonic()
            print(
                *(f"{key} {sample[key]}" for key in chosen.keys if key in sample), sep=", ", file=sys.stderr
            )
    return found


def run(name: str, options: Row, repeats: int = 1) -> Row:
    """Returns the result of a benchmark: its rows, and the samples of all repeats.

    A single run is in this process; each of several runs is in a new one.
    """
    if repeats == 1:
        samples = samples_of(name, options)
    else:
        samples = [sample for _ in range(repeats) for sample in fresh(samples_of, name, options)]
    return {
        "benchmark": name,
        "machine": machine(),
        "options": {key: _plain(value) for key, value in options.items()},
        "rows": summarised(find(name), samples),
        "samples": samples,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, int | float | str | None) else str(value)


# ------------------------------------------------------------------ summing up
def summarised(how: Benchmark, samples: Iterable[Row]) -> list[Row]:
    """Returns a row for each measurement, in the order of their first samples.

    >>> how = benchmark("n", across="n", compare=("us",))(lambda: iter(()))
    >>> summarised(how, [{"n": n, "us": us} for n, us in ((1, 4), (2, 2), (1, 9), (2, 3), (1, 5), (2, 5))])
    [{'n': 1, 'us': 5, 'samples': 3}, {'n': 2, 'us': 3, 'us_ratio': 0.5, 'samples': 3}]
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for sample in samples:
        groups.setdefault(tuple(sample.get(key) for key in how.keys), []).append(sample)
    bases: dict[tuple[Any, ...], list[Row]] = {}
    rows = []
    for key, group in groups.items():
        others = tuple(value for name, value in zip(how.keys, key, strict=True) if name != how.across)
        base = bases.setdefault(others, group)
        rows.append(_row(how, group, base if how.across and base is not group else None))
    return rows


def _row(how: Benchmark, group: Sequence[Row], base: Sequence[Row] | None) -> Row:
    row: Row = {key: group[0][key] for key in how.keys if key in group[0]}
    for name in dict.fromkeys(name for sample in group for name in sample if name not in row):
        values = [sample.get(name) for sample in group]
        numbers: list[Any] = [value for value in values if _is_number(value)]
        if not numbers:
            row[name] = values[-1]
        elif how.positions:
            row |= _mean(name, numbers)
        else:
            middle = median(numbers)
            row[name] = (
                int(middle) if all(isinstance(n, int) for n in numbers) and middle % 1 == 0 else middle
            )
        if base and name in how.compare and numbers:
            row |= _compared(how, name, group, base)
    return row | ({"samples": len(group)} if len(group) > 1 else {})


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _mean(name: str, numbers: Sequence[Any]) -> Row:
    values = [float(number) for number in numbers]
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return {name: fmean(values), f"{name}_error": error}


def _compared(how: Benchmark, name: str, group: Sequence[Row], base: Sequence[Row]) -> Row:
    found = ((ours.get(name), theirs.get(name)) for ours, theirs in zip(group, base, strict=False))
    pairs: list[Any] = [(a, b) for a, b in found if _is_number(a) and _is_number(b)]
    if how.positions:
        return _mean(f"{name}_less", [float(a - b) for a, b in pairs]) if pairs else {}
    ratios = [a / b for a, b in pairs if b]
    return {f"{name}_ratio": round(median(ratios), 4)} if ratios else {}
