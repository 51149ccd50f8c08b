"""libzstd as kernels call it: which library is taken, and whose the objects are."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import zstandard

from graphsearch.jit.libzstd import MODULES, Libzstd, Owned, libzstd, load, load_by_cffi

from ..store.records import batch_of, random_records


@pytest.fixture
def library() -> Libzstd:
    return libzstd()


def test_a_library_without_the_symbols_is_passed_over() -> None:
    other = np._core._multiarray_umath.__file__  # type: ignore[attr-defined]
    assert load([]) is None
    assert load(["/no/such/library.so"]) is None
    assert load([other]) is None
    names = [f"{zstandard.__path__[0]}/{name}" for name in MODULES]
    assert load([*names, other]) is None


def test_only_a_dictionary_in_zstds_format_is_loaded(library: Libzstd) -> None:
    from graphsearch.store.codec.bulk import encode_chunk

    stored = encode_chunk(batch_of(random_records(71, 60) * 20)).dictionary
    codes = stored[2 : 2 + int.from_bytes(stored[:2], "little")]
    assert library.load_dictionary(codes)
    for wrong in (b"", codes[:4], codes[:7], codes[:20], b"plain content", codes[1:]):
        assert library.load_dictionary(wrong) is None


def test_an_object_is_freed_once_with_its_owner() -> None:
    freed: list[int] = []
    owner = Owned(5, freed.append)
    assert owner.address == 5
    assert freed == []
    del owner
    assert freed == [5]


def test_without_symbols_cffi_finds_the_functions_of_one_library() -> None:
    pytest.importorskip("_cffi_backend", reason="cffi is not installed")
    found = load_by_cffi()
    assert found is not None
    frame = zstandard.compress(b"abc" * 100)
    kind = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    assert kind(found.frame_size)(frame + b"more", len(frame) + 4) == len(frame)
    context, out = found.new_context(), ctypes.create_string_buffer(300)
    unpack = ctypes.CFUNCTYPE(
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
    )
    assert unpack(found.decompress)(context.address, out, 300, frame, len(frame), None) == 300
    assert out.raw == b"abc" * 100
