"""`python -m tools.benchmarks`: each benchmark at a tiny scale, and what its figures must agree on."""

from __future__ import annotations

import doctest
import gzip
import importlib
import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch.evaluators.protocol import PositionBatch
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.search.params import GATHERERS
from graphsearch.search.shards import master
from tools import judge_positions
from tools.benchmarks import kills, memory, scale, simulation
from tools.benchmarks.__main__ import main
from tools.benchmarks.harness import REGISTRY, Row, benchmark, find, run, summarised
from tools.benchmarks.memory import SlowEvaluator
from tools.benchmarks.positions import DECIDED, Case, half_of, played, read_reference
from tools.benchmarks.scale_phases import ON_A_COPY, PHASES, SHARDED
from tools.benchmarks.table import tables
from tools.write_lc0_network import RandomNetwork, Shape

from ..conftest import ROOT
from ..support.clusters import ThreadLauncher, endless_until_lost
from ..support.engines import fake_engine, stockfish

Check = Callable[[list[Row]], object]
MATE_IN_1, MATE_IN_2 = "6k1/5ppp/8/8/8/8/8/R5K1 w - -", "kbK5/pp6/1P6/8/8/8/8/R7 w - -"
STALEMATE = "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"
GAME = '[White "A"]\n[Black "B"]\n\n1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 *\n'


@pytest.fixture
def files(tmp_path: Path, small_graph: Path) -> dict[str, Path]:
    """Files that options name."""
    rows = []
    for case in played(2):
        moves = sorted(str(move) for move in case.board.legal_moves)
        scores = {move: {"cp": -100 * i} for i, move in enumerate(moves)}
        row = {"fen": case.board.fen(), "bestmove": moves[0], "wdl": [500, 0, 500]}
        rows.append(row | {"moves_depth10": scores})
    names = ("reference", "mates", "games", "epd", "network", "scale")
    found = {name: tmp_path / name for name in names}
    found["reference"].write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    found["mates"].write_text(f"{MATE_IN_1} bm #1\n{MATE_IN_2} bm #2\n")
    found["games"].write_text(GAME)
    found["epd"].write_text(f"{MATE_IN_1} bm Ra8#;\n")
    found["network"].write_bytes(RandomNetwork(Shape(seed=1)).file)
    found["won"] = tmp_path / "won"
    found["won"].write_text(json.dumps({"fen": MATE_IN_1, "bestmove": "a1a8", "wdl": [1000, 0, 0]}))
    return found | {"graph": Path(shutil.copy(small_graph, tmp_path / "clicked.graph"))}


def by(rows: list[Row], *keys: str) -> dict[Any, Row]:
    """Returns rows by the values of some keys."""
    return {row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys): row for row in rows}


# ------------------------------------------------------------------ what figures agree on
def check_rows(rows: list[Row]) -> None:
    figures = [value for row in rows for value in row.values() if isinstance(value, float)]
    assert figures
    assert all(map(math.isfinite, figures))


def check_alphabeta(rows: list[Row]) -> None:
    assert [row["depth"] for row in rows] == [1, 2, 3]
    assert rows[0]["leaves"] >= 0.9 * rows[0]["branching"], "all moves of the root"


def check_filling(rows: list[Row]) -> None:
    assert {row["gather"] for row in rows} == set(GATHERERS)
    assert all(0 < row["positions"] <= row["batch"] for row in rows)


def check_batches(rows: list[Row]) -> None:
    base, *others = rows
    assert (base["same"], base["equal"], base["distance"], base["samples"]) == (1.0, 1.0, 0.0, 2)
    assert [row["variant"].split()[-1] for row in rows] == [f"MinibatchSize={n}" for n in (1, 32, 256)]
    for row in others:
        assert row["regret_less"] == pytest.approx(row["regret"] - base["regret"])


def check_shards(rows: list[Row]) -> None:
    assert [row["equal"] for row in rows] == [1.0] * 4, "the records of one process, bit for bit"


def check_pairs(rows: list[Row]) -> None:
    assert [row["variant"] for row in rows] == [
        "builtin",
        "policy=builtin value=uniform",
        "policy=uniform value=builtin",
        "uniform",
    ]
    assert rows[0]["best_move"] == 1.0, "a mate in one"


