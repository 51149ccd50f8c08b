"""`graphsearch reevaluate`: what it prints, and what it refuses."""

from __future__ import annotations

import shlex
import signal
import time
from pathlib import Path

import pytest

from graphsearch.graph.sweeps import evaluating
from graphsearch.graph.sweeps.evaluating import Reevaluation
from graphsearch.jit.places import COMPILING
from graphsearch.store.record.node import RecordBatch
from graphsearch.store.store import Store

from ..conftest import Cli
from ..graph.sweeps.test_reevaluate import stopped
from ..support.counting import CountingEvaluator
from ..support.forks import Command
from ..support.pools import until


@pytest.fixture
def unfinished(small_graph: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file on its way to the evaluator `other`."""
    for name in ("FIRST_BATCH", "LARGEST_BATCH"):
        monkeypatch.setattr(evaluating, name, 16)
    stopped(small_graph, CountingEvaluator("other"), 50)
    return small_graph


def test_it_tells_what_it_did_and_a_second_time_that_nothing_is_left(cli: Cli, small_graph: Path) -> None:
    done = cli("reevaluate", small_graph, "--evaluator", "uniform").ends(0)
    assert "positions evaluated" in done.out
    assert "1 root; favourite move changed: " in done.out
    again = cli("reevaluate", small_graph, "--evaluator", "uniform").ends(0)
    assert again.out == "The file already holds the values of uniform; nothing was evaluated.\n"
    assert cli("analyze", "startpos", "--visits", "10", "--store", small_graph).code == 1
    assert (
        cli("analyze", "startpos", "--visits", "10", "--store", small_graph, "--evaluator", "uniform").code
        == 0
    )
    assert cli("store", "verify", small_graph).code == 0


def test_json_has_every_figure_and_the_run_is_on_record(cli: Cli, small_graph: Path) -> None:
    found = cli("reevaluate", small_graph, "--evaluator", "uniform", "--json").json
    assert found["finished"] is True
    assert found["evaluated"] == found["evaluated_now"] > 100
    assert 0 < found["mean_change"] < found["largest_change"] <= 1
    assert found.keys() >= {"records", "seconds", "settled", "kept", "roots", "changed"}
    run = cli("store", "info", small_graph, "--json").json["runs"][-1]
    assert run["evaluations"] == found["evaluated"]
    assert run["finished"]


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
        done = cli(*command).ends(0, "its values are mixed")
    cli("reevaluate", unfinished, "--evaluator", "uniform").ends(0, "these are evaluated again with uniform")
    assert cli("show", "startpos", "--store", unfinished).err == ""


def test_a_signal_saves_and_can_be_resumed(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = evaluating._BatchEvaluator.evaluate

    def slow(self: evaluating._BatchEvaluator, records: RecordBatch) -> Reevaluation:
        time.sleep(0.5)
        return real(self, records)

    path = tmp_path / "a.graph"
    cli("analyze", "startpos", "--visits", "1000", "--evaluator", "uniform", "--store", path).ends(0)
    with monkeypatch.context() as changed:
        changed.setattr(evaluating, "FIRST_BATCH", 16)
        changed.setattr(evaluating, "LARGEST_BATCH", 16)
        changed.setattr(evaluating._BatchEvaluator, "evaluate", slow)
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
