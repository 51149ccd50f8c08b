"""Compiled and plain: the same searches; bundles, libraries, digests, types; a cache that is not believed."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import tomllib
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, Union, get_args, get_origin, get_type_hints

import chess
import numpy as np
import pytest
import zstandard

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import CompilerError
from graphsearch.graph.arena import Arena
from graphsearch.jit import cache, compiler
from graphsearch.jit.cache import FORMATS, LevelFolders
from graphsearch.jit.compiler import JIT_OFF, Inner, Kernel, kernel
from graphsearch.jit.pointers import zeros
from graphsearch.jit.types import Bundle, Items, Pointer, float64, int64, uint16, uint64
from graphsearch.position.board import POSITION_WORDS
from graphsearch.position.tables import load_tables
from graphsearch.search.visit_kernel import complete, is_root_decided
from graphsearch.search.wave_kernel import new_wave
from graphsearch.store.block import Libzstd, encode_chunk, libzstd
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


def test_only_a_dictionary_in_zstds_format_is_loaded(library: Libzstd) -> None:
    stored = encode_chunk(batch_of(random_records(71, 60) * 20)).dictionary
    codes = stored[2 : 2 + int.from_bytes(stored[:2], "little")]
    assert library.load_dictionary(codes)
    for wrong in (b"", codes[:4], codes[:7], codes[:20], b"plain content", codes[1:]):
        assert library.load_dictionary(wrong) is None


def test_a_frame_is_unpacked_by_the_addresses_of_its_functions(library: Libzstd) -> None:
    frame = zstandard.compress(b"abc" * 100)
    kind = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    assert kind(library.frame_size)(frame + b"more", len(frame) + 4) == len(frame)
    context, out = library.new_context(), ctypes.create_string_buffer(300)
    unpack = ctypes.CFUNCTYPE(
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
    )
    assert unpack(library.decompress)(library.address(context), out, 300, frame, len(frame), None) == 300
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


# ------------------------------------------------------------------ types
# GRAPHSEARCH_FULL=1 compiles a kernel of three times as many functions
FULL = bool(os.environ.get("GRAPHSEARCH_FULL"))
SCALARS: dict[object, type] = {bool: np.bool_, int: np.int64}


def signatures(kernel: Any) -> Iterator[tuple[Any, Any]]:
    """Yields every function that a compiled kernel is made of, with each of its signatures."""
    waiting, seen = [kernel], set()
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        plain = function.__wrapped__
        yield from ((plain, code.signature) for code in function.dispatcher.overloads.values())
        names, known = plain.__code__.co_names, plain.__globals__
        modules = [known[name] for name in names if isinstance(known.get(name), types.ModuleType)]
        called = [vars(module).get(name) for module in modules for name in names]
        called += [known.get(name) for name in names]
        called += [cell.cell_contents for cell in plain.__closure__ or ()]
        waiting += [other for other in called if isinstance(other, Inner)]


def agrees(hint: Any, found: Any) -> bool:
    """Returns whether an annotation names a type of the compiler."""
    from numba import types as numba

    from graphsearch.jit.build import BundleType

    origin, items = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):  # NDArray, a named type from Python 3.12 on
        return agrees(origin.__value__[items], found)
    if origin in (Union, types.UnionType):
        return any(agrees(item, found) for item in items)
    if origin is Pointer:
        return isinstance(found, numba.CPointer) and agrees(items[0], found.dtype)
    if origin is np.ndarray:
        return isinstance(found, numba.Array) and agrees(get_args(items[1])[0], found.dtype)
    if origin is tuple:
        return len(items) == len(found) and all(map(agrees, items, found))
    if isinstance(found, BundleType):
        hints = get_type_hints(found.of)
        if issubclass(hint, Protocol):
            return all(name in hints for name in vars(hint) if not name.startswith("_"))
        return hint is found.of and all(agrees(hints[name], kind) for name, kind in found.fields.items())
    if isinstance(found, numba.BaseNamedTuple):
        fields = found.instance_class.__annotations__
        if issubclass(hint, Protocol):
            return all(name in fields for name in vars(hint) if not name.startswith("_"))
        return bool(hint is found.instance_class) and all(map(agrees, get_type_hints(hint).values(), found))
    if hint is type(None):
        return bool(found == numba.none)
    if hint is float:  # of a plain function, which kernels compile for either kind
        return isinstance(found, numba.Float)
    plain = numba.unliteral(found)
    return bool(
        np.dtype(SCALARS.get(hint, hint)) == np.dtype("bool" if plain == numba.boolean else str(plain))
    )


def test_signatures_say_which_types_the_compiler_finds() -> None:
    from graphsearch.jit.build import _type_of

    tables, arena = load_tables(), Arena()
    kernel: Any = complete if FULL else is_root_decided
    arguments = (
        tables,
        arena.arrays,
        *((new_wave(8), 1) if FULL else (np.zeros(POSITION_WORDS, np.uint64),)),
    )
    kernel.dispatcher.compile(tuple(map(_type_of, arguments)))
    checked = set()
    for function, found in signatures(kernel):
        hints = get_type_hints(function)
        returned = hints.pop("return")
        names = [name for name, kind in zip(hints, found.args, strict=True) if not agrees(hints[name], kind)]
        assert not names, f"{function.__module__}.{function.__qualname__}: {names}, {found}"
        assert agrees(returned, found.return_type), f"{function.__qualname__} returns {found.return_type}"
        checked.add(function)
    assert len(checked) > 50


# ------------------------------------------------------------------ the cache of compiled kernels
PLATFORM = sysconfig.get_platform()
needs_compiler = pytest.mark.skipif(JIT_OFF, reason="nothing is compiled")
posix = pytest.mark.skipif(os.name != "posix", reason="rights and links of POSIX")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> cache.CodeFolder:
    """A cache of its own, whose owner has heard of nothing yet."""
    monkeypatch.setenv("GRAPHSEARCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_SAID", set())
    found = cache.cache_folder("kernels-test")
    assert found is not None
    return cache.CodeFolder(found)


def add(x: float, y: float) -> float:
    return x + y


def less(x: float, y: float) -> float:
    return x - y


def kernels() -> tuple[Any, Any]:
    """Two kernels as a process has them that begins."""
    own = LevelFolders("test")
    return Kernel(add, own), Kernel(less, own)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHSEARCH_CACHE_DIR", str(path))
        patch.setattr(os, "nice", lambda more: 0)  # of a low priority locks have other names
        assert [kernel(1.0, 2.0) for kernel in kernels()] == [3.0, -1.0]
    return path


@pytest.fixture
def code_files(compiled: Path, folder: cache.CodeFolder, tmp_path: Path) -> tuple[Path, Path]:
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    first, second = sorted(folder.path.parent.rglob("*.code"))
    return first, second


# ------------------------------------------------------------------ one file
Oddity = Callable[[Path, Path], object]


def replaced(make: Oddity) -> Oddity:
    def act(path: Path, other: Path) -> None:
        path.unlink()
        make(path, other)

    return act


ODDITIES: dict[str, Oddity] = {
    "cut": lambda path, _: path.write_bytes(path.read_bytes()[:-1]),
    "one byte": lambda path, _: path.write_bytes(path.read_bytes()[:-1] + b"?"),
    "the other's code": lambda path, other: shutil.copy(other, path),
    "a link": replaced(lambda path, _: path.symlink_to("/dev/zero")),
    "a link to code": replaced(lambda path, other: path.symlink_to(other)),
    "a pipe": replaced(lambda path, _: os.mkfifo(path)),
    "a folder": replaced(lambda path, _: path.mkdir()),
    "writable by all": lambda path, _: path.chmod(0o666),
    "too large": lambda path, _: os.truncate(path, cache.MOST_BYTES + 1),
}


@needs_compiler
@posix
@pytest.mark.parametrize("oddity", ODDITIES)
def test_an_odd_file_is_compiled_again_and_said_once(
    code_files: tuple[Path, Path], oddity: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = code_files
    ODDITIES[oddity](first, second)
    caplog.clear()
    assert [kernel(1.0, 2.0) for kernel in kernels()] == [3.0, -1.0]
    assert [kernel(2.0, 2.0) for kernel in kernels()] == [4.0, 0.0]
    said = [record.getMessage() for record in caplog.records if "kernels:" in record.getMessage()]
    assert len(said) == 1
    assert first.name in said[0]


@needs_compiler
@posix
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_an_odd_lock_stops_nothing(
    code_files: tuple[Path, Path], make: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = code_files
    first.unlink()
    monkeypatch.setattr(os, "nice", lambda more: 0)
    lock = first.with_name(f"{first.name}.lock")
    lock.unlink()
    make(lock)
    assert [kernel(1.0, 2.0) for kernel in kernels()] == [3.0, -1.0]
    assert first.is_file()


def test_an_empty_file_is_no_mark(folder: cache.CodeFolder) -> None:
    (place,) = LevelFolders("test").writing
    name = place.mark_name("search")
    place.write(name, b"")
    assert place.read(name) is not None
    (folder.path / name).write_bytes(b"")
    assert place.read(name) is None


# ------------------------------------------------------------------ the folder
@posix
def test_a_folder_where_others_may_write_is_not_used(
    folder: cache.CodeFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # of what is used instead
    folder.path.chmod(0o777)
    assert cache.cache_folder("kernels-test") != folder.path
    (said,) = caplog.records
    assert str(folder.path) in said.getMessage()


@posix
def test_a_link_to_a_folder_is_not_used(folder: cache.CodeFolder, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    shutil.rmtree(folder.path)
    folder.path.symlink_to(tmp_path / "elsewhere")
    assert cache.cache_folder("kernels-test") != folder.path


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_user_are_not_read(folder: cache.CodeFolder) -> None:
    folder.write("name", b"code")
    assert folder.read("name") == b"code"
    os.chown(folder.path / "name", 12345, 12345)
    assert folder.read("name") is None


def test_nothing_is_written_into_a_folder_that_is_gone(folder: cache.CodeFolder) -> None:
    shutil.rmtree(folder.path)
    folder.write("name", b"code")
    assert folder.read("name") is None
    with folder.alone("name"):
        pass


# ------------------------------------------------------------------ who waits for whom
def test_a_process_that_was_suspended_with_a_lock_does_not_stop_another(
    folder: cache.CodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "LONGEST_WAIT_S", 0.2)
    with folder.alone("name"), folder.alone("another"), folder.alone("name"):
        pass


@needs_compiler
@pytest.mark.parametrize("niceness", [0, 15])
def test_processes_wait_for_those_of_their_own_priority_alone(
    folder: cache.CodeFolder, monkeypatch: pytest.MonkeyPatch, niceness: int
) -> None:
    held = []

    def noted(self: cache.CodeFolder, name: str) -> AbstractContextManager[None]:
        held.append(name)
        return nullcontext()

    monkeypatch.setattr(cache.CodeFolder, "alone", noted)
    monkeypatch.setattr(os, "nice", lambda more: niceness)
    kernels()[0](1.0, 2.0)
    assert [name.endswith(".later") for name in held] == [niceness > 0]


# ------------------------------------------------------------------ said once, where it is true
@needs_compiler
def test_a_compile_is_announced_once_and_only_if_there_is_one(
    folder: cache.CodeFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in kernels():
        one(1.0, 2.0)
    assert [record.getMessage() for record in caplog.records] == [cache.COMPILING]
    assert caplog.records[0].levelno == logging.WARNING  # which Python shows by default
    caplog.clear()
    monkeypatch.setattr(cache, "_SAID", set())  # as in the next process
    for one in kernels():
        one(1.0, 2.0)
    assert not caplog.records


# ------------------------------------------------------------------ code that travels
def dot(xs: Any, y: float) -> float:
    total = 0.0
    for i in range(len(xs)):
        total = total + xs[i] * y  # a fused multiply-add would round once, not twice
    return total


@pytest.fixture
def travelled(folder: cache.CodeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The levels of this processor, for which `dot` was compiled into a package as a wheel's build does."""
    levels = [level for level in cache.LEVELS if cache.runs_here(level)]
    if not levels:
        pytest.skip("no levels of this processor")
    monkeypatch.setattr(cache, "READY", tmp_path / "ready")
    monkeypatch.setenv(cache.BUILDING, " ".join(levels))
    Kernel(dot, LevelFolders("test"))(np.ones(3), 2.0)
    monkeypatch.delenv(cache.BUILDING)
    for path in folder.path.iterdir():
        path.unlink()  # what the builder ran itself
    return levels


