"""The order of segments, identity, and bloom filters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphsearch.position.board import key_of, unpack
from graphsearch.store.index import Sizes, bloom_of
from graphsearch.store.index_kernel import find_held
from graphsearch.store.record import keys_of, sort_keys
from graphsearch.store.store import Store

from . import independent_reader
from .records import filled, random_records, stored_each, words_of


def test_keys_of_words_are_those_of_boards() -> None:
    words = words_of(random_records(71, 50))
    assert keys_of(words).tolist() == [key_of(unpack(row)) for row in words.tolist()]


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=300))
def test_a_bloom_filter_holds_what_was_added(keys: list[int]) -> None:
    bloom = bloom_of(np.array(keys, np.uint64))
    assert held(bloom, np.array(keys, np.uint64)).all()
    others = np.random.default_rng(len(keys)).integers(0, 1 << 64, 200, np.uint64)
    expected = [_holds(bloom, key) for key in others.tolist()]
    assert held(bloom, others).tolist() == expected
    assert len(keys) < 20 or sum(expected) < 30, "few others pass"


def held(bloom: NDArray[np.uint8], keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Returns which keys a filter may hold."""
    found = np.zeros(len(keys), bool)
    find_held(bloom, keys, found)
    return found


def _holds(bloom: NDArray[np.uint8], key: int) -> bool:
    """Returns whether a filter may hold a key, in integers of any size, as `schema/segment.md` says."""
    x = key * 0x9E3779B97F4A7C15 % (1 << 64)
    step = (x >> 32 | x << 32) % (1 << 64) | 1
    places = [(x + k * step) % (1 << 64) * 8 * len(bloom) >> 64 for k in range(5)]
    return all(bloom[place >> 3] >> (place & 7) & 1 for place in places)


def test_sort_keys_are_those_of_the_schema() -> None:
    words = words_of(random_records(71, 100))
    assert sort_keys(words).tolist() == [independent_reader.sort_key(tuple(row)) for row in words.tolist()]


@pytest.mark.parametrize("runs", [1, 6])
def test_a_filter_knows_every_record_and_says_what_single_reads_say(tmp_path: Path, runs: int) -> None:
    records = random_records(71, 600)
    path = filled(tmp_path / "a.graph", records[:400], runs=runs, sizes=Sizes(chunk_blocks=2))
    words = words_of(records)
    with Store.open(path, read_only=True) as store, store.reader() as reader:
        arrays = reader.filter()
        found = stored_each(arrays, words).tolist()
        assert found[:400] == [True] * 400
        assert found == store.may_hold(words, keys_of(words)).tolist()
        assert sum(found[400:]) < 40
        assert all(array.flags.writeable and array.flags.c_contiguous for array in arrays.arrays())
        assert (len(arrays.segments) - 1, len(arrays.blooms)) == (runs, len(arrays.firsts))
