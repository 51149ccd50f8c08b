"""Compiled and plain: the same kernels, the same search, whether compiled now, earlier or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SEARCH = """
import json, chess, warnings
warnings.simplefilter("ignore")
from graphsearch import Graph, Limits, SearchParams, analyze
out = []
for fen, name, batch, visits in [
    (chess.STARTING_FEN, "uniform", 8, 60),
    ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 70 90", "uniform", 1, 60),
    ("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1", "uniform", 16, 90),
]:
    with Graph.open(None, evaluator=name) as graph:
        result = analyze(graph, chess.Board(fen), Limits(visits=visits), SearchParams(minibatch_size=batch))
    data = result.as_dict()
    del data["seconds"]
    out.append(data)
print(json.dumps(out))
"""


def searched(**environment: str) -> object:
    done = subprocess.run(
        [sys.executable, "-c", SEARCH],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
        timeout=300,
    )
    return json.loads(done.stdout)


def test_plain_python_searches_as_compiled_code_does() -> None:
    assert searched(NUMBA_DISABLE_JIT="1") == searched()


def test_without_a_writable_cache_it_still_searches(tmp_path: Path) -> None:
    # no folder can be made below a file
    blocked = tmp_path / "file"
    blocked.write_text("")
    code = "from graphsearch.jit.compiler import PLACES; print(PLACES.writing[0].folder.path)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"GRAPHSEARCH_CACHE_DIR": str(blocked), "TMPDIR": str(tmp_path)},
    )
    assert str(tmp_path) in done.stdout
