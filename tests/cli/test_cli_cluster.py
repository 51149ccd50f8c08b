"""Clusters on the command line: split, search, read, merge; and what is refused."""

from __future__ import annotations

from pathlib import Path

from ..conftest import Cli

SEARCH = ("--evaluator", "uniform", "--param", "MinibatchSize=64", "--param", "Overlap=0", "--json")


def test_a_cluster_is_made_searched_read_and_merged(cli: Cli, tmp_path: Path) -> None:
    one, folder, whole = tmp_path / "one.graph", tmp_path / "a.cluster", tmp_path / "whole.graph"
    limits = ("analyze", "startpos", "--visits", 120)
    cli(*limits, "--store", one, *SEARCH)
    made = cli("lab", "split", one, folder, "--shards", 2, "--json").json
    assert made["shards"] == 2
    found = cli(*limits, "--store", folder, *SEARCH).json
    alone = cli(*limits, "--store", one, *SEARCH).json
    assert found["moves"] == alone["moves"]
    assert [shard["number"] for shard in found["shards"]] == [0, 1]
    assert cli("store", "verify", folder, "--json").json["ok"]
    shown = cli("show", "startpos", "--store", folder, "--json").json
    assert shown["visits"] == cli("show", "startpos", "--store", one, "--json").json["visits"]
    assert cli("lab", "mend", folder, "--json").json["made"] == []
    merged = cli("store", "merge", folder, "-o", whole, "--json").json
    assert merged["nodes"] == cli("store", "info", one, "--json").json["nodes"]
