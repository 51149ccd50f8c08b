"""Measures how `uci:PROGRAM` should ask an engine, and how much of the engine's speed is left.

    python -m tools.measure_engine value   sf_reference.jsonl.gz [--engine stockfish]
    python -m tools.measure_engine policy  sf_reference.jsonl.gz [--engine stockfish]
    python -m tools.measure_engine mapping sf_reference.jsonl.gz --engine toga2 --engine glaurung
    python -m tools.measure_engine speed   sf_reference.jsonl.gz [--engine stockfish]

The file is that of `tools.judge_evaluation`. Each position is a new game for the engine, except for `speed`.

value: V of searches with one line against the file's WDL: mean absolute error of Q and of the draw share,
correlation of Q. policy: the scores of all moves, from one search of all lines (`lines`) or from a search of
the position after each (`children`), as priors softmax(Q / temperature): CE, their cross-entropy against the
file's best move, and KL, the divergence from softmax(Q / 0.1) of the file's depth-10 scores, Q by lichess's
formula. Each at the one temperature with the least CE + KL of a grid, with Q by the same formula (`lichess`),
by lc0's (`lc0`) or from the engine's WDL (`wdl`). mapping: the two numbers of `cp_wdl` that fit the
centipawns of engines to the file's WDL best, by cross-entropy, beside other mappings. speed: positions per
second of V and of P, beside the same commands sent by hand.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import chess
import chess.engine
import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.protocol import PositionBatch
from graphsearch.evaluators.uci.ask import Question
from graphsearch.evaluators.uci.engine import UciEngine
from graphsearch.evaluators.uci.evaluator import MOVE_NUMBER, Part, UciEvaluator
from graphsearch.evaluators.uci.program import find_program
from graphsearch.evaluators.uci.scores import Score, cp_wdl, last_score, mate_q, policy_q, wdl_of
from graphsearch.evaluators.uci.settings import UciSettings, engine_options
from graphsearch.position.board import POSITION_WORDS, encode_move, legal_moves, unpack
from graphsearch.position.values import q_from_cp
from tools.evaluation_data import policy_target, read_reference

F64 = NDArray[np.float64]

NODES = (100, 300, 1000, 3000, 10_000)
LINE_DEPTHS = range(2, 9)
CHILD_DEPTHS = range(1, 7)
TEMPERATURES = (0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.12, 0.15, 0.2, 0.3)
TARGET_TEMPERATURE = 0.1
SECONDS = 60.0  # for one search
MAPPING_DEPTH = 9
LEAST = 1e-4  # probability, in a cross-entropy of WDL
ROUNDS = 3


@dataclass(frozen=True)
class Case:
    """One reference position: its legal moves, its WDL, the best move's index, and P from its scores."""

    board: chess.Board
    moves: list[chess.Move]
    wdl: F64
    best: int
    target: F64


def read_cases(path: Path) -> list[Case]:
    """Returns the positions of a reference file."""
    positions, best = read_reference(path)
    out = []
    for i, words in enumerate(positions.words.reshape(-1, POSITION_WORDS)):
        board = unpack(words.tolist())
        board.fullmove_number = MOVE_NUMBER
        moves = legal_moves(board)
        codes = np.array([encode_move(move) for move in moves], np.uint16)
        target = policy_target(positions.scores[i] or {}, codes, TARGET_TEMPERATURE)
        index = [move.uci() for move in moves].index(best[i])
        out.append(Case(board, moves, positions.wdl[i], index, target))
    return out


async def started(name: str) -> UciEngine:
    """Returns an engine with the options that the evaluator gives it."""
    engine = await UciEngine.start(find_program(name))
    await engine.configure(engine_options(engine.options, {}, name))
    return engine


# ------------------------------------------------------------------ value
async def value_scores(
    engine: UciEngine, cases: Sequence[Case], limit: chess.engine.Limit
) -> tuple[list[Score], float]:
    """Returns the score of every position, and the seconds that one took."""
    begin, scores = time.perf_counter(), []
    for case in cases:
        engine.new_game()
        score = last_score((await engine.search(case.board, limit, seconds=SECONDS)).lines)
        assert score is not None, case.board.fen()
        scores.append(score)
    return scores, (time.perf_counter() - begin) / len(cases)


def value_errors(cases: Sequence[Case], wdl: F64) -> tuple[float, float, float]:
    """Returns the mean absolute errors of Q and of the draw share, and the correlation of Q."""
    target = np.array([case.wdl for case in cases])
    q, wanted = wdl[:, 0] - wdl[:, 2], target[:, 0] - target[:, 2]
    draws = np.abs(wdl[:, 1] - target[:, 1]).mean()
    return float(np.abs(q - wanted).mean()), float(draws), float(np.corrcoef(q, wanted)[0, 1])


