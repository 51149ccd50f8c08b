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
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from numbers import Real
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, TypeVar

Row = dict[str, Any]
Measure = Callable[..., Iterator[Row]]
T = TypeVar("T")

REGISTRY = {  # name -> module and function
    "beyond-memory": "memory.beyond_memory",
    "page": "page.page",
    "quality": "quality.quality",
    "saving": "saving.saving",
    "scale": "scale.scale",
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
    """

    measure: Measure
    keys: tuple[str, ...]
    across: str | None = None
    compare: tuple[str, ...] = ()
    positions: bool = False

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


# ------------------------------------------------------------------ running
def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Returns the wall seconds of a call, and the CPU-seconds of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def cpu_of(pid: int) -> float:
    """Returns the CPU time of a process and of those of its children that have ended (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def machine() -> str:
    """Returns the processor's name and number of cores, for people who compare figures."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return f"{models[0] if models else 'unknown processor'}, {os.cpu_count()} cores"


def fresh(work: Callable[..., T], *arguments: Any) -> T:
    """Returns the result of a call in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def samples_of(name: str, options: Row) -> list[Row]:
    """Returns the samples of one run; reports progress on stderr."""
    chosen, found, said = find(name), list[Row](), time.monotonic()
    for sample in chosen.measure(**options):
        found.append(sample)
        if time.monotonic() - said > SAY_SECONDS:
            said, names = time.monotonic(), (key for key in chosen.keys if key in sample)
            print(", ".join(f"{key} {sample[key]}" for key in names), file=sys.stderr)
    return found


def run(name: str, options: Row, repeats: int = 1) -> Row:
    """Returns the result of a benchmark: its rows, and the samples of all repeats.

    A single run is in this process; each of several runs is in a new one.
    """
    turns = (fresh(samples_of, name, options) for _ in range(repeats))
    samples = samples_of(name, options) if repeats == 1 else [sample for turn in turns for sample in turn]
    return {
        "benchmark": name,
        "machine": machine(),
        "options": {key: str(value) if isinstance(value, Path) else value for key, value in options.items()},
        "rows": summarised(find(name), samples),
        "samples": samples,
    }


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
            middle, whole = median(numbers), all(isinstance(n, int) for n in numbers)
            row[name] = int(middle) if whole and middle % 1 == 0 else middle
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
