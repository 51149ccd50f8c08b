"""What changes or joins whole files, from `store compact` to `diff`; books, studies, notes, repertoires."""

from __future__ import annotations

import io
import os
import shlex
import signal
import sqlite3
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import chess
import chess.pgn
import pytest

from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch, answer
from graphsearch.graph.sweeps import reevaluate as reevaluating
from graphsearch.jit.cache import COMPILING
from graphsearch.store import merging
from graphsearch.store.store import Store
from graphsearch.store.tables import history
from tests.conftest import Cli, sql
from tests.graph.sweeps.test_refresh import stopped
from tests.query.handmade import LINES, book_file, graph_file
from tests.support.forks import Command
from tests.support.pools import until
from tests.support.reference import HashEvaluator


def test_salvage_takes_the_evaluator_by_name(cli: Cli, small_graph: Path, tmp_path: Path) -> None:
    sql(small_graph, "DELETE FROM evaluator")
    new = tmp_path / "new.graph"
    cli("store", "salvage", small_graph, new).ends(1, "name it with --evaluator")
    assert cli("store", "salvage", small_graph, new, "--evaluator", "no-such").code == 2
    assert cli("store", "salvage", small_graph, new, "--evaluator", "builtin").code == 0
    assert cli("analyze", "startpos", "--visits", 1, "--store", new).code == 0


def test_ctrl_c_ends_with_one_line(cli: Cli, small_graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with Store.open(small_graph) as store, store.rearranging():
        merging.start(store.connection, store.catalog.segments)
    monkeypatch.setattr(merging, "write_chunks", interrupted)
    outcome = cli("store", "compact", small_graph)
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "Interrupted.\n")
    monkeypatch.undo()
    assert cli("store", "verify", small_graph).code == 0
    assert cli("store", "compact", small_graph).code == 0


# ------------------------------------------------------------------ reevaluate
@pytest.fixture
def unfinished(small_graph: Path) -> Path:
    """A file on its way to the evaluator `other`."""
    stopped(small_graph, HashEvaluator("other"), 50)
    return small_graph


def test_it_tells_what_it_did_and_a_second_time_that_nothing_is_left(cli: Cli, small_graph: Path) -> None:
    done = cli("reevaluate", small_graph, "--evaluator", "uniform").ends(0)
    assert "positions evaluated" in done.out
    assert "--since last" in done.err
    again = cli("reevaluate", small_graph, "--evaluator", "uniform").ends(0)
    assert again.out == "The file already holds the values of uniform; nothing was evaluated.\n"
    search = cli("analyze", "startpos", "--visits", "10", "--store", small_graph)
    search.ends(0, "is searched with its own evaluator, uniform")
    assert cli("store", "verify", small_graph).code == 0


def test_an_unfinished_file_is_refused_by_a_search_and_shown_with_a_note(cli: Cli, unfinished: Path) -> None:
    for command in (
        ["analyze", "startpos", "--visits", "1", "--store", unfinished],
        ["lab", "refresh", unfinished],
        ["store", "compact", unfinished],
    ):
        done = cli(*command)
        assert (done.code, done.out) == (1, "")
        assert len([line for line in done.err.splitlines() if COMPILING not in line]) == 1
        assert "is being reevaluated with other" in done.err
    copy = unfinished.with_name("copy.graph")
    for command in (
        ["show", "startpos", "--store", unfinished],
        ["store", "info", unfinished],
        ["store", "verify", unfinished],
        ["store", "backup", unfinished, copy],
    ):
        cli(*command).ends(0, "its values are mixed")
    cli("show", unfinished, "h4 h5 a4").ends(1, "its values are mixed", "does not hold this position")
    both = cli("diff", unfinished, copy).ends(0)
    for path in (unfinished, copy):
        assert both.err.count(f"note: {path} ") == 1
    cli("reevaluate", unfinished, "--evaluator", "uniform").ends(0, "these are evaluated again with uniform")
    assert cli("show", "startpos", "--store", unfinished).err == ""