def check_games(rows: list[Row]) -> None:
    found = by(rows, "what")
    assert 40 < found["positions"]["count"] <= 40 * 61
    assert found["its moves"]["bytes"] == 60 < found["a kept game"]["bytes"]


def check_mates(rows: list[Row]) -> None:
    assert [(row["verdict"], row["samples"], row["shortest"]) for row in rows] == [("right", 2, True)]


def check_beside(rows: list[Row]) -> None:
    assert by(rows, "positions", "prover")["mates", True]["found"] == 1.0


def check_review(rows: list[Row]) -> None:
    assert [row["way"] for row in rows] == ["analyze", "bare", "review"]
    assert rows[0]["added"] == rows[1]["added"] == rows[2]["added"] >= 13 * 10 * 0.5


def check_threads(rows: list[Row]) -> None:
    one, two = rows
    assert one["q"] == two["q"], "threads change no result"


def check_conversion(rows: list[Row]) -> None:
    assert [(row["points"], row["won"], row["plies"]) for row in rows] == [(1.0, 1.0, 1)], "a mate in one"


def check_cluster(rows: list[Row]) -> None:
    alone, two = rows
    assert two["equal"]
    assert alone["visits"] == two["visits"]


def check_scale(rows: list[Row]) -> None:
    found = by(rows, "phase", "nodes")
    assert set(found) == {
        (phase, size) for phase in ("grow", "pv", "compact", "read") for size in (600, 3000)
    }
    assert found["compact", 3000]["units"] >= 3000
    assert found["pv", 3000]["unit"] == "call"
    assert all(row["stall_s"] <= row["us"] * row["units"] / 1e6 + 1e-6 for row in rows)


def check_scale_shards(rows: list[Row]) -> None:
    found = by(rows, "phase")
    assert list(found) == ["grow", "verify", "merge"]
    assert found["verify"]["ok"]
    assert found["verify"]["units"] == found["merge"]["units"] == found["grow"]["units"]


def check_beyond_memory(rows: list[Row]) -> None:
    found = by(rows, "evaluator", "memory")
    assert found["uniform", "all"]["reads_each"] == 0 < found["uniform", "2 MB"]["reads_each"]
    assert found["uniform", "2 MB"]["resident"] < found["uniform", "all"]["resident"]
    assert 0 < found["50 us", "all"]["busy"] <= 1

    assert 0 < found["builtin", "2 MB"]["per_s_ratio"] < 10


def check_exports(rows: list[Row]) -> None:
    assert [row["format"] for row in rows] == ["csv", "jsonl", "epd", "pgn", "bin"]
    assert all(row["per_cpu_s"] > 0 and row["mb"] > 0 for row in rows)


def check_aims(rows: list[Row]) -> None:
    assert len(rows) == 3 + 3 + 5 + 2
    assert all(row["value"] is not None and ("at_most" in row) != ("at_least" in row) for row in rows)


def check_simulation(rows: list[Row]) -> None:
    checks = [row for row in rows if "simulated_cpu_s" in row]
    assert [row["shards"] for row in checks] == [1, 2]
    grown = [row["nodes"] for row in rows if row.get("grown_by") == "uniform" and not row["measured"]]
    assert grown == [10**8, 10**9, 10**10]
    for row in (row for row in rows if "machines" in row):
        one, two, four = row["hours_at_2_ms"]
        assert one >= two >= four, "waves in flight hide trips"


def check_kills(rows: list[Row]) -> None:
    assert rows[0]["kills"] == rows[0]["losses"] == 1
    assert rows[0]["sound"]
    assert rows[0]["equal"]