async def measure_value(name: str, cases: Sequence[Case]) -> Iterator[str]:
    """Returns the lines of a table."""
    engine = await started(name)
    lines = ["search         ms   error of Q   error of draws   correlation"]
    for nodes in NODES:
        scores, seconds = await value_scores(engine, cases, chess.engine.Limit(nodes=nodes))
        error, draws, correlation = value_errors(cases, np.array([wdl_of(s).as_list() for s in scores]))
        row = f"{1000 * seconds:7.1f}{error:13.3f}{draws:17.3f}{correlation:14.3f}"
        lines.append(f"nodes {nodes:<6,}" + row)
    await engine.quit()
    return iter(lines)


# ------------------------------------------------------------------ policy
def q_by_lichess(score: Score) -> float:
    """Returns Q as the evaluator takes it for priors."""
    return policy_q(score)


def q_by_lc0(score: Score) -> float:
    """Returns Q by lc0's centipawns."""
    return q_from_cp(score.cp) if score.mate is None else mate_q(score.mate)


def q_by_wdl(score: Score) -> float:
    """Returns Q of the engine's WDL."""
    return wdl_of(score).q


MAPPINGS: dict[str, Callable[[Score], float]] = {"lichess": q_by_lichess, "lc0": q_by_lc0, "wdl": q_by_wdl}


def policy_errors(cases: Sequence[Case], q: Sequence[F64], temperature: float) -> tuple[float, float]:
    """Returns CE and KL, means over the positions."""
    cross, divergence = [], []
    for case, values in zip(cases, q, strict=True):
        scaled = (values - values.max()) / temperature
        logs = scaled - np.log(np.exp(scaled).sum())
        cross.append(-logs[case.best])
        divergence.append(case.target @ (np.log(case.target + 1e-30) - logs))
    return float(np.mean(cross)), float(np.mean(divergence))


def best_temperature(cases: Sequence[Case], q: Sequence[F64]) -> tuple[float, float, float]:
    """Returns the temperature with the least CE + KL, and both."""
    found = [(temperature, *policy_errors(cases, q, temperature)) for temperature in TEMPERATURES]
    return min(found, key=lambda entry: entry[1] + entry[2])


async def policy_scores(
    engine: UciEngine, cases: Sequence[Case], method: str, depth: int
) -> tuple[list[list[Score]], float]:
    """Returns the scores of all moves of every position, and the seconds that one position took."""
    policy_depth = depth + (method == "children")  # which searches the positions one ply less deep
    question = Question(UciSettings(policy_depth=policy_depth, timeout=SECONDS))
    ask = question.by_lines if method == "lines" else question.by_children
    begin, scores = time.perf_counter(), []
    for case in cases:
        engine.new_game()
        scores.append(await ask(engine, case.board, case.moves))
    return scores, (time.perf_counter() - begin) / len(cases)


async def measure_policy(name: str, cases: Sequence[Case]) -> Iterator[str]:
    """Returns the lines of a table."""
    engine = await started(name)
    titles = "".join(f"   {name + ': T, CE, KL':<21s}" for name in MAPPINGS)
    lines = ["search                 ms" + titles]
    runs = [("lines", depth) for depth in LINE_DEPTHS if engine.most_lines > 1]
    for method, depth in runs + [("children", depth) for depth in CHILD_DEPTHS]:
        scores, seconds = await policy_scores(engine, cases, method, depth)
        row = f"{method:<9s}depth {depth:<3d}{1000 * seconds:8.1f}"
        for mapping in MAPPINGS.values():
            q = [np.array([mapping(score) for score in of_moves]) for of_moves in scores]
            row += "   {:<5.2f}{:8.3f}{:8.3f}".format(*best_temperature(cases, q))
        lines.append(row)
    await engine.quit()
    return iter(lines)


# ------------------------------------------------------------------ mapping
def logistic(cp: F64, middle: float, scale: float) -> F64:
    """Returns the WDL `[B, 3]` that `cp_wdl` would give with two other numbers."""
    win, loss = 1 / (1 + np.exp(-(cp - middle) / scale)), 1 / (1 + np.exp((cp + middle) / scale))
    return np.stack([win, 1 - win - loss, loss], axis=1)


def cross_entropy(wdl: F64, target: F64) -> float:
    """Returns the mean cross-entropy of WDL."""
    return float(-(target * np.log(np.clip(wdl, LEAST, 1))).sum(axis=1).mean())


def stockfish_14(cp: F64) -> F64:
    """Returns the WDL of Stockfish 14's model at move 32, from python-chess."""
    return np.array([list(chess.engine.Cp(int(x)).wdl(model="sf14", ply=64)) for x in cp]) / 1000


def lc0_with_draws(cp: F64) -> F64:
    """Returns the WDL of lc0's Q, with 70 % of what is left as draws."""
    q = np.array([q_from_cp(x) for x in cp])
    draw = 0.7 * (1 - np.abs(q))
    return np.stack([(1 - draw + q) / 2, draw, (1 - draw - q) / 2], axis=1)


