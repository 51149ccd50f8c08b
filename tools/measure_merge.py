"""How fast graph files are merged and compared, and in how much memory.

    python -m tools.measure_merge --nodes 100000 1000000 --folder FOLDER

For each size a graph is grown with the evaluator `uniform`. Two files are made of it: each holds two thirds
of the records, a third is in both, and half of that third has other visits in the second file. Then each work
runs in a process of its own: records read from both files per second of CPU time (one core), and peak
RSS. Files are kept in the folder; remove it when done.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graphsearch.bench.scale.plan import Plan
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.record.node import RecordBatch
from graphsearch.store.codec.bulk import take
from graphsearch.store.segments import keys_of
from graphsearch.store.store import Store
from graphsearch.store.upkeep.compact import compact

WORKS = ("nothing", "new", "into", "small", "settled", "diff")
SMALL_SHARE = 100  # the file of the work `small` is so many times smaller than the other one
MEASURED = """
import json, sys, time
sys.modules["pandas"] = None  # sqlite-utils loads it where it is installed: 80 MB that nothing here needs
from pathlib import Path
from graphsearch.workers.process import peak_rss
from tools.measure_merge import work
found = work(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
begin = time.process_time()
records = found()
seconds = time.process_time() - begin
speed = round(records / max(seconds, 1e-9))
told = {"records": records, "cpu_s": round(seconds, 2), "per_cpu_s": speed}
print(json.dumps(told | {"peak_rss_mb": round(peak_rss() / 1e6)}))
"""


# ------------------------------------------------------------------ files
def make(folder: Path, nodes: int, ram_bytes: int) -> None:
    """Makes `a.graph`, `b.graph` and `small.graph` in a folder, unless they are there."""
    if (folder / "small.graph").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    plan = Plan(folder=str(folder), nodes=nodes, ram_bytes=ram_bytes)
    _grow(plan)
    compact(plan.file)
    for name in ("a", "b", "small"):
        _derive(plan.file, folder / f"{name}.graph", name)
    plan.remove(plan.file)


def _grow(plan: Plan) -> None:
    from graphsearch.bench.scale.growing import grow  # loads the search, which the works do without
    from graphsearch.bench.scale.meter import Meter

    grow(plan, Meter())


def _derive(source: Path, target: Path, name: str) -> None:
    """Writes a part of a file's records, in their order, as one segment for each million."""
    part = target.with_suffix(".new")
    with (
        Store.open(source, read_only=True) as store,
        Store.open(part, create=True, identity=UniformEvaluator().identity) as new,
    ):
        waiting: list[RecordBatch] = []
        for batch in store.scan():
            waiting.append(_part(batch, name))
            if sum(map(len, waiting)) > 250_000:
                _write(new, waiting)
        _write(new, waiting)
        new.begin_run("", {}, {})
    compact(part)
    part.rename(target)


def _part(batch: RecordBatch, name: str) -> RecordBatch:
    draw = keys_of(batch.words) % np.uint64(6 * SMALL_SHARE)
    kept = {"a": draw % 3 != 0, "b": draw % 3 != 1, "small": draw < 6}[name]
    found = take(batch, np.nonzero(kept)[0])
    if name == "a":
        return found
    more = np.repeat(draw[kept] % 2 == 0, np.diff(found.edge_offsets))
    return replace(found, n=found.n + more.astype(np.uint32))


def _write(store: Store, waiting: list[RecordBatch]) -> None:
    whole = RecordBatch.concat(waiting)
    store.append(whole, fresh=len(whole))
    waiting.clear()


# ------------------------------------------------------------------ works
def work(name: str, folder: Path, ram_bytes: int) -> Any:
    """Returns what does a work, with everything compiled; that returns how many records were read."""
    from graphsearch.query.diff import diff
    from graphsearch.sweep.merge import Wanted, merge

    a, b, small = (folder / f"{name}.graph" for name in ("a", "b", "small"))
    warm = _warm(folder)
    plain = Wanted(refresh=False, force=True)
    merge([warm, warm], new=folder / "warm2.graph", wanted=replace(plain, refresh=True))
    diff(warm, warm)

    def count(*paths: Path) -> int:
        return sum(_nodes(path) for path in paths)

    if name == "nothing":
        return lambda: 0
    if name == "new":
        return lambda: merge([a, b], new=folder / "new.graph", wanted=plain) and count(a, b)
    if name == "settled":
        settled = replace(plain, refresh=True, ram_bytes=ram_bytes)
        return lambda: merge([a, b], new=folder / "new.graph", wanted=settled) and count(a, b)
    if name == "diff":
        return lambda: diff(a, b) and count(a, b)
    copy = folder / "into.graph"
    copy.write_bytes(a.read_bytes())
    other = small if name == "small" else b
    return lambda: (
        merge([other], into=copy, wanted=plain) and count(other, *(() if name == "small" else (a,)))
    )


def _warm(folder: Path) -> Path:
    path = folder / "warm.graph"
    if not path.exists():
        plan = Plan(folder=str(folder / "warm"), nodes=2000, ram_bytes=64_000_000)
        (folder / "warm").mkdir(exist_ok=True)
        _grow(plan)
        plan.file.rename(path)
    return path


def _nodes(path: Path) -> int:
    with Store.open(path, read_only=True) as store:
        return store.node_count


def main() -> None:
    """Prints a line for each size and work."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--works", nargs="+", choices=WORKS, default=WORKS)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "measure-merge")
    parser.add_argument("--grow-ram", type=int, default=2_000_000_000, help="bytes, while files are made")
    parser.add_argument(
        "--ram", type=int, default=64_000_000, help="bytes that `settled` may take for its table"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.json:
        print(f"{'nodes':>12} {'work':<8} {'records':>12} {'CPU s':>8} {'records/CPU s':>14} {'peak MB':>8}")
    for nodes in options.nodes:
        folder = options.folder / str(nodes)
        make(folder, nodes, options.grow_ram)
        for name in options.works:
            words = [sys.executable, "-c", MEASURED, name, str(folder), str(options.ram)]
            found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
            if options.json:
                print(json.dumps({"nodes": nodes, "work": name} | found), flush=True)
                continue
            numbers = f"{found['records']:>12,} {found['cpu_s']:>8} {found['per_cpu_s']:>14,}"
            print(f"{nodes:>12,} {name:<8} {numbers} {found['peak_rss_mb']:>8}", flush=True)


if __name__ == "__main__":
    main()
