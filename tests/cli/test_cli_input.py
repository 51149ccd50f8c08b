"""Bad input: one clear line on stderr, the right exit code, no traceback, nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphsearch.base.version import __version__
from graphsearch.jit.places import COMPILING

from ..conftest import Cli, Outcome, sql

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
    outcome = cli("analyze", "no\nsuch\x1b[31mfile")
    assert_refused(outcome, 2)


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
@pytest.mark.parametrize(("text", "visits"), [("0.5k", 500), ("0.0007M", 700)])
def test_a_count_may_have_a_k_or_an_m_behind_it(cli: Cli, text: str, visits: int) -> None:
    limit = cli("alphabeta", "startpos", "--nodes", text, "--depth", "40", "--json").json
    assert visits <= limit["nodes"] < visits + 5000


def test_every_option_that_counts_takes_a_k(cli: Cli) -> None:
    """A count of another type would be refused for its text, not for the position."""
    for command, options in (
        ("analyze", ("--visits", "--evaluations", "--lines", "--threads")),
        ("mate", ("--visits",)),
        ("alphabeta", ("--nodes",)),
    ):
        for option in options:
            assert_refused(cli(command, "no-such-file", option, "1k"), 2, "no file 'no-such-file'")


@pytest.mark.parametrize("text", ["1.5", "0.0001k", "10kk", "k", "1e5", "-1k", "9" * 50, "1.k"])
def test_what_is_no_count_is_refused(cli: Cli, text: str) -> None:
    cli("analyze", "startpos", "--visits", text).ends(2, "--visits")


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
    *("show {} --store {}", "note show {} --store {}", "export {} --store {} -o out.csv"),
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
        ("alphabeta", "--depth", 2, "--window", 1, 1),
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
    """`tests/surroundings/test_streams.py` closes the other streams."""
    words = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", IN_TURN, *ASKED]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert "internal error" not in done.stdout + done.stderr
    ends = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("ended with")]
    assert ends == [str(code) for code in ASKED.values()], done


@pytest.mark.skipif(sys.platform != "linux", reason="no limit of addresses")
@pytest.mark.parametrize("kib", [60_000, 150_000, 350_000])
def test_too_few_addresses_are_told_in_one_line(kib: int) -> None:
    line = f'ulimit -v {kib}; exec "{sys.executable}" -m graphsearch analyze startpos --visits 10'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"may have {kib >> 10} MiB of addresses" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="no limit of addresses")
def test_the_graph_leaves_addresses_for_what_is_loaded_later() -> None:
    line = f'ulimit -v 600000; exec "{sys.executable}" -m graphsearch analyze startpos --visits 10 --json'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
