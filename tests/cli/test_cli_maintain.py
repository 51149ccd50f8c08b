"""`store compact`, `backup` and `salvage`: what they print, and how they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsearch.store.store import Store

from ..conftest import Cli, sql


def test_compact_prints_what_it_gained(cli: Cli, small_graph: Path) -> None:
    data = cli("store", "compact", small_graph, "--json").json
    assert set(data) == {"nodes", "superseded", "runs", "bytes_before", "bytes_after"}
    assert data["bytes_after"] <= data["bytes_before"]
    outcome = cli("store", "compact", small_graph)
    assert (outcome.code, outcome.err) == (0, "")
    assert "before" in outcome.out
    assert "after, 0 superseded versions dropped" in outcome.out


def test_prune_prints_what_is_left(cli: Cli, small_graph: Path) -> None:
    data = cli("store", "compact", small_graph, "--min-visits", 2, "--json").json
    assert set(data) == {"nodes_before", "nodes_after", "bytes_before", "bytes_after"}
    assert 0 < data["nodes_after"] < data["nodes_before"]
    again = cli("store", "compact", small_graph, "--min-visits", 2).out
    assert f"{data['nodes_after']:,} nodes before, {data['nodes_after']:,} after" in again
    assert cli("show", "startpos", "--store", small_graph).code == 0
    assert cli("store", "verify", small_graph).code == 0


def test_backup_works_beside_a_writer_and_overwrites_none(
    cli: Cli, small_graph: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.graph"
    with Store.open(small_graph) as store:
        data = cli("store", "backup", small_graph, copy, "--json").json
        assert data == {"path": str(copy), "nodes": store.node_count, "bytes": copy.stat().st_size}
    said = "exists already; name another file, or replace it with --force"
    cli("store", "backup", small_graph, copy).ends(1, said)
    assert "nodes" in cli("store", "backup", small_graph, copy, "--force").out
    assert cli("store", "verify", copy).code == 0


def test_salvage_prints_what_was_lost(cli: Cli, small_graph: Path, tmp_path: Path) -> None:
    sql(small_graph, "DELETE FROM block WHERE id = (SELECT max(id) FROM block)")
    new = tmp_path / "new.graph"
    data = cli("store", "salvage", small_graph, new, "--json").json
    assert data["blocks_lost"] == 1
    assert data["complete"] is False
    outcome = cli("store", "salvage", small_graph, new, "--force").ends(0)
    assert "it is missing" in outcome.out
    assert f"{data['records']:,} records kept, 1 of {data['blocks']} blocks lost" in outcome.out
    assert cli("store", "verify", new).code == 0
    assert cli("show", "startpos", "--store", new).code in (0, 1)


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
