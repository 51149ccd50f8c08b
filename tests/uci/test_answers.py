"""The engine: answers when things go wrong, are late or repeat; commands, options, time; its clients."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import chess
import chess.engine
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import InvalidParameterError, StoreError
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.graph.view import show
from graphsearch.position.board import board_of, key_of, legal_moves, pack
from graphsearch.position.notation import board_from_fen
from graphsearch.position.values import cp_of
from graphsearch.search import gather_kernel, visit_kernel
from graphsearch.search.repetition import Draws, Headway
from graphsearch.store.record import UNPROVEN, Edge, NodeRecord
from graphsearch.store.store import Store
from graphsearch.uci import answer
from graphsearch.uci.clock import BatchPace, Budget, Standing, clock_budget, may_stop
from graphsearch.uci.options import OPTIONS, Settings, spec_of
from graphsearch.uci.protocol import Writer, parse_go, parse_position, parse_setoption, written_line
from tests.conftest import Cli, finish, shared_data, start
from tests.support.graphs import numbers_below
from tests.support.pools import until
from tests.support.positions import played
from tests.support.reference import HashEvaluator
from tests.uci.engines import PATIENCE, BlockingEvaluator, Played, ask_until_late, best_of, field_of

START = chess.Board()
AHEAD = "8/8/8/3k4/8/8/8/K2NB3 w - - 7 80"
AMPLE = "wtime 36000000 btime 36000000"  # no standstill of the machine uses that up


def is_legal(board: chess.Board, lines: list[str]) -> bool:
    return board.is_legal(chess.Move.from_uci(best_of(lines)))


@pytest.fixture
def blocking() -> BlockingEvaluator:
    return BlockingEvaluator()


def test_both_gatherers_of_an_evaluator_outside_are_compiled_before_a_clock_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = list[str]()

    def noted(kernel: Any, name: str, *on: Any) -> Any:
        ran.append(name)
        return kernel(*on)

    for where, name in ((gather_kernel, "gather"), (visit_kernel, "gather_one")):
        monkeypatch.setattr(where, name, partial(noted, getattr(where, name), name))
    evaluator = HashEvaluator()
    with Played(make=lambda settings: evaluator) as game:
        game.ready()
        assert set(ran) == {"gather", "gather_one"}
        assert len(evaluator.asked) == 1, "the trials ask another evaluator"


def test_a_late_evaluator_never_keeps_an_answer_back(blocking: BlockingEvaluator) -> None:
    with Played(make=lambda settings: blocking) as game:
        game.ready().ask("go nodes 100", until="bestmove")
        board = chess.Board()
        for _ in range(3):  # the first wave is late, and the next searches find the worker at it
            lines = ask_until_late(game, blocking, f"position fen {board.fen()}", "go wtime 400 btime 400")
            assert is_legal(board, lines)
            assert not blocking.open.is_set()
            board.push_uci(best_of(lines))
        assert game.ask("isready", until="readyok")
        blocking.open.set()
        lines = game.ask(f"position fen {board.fen()}", "go nodes 60", until="bestmove")
        assert is_legal(board, lines)
        assert field_of(lines[-2], "nodes") >= 60


def test_a_late_worker_goes_on_along_the_expected_line(blocking: BlockingEvaluator) -> None:
    with Played(make=lambda settings: blocking) as game:
        game.ready().ask("go nodes 500", until="bestmove")
        lines = ask_until_late(game, blocking, "go wtime 500 btime 500")
        line = next(line for line in reversed(lines) if " pv " in line).partition(" pv ")[2].split()
        board = played(chess.STARTING_FEN, line[:2])
        again = game.ask(f"position fen {board.fen()}", "go movetime 20", until="bestmove")
        assert best_of(again) == line[2]
        assert not blocking.open.is_set()
        blocking.open.set()


class FailingEvaluator(HashEvaluator):
    """Answers some batches, then fails."""

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        if self.calls >= 4:
            raise SystemExit("the device is gone")
        return super().evaluate(batch)


@pytest.mark.parametrize("calls", [0, 4])  # at its first batch or at its fifth
def test_an_evaluator_that_fails_in_a_game_leaves_an_answer(calls: int) -> None:
    (evaluator := FailingEvaluator()).calls = calls
    with Played(make=lambda settings: evaluator) as game:
        lines = game.ready().ask("go nodes 100000", until="bestmove")
        assert any("ERROR" in line and "the device is gone" in line for line in lines)
        assert is_legal(START, lines)
        assert best_of(game.ask("position startpos moves e2e4", "go nodes 10", until="bestmove")) != "0000"


def test_what_is_missing_is_one_line_and_a_move_is_played() -> None:
    defaults = {option.name: option.default for option in OPTIONS}
    with Played() as game:
        for option, value in (
            ("Evaluator", "lc0:/no/such/file.pb.gz"),
            ("Evaluator", "nobody"),
            ("EvaluatorOptions", "nonsense"),
            ("PolicyTemperature", "-3"),
            ("GraphFile", "/no/such/folder/a.graph"),
        ):
            lines = game.ask(f"setoption name {option} value {value}", "isready", until="readyok")
            assert len([line for line in lines if "ERROR" in line]) == 1, value
            assert is_legal(START, game.ask("go nodes 40", until="bestmove"))
            lines = game.ask(f"setoption name {option} value {defaults[option]}", "isready", until="readyok")
            assert not any("ERROR" in line for line in lines), option


@pytest.mark.parametrize("is_written", [False, True])
def test_a_file_of_another_evaluator_or_writer_is_left_alone(tmp_path: Path, is_written: bool) -> None:
    path = tmp_path / "a.graph"
    with ExitStack() as writing:
        graph = writing.enter_context(
            Graph.open(path, evaluator="builtin" if is_written else HashEvaluator())
        )
        analyze(graph, START, Limits(visits=50))
        if not is_written:
            writing.close()
        before = path.read_bytes()
        with Played({"GraphFile": str(path)}) as game:
            lines = game.ask("isready", until="readyok")
            said = "memory only" if is_written else "hash"
            assert any("ERROR" in line and said in line for line in lines)
            assert is_legal(START, game.ask("go nodes 50", until="bestmove"))
        assert path.read_bytes() == before


def test_a_file_is_used_once_its_writer_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path) as graph, Played({"GraphFile": str(path)}) as game:
        assert not any("is open now" in line for line in game.ready().ask("go nodes 50", until="bestmove"))
        made = game.engine._opened._chosen
        graph.close()
        assert any("is open now" in line for line in game.ask("go nodes 60", until="bestmove"))
        assert game.engine._opened._chosen is made
    with Store.open(path, read_only=True) as store:
        assert (record := store.read(START))
        assert record.visits == 60


def test_a_finished_game_has_no_best_move() -> None:
    with Played({"UCI_ShowWDL": "true"}) as game:
        mate = game.ask("position fen 7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", "go nodes 10", until="bestmove")
        assert mate[-2:] == ["info depth 0 score mate 0 wdl 0 0 1000", "bestmove 0000"]
        stale = game.ask("position fen 7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "go movetime 50", until="bestmove")
        assert stale[-2:] == ["info depth 0 score cp 0 wdl 0 1000 0", "bestmove 0000"]
        dead = game.ask(
            "position fen 7k/8/6K1/8/8/8/8/8 b - - 0 1", "go wtime 900 btime 900", until="bestmove"
        )
        assert best_of(dead) == "h8g8"
        assert "ERROR" not in "".join(dead)
        late = game.ask("position startpos moves " + "g1f3 g8f6 f3g1 f6g8 " * 70, "d", until="Key")
        assert " - 255 141" in "".join(late)  # a file holds no larger clock


def test_an_infinite_search_waits_for_stop_whatever_it_has_found() -> None:
    with Played() as game:
        game.ready()
        for fen in ("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", "7k/8/6K1/8/8/8/8/8 b - - 0 1", chess.STARTING_FEN):
            lines = game.ask(f"position fen {fen}", "go infinite", "isready", until="readyok")
            lines += game.ask("d", until="Key")
            assert not any(line.startswith("bestmove") for line in lines)
            game.ask("stop", until="bestmove")


@pytest.mark.parametrize(("at", "listed"), [("startpos", "a2a3 h2h4"), (f"fen {AHEAD}", "e1d2 e1c3")])
def test_searchmoves_are_the_only_ones_to_be_played(at: str, listed: str) -> None:
    with Played({"MultiPV": "5"}) as game:
        game.ask(f"position {at}", "go nodes 900", until="bestmove")
        lines = game.ask(f"go nodes 1200 searchmoves {listed} e2e5", until="bestmove")
        assert any("e2e5" in line and "searchmoves" in line for line in lines)
        assert best_of(lines) in listed
        assert {line.split(" pv ")[1].split()[0] for line in lines if " pv " in line} == {*listed.split()}
        lines = game.ask("go nodes 400 searchmoves e2e5", until="bestmove")
        assert any("all moves are searched" in line for line in lines)
        mate = "position fen 6rk/6pp/8/6N1/8/8/8/K7 w - - 0 1"
        lines = game.ask(mate, "go nodes 100 searchmoves a1a2", until="bestmove")
        assert [line for line in lines if " pv " in line and " score cp -" not in line] == []
        assert " nodes 100 " in lines[-2]


def test_pondering_ends_at_the_clock_of_the_ponderhit_or_at_stop() -> None:
    with Played() as game:
        game.ready()
        for last in ("ponderhit", "stop"):
            game.ask("position startpos moves e2e4", "go ponder wtime 300 btime 300", "d", until="Key")
            assert not any(line.startswith("bestmove") for line in game.console.lines[game.console.read :])
            assert best_of(game.ask(last, until="bestmove")) != "0000"


def test_a_ponderhit_amid_an_update_does_not_spend_pondering_time(monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[answer.GoAnswer] = []
    real = answer.GoAnswer._ranked

    def ranked(self: answer.GoAnswer, record: NodeRecord) -> list[tuple[chess.Move, int, float]]:
        if self.is_held and time.monotonic() - self.began > 1.0:
            self.ponderhit()
        elif not self.is_held and not self.done.is_set():
            updates.append(self)
        return real(self, record)

    monkeypatch.setattr(answer.GoAnswer, "_ranked", ranked)
    monkeypatch.setattr(answer, "may_stop", lambda budget, at: at.elapsed > 0.9)
    with Played() as game:
        game.ready().ask(f"go ponder {AMPLE}", until="bestmove")
    assert updates


def test_a_go_has_its_answer_although_the_input_ends_before_the_graph_is_open() -> None:
    loaded = threading.Event()

    def make(_: object) -> Evaluator:
        assert loaded.wait(PATIENCE)
        return UniformEvaluator()

    with Played(make=make) as played:
        assert played.engine.handle("go nodes 100")
        assert not played.engine.close()
        assert is_legal(START, played.console.until("bestmove"))
        loaded.set()


def test_what_is_known_is_shown_at_once_and_counts(tmp_path: Path) -> None:
    with Played({"GraphFile": str(tmp_path / "a.graph")}) as game:
        game.ask("position startpos moves e2e4", "go nodes 300", until="bestmove")
        game.ask("position startpos moves e2e4 e7e5 g1f3", "go nodes 300", until="bestmove")
        lines = game.ask("position startpos moves e2e4", "ucinewgame", "go nodes 300", until="bestmove")
        infos = [line for line in lines if " pv " in line]
        assert all(field_of(line, "nodes") >= 300 for line in infos)
        assert field_of(infos[-1], "nps") == 0
        infos += [line for line in game.ask("go nodes 5000", until="bestmove") if " pv " in line]
        assert sorted(infos, key=lambda line: field_of(line, "depth")) == infos


CHANGES = ("Threads value 2", "Workers value 1", "Gather value classic", "SyzygyPath value FOLDER")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("filed", [False, True])
def test_positions_stay_if_evaluators_give_the_same_answers(tmp_path: Path, change: str, filed: bool) -> None:
    if "FOLDER" in change:
        change = change.replace("FOLDER", str(shared_data("syzygy")))
    with Played({"GraphFile": str(tmp_path / "a.graph") if filed else ""}) as game:
        game.ready().ask("go nodes 300", until="bestmove")
        graph = game.engine._opened.graph
        changed = game.ask(f"setoption name {change}", "isready", until="readyok")
        assert not [line for line in changed if "ERROR" in line or "dropped" in line]
        assert game.engine._opened.graph is graph
        assert field_of(game.ask("go nodes 100", until="bestmove")[-2], "nodes") == 300
        lines = game.ask("position startpos moves a2a3", "go nodes 100", until="bestmove")
        assert field_of(lines[-2], "nodes") >= 100
        assert game.ask("setoption name Evaluator value uniform", "isready", until="readyok")
        assert game.engine._opened.graph is not graph


def test_a_full_memory_is_emptied_for_the_next_position() -> None:
    with Played({"RAM": "8MB", "Evaluator": "uniform", "Threads": "1"}) as game:
        lines = game.ready().ask("go nodes 100000000", until="bestmove")
        assert any("memory is full" in line for line in lines)
        again = game.ask("go nodes 100000000", until="bestmove")  # the same position: nothing is lost
        assert field_of(again[-2], "nodes") >= field_of(lines[-2], "nodes")
        after = game.ask("position startpos moves a2a3 a7a6 a3a4", "go nodes 5000", until="bestmove")
        assert any("dropped, because it is full" in line for line in after)
        assert field_of(after[-2], "nodes") == 5000
        assert not any("is full" in line for line in game.ask("go nodes 6000", until="bestmove"))


ENDLESS = "9" * 5000
JUNK = [
    "", "   ", "uci uci", "position", "position fen x", "position startpos moves e9e4", "position startpos",
    "position startpos moves " + "g1f3 g8f6 f3g1 f6g8 " * 30, "setoption", "setoption name",
    "setoption name MultiPV value", "setoption name MultiPV value 99999", "setoption name Threads value -1",
    "setoption name CPuct value 1e999", "setoption name LogFile value /no/such/folder/log",
    "stop", "stop stop", "ponderhit", "isready", "debug on", "register later", "d", "ucinewgame",
    "\x00\x01", "é" * 50, "joho debug on", "go", "go infinite", "go ponder", "go nodes", "go nodes -3",
    "go nodes 5", "go depth x", "go mate 0", "go nodes 99999999999999999999", "go wtime",
    "go wtime 0 btime 0", "go wtime -5 btime -5 movestogo 1", "go movetime 20", "go movetime -20",
    "go searchmoves", "go nodes 5 searchmoves " + "x" * 10_000, "go wtime x nodes 5",
    f"go wtime {ENDLESS} winc {ENDLESS} movestogo {ENDLESS} nodes 5", f"go wtime -{ENDLESS} btime -5",
    f"go nodes 5 depth {ENDLESS} mate {ENDLESS} movetime 50", f"go movetime {ENDLESS} nodes 5", "go " * 5000,
    "position startpos moves " + "e2e4 " * 20_000,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_no_junk_ends_the_engine_and_every_go_has_its_answer(seed: int) -> None:
    dice = random.Random(seed)
    with Played() as game:
        game.ready()
        sent = dice.sample(JUNK, len(JUNK))
        for line in sent:
            assert game.engine.handle(line)
        assert game.engine.handle("stop")
        lines = game.ask("position startpos", "stop", "isready", "go nodes 3", until="bestmove")
        assert is_legal(START, lines)
        while sum(line.startswith("bestmove") for line in game.console.lines) <= sum(
            line.split()[:1] == ["go"] for line in sent
        ):
            game.console.until("bestmove")
        assert not any("failed:" in line or "Error:" in line for line in game.console.lines)


def test_ready_means_that_changed_options_are_in_force_and_both_directions_are_logged(tmp_path: Path) -> None:
    path, log = tmp_path / "a.graph", tmp_path / "log.txt"
    with Played({"LogFile": str(log)}) as game:
        assert "bestmove" in game.ready().ask("go infinite", "stop", "isready", until="readyok")[-2]
        game.ask(f"setoption name GraphFile value {path}", "isready", until="readyok")
        assert path.exists()
    assert {"> isready", "< readyok"} <= {line[-9:].strip() for line in log.read_text().splitlines()}


def test_a_file_that_cannot_be_written_costs_no_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.graph"

    def full(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    with Played({"GraphFile": str(path)}) as game:
        game.ready()
        with monkeypatch.context() as broken:
            broken.setattr(Store, "append_batches", full)
            assert is_legal(START, game.ask("go nodes 300", until="bestmove"))
            game.console.until("info string ERROR: the disk is full")
            broken.setattr("graphsearch.search.loop.FLUSH_SECONDS", 0.0)
            for nodes in 3000, 9000:
                lines = game.ask(f"go nodes {nodes}", until="bestmove")
                assert is_legal(START, lines)
                assert field_of(lines[-2], "nodes") >= nodes
        assert sum("the disk is full" in line for line in game.console.lines) == 1
        visits = field_of(game.ask("go nodes 1", until="bestmove")[-2], "nodes")
    node = show(path, START)  # saved when there was room again
    assert node is not None
    assert node.visits == visits


@pytest.mark.parametrize("overlap", ["0", "1"])
def test_go_nodes_again_and_again_is_one_search(tmp_path: Path, overlap: str) -> None:
    path, options = tmp_path / "a.graph", {"MinibatchSize": "16", "Overlap": overlap}
    for session in ((1, 50, 51, 150), (151, 250)):
        with Played(options | {"GraphFile": str(path)}, make=lambda settings: HashEvaluator()) as game:
            for nodes in session:
                game.ready().ask(f"go nodes {nodes}", until="bestmove")
    params = SearchParams(minibatch_size=16, overlap=int(overlap))
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        parts = numbers_below(graph, START)
    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        analyze(graph, START, Limits(visits=parts[key_of(START)].visits), params)
        assert numbers_below(graph, START) == parts


@pytest.mark.parametrize(
    "refused", ["fen 8/8/8/8/8/8/8/8 w - - 0 1", "fen nonsense", "", "startpos moves e2e4 e7e5 e1e3 g8f6"]
)
def test_a_position_that_cannot_be_read_has_no_move_until_the_next(refused: str) -> None:
    with Played() as game:
        game.ready().ask("position startpos", "go nodes 5", until="bestmove")
        lines = game.ask(f"position {refused}", "go nodes 5", until="bestmove")
        assert lines[-1] == "bestmove 0000"
        assert sum("ERROR" in line for line in lines) == 2
        lines = game.ask("go infinite", "d", until="Key")
        assert not any(line.startswith("bestmove") for line in lines)
        assert game.ask("stop", until="bestmove")[-1] == "bestmove 0000"
        assert is_legal(START, game.ask("position startpos", "go nodes 5", until="bestmove"))
        lines = game.ask("position startpos moves e2e4 e7e5", "go nodes 5", until="bestmove")
        assert best_of(lines) != "0000"


# ------------------------------------------------------------------ go mate
TWO = "position fen kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"


def test_a_mate_within_the_moves_is_proven_and_played() -> None:
    with Played({"UCI_ShowWDL": "true"}) as game:
        lines = game.ready().ask(TWO, "go mate 3", until="bestmove")
        assert " score mate 2 wdl 1000 0 0 " in lines[-2]
        assert lines[-2].partition(" pv ")[2].split()[0] == "a1a6" == best_of(lines)
        lines = game.ask(TWO + " moves a1a6", "go mate 3", until="bestmove")
        assert " score mate -1 wdl 0 0 1000 " in lines[-2]
        late = "position fen 7k/8/6K1/8/8/8/8/R7 w - - 100 90"
        for go in ("go mate 1", "go nodes 20"):
            lines = game.ask(late, go, until="bestmove")
            assert " score mate 1 " in lines[-2]


def test_the_first_line_is_that_of_the_move_played(monkeypatch: pytest.MonkeyPatch) -> None:
    fen = "2r3k1/pppR1pp1/4p3/4P1P1/5P2/1P4K1/P1P5/8 w - -"  # its best move has no value after three visits
    with Played({"MultiPV": "3"}) as game:
        few = game.ready().ask(f"position fen {fen}", "go nodes 3", until="bestmove")
        monkeypatch.setattr(answer, "NEWS_SECONDS", 1e9)  # the clock answers before another report is due
        monkeypatch.setattr(answer.GoAnswer, "_is_enough", lambda *_: False)
        lines = game.ask("go movetime 500", until="bestmove")
        first = [line.partition(" pv ")[2] for line in lines if " multipv 1 " in line][-1]
        assert first.split()[0] == best_of(lines) != best_of(few)


def test_where_no_mate_is_that_short_or_moves_are_listed_the_graph_is_searched() -> None:
    with Played() as game:
        lines = game.ready().ask(TWO, "go mate 1", until="bestmove")
        assert any("no mate in up to 1" in line for line in lines)
        assert is_legal(chess.Board(TWO.removeprefix("position fen ")), lines)
        assert best_of(game.ask(TWO, "go mate 2 searchmoves a1a2", until="bestmove")) == "a1a2"


def test_every_search_plays_the_shortest_mate_and_the_longest_defence() -> None:
    with Played() as game:
        game.ready()
        for go in ("go nodes 400", "go wtime 3600000 btime 3600000", "go infinite"):
            if go == "go infinite":
                game.ask(TWO, go, until="info depth")
            lines = game.ask(*(["stop"] if go == "go infinite" else [TWO, go]), until="bestmove")
            assert " score mate 2 " in lines[-2]
            assert lines[-2].partition(" pv ")[2].split()[0] == "a1a6" == best_of(lines)
            assert len(lines[-2].partition(" pv ")[2].split()) == 3
        lines = game.ask(TWO + " moves a1a6", "go nodes 400", until="bestmove")
        assert " score mate -1 " in lines[-2]


# ------------------------------------------------------------------ scores
KNOWN = ((1, 1), (0, 0), (-1, -1))


@pytest.mark.parametrize("fen", ["6k1/5ppp/8/8/8/8/q4PPP/3R2K1 w - - 0 1", "7k/5Q2/5K2/8/8/8/8/8 w - - 0 1"])
def test_every_line_of_a_won_position_has_a_value_of_its_own(fen: str, tmp_path: Path) -> None:
    path = tmp_path / "won.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        moves = analyze(graph, chess.Board(fen), Limits(visits=9)).node.moves
    known = {move.move.uci(): move for move in moves}
    options = {"GraphFile": str(path), "Evaluator": "uniform", "UCI_ShowWDL": "true", "MultiPV": "9"}
    with Played(options) as game:
        lines = game.ready().ask(f"position fen {fen}", "go nodes 9", until="bestmove")
    shown = {found[1]: line for line in lines if (found := re.search(r" pv (\S+)", line))}  # the last ones
    assert best_of(lines) in shown
    for name, line in shown.items():
        move = known[name]
        assert move.n or move.bounds in KNOWN, "a line without a value"
        assert (" score mate " in line) == (move.mate is not None)
        assert (" wdl 1000 0 0 " in line) == (move.mate is not None)
    valued = [move for move in list(known.values())[:9] if move.n or move.bounds in KNOWN]
    assert len(shown) == len(valued) < len(known)


@pytest.mark.parametrize("clock", [0, 7])
def test_a_result_of_tables_is_the_score(clock: int) -> None:
    """Bishop and knight win at every clock that leaves time; a lone bishop draws."""
    cases = {"8/8/8/3k4/8/8/8/K2NB3 w": 1, "8/8/8/3k4/8/8/8/K2NB3 b": -1, "8/8/8/3k4/8/8/4P3/K7 w": 0}
    with Played({"SyzygyPath": str(shared_data("syzygy")), "UCI_ShowWDL": "true", "MultiPV": "2"}) as game:
        for fen, result in cases.items():
            board = chess.Board(f"{fen} - - {clock} 80")
            lines = game.ready().ask(f"position fen {board.fen()}", "go nodes 50", until="bestmove")
            scored = [line for line in lines if " score " in line]
            assert scored
            for line in scored:
                if " score mate " not in line:
                    assert field_of(line, "cp") == cp_of(result)
                expected = {1: "1000 0 0", 0: "0 1000 0", -1: "0 0 1000"}[result]
                assert f" wdl {expected} " in line, line


def test_a_folder_without_tables_costs_neither_the_evaluator_nor_the_file(tmp_path: Path) -> None:
    """XBoard sends /EGT/Syzygy, which is hardly anywhere."""
    missing = {"GraphFile": str(tmp_path / "a.graph"), "SyzygyPath": str(tmp_path / "Syzygy")}
    with Played(missing | {"Evaluator": "uniform"}) as game:
        lines = game.ask("isready", until="readyok")
        for _ in range(2):
            lines += game.ask("ucinewgame", "go nodes 20", until="bestmove")
        assert sum("ERROR" in line for line in lines) == 1
        opened = game.engine._opened
        assert (opened.is_substitute, opened.trouble) == (False, "")
        assert opened.graph is not None
        assert opened.graph.store is not None
    with Played(missing | {"Evaluator": "nobody"}) as game:
        (error,) = [line for line in game.ask("isready", until="readyok") if "ERROR" in line]
        assert "unknown evaluator 'nobody'" in error


# ------------------------------------------------------------------ a third occurrence in the game
BEFORE = "3r2k1/5pp1/3p1n1p/8/1P1P3P/3N1KP1/2R2P2/8 b - - 0 1"
TWICE = "f6d5 f3e4 d5f6 e4f3 f6d5 f3e4 d5f6"  # Kf3 would be the third time
HERE = "3r2k1/5pp1/3p1n1p/8/1P1PK2P/3N2P1/2R2P2/8 w - - 2 2"


class Habits(HashEvaluator):
    """White's result is the same everywhere, and one of White's moves has most of the prior."""

    def __init__(self, result: float, habit: str) -> None:
        super().__init__()
        self._result, self._habit = result, habit

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        answer = super().evaluate(batch)
        white = (1 + self._result) / 2
        for row, (board, moves) in enumerate(batch.boards()):
            share = white if board.turn == chess.WHITE else 1 - white
            answer.wdl[row] = (share, 0.0, 1 - share)
            usual = [move.uci() == self._habit for move in moves]
            priors = np.where(usual, 50.0, 1.0)
            answer.priors[batch.offsets[row] : batch.offsets[row + 1]] = priors / priors.sum()
        return answer


def answered(result: float, habit: str, *limits: str) -> tuple[list[str], list[str]]:
    """Returns the answers without the game, and in the game that may end by a third occurrence."""
    with Played({"MultiPV": "30"}, make=lambda settings: Habits(result, habit)) as engine:
        fresh = engine.ready().ask(f"position fen {HERE}", "go nodes 3000", until="bestmove")
        game = engine.ask(f"position fen {BEFORE} moves {TWICE}", "go nodes 3100", until="bestmove")
        return fresh, game


def test_the_side_that_stands_better_does_not_repeat_whatever_earlier_searches_preferred() -> None:
    fresh, game = answered(0.6, "e4f3")
    assert best_of(fresh) == "e4f3"
    assert best_of(game) != "e4f3"
    assert field_of([line for line in game if " pv e4f3" in line][-1], "cp") == 0


@pytest.mark.parametrize("habit", ["e4e3", "e4f3"])
def test_the_side_that_stands_worse_repeats_whatever_earlier_searches_preferred(habit: str) -> None:
    fresh, game = answered(-0.6, habit)
    assert best_of(fresh) == habit
    assert best_of(game) == "e4f3"
    assert field_of(next(line for line in reversed(game) if " multipv 1 " in line), "cp") == 0


def test_the_gui_may_ask_for_other_moves_than_the_draw() -> None:
    with Played(make=lambda settings: Habits(-0.6, "e4e3")) as engine:
        lines = (f"position fen {BEFORE} moves {TWICE}", "go nodes 300 searchmoves e4e3 e4f4")
        assert best_of(engine.ready().ask(*lines, until="bestmove")) in ("e4e3", "e4f4")
        lines = (f"position fen {BEFORE} moves {TWICE}", "go nodes 300 searchmoves e4f3")
        assert best_of(engine.ask(*lines, until="bestmove")) == "e4f3"


def test_a_move_that_lets_the_worse_side_repeat_is_a_draw_as_well() -> None:
    game = played(BEFORE, [*TWICE.split(), *["e4e3", "f6d7", "e3e2", "d7b6"]])
    draws = Draws.of(game)
    assert not draws.at_once
    (offered,) = draws.offered  # ...Nd5 would be the third time
    assert offered == chess.Move.from_uci("e2f3")
    assert Headway.of(game).repeats(offered)
    assert draws.is_worth_a_draw(offered, 0.5)
    assert not draws.is_worth_a_draw(offered, -0.5)


def test_a_move_without_a_search_repeats_only_if_material_is_behind() -> None:
    for queen, third in (("Q", False), ("q", True)):
        fen = f"k7/8/8/8/8/2{queen}5/8/6K1 w - - 0 1"
        game = played(fen, ["g1h1", "a8b8", "h1g1", "b8a8"] * 2 + ["g1h1", "a8b8"])
        draws = Draws.of(game).at_once
        assert chess.Move.from_uci("h1g1") in draws
        assert (answer.quick_move(game, (), draws) in draws) == third
        assert answer.quick_move(game, draws, draws) in draws


def test_a_draw_is_refused_only_for_a_clearly_better_move() -> None:
    repeat, other, worse = (chess.Move.from_uci(text) for text in ("f6g8", "d7d5", "h7h5"))
    draws = Draws(at_once=frozenset({repeat}))
    for value, place in ((0.5, 1), (0.1, 0), (-0.3, 0)):
        rows = draws.ranked([(repeat, 90, 0.4), (other, 50, value), (worse, 10, -0.6)])
        assert [row[0] for row in rows].index(repeat) == place, value


@pytest.mark.parametrize(("result", "repeats"), [(0.6, False), (-0.6, True)])
def test_only_a_side_not_ahead_returns_to_a_position_of_the_game(result: float, repeats: bool) -> None:
    with Played(make=lambda settings: Habits(result, "e4f3")) as engine:
        lines = (f"position fen {BEFORE} moves f6d5 f3e4 d5f6", "go nodes 300")
        answer = engine.ready().ask(*lines, until="bestmove")
    assert (best_of(answer) == "e4f3") == repeats
    assert [line for line in answer if " pv " in line][-1].split(" pv ")[1].startswith(best_of(answer))


def test_a_side_that_is_ahead_avoids_a_move_that_a_check_takes_back() -> None:
    before, moves = "r7/8/4k3/8/7Q/P7/3r4/1K6 b - - 0 1", "a8b8 b1a1 d2d8"
    headway = Headway.of(played(before, moves.split()))
    assert headway.repeats(chess.Move.from_uci("a1a2"))  # ...Rd2+ leaves only Ka1, as before ...Rd8
    assert not headway.repeats(chess.Move.from_uci("h4g3"))
    with Played(make=lambda settings: Habits(0.6, "a1a2")) as engine:
        lines = (f"position fen {before} moves {moves}", "go nodes 300")
        assert best_of(engine.ready().ask(*lines, until="bestmove")) != "a1a2"


def test_a_side_that_is_ahead_resets_the_clock_if_that_costs_less_than_the_clock() -> None:
    again, quiet, push = (chess.Move.from_uci(text) for text in ("f6g8", "a8b8", "h7h5"))
    for clock, value, best in ((70, 0.55, push), (30, 0.55, quiet), (10, 0.6, quiet), (70, 0.2, quiet)):
        headway = Headway({again}.__contains__, frozenset({push}), clock)
        assert headway.ranked([(again, 90, 0.61), (quiet, 50, 0.6), (push, 40, value)])[0][0] == best
        for best_value in (0.2, 1.0):  # level, and a proven win
            assert headway.first([(again, 90, best_value), (push, 40, best_value)]) == 0
        assert headway.first([(again, 90, 0.6), (quiet, 3, 0.6), (push, 40, 0.5)]) == 0
        assert headway.first([(quiet, 6000, -0.9), (push, 10, -0.5), (again, 100, 0.6)]) == 2


def test_a_won_position_is_not_drawn_by_the_clock_if_a_capture_wins() -> None:
    """The mate after the capture comes later than the hundredth ply, and another move has the visits."""
    board = chess.Board("8/8/5k2/6R1/8/5K2/8/6q1 b - - 86 60")
    codes = bytes(60 if board.is_capture(move) else 1 for move in legal_moves(board))
    edges = Edge(100, 0, 1.0, 23), Edge(67, 0, 1.0, 25), Edge(5784, 0, 0.9988, 1)
    given = answer.GoAnswer(parse_go([]), board, [], Settings(), Writer(print), 0.0)
    given.note(NodeRecord(tuple(pack(board).tolist()), 0.7, 300, 1, UNPROVEN, codes, edges))
    assert given.best_line() == (chess.Move.from_uci("f6g5"),)


# ------------------------------------------------------------------ commands as values
def test_go_reads_every_limit() -> None:
    line = "wtime 1 btime 2 winc 3 binc 4 movestogo 5 depth 6 nodes 7 mate 8 movetime 9 ponder"
    go = parse_go(line.split())
    values = (go.wtime, go.btime, go.winc, go.binc, go.movestogo, go.depth, go.nodes, go.mate, go.movetime)
    assert values == (1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert go.ponder
    assert not go.notes
    assert parse_go(["searchmoves", "e2e4", "d2d4", "infinite"]).infinite


def test_a_position_ends_where_its_moves_become_illegal() -> None:
    given = parse_position(["startpos", "moves", "e2e4", "e7e5", "e4e5", "g1f3"])
    assert len(given.board.move_stack) == 2
    assert "move 3, 'e4e5'" in given.problem
    assert parse_position(["startpos", "moves", "e2e4", "0000"]).problem
    assert not parse_position(f"fen {chess.STARTING_FEN} moves e2e4".split()).problem


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("2r5/5p1k/8/8/8/8/5P2/2RQ2K1 b KQkq - 0 1", "b - - 0 1"),
        ("r3k2r/8/8/8/8/8/8/R3K3 w KQkq - 0 1", "w Qkq - 0 1"),
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQxkq? - 3 9", "w KQkq - 3 9"),
        ("4k3/8/8/8/4P3/8/8/4K3 w - e3 0 1", "w - - 0 1"),
        ("4k3/8/8/8/8/8/8/4K3 b - e3 0 1", "b - - 0 1"),
        ("4k3/8/8/8/4P3/8/8/4K3 b - e9 0 1", "b - - 0 1"),
        ("1r1k2rr/p2bbp1p/8/8/8/8/P2BBP1P/RR2K1RR w BGbg - 3 20", ""),
        ("r3k2r/8/8/8/8/8/8/R3K2R w HAha - 0 1", ""),
        *((fen, "") for fen in ("4k3/8/8/8/4P3/8/8/4K3 b - e3 0 1", chess.STARTING_FEN)),
    ],
)
def test_rights_and_squares_that_cannot_be_are_named_and_others_stay(given: str, read: str) -> None:
    position = parse_position(["fen", *given.split()])
    assert (len(position.notes), position.problem) == (bool(read), "")
    if read:
        assert position.board.fen(en_passant="fen").split(" ", 1)[1] == read
    else:
        assert position.board == board_from_fen(given)


def test_castling_is_understood_in_every_form() -> None:
    chess960, standard = "4k3/8/8/8/8/8/8/1R1K1R2 w FB - 0 1", "r3k2r/8/8/8/8/8/8/R3K2R w HAha - 0 1"
    for fen, sent, understood in (
        (chess960, "d1g1", "d1f1"),
        (chess960, "d1f1", "d1f1"),
        (standard, "e1h1", "e1g1"),
    ):
        given = parse_position(["fen", *fen.split(), "moves", sent, "e8e7"])
        assert [move.uci() for move in given.board.move_stack] == [understood, "e8e7"]
        assert not given.board.chess960


@pytest.mark.parametrize(("fen", "castles", "standard"), [("KQkq", "e1h1", "e1g1"), ("HFhf", "f1h1", "f1h1")])
def test_castling_is_written_as_the_gui_reads_it(fen: str, castles: str, standard: str) -> None:
    men = "r3k2r" if fen == "KQkq" else "4rk1r"
    board = board_of(f"{men}/8/8/8/8/8/8/{men.upper()} w {fen.replace('F', 'E').replace('f', 'e')} - 0 1")
    line = [board.parse_san("O-O"), chess.Move.from_uci("a8b8" if fen == "KQkq" else "e8d8")]
    assert written_line(board, line, chess960=True)[0] == castles
    assert written_line(board, line, chess960=False)[0] == standard


def test_setoption_keeps_blanks_in_names_and_values() -> None:
    assert parse_setoption("setoption name Move Overhead value 50") == ("Move Overhead", "50")
    assert parse_setoption("setoption name GraphFile value /a b/c d.graph") == ("GraphFile", "/a b/c d.graph")
    assert parse_setoption("setoption name GraphFile value <empty>") == ("GraphFile", "")
    assert parse_setoption("setoption name GraphFile value") == ("GraphFile", "")
    assert parse_setoption("setoption name Clear Hash") == ("Clear Hash", "")
    assert parse_setoption("setoption") == ("", "")


def test_options_are_named_in_any_case_and_others_are_refused_with_those_that_exist() -> None:
    settings = Settings()
    assert settings.set("multipv", "3") == "MultiPV"
    assert settings.number("MultiPV") == 3
    settings.set("EvaluatorOptions", "Skill Level=3")
    assert spec_of(settings).options == (("Skill Level", "3"),)
    with pytest.raises(InvalidParameterError, match=r"GraphFile.*MultiPV"):
        settings.set("Hash", "64")
    with pytest.raises(InvalidParameterError, match="only standard chess and Chess960"):
        settings.set("UCI_Variant", "atomic")


@pytest.mark.parametrize(
    ("fen", "move"),
    [
        ("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1", "d1d8"),
        ("4k3/8/8/3q4/4P3/8/8/4K3 w - - 0 1", "e4d5"),
        ("4k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7a8q"),
    ],
)
def test_a_move_without_search_mates_or_takes_or_is_a_listed_one(fen: str, move: str) -> None:
    assert answer.quick_move(chess.Board(fen)) == chess.Move.from_uci(move)
    listed = [chess.Move.from_uci("a2a3")]
    assert answer.quick_move(chess.Board(), listed) == listed[0]
    assert answer.quick_move(chess.Board("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1")) is None


# ------------------------------------------------------------------ words that nobody should send
HUGE = "9" * 20


def test_a_number_out_of_range_is_replaced_and_noted() -> None:
    for words, field, value in (
        (f"movetime {HUGE}", "movetime", 10**12),
        (f"wtime {HUGE} winc {ENDLESS}", "winc", 10**12),
        (f"wtime -{ENDLESS}", "wtime", -(10**12)),
        ("movetime -5", "movetime", 0),
        (f"nodes {ENDLESS}", "nodes", 10**15),
        (f"depth {HUGE}", "depth", 10**15),
        (f"mate {HUGE}", "mate", 10**15),
        (f"movestogo {HUGE} wtime 1000", "movestogo", 10**15),
    ):
        go = parse_go(words.split())
        assert getattr(go, field) == value
        assert all(len(note) < 200 for note in go.notes)
        assert f"{value} is used" in " ".join(go.notes)
    assert parse_go(["movetime", "100.9"]) == parse_go(["movetime", "100"])


def test_what_is_no_number_is_noted_and_ignored() -> None:
    for word in ("wtime", "nodes", "depth", "movestogo", "mate", "movetime"):
        for text in ("", "x", "nan", "inf", "1e3", "0x10", "\u0663", "--5", "."):
            go = parse_go([word, *([text] if text else []), "winc", "7", "depth", "5", "wtime", "9"])
            assert getattr(go, word) == {"winc": 7, "depth": 5, "wtime": 9}.get(word), text
            assert f"{word} needs a number" in go.notes[0]
            assert (go.winc, go.depth, go.wtime) == (7, 5, 9)


@pytest.mark.parametrize("words", ["nodes 0", "nodes abc", "nodes -3", "nodes", "depth 0", "mate x"])
def test_a_go_without_a_limit_that_can_be_read_is_answered_at_once(words: str) -> None:
    with Played() as played:
        lines = played.ready().ask(f"go {words}", until="bestmove")
        assert lines[-1] != "bestmove 0000"
        assert sum("info string go:" in line for line in lines) == (words != "nodes 0")
        assert not any("new visits" in line for line in lines)


WRONG_OPTIONS = {
    "MultiPV": (HUGE, ENDLESS, "-1", "\u0663"),
    "Threads": (HUGE,),
    "Move Overhead": ("nan",),
    "RAM": ("99999999TB", ENDLESS, "\0", "1kB"),
    "CPuct": ("nan", "1e999", "-1"),
    "MinibatchSize": (ENDLESS, "-1"),
    "MaxWaveShare": ("2",),
    "Gather": ("x" * 10_000,),
    "UCI_ShowWDL": ("maybe",),
    "UCI_Variant": ("atomic",),
    "x" * 10_000: ("1",),
    "LogFile": ("/dev/null/x", "a\0b", "{fifo}"),
}


def test_an_option_out_of_range_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[object] = []  # what threads raise meanwhile
    monkeypatch.setattr(threading, "excepthook", failures.append)
    os.mkfifo(tmp_path / "fifo")
    with Played() as played:
        before = played.engine.settings.lines()
        for name, value in ((name, value) for name, values in WRONG_OPTIONS.items() for value in values):
            known = len(played.console.lines)
            text = value.format(fifo=tmp_path / "fifo")
            assert played.engine.handle(f"setoption name {name} value {text}")
            (said,) = (line for line in played.console.lines[known:] if "ERROR" in line)
            assert "failed" not in said, (name, value)
            assert len(said) < 2500
            if name != "LogFile":
                assert played.engine.settings.lines() == before, (name, value)
    assert failures == []


def test_blanks_without_end_are_read_at_once() -> None:
    blanks = " " * 200_000
    assert parse_setoption(f"setoption name {blanks}x{blanks}value{blanks}y") == ("x", "y")
    assert parse_setoption(f"setoption name{blanks}") == ("", "")
    assert parse_go(blanks.split()).notes == ()
    assert parse_position(["startpos"]).problem == ""


def test_a_line_that_is_too_long_is_ignored_and_the_next_one_counts() -> None:
    process = start("uci", stdin=subprocess.PIPE)
    assert process.stdin
    process.stdin.write("position startpos moves " + "e2e4 " * 300_000 + "\nd\nquit\n")
    process.stdin.close()
    process.stdin = None
    done = finish(process)
    assert done.code == 0
    assert "a line of more than 1 MiB is ignored" in done.out
    assert "Fen: rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1" in done.out


# ------------------------------------------------------------------ time for a move
TIMES = (-(10**6), -1, 0, 1, 2, 10, 50, 99, 100, 101, 500, 1000, 10_000, 60_000, 10**7, 10**9)
INCREMENTS = (-5, 0, 1, 10, 100, 1000, 60_000, 10**9)
TO_GO = (None, 1, 2, 5, 40, 1000)
OVERHEADS = (0, 10, 100, 5000)


def test_no_clock_is_overdrawn() -> None:
    for clock, increment, to_go, overhead in product(TIMES, INCREMENTS, TO_GO, OVERHEADS):
        budget = clock_budget(clock, increment, to_go, overhead_ms=overhead)
        left = max(0, clock) / 1000
        assert 0 <= budget.planned <= budget.most <= left, (clock, increment, to_go, overhead)
        if left > 2 * overhead / 1000:
            assert budget.most <= left - overhead / 1000, (clock, increment, to_go, overhead)


@pytest.mark.parametrize(
    ("clock", "increment", "to_go", "moves"),
    [(60_000, 0, 40, 200), (2000, 0, 5, 200), (10_000, 100, None, 60)],
)
def test_the_overhead_of_every_move_stays_on_the_clock(
    clock: int, increment: int, to_go: int | None, moves: int
) -> None:
    left = float(clock)
    for made in range(moves):
        to_come = None if to_go is None else to_go - made % to_go
        budget = clock_budget(int(left), increment, to_come, overhead_ms=100)
        factor = 1.0 if to_go is None else 1.6
        left -= 1000 * min(factor * budget.planned, budget.most) + 100
        assert left > 0, made
        left += increment + (clock if to_come == 1 else 0)


SURE, UNSURE = Budget(1.0, 2.5), Budget(1.0, 1.3)


@pytest.mark.parametrize(
    ("budget", "at", "may"),
    [  # early only when no other move can overtake; later, but not after the most, where the choice is open
        (SURE, Standing(0.5, 1000, best_n=700, second_n=300), False),
        (SURE, Standing(0.5, 1000, best_n=900, second_n=300), True),
        (SURE, Standing(1.0, 1000, best_n=400, second_n=390), True),
        (UNSURE, Standing(1.1, 1000, best_n=400, second_n=390, best_since=1.0), False),
        (UNSURE, Standing(1.1, 1000, best_n=400, second_n=390, agrees=False), False),
        (UNSURE, Standing(1.3, 1000, best_n=400, second_n=390, best_since=1.29), True),
        (Budget(10.0, 20.0), Standing(0.0, 0.0, 0, 0, choices=1), True),
    ],
)
def test_a_search_may_stop_when_more_time_cannot_help(budget: Budget, at: Standing, may: bool) -> None:
    assert may_stop(budget, at) == may


@pytest.mark.parametrize(("fixed", "each"), [(0.0, 0.001), (0.01, 0.0001), (0.002, 0.01), (1.0, 0.001)])
def test_batches_grow_to_what_the_time_allows_and_never_pass_it_far(fixed: float, each: float) -> None:
    pace = BatchPace()
    pace.plan(1.6)  # a sixteenth of it is 0.1 s
    size, sizes = pace(0, 0.0), []
    for _ in range(40):
        sizes.append(size)
        size = pace(size, fixed + each * size)
    assert sizes[0] == 1
    assert all(b <= 2 * max(sizes[: i + 1]) for i, b in enumerate(sizes[1:]))
    assert sizes[-1] >= 0.5 * max(1, (0.1 - fixed) / each)
    for size in sizes:
        assert fixed + each * size <= max(0.11, 2.2 * fixed, fixed + each)


def test_batches_shrink_when_the_time_does() -> None:
    pace = BatchPace()
    pace.plan(None)
    size = pace(0, 0.0)
    for _ in range(20):
        size = pace(size, 0.001 * size)
    assert size > 200
    pace.plan(0.16)
    assert pace(size, 0.001 * size) <= 11


# ------------------------------------------------------------------ the engine as a program
COMMAND = [sys.executable, "-m", "graphsearch", "uci"]
FRENCH = chess.Board("rnbqkbnr/ppp2ppp/4p3/3p4/3PP3/8/PPP2PPP/RNBQKBNR w KQkq - 0 3")
TIMEOUT = 120.0
STOCKFISH = shutil.which("stockfish") or shutil.which("stockfish", path="/usr/games")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chess.engine.SimpleEngine]:
    path = tmp_path_factory.mktemp("uci") / "a.graph"
    with chess.engine.SimpleEngine.popen_uci(COMMAND, timeout=TIMEOUT) as engine:
        engine.configure({"GraphFile": str(path), "RAM": "64MB"})
        engine.ping()
        yield engine


# ---------------------------------------------------------------- python-chess
def test_every_line_of_an_analysis_is_legal_and_in_order(engine: chess.engine.SimpleEngine) -> None:
    engine.configure({"UCI_ShowWDL": True})
    infos = engine.analyse(FRENCH, chess.engine.Limit(nodes=3000), multipv=4)
    assert [info["multipv"] for info in infos] == [1, 2, 3, 4]
    for info in infos:
        board = FRENCH.copy()
        assert len(info["pv"]) > 1
        for move in info["pv"]:
            assert move in board.legal_moves
            board.push(move)
        assert info["nodes"] == infos[0]["nodes"] >= 3000
        assert info["wdl"].pov(chess.WHITE).total() == 1000
        assert 0 <= info["hashfull"] <= 1000
        assert info["tbhits"] == 0
        assert info["seldepth"] >= info["depth"] >= 1
    assert len({info["pv"][0] for info in infos}) == 4


@pytest.mark.skipif(STOCKFISH is None, reason="stockfish is not installed")
def test_a_game_of_chess960_is_played_with_stockfish(engine: chess.engine.SimpleEngine) -> None:
    start = "r2k3r/pp3ppp/8/8/8/8/PP3PPP/R2K3R w HAha - 0 1"
    opening = "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9"
    for fen, first in ((start, "d1h1"), (opening, "")):
        board, game = chess.Board(fen, chess960=True), object()
        with chess.engine.SimpleEngine.popen_uci(str(STOCKFISH), timeout=TIMEOUT) as other:
            for ply in range(6):
                only = [chess.Move.from_uci(first)] if first and not ply else None
                player = other if ply & 1 else engine
                move = player.play(board, chess.engine.Limit(nodes=60), game=game, root_moves=only).move
                assert move is not None
                board.push(move)
    infos = engine.analyse(chess.Board(start, chess960=True), chess.engine.Limit(nodes=200), multipv=30)
    assert {"d1h1", "d1a1"} <= {info["pv"][0].uci() for info in infos}
    standard = chess.Board("r3k2r/8/8/8/8/8/8/R3K2R w HAha - 0 1", chess960=True)
    only = [chess.Move.from_uci("e1h1")]  # what python-chess sends of it, and reads
    assert engine.play(standard, chess.engine.Limit(nodes=20), root_moves=only).move == only[0]


def test_go_depth_ends_where_visits_cannot_become_so_long(engine: chess.engine.SimpleEngine) -> None:
    for fen in (
        "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1",
        "7k/8/8/8/8/8/r7/K7 w - - 0 1",
        "8/8/8/8/8/5q2/8/K1k5 w - - 99 80",
    ):
        board = chess.Board(fen)
        move = engine.play(board, chess.engine.Limit(depth=10)).move
        assert move is not None
        assert move in board.legal_moves, fen


# ---------------------------------------------------------------- bare lines
class Lines:
    """A started engine, line by line."""

    def __init__(self, *args: object, before: str = "") -> None:
        pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL, "bufsize": 1}
        self.process = start("uci", *args, before=before, **pipes)

    def send(self, *lines: str) -> None:
        assert self.process.stdin is not None
        for line in lines:
            self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def until(self, begin: str) -> list[str]:
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith(begin):
                return lines
        raise AssertionError(f"the engine ended without {begin!r}: {lines}")

    def end(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(TIMEOUT)


def nodes_of(path: Path, board: chess.Board) -> int:
    node = show(path, board)
    return 0 if node is None else node.visits


CLOSING = """
import ctypes, os, threading, time
def close():
    while not os.path.exists({!r}):
        time.sleep(0.1)
    ctypes.WinDLL("kernel32").CtrlRoutine(2)  # so Windows tells a process that its console is closed
