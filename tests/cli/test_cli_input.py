"""Bad input and wrong use: one clear line on stderr, the right exit code, no traceback, nothing lost."""

from __future__ import annotations

import gzip
import importlib
import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import chess
import pytest
import zstandard

from graphsearch.base import limits
from graphsearch.base.errors import EvaluatorFileError, InputFileError
from graphsearch.base.version import __version__
from graphsearch.evaluators.lc0.network import read_network
from graphsearch.jit.cache import COMPILING
from graphsearch.position.pgn import cut_games
from tests.conftest import Cli, Outcome, finish, sql, start
from tests.query.handmade import LINES, book_file, graph_file
from tests.support.forks import Command

BARE_KINGS = "4k3/8/8/8/8/8/8/4K3 w - - 0 1"


def assert_refused(outcome: Outcome, code: int, *words: str) -> None:
    """Asserts one line on stderr that holds the words, an exit code, and nothing else."""
    assert outcome.code == code, outcome.err
    assert outcome.out == ""
    lines = [
        line
        for line in outcome.faults
        if not line.startswith(("note:", "No limit")) and COMPILING not in line
    ]
    assert len(lines) == 1, outcome.err
    for word in words:
        assert word in lines[0]


def test_the_version_is_printed_on_stdout(cli: Cli) -> None:
    assert cli("--version") == Outcome(0, f"graphsearch {__version__}\n", "")


def test_wrong_use_says_where_help_is(cli: Cli) -> None:
    fault, line = cli("analyze", "startpos", "--no-such-option").ends(2).err.splitlines()
    assert fault.startswith("graphsearch: ")
    assert line == "Try 'graphsearch analyze --help'."


def test_an_error_stays_on_one_line_and_free_of_control_characters(cli: Cli) -> None:
    assert_refused(cli("analyze", "no\nsuch\x1b[31mfile"), 2)


READERS = [
    ("show", "startpos", "--store"),
    *(("store", name) for name in ("info", "verify", "compact")),
    ("store", "compact", "--min-visits", "2"),
    ("lab", "refresh"),
    ("reevaluate", "--evaluator", "uniform"),
]
USERS = [("analyze", "startpos", "--visits", "1", "--store"), *READERS]
OPENING = [*USERS[:2], ("store", "compact"), ("lab", "refresh")]  # each way to open a file


@pytest.mark.parametrize("command", READERS)
def test_a_missing_file_is_reported_and_not_made(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    assert_refused(cli(*command, tmp_path / "none.graph"), 2, "none.graph")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["letter.txt", "other.db"])
@pytest.mark.parametrize("command", USERS)
def test_a_foreign_file_is_left_alone(cli: Cli, tmp_path: Path, command: tuple[str, ...], name: str) -> None:
    foreign = tmp_path / name
    if name == "other.db":
        sql(foreign, "create table t (x)")
    else:
        foreign.write_text("Dear reader, this is no graph. " * 50)
    before = foreign.read_bytes()
    assert_refused(cli(*command, foreign), 1, name)
    assert foreign.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if ".lock" not in path.name] == [name]


@pytest.mark.parametrize("command", OPENING)
def test_a_file_of_a_newer_format_is_refused(cli: Cli, small_graph: Path, command: tuple[str, ...]) -> None:
    sql(small_graph, "pragma user_version = 9999")
    assert_refused(cli(*command, small_graph), 1, "9999")


def test_a_position_that_is_not_stored_is_said_so(cli: Cli, small_graph: Path) -> None:
    assert_refused(cli("show", BARE_KINGS, "--store", small_graph), 1, "does not hold", BARE_KINGS)


