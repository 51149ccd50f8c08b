"""`uci:PROGRAM`: what is asked of engines, how answers are read, and what happens when an engine fails."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import chess
import chess.engine
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze, show
from graphsearch.base.errors import EvaluatorError, InvalidParameterError, UnknownEvaluatorError
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.protocol import Evaluation, PositionBatch, checked
from graphsearch.evaluators.uci import evaluator as uci
from graphsearch.position.board import after, board_of
from graphsearch.store.verify import verify

from ..conftest import finish, present, start
from ..support.engines import cp_of, fake_engine, sent, stockfish
from ..support.pools import in_the_middle, is_alive, until

FENS = (
    chess.STARTING_FEN,
    "r3r1k1/p4ppp/b1pb1n2/2pp4/8/2NPRN1P/PPP2PP1/R1B3K1 b - - 9 1",
    "8/P6k/8/8/8/8/p5K1/8 w - - 0 1",
    "7k/8/6KR/8/8/8/8/8 b - - 0 1",  # one legal move
    "rnbqkb1r/ppp1pppp/5n2/3pP3/8/8/PPPP1PPP/RNBQKBNR w KQkq d6 0 1",
    "4k3/8/8/8/8/8/4P3/4K3 w - - 90 1",
)
BATCH = PositionBatch.from_boards([chess.Board(fen) for fen in FENS])
Made = Callable[..., uci.UciEvaluator]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets engines start slowly, as they do on a busy machine."""
    monkeypatch.setattr(uci, "HANDSHAKE_SECONDS", 60.0)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """Makes evaluators of a program, or of a fake engine with changes; they are closed after the test."""
    with ExitStack() as stack:

        def make(changes: str = "", program: object = None, **options: Any) -> uci.UciEvaluator:
            found = uci.UciEvaluator(str(program or fake_engine(tmp_path, changes)), **options)
            stack.callback(found.close)
            return found

        yield make


def answers(path: Path | str, **options: str) -> Evaluation:
    with closing(create(f"uci:{path}", options)) as evaluator:
        return checked(BATCH, evaluator.evaluate(BATCH))


CHESS960 = board_of("5k2/8/8/8/8/8/8/1R3K1R w HB - 0 1")


def test_an_engine_without_chess960_is_not_asked_about_it(made: Made) -> None:
    evaluator = made()
    with pytest.raises(EvaluatorError, match=r"has no option UCI_Chess960.*1R3K1R w KQ - 0 1"):
        evaluator.evaluate(PositionBatch.from_boards([CHESS960]))
    found = evaluator.evaluate(PositionBatch.from_boards([]))
    assert (found.wdl.shape, found.priors.shape) == ((0, 3), (0,))


def error_of(path: Path | str, **options: str) -> str:
    with pytest.raises(EvaluatorError) as caught:
        answers(path, **options)
    return str(caught.value)


def expected() -> Evaluation:
    wdl, priors = [], []
    for board, moves in BATCH.boards():
        wdl.append(uci.cp_wdl(cp_of(board)))
        q = []
        for move in moves:
            q.append(uci.policy_q(uci.Score(-cp_of(after(board, move)))))
        weights = np.exp(np.array(q) / 0.08)
        priors += list(weights / weights.sum())
    return Evaluation(np.array(wdl, np.float32), np.array(priors, np.float32))


def same(a: Evaluation, b: Evaluation) -> None:
    np.testing.assert_allclose(a.wdl, b.wdl, atol=1e-6)
    np.testing.assert_allclose(a.priors, b.priors, atol=1e-6)