threading.Thread(target=close, daemon=True).start()
"""


def test_a_signal_or_a_closed_console_saves_what_was_searched(tmp_path: Path, cli: Cli) -> None:
    path, closed, has_signals = tmp_path / "a.graph", tmp_path / "closed", os.name == "posix"
    before = "" if has_signals else CLOSING.format(str(closed))
    lines = Lines("--store", path, "--ram", "64MB", "--param", "PolicyTemperature=2", before=before)
    lines.send("uci", "isready")
    lines.until("readyok")
    lines.send("go infinite", "isready")
    lines.until("readyok")  # in the middle of a search
    lines.until("info depth")
    if has_signals:
        lines.process.send_signal(signal.SIGTERM)
    else:
        closed.touch()
    lines.process.wait(TIMEOUT)
    assert lines.end() == 128 + (signal.SIGTERM if has_signals else 21)
    was_saved(path)
    cli("analyze", path, "--visits", 1).ends(0, "is searched with its own evaluator, builtin")


def test_the_end_saves_what_was_searched(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Played({"GraphFile": str(path), "RAM": "64MB"}) as played:
        played.ready().ask("go infinite", until="info depth")
        assert not played.engine.handle("quit")
    was_saved(path)


def was_saved(path: Path) -> None:
    assert nodes_of(path, chess.Board()) > 1
    with Store.open(path, read_only=True) as store:
        assert len(store.runs()) == 1


def test_after_a_kill_the_file_answers_with_what_it_knew(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    lines = Lines("--store", path, "--ram", "64MB")
    lines.send("go nodes 700")
    known = field_of(lines.until("bestmove")[-2], "nodes")
    assert known >= 700
    until(lambda: path.exists() and nodes_of(path, chess.Board()) >= known)  # it saves when it is left alone
    lines.process.kill()
    lines.end()
    with Played({"GraphFile": str(path), "RAM": "64MB"}) as again:
        assert field_of(again.ask("go nodes 1", until="bestmove")[-2], "nodes") == known


def test_uci_is_answered_before_the_compiler_is_loaded() -> None:
    script = (
        "import sys\n"
        "from graphsearch.uci.engine import Engine\nfrom graphsearch.uci.protocol import Writer\n"
        "seen = []\n"
        "engine = Engine(Writer(lambda text: seen.append((text, 'numba' in sys.modules))))\n"
        "engine._give = lambda job: None\n"
        "engine.handle('uci')\n"
        "assert 'uciok' in seen[0][0] and not seen[0][1], seen"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=TIMEOUT)


@pytest.mark.parametrize("words", ["--param MultiPV", "--param MultiPV=0", "--param Nothing=1", "--ram x"])
def test_wrong_use_of_the_command_is_one_line_and_exit_code_2(cli: Cli, words: str) -> None:
    assert len(cli("uci", *words.split()).ends(2).faults) == 1


# ---------------------------------------------------------------- Nibbler
FIELDS = ("string", "N:", "(D:", "(U:", "(S:", "(P:", "(Q:", "(V:", "(M:", "(WL:")


def read_as_nibbler(line: str) -> dict[str, str]:
    """Returns the word after each key, which is how Nibbler reads lc0's statistics."""
    words = line.split()
    return {key: words[words.index(key) + 1] for key in FIELDS if key in words}


