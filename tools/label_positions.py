"""Writes positions with an engine's value and policy labels, as JSON lines.

    python -m tools.label_positions --out labels.jsonl --seconds 900 --seed 1

The positions come from games that the engine plays against itself at two random skill levels, a few nodes a
move, with random opening moves and a share of random moves later on: imbalanced, often lost, of every phase,
as positions are in real analysis. Half of the sampled positions are one random move off the game. With
`--pgn` the games are read from a file instead.

One line is `{"fen": ..., "wdl": [w, d, l], "scores": {uci: cp}}`: per mille and seen by the side to move;
`scores` holds every legal move, a mate in n as +-(32000 - n), and is there in one of `--policy-every` lines.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import chess
import chess.pgn

MATE_SCORE = 32000
LABEL_NODES = 5000
POLICY_DEPTH = 7
PLAY_NODES = 500
RANDOM_MOVE_SHARE = 0.06
SAMPLE_SHARE = 0.35
GAME_PLIES = 180
DECIDED_CP = 1500  # beyond this a game may end at any ply, or won endings would fill the sample


class Engine:
    """A UCI engine behind a pipe; the few commands that labelling needs."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._send("uci")
        self._until("uciok")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._send("quit")
        self._process.communicate()

    def option(self, name: str, value: object) -> None:
        """Sets one UCI option."""
        self._send(f"setoption name {name} value {value}")

    def go(self, fen: str, limit: str) -> tuple[str, list[list[str]]]:
        """Returns the best move and the words of every exact `info` line of one search."""
        self._send(f"position fen {fen}\ngo {limit}")
        lines = self._until("bestmove")
        exact = [x.split() for x in lines if " score " in x and "bound" not in x]
        return lines[-1].split()[1], exact

    def _send(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def _until(self, word: str) -> list[str]:
        assert self._process.stdout is not None
        lines = []
        for line in self._process.stdout:
            lines.append(line)
            if line.startswith(word):
                return lines
        raise RuntimeError(f"the engine stopped before it said {word!r}")


def score_of(words: list[str]) -> int:
    """Returns the centipawns of an `info` line; a mate in n is +-(32000 - n).

    >>> score_of("info depth 3 score cp -12 nodes 4".split()), score_of("info score mate -2".split())
    (-12, -31998)
    """
    at = words.index("score")
    value = int(words[at + 2])
    if words[at + 1] == "cp":
        return value
    return MATE_SCORE - value if value > 0 else -MATE_SCORE - value


def value_label(engine: Engine, fen: str) -> list[int]:
    """Returns [win, draw, loss] per mille of one short search."""
    engine.option("MultiPV", 1)
    words = engine.go(fen, f"nodes {LABEL_NODES}")[1][-1]
    at = words.index("wdl")
    return [int(x) for x in words[at + 1 : at + 4]]


def policy_label(engine: Engine, board: chess.Board) -> dict[str, int]:
    """Returns the score of every legal move after one shallow search of them all."""
    engine.option("MultiPV", board.legal_moves.count())
    lines = engine.go(board.fen(), f"depth {POLICY_DEPTH}")[1]
    return {words[words.index("pv") + 1]: score_of(words) for words in lines if "pv" in words}


def engine_games(engine: Engine, rng: random.Random) -> Iterator[chess.Board]:
    """Yields every position of endless games between random skill levels (one board, reused)."""
    while True:
        board = chess.Board()
        skills = [rng.randint(0, 20), rng.randint(0, 20)]
        opening = rng.randint(0, 8)
        for ply in range(GAME_PLIES):
            if board.is_game_over(claim_draw=True):
                break
            move = rng.choice(list(board.legal_moves))
            if ply >= opening and rng.random() >= RANDOM_MOVE_SHARE:
                engine.option("Skill Level", skills[board.turn])
                best, lines = engine.go(board.fen(), f"nodes {PLAY_NODES}")
                move = chess.Move.from_uci(best)
                if lines and abs(score_of(lines[-1])) > DECIDED_CP and rng.random() < 0.15:
                    break
            board.push(move)
            yield board


def pgn_games(path: Path) -> Iterator[chess.Board]:
    """Yields every position of every game of a PGN file."""
    with path.open() as handle:
        while (game := chess.pgn.read_game(handle)) is not None:
            board = game.board()
            for move in game.mainline_moves():
                board.push(move)
                yield board


def sampled(boards: Iterator[chess.Board], rng: random.Random) -> Iterator[chess.Board]:
    """Yields a share of the positions, half of them after one more random move, none of them finished."""
    for board in boards:
        if rng.random() >= SAMPLE_SHARE or board.is_game_over():
            continue
        out = board.copy(stack=False)
        if rng.random() < 0.5:
            out.push(rng.choice(list(out.legal_moves)))
        if not out.is_game_over():
            yield out


def write_labels(options: argparse.Namespace) -> int:
    """Returns how many positions were labelled before the time was up or the games ended."""
    rng = random.Random(options.seed)
    seen: set[str] = set()
    end = time.monotonic() + options.seconds
    with Engine(options.engine) as player, Engine(options.engine) as judge, options.out.open("a") as out:
        judge.option("UCI_ShowWDL", "true")
        boards = pgn_games(options.pgn) if options.pgn else engine_games(player, rng)
        for board in sampled(boards, rng):
            if time.monotonic() > end:
                break
            if board.epd() in seen:
                continue
            seen.add(board.epd())
            line: dict[str, object] = {"fen": board.fen(), "wdl": value_label(judge, board.fen())}
            if len(seen) % options.policy_every == 0:
                line["scores"] = policy_label(judge, board)
            out.write(json.dumps(line) + "\n")
    return len(seen)


def parser() -> argparse.ArgumentParser:
    """Returns the command line's parser."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--out", type=Path, required=True, help="file to append to")
    out.add_argument("--engine", default=shutil.which("stockfish"), help="UCI engine (default: on PATH)")
    out.add_argument("--pgn", type=Path, help="take positions from these games")
    out.add_argument("--seconds", type=float, default=900.0)
    out.add_argument("--seed", type=int, default=1)
    out.add_argument("--policy-every", type=int, default=12, help="one of so many gets policy labels")
    return out


def main() -> int:
    """Labels positions; returns the exit code."""
    options = parser().parse_args()
    if options.engine is None:
        print("no engine: give one by --engine", file=sys.stderr)
        return 2
    print(f"{write_labels(options)} positions in {options.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