# ----------------------------------------------------------------------- what is asked, what it means
CHATTY = """
time.sleep(0.7)
quiet = info
def info(board, k):
    print("hello", "\\xff\\xfe", file=sys.stderr, flush=True)
    say("info string score cp bananas")
    say("")
    say("info depth x score cp y")
    say("info score")
    say("Thinking...")
    return quiet(board, k)
"""


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ('OPTIONS += ["OwnBook type check default true"]', "setoption name OwnBook value false"),
        ('OPTIONS[1] = "MultiPV type spin default 1 min 1 max 10"', "go depth 5"),
        ("all_lines = info\ndef info(board, k):\n    return all_lines(board, k)[:3]\n", "go depth 5"),
        (CHATTY, "go depth 6"),
    ],
    ids=["all", "few lines", "moves left out", "chatty"],
)
def test_v_is_the_score_of_one_line_and_p_the_softmax_of_all(
    tmp_path: Path, changes: str, asked: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = fake_engine(tmp_path, changes)
    same(answers(path), expected())
    assert not caplog.messages
    chess.engine.LOGGER.warning("of the program's own engine")
    assert caplog.messages == ["of the program's own engine"]
    lines = sent(path)
    assert {"setoption name Hash value 16", asked} <= set(lines)
    assert lines.count("go nodes 1000") == len(FENS)
    if asked != "go depth 5":  # of the moves that were left out
        assert lines.count("go depth 6") == len(FENS) - 1  # a forced move needs no search


def test_moves_that_end_the_game_need_no_engine(made: Made) -> None:
    board = chess.Board("7k/5Q2/6K1/8/8/8/8/8 w - - 0 1")  # mates, and a stalemate
    batch = PositionBatch.from_boards([board])
    moves = [move.uci() for _, some in batch.boards() for move in some]
    found = dict(zip(moves, made("del OPTIONS[1]").evaluate(batch).priors, strict=True))
    assert found["f7g7"] == max(found.values()) > 0.1
    assert len(found) == board.legal_moves.count()


def test_the_wdl_of_an_engine_that_has_one_is_asked_for_and_taken(tmp_path: Path) -> None:
    changes = """
OPTIONS.append("UCI_ShowWDL type check default false")
def info(board, k):
    shown = " wdl 200 500 300" if values.get("uci_showwdl") == "true" else ""
    return [f"info depth 3 score cp 900{shown} pv {move}" for move in board.legal_moves]
"""
    path = fake_engine(tmp_path / "a", changes)
    np.testing.assert_allclose(answers(path).wdl, [[0.2, 0.5, 0.3]] * len(FENS), atol=1e-6)
    assert answers(path, uci_showwdl="false").wdl[0, 0] > 0.98


def test_a_forced_move_that_an_engine_answers_without_a_score_is_judged_by_what_follows(
    tmp_path: Path,
) -> None:
    changes = """
def info(board, k):
    if board.legal_moves.count() == 1:
        return []
    return [f"info depth 1 score cp {cp_of(board)} pv {move}" for move in board.legal_moves]
"""
    board = chess.Board(FENS[3])
    board.push(next(iter(board.legal_moves)))
    found = answers(fake_engine(tmp_path, changes))
    np.testing.assert_allclose(found.wdl[3], uci.cp_wdl(-cp_of(board)), atol=1e-6)


# ----------------------------------------------------------------------- options and identity


def test_options_reach_the_engine_under_its_own_names(tmp_path: Path) -> None:
    path, other = fake_engine(tmp_path / "nodes"), fake_engine(tmp_path / "depth")
    answers(path, STYLE="very wild", nodes="77", Policy_Depth="2", hash="4")
    told = {"setoption name Style value Very Wild", "setoption name Hash value 4"}
    assert told | {"go nodes 77", "go depth 2"} <= set(sent(path))
    answers(other, depth="9", reproducible="true")
    assert "go depth 9" in sent(other)
    assert not any(line.startswith("go nodes") for line in sent(other))
    assert (sent(path).count("ucinewgame"), sent(other).count("ucinewgame")) == (1, len(FENS))


WRONG_OPTIONS: list[tuple[dict[str, str], str]] = [
    ({"Hash": "65"}, "expected value for option 'Hash' to be at most 64, got: 65"),
    ({"Hash": "much"}, "expected integer for spin option 'Hash', got: 'much'"),
    ({"Style": "Odd"}, "got: Odd (available: Solid, Very Wild)"),
    ({"Book Lines": "perhaps"}, "true or false"),
    ({"Clear Hash": ""}, "is a button"),
    ({"MultiPV": "2"}, "set by graphsearch itself"),
    ({"nodes": "0"}, "nodes must be a whole number from 1"),
    ({"nodes": "10", "depth": "2"}, "either nodes or depth"),
    ({"timeout": "inf"}, "timeout must be"),
    ({"Hash": "2", "hash": "3"}, "given twice"),
    *(({"Contempt": "1"}, one) for one in ("Contempt", "PolicyTemperature", "Style")),
]


def test_options_that_do_not_fit_are_refused_in_one_line(tmp_path: Path) -> None:
    path = fake_engine(tmp_path)
    for options, message in WRONG_OPTIONS:
        with pytest.raises(InvalidParameterError) as caught:
            create(f"uci:{path}", options)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_the_identity_covers_what_decides_the_answers_and_nothing_else(tmp_path: Path, made: Made) -> None:
    path = fake_engine(tmp_path)

    def text(program: object = path, **options: Any) -> str:
        return made(program=program, **options).identity.as_json()

    plain = text()
    (tmp_path / "link").symlink_to(path)
    for equal in (text(timeout=9, nodes=1000, options={"hash": "16"}), text(tmp_path / "link")):
        assert equal == plain
    options: list[dict[str, Any]] = [
        {"nodes": 999},
        {"depth": 5},
        {"policy_depth": 7},
        {"temperature": 0.2},
        {"options": {"Style": "Very Wild"}},
        {"reproducible": True},
        {"part": "value"},
        {"part": "policy"},
    ]
    other = fake_engine(tmp_path / "b", 'NAME = "Fake 1.1"')
    changed = [*(text(**some) for some in options), text(f"{path} --fast"), text(other)]
    assert len({plain, *changed}) == 1 + len(changed)
    assert text(part="value", policy_depth=9, temperature=1) == text(part="value")
    assert text(part="policy", nodes=9) == text(part="policy")
    identity = made(program=path).identity
    assert identity.options["engine"] == "Fake 1.0"
    assert identity.mapping == "cp-logistic-110-40, policy-lichess-cp"
    assert identity.options["interpreter"] == f"{sys.executable} -S"


def test_a_network_that_an_engine_or_its_arguments_name_is_part_of_the_identity(
    tmp_path: Path, made: Made
) -> None:
    net = tmp_path / "a.nnue"
    net.write_bytes(b"one")
    path = fake_engine(tmp_path, 'OPTIONS += ["EvalFile type string default a.nnue"]')
    seen = set()
    for content in (b"one", b"two"):
        net.write_bytes(content)
        for program in (f"{path}", f"{path} --weights={net}"):
            seen.add(made(program=program).identity.as_json())
    assert len(seen) == 4


def test_the_value_part_searches_no_moves_and_the_policy_part_no_value(tmp_path: Path, made: Made) -> None:
    value, policy = fake_engine(tmp_path / "value"), fake_engine(tmp_path / "policy")
    whole = expected()
    of_value = checked(BATCH, made(program=value, part="value").evaluate(BATCH))
    of_policy = checked(BATCH, made(program=policy, part="policy").evaluate(BATCH))
    lengths = np.diff(BATCH.offsets)
    same(of_value, Evaluation(whole.wdl, np.repeat(1 / lengths, lengths).astype(np.float32)))
    np.testing.assert_allclose(of_policy.priors, whole.priors, atol=1e-6)
    assert not any("depth" in line for line in sent(value) if line.startswith("go"))
    assert not any("nodes" in line for line in sent(policy) if line.startswith("go"))


# ----------------------------------------------------------------------- programs


@pytest.mark.parametrize("program", ["cat", "yes", "sh -c 'sleep 99'"])
def test_a_program_that_does_not_speak_uci_is_refused_when_the_time_is_up(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uci, "HANDSHAKE_SECONDS", 0.3)
    with pytest.raises(EvaluatorError, match="did not answer `uci` within"):
        create(f"uci:{program}", {"timeout": "0.3"})


def test_what_is_no_engine_is_refused_in_one_line(tmp_path: Path) -> None:
    plain, noise = tmp_path / "plain.txt", tmp_path / "noise"
    plain.write_text("uciok\n")
    noise.write_text("no program at all")
    noise.chmod(0o755)
    cases = {
        "no-such-engine": "no-such-engine",
        "/no/such/engine": "/no/such/engine",
        str(tmp_path): "no engine",
        str(plain): "not executable",
        str(noise): "Exec format error",
        "true": "ended with code 0",
        "sh -c 'echo oh dear >&2; exit 7'": "ended with code 7 (oh dear)",
        """sh -c 'printf "oh:\\303\\274\\377" >&2; exit 7'""": "ended with code 7 (oh:ü\ufffd)",
        "'engine": "cannot be read",
    }
    for program, message in cases.items():
        with pytest.raises(EvaluatorError) as caught:
            create(f"uci:{program}")
        assert message in str(caught.value), program
        assert "\n" not in str(caught.value)
    with pytest.raises(UnknownEvaluatorError):
        create("uci:")


def test_an_engine_may_print_a_bytearray_as_on_windows() -> None:
    async def words() -> list[str]:
        client = uci._Client()
        client.pipe_data_received(2, bytearray(b"oh\ndear"))  # type: ignore[arg-type]
        client.pipe_connection_lost(2, None)
        return [*client.last_words]

    assert asyncio.run(words()) == ["oh", "dear"]


@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere every event loop starts processes")
def test_an_engine_starts_whatever_event_loops_the_program_uses(tmp_path: Path, made: Made) -> None:
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(getattr(asyncio, "WindowsSelectorEventLoopPolicy")())  # noqa: B009
    try:
        command = f'"{sys.executable}" "{fake_engine(tmp_path)}"'
        assert made(program=command).identity.options["engine"] == "Fake 1.0"
    finally:
        asyncio.set_event_loop_policy(before)


# ----------------------------------------------------------------------- engines that fail

GO = "def go(board, words, k):\n    "
HANG = f"{GO}time.sleep(99)\n"
CRASH = f"{GO}print('ouch', file=sys.stderr, flush=True)\n    os._exit(3)\n"
ORPHAN = f"{GO}say('info string ERROR: no net')\n    os.fork() and os._exit(0)\n    time.sleep(99)\n"
CASES = {
    "did not answer `go nodes 1000` within 0.6 seconds": HANG,
    "ended with code 3 (ouch)": CRASH,
    "ended with code 0 (no net)": ORPHAN,
    "answered wrongly: invalid uci: 'e1e9'": f"{GO}say('info depth 1 score cp 1\\nbestmove e1e9')\n",
    "answered no move": f"{GO}say('info depth 1 score cp 1\\nbestmove 0000')\n",
    "gave no score": "def info(board, k):\n    return []\n",
    "a line of more than a megabyte": f"{GO}say('info ' + 'x' * 3_000_000)\n    time.sleep(99)\n",
    "did not answer `go": f"{GO}while True:\n        say('info depth 1 score cp 1')\n",
    "died of SIGSEGV": f"{GO}os.kill(os.getpid(), 11)\n",
}


@pytest.mark.parametrize("message", CASES)
def test_an_engine_that_fails_twice_is_named_with_the_position_and_what_it_did(
    tmp_path: Path, message: str
) -> None:
    path = fake_engine(tmp_path, CASES[message])
    text = error_of(path, timeout="0.6" if "did not answer" in message else "30")
    assert message in text
    assert str(path) in text
    assert "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq" in text
    assert "\n" not in text
    assert sent(path).count("uci") == 2  # once restarted


@pytest.mark.parametrize(("failing", "workers"), [(HANG, "2"), (CRASH, "1")])
def test_an_engine_that_fails_midway_costs_no_position(tmp_path: Path, failing: str, workers: str) -> None:
    changes = f"""
good_info, good_go, count = info, go, 0
{failing}
bad_info, bad_go = info, go
def go(board, words, k):
    global count, info
    count += 1
    fails = count == 4 and once("failed")
    info = bad_info if fails else good_info
    (bad_go if fails else good_go)(board, words, k)
"""
    path = fake_engine(tmp_path, changes)
    same(answers(path, timeout="15" if failing == HANG else "30", workers=workers), expected())
    assert (tmp_path / "failed").exists()
    assert sent(path).count("uci") == 1 + int(workers)


def test_an_engine_that_ends_between_two_batches_is_started_again(made: Made) -> None:
    evaluator = made()
    evaluator.evaluate(BATCH)
    process = evaluator._engines[0].process
    os.kill(process, signal.SIGKILL)
    time.sleep(0.2)
    same(evaluator.evaluate(BATCH), expected())
    assert evaluator._engines[0].process != process


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (CRASH + "if not once('started'):\n    sys.exit('no more')\n", ("ended with code 3", "no more")),
        (
            "if not once('started'):\n    NAME = 'Fake 2.0'\n" + CRASH,
            ("calls itself 'Fake 2.0' now, not 'Fake 1.0'",),  # its answers are not mixed in
        ),
    ],
    ids=["no second start", "another engine"],
)
def test_what_fails_after_a_failure_is_told_too(tmp_path: Path, changes: str, told: tuple[str, ...]) -> None:
    text = error_of(fake_engine(tmp_path, changes))
    assert all(words in text for words in told), text
    assert re.search(r"; position \S+ [wb] \S+ \S+ \d+ 1\b", text), "no move number that nobody gave"