@needs_compiler
def test_code_that_came_with_the_package_is_used_and_computes_the_same_bits(
    folder: cache.CodeFolder, travelled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    xs = np.random.default_rng(5).random(1001) / 3
    expected = 0.0
    for x in xs:
        expected = float(expected + x * 0.1)
    here = Kernel(dot, LevelFolders("another"))  # compiled for this processor alone
    assert here(xs, 0.1) == expected

    def refuse(*_: object) -> None:
        raise AssertionError("this was compiled before")

    monkeypatch.setattr("graphsearch.jit.build.build", refuse)
    for level in travelled:
        own = LevelFolders("test")
        own.reading = [place for place in own.reading if place.level == level]
        assert len(own.reading) == 1
        assert Kernel(dot, own)(xs, 0.1) == expected


@needs_compiler
def test_code_for_other_sources_or_processors_is_not_used(
    folder: cache.CodeFolder, travelled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [place.level for place in LevelFolders("test").reading] == [*travelled, ""]
    assert [place.level for place in LevelFolders("changed").reading] == [""]
    monkeypatch.setattr(cache, "runs_here", lambda level: False)
    assert [place.level for place in LevelFolders("test").reading] == [""]
    monkeypatch.undo()


@needs_compiler
def test_damaged_code_of_the_package_is_compiled_again(
    folder: cache.CodeFolder, travelled: list[str], tmp_path: Path
) -> None:
    for path in (tmp_path / "ready").rglob("*.code"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert Kernel(dot, LevelFolders("test"))(np.ones(3), 2.0) == 6.0
    assert list(folder.path.glob("*.code"))


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux" or not cache.runs_here("x86-64-v2"), reason="on Linux, x86-64")
def test_the_code_for_windows_is_made_beside_that_which_runs_here(
    folder: cache.CodeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.BUILDING, "x86-64-v2")
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "ready"))
    for platform in ("", "win-amd64"):
        monkeypatch.setenv(cache.BUILDING_FOR, platform)
        assert Kernel(dot, LevelFolders("test"))(np.ones(3), 2.0) == 6.0
        (own,) = folder.path.glob("*.code")
        own.unlink()
    here, there = (tmp_path / "ready" / cache.ready_name("test", name) for name in (PLATFORM, "win-amd64"))
    (ours,), (theirs,) = (list(place.glob("x86-64-v2/*.code")) for place in (here, there))
    assert ours.name == theirs.name
    assert ours.read_bytes() != theirs.read_bytes()


def test_code_for_windows_has_the_results_that_windows_reads() -> None:
    # a C `long`, which NumPy's int64 is on Linux, has 4 bytes there, as in the standard sizes
    assert {struct.calcsize(f"<{words}") for words in FORMATS.values()} == {8}
