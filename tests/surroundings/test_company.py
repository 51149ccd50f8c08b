"""A second writer at the same file."""

from __future__ import annotations

from pathlib import Path

from graphsearch.store.store import Store

from ..conftest import Cli


def test_a_second_writer_is_refused_in_one_line(cli: Cli, small_graph: Path) -> None:
    pgn = small_graph.with_name("a.pgn")
    pgn.write_text("1. e4 e5 *\n")
    for command in (
        ("analyze", "startpos", "--visits", 5, "--store"),
        ("mate", "startpos", "--visits", 5, "--store"),
        ("import", pgn, "--store"),
        ("lab", "refresh"),
        ("store", "compact"),
        ("store", "compact", "--min-visits", 2),
        ("reevaluate", "--evaluator", "uniform"),
    ):
        with Store.open(small_graph):
            outcome = cli(*command, small_graph).ends(1)
        (line,) = [line for line in outcome.err.splitlines() if line.startswith("graphsearch: ")]
        assert f"{small_graph} is being written by process" in line