# ----------------------------------------------------------------------- the end of engines


# minds neither quit nor the end of its input
DEAF = "def main(plain=main):\n    plain()\n    while True:\n        time.sleep(1)\n"


@pytest.mark.parametrize("changes", ["", DEAF])
def test_close_ends_the_engines_even_those_that_do_not_listen(changes: str, made: Made) -> None:
    evaluator = made(changes)
    evaluator.evaluate(BATCH)
    process = evaluator._engines[0].process
    assert is_alive(process)
    evaluator.close()
    evaluator.close()
    until(lambda: not is_alive(process))
    with pytest.raises(EvaluatorError, match="closed"):
        evaluator.evaluate(BATCH)


@pytest.mark.parametrize("ends", [True, False])
def test_close_ends_a_batch_under_way_even_if_the_killed_engine_does_not_end(
    ends: bool, tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ends:
        monkeypatch.setattr(uci, "KILL_SECONDS", 0.2)
        monkeypatch.setattr(uci._Client, "connection_lost", lambda client, error: None)
    evaluator = made(HANG)
    process = evaluator._engines[0].process
    thread = in_the_middle(lambda: "go nodes 1000" in sent(tmp_path / "engine"), evaluator.close)
    with pytest.raises(EvaluatorError, match="closed"):
        evaluator.evaluate(BATCH)
    thread.join()
    until(lambda: not is_alive(process))


def test_an_evaluator_that_is_forgotten_ends_its_engine(tmp_path: Path) -> None:
    evaluator = uci.UciEvaluator(str(fake_engine(tmp_path)))
    process = evaluator._engines[0].process
    del evaluator
    until(lambda: not is_alive(process))


HOLDER = """
import sys, time
from graphsearch.evaluators.uci.evaluator import UciEvaluator
evaluator = UciEvaluator(sys.argv[1])
print(evaluator._engines[0].process, flush=True)
if sys.argv[2] == "wait":
    time.sleep(99)
"""


@pytest.mark.parametrize(("kind", "ending"), [("fake", "end"), ("deaf", "wait")])
def test_no_engine_survives_the_program(tmp_path: Path, kind: str, ending: str) -> None:
    if kind == "deaf" and sys.platform != "linux":
        pytest.skip("needs Linux's PR_SET_PDEATHSIG")
    path = fake_engine(tmp_path, DEAF if kind == "deaf" else "")
    command = [sys.executable, "-W", "error", "-c", HOLDER, str(path), ending]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        process = int(holder.stdout.readline())
        if ending == "wait":
            assert is_alive(process)
            holder.kill()
        holder.wait(120)
        assert holder.stderr.read() == ""
    until(lambda: not is_alive(process))


# ----------------------------------------------------------------------- searches


def test_an_engine_that_fails_leaves_a_saved_search_that_goes_on(tmp_path: Path, made: Made) -> None:
    changes = """
good = go
def go(board, words, k):
    with (HERE.parent / "count").open("a") as count:
        count.write("x")
    if (HERE.parent / "count").stat().st_size > 60 and not (HERE.parent / "healed").exists():
        os._exit(9)
    good(board, words, k)
"""
    file, evaluator, params = tmp_path / "a.graph", made(changes), SearchParams(minibatch_size=4)
    with (
        Graph.open(file, evaluator=evaluator) as graph,
        pytest.raises(EvaluatorError, match="ended with code 9"),
    ):
        analyze(graph, chess.Board(), Limits(visits=200), params)
    node = present(show(file, chess.Board()))
    assert 8 <= node.visits <= 40
    assert verify(file).ok
    (tmp_path / "healed").touch()
    with Graph.open(file, evaluator=evaluator) as graph:
        assert analyze(graph, chess.Board(), Limits(visits=20), params).visits >= node.visits + 20
    assert verify(file).ok


def test_ctrl_c_saves_before_the_engines_end(tmp_path: Path) -> None:
    path = fake_engine(tmp_path, "good = go\ndef go(*args):\n    time.sleep(0.02)\n    good(*args)\n")
    file = tmp_path / "a.graph"
    options: list[str | Path] = ["--param", "MinibatchSize=4"]  # waves for both engines
    options += ["--evaluator-option", "workers=2", "--store", file, "--json"]
    process = start("analyze", "startpos", "--evaluator", f"uci:{path}", *options, start_new_session=True)
    until(lambda: (tmp_path / "log").exists() and sent(path).count("go nodes 1000") >= 30)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    done = finish(process)
    assert done.code == 130, done.err
    assert sent(path).count("uci") == 2  # none was started again
    assert present(show(file, chess.Board())).visits == done.json["visits"] > 4


# ----------------------------------------------------------------------- a real engine


def test_stockfish_knows_mates_and_good_moves() -> None:
    expected: list[tuple[chess.Board, float, float, str]] = [  # Q between two numbers, and the best move
        (chess.Board("6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1"), 0.999, 1, "a1a8"),
        (chess.Board("6k1/8/6K1/8/8/8/8/7R b - - 0 1"), -1, -0.99, "g8f8"),
        (chess.Board("rnb1kbnr/pppp1ppp/8/4p1q1/3PP3/8/PPP2PPP/RNBQKBNR w KQkq - 1 3"), 0.9, 1, "c1g5"),
        (chess.Board(), -0.1, 0.4, ""),
        (CHESS960, 0.9, 1, ""),
    ]
    batch = PositionBatch.from_boards([board for board, *_ in expected])
    with closing(create(f"uci:{stockfish()}", {"workers": "2", "reproducible": "true"})) as evaluator:
        found = checked(batch, evaluator.evaluate(batch))
        same(found, checked(batch, evaluator.evaluate(batch)))
    for row, ((_, moves), (_, least, most, best)) in enumerate(zip(batch.boards(), expected, strict=True)):
        assert least <= found.wdl[row, 0] - found.wdl[row, 2] <= most
        priors = found.priors[slice(*batch.offsets[row : row + 2])]
        assert best in ("", moves[int(np.argmax(priors))].uci())
