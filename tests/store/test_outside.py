"""JSON from outside: what is not as it is declared is refused in one line, whatever it is."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsearch.base.errors import InputFileError, SchemaVersionError, StoreError
from graphsearch.base.outside import Identity, LockNote, ManifestFile, SaveFacts, ShardFact, declared
from graphsearch.search.shards.parting import split
from graphsearch.store.lock import Holder, WriteLock, holder
from graphsearch.store.record.provenance import EvaluatorIdentity
from graphsearch.store.sharded.manifest import FACT, NAME, read_manifest
from graphsearch.store.sharded.saved_waves import Save, saves_of
from graphsearch.store.store import Store
from graphsearch.store.tables.column import DEEPEST, json_object
from graphsearch.store.upkeep.verify import Problems

from ..conftest import Cli

MANIFEST: dict[str, Any] = {
    "format": 1,
    "program": "graphsearch 0.1.0",
    "cluster": "6f1c5a0e9b7d4c2f8a3e1d0b5c6f7a89",
    "evaluator": {"kind": "uniform", "digest": "", "options": {"a": 1, "b": {"c": 2.5}}, "mapping": ""},
    "files": ["shard-000.graph", "shard-001.graph"],
    "owners": [[0, 0], [2048, 1]],
}
DEEP = "[" * 50_000 + "]" * 50_000


def written(folder: Path, text: str) -> Path:
    (folder / NAME).write_text(text)
    return folder


def test_a_sound_manifest_is_read(tmp_path: Path) -> None:
    found = read_manifest(written(tmp_path, json.dumps(MANIFEST | {"later": 1})))
    assert json.loads(found.identity.as_json()) == MANIFEST["evaluator"]
    assert found.files == ("shard-000.graph", "shard-001.graph")
    assert (found.owners[:2048] == 0).all()
    assert (found.owners[2048:] == 1).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"evaluator": MANIFEST["evaluator"] | {"options": [1]}}, r"evaluator\.options"),
        ({"owners": {"0": 0}}, "owners"),
        ({"owners": [[0, 0], [5000, 1]]}, r"owners\.1\.0"),
        ({"owners": [[0, 0], [5, 2]]}, "shard 2, of which there is no file"),
        ({"owners": [[1, 0]]}, "in order"),
        ({"files": ["../a.graph"]}, r"files\.0"),
        ({"files": ["a.graph", "a.graph"]}, "twice"),
        ({"cluster": "6F"}, "cluster"),
        ({"format": True}, "format"),
        ({"format": "1"}, "format"),
    ],
)
def test_what_is_wrong_in_a_manifest_is_named(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        read_manifest(written(tmp_path, json.dumps(MANIFEST | change)))


def test_a_manifest_of_a_later_format_or_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"recursion|valid"):
        read_manifest(written(tmp_path, f'{{"format": 1, "owners": {DEEP}}}'))
    with pytest.raises(SchemaVersionError, match=r"has format 2, .* reads format 1;"):
        read_manifest(written(tmp_path, '{"format": 2, "owners": {}}'))


def test_every_command_refuses_a_wrong_manifest_in_one_line(cli: Cli, tmp_path: Path) -> None:
    folder = written(tmp_path, json.dumps(MANIFEST | {"owners": {"a": 1}}))
    for command in (
        ("store", "info", folder),
        ("store", "verify", folder),
        ("store", "merge", folder, "-o", tmp_path / "one.graph"),
        ("lab", "mend", folder),
        ("show", "startpos", "--store", folder),
        ("lines", "startpos", "--store", folder),
        ("lab", "refresh", folder),
        ("analyze", "startpos", "--visits", "1", "--store", folder),
        ("export", "--format", "jsonl", "-o", "-", "--store", folder),
    ):
        done = cli(*command)
        assert done.code == 1
        assert "is no manifest of a cluster" in done.err.splitlines()[-1]
        assert "internal error" not in done.err


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=8)
@given(JSON, st.sampled_from([Identity, ManifestFile, ShardFact, SaveFacts, LockNote]))
def test_any_json_is_as_declared_or_an_input_error(value: Any, kind: Any) -> None:
    for text in (json.dumps(value), json.dumps(value).encode(), json.dumps(value)[:-1]):
        with suppress(InputFileError):
            declared(kind, text)


def test_facts_of_a_file_that_are_odd_count_as_none(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Store.open(path, create=True, unbound=True) as store:
        for text in (
            "[]",
            DEEP,
            "{",
            '[{"number": "1"}]',
            '[{"number": -1}]',
            f'[{{"number": {1 << 70}}}]',
            "7",
        ):
            store.write_fact("cluster_saves", text)
            assert saves_of(store) == [Save()]
        store.write_fact("cluster_saves", '[{"number": 7, "later": 1}]')
        assert saves_of(store) == [Save(number=7)]


@pytest.mark.parametrize("fact", [DEEP, "[]", '{"cluster": 5}', '{"cluster": "a", "shard": [], "of": 2}'])
def test_a_shard_with_an_odd_fact_is_none_of_the_cluster(tmp_path: Path, fact: str) -> None:
    one, folder = tmp_path / "a.graph", tmp_path / "a.cluster"
    Store.open(one, identity=EvaluatorIdentity("uniform"), create=True).close()
    split(one, folder, shards=2)
    with Store.open(folder / "shard-001.graph") as store:
        store.write_fact(FACT, fact)
    from graphsearch.store.sharded.files import open_to_read

    with pytest.raises(StoreError, match="a graph file of no cluster"):
        open_to_read(folder)


@pytest.mark.parametrize("note", ["", "[]", DEEP, '{"pid": "x", "since": 1}', '{"pid": -1, "since": ""}'])
def test_an_odd_note_of_a_lock_names_nobody(tmp_path: Path, note: str) -> None:
    path = tmp_path / "a.graph"
    lock = WriteLock(path)
    try:
        path.with_name("a.graph.lock").write_text(note)
        assert holder(path) == Holder(None, None)
    finally:
        lock.release()


def test_a_problem_is_a_short_line_whatever_is_wrong() -> None:
    found = Problems()
    found.add("a.graph: " + "; ".join(f"P of move {k} is wrong" for k in range(200)))
    assert [len(line) for line in found.problems] == [603]
    assert found.problems[0].endswith("...")


def test_a_json_object_of_a_cell_has_a_depth() -> None:
    assert json_object("{" * 0 + '{"a":' * DEEPEST + "1" + "}" * DEEPEST) is not None
    assert json_object('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1)) is None
    assert json_object(DEEP) is None
