"""Where an export goes: a file or a folder that appears whole or not at all, or a stream that is open."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from ..base.errors import ExportError, ExportTargetError
from ..position.values import scores_by
from ..store.file import real_path
from ..store.sharded.files import open_to_read
from ..store.store import Store

Target = str | os.PathLike[str] | BinaryIO
_Output = TypeVar("_Output")


@contextmanager
def new_output(target: Target, *, store: Path | None) -> Iterator[BinaryIO]:
    """Yields what to write to: the stream itself, or `NAME.part`, which gets its name when all went well.

    Args:
      target: a path, or a binary stream, which is left open.
      store: the graph file, which no output may replace, or the folder of a cluster; None: none is open.

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


def target_name(target: Target) -> str:
    """Returns how a report names an output."""
    return "-" if hasattr(target, "write") else str(target)


def check_target(target: Target | None, *, store: Path | None, source: Path | None = None) -> None:
    """Checks before a long work that its output can be put there in the end.

    Args:
      store: the graph file, if one is open. source: what is read; neither is replaced.

    Raises:
      ExportError: if it cannot.
    """
    if not isinstance(target, (str, os.PathLike)):
        return
    path = real_path(target)
    _check(path, store)
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        raise ExportTargetError(f"{path} is the file that is read; name another file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ExportError(f"{path} cannot be written: no permission to write in {path.parent}")


def _opened(part: Path, path: Path) -> BinaryIO:
    try:
        return part.open("wb")
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror or error}") from None


def _check(path: Path, store: Path | None) -> None:
    if path.is_dir():
        raise ExportTargetError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ExportTargetError(f"{path.parent} does not exist; make this folder first")
    if store is not None and path.exists() and store.exists() and path.samefile(store):
        raise ExportTargetError(f"{path} is the graph file itself; name another file")
    if path.exists() and not path.is_file():
        raise ExportTargetError(f"{path} is not a regular file; name another one")
    if store is not None:
        _check_outside(path, store)


def _check_outside(path: Path, store: Path) -> None:
    """Checks that nothing is written into the folder of the cluster that is read."""
    if store.is_dir() and path.is_relative_to(store.resolve()):
        raise ExportError(f"{path} lies in the folder of the cluster; write it elsewhere")


# ------------------------------------------------------------------ folders
@contextmanager
def new_folder(
    target: str | os.PathLike[str], *, store: Path, is_own: Callable[[Path], bool]
) -> Iterator[Path]:
    """Yields a folder beside its place, to which it is moved if all goes well, and removed if not.

    Args:
      target: the place.
      store: the graph file or the cluster, which must not lie there.
      is_own: whether a folder that stands there is an export of before, and may be replaced.

    Raises:
      ExportError: if something else stands there, or it cannot be made.
    """
    place = Path(target).absolute()
    _check_folder(place, store, is_own)
    try:
        with tempfile.TemporaryDirectory(prefix=f"{place.name}.", suffix=".part", dir=place.parent) as around:
            part = Path(around) / place.name  # within: the outer one is for its owner alone
            part.mkdir()
            yield part
            _check_folder(place, store, is_own)
            if place.exists():
                place.replace(Path(around) / "before")  # at once: a kill leaves nothing half removed
            part.replace(place)
    except OSError as error:
        raise ExportError(f"{place} cannot be written: {error.strerror or error}") from error


def _check_folder(target: Path, store: Path, is_own: Callable[[Path], bool]) -> None:
    if not target.name:
        raise ExportTargetError(f"{target} is no name of a folder; name one that is to be made")
    _check_outside(target.resolve(), store)
    if not target.parent.is_dir():
        raise ExportTargetError(f"{target.parent} does not exist; make this folder first")
    if not target.exists():
        return
    if not target.is_dir() or target.is_symlink():
        raise ExportTargetError(f"{target} is a file; name a folder")
    if any(target.iterdir()) and (not is_own(target) or store.is_relative_to(target.resolve())):
        raise ExportTargetError(f"{target} holds other files; name a new folder")


@contextmanager
def synced(path: Path) -> Iterator[BinaryIO]:
    """Yields a new file to write, which is on the disk when the body has ended."""
    with path.open("wb") as handle:
        yield handle
        handle.flush()
        os.fsync(handle.fileno())


def scratch_folder(target: Target) -> Path:
    """Returns where temporary files without a name go: beside the output, else among temporary files."""
    if isinstance(target, (str, os.PathLike)):
        return real_path(target).parent
    return Path(tempfile.gettempdir())


# ------------------------------------------------------------------ reports
# what may be left out, in the order in which it is told: name -> one, several
LEFT_OUT = {
    "roots": ("root that the file does not hold", "roots that the file does not hold"),
    "missing": ("position that the file does not hold", "positions that the file does not hold"),
    "few_visits": ("position with too few visits", "positions with too few visits"),
    "other_side": ("position of the other side", "positions of the other side"),
    "at_depth": ("position at the depth limit", "positions at the depth limit"),
    "moves_few_visits": ("move with too few visits", "moves with too few visits"),
    "moves_beyond": ("move beyond --max-moves", "moves beyond --max-moves"),
    "moves_outside": ("move that leads out of the picture", "moves that lead out of the picture"),
    "moves_illegal": (
        "move that is not legal in its position",
        "moves that are not legal in their positions",
    ),
    "moves_scored_nothing": ("move that scored nothing", "moves that scored nothing"),
    "moves_scaled_away": ("move whose weight became 0", "moves whose weight became 0"),
    "clashes": ("position with the key of another one", "positions with the key of another one"),
    "unknown_entries": ("entry of an unknown position", "entries of unknown positions"),
}


@dataclass(slots=True)
class ExportReport:
    """What an export did.

    Attributes:
      form: `polyglot`, `pgn`, `epd`, `jsonl`, `csv`, `parquet`, `svg`, `dot` or `site`.
      path: of the output, `-` for a stream.
      positions, moves: written; of a PGN file, those of its trees. games: of a PGN file, else 0.
      transpositions: of a PGN file, moves that end in a reference.
      scaled: of a Polyglot book, moves whose weight did not fit 16 bits as it was.
      merged: of a Polyglot book, entries of one position and move that became one.
      left_out: what is not there, by the names of LEFT_OUT.
      problems: damage that was met, one line each. seconds: wall time.
    """

    form: str
    path: str
    positions: int = 0
    moves: int = 0
    games: int = 0
    transpositions: int = 0
    scaled: int = 0
    merged: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch export`."""
        return dataclasses.asdict(self) | {
            "left_out": {name: self.left_out[name] for name in LEFT_OUT if self.left_out[name]}
        }

    def left_out_lines(self) -> list[str]:
        """Returns what was left out, one line each."""
        return [
            f"left out: {self.left_out[name]:,} {words[self.left_out[name] != 1]}"
            for name, words in LEFT_OUT.items()
            if self.left_out[name]
        ]


@contextmanager
def open_export(
    path: str | os.PathLike[str],
    output: Callable[..., AbstractContextManager[_Output]],
    report: ExportReport,
    score_type: str | None = None,
) -> Iterator[tuple[Store, _Output]]:
    """Yields the graph file of an export, open to read, and its output; the report gets the wall time.

    Args:
      output: `new_output` or `new_folder` of the target. score_type: of every cp; None: as shown.

    Raises:
      ExportError: if there is no place for the output.
      StoreError: if the graph file cannot be read.
    """
    started = time.monotonic()
    with scores_by(score_type), open_to_read(path) as store, output(store=store.path) as out:
        yield store, out
    report.seconds = time.monotonic() - started
