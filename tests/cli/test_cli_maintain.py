"""What changes or joins whole files, from `store compact` to `diff`: what it prints, and how it fails."""

from __future__ import annotations

import os
import shlex
import signal
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import chess
import chess.pgn
import pytest

from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch, answer
from graphsearch.graph.sweeps import reevaluate as reevaluating
from graphsearch.jit.cache import COMPILING
from graphsearch.store.store import Store
from graphsearch.store.tables import history
from tests.conftest import Cli, sql
from tests.graph.sweeps.test_refresh import stopped
from tests.query.handmade import LINES, graph_file
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
    from graphsearch.store import merging

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
        said = [line for line in done.err.splitlines() if COMPILING not in line]
        assert len(said) == 1
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
