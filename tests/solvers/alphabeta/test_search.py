"""Alpha-beta has the value of plain negamax; what one search knew, the next one need not search."""

from __future__ import annotations

import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess
import numpy as np
import pytest

import graphsearch.graph
from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import EvaluatorError, UnsavedError
from graphsearch.evaluators.builtin.evaluation_kernel import AREA_WORDS, static_at
from graphsearch.evaluators.builtin.evaluator import BuiltinEvaluator
from graphsearch.evaluators.quiescence_kernel import STACK_WORDS
from graphsearch.jit.compiler import inner, kernel
from graphsearch.jit.pointers import adv, ptr
from graphsearch.jit.types import int64
from graphsearch.position.board import key_of, pack
from graphsearch.position.board_kernel import PW, clock_of, generate_moves, in_check, is_dead, make_move
from graphsearch.position.tables import load_tables
from graphsearch.position.values import FAR, LEAST_MATE, MATE
from graphsearch.solvers.alphabeta.search import (
    AlphaBeta,
    AlphaBetaResult,
    Counts,
    DepthResult,
    bring_visited,
    new_search,
    search_to_depth,
)
from graphsearch.solvers.alphabeta.search_kernel import Search, quiesce
from graphsearch.store import entries
from graphsearch.store.info import info
from graphsearch.store.provenance import UNBOUND, EvaluatorIdentity
from graphsearch.store.store import Store
from graphsearch.store.verify import verify
from tests.conftest import ROOT, present, shared_data
from tests.support.nnue import exchanged
from tests.support.plain import as_json, in_plain_python
from tests.support.pools import until
from tests.support.positions import KIWIPETE, after_each_move, after_line, placed, played, random_games
from tests.support.reference import HashEvaluator

# ------------------------------------------------------------------ plain negamax over every move
MEMORY: Any = new_search(load_tables(), BuiltinEvaluator().weights, 1 << 16)


@inner
def _is_drawn(S: Any, s: Any, ply: Any) -> Any:
    """Returns whether a position that has moves is a draw by material, clock or repetition."""
    if is_dead(s) or clock_of(s) >= 100:
        return True
    repeated = False
    for back in range(2, ply + 1):
        repeated |= S.positions[(ply - back) * PW + 9] == s[9]
    return repeated


@inner
def _valued(S: Any, s: Any, ply: Any, depth: Any) -> Any:
    """Returns the value of a position that is not searched further, FAR for one that is; lists its moves."""
    n = int64(generate_moves(S.table, s, adv(S.moves, ply * 256)))
    S.frames[2 * ply] = -FAR
    S.frames[2 * ply + 1] = n
    if is_dead(s):
        return int64(0)
    if n == 0:
        return ply - MATE if in_check(S.table, s) else int64(0)
    if _is_drawn(S, s, ply):
        return int64(0)
    if ply == depth:
        return quiesce(S, s, ply, int64(-FAR), int64(FAR))
    return int64(FAR)


@kernel
def _negamax(S: Search, depth: Any) -> Any:
    """Returns the negamax value of the position at ply 0, every move tried, no window, no table."""
    ply = int64(0)
    value = _valued(S, S.positions, ply, depth)
    while True:
        if value != FAR:
            ply -= 1
            if ply < 0:
                return value
            S.frames[2 * ply] = max(S.frames[2 * ply], -value)
        if S.frames[2 * ply + 1] == 0:
            value = S.frames[2 * ply]
            continue
        n = S.frames[2 * ply + 1] - 1
        S.frames[2 * ply + 1] = n
        s = adv(S.positions, ply * PW)
        make_move(S.table, s, adv(s, PW), S.moves[ply * 256 + n])
        ply += 1
        value = _valued(S, adv(s, PW), ply, depth)


def negamax(board: chess.Board, depth: int) -> int:
    MEMORY.positions[:PW] = pack(board)
    return int(_negamax(MEMORY, np.int64(depth)))


def sparse_position(rng: random.Random, men: int) -> chess.Board:
    """Returns a random legal position of so many men, the game not over."""
    while True:
        kinds, own = "".join(rng.choices("PPNBRQ", k=men - 2)), rng.randrange(men - 1)
        board = placed(rng, f"K{kinds[:own]}vK{kinds[own:]}")
        if rng.random() < 0.2:
            board.halfmove_clock = rng.randrange(100)
        if not board.is_game_over():
            return board


