"""What comes in from outside is refused in one line: no traceback, no endless memory, no endless wait."""

from __future__ import annotations

import gzip
import os
import resource
import signal
import socket
import subprocess
import time
import tracemalloc
from pathlib import Path

import chess
import pytest
import zstandard

from graphsearch.base import limits
from graphsearch.base.errors import EvaluatorFileError, InputFileError
from graphsearch.evaluators.lc0.convert import read_network
from graphsearch.position.pgn import cut_games
from tests.conftest import Cli, finish, start
from tests.support.forks import Command

HUGE_LINE = 1_200_000_000
BOMB = 256 << 20  # bytes of a line: its file is refused by how far it unpacks
MEMORY = 1_500 << 20  # address space of a child: Python and its libraries take half of it


@pytest.fixture
def odd(tmp_path: Path) -> dict[str, Path]:
    """Things that are no files."""
    found = {name: tmp_path / name for name in ("folder", "fifo", "socket", "loop")}
    found["folder"].mkdir()
    os.mkfifo(found["fifo"])
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(found["socket"]))
    found["loop"].symlink_to(found["loop"])
    return found | {"device": Path("/dev/zero")}


HELD = ("device", "socket", "fifo", "folder")
READ = {  # what each of these refuses, and what it says
    "evaluate startpos --evaluator lc0:{}": (HELD, "expected a file"),
    "book build {} --store a.graph": (HELD, "expected a file"),
    "analyze {}": (("device", "socket", "folder", "loop"), ""),
    "import {} --format pgn --store a.graph": (("device", "socket"), ""),
    "import {} --format polyglot --store a.graph": (("device", "socket"), ""),
    "import {} --format epd --store a.graph": (("device", "socket"), ""),
}