def number(text: str) -> float:
    """Returns what JavaScript's parseFloat makes of a word; NaN if it is none."""
    found = re.match(r"-?\d+(\.\d+)?", text)
    return float(found[0]) if found else float("nan")


def test_the_statistics_of_every_move_are_what_nibbler_reads() -> None:
    with Played({"VerboseMoveStats": "true", "MultiPV": "500"}) as engine:
        lines = engine.ask("go nodes 400", until="bestmove")
    found = [line for line in lines if line.startswith("info string") and " N: " in line]
    rows = [read_as_nibbler(line) for line in found if line.split()[2] != "node"]
    assert {row["string"] for row in rows} == {move.uci() for move in chess.Board().legal_moves}
    order = [(number(row["N:"]), number(row["(S:"])) for row in rows]
    assert order == sorted(order)
    visits = sum(n for n, _ in order)
    assert visits >= 399
    assert sum(number(row["(P:"]) for row in rows) == pytest.approx(100, abs=0.2)
    for row in rows:
        assert number(row["(Q:"]) + number(row["(U:"]) == pytest.approx(number(row["(S:"]), abs=2e-5)
    node = found[-1]
    assert node.split()[2] == "node"
    assert int(read_as_nibbler(node)["N:"]) == visits + 1
    shape = r"info string \S{4,5} +\(\d+ *\) N: +\d+ \(\+ \d\) \(P: +[\d.]+%\) \(WL: +\S+\) \(D: +\S+\)"
    shape += r" \(M: +\S+\) \(Q: +\S+\) \(U: +\S+\) \(S: +\S+\) \(V: +\S+\) (\(T\) )?"
    for line in found[:-1]:
        assert re.fullmatch(shape, line), line