def test_a_reader_that_went_away_ends_a_command_quietly(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        assert cli("lab", "perft", "startpos", 1) == Outcome(141, "", "")


# ------------------------------------------------------------ what people type
EPD = '# two\n\n7K/8/8/8/8/8/8/k1r5 w - - bm Kg7; id "first";\n4k3/8/8/8/8/8/4P3/4K3 w - -\nnonsense\n'


def test_a_file_of_positions_is_a_position(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "two.epd").write_text(EPD)
    first = cli("lab", "perft", tmp_path / "two.epd", "1")
    assert "nodes: 3" in first.out
    assert "holds more positions; this is the first" in first.err
    assert "nodes: 6" in cli("lab", "perft", tmp_path / "two.epd", "1", "--game", "2").out
    assert_refused(cli("lab", "perft", tmp_path / "two.epd", "1", "--game", "3"), 1, "line 5")
    assert_refused(cli("lab", "perft", tmp_path / "two.epd", "1", "--game", "4"), 2, "no position 4")
    assert_refused(cli("lab", "perft", tmp_path / "two.epd", "1", "--ply", "1"), 2, "no ply 1")


UNUSABLE = {
    "empty.pgn": "",
    "prose.pgn": "This is a letter.\nIt has no moves.\n",
    "illegal.pgn": '[White "A"]\n\n1. e5 *\n',
    "empty.epd": "",
    "comment.epd": "# nothing yet\n\n",
    "prose.epd": "This is a letter.\nIt has no positions.\n",
}
TAKERS = (  # commands that read games or positions
    *("show {} --store {}", "note {} --store {}", "export {} --store {} -o out.csv"),
    *("mate {}", "evaluate {}", "alphabeta {} --depth 1", "analyze {} --visits 5", "lab perft {} 1"),
    *("analyze {} --all --store {}", "import {} --store {}", "book queue {} --store {}"),
    *("watch {1} {0} --time 1", "review {} --store {}", "study import {} --store {}"),
    "repertoire import {} --store {} --side white",
)


@pytest.mark.parametrize("command", TAKERS)
def test_a_file_without_a_usable_game_or_position_ends_every_command_with_1(
    cli: Cli, small_graph: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(small_graph.parent)
    for name, text in UNUSABLE.items():
        Path(name).write_text(text)
        outcome = cli(*command.format(name, small_graph.name).split())
        assert (outcome.code, name in outcome.err or "line 1" in outcome.err) == (1, True), (name, outcome)
        assert "Try " not in outcome.err, "help says nothing about the contents of a file"


@pytest.mark.parametrize(
    "command",
    [
        ("import", "{}/bad.pgn"),
        ("import", "{}/bad.epd"),
        ("import", "{}"),
        ("import", "--format", "polyglot", "{}/bad.pgn"),
        ("review", "{}/bad.pgn"),
        ("alphabeta", "--depth", 2, "--ram", "0MB"),
        ("mate", "{}/bad.epd"),
        ("analyze", "--visits", 5, "--evaluator", "nnue:{}/none.nnue"),
        ("analyze", "--visits", 5, "--evaluator", "uci:no-such-engine"),
        ("analyze", "--visits", 5, "--searchmoves", "e5"),
        ("book", "build", "{}/bad.toml"),
    ],
)
def test_a_failing_command_leaves_no_new_file(cli: Cli, tmp_path: Path, command: tuple[object, ...]) -> None:
    (tmp_path / "bad.pgn").write_text("1. e5 *\n")
    (tmp_path / "bad.epd").write_text("nonsense\n")
    (tmp_path / "bad.toml").write_text("[book]\nside = 1\n")
    before = sorted(tmp_path.iterdir())
    words = [str(word).format(tmp_path) for word in command]
    outcome = cli(*words, "--store", tmp_path / "new.graph")
    assert outcome.code in (1, 2), outcome
    assert sorted(tmp_path.iterdir()) == before


# ------------------------------------------------------------ what a process is given
ASKED = {"uci": 0, "evaluate -": 1, "import --format epd - --store new.graph": 1}  # with exit codes
IN_TURN = """
import os, sys
import graphsearch.cli.app, graphsearch.exchange.epd_import, graphsearch.uci.engine  # what they load, once
from graphsearch.cli import main
for line in sys.argv[1:]:
    child = os.fork()  # all begin with the streams that the interpreter has found
    if not child:
        sys.argv[1:] = line.split()
        sys.exit(main())
    print("ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_closed_stdin_is_an_empty_one(tmp_path: Path) -> None:
    """`tests/surroundings/test_system.py` closes the other streams."""
    words = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", IN_TURN, *ASKED]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert "internal error" not in done.stdout + done.stderr
    ends = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("ended with")]
    assert ends == [str(code) for code in ASKED.values()], done


@pytest.mark.skipif(sys.platform != "linux", reason="no limit of addresses")
def test_the_graph_leaves_addresses_for_what_is_loaded_later() -> None:
    line = f'ulimit -v 600000; exec "{sys.executable}" -m graphsearch analyze startpos --visits 10 --json'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["first.csv", "first.txt.gz"])
def test_a_kind_of_file_that_import_does_not_read_is_told_what_it_reads(
    cli: Cli, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    data = b"position,n\nstartpos,5\n"
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    for words in ([], ["--format", "epd"]):
        done = cli("import", tmp_path / "new.graph", file, "--again", *words).ends(1)
        assert "games (.pgn), Polyglot books (.bin) and positions (.epd, .fen)" in done.err


# ------------------------------------------------------------------ what comes in from outside
HUGE_LINE = 1_200_000_000
BOMB = 256 << 20  # bytes of a line: its file is refused by how far it unpacks
MEMORY = 1_500 << 20  # address space of a child: Python and its libraries take half of it


@pytest.fixture
def odd(tmp_path: Path) -> dict[str, Path]:
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
        path.write_bytes(120 * gzip.compress(b" " * (1 << 20), compresslevel=1, mtime=0))
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
        *(("--visits", text) for text in ("1.5", "0.0001k", "10kk", "k", "1e5", "-1k", "1.k", "9" * 5000)),
        ("--evaluations", "-1"),
        ("--lines", "9" * 25),
        ("--ram", "99999999TB"),
        ("--ram", "\u0663GB"),
        *(("--param", text) for text in ("CPuct=nan", "CPuctBase=1e-320", "MinibatchSize=" + "9" * 5000)),
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
        "\0",
        "8/8/8/8/8/8/8/8 w - - 0 1",
        "kkkkkkkk/k7/8/8/8/8/8/K7 w - - 0 1",
        *(
            f"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR {rest}"
            for rest in (
                *("w KQkq - -1 1", "w KQkq - 0 " + "9" * 5000, "w KQkq - \u0663 \u0664", "w KQkq e9 0 1"),
                *("w KQkq e6 0 1", "w ABCDEFGH - 0 1", "x KQkq - 0 1", "w KQkq - 0 1 \udcff"),
            )
        ),
        "r" * 10_000_000,
        "8/" * 100_000 + " w - - 0 1",
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


# ------------------------------------------------------------------ wrong use of any command
TWO_GAMES = '[White "A"]\n[Black "B"]\n\n1. f3 e5 2. g4 Qh4# 0-1\n\n[White "B"]\n\n1. e4 Ke5 *\n'
TOML = '[book]\nside = "white"\nmax_ply = 4\n'

UNKNOWN = "8/8/8/4k3/8/4K3/4P3/8 w - - 0 1"  # is in no file
WRONG = {  # exit code 2
    **{word: f"Did you mean 'store {word}'?" for word in ("merge", "info")},
    "sql": "Did you mean 'lab sql'?",
    "stats": "Did you mean 'store info'?",
    "version": "Did you mean --version?",
    "shw": "Did you mean 'show'?",
    "alphabeta startpos": "--depth",
    "alphabeta startpos --depth 0": "depth is 0",
    "alphabeta startpos --depth 2 --ram 0MB": "--ram",
    "alphabeta --time '5 weeks'": "such as 30, 5m or 2h",
    "analyse startpos": "analyse",
    "analyze 4k3/8/8/8/8/8/8/4K3 w - - 0 1": "quotes",
    "analyze startpos --ply 3": "PGN",
    "analyze startpos --visits 0": "visits must be",
    "analyze startpos --time nan": "expected a number, not nan",
    "analyze startpos --param Nonsense=1": "unknown parameter 'Nonsense'",
    "analyze games.pgn --all": "needs a graph file",
    "analyze startpos --all --store new.graph": "needs a PGN file",
    "analyze set.epd --searchmoves e4": "works for one position",
    "analyze set.epd -o set.epd": "the file that is read",
    "analyze startpos -o out.epd": "-o writes games",
    "analyze e4 e5 --visits 5": "put moves and a FEN in quotes",
    "tree startpos --store none.graph": "does not exist",
    "book build green.toml --store new.graph": "green.toml:2",
    "book build white.toml --store hand.graph --time 0": "time",
    "book queue startpos --moves 'e4 e4' --store hand.graph": "'e4', is illegal",
    "book queue startpos --game 1 --store hand.graph": "need a PGN file",
    "book queue startpos startpos --moves e4 --store hand.graph": "needs exactly one position",
    "book queue - --ply 1 --store hand.graph": "cannot be used with stdin",
    "book queue startpos --drop 1 --store hand.graph": "one of the two",
    "book queue --drop x --store hand.graph": "whole number",
    "book queue --drop 1 --book white --store hand.graph": "--book needs --drop all",
    "book queue --kind lost --store hand.graph": "waiting, done, refused, dropped, all",
    "book status --store bare.graph": "has no book; `book build` makes one",
    "book todo --book wihte --store hand.graph": "has no book 'wihte'; it has 'white'",
    "book todo --kind holes --store hand.graph": "leaves, gaps",
    "evaluate startpos --param nonsense": "PolicyTemperature=X",
    "export --format pgn --store hand.graph -o x e9": "'e9'",
    "export --format pgn --store hand.graph -o x --side red": "not 'red'",
    "export --format polyglot --store hand.graph -o -": "name a file",
    "export --format polyglot --store hand.graph -o x --weights best": "must be n or q, not 'best'",
    "export --format epd --store hand.graph -o - --json": "--json and -o - both write to stdout",
    "games --list --store hand.graph -o - --json": "--json and -o - both write to stdout",
    "export --format pgn --store hand.graph -o no/x.pgn": "make this folder first",
    "export --format pgn --store hand.graph -o hand.graph": "is the graph file itself",
    "import none.pgn --store new.graph": "none.pgn",
    "import - - --store new.graph": "only once",
    "import . --store new.graph": "is a folder",
    "import games.pgn --depth 0 --store new.graph": "--depth",
    "lab nodetypes startpos": "name a graph file",
    "lab perft startpos -1": "-1",
    "lab refresh hand.graph --tolerance 0": "tolerance must be above 0",
    "lab refresh hand.graph --ram lots": "a size must be a number of bytes",
    "mate startpos --within 0": "at least 1, not 0",
    "mate startpos --within 125": "moves must be from 1 to 124",
    "reevaluate hand.graph": "--evaluator",
    "reevaluate hand.graph --evaluator nobody": "unknown evaluator",
    "reevaluate hand.graph --evaluator uniform --evaluator-option CPuct=2": "has no option CPuct",
    "reevaluate hand.graph --evaluator uniform --ram 10B": "at least 8MB",
    "repertoire add hand.graph '1. e4'": "Missing option '--side'",
    "repertoire add hand.graph '1. e4' --side both": "--side must be white or black here",
    "repertoire add hand.graph --side white": "name a line",
    "repertoire export hand.graph --side black": "is empty",
    "review games.pgn --store new.graph --player C": "none of the 2 games",
    "review games.pgn --store new.graph --side white": "name the player",
    "review games.pgn --store new.graph --since May": "a date is 2024",
    "review games.pgn --store new.graph -o - --json": "stdout",
    "review games.pgn --store new.graph --visits 9": "10",
    "show startpos": "name a graph file",
    "show nothing --store x.graph": "no file 'nothing'",
    "store compact hand.graph --min-visits 0": "visits",
    "store merge hand.graph bare.graph": "-o",
    "store merge hand.graph bare.graph -o c.graph --into hand.graph": "--into",
    "study export hand.graph nobody": "nobody",
    "watch new.graph": "name positions: ",
    "watch new.graph '1. e4' --share 1 --share 2": "--share is given 2 times",
    "watch new.graph '1. e4' --share 0": "above 0",
}
FAILED = {  # exit code 1
    **{f"{name} '{UNKNOWN}' --store hand.graph": UNKNOWN for name in ("games", "lines", "tree")},
    "lab refresh hand.graph --ram 100B": "more than the 0.00 MB allowed; allow more",
    "store merge . -o new.graph": "is a folder",
}


@pytest.fixture(scope="module")
def wrong_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with a book and a repertoire, one with neither, games and a set."""
    wrong_folder = tmp_path_factory.mktemp("wrong")
    for name in ("hand.graph", "bare.graph"):
        graph_file(wrong_folder / name, LINES)
    book_file(wrong_folder / "hand.graph")
    main = importlib.import_module("graphsearch.cli").main
    assert (
        main(["repertoire", "add", str(wrong_folder / "hand.graph"), "1. e4 e5 2. Nf3", "--side", "white"])
        == 0
    )
    texts = {"games.pgn": TWO_GAMES, "text.pgn": "hello\n", "set.epd": "4k3/8/8/8/8/8/4P3/4K3 w - -\n"}
    texts |= {"white.toml": TOML, "green.toml": TOML.replace("white", "green")}
    for name, text in texts.items():
        (wrong_folder / name).write_text(text)
    return wrong_folder


@pytest.mark.parametrize("line", [*WRONG, *FAILED])
def test_wrong_use_is_one_line(
    cli: Cli, wrong_folder: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(wrong_folder)
    before = {path.name: path.read_bytes() for path in wrong_folder.iterdir()}
    assert_refused(cli(*shlex.split(line)), 1 if line in FAILED else 2, (WRONG | FAILED)[line])
    assert {path.name: path.read_bytes() for path in wrong_folder.iterdir()} == before
