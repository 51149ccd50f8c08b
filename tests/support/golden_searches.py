"""Searches whose every visit is on record: a change that alters one of them changes what the search does.

`python -m tests.support.golden_searches` prints them as JSON; `--write` replaces tests/golden/searches.json,
which belongs in a commit that says why they changed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from tests.support.plain import ROOT
from tests.support.reference import HashEvaluator

FILE = ROOT / "tests" / "golden" / "searches.json"
CASES: list[tuple[str, str, int, dict[str, Any]]] = [  # position, evaluator, visits, parameters
    (chess.STARTING_FEN, "uniform", 3000, {"minibatch_size": 1}),
    (chess.STARTING_FEN, "uniform", 20000, {"minibatch_size": 1024}),
    (chess.STARTING_FEN, "hash", 2000, {"minibatch_size": 1}),
    (chess.STARTING_FEN, "hash", 4000, {"minibatch_size": 128}),
    (
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        "hash",
        3000,
        {"minibatch_size": 64, "catch_up_ratio": 2.0, "cpuct": 3.0},
    ),
    ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", "hash", 3000, {"minibatch_size": 16, "fpu_value": 0.1}),
    ("8/8/4k3/8/8/4K3/4P3/R6r w - - 93 80", "hash", 3000, {"minibatch_size": 1}),
    (chess.STARTING_FEN, "hash", 3000, {"minibatch_size": 128, "overlap": 0}),
    (chess.STARTING_FEN, "uniform", 10000, {"minibatch_size": 256, "gather": "classic"}),
    (chess.STARTING_FEN, "uniform", 10000, {"minibatch_size": 256, "gather": "budget"}),
]


def run_case(fen: str, name: str, visits: int, fields: dict[str, Any]) -> dict[str, Any]:
    evaluator = HashEvaluator() if name == "hash" else name
    with Graph.open(None, evaluator=evaluator) as graph:
        result = analyze(graph, chess.Board(fen), Limits(visits=visits), SearchParams(**fields))
    return {
        "position": fen,
        "evaluator": name,
        "params": fields,
        "visits": result.visits,
        "evaluations": result.evaluations,
        "catch_ups": result.catch_ups,
        "collisions": result.collisions,
        "nodes": result.nodes,
        "seldepth": result.seldepth,
        "q": round(result.node.q, 6),
        "moves": {move.move.uci(): move.n for move in result.node.moves},
    }


if __name__ == "__main__":
    text = json.dumps([run_case(*case) for case in CASES], indent=1) + "\n"
    if "--write" in sys.argv:
        FILE.write_text(text)
    else:
        sys.stdout.write(text)
