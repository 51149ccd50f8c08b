"""Where an export goes: a file that appears whole or not at all, or a stream that is open already."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..errors import ExportError
from ..store.file import real_path

Target = str | os.PathLike[str] | BinaryIO


@contextmanager
def new_output(target: Target, *, store: Path) -> Iterator[BinaryIO]:
    """Yields what to write to: the stream itself, or `NAME.part`, which gets its name when all went well.

    Args:
      target: a path, or a binary stream, which is left open.
      store: the graph file, which no output may replace.

    Raises:
      ExportError: if the file cannot be put there.
    """
    if not isinstance(target, (str, os.PathLike)):
        yield target
        return
    path = real_path(target)
    _check(path, store)
    part = path.with_name(path.name + ".part")
    try:
        with _opened(part, path) as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        _check(path, store)
        part.replace(path)
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def _opened(part: Path, path: Path) -> BinaryIO:
    try:
        return part.open("wb")
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror or error}") from None


def _check(path: Path, store: Path) -> None:
    if path.is_dir():
        raise ExportError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ExportError(f"{path.parent} does not exist; make this folder first")
    if path.exists() and path.samefile(store):
        raise ExportError(f"{path} is the graph file itself; name another file")
    if path.exists() and not path.is_file():
        raise ExportError(f"{path} is not a regular file; name another one")


def scratch_path(target: Target) -> Path:
    """Returns where the temporary file of an export goes: beside its output, else among temporary files."""
    if isinstance(target, (str, os.PathLike)):
        path = real_path(target)
        return path.with_name(path.name + ".walk")
    handle, name = tempfile.mkstemp(prefix="graphsearch-", suffix=".walk")
    os.close(handle)
    return Path(name)
