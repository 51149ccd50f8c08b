"""The page on kernels lists every array that kernels are handed."""

from __future__ import annotations

import re

import pytest

from graphsearch.graph.arena_kernel import ArenaArrays, ArenaPointers
from graphsearch.graph.guards_kernel import ThreadArrays
from graphsearch.search.shards.messages_kernel import ShardArrays, ShardPointers
from graphsearch.search.wave_kernel import WaveArrays, WavePointers
from graphsearch.store.index.locate_kernel import FilterArrays, FilterPointers
from graphsearch.store.reading_kernel import ReaderArrays
from graphsearch.store.record.transposition_kernel import EntryArrays, EntryPointers

from ..conftest import ROOT

PAGE = (ROOT / "docs" / "contributing" / "kernels.md").read_text(encoding="utf-8")
BUNDLES = {
    "The arena": (ArenaArrays, ArenaPointers),
    "Guards": (ThreadArrays, ThreadArrays),
    "A wave": (WaveArrays, WavePointers),
    "A shard": (ShardArrays, ShardPointers),
    "What the file may hold": (FilterArrays, FilterPointers),
    "Reading the file": (ReaderArrays, ReaderArrays),
    "Transposition entries": (EntryArrays, EntryPointers),
}


@pytest.mark.parametrize("title", BUNDLES)
def test_every_array_of_a_bundle_has_its_row_and_no_row_has_no_array(title: str) -> None:
    section = PAGE.split(f"\n## {title}")[1].split("\n## ")[0]
    arrays, pointers = ((*cls.__annotations__,) for cls in BUNDLES[title])
    assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == list(arrays)
    assert all(f"`{name}`" in section for name in pointers)
