"""Variants of a search, as texts, and the ways to run them: in this process, as a UCI engine.

builtin MinibatchSize=256             an evaluator, its options and those of the search
policy=builtin value=lc0:net.pb.gz    two evaluators as one
builtin threads=2 wall=1              for a second of the clock, whatever limits others have
engine=lc0 WeightsFile=net.pb.gz      a UCI engine and its options; engine=graphsearch is this program
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import chess
import chess.engine

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import EvaluatorSpec, create
from graphsearch.evaluators.inside import inside
from graphsearch.graph import arena_kernel
from graphsearch.graph.view import NodeView
from graphsearch.search.params import OPTION_NAMES
from graphsearch.store.record import NodeRecord

from .harness import cpu_of
from .positions import Case

MOST_VISITS = 100  # per evaluation; stops a search that has exhausted a small graph
START_SECONDS = 300  # of an engine: it may compile
EVALUATIONS = re.compile(r"(\d+) evaluations")


@dataclass(frozen=True, slots=True)
class Variant:
    """A parsed variant: evaluator with its options, options of the search, an engine.

    Attributes:
      wall: wall seconds, in place of other limits; 0: none.
    """

    spec: EvaluatorSpec
    params: tuple[str, ...] = ()
    engine: str = ""
    wall: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Returns the variant of a text.

        >>> found = Variant.parse("lc0:net threads=1 MinibatchSize=8")
        >>> found.spec.evaluator, found.spec.options, found.params
        ('lc0:net', (('threads', '1'),), ('MinibatchSize=8',))
        """
        words = text.split()
        name = words.pop(0) if "=" not in words[0] else "builtin"
        given = dict(word.split("=", 1) for word in words)
        known = {option.lower() for option in OPTION_NAMES}
        engine, wall = given.pop("engine", ""), float(given.pop("wall", 0))
        parts: dict[str, Any] = {part: given.pop(part) for part in ("policy", "value") if part in given}
        own = {key: value for key, value in given.items() if engine or key.lower() not in known}
        params = tuple(f"{key}={value}" for key, value in given.items() if key not in own)
        spec = EvaluatorSpec(**(parts or {"evaluator": name}), options=tuple(own.items()))
        return cls(spec, params, engine, wall)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One search of a position.

    Attributes:
      visits: by move. root: its record, if the search is in this process. cpu: seconds.
      counts: `new_visits`, `catch_ups` and `waves`, where known.
    """

    move: str
    q: float | None
    evaluations: int
    cpu: float
    visits: Mapping[str, float]
    counts: Mapping[str, float]
    root: NodeRecord | None = None


class Inside:
    """Searches in this process, each in a new graph."""

    def __init__(self, variant: Variant) -> None:
        self._evaluator = create(variant.spec)
        if not variant.wall and (kernel := inside(self._evaluator)):
            kernel.threads = kernel.threads or 1  # a search of evaluations is repeatable
        self._params = SearchParams.from_options(variant.params)
        self._wall = variant.wall

    def search(self, case: Case, evaluations: int) -> Found:
        """Returns the result of a search of `evaluations` evaluations."""
        limits = Limits(evaluations=evaluations, visits=MOST_VISITS * evaluations)
        if self._wall:
            limits = Limits(seconds=self._wall)
        with Graph.open(None, evaluator=self._evaluator) as graph:
            began = time.process_time()
            result = analyze(graph, case.board, limits, self._params)
            cpu = time.process_time() - began
            counts = {
                "new_visits": result.new_visits,
                "catch_ups": result.catch_ups,
                "waves": int(graph.arena.counters[arena_kernel.WAVES]),
            }
            return Found(
                move=result.bestmove.uci() if result.bestmove else "",
                q=result.node.q,
                evaluations=result.evaluations,
                cpu=cpu,
                visits=_by_move(result.node),
                counts=counts,
                root=graph.read(case.board),
            )

    def close(self) -> None:
        """Closes the evaluator."""
        self._evaluator.close()


class UciEngine:
    """A UCI engine in its own process; every search is a new game."""

    def __init__(self, variant: Variant) -> None:
        name = variant.engine
        command = [sys.executable, "-m", "graphsearch", "uci"] if name == "graphsearch" else [name]
        self._process = chess.engine.SimpleEngine.popen_uci(command, timeout=START_SECONDS)
        self._process.configure(dict(variant.spec.options))
        self.search(Case(chess.Board()), 1)  # warms up: engines load or compile at the first search

    def search(self, case: Case, evaluations: int) -> Found:
        """Returns the result of a search of `evaluations` nodes; an engine may report other evaluations."""
        pid = self._process.transport.get_pid()
        began, nodes, said = cpu_of(pid), 0, 0
        limit = chess.engine.Limit(nodes=evaluations)
        with self._process.analysis(case.board, limit, game=object()) as analysis:
            for info in analysis:
                nodes = max(nodes, info.get("nodes", 0))
                told = EVALUATIONS.search(info.get("string", ""))
                said = int(told[1]) if told else said
            move = str(analysis.wait().move)
        return Found(
            move=move,
            q=None,
            evaluations=said or nodes,
            cpu=cpu_of(pid) - began,
            visits={},
            counts={"new_visits": nodes},
        )

    def close(self) -> None:
        """Ends the engine."""
        self._process.quit()


def _by_move(node: NodeView) -> dict[str, float]:
    return {move.move.uci(): float(move.n) for move in node.moves}
