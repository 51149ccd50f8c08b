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
import numpy as np
from numpy.typing import NDArray

from graphsearch.position.board import encode_move, unpack
from tools.label_positions import Engine
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
    played = np.flatnonzero(records["kind"] & PLAYED)
    others = np.flatnonzero(~(records["kind"] & PLAYED).astype(bool))
    some = rng.choice(others, min(len(others), len(played) // 2), replace=False)
    order: NDArray[np.int64] = rng.permutation(np.concatenate([played, some]))
    return order


def board_of(record: Any) -> chess.Board:
    """Returns a record's position, with its move number."""
    board = unpack([*record["words"].tolist(), 0])
    board.fullmove_number = int(record["ply"]) // 2 + 1
    return board


def score_of(words: list[str]) -> int:
    """Returns the score of an `info` line in 1/361 of a pawn; mates are beyond MATED.

    >>> score_of("info score cp -100 nodes 4".split()), score_of("info score mate 2".split())
    (-361, 30998)
    """
    at = words.index("score")
    value = int(words[at + 2])
    if words[at + 1] == "mate":
        return (MATED + 1000 - abs(value)) * (1 if value > 0 else -1)
    return max(-MOST_SCORE, min(MOST_SCORE, round(value * PAWN / 100)))


def labelled(records: Records, engine: Engine, nodes: int) -> Iterator[Any]:
    """Yields the records with an engine's score, chances and best move, without move values."""
    for record in records:
        board = board_of(record)
        if not any(board.legal_moves):
            continue
        best, lines = engine.go(board.fen(), f"nodes {nodes}")
        last = lines[-1]
        at = last.index("wdl")
        out = record.copy()
        out["score"] = score_of(last)
        out["win"], out["loss"] = int(last[at + 1]), int(last[at + 3])
        out["best"], out["moves"] = encode_move(chess.Move.from_uci(best)), 0
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
    end = time.monotonic() + options.seconds
    with Engine(options.engine) as engine:
        engine.option("Hash", HASH_MB)
        engine.option("UCI_ShowWDL", "true")
        begin, done, shard = time.monotonic(), 0, 0
        rows: list[Any] = []
        for row in labelled(records[order], engine, options.nodes):
            rows.append(row)
            late = time.monotonic() > end
            if len(rows) == SHARD or late:
                path = options.out / f"{options.seed}-{shard:04d}{SUFFIX}"
                write_shard(path, np.array(rows, RECORD), np.zeros(0, np.int16))
                done, shard, rows = done + len(rows), shard + 1, []
                print(
                    f"{done:,} positions, {done / (time.monotonic() - begin):.0f} a second",
                    file=sys.stderr,
                    flush=True,
                )
            if late:
                break
    return 0
