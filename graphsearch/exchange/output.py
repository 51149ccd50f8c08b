"""Outputs of exports: files and folders replaced atomically, or open streams; the report; parts of PGN."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ..base.errors import ExportError, ExportTargetError
from ..base.system import replace
from ..store.file import real_path

Target = str | os.PathLike[str] | BinaryIO


@contextmanager
def new_output(target: Target, *, store: Path | None) -> Iterator[BinaryIO]:
    """Yields a stream to write to: the target itself, or `NAME.part`, which is renamed on success.

    Args:
      store: the graph file, which no output may replace; None: none is open.

    Raises:
      ExportError: if the file cannot be written there.
    """
    if not isinstance(target, (str, os.PathLike)):
        yield target
        return
    path = _checked(target, store)
    part = path.with_name(path.name + ".part")
    try:
        with synced(part) as handle:
            yield handle
        _checked(target, store)
        replace(part, path)
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def target_name(target: Target) -> str:
    """Returns the name of an output in reports: its path, or `-` for a stream."""
    return "-" if hasattr(target, "write") else str(target)


def check_target(target: Target | None, *, store: Path | None, source: Path | None = None) -> None:
    """Checks before a long computation that its output can be written, and replaces no file that is read.

    Raises:
      ExportError: if it cannot.
    """
    if not isinstance(target, (str, os.PathLike)):
        return
    path = _checked(target, store)
    _keep(path, source, "the file that is read")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ExportError(f"{path} cannot be written: no permission to write in {path.parent}")


def _keep(path: Path, other: Path | None, what: str) -> None:
    """Refuses to replace another file."""
    if other is not None and path.exists() and other.exists() and path.samefile(other):
        raise ExportTargetError(f"{path} is {what}; name another file")


def _checked(target: str | os.PathLike[str], store: Path | None) -> Path:
    """Returns the file that an output makes or replaces."""
    path = real_path(target)
    if path.is_dir():
        raise ExportTargetError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ExportTargetError(f"{path.parent} does not exist; make this folder first")
    _keep(path, store, "the graph file itself")
    if Path(target).exists() and not path.is_file():  # of a pipe the path leads nowhere
        raise ExportTargetError(f"{target} is not a regular file; name another one")
    return path


# ------------------------------------------------------------------ folders
@contextmanager
def new_folder(
    target: str | os.PathLike[str], *, store: Path, is_own: Callable[[Path], bool]
) -> Iterator[Path]:
    """Yields a temporary folder beside the target; moves it there on success, removes it on failure.

    Args:
      store: the graph file, which must not lie there.
      is_own: whether an existing folder is an earlier export, which may be replaced.

    Raises:
      ExportError: if something else exists there, or the folder cannot be made.
    """
    place = Path(target).absolute()
    _check_folder(place, store, is_own)
    try:
        with tempfile.TemporaryDirectory(prefix=f"{place.name}.", suffix=".part", dir=place.parent) as around:
            part = Path(around) / place.name  # inside: only the owner can read the outer folder
            part.mkdir()
            yield part
            _check_folder(place, store, is_own)
            if place.exists():
                place.replace(Path(around) / "before")  # atomic: a kill leaves nothing half removed
            replace(part, place)
    except OSError as error:
        raise ExportError(f"{place} cannot be written: {error.strerror or error}") from error


def _check_folder(target: Path, store: Path, is_own: Callable[[Path], bool]) -> None:
    if not target.name:
        raise ExportTargetError(f"{target} cannot name a new folder; choose another name")
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
    """Yields a new file to write; flushes it to disk when the body ends."""
    with path.open("wb") as handle:
        yield handle
        handle.flush()
        os.fsync(handle.fileno())


# ------------------------------------------------------------------ reports
# reasons to leave something out, in the order of the report: name -> noun, and the reason
LEFT_OUT = {
    "roots": ("root", "that the file does not hold"),
    "missing": ("position", "that the file does not hold"),
    "few_visits": ("position", "with too few visits"),
    "other_side": ("position", "of the other side"),
    "at_depth": ("position", "at the depth limit"),
    "moves_few_visits": ("move", "with too few visits"),
    "moves_not_admitted": ("move", "that the book no longer admits (exported with --all)"),
    "moves_beyond": ("move", "beyond --max-moves"),
    "moves_illegal": ("move", "that the position does not have"),
    "moves_scaled_away": ("move", "with a weight that became 0"),
    "clashes": ("position", "with the key of another one"),
}


@dataclass(slots=True)
class ExportReport:
    """The result of an export.

    Attributes:
      form: a name of `exports.WRITERS`. path: of the output, `-` for a stream.
      positions, moves: written; for PGN, those of the trees. games: for PGN, else 0.
      transpositions: for PGN, moves to positions that are expanded elsewhere.
      scaled: for Polyglot, moves with a weight that was scaled to fit 16 bits.
      left_out: by the names of LEFT_OUT. problems: damage in the graph file. seconds: wall time.
    """

    form: str
    path: str
    positions: int = 0
    moves: int = 0
    games: int = 0
    transpositions: int = 0
    scaled: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch export`."""
        return dataclasses.asdict(self) | {
            "left_out": {name: self.left_out[name] for name in LEFT_OUT if self.left_out[name]}
        }

    def left_out_lines(self) -> list[str]:
        """Returns one line for each kind of omitted items."""
        return [
            f"left out: {self.left_out[name]:,} {noun}{'s' * (self.left_out[name] != 1)} {reason}"
            for name, (noun, reason) in LEFT_OUT.items()
            if self.left_out[name]
        ]


# ------------------------------------------------------------------ PGN
COLUMNS = 80  # of a line
# least loss of Q against the best move, in [-1, 1], and the NAG: ??, ?, ?!
MISTAKES = ((0.3, 4), (0.2, 2), (0.1, 6))
JUDGED_VISITS = 10  # minimum visits of a move with a NAG


def header(name: str, value: str) -> bytes:
    r"""Returns a header line; a blank of any kind becomes a space.

    >>> header("Event", 'the\u00a0"b"')
    b'[Event "the \\"b\\""]\n'
    """
    text = "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in value)
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'[{name} "{text}"]\n'.encode()


def mistake_of(loss: float) -> int | None:
    """Returns the NAG of a loss of Q in [0, 2] by `MISTAKES`, None for a small loss.

    >>> mistake_of(0.3), mistake_of(0.05)
    (4, None)
    """
    return next((nag for least, nag in MISTAKES if loss >= least - 1e-9), None)