QUICK: list[tuple[str, str, Check]] = [
    ("alphabeta", "--depth 3 --table-mb 1", check_alphabeta),
    ("filling", "--nodes 100 --batch 1 8 128 --roots 1", check_filling),
    ("quality", "--evaluations 60 --reference {reference}", check_batches),
    ("quality", "--preset shards --evaluations 60 --positions 1", check_shards),
    ("quality", "--preset evaluator --evaluator builtin uniform --pairs --epd {epd}", check_pairs),
    ("quality", "--preset catch-up --evaluations 60 --head-start 3 --positions 1", check_rows),
    ("games", "--games 40 --visits 100 --sample 4", check_games),
    ("explorer", "--store {graph} --clicks 2", check_rows),
    ("mates", "--file {mates} --check", check_mates),
    ("mates-beside", "--visits 30 --rounds 1 --seconds 0.01 --mates {mates}", check_beside),
    ("network", "--file {network} --batch 1 4 --rounds 1 --least 4 --threads 1", check_rows),
    ("review", "--games {games} --visits 10 --rounds 1", check_review),
    ("threads", "--rounds 1 --batch 64 --grown 300 --visits 500", check_threads),
]
BEYOND = (
    "--nodes 40000 --ram-mb 2 --wave 64 --visits 3000 --evaluations 300 --slow-us 50 --builtin-nodes 20000 \
--builtin-ram-mb 2"
)
AIMS = "--resumed-nodes 3000 --session-evaluations 100 --nodes 40000 --ram-mb 2 --builtin-nodes 20000 \
--builtin-ram-mb 2 --wave 64 --visits 1000 --rounds 1 --seconds 0.01"
SLOW: list[tuple[str, str, Check]] = [
    ("exports", "--store {graph}", check_exports),
    ("engine", "--positions 2 --rounds 1 --workers 1 --program {engine}", check_rows),
    ("conversion", "--reference {won} --evaluations 200 --program {engine}", check_conversion),
    ("book-workers", "--workers 1 --tasks 2 --evaluations 20 --rounds 1", check_rows),
    ("cluster", "--visits 5000 --batch 512", check_cluster),
    ("scale", "--nodes 3000 --first 600 --ram-mb 16 --phases pv compact read", check_scale),
]
FULL: list[tuple[str, str, Check]] = [  # a minute, for GRAPHSEARCH_FULL=1
    ("aims", AIMS, check_aims),
    ("beyond-memory", BEYOND, check_beyond_memory),
    ("explorer-lag", "--evaluations 500 --seconds 0.3", check_rows),
    ("explorer-search", "--visits 500 --rounds 1", check_rows),
    ("kills", "--times 1 --shards 2 --visits 5000", check_kills),
    ("pool", "--workers 1 --batch 16 --rounds 1", check_rows),
    ("scale", "--nodes 4000 --shards 2 --ram-mb 16 --phases verify merge", check_scale_shards),
    ("simulation", "--visits 800 --sizes 1000 2500 --builtin-sizes 1000 2500", check_simulation),
    ("soak", "--minutes 2 --seconds 0.4 --ram 16MB", check_rows),
]


