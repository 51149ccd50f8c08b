"""Compiled and plain: the same kernels and searches; bundles; libraries; digests of sources."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import chess
import numpy as np
import pytest
import zstandard

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import CompilerError
from graphsearch.jit import cache, compiler
from graphsearch.jit.compiler import JIT_OFF, kernel
from graphsearch.jit.libraries import MODULES, Libzstd, libzstd, load, load_by_cffi
from graphsearch.jit.pointers import zeros
from graphsearch.jit.types import Bundle, Items, float64, int64, uint16, uint64
from graphsearch.store.record import NodeRecord
from graphsearch.store.store import Store
from tests.conftest import ROOT
from tests.store.records import batch_of, random_records
from tests.support.plain import as_json, in_plain_python


def searched(fen: str, batch: int, visits: int) -> dict[str, Any]:
    """Returns the facts of a search but its time and place, and the records of its file."""
    params = SearchParams(minibatch_size=batch)
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.graph")
        with Graph.open(path, evaluator="uniform") as graph:
            result = analyze(graph, chess.Board(fen), Limits(visits=visits), params)
        records = sorted(map(str, contents(path)))
    data = result.as_dict()
    del data["seconds"], data["store"]
    return data | {"stored": records}


def contents(path: Path) -> Iterator[NodeRecord]:
    """Yields what blocks of a file hold."""
    with Store.open(path, read_only=True) as store:
        yield from (batch.record(i) for batch in store.scan() for i in range(len(batch)))


SEARCHES = [
    (chess.STARTING_FEN, 8, 60),
    ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 70 90", 1, 60),
    ("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1", 16, 90),
]


def all_searched() -> list[dict[str, Any]]:
    return [searched(*one) for one in SEARCHES]


def test_plain_python_searches_as_compiled_code_does() -> None:
    assert in_plain_python(all_searched) == as_json(all_searched())


def test_without_a_writable_cache_it_still_searches(tmp_path: Path) -> None:
    # no folder can be made below a file
    blocked = tmp_path / "file"
    blocked.write_text("")
    code = "from graphsearch.jit.compiler import PLACES; print(PLACES.writing[0].path)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"GRAPHSEARCH_CACHE_DIR": str(blocked), "TMPDIR": str(tmp_path)},
    )
    assert str(tmp_path) in done.stdout


@kernel
def count_to(count: int64) -> int64:
    numbers, total = zeros(uint16, count), int64(0)
    for i in range(count):
        total += numbers[i]
        numbers[i] = uint16(i)
    for i in range(count):
        total += numbers[i]
    return total


def test_zeros_are_zeros_in_every_call() -> None:
    assert [count_to(10), count_to(300), count_to(10)] == [45, 44850, 45]


@pytest.mark.skipif(JIT_OFF, reason="nothing is compiled")
def test_a_release_of_numba_without_the_needed_parts_is_named_with_the_tested_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from numba.core import codegen

    monkeypatch.delattr(codegen, "JITCodeLibrary")
    monkeypatch.delitem(sys.modules, "graphsearch.jit.build", raising=False)
    with pytest.raises(CompilerError, match=r"Numba [\d.]+ .*JITCodeLibrary.*; .*numba>=") as found:
        compiler._compiler("build")
    assert compiler.NUMBA in str(found.value)


def test_the_named_releases_are_those_that_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert compiler.NUMBA in project["dependencies"]


# ------------------------------------------------------------------ bundles
class Inside(Bundle):
    small: Items[uint16]
    small_size: int64


class Outside(Bundle):
    values: Items[float64]
    inside: Inside
    number: int64
    keys: Items[uint64]
    keys_size: int64


@kernel
def read_and_write(B: Outside) -> tuple[float64, int64, int64]:
    total = 0.0
    for i in range(B.keys_size):
        total += B.values[i]
    B.values[0] = 7.5
    return total, B.number, int64(B.inside.small[B.inside.small_size - 1])


def test_a_kernel_reads_arrays_sizes_numbers_and_bundles_in_a_bundle() -> None:
    inside = Inside(small=np.arange(4, dtype=np.uint16))
    bundle = Outside(values=np.array([1.0, 2.0, 4.0]), inside=inside, number=-3, keys=np.zeros(2, np.uint64))
    assert read_and_write(bundle) == (3.0, -3, 3)
    assert bundle.values.tolist() == [7.5, 2.0, 4.0]
    other = bundle.replace(inside=Inside(small=np.array([9], np.uint16)), number=1 << 40)
    assert read_and_write(other) == (9.5, 1 << 40, 9)
    assert read_and_write(bundle) == (9.5, -3, 3)
    assert [len(array) for array in bundle.arrays()] == [3, 2]


def test_a_bundle_refuses_missing_fields_and_arrays_with_gaps() -> None:
    with pytest.raises(TypeError, match="small"):
        Inside(big=1)
    with pytest.raises(TypeError, match="contiguous"):
        _ = Inside(small=np.zeros(8, np.uint16)[::2]).words_


# ------------------------------------------------------------------ libzstd as kernels call it
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
    from graphsearch.store.block import encode_chunk

    stored = encode_chunk(batch_of(random_records(71, 60) * 20)).dictionary
    codes = stored[2 : 2 + int.from_bytes(stored[:2], "little")]
    assert library.load_dictionary(codes)
    for wrong in (b"", codes[:4], codes[:7], codes[:20], b"plain content", codes[1:]):
        assert library.load_dictionary(wrong) is None


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


# ------------------------------------------------------------------ digests of the sources of kernels
VISIT, MATE = "graphsearch.search.visit_kernel", "graphsearch.solvers.mate.proof_kernel"


@pytest.mark.parametrize(
    ("edited", "changed"),
    [
        ("position/board_kernel.py", {VISIT, MATE}),
        ("search/wave_kernel.py", {VISIT}),
        ("position/tables.py", {VISIT, MATE}),
        ("solvers/mate/proof_kernel.py", {MATE}),
        ("cli/show.py", set()),
    ],
)
def test_an_edit_changes_the_digest_of_the_kernels_that_it_reaches(
    edited: str, changed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (VISIT, MATE):
        import_module(module)
    before = {module: cache.sources_digest.__wrapped__(module) for module in (VISIT, MATE)}

    def text(path: str) -> bytes:
        return Path(path).read_bytes() + (
            b"\n# edited" if Path(path).as_posix().endswith(f"/{edited}") else b""
        )

    monkeypatch.setattr(cache, "_text", text)
    after = {module: cache.sources_digest.__wrapped__(module) for module in (VISIT, MATE)}
    assert {module for module in after if after[module] != before[module]} == changed


def test_kernels_outside_the_package_may_use_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.sources_digest.__wrapped__(__name__)
    monkeypatch.setattr(cache, "_text", lambda path: Path(path).read_bytes() + b"\n# edited")
    assert cache.sources_digest.__wrapped__(__name__) != before
