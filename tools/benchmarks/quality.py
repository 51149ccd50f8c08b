"""Compares the results of search variants at equal evaluations, position by position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import chess
import chess.engine

from tools.judge_positions import score_of

from .harness import Row, benchmark
from .positions import Case, read_reference
from .searching import Found, Inside, UciEngine, Variant


@benchmark(
    *("evaluations", "variant"),
    across="variant",
    compare=("best_move", "regret", "centipawns", "q_error"),
    positions=True,
)
def quality(
    *,
    variant: tuple[str, ...],
    reference: Path,
    positions: int = 160,
    kind: str = "",
    evaluations: tuple[int, ...] = (400,),
    judge: int = 0,
    program: str = "stockfish",
) -> Iterator[Row]:
    """What variants of a search find at equal evaluations: batches, gatherers, evaluators, engines.

    Each position is searched from nothing by every variant. The first one is the base.

      --variant   TEXT ...: an evaluator, its options and those of the search, such as
                  "builtin MinibatchSize=256", "policy=builtin value=uci:stockfish",
                  "builtin threads=2 wall=1" (a second by the clock), "engine=lc0 WeightsFile=net.pb.gz"
      --reference  positions that an engine has judged
      --kind      open or decided: positions of the reference below or from |win - loss| = .9 on
      --judge     N: --program searches the chosen moves and the reference's best one again, N nodes for each.
                  Choose N so that the judge is stronger than every variant: short searches miss what makes a
                  move better, and then more evaluations seem to find no better moves

    same        the move of the base. equal: its root record, bit for bit
    distance    L1 distance of the root's visits from those of the base, 0 to 2
    best_move   one of the reference. regret: Q that the move gives away. q_error: of the root
    centipawns  that the move gives away; scores beyond 2,000 and mates count as 2,000
    a_wave      evaluations of a wave. visits, catch_ups: per evaluation
    ms          CPU-milliseconds of an evaluation
    """
    parsed = {text: Variant.parse(text) for text in variant}
    searchers = {text: UciEngine(it) if it.engine else Inside(it) for text, it in parsed.items()}
    with ExitStack() as opened:
        for searcher in searchers.values():
            opened.callback(searcher.close)
        engine = opened.enter_context(chess.engine.SimpleEngine.popen_uci(program)) if judge else None
        for case in read_reference(reference, kind)[:positions]:
            found = {
                (count, text): searcher.search(case, count)
                for count in evaluations
                for text, searcher in searchers.items()
            }
            if engine:
                case = judged_again(case, {one.move for one in found.values()}, engine, judge)
            for (count, text), one in found.items():
                name: Row = {"evaluations": count, "variant": text}
                yield name | _figures(case, one, found[count, variant[0]])


def judged_again(case: Case, moves: Iterable[str], engine: chess.engine.SimpleEngine, nodes: int) -> Case:
    """Returns the position with an engine's scores of these moves and its best ones, instead of all moves."""
    listed = [chess.Move.from_uci(move) for move in sorted({*filter(None, moves), *case.best})]
    scores = {listed[0].uci(): {"cp": 0}}  # a single move gives nothing away
    if len(listed) > 1:
        limit = chess.engine.Limit(nodes=nodes * len(listed))
        found = engine.analyse(case.board, limit, multipv=len(listed), root_moves=listed, game=object())
        scores = {one["pv"][0].uci(): score_of(one["score"].relative) for one in found}
    case = case.scored(scores)
    return replace(case, best=tuple(move for move in scores if case.regret(move) == 0.0))


def _figures(case: Case, found: Found, base: Found) -> Row:
    spent = max(1, found.evaluations)
    per = {name: count / spent for name, count in found.counts.items()}
    row: Row = {
        "same": float(found.move == base.move),
        "equal": float(found.root == base.root) if found.root and base.root else None,
        "distance": distance(found.visits, base.visits) if found.visits and base.visits else None,
        "best_move": float(found.move in case.best) if case.best else None,
        "regret": case.regret(found.move),
        "centipawns": case.lost(found.move),
        "q_error": None if case.q is None or found.q is None else abs(found.q - case.q),
        "a_wave": 1 / waves if (waves := per.get("waves")) else None,
        "visits": per.get("new_visits"),
        "catch_ups": per.get("catch_ups"),
        "done": found.evaluations,
        "ms": 1000 * found.cpu / spent,
    }
    return {name: value for name, value in row.items() if value is not None}


def distance(some: Mapping[str, float], others: Mapping[str, float]) -> float:
    """Returns the L1 distance of two distributions over the same moves, given as visits.

    >>> distance({"e2e4": 3, "d2d4": 1}, {"e2e4": 10, "d2d4": 10})
    0.5
    """
    ours, theirs = max(1.0, sum(some.values())), max(1.0, sum(others.values()))
    return sum(abs(some.get(move, 0.0) / ours - n / theirs) for move, n in others.items())
