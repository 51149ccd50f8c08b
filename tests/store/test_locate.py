"""Sort keys, identity and filters in kernels: what `store/order.py` and `store/bloom.py` say."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import U, adv, ptr
from graphsearch.position.board import Words, pack, unpack
from graphsearch.store.index import bloom, locate_kernel
from graphsearch.store.index.catalog import Catalog
from graphsearch.store.index.lookup import _candidates
from graphsearch.store.order import identities, sort_keys
from graphsearch.store.segments import keys_of
from graphsearch.store.sizes import Sizes
from graphsearch.store.store import Store
from tests.store.records import filled, random_board, random_records, stored_each


def packed(seed: int, count: int) -> Words:
    rng = random.Random(seed)
    return np.array([pack(random_board(rng)) for _ in range(count)], np.uint64)


@kernel
def keys_in_kernel(words: Words, out: Words) -> None:
    for i in range(len(out)):
        out[i] = locate_kernel.sort_key(adv(ptr(words, 0), 10 * i))


@kernel
def same_in_kernel(words: Words, out: Words) -> None:
    for i in range(len(out)):
        out[i] = U(locate_kernel.is_same(adv(ptr(words, 0), 10 * i), adv(ptr(words, 0), 10 * (i + 1))))


def test_sort_keys_are_those_of_the_order_of_runs() -> None:
    words = packed(1, 100)
    out = np.zeros(len(words), np.uint64)
    keys_in_kernel(words.reshape(-1), out)
    assert (out == sort_keys(words)).all()


def test_positions_are_the_same_by_the_rules_of_identity() -> None:
    words = packed(2, 40).repeat(12, axis=0)
    rng = random.Random(3)
    for row in words:
        row[8] = int(row[8]) & ~(255 << 12) | rng.choice((0, 1, 74, 75, 76, 77, 100)) << 12
        row[8] ^= np.uint64(rng.choice((0, 0, 0, 1, 2, 32)))
        row[rng.randrange(8)] ^= np.uint64(rng.choice((0, 0, 0, 1 << 20)))
    out = np.zeros(len(words) - 1, np.uint64)
    same_in_kernel(words.reshape(-1), out)
    expected = (identities(words)[1:] == identities(words)[:-1]).all(1)
    assert 20 < expected.sum() < len(expected) - 20
    assert (out.astype(bool) == expected).all()


def may_be_stored(arrays: locate_kernel.FilterArrays, words: Words) -> list[bool]:
    return list(stored_each(arrays, words))


def by_the_catalog(catalog: Catalog, words: Words) -> list[bool]:
    """Returns whether there is any block to look into, as single reads say."""
    return [
        any(_candidates(catalog, int(order), int(key)))
        for order, key in zip(sort_keys(words), keys_of(words), strict=True)
    ]


def test_no_file_stores_nothing() -> None:
    assert may_be_stored(locate_kernel.no_filter(), packed(4, 5)) == [False] * 5


@pytest.mark.parametrize("runs", [1, 6])
def test_a_filter_knows_every_record_and_says_what_single_reads_say(tmp_path: Path, runs: int) -> None:
    records = random_records(5, 600)
    path = filled(tmp_path / "a.graph", records[:400], runs=runs, sizes=Sizes(chunk_blocks=2))
    words = np.array([record.words for record in records], np.uint64)
    with Store.open(path, read_only=True) as store, store.reader() as reader:
        arrays = reader.filter()
        found = may_be_stored(arrays, words)
        assert found[:400] == [True] * 400
        assert found == by_the_catalog(store.catalog, words)
        assert sum(found[400:]) < 40
        assert all(array.flags.writeable and array.flags.c_contiguous for array in arrays)
        assert (len(arrays.segments) - 1, len(arrays.blooms)) == (runs, len(arrays.firsts))


@pytest.mark.parametrize("bits_per_key", [3, 40])
def test_filters_of_any_length_are_read(
    tmp_path: Path, bits_per_key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bloom, "BITS_PER_KEY", bits_per_key)
    records = random_records(6, 300)
    path = filled(tmp_path / "a.graph", records[:200])
    words = np.array([record.words for record in records], np.uint64)
    with Store.open(path, read_only=True) as store, store.reader() as reader:
        assert store.catalog.full_index(store.catalog.segments[0].chunks[0]).bloom.size == 25 * bits_per_key
        found = may_be_stored(reader.filter(), words)
        assert found[:200] == [True] * 200
        assert found == by_the_catalog(store.catalog, words)
        assert all(store.read(unpack(record.words)) == record for record in records[:20])
