"""Commands as values, options, time for a move: what is wrong is said, and the rest counts."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import InvalidParameterError
from graphsearch.position.board import board_of
from graphsearch.position.notation import board_from_fen
from graphsearch.uci.answer import quick_move
from graphsearch.uci.clock import BatchPace, Budget, Standing, clock_budget, may_stop
from graphsearch.uci.options import Settings
from graphsearch.uci.protocol import parse_go, parse_position, parse_setoption, written_line
from tests.conftest import finish, start
from tests.uci.engines import Played


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
    ],
)
def test_rights_and_squares_that_cannot_be_are_left_out_and_named(given: str, read: str) -> None:
    position = parse_position(["fen", *given.split()])
    assert position.board.fen(en_passant="fen").split(" ", 1)[1] == read
    assert (len(position.notes), position.problem) == (1, "")


@pytest.mark.parametrize(
    "fen",
    [
        "4k3/8/8/8/4P3/8/8/4K3 b - e3 0 1",
        "1r1k2rr/p2bbp1p/8/8/8/8/P2BBP1P/RR2K1RR w BGbg - 3 20",
        "r3k2r/8/8/8/8/8/8/R3K2R w HAha - 0 1",
        chess.STARTING_FEN,
    ],
)
def test_rights_and_squares_that_can_be_stay(fen: str) -> None:
    position = parse_position(["fen", *fen.split()])
    assert (position.board, position.notes) == (board_from_fen(fen), ())


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
    assert quick_move(chess.Board(fen)) == chess.Move.from_uci(move)
    listed = [chess.Move.from_uci("a2a3")]
    assert quick_move(chess.Board(), listed) == listed[0]
    assert quick_move(chess.Board("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1")) is None


# ------------------------------------------------------------------ words that nobody should send
HUGE = "9" * 20
ENDLESS = "9" * 5000


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """What threads raised meanwhile."""
    found: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: found.append(arguments.exc_value))
    yield found
    assert found == []


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
            others = {"winc": 7, "depth": 5, "wtime": 9}
            assert getattr(go, word) == others.get(word), text
            assert f"{word} needs a number" in go.notes[0]
            assert (go.winc, go.depth, go.wtime) == (7, 5, 9)


@pytest.mark.parametrize("words", ["nodes 0", "nodes abc", "nodes -3", "nodes", "depth 0", "mate x"])
def test_a_go_without_a_limit_that_can_be_read_is_answered_at_once(words: str) -> None:
    with Played() as played:
        lines = played.ready().ask(f"go {words}", until="bestmove")
        assert lines[-1] != "bestmove 0000"
        assert sum("info string go:" in line for line in lines) == (words != "nodes 0")
        assert not any("new visits" in line for line in lines)


def test_an_engine_answers_whatever_the_numbers_are(failures: list[object]) -> None:
    with Played() as played:
        for words in (
            f"movetime {HUGE} nodes 5",
            f"wtime {HUGE} btime {HUGE} nodes 5",
            f"wtime {ENDLESS} winc {ENDLESS} movestogo {ENDLESS} nodes 5",
            f"wtime -{HUGE} btime -{HUGE}",
            "movetime -1",
            "wtime x nodes 5",
            f"nodes 5 depth {ENDLESS} mate {HUGE} movetime 50",
            "nodes 5 searchmoves " + "x" * 10_000,
        ):
            lines = played.ready().ask("position startpos", f"go {words}", until="bestmove")
            assert lines[-1] != "bestmove 0000", words[:80]
        played.ready()
    assert not any("Error:" in line or "failed" in line for line in played.console.lines)
    assert failures == []


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


def test_an_option_out_of_range_is_refused_in_a_line(failures: list[object], tmp_path: Path) -> None:
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
    for time, increment, to_go, overhead in product(TIMES, INCREMENTS, TO_GO, OVERHEADS):
        budget = clock_budget(time, increment, to_go, overhead_ms=overhead)
        left = max(0, time) / 1000
        assert 0 <= budget.planned <= budget.most <= left, (time, increment, to_go, overhead)
        if left > 2 * overhead / 1000:
            assert budget.most <= left - overhead / 1000, (time, increment, to_go, overhead)


@pytest.mark.parametrize(
    ("time", "increment", "to_go", "moves"),
    [(60_000, 0, 40, 200), (2000, 0, 5, 200), (10_000, 100, None, 60)],
)
def test_the_overhead_of_every_move_stays_on_the_clock(
    time: int, increment: int, to_go: int | None, moves: int
) -> None:
    left = float(time)
    for played in range(moves):
        to_come = None if to_go is None else to_go - played % to_go
        budget = clock_budget(int(left), increment, to_come, overhead_ms=100)
        factor = 1.0 if to_go is None else 1.6
        left -= 1000 * min(factor * budget.planned, budget.most) + 100
        assert left > 0, played
        left += increment + (time if to_come == 1 else 0)


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
