"""`python -m tools.compare_lc0`: its rows, with an engine that stands in for lc0 and one for graphsearch."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import chess
import pytest

from tools import compare_lc0
from tools.measure_catch_up import read_cases

ENGINE = """#!{python}
import sys
import chess

OPTIONS = ["WeightsFile", "Threads", "NNCacheSize", "SmartPruningFactor", "MinibatchSize"]
board, batch = chess.Board(), 1
for line in sys.stdin:
    words = line.split()
    if words[0] == "uci":
        print(*(f"option name {{name}} type string default x" for name in OPTIONS), sep="\\n")
        print("uciok", flush=True)
    elif words[0] == "isready":
        print("readyok", flush=True)
    elif words[:3] == ["setoption", "name", "MinibatchSize"]:
        batch = int(words[-1])
    elif words[0] == "position":
        board = chess.Board() if words[1] == "startpos" else chess.Board(" ".join(words[2:8]))
    elif words[0] == "go":
        moves = sorted(map(str, board.legal_moves))
        print("info nodes", words[2], "score cp 0", flush=True)
        print({evaluations}, flush=True)
        print("bestmove", moves[0 if batch == 1 else {other}], flush=True)
    elif words[0] == "quit":
        break
"""


def engine(folder: Path, name: str, *, other: int, evaluations: str = "''") -> compare_lc0.Engine:
    """Returns an engine that plays the first move with batches of 1, the move `other` with larger ones."""
    script = folder / name
    script.write_text(ENGINE.format(python=sys.executable, other=other, evaluations=evaluations))
    return compare_lc0.Engine(name, [sys.executable, str(script)], {"Threads": "1"})


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    rows = []
    for fen in (chess.STARTING_FEN, "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"):
        moves = sorted(str(move) for move in chess.Board(fen).legal_moves)
        scores = {move: {"cp": -100 * i} for i, move in enumerate(moves)}
        rows.append({"fen": fen, "bestmove": moves[0], "wdl": [500, 0, 500], "moves_depth10": scores})
    path = tmp_path / "reference.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return path


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
def test_rows_hold_both_engines_at_each_setting(tmp_path: Path, reference: Path) -> None:
    ours = engine(tmp_path, "graphsearch", other=1, evaluations="'info string 30 evaluations'")
    lc0 = engine(tmp_path, "lc0", other=0)
    rows = list(compare_lc0.compare(ours, lc0, read_cases(reference, 9), [1, 32], [100]))
    assert [(row.engine, row.batch) for row in rows] == [
        ("lc0", 1),
        ("graphsearch", 1),
        ("lc0", 32),
        ("graphsearch", 32),
    ]
    assert [row.top1[0] for row in rows] == [1.0, 1.0, 1.0, 0.0]
    assert [row.same for row in rows] == [1.0, 1.0, 1.0, 0.0]
    assert rows[3].top1_less == (-1.0, 0.0)
    assert rows[3].regret_less is not None
    assert rows[3].regret_less[0] == pytest.approx(rows[3].regret[0]) != 0
    assert rows[1].visits / rows[1].evaluations == pytest.approx(100 / 30)
    assert rows[0].visits == rows[0].evaluations


def test_without_lc0_the_tool_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["compare_lc0", "--lc0", "no-such-program", "--network", "n", "--reference", "r"]
    )
    compare_lc0.main()
    assert "there is no program no-such-program" in capsys.readouterr().err
