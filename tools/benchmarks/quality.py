"""Compares the results of search variants at equal evaluations, or in equal time, position by position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path

from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.search.params import GATHERERS

from .harness import Row, benchmark
from .positions import Case, from_games, played, read_epd, read_reference
from .searching import Found, Inside, Remembering, UciEngine, Variant

PRESETS = {  # variants of one evaluator; the first is the base
    "batches": [f"MinibatchSize={n}" for n in (1, 32, 256)],
    "gatherers": ["MinibatchSize=1", *(f"MinibatchSize=256 Gather={name}" for name in GATHERERS)],
    "catch-up": [f"MinibatchSize=16 CatchUpRatio={ratio}" for ratio in (1, 1.25, 1.5, 2, 3, 5, "inf")],
    "history": [f"MinibatchSize=8 threads=1 history={how}" for how in ("position", "line")],
    "overlap": [f"MinibatchSize=64 Overlap={n}" for n in (0, 1)],
    "shards": [f"MinibatchSize=256 Overlap=0{more}" for more in ("", " shards=1", " shards=2", " shards=8")],
    "evaluator": [""],
}
APPROACHES, RATE_EVALUATIONS = 3, 64  # searches that estimate the evaluations within a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """The variants to compare: texts, or a preset with each evaluator."""

    variant: tuple[str, ...] = ()
    preset: str = "batches"
    evaluator: tuple[str, ...] = ("builtin",)
    pairs: bool = False

    def texts(self) -> tuple[str, ...]:
        """Returns the texts of all variants.

        >>> Variants(preset="evaluator", evaluator=("builtin", "uniform"), pairs=True).texts()[1]
        'policy=builtin value=uniform'
        """
        names = list(self.evaluator)
        if self.pairs:
            names = [a if a == b else f"policy={a} value={b}" for a, b in product(names, repeat=2)]
        return self.variant or tuple(
            f"{name} {how}".strip() for name in names for how in PRESETS[self.preset]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of the positions."""

    reference: Path | None = None
    epd: Path | None = None
    games: tuple[Path, ...] = ()
    judge: str = "stockfish"
    judge_nodes: int = 100_000
    positions: int = 160
    half: str = ""
    kind: str = ""

    def cases(self) -> Iterable[Case]:
        """Returns the positions; without files, positions of games played by the built-in evaluator."""
        if self.games:
            return from_games(self.games, self.positions, self.judge, self.judge_nodes)
        if self.reference or self.epd:
            known = read_reference(self.reference, self.half, self.kind) if self.reference else []
            return (known + (read_epd(self.epd) if self.epd else []))[: self.positions]
        return played(self.positions)


@benchmark(
    "evaluations",
    "variant",
    across="variant",
    compare=("best_move", "regret", "centipawns", "q_error"),
    positions=True,
)
def quality(
    *,
    variants: Variants,
    sources: Sources,
    evaluations: tuple[int, ...] = (400,),
    seconds: float = 0.0,
    head_start: int = 0,
    workers: int = 1,
) -> Iterator[Row]:
    """What variants of a search find at equal evaluations: batches, gatherers, evaluators, shards, engines.

    Each position is searched from nothing by every variant. The first one is the base.

      --variant   TEXT ...: an evaluator, its options and those of the search, such as
                  "builtin MinibatchSize=256", "policy=builtin value=uci:stockfish", "builtin shards=4",
                  "builtin threads=2 wall=1" (a second by the clock), "engine=lc0 WeightsFile=net.pb.gz"
      --preset    without --variant: batches, gatherers, catch-up, history, overlap, shards or evaluator,
                  with each --evaluator. --pairs: every pair of them as policy and value
      --seconds   CPU-seconds of a search instead of evaluations
      --head-start  K: first the reply that the priors like best is searched with K times the evaluations
      --reference, --epd, --games  positions; without them those of games that the built-in evaluator plays.
                  Games (PGN) keep the moves of a position, and --judge says what moves are worth
      --half      tune or report: half of the reference, games whole. Choose on one, report on the other
      --kind      open or decided: positions of the reference below or from |win - loss| = .9 on

    same        the move of the base. equal: its root record, bit for bit
    distance    L1 distance of the root's visits from those of the base, 0 to 2
    best_move   one of the reference. regret: Q that the move gives away. q_error: of the root
    centipawns  that the move gives away; scores beyond 2,000 and mates count as 2,000
    a_wave      evaluations of a wave. visits, catch_ups: per evaluation. below: the reply's share of them
    ms          CPU-milliseconds of an evaluation
    """
    work = partial(_samples, variants.texts(), evaluations, seconds, head_start)
    if workers == 1:
        try:
            for case in sources.cases():
                yield from work(case)
        finally:
            while _searchers:
                _searchers.popitem()[1].close()
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as processes:
        for rows in processes.map(work, sources.cases()):
            yield from rows


def _samples(
    texts: Sequence[str], evaluations: Sequence[int], seconds: float, head_start: int, case: Case
) -> list[Row]:
    rows = []
    for count in evaluations if not seconds else (0,):
        base: Found | None = None
        for text in texts:
            searcher = _searcher(text, head_start)
            found = searcher.search(case, count or _affordable(text, head_start, seconds))
            base = base or found
            name = {"evaluations": count} if count else {"evaluations": f"{seconds:g} s"}
            rows.append({**name, "variant": text, **_figures(case, found, base)})
    for remembered in _remembered.values():
        remembered.forget()
    return rows


def _figures(case: Case, found: Found, base: Found) -> Row:
    spent = max(1, found.evaluations)
    per = {name: found.counts[name] / spent for name in ("new_visits", "catch_ups") if name in found.counts}
    row: Row = {
        "same": float(found.move == base.move),
        "equal": float(found.root == base.root) if found.root and base.root else None,
        "distance": distance(found.visits, base.visits) if found.visits and base.visits else None,
        "best_move": float(found.move in case.best) if case.best else None,
        "regret": case.regret(found.move),
        "centipawns": case.lost(found.move),
        "q_error": None if case.q is None or found.q is None else abs(found.q - case.q),
        "a_wave": spent / waves if (waves := found.counts.get("waves")) else None,
        "visits": per.get("new_visits"),
        "catch_ups": per.get("catch_ups"),
        "below": None if found.below is None else min(1.0, found.below / spent),
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


_searchers: dict[tuple[str, int], Inside | UciEngine] = {}  # of this process
_remembered: dict[EvaluatorSpec, Remembering] = {}


def _searcher(text: str, head_start: int) -> Inside | UciEngine:
    if (text, head_start) not in _searchers:
        variant = Variant.parse(text)
        _searchers[text, head_start] = (
            UciEngine(variant) if variant.engine else Inside(variant, _remembered, head_start)
        )
    return _searchers[text, head_start]


@cache
def _affordable(text: str, head_start: int, seconds: float) -> int:
    """Returns the number of evaluations that a search makes in `seconds` CPU-seconds, from test searches."""
    searcher, count = _searcher(text, head_start), RATE_EVALUATIONS
    for case in played(APPROACHES):
        found = searcher.search(case, count)
        count = max(RATE_EVALUATIONS, round(seconds * found.evaluations / max(1e-9, found.cpu)))
    return count
