"""Labels positions of `make_positions` anew by `nnue`, which looks at the best moves and replies.

    python -m tools.search_records OUT SET [--evaluator nnue:stockfish] [--shards 0:10]

Writes each shard of SET again to the folder OUT, without values of moves. The score becomes what the search
behind `nnue`'s V finds, which is closer to an engine's word than quiescence of the position alone. Several of
these can share the work: each takes its `--shards`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from graphsearch.evaluators.factory import create
from graphsearch.evaluators.nnue.evaluation_kernel import scratch_words, search_moves
from graphsearch.evaluators.nnue.layout import WIDTH
from graphsearch.jit.pointers import ptr
from graphsearch.position.board_kernel import generate_moves
from graphsearch.position.scores import LEAST_MATE
from graphsearch.position.tables import load_tables
from tools.training_games import label_of
from tools.training_records import read_shard, shards_of, write_shard
from tools.value_training import load_words


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def search_all(tables: Any, weights: Any, records: Any, scratch: Any) -> Any:
    """Writes the scores of all records; returns how many are kept: those that are not mate."""
    words, moves = np.zeros(10, np.uint64), np.zeros(256, np.uint16)
    kept = 0
    for i in range(len(records)):
        load_words(records[i], words)
        n = generate_moves(ptr(tables, 0), ptr(words, 0), ptr(moves, 0))
        if n == 0:
            continue
        score, _ = search_moves(
            ptr(tables, 0), ptr(weights, 0), ptr(words, 0), ptr(moves, 0), n, ptr(scratch, 0)
        )
        if abs(score) >= LEAST_MATE:
            continue
        records[kept] = records[i]
        records[kept]["score"] = label_of(score)
        records[kept]["moves"] = 0
        kept += 1
    return kept


def parser() -> argparse.ArgumentParser:
    """Returns the command line's parser."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("out", type=Path)
    out.add_argument("set", type=Path)
    out.add_argument("--evaluator", default="nnue:stockfish", help="one of Stockfish's networks")
    out.add_argument("--shards", default=":", metavar="FROM:TO", help="some of them, as Python counts")
    return out


def main() -> int:
    """Labels the shards; returns the exit code."""
    options = parser().parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    weights = create(options.evaluator).weights
    scratch = np.zeros(scratch_words(int(weights[WIDTH])), np.uint64)
    first, _, end = options.shards.partition(":")
    begin, done = time.process_time(), 0
    for path in shards_of([options.set])[int(first or 0) : int(end) if end else None]:
        records, _ = read_shard(path)
        kept = int(search_all(load_tables(), weights, records, scratch))
        write_shard(options.out / path.name, records[:kept], np.zeros(0, np.int16))
        done += len(records)
        rate = done / (time.process_time() - begin)
        print(f"{done:,} positions, {rate:,.0f} per CPU-second", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