async def measure_mapping(names: Sequence[str], cases: Sequence[Case]) -> Iterator[str]:
    """Returns the lines of a report: the fit over all engines, and each engine's cross-entropies."""
    data: list[tuple[F64, F64]] = []
    for name in names:
        engine = await started(name)
        scores, _ = await value_scores(engine, cases, chess.engine.Limit(depth=MAPPING_DEPTH))
        await engine.quit()
        usable = [i for i, score in enumerate(scores) if score.mate is None]
        data.append(
            (np.array([scores[i].cp for i in usable], float), np.array([cases[i].wdl for i in usable]))
        )
    grid = [(middle, scale) for middle in range(40, 400, 5) for scale in range(15, 250, 5)]

    def total(numbers: tuple[int, int]) -> float:
        return float(np.mean([cross_entropy(logistic(cp, *numbers), target) for cp, target in data]))

    best = min(grid, key=total)
    lines = [f"best for all: WIN_CP {best[0]}, WIN_SCALE {best[1]}: cross-entropy {total(best):.3f}"]
    lines.append("engine             fitted   as it is   Stockfish 14's   lc0's, 70 % draws")
    for name, (cp, target) in zip(names, data, strict=True):
        ours = np.array([cp_wdl(x) for x in cp])
        found = [
            cross_entropy(w, target)
            for w in (logistic(cp, *best), ours, stockfish_14(cp), lc0_with_draws(cp))
        ]
        lines.append(f"{name:16s}{found[0]:9.3f}{found[1]:11.3f}{found[2]:17.3f}{found[3]:20.3f}")
    return iter(lines)


# ------------------------------------------------------------------ speed
def seconds_by_hand(name: str, cases: Sequence[Case], part: Part) -> float:
    """Returns the seconds that an engine takes for the commands of all positions, sent one after another."""
    command = find_program(name).command
    settings = UciSettings()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def say(text: str, answer: str) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(text + "\n")
            process.stdin.flush()
            while answer and not process.stdout.readline().startswith(answer):
                pass

        say("uci", "uciok")
        say("setoption name UCI_ShowWDL value true\nsetoption name Hash value 16\nisready", "readyok")
        begin = time.perf_counter()
        for case in cases:
            lines, go = (1, f"nodes {settings.nodes}")
            if part == "policy":
                lines, go = len(case.moves), f"depth {settings.policy_depth}"
            say(f"setoption name MultiPV value {lines}\nposition fen {case.board.fen()}\ngo {go}", "bestmove")
        seconds = time.perf_counter() - begin
        say("quit", "")
    return seconds


def seconds_by_evaluator(name: str, batch: PositionBatch, part: Part, workers: int) -> float:
    """Returns the seconds that the evaluator takes for a batch, its engines started before."""
    evaluator = UciEvaluator(name, part=part, settings=UciSettings(workers=workers))
    some = PositionBatch.from_boards([chess.Board()] * workers)
    evaluator.evaluate(some)
    begin = time.perf_counter()
    evaluator.evaluate(batch)
    seconds = time.perf_counter() - begin
    evaluator.close()
    return seconds


def measure_speed(name: str, cases: Sequence[Case]) -> Iterator[str]:
    """Yields the lines of a table: medians of rounds, each of which has all kinds in turn."""
    batch = PositionBatch.from_boards([case.board for case in cases])
    yield "positions/s   by hand   1 worker   2 workers"
    parts: tuple[tuple[str, Part], ...] = (("V", "value"), ("P", "policy"))
    for title, part in parts:
        rounds = [
            (
                seconds_by_hand(name, cases, part),
                seconds_by_evaluator(name, batch, part, 1),
                seconds_by_evaluator(name, batch, part, 2),
            )
            for _ in range(ROUNDS)
        ]
        rates = [len(cases) / median(column) for column in zip(*rounds, strict=True)]
        yield f"{title:11s}{rates[0]:10.0f}{rates[1]:11.0f}{rates[2]:12.0f}"


# ------------------------------------------------------------------ command line
What = Literal["value", "policy", "mapping", "speed"]


def parser() -> argparse.ArgumentParser:
    """Returns the command line's parser."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("what", choices=("value", "policy", "mapping", "speed"))
    out.add_argument("reference", type=Path, help="gzip'ed JSON lines")
    out.add_argument("--engine", action="append", help="a UCI engine; for mapping may be repeated")
    return out


def report(what: What, names: Sequence[str], cases: Sequence[Case]) -> Iterator[str]:
    """Returns the lines to print."""
    if what == "speed":
        return measure_speed(names[0], cases)
    if what == "mapping":
        return asyncio.run(measure_mapping(names, cases))
    return asyncio.run((measure_value if what == "value" else measure_policy)(names[0], cases))


def main() -> int:
    """Prints what was measured; returns the exit code."""
    options = parser().parse_args()
    for line in report(options.what, options.engine or ["stockfish"], read_cases(options.reference)):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