@pytest.mark.parametrize("line", READ)
def test_what_is_no_file_is_not_read(
    odd: dict[str, Path], line: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kinds, said = READ[line]
    for kind in kinds:
        assert len(cli(*line.format(odd[kind]).split()).ends(2, said).faults) == 1
    assert not Path("a.graph").exists()


def test_a_pipe_is_read_where_a_file_is_read_once(odd: dict[str, Path], cli: Cli, tmp_path: Path) -> None:
    def written(text: str, *arguments: object) -> int:
        writer = subprocess.Popen(["sh", "-c", f"printf '{text}' > {odd['fifo']}"])
        code = cli(*arguments).code
        writer.wait()
        return code

    assert written("1. e4 e5 *", "import", odd["fifo"], "--store", tmp_path / "a.graph") == 0
    assert written("1. e4 e5 *", "show", odd["fifo"], "--store", tmp_path / "a.graph") == 1  # unknown there
    assert written(chess.STARTING_FEN, "evaluate", odd["fifo"]) == 0


# ------------------------------------------------------------------ lines, packed bytes, memory
def little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def bomb(folder: Path, packed: str) -> Path:
    """Returns a small file that unpacks to a line of 256 MiB, as gzip to one of 120 MiB."""
    path = folder / f"bomb.pgn.{packed}"
    if packed == "gz":
        path.write_bytes(gzip.compress(b" " * (120 << 20), compresslevel=1, mtime=0))
        return path
    maker = zstandard.ZstdCompressor(level=1).compressobj()
    with path.open("wb") as file:
        for _ in range(BOMB >> 24):
            file.write(maker.compress(b" " * (1 << 24)))
        file.write(maker.flush())
    return path


@pytest.mark.parametrize(
    ("kind", "packed"), [("pgn", "zst"), pytest.param("epd", "gz", marks=pytest.mark.slow)]
)
def test_a_packed_bomb_is_refused_in_little_memory(tmp_path: Path, packed: str, kind: str) -> None:
    path = bomb(tmp_path, packed)
    store = tmp_path / "a.graph"
    done = finish(start("import", "--format", kind, path, "--store", store, preexec_fn=little_memory))
    assert done.code == 1, done.err
    assert "unpacks to more than 100 times its size" in done.err
    assert len(done.faults) == 1


def test_a_network_that_unpacks_to_too_much_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(128):
            file.write(bytes(1 << 20))
    found = limits.read_file(path, limits.NETWORK)
    with pytest.raises(EvaluatorFileError, match="unpacks to more than"):
        read_network(found, "bomb")


@pytest.mark.parametrize("arguments", [("analyze", "{}"), ("evaluate", "{}")])
def test_a_huge_line_is_refused_in_little_memory(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    path = tmp_path / "line.pgn"
    with path.open("wb") as file:
        file.write(b"x")
        file.truncate(HUGE_LINE)
        file.seek(0)
        file.write(b"x" * (1 << 22))
    done = finish(start(*(word.format(path) for word in arguments), preexec_fn=little_memory))
    assert done.code in (1, 2)
    assert "too long to be text" in done.err


def test_a_limit_is_held_and_its_variable_raises_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"#" * 2000)
    monkeypatch.setenv("GRAPHSEARCH_MAX_TOML", "1kB")
    with pytest.raises(InputFileError, match="GRAPHSEARCH_MAX_TOML sets another limit"):
        limits.read_file(path, limits.TOML)
    monkeypatch.setenv("GRAPHSEARCH_MAX_TOML", "2kB")
    assert len(limits.read_file(path, limits.TOML)) == 2000


@pytest.mark.parametrize("text", ["x", "-1", "0", "9" * 5000, "1e400GB"])
def test_a_limit_that_is_no_number_is_refused(text: str, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setenv("GRAPHSEARCH_MAX_FEN", text)
    done = cli("evaluate", chess.STARTING_FEN)
    assert (done.code, len(done.faults)) == (2, 1)
    assert "GRAPHSEARCH_MAX_FEN" in done.err


def test_a_pipe_that_sends_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setenv("GRAPHSEARCH_MAX_PIPED", "3MB")
    os.mkfifo(tmp_path / "fifo")
    writer = subprocess.Popen(["sh", "-c", f"head -c 9000000 /dev/zero > {tmp_path}/fifo"])
    done = cli("import", tmp_path / "fifo", "--store", tmp_path / "a.graph")
    writer.wait()
    assert done.code == 1
    assert "the most for what comes through a pipe" in done.err


def test_a_signal_ends_the_wait_for_a_pipe_that_nobody_writes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    process = Command("import", tmp_path / "fifo", "--store", tmp_path / "a.graph")
    while not (tmp_path / "a.graph").exists():
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.end().code == 128 + signal.SIGINT


def test_a_signal_ends_an_import_within_one_endless_game(tmp_path: Path) -> None:
    path, store = tmp_path / "a.pgn", tmp_path / "a.graph"
    with path.open("wb") as file:
        file.write(b"1. e4 {\n")
        for _ in range(60):
            file.write((b"x " * 40 + b"\n") * (1 << 13))  # a comment without end
    process = Command("import", path, "--store", store)
    while not store.exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    done = process.end()
    assert done.code in (143, 1)  # 1: it was over before
    assert "Traceback" not in done.err


# ------------------------------------------------------------------ numbers and texts
@pytest.mark.parametrize(
    "arguments",
    [
        ("--time", "inf"),
        ("--time", "1e300"),
        ("--time", "9" * 400),
        ("--visits", "9" * 30),
        ("--visits", "9" * 5000),
        ("--evaluations", "-1"),
        ("--param", "MinibatchSize=9" * 20),
        ("--lines", "9" * 25),
        ("--ram", "99999999TB"),
        ("--ram", "nanMB"),
        ("--ram", "\u0663GB"),
        ("--ram", "9" * 5000),
        ("--param", "CPuct=nan"),
        ("--param", "CPuct=" + "9" * 400),
        ("--param", "MinibatchSize=" + "9" * 5000),
        ("--evaluator-option", "PolicyTemperature=nan"),
        ("--game", "9" * 30),
    ],
)
def test_a_number_that_nothing_can_count_is_refused(arguments: tuple[str, str], cli: Cli) -> None:
    done = cli("analyze", "startpos", *arguments).ends(2)
    assert "Traceback" not in done.err
    assert max(map(len, done.err.splitlines())) < 6000


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\0",
        "8/8/8/8/8/8/8/8 w - - 0 1",
        "kkkkkkkk/k7/8/8/8/8/8/K7 w - - 0 1",
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - -1 1",
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 " + "9" * 30,
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 " + "9" * 5000,
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - \u0663 \u0664",
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq e9 0 1",
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq e6 0 1",
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w ABCDEFGH - 0 1",
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR x KQkq - 0 1",
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1 \udcff",
        "r" * 10_000_000,
        "8/" * 100_000 + " w - - 0 1",
        "/" * 5000,
        "~nobody-has-this-name/a.pgn",
    ],
)
def test_a_text_that_is_no_position_is_refused_in_one_short_line(text: str, cli: Cli) -> None:
    done = cli("evaluate", "--", text)
    assert (done.code, len(done.faults)) == (2, 1), done.err[:500]
    assert len(done.err) < 1000