def test_a_signal_saves_and_can_be_resumed(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(evaluator: Evaluator, batch: PositionBatch) -> Evaluation:
        time.sleep(0.5)
        return answer(evaluator, batch)

    path = tmp_path / "a.graph"
    cli("analyze", "startpos", "--visits", "1000", "--evaluator", "uniform", "--store", path).ends(0)
    with monkeypatch.context() as changed:
        changed.setattr(reevaluating, "BATCH", 16)
        changed.setattr(reevaluating, "answer", slow)
        process = Command("reevaluate", path, "--evaluator", "builtin", "--json")
    until(lambda: is_marked(path))
    process.send_signal(signal.SIGINT)
    done = process.end().ends(130)
    assert done.json["done"] < done.json["records"]
    assert not done.json["finished"]
    command = shlex.split(done.err.strip().splitlines()[-1].split("Resume with: ")[1])
    went_on = cli(*command[command.index("reevaluate") :], "--json").json
    assert went_on["finished"]
    assert went_on["evaluated_now"] + done.json["evaluated"] == went_on["evaluated"]


def is_marked(path: Path) -> bool:
    """Returns whether a file is on its way to another evaluator."""
    with Store.open(path, read_only=True) as store:
        return store.unfinished is not None


# ------------------------------------------------------------------ store merge, diff
MORE = LINES | {"e4": {"e5": (40, -0.15), "c5": (900, 0.5)}, "d4 d5": {"c4": (5, 0.1)}}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return graph_file(tmp_path / "a.graph", LINES), graph_file(tmp_path / "b.graph", MORE)


def test_a_merge_prints_what_came_from_each_file(cli: Cli, files: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = files
    new = tmp_path / "c.graph"
    data = cli("store", "merge", a, b, "-o", new, "--json").json
    assert [one["fresh"] for one in data["inputs"]] == [8, 1]
    assert (data["nodes"], data["complete"]) == (9, True)
    assert data["refresh"]["stale"] > 0
    refused = cli("store", "merge", a, b, "-o", new)
    assert (refused.code, "replace it with --force" in refused.err) == (2, True)
    again = cli("store", "merge", b, "--into", new)
    assert (again.code, again.err) == (0, "")
    assert f"{new} has 9 nodes" in again.out
    assert cli("store", "verify", new).code == 0


def test_what_is_left_out_is_listed_and_fails(cli: Cli, files: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = files
    sql(b, "DELETE FROM block")
    outcome = cli("store", "merge", a, b, "-o", tmp_path / "c.graph").ends(1)
    assert "b.graph (salvaged)" in outcome.out
    assert "it is missing" in outcome.out
    assert cli("store", "verify", tmp_path / "c.graph").code == 0


# ------------------------------------------------------------------ diff
def test_a_merge_replaces_no_pipe_or_device(cli: Cli, files: tuple[Path, Path], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    outcome = cli("store", "merge", *files, "-o", pipe, "--force")
    assert (outcome.code, pipe.is_fifo()) == (2, True)
    assert "not a regular file" in outcome.err


def test_a_file_is_compared_with_itself_as_it_was_before_a_run(cli: Cli, files: tuple[Path, Path]) -> None:
    a, _ = files
    key = "463b96181691fc9c"
    with Store.open(a) as store:
        for k, best in enumerate(("e2e4", "e2e4", "d2d4")):
            run = store.begin_run(chess.STARTING_FEN, {}, {})
            values = history.RootValues(key=key, n=50 * (k + 1), q=0.1 * k, draw=0.5, best_move=best)
            with store.transaction():
                history.write(store, run, values)
    data = cli("diff", a, "--since", "3", "--json").json
    (root,) = data["roots"]
    assert (root["old"]["run"], root["old"]["n"], root["old"]["best_san"]) == (2, 100, "e4")
    assert (root["new"]["run"], root["new"]["n"], root["new"]["best_san"]) == (3, 150, "d4")
    assert (data["evaluated"], data["come"]) == (0, [])
    assert cli("diff", a, "--since", "2000-01-01").code == 0
    assert cli("diff", a, "--since", "last", "--json").json["run"] == 3
    with Store.open(a, read_only=True) as store:
        began = datetime.fromisoformat(store.runs()[2].started)
    west = began.astimezone(timezone(timedelta(hours=-9)))
    for moment in (began, west, began.replace(tzinfo=None)):
        assert cli("diff", a, "--since", moment.isoformat(), "--json").json["runs"] >= 1
    late = (west + timedelta(hours=1)).isoformat()
    for period in ("yesterday", "7d", "1h"):
        assert cli("diff", a, "--since", period, "--json").json["run"] == 1
    text = cli("diff", a, "--since", "3").ends(0).out
    (line,) = [line for line in text.splitlines() if line.startswith("start")]
    assert line == "start: d4 +0.29 takes over from e4 +0.14; 100 -> 150 visits"
    assert max(map(len, text.splitlines()[1:])) <= 100
    for wrong in ("9", "7w", "tomorrow", "2099-01-01", "2026-13-45", late):
        outcome = cli("diff", a, "--since", wrong)
        assert (outcome.code, len(outcome.faults)) == (2, 1)
    assert cli("diff", a).code == 2


# ------------------------------------------------------------------ books, studies, notes and repertoires
WHITE = """
[book]
name = "white"
side = "white"
max_ply = 4
[[root]]
moves = "1. d4"
[[window]]
plies = [0, 4]
own_cp = 10
reply_p = 0.1
reply_cp = 20
reply_moves = 3
[[exclude]]
moves = "1. d4 Nf6"
play = ["Bg5"]
[leaf]
evaluations = 20
params = { MinibatchSize = 1 }
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "white.toml"
    path.write_text(WHITE)
    return path


def test_a_signal_saves(tmp_path: Path, toml: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.graph"
    toml.write_text(WHITE.replace("max_ply = 4", "max_ply = 30"))
    monkeypatch.setattr("graphsearch.book.build.SAVE_SECONDS", 0.0)
    process = Command("book", "build", toml, "--store", path, "--forever", "--json")
    until(lambda: path.exists() and searched(path) > 0)
    process.send_signal(signal.SIGINT)
    assert process.end().ends(130, "Stopping").json["ended"] == "stop"
    assert cli("book", "status", "--store", path, "--json").json["books"][0]["runs"][0]["ended"] == "stop"


def test_a_search_knows_the_evaluator_of_a_book(tmp_path: Path, toml: Path, cli: Cli) -> None:
    path = tmp_path / "b.graph"
    toml.write_text(f'{WHITE}[evaluator]\noptions = {{ PolicyTemperature = 2 }}\nname = "builtin"\n')
    cli("book", "build", toml, "--store", path, "--evaluations", 20).ends(0)
    cli("analyze", path, "--visits", 5).ends(0, "is searched with its own evaluator")


def searched(path: Path) -> int:
    """Returns how many positions of a book are searched, as far as that is saved."""
    try:
        return int(sql(path, "SELECT coalesce(max(searched), 0) FROM book_run")[0][0])
    except sqlite3.Error:  # it is being made
        return 0


@pytest.mark.parametrize("ending", ["pgn", "csv", "bin"])
def test_an_export_of_a_file_with_only_books_asks_for_one(
    tmp_path: Path, toml: Path, cli: Cli, ending: str
) -> None:
    path, out = tmp_path / "b.graph", tmp_path / f"out.{ending}"
    cli("book", "build", toml, "--store", path, "--evaluations", 20).ends(0)
    cli("export", "--store", path, "-o", out).ends(2, "has only books; name one with --book: 'white'")
    cli("export", "--store", path, "-o", out, "--book", "white").ends(0)
    cli("export", "1. d4", "--store", path, "-o", out).ends(0)


def test_the_tables_of_a_file_with_only_books_have_its_records(tmp_path: Path, toml: Path, cli: Cli) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra parquet: pip install '.[parquet]'")
    path, out = tmp_path / "b.graph", tmp_path / "tables"
    cli("book", "build", toml, "--store", path, "--evaluations", 20).ends(0)
    words = ("export", "--format", "parquet", "--store", path, "-o", out)
    assert cli(*words, "--json").ends(0).json["positions"] > 10
    cli(*words, "--depth", 2).ends(2, "has only books; name one with --book: 'white'")


# ------------------------------------------------------------------ queue and to-do list
GAMES = '[White "A"]\n\n1. e4 e5 *\n\n[White "B"]\n\n1. d4 d5 2. c4 *\n\n[White "C"]\n\n1. e4 Ke4 *\n'


@pytest.fixture
def white(tmp_path: Path) -> Path:
    return book_file(tmp_path / "white.graph")


def test_what_is_added_is_listed_and_dropped(cli: Cli, white: Path) -> None:
    done = cli("book", "queue", "startpos", "--moves", "1. d4 d5 2. c4", "--store", white)
    assert (done.code, done.out) == (0, "Added 1 item to the queue: 1\n")
    assert "1. d4 d5 2. c4" in cli("book", "queue", "--store", white).out
    (item,) = cli("book", "queue", "--store", white, "--json").json["items"]
    assert (item["fen"], item["moves"]) == (chess.STARTING_FEN, ["d2d4", "d7d5", "c2c4"])
    assert cli("book", "queue", "--drop", 1, "--store", white).out == "Dropped 1 item\n"
    again = cli("book", "queue", "--drop", 1, "--store", white)
    assert (again.code, again.out) == (0, "Dropped 0 items\n")
    assert "item 1 is already dropped" in again.err
    assert cli("book", "queue", "--store", white).err == "No item is waiting.\n"
    states = cli("book", "queue", "--kind", "all", "--store", white, "--json").json["items"]
    assert [item["state"] for item in states] == ["dropped"]


def test_games_are_added_and_broken_ones_reported(cli: Cli, white: Path, tmp_path: Path) -> None:
    path = tmp_path / "games.pgn"
    path.write_text(GAMES)
    done = cli("book", "queue", path, "--store", white, "--json").ends(1, "game 3")
    assert done.json["added"] == [1, 2]
    assert len(done.json["problems"]) == 1
    one = cli("book", "queue", path, "--game", 2, "--ply", 1, "--store", white)
    assert (one.code, one.out) == (0, "Added 1 item to the queue: 3\n")
    (item,) = cli("book", "queue", "--store", white, "--json").json["items"][2:]
    assert (item["moves"], item["origin"]) == (["d2d4"], "games.pgn, game 2")


def test_lines_come_from_stdin(cli: Cli, white: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fen = "4k3/8/8/8/8/8/4P3/4K3 w - -"
    lines = f"\ufeff# no\n1. e4 e5\nposition fen {fen} 0 1 moves e2e4 e8e7\n{fen} bm e4;\nnonsense\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    done = cli("book", "queue", "-", "--store", white).ends(1, "line 5: move 1 of the list, 'nonsense'")
    assert done.out == "Added 3 items to the queue: 1 to 3\n"
    added = cli("book", "queue", "--store", white, "--json").json["items"]
    assert [item["moves"] for item in added] == [["e2e4", "e7e5"], ["e2e4", "e8e7"], []]
    assert [item["origin"] for item in added] == ["line 2", "line 3", "line 4"]


# ------------------------------------------------------------------ studies and notes
PGN = '[White "Ann"]\n[Black "B\xf6b"]\n\n1. e4 e5 (1... c5 {open}) 2. Nf3 $1 Nc9 *\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.pgn"
    path.write_text(PGN, encoding="latin-1")
    return path


def test_a_file_that_is_missing_is_made_unless_nothing_is_read(cli: Cli, file: Path, tmp_path: Path) -> None:
    new, bad = tmp_path / "new.graph", tmp_path / "bad.pgn"
    bad.write_text("nothing")
    for words in (("study", "import"), ("repertoire", "import", "--side", "white")):
        cli(*words, new, bad).ends(1)
        assert not new.exists()
        cli(*words, new, file).ends(0)
        new.unlink()


def test_a_note_is_written_shown_listed_and_deleted(cli: Cli, small_graph: Path) -> None:
    assert cli("note", small_graph, "1. e4").code == 1
    assert cli("note", small_graph, "1. e4 e5 2. Nf3", "--text", "a\x1b\nb").code == 0
    assert cli("note", small_graph, "1. Nf3 e5 2. e4").out == "a?\nb\n"
    assert "note: a?\nb\n" in cli("show", small_graph, "1. e4 e5 2. Nf3").out
    assert cli("show", small_graph, "1. e4 e5 2. Nf3", "--json").json["note"] == "a\x1b\nb"
    assert cli("note", small_graph, "--json").json["notes"][0]["text"] == "a\x1b\nb"
    assert "a? b" in cli("note", small_graph).out
    assert cli("note", small_graph, "1. e4 e5 2. Nf3", "--text", " ").code == 0
    assert cli("note", small_graph, "1. e4 e5 2. Nf3").code == 1


def test_studies_are_written_while_a_search_has_the_file(cli: Cli, small_graph: Path, file: Path) -> None:
    with Store.open(small_graph):
        assert cli("study", "import", small_graph, file).code == 0
        assert cli("note", small_graph, "startpos", "--text", "x").code == 0
