"""The cache of compiled kernels is not believed: what is odd there is compiled again, and said once."""

from __future__ import annotations

import hmac
import logging
import os
import shutil
import struct
import sys
import sysconfig
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from graphsearch.jit import cache
from graphsearch.jit.cache import FORMATS, LevelFolders
from graphsearch.jit.compiler import JIT_OFF, Inner, Kernel

PLATFORM = sysconfig.get_platform()
needs_compiler = pytest.mark.skipif(JIT_OFF, reason="nothing is compiled")
posix = pytest.mark.skipif(os.name != "posix", reason="rights and links of POSIX")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> cache.CodeFolder:
    """A cache of its own, whose owner has heard of nothing yet."""
    monkeypatch.setenv("GRAPHSEARCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_SAID", set())
    found = cache.code_cache("kernels-test")
    assert found is not None
    return found


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
    """A cache that holds both kernels."""
    path = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHSEARCH_CACHE_DIR", str(path))
        patch.setattr(os, "nice", lambda more: 0)  # of a low priority locks have other names
        assert [kernel(1.0, 2.0) for kernel in kernels()] == [3.0, -1.0]
    return path


@pytest.fixture
def code_files(compiled: Path, folder: cache.CodeFolder, tmp_path: Path) -> tuple[Path, Path]:
    """The files of both kernels."""
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


def fitted(path: Path, other: Path) -> None:
    """Another code with a checksum that fits, by somebody who has no key."""
    content = path.read_bytes()[cache.SIGNATURE_BYTES :] + b"?"
    path.write_bytes(hmac.digest(b"", path.name.encode() + b"\0" + content, "sha256") + content)