def make_small(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets benchmarks simulate and measure less, and work in this process where they start a new one."""
    for figure in ("SHARDS", "MEASURED"):
        monkeypatch.setattr(simulation, figure, getattr(simulation, figure)[:2])
    for figure, small in (
        ("IDLE_VISITS", 100),
        ("BATCH", 512),
        ("WAVES", 4),
        ("SIZES", simulation.SIZES[:1]),
    ):
        monkeypatch.setattr(simulation, figure, small)
    for module in (memory, scale):
        monkeypatch.setattr(module, "fresh", lambda work, *arguments: work(*arguments))
    monkeypatch.setattr(kills.Killer, "_moment", lambda _: 0.1)  # as soon as the search is seen to run
    if name == "kills":
        endless_until_lost(monkeypatch)
    if name == "simulation":
        monkeypatch.setattr(master, "launcher_for", lambda pool, shards: ThreadLauncher())


@pytest.mark.parametrize(
    ("name", "words", "check"),
    [
        *QUICK,
        *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW),
        *(FULL if os.environ.get("GRAPHSEARCH_FULL") else ()),
    ],
    ids=lambda value: value.replace(" ", "_")[:40] if isinstance(value, str) else "",
)
def test_a_benchmark_gives_figures_that_agree(
    name: str,
    words: str,
    check: Check,
    files: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_small(name, monkeypatch)
    if "{engine}" in words:
        files["engine"] = fake_engine(files["games"].parent / "engine")
    assert main([name, *words.format(**files).split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["benchmark"] == name
    check(found["rows"])
    head, line, *_ = list(tables(found["rows"], find(name).keys))[1:]
    assert len(head) == len(line)


def test_every_benchmark_runs_in_a_test() -> None:
    assert {name for name, *_ in (*QUICK, *SLOW, *FULL)} == set(REGISTRY)


# ------------------------------------------------------------------ the harness
def test_rows_with_equal_keys_are_repeats_and_ratios_are_those_of_each() -> None:
    how = benchmark("batch", "threads", across="threads", compare=("per_s",))(lambda: iter(()))
    runs = [(1, 1, 10.0), (1, 2, 30.0), (1, 1, 20.0), (1, 2, 40.0), (1, 1, 40.0), (1, 2, 60.0), (2, 2, 5.0)]
    samples = [{"batch": a, "threads": b, "per_s": c, "ok": True} for a, b, c in runs]
    assert summarised(how, samples) == [
        {"batch": 1, "threads": 1, "per_s": 20.0, "ok": True, "samples": 3},
        {"batch": 1, "threads": 2, "per_s": 40.0, "per_s_ratio": 2.0, "ok": True, "samples": 3},
        {"batch": 2, "threads": 2, "per_s": 5.0, "ok": True},
    ]


def test_positions_give_means_with_errors_and_paired_differences() -> None:
    how = benchmark("variant", across="variant", compare=("regret",), positions=True)(lambda: iter(()))
    values = {"base": (0.1, 0.5, None), "other": (0.3, 0.9, 0.2)}
    samples = [{"variant": name, "regret": values[name][k]} for k in range(3) for name in values]
    base, other = summarised(how, samples)
    assert base["regret"] == pytest.approx(0.3)
    assert (other["regret_less"], other["regret_less_error"]) == pytest.approx((0.3, 0.1))


def test_repeats_run_in_new_processes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["alphabeta", "--depth", "2", "--table-mb", "1", "--fen", STALEMATE, chess.STARTING_FEN]
    found = run("alphabeta", {"depth": 2, "fen": (STALEMATE, chess.STARTING_FEN), "table_mb": 1}, repeats=2)
    assert [row["samples"] for row in found["rows"]] == [2, 2]
    leaves = [row["leaves"] for row in found["samples"]]
    assert len(leaves) == 4
    assert leaves[:2] == leaves[2:]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("| depth | nodes")


def test_a_depth_that_finds_a_mate_has_no_row() -> None:
    rows = run("alphabeta", {"depth": 4, "fen": (f"{MATE_IN_2} 0 1",), "table_mb": 1})["rows"]
    assert [row["depth"] for row in rows] == [1, 2]


def test_a_plot_has_a_line_for_each_other_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "filling.svg"
    words = ["--nodes", "100", "--batch", "1", "8", "--gather", "flow", "budget", "--roots", "1"]
    assert main(["filling", *words, "--plot", str(path)]) == 0
    text = path.read_text()
    assert "builtin, 100, flow" in text
    assert "builtin, 100, budget" in text
    assert "| builtin" in capsys.readouterr().out


def test_without_a_name_every_benchmark_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(REGISTRY)
    assert main(["nonsense"]) == 2


def test_examples_of_the_tools_are_true() -> None:
    names = sorted(path.stem for path in (ROOT / "tools" / "benchmarks").glob("[a-z]*.py"))
    modules = [importlib.import_module(f"tools.benchmarks.{name}") for name in names]
    found = [doctest.testmod(module) for module in (*modules, judge_positions)]
    assert sum(one.failed for one in found) == 0
    assert sum(one.attempted for one in found) >= 13


# ------------------------------------------------------------------ parts
def test_a_uci_engine_is_a_variant(files: dict[str, Path], tmp_path: Path) -> None:
    """The one plays the first move, the other the second one, and says how much it has evaluated."""
    head = "import chess\n\n\ndef go(board, words, k):\n    say('info nodes', words[1], {said})\n"
    play = "    say('bestmove', sorted(map(str, board.legal_moves))[{move}])\n"
    first, second = (
        fake_engine(tmp_path / str(move), (head + play).format(said=said, move=move))
        for move, said in ((0, "'depth 1'"), (1, "'string 50 evaluations'"))
    )
    options = {"variant": (f"engine={first}", f"engine={second}"), "reference": files["reference"]}
    rows = run("quality", options | {"evaluations": (100,)})["rows"]
    assert [(row["same"], row["best_move"], row["done"]) for row in rows] == [(1.0, 1.0, 100), (0.0, 0.0, 50)]
    assert rows[1]["best_move_less"] == -1.0
    assert rows[1]["regret_less"] == pytest.approx(rows[1]["regret"]) != 0


def test_an_engine_judges_the_moves_of_games(files: dict[str, Path]) -> None:
    options = {"games": (files["games"],), "judge": stockfish(), "judge_nodes": 500, "positions": 2}
    rows = run("quality", options | {"variant": ("builtin", "uniform"), "evaluations": (30,)})["rows"]
    assert all(0 <= row["regret"] <= 2 and row["samples"] == 2 for row in rows)


def test_a_move_gives_away_what_the_best_one_is_worth_more() -> None:
    case = Case(chess.Board(), ("e2e4",), {"e2e4": 0.25, "a2a3": -0.25})
    assert (case.regret("e2e4"), case.regret("a2a3")) == (0.0, 0.5)
    assert Case(chess.Board()).regret("e2e4") is None
    case = Case(chess.Board(), centipawns={"e2e4": 30, "a2a3": -2000})
    assert (case.lost("e2e4"), case.lost("a2a3"), Case(chess.Board()).lost("e2e4")) == (0, 2030, None)


def test_a_reference_splits_into_halves_and_kinds(tmp_path: Path) -> None:
    wdls = [[950, 50, 0], [0, 50, 950], [500, 500, 0]]
    rows = [{"fen": chess.STARTING_FEN, "bestmove": "e2e4", "wdl": wdls[n % 3], "game": n} for n in range(60)]
    path = tmp_path / "reference.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    halves = [len(read_reference(path, half)) for half in ("tune", "report")]
    assert sum(halves) == 60
    assert min(halves) > 0
    assert halves[0] == sum(half_of(row) == "tune" for row in rows)
    decided = read_reference(path, kind="decided")
    assert len(decided) == 40 == 60 - len(read_reference(path, kind="open"))
    assert all(case.q is not None and abs(case.q) >= DECIDED for case in decided)


def test_judged_positions_are_appended_until_there_are_enough(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "judged.jsonl"
    common = ["--openings", str(files["games"]), "--engine", stockfish(), "--nodes", "500", "--depth", "2"]
    judge_positions.main([*common, "--out", str(path), "--count", "1"])
    first = path.read_text()
    judge_positions.main([*common, "--out", str(path), "--count", "3"])
    assert path.read_text().startswith(first)
    cases = read_reference(path)
    assert len(cases) == 3
    for case in cases:
        assert set(case.worth) == {move.uci() for move in case.board.legal_moves} >= set(case.best)


def test_the_slow_evaluator_answers_like_uniform() -> None:
    slow = SlowEvaluator(200.0)
    batch = PositionBatch.from_boards([chess.Board(), chess.Board("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1")] * 20)
    ours, theirs = slow.evaluate(batch), UniformEvaluator().evaluate(batch)
    assert (ours.wdl == theirs.wdl).all()
    assert (ours.priors == theirs.priors).all()
    first = slow.seconds
    slow.evaluate(batch)
    assert slow.seconds > first > 0, "it counts its time"


@pytest.mark.slow
def test_a_run_of_scale_continues_where_it_stopped(files: dict[str, Path]) -> None:
    options: Row = {"nodes": 600, "first": 600, "ram_mb": 16, "phases": ("info",), "folder": files["scale"]}
    first = run("scale", options)["samples"]
    again = run("scale", options | {"phases": ("info", "verify")})["samples"]
    assert [row["phase"] for row in again] == ["grow", "info", "verify"]
    assert again[:2] == first
    assert sorted(path.name for path in files["scale"].iterdir()) == ["grown.graph", "scale.json"]
    with pytest.raises(SystemExit, match="another --folder"):
        run("scale", options | {"ram_mb": 17})


def test_an_unknown_phase_is_named_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no phase grow up.*salvage"):
        run("scale", {"phases": ("grow up",), "folder": tmp_path / "none"})
    assert not (tmp_path / "none").exists()
    assert set(ON_A_COPY) <= set(PHASES)
    assert set(SHARDED) - set(PHASES) == {"merge"}