SIZE = 1 << 20


def positions(count: int, seed: int, men: tuple[int, ...] = (3, 4, 4, 5, 5, 6, 7, 8)) -> list[chess.Board]:
    """Returns random positions, most of few men: plain negamax looks at every line."""
    rng = random.Random(seed)
    out = [sparse_position(rng, rng.choice(men)) for _ in range(count - count // 40)]
    return out + [board.copy(stack=False) for board in random_games(seed, count // 40, 21)]


def below(board: chess.Board, plies: int) -> Iterator[chess.Board]:
    """Yields a position and all that moves lead to, without their games."""
    yield board.copy(stack=False)
    if plies:
        for after in after_each_move(board):
            yield from below(after, plies - 1)


@pytest.fixture
def engine() -> AlphaBeta:
    return AlphaBeta(entries.EntryTable(SIZE))


def test_the_value_is_that_of_plain_negamax_whatever_was_searched_before(engine: AlphaBeta) -> None:
    for board in positions(20, 1):
        assert engine.search(board, 3).value == negamax(board, 3), board.fen()
    for board in positions(5, 2, (3, 4)):
        assert deepened(engine, board, 4).value == negamax(board, 4), board.fen()


def test_entries_of_other_depths_never_give_the_value(engine: AlphaBeta) -> None:
    for board in positions(4, 3, (4, 5, 6, 7)):
        for depth in (9, 0):  # 3 to 1 are those needed
            for position in below(board, 2):
                move = next(iter(position.legal_moves), None)
                engine.table.put(position, entries.Entry(7777, depth, "exact", move, "pv", 0))
            assert engine.search(board, 3).value == negamax(board, 3), board.fen()


def test_the_window_never_changes_what_is_true(engine: AlphaBeta) -> None:
    for board in positions(6, 4):
        value = negamax(board, 3)
        for alpha, beta, bound in (
            (max(-FAR, value - 400), value, "lower"),
            (value, min(FAR, value + 400), "upper"),
            (value - 1, value + 1, "exact"),
        ):
            found = engine.search(board, 3, alpha, beta)
            assert (found.bound, found.value) == (bound, value)


def test_every_bound_in_the_table_holds_for_its_position_alone(engine: AlphaBeta) -> None:
    checked = 0
    for board in positions(4, 5, (3, 4, 4)):
        engine.search(board, 5)
        for position in below(board, 2):
            entry = engine.table.get(position)
            if entry is None or not entry.bound or not 1 <= entry.depth <= 3:
                continue
            value = negamax(position, entry.depth)
            checked += 1
            assert entry.bound != "exact" or entry.value == value, position.fen()
            assert entry.bound != "lower" or entry.value <= value, position.fen()
            assert entry.bound != "upper" or entry.value >= value, position.fen()
    assert checked > 60


# ------------------------------------------------------------------ leaves
@kernel
def _static(T: Any, W: Any, stack: Any, area: Any) -> Any:
    return static_at(ptr(T, 0), ptr(W, 0), ptr(stack, 0), int64(0), ptr(area, 0))


def static(board: chess.Board) -> int:
    stack, area = np.zeros(STACK_WORDS, np.uint64), np.zeros(AREA_WORDS, np.uint64)
    stack[:PW] = pack(board)
    return int(_static(load_tables(), BuiltinEvaluator().weights, stack, area))


def is_worth_it(board: chess.Board, move: chess.Move) -> bool:
    """Returns whether a move takes, or becomes a queen, and does not lose by exchange."""
    if move.promotion not in (None, chess.QUEEN) or not (board.is_capture(move) or move.promotion):
        return False
    return exchanged(board, move) >= 0


def plain_quiescence(board: chess.Board, ply: int = 0) -> int:
    """Returns the value without any window: the best of standing pat and of every move worth it."""
    if board.is_insufficient_material():
        return 0
    moves = list(board.legal_moves)
    if not moves:
        return ply - MATE if board.is_check() else 0
    scores = []
    if not board.is_check() or ply == 16:
        scores.append(static(board))
    if ply < 16:
        for move in moves:
            if board.is_check() or is_worth_it(board, move):
                board.push(move)
                scores.append(-plain_quiescence(board, ply + 1))
                board.pop()
    return max(scores)


def test_a_leaf_is_worth_what_quiescence_without_windows_says() -> None:
    rng = random.Random(3)
    engine = AlphaBeta(entries.EntryTable(1 << 16))
    for _ in range(40):
        board = sparse_position(rng, rng.choice((4, 5, 6, 7, 8)))
        board.halfmove_clock = 0
        value = plain_quiescence(board)
        assert engine.search(board, 0).value == value, board.fen()
        below = engine.search(board, 0, value - 900, value - 500)
        assert below.bound == "lower"
        assert value - 500 <= below.value <= value
        above = engine.search(board, 0, value + 500, value + 900)
        assert above.bound == "upper"
        assert value <= above.value <= value + 500


# ------------------------------------------------------------------ rules
PERPETUAL = "6k1/6p1/8/7Q/8/1q6/1r4PP/6K1 w - - 0 1"  # Qe8+ Kh7 Qh5+ and so on; else White is mated


def deepened(engine: AlphaBeta, board: chess.Board, depth: int) -> DepthResult:
    return [engine.search(board, d) for d in range(1, depth + 1)][-1]


def test_the_shortest_mate_is_found_at_its_depth_and_not_before(engine: AlphaBeta) -> None:
    count = 0
    for line in shared_data("data/mates_500.epd").read_text().splitlines():
        found = re.match(r"(.*) bm #(-?\d+);", line)
        assert found
        moves = int(found[2])
        if abs(moves) > 2:
            continue
        board = chess.Board(f"{found[1]} 0 1")
        plies = 2 * moves - 1 if moves > 0 else -2 * moves
        result = deepened(engine, board, plies)
        assert result.value == (MATE - plies if moves > 0 else plies - MATE), line
        assert played(board.fen(), [move.uci() for move in result.pv]).is_checkmate(), line
        count += 1
    assert count >= 5


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_stalemate_and_dead_positions_are_drawn_and_checkmate_is_lost(engine: AlphaBeta, depth: int) -> None:
    for fen, value in [
        ("7k/5Q2/8/8/8/8/8/K7 b - - 0 1", 0),
        ("7k/8/8/8/8/8/8/KB6 w - - 0 1", 0),
        ("R6k/8/6K1/8/8/8/8/8 b - - 0 1", -MATE),
    ]:
        result = engine.search(chess.Board(fen), depth)
        assert (result.value, result.move, result.pv) == (value, None, ())
    queens = chess.Board("QQQQQQQQ/QRRBBNN1/8/K7/8/8/6pp/6rk b - - 0 1")  # nine of them are no mate
    assert -LEAST_MATE < engine.search(queens, 0).value < -15_000


def test_a_hundred_plies_without_mate_are_a_draw_and_a_mate_on_the_last_one_wins(engine: AlphaBeta) -> None:
    result = engine.search(chess.Board("7k/8/6K1/8/8/8/8/R7 w - - 99 80"), 3)
    assert (result.value, result.pv) == (MATE - 1, (chess.Move.from_uci("a1a8"),))
    for clock, plies in ((99, 1), (98, 2)):
        board = chess.Board(f"7k/8/8/8/8/8/8/R6K w - - {clock} 80")
        result = deepened(engine, board, plies)
        assert result.value == 0
        assert result.counts.path_draws > 0
    for clock, value in ((97, MATE - 3), (98, 0)):  # the mate is the hundredth ply, or one too late
        board = chess.Board(f"7k/8/8/8/8/8/1R6/R5K1 w - - {clock} 80")
        assert deepened(engine, board, 4).value == value


def test_a_mate_in_an_entry_counts_only_where_the_clock_leaves_time_for_it(engine: AlphaBeta) -> None:
    fen = "7k/8/8/8/8/8/1R6/R5K1 w - - {} 80"
    assert engine.search(chess.Board(fen.format(0)), 3).value == MATE - 3
    assert engine.search(chess.Board(fen.format(75)), 3).counts.nodes == 1
    assert engine.search(chess.Board(fen.format(98)), 3).value == 0


def test_a_bound_that_the_clock_could_change_is_neither_kept_nor_used(engine: AlphaBeta) -> None:
    fen = "8/8/8/4k3/8/8/4P3/4K3 w - - {} 80"
    late, early = chess.Board(fen.format(75)), chess.Board(fen.format(0))  # one key
    move = chess.Move.from_uci("e1d2")
    for depth, used in ((8, True), (9, False)):  # 75 + 9 plies + 16 of quiescence may reach 100
        engine.table.put(late, entries.Entry(7777, depth, "exact", move, "pv", 0))
        assert (engine.search(early, depth).value, engine.search(late, depth).value == 7777) == (7777, used)
    kept = present(engine.table.get(late))
    assert (kept.bound, kept.move is not None) == ("exact", True)  # what was there says more than nothing
    fresh = AlphaBeta(entries.EntryTable(1 << 20))
    fresh.search(late, 9)
    kept = present(fresh.table.get(late))
    assert (kept.bound, kept.move is not None) == ("", True)


def test_a_repetition_is_a_draw_and_leaves_no_bound_below_where_it_leads_to(engine: AlphaBeta) -> None:
    board = chess.Board(PERPETUAL)
    result = deepened(engine, board, 5)
    assert result.value == 0
    assert result.counts.path_draws > 0
    assert [move.uci() for move in result.pv[:4]] == ["h5e8", "g8h7", "e8h5", "h7g8"]
    root = present(engine.table.get(board))
    assert (root.value, root.bound, root.depth) == (0, "exact", 5)  # what returned is the root: on every path
    for move in result.pv[:3]:
        board.push(move)
        entry = engine.table.get(board)
        assert entry is None or not entry.bound or entry.depth < 5 - len(board.move_stack)


def test_a_position_that_stood_twice_in_the_game_is_drawn_when_it_comes_again(engine: AlphaBeta) -> None:
    board = after_line("Ka2 Kh7 Ka1 Kh8 Ka2 Kh7 Ka1", "7k/8/8/8/8/8/6R1/K7 w - - 0 1")
    result = engine.search(board, 2)
    assert (result.value, result.move) == (0, chess.Move.from_uci("h7h8"))
    assert present(engine.table.get(board)).bound == ""
    assert engine.search(board.copy(stack=False), 2).value < 0
    assert engine.search(board, 2).value == 0  # whatever the table holds by now


@pytest.mark.parametrize(
    ("fen", "before", "game"),
    [
        ("1k6/8/8/8/4p3/1q6/2qK4/8 w - - 0 1", "d2e1 c2c4", "d2e1 c2c4 e1d2 c4c2 d2e1 c2c4"),
        ("6k1/6p1/8/7Q/8/6P1/qq3P1P/6K1 w - - 0 1", "h5e8", "h5e8 g8h7 e8h5 h7g8 h5e8"),
    ],
)
def test_what_is_known_without_a_game_ends_no_node_that_its_past_may_reach(
    fen: str, before: str, game: str
) -> None:
    fresh = deepened(AlphaBeta(entries.EntryTable(1 << 20)), played(fen, game.split()), 4)
    used = AlphaBeta(entries.EntryTable(1 << 20))
    deepened(used, chess.Board(played(fen, before.split()).fen()), 5)
    deepened(used, chess.Board(fen), 5)
    assert deepened(used, played(fen, game.split()), 4).value == fresh.value


# ------------------------------------------------------------------ counts, types, ending early
ITALIAN = "r1bqk2r/pppp1ppp/2n2n2/2b1p3/2B1P3/2NP1N2/PPP2PPP/R1BQK2R b KQkq - 0 5"


def test_the_principal_variation_is_legal_and_ends_in_its_value(engine: AlphaBeta) -> None:
    for depth in range(1, 6):
        result = engine.search(chess.Board(ITALIAN), depth)
        assert len(result.pv) == depth
        assert result.move == result.pv[0]
        board = played(ITALIAN, [move.uci() for move in result.pv])
        if depth == 4:
            assert engine.search(board, 0).value == result.value


def test_every_position_is_counted_once_for_what_it_is(engine: AlphaBeta) -> None:
    for depth in range(6):
        k = engine.search(chess.Board(ITALIAN), depth).counts
        assert k.nodes == k.interior + k.leaves + k.quiescence
        assert k.first_cutoffs <= k.cutoffs <= k.interior
        assert k.hit_cutoffs <= k.hits <= k.interior


def test_stop_is_asked_between_slices_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.solvers.alphabeta.search.SLICE_NODES", 20_000)
    seen: list[int] = []

    def look(counts: Counts) -> bool:
        seen.append(counts.nodes)
        return len(seen) == 4

    result = AlphaBeta(entries.EntryTable(1 << 20)).search(chess.Board(), 60, on_slice=look)
    assert not result.complete
    assert (seen[0], len(seen), seen) == (0, 4, sorted(seen))
    assert 60_000 <= result.counts.nodes < 63_000


def test_a_draw_that_the_graph_has_proven_is_one_at_every_depth() -> None:
    board = chess.Board("7k/8/6K1/8/8/8/8/5Q2 w - - 0 1")  # Qf7 stalemates
    with Graph.open(None) as graph:
        analyze(graph, board, Limits(visits=200), SearchParams())
        engine = AlphaBeta(entries.EntryTable(1 << 20), graph.arena)
        assert engine.search(board, 2).counts.proofs > 0


FEW = [
    ("4k3/8/8/8/8/3p4/4P3/4K3 w - - 0 1", 2),
    ("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 99 80", 1),
]


def all_searched() -> list[tuple[int, list[str], dict[str, int]]]:
    """Returns value, PV and counts of each depth of a few positions, with one table."""
    engine = AlphaBeta(entries.EntryTable(1 << 16))
    found = (engine.search(chess.Board(fen), d) for fen, depth in FEW for d in range(1, depth + 1))
    return [(one.value, [move.uci() for move in one.pv], asdict(one.counts)) for one in found]


def test_plain_python_searches_as_compiled_code_does() -> None:
    assert in_plain_python(all_searched) == as_json(all_searched())


# ------------------------------------------------------------------ searches that stop, go on and are killed
KIWI = chess.Board(KIWIPETE)
MATE_IN_TWO = chess.Board("kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1")
SMALL = 1 << 20  # bytes of a table


def run(path: Path | None, depth: int, board: chess.Board = KIWI, **limits: object) -> AlphaBetaResult:
    with Graph.open_unevaluated(path) as graph:
        return search_to_depth(graph, board, depth, Limits(**limits), table_bytes=SMALL)  # type: ignore[arg-type]


def evaluation() -> str:
    with Graph.open_unevaluated(None) as graph:
        graph.use_entries(0)
        return graph.entries.evaluation


def stored(path: Path) -> entries.Loaded:
    with Store.open(path, read_only=True) as store:
        return entries.load(store, evaluation())


def test_a_second_run_begins_with_the_first_depth_that_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    first, second, alone = run(path, 4), run(path, 5), run(None, 5)
    assert [iteration.depth for iteration in first.iterations] == [1, 2, 3, 4]
    assert [iteration.depth for iteration in second.iterations] == [5]
    assert (second.value, second.bound, second.depth) == (alone.value, "exact", 5)
    assert second.known.depth == 4
    assert second.known.nodes == first.counts.nodes
    assert second.counts.stored_hits > 0
    assert second.counts.nodes < alone.counts.nodes
    assert KIWI.variation_san(second.pv)  # all moves are legal
    assert verify(path).problems == []
    facts = info(path)
    assert [(row.depth, row.value, row.nodes, bool(row.finished)) for row in facts.entry_runs] == [
        (4, first.value, first.counts.nodes, True),
        (5, second.value, second.counts.nodes, True),
    ]
    assert facts.entries.entries >= second.entries


def test_a_depth_is_known_although_its_entry_cannot_say_so(tmp_path: Path) -> None:
    """A value that a repetition took part in is no entry, which holds for every path; the run has it."""
    path = tmp_path / "a.graph"
    first = run(path, 4)
    with Store.open(path) as store, store.transaction():
        store.connection.execute("DELETE FROM entry_piece")
    again, deeper = run(path, 4), run(path, 5)
    assert (again.stop_reason, again.value, again.pv) == ("known", first.value, first.pv)
    assert [iteration.depth for iteration in deeper.iterations] == [5]
    assert deeper.value == run(None, 5).value


def test_a_search_that_was_stopped_goes_on_with_what_it_found(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    alone = run(None, 5)
    last = alone.iterations[-1].counts.nodes
    cut = run(path, 5, visits=alone.counts.nodes - last // 4)
    assert (cut.stop_reason, cut.depth, cut.iterations[-1].complete) == ("nodes", 4, False)
    assert cut.value == cut.iterations[3].value
    rest = run(path, 5)
    assert (rest.value, rest.depth) == (alone.value, 5)
    assert rest.counts.stored_hits > 0
    assert rest.counts.nodes < last


def test_a_search_stops_in_time_and_has_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # each look at the clock takes 50 ms of it
    clock = SimpleNamespace(monotonic=partial(next, count(0.0, 0.05)), thread_time=float)
    monkeypatch.setattr("graphsearch.search.job.time", clock)
    result = run(tmp_path / "a.graph", 60, seconds=0.2)
    assert result.stop_reason == "time"
    assert result.value is not None
    assert result.move in list(KIWI.legal_moves)
    assert verify(tmp_path / "a.graph").problems == []


KILLED = """
import sys, chess
from graphsearch.solvers.alphabeta import search
from graphsearch.graph.graph import Graph
search.SAVE_SECONDS = 0.05
told = lambda found: print(found.depth, flush=True)
board = chess.Board(sys.argv[2])
with Graph.open_unevaluated(sys.argv[1]) as graph:
    search.search_to_depth(graph, board, 60, table_bytes=1 << 24, on_depth=told)
"""


def test_a_killed_search_loses_little(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    command = [sys.executable, "-c", KILLED, str(path), KIWI.fen()]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        until(lambda: any((row.depth or 0) >= 3 for row in info(path).entry_runs))
        process.send_signal(signal.SIGKILL)
    assert verify(path).problems == []
    assert [(row.finished, (row.depth or 0) >= 3) for row in info(path).entry_runs] == [(None, True)]
    found = run(path, 5)
    assert found.known.depth >= 3
    assert found.stop_reason == "known" or found.counts.stored_hits > 0
    assert verify(path).problems == []


def test_what_could_not_be_saved_is_saved_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    path = tmp_path / "a.graph"
    with Graph.open_unevaluated(path) as graph:
        monkeypatch.setattr(entries, "append", full)
        with pytest.raises(UnsavedError, match="disk is full; free some space") as caught:
            search_to_depth(graph, KIWI, 3, table_bytes=SMALL)
        assert caught.value.result.value is not None
        held = present(graph.entries.table).count
        assert present(graph.entries.table).dirty_count == held > 0
        monkeypatch.undo()
        graph.flush()
        assert present(graph.entries.table).dirty_count == 0
    assert len(stored(path).keys) == held
    assert len(info(path).entry_runs) == 1


def test_entries_of_another_evaluation_are_reported_and_not_used(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    run(path, 3)
    found = stored(path)
    with Store.open(path) as store, store.transaction():
        store.connection.execute("UPDATE entry_run SET evaluation = 'other'")
        store.connection.execute("DELETE FROM entry_piece")
        entries.append(store, found.keys, found.data, "other")
    again = run(path, 3)
    assert again.report.ignored == len(found.keys)
    assert (again.report.loaded, again.known.depth, len(again.iterations)) == (0, 0, 3)
    assert again.counts.stored_hits == 0


def test_a_reader_sees_whole_saves_beside_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "FEW_PIECES", 0)
    path, key = tmp_path / "a.graph", f"{key_of(KIWI):016x}"
    seen: list[int] = []
    with Graph.open_unevaluated(path) as graph, Store.open(path, read_only=True) as store:

        def look(found: DepthResult) -> None:
            graph.settle(wait=True)
            loaded = entries.load(store, evaluation())
            assert loaded.problems == []
            rows = entries.iterations(store, KIWI.fen(), key, evaluation())
            assert sorted(rows) == list(range(1, len(rows) + 1))
            assert found.depth - 1 <= len(rows) <= found.depth
            seen.append(len(loaded.keys))

        search_to_depth(graph, KIWI, 4, table_bytes=SMALL, on_depth=look)
    assert seen == sorted(seen)
    assert seen[-1] > seen[0] > 0


def test_a_file_needs_no_evaluator_and_stays_bound_to_its_own(tmp_path: Path) -> None:
    bound, free = tmp_path / "bound.graph", tmp_path / "free.graph"
    identity = EvaluatorIdentity("lc0", "1a2b3c4d", {"file": "gone.pb.gz"})
    Store.open(bound, create=True, identity=identity).close()
    for path, expected in ((bound, identity), (free, UNBOUND)):
        assert run(path, 2).depth == 2
        assert info(path).evaluator == expected
    with Graph.open_unevaluated(bound) as graph, pytest.raises(EvaluatorError, match="lc0"):
        analyze(graph, chess.Board(), Limits(visits=5))
    with Graph.open(free, evaluator="uniform") as graph:
        analyze(graph, KIWI, Limits(visits=5))
    assert info(free).evaluator.kind == "uniform"
    assert run(free, 2).stop_reason == "known"


def test_a_game_that_may_repeat_is_searched_whatever_the_file_knows(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    run(path, 3, chess.Board())
    game = after_line("Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1 Ng8")
    for _ in range(2):
        assert run(path, 3, game).known.depth == 0
    assert run(path, 3, chess.Board()).stop_reason == "known"
    run(path, 2, chess.Board("4k3/8/8/8/8/8/8/R3K3 w - - 0 1"))
    assert run(path, 2, chess.Board("4k3/8/8/8/8/8/8/R3K3 w - - 5 9")).stop_reason == "known"
    assert run(path, 10, chess.Board("4k3/8/8/8/8/8/8/R3K3 w - - 82 90"), visits=500).known.depth == 0


def test_a_shortest_mate_ends_the_search(tmp_path: Path) -> None:
    result = run(tmp_path / "a.graph", 40, MATE_IN_TWO, evaluations=1)  # which no such search counts
    assert (result.stop_reason, result.value, result.depth) == ("mate", 100_000 - 3, 3)
    assert (result.as_dict()["mate"], result.as_dict()["cp"]) == (2, None)
    again = run(tmp_path / "a.graph", 40, MATE_IN_TWO)
    assert (again.stop_reason, again.value, again.pv) == ("known", result.value, result.pv)


def test_the_visited_part_of_a_large_file_is_brought_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, KIWI, Limits(visits=400))
    monkeypatch.setattr(graphsearch.graph.graph, "LOADED_AT_ONCE", 0)
    with Graph.open_unevaluated(path) as graph:
        assert graph.arena.node_count == 0
        assert bring_visited(graph, KIWI, 100) == 100
        assert bring_visited(graph, KIWI, 100) == 100
        most = bring_visited(graph, KIWI)
        assert 100 < most < 400
        result = search_to_depth(graph, KIWI, 3, table_bytes=SMALL)
        assert result.graph_nodes == most
        assert result.counts.ordered > 0
        assert result.value == run(None, 3).value


def test_a_position_that_the_graph_knows_well_spares_the_first_iterations() -> None:
    with Graph.open(None) as graph:
        analyze(graph, KIWI, Limits(visits=1200))
        found = search_to_depth(graph, KIWI, 4, table_bytes=SMALL)
        assert [iteration.depth for iteration in found.iterations] == [2, 4]
        deeper = search_to_depth(graph, KIWI, 5, table_bytes=SMALL)
        assert [iteration.depth for iteration in deeper.iterations] == [5]
    alone = run(None, 4)
    assert (found.value, found.bound) == (alone.value, alone.bound)
    assert len(alone.iterations) == 4
    with Graph.open(None) as graph:
        analyze(graph, KIWI, Limits(visits=1200))
        limited = Limits(visits=10**9)  # what ends early needs an answer early
        every = search_to_depth(graph, KIWI, 3, limited, table_bytes=SMALL)
        assert [iteration.depth for iteration in every.iterations] == [1, 2, 3]


def test_a_stopped_search_answers_with_what_the_file_knew(tmp_path: Path) -> None:
    before = run(tmp_path / "a.graph", 4)
    with Graph.open_unevaluated(tmp_path / "a.graph") as graph:
        stopped = search_to_depth(graph, KIWI, 9, Limits(visits=30), table_bytes=SMALL)
    assert stopped.stop_reason == "nodes"
    found = (stopped.depth, stopped.value, stopped.bound, stopped.move)
    assert found == (4, before.value, "exact", before.move)
    assert (stopped.iterations[-1].bound, stopped.iterations[-1].move) == ("", None)