ODDITIES: dict[str, Oddity] = {
    "cut": lambda path, _: path.write_bytes(path.read_bytes()[:-1]),
    "one byte": lambda path, _: path.write_bytes(path.read_bytes()[:-1] + b"?"),
    "the other's code": lambda path, other: shutil.copy(other, path),
    "a checksum that fits": fitted,
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


def test_a_mark_that_nobody_signed_counts_as_none(folder: cache.CodeFolder) -> None:
    (place,) = LevelFolders("test").writing
    name = place.file_name("search")
    place.write(name, b"")
    assert place.read(name) is not None
    (folder.path / name).write_bytes(b"")
    assert place.read(name) is None


# ------------------------------------------------------------------ functions inside kernels
def double(x: float) -> float:
    return x + x


def plus(captured: Any) -> Any:
    def added(x: float) -> float:
        return float(captured(x)) + 1.0

    return added


def quadruple(x: float) -> float:
    return float(DOUBLE(DOUBLE(x)))


def both(x: float) -> float:
    return float(DOUBLE_PLUS(x)) * 100.0 + float(QUADRUPLE_PLUS(x))


DOUBLE: Any = None
DOUBLE_PLUS: Any = None
QUADRUPLE_PLUS: Any = None


@pytest.fixture
def begin_process(folder: cache.CodeFolder, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Begins as a process does; returns the names of the functions that it types and lowers."""
    from graphsearch.jit import build

    run = build.Passes.run

    def begin() -> list[str]:
        own, lowered = LevelFolders("test"), []

        def noted(self: Any, state: Any) -> None:
            lowered.append(state.func_id.func_name)
            run(self, state)

        monkeypatch.setattr(build, "_LOADED", {})
        monkeypatch.setattr(build.Passes, "run", noted)
        module = sys.modules[__name__]
        monkeypatch.setattr(module, "DOUBLE", Inner(double, own))
        monkeypatch.setattr(module, "DOUBLE_PLUS", Inner(plus(DOUBLE), own))
        monkeypatch.setattr(module, "QUADRUPLE_PLUS", Inner(plus(Inner(quadruple, own)), own))
        return lowered

    return begin


@needs_compiler
def test_a_function_inside_kernels_is_lowered_once_for_all_processes(
    folder: cache.CodeFolder, begin_process: Callable[[], list[str]]
) -> None:
    first = begin_process()
    assert Kernel(quadruple, LevelFolders("test"))(2.0) == 8.0
    assert sorted(first) == ["double", "quadruple"]
    second = begin_process()
    assert Kernel(both, LevelFolders("test"))(2.0) == 509.0  # functions of one name, each with its own code
    assert sorted(second) == ["added", "added", "both"]
    for path in folder.path.glob("*double*.inner"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    third = begin_process()
    assert Kernel(both, LevelFolders("test"))(2.0) == 509.0
    assert not third  # the machine code is whole
    for path in folder.path.glob("*.code"):
        path.unlink()
    assert Kernel(both, LevelFolders("test"))(2.0) == 509.0
    assert sorted(third) == ["added", "both", "double"]  # then the file of `double` is whole again


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
    found = cache.code_cache("kernels-test")
    assert found is None or found.path != folder.path
    (said,) = caplog.records
    assert str(folder.path) in said.getMessage()


@posix
def test_a_link_to_a_folder_is_not_used(folder: cache.CodeFolder, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    shutil.rmtree(folder.path)
    folder.path.symlink_to(tmp_path / "elsewhere")
    found = cache.code_cache("kernels-test")
    assert found is None or found.path != folder.path


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_user_are_not_read(folder: cache.CodeFolder) -> None:
    folder.write("name", b"code")
    assert folder.read("name") == b"code"
    os.chown(folder.path / "name", 12345, 12345)
    assert folder.read("name") is None


@posix
def test_the_key_is_its_owner_s_alone_and_made_anew_if_it_is_odd(folder: cache.CodeFolder) -> None:
    path = folder.path / cache.KEY
    assert path.stat().st_mode & 0o777 == 0o600
    again = cache.code_cache("kernels-test")
    assert again == folder
    spoilers: list[Oddity] = [
        lambda path, _: path.chmod(0o644),
        lambda path, _: path.write_bytes(b"short"),
        ODDITIES["a pipe"],
        ODDITIES["a link"],
    ]
    for spoil in spoilers:
        before = cache.code_cache("kernels-test")
        spoil(path, path)
        after = cache.code_cache("kernels-test")
        assert before is not None
        assert after is not None
        assert after.key != before.key


def test_nothing_is_written_into_a_folder_that_is_gone(folder: cache.CodeFolder) -> None:
    shutil.rmtree(folder.path)
    folder.write("name", b"code")
    assert folder.read("name") is None
    with folder.alone("name"):
        pass


# ------------------------------------------------------------------ who waits for whom
def test_a_process_waits_once_for_one_that_was_suspended_however_many_locks_that_holds(
    folder: cache.CodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(cache, "_is_patient", True)
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    with folder.alone("name"), folder.alone("another"), folder.alone("name"):
        assert sum(slept) == pytest.approx(cache.LONGEST_WAIT_S, abs=0.1)
        with folder.alone("another"):
            assert sum(slept) == pytest.approx(cache.LONGEST_WAIT_S, abs=0.1)


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
    for kernel in kernels():
        kernel(1.0, 2.0)
    assert [record.getMessage() for record in caplog.records] == [cache.COMPILING]
    assert caplog.records[0].levelno == logging.WARNING  # which Python shows by default
    caplog.clear()
    monkeypatch.setattr(cache, "_SAID", set())  # as in the next process
    for kernel in kernels():
        kernel(1.0, 2.0)
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
    import numpy as np

    levels = [level for level in cache.LEVELS if cache.runs_here(level)]
    if not levels:
        pytest.skip("no levels of this processor")
    monkeypatch.setattr(cache, "READY", tmp_path / "ready")
    monkeypatch.setenv(cache.BUILDING, " ".join(levels))
    Kernel(dot, LevelFolders("test"))(np.ones(3), 2.0)
    monkeypatch.delenv(cache.BUILDING)
    return levels


@needs_compiler
def test_code_that_came_with_the_package_is_used_and_computes_the_same_bits(
    folder: cache.CodeFolder, travelled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

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
    monkeypatch.setattr("graphsearch.jit.cache._features", lambda: {"avx": True, "sse3": True})
    assert [place.level for place in LevelFolders("test").reading] == [""]
    monkeypatch.undo()


@needs_compiler
def test_nothing_is_made_for_processors_that_cannot_try_it(
    folder: cache.CodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.BUILDING, "x86-64-v9")
    with pytest.raises(OSError, match="x86-64-v9"):
        Kernel(add, LevelFolders("test"))(1.0, 2.0)


@needs_compiler
def test_damaged_code_of_the_package_is_compiled_again(
    folder: cache.CodeFolder, travelled: list[str], tmp_path: Path
) -> None:
    import numpy as np

    for path in (tmp_path / "ready").rglob("*.code"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert Kernel(dot, LevelFolders("test"))(np.ones(3), 2.0) == 6.0
    assert list(folder.path.glob("*.code"))


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux" or not cache.runs_here("x86-64-v2"), reason="on Linux, x86-64")
def test_the_code_for_windows_is_made_beside_that_which_runs_here(
    folder: cache.CodeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    monkeypatch.setattr(cache, "READY", tmp_path / "ready")
    monkeypatch.setenv(cache.BUILDING, "x86-64-v2")
    monkeypatch.setenv(cache.BUILDING_FOR, "win-amd64")
    assert Kernel(dot, LevelFolders("test"))(np.ones(3), 2.0) == 6.0
    here, there = (tmp_path / "ready" / cache.ready_name("test", name) for name in (PLATFORM, "win-amd64"))
    (ours,), (theirs,) = (list(place.glob("x86-64-v2/*.code")) for place in (here, there))
    assert ours.name == theirs.name
    assert ours.read_bytes() != theirs.read_bytes()


def test_code_for_windows_has_the_results_that_windows_reads() -> None:
    # a C `long`, which NumPy's int64 is on Linux, has 4 bytes there, as in the standard sizes
    assert {struct.calcsize(f"<{words}") for words in FORMATS.values()} == {8}
