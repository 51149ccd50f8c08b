"""Labels positions of `make` by an engine's searches: its chances and its best move.

    python -m tools.training label OUT SET ... --nodes 1000 --seconds 3600 --seed 1 [--engine stockfish]

Takes positions at random, two of games for each that is a random move off one, each once, and writes shards
to the folder OUT until the time is up. The engine must report its chances (UCI_ShowWDL).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chess
import chess.engine
import numpy as np
from numpy.typing import NDArray

from graphsearch.position.board import encode_move, unpack
from tools.training.records import (
    MATED,
    MOST_SCORE,
    PAWN,
    PLAYED,
    RECORD,
    SUFFIX,
    Records,
    read_sets,
    write_shard,
)

SHARD = 50_000
HASH_MB = 4


def shuffled(records: Records, rng: np.random.Generator) -> NDArray[np.int64]:
    """Returns the indices of the records to label, shuffled: all played ones, and half as many others."""
    of_games = records["kind"] & PLAYED != 0
    played, others = np.flatnonzero(of_games), np.flatnonzero(~of_games)
    some = rng.choice(others, min(len(others), len(played) // 2), replace=False)
    return np.asarray(rng.permutation(np.concatenate([played, some])), np.int64)


def label_of(score: chess.engine.Score) -> int:
    """Returns a score in 1/361 of a pawn; mates are beyond MATED.

    >>> label_of(chess.engine.Cp(-100)), label_of(chess.engine.Mate(2))
    (-361, 30998)
    """
    mate = score.mate()
    if mate is not None:
        return (MATED + 1000 - abs(mate)) * (1 if mate > 0 else -1)
    return max(-MOST_SCORE, min(MOST_SCORE, round((score.score() or 0) * PAWN / 100)))


def labelled(records: Records, engine: chess.engine.SimpleEngine, nodes: int) -> Iterator[Any]:
    """Yields the records with an engine's score, chances and best move, without move values."""
    for record in records:
        board = unpack([*record["words"].tolist(), 0])
        board.fullmove_number = int(record["ply"]) // 2 + 1
        if not any(board.legal_moves):
            continue
        found, out = engine.analyse(board, chess.engine.Limit(nodes=nodes)), record.copy()
        out["score"] = label_of(found["score"].relative)
        out["win"], _, out["loss"] = found["wdl"].relative
        out["best"], out["moves"] = encode_move(found["pv"][0]), 0
        yield out


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    out.add_argument("out", type=Path)
    out.add_argument("sets", type=Path, nargs="+")
    out.add_argument("--engine", default=shutil.which("stockfish") or "/usr/games/stockfish")
    out.add_argument("--nodes", type=int, default=1000)
    out.add_argument("--seconds", type=float, default=3600.0)
    out.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace) -> int:
    """Labels positions until the time is up; returns the exit code."""
    options.out.mkdir(parents=True, exist_ok=True)
    records, _ = read_sets(options.sets)
    order = shuffled(records, np.random.default_rng(options.seed))
    begin, done, shard, rows = time.monotonic(), 0, 0, list[Any]()
    with chess.engine.SimpleEngine.popen_uci(options.engine) as engine:
        engine.configure({"Hash": HASH_MB, "UCI_ShowWDL": True})
        for row in labelled(records[order], engine, options.nodes):
            rows.append(row)
            late = time.monotonic() > begin + options.seconds
            if len(rows) == SHARD or late:
                path = options.out / f"{options.seed}-{shard:04d}{SUFFIX}"
                write_shard(path, np.array(rows, RECORD), np.zeros(0, np.int16))
                done, shard, rows = done + len(rows), shard + 1, []
                speed = done / (time.monotonic() - begin)
                print(f"{done:,} positions, {speed:.0f} a second", file=sys.stderr, flush=True)
            if late:
                break
    return 0
