"""The engine as a program: driven by python-chess's client, and by what other clients send and read."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import chess
import chess.engine
import pytest

from graphsearch.graph.view import show
from graphsearch.store.store import Store
from tests.conftest import Cli, start
from tests.support.pools import until
from tests.uci.engines import Played, field_of

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

    def __init__(self, *args: object) -> None:
        self.process = start("uci", *args, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=1)

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


def test_a_signal_saves_what_was_searched(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    lines = Lines("--store", path, "--ram", "64MB")
    lines.send("uci", "isready")
    lines.until("readyok")
    lines.send("go infinite", "isready")
    lines.until("readyok")  # in the middle of a search
    lines.until("info depth")
    lines.process.send_signal(signal.SIGTERM)
    lines.process.wait(TIMEOUT)
    assert lines.end() == 143
    was_saved(path)


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
    board = chess.Board()
    assert {row["string"] for row in rows} == {move.uci() for move in board.legal_moves}
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
