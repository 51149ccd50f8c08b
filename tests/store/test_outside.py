"""JSON from outside: what is not as it is declared is refused in one line, whatever it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsearch.store.file import Holder, WriteLock, holder
from graphsearch.store.tables.rows import DEEPEST, json_object
from graphsearch.store.verify import Problems

DEEP = "[" * 50_000 + "]" * 50_000


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