@pytest.mark.parametrize(("clock", "said"), [(100, "may claim a draw"), (150, "game is over"), (255, "over")])
def test_a_draw_by_the_clock_is_one_in_every_search(clock: int, said: str, cli: Cli) -> None:
    fen = f"4k3/8/8/8/8/8/8/4K2R w K - {clock} 1"
    done = cli("alphabeta", fen, "--depth", 2).ends(0, said)
    assert ("draw by the 75-move rule" in done.out) == (clock >= 150)
    assert cli("alphabeta", fen, "--depth", 2, "--json").json["value"] == 0
    done = cli("mate", fen, "--time", 1)
    assert (done.code, said in done.out, "no mate" in done.out) == (0, True, True)
    cli("analyze", fen, "--visits", 20).ends(0, said)
    found = cli("analyze", fen, "--visits", 20, "--json").json
    assert found["visits"] >= 20 or clock >= 150
    assert {move["q"] for move in found["moves"] if move["n"]} <= {0.0}


@pytest.mark.parametrize(("clock", "mate"), [(0, 1), (149, 1), (150, None), (255, None)])
def test_a_game_that_the_clock_has_ended_has_no_mate(
    clock: int, mate: int | None, cli: Cli, tmp_path: Path
) -> None:
    """At clock 149 the mate comes on the hundred and fiftieth ply, before the 75-move rule."""
    path, fen = tmp_path / "late.graph", f"6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - {clock} 200"
    done = cli("analyze", fen, "--visits", 9, "--store", path).ends(0)
    assert ("the game is over" in done.err, "mate in 1" in done.out) == (mate is None, mate == 1)
    found = cli("show", path, fen, "--json").json
    assert found["moves"][0]["mate"] == mate
    if mate is None:
        assert (found["bounds"], found["q"], found["wdl"]) == ([0, 0], 0.0, [0.0, 1.0, 0.0])
    cli("export", path, "-o", tmp_path / "late.epd").ends(0)
    assert (" dm 1;" in (tmp_path / "late.epd").read_text()) == (mate == 1)


def test_memory_stays_bounded_where_a_game_has_endless_parts(tmp_path: Path) -> None:
    """Words, headers and variations without end are read in little memory."""
    path = tmp_path / "a.pgn"
    with path.open("w") as file:
        for k in range(4000):
            file.write(f'[T{k} "{"v" * 1000}"]\n')
        file.write("\n1. e4 " + "(" * 9_000 + "\n")
        for k in range(8):
            file.write(f"{'w' * 900_000}{k}w \n")
    tracemalloc.start()
    try:
        with path.open() as file:
            game, *_ = cut_games(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 2
    assert "more than 1 MiB of headers" in game.error
