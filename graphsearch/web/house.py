"""What all requests share: the graph file, what may be done to it, the desk, and a folder for files."""

from __future__ import annotations

import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import InvalidParameterError
from ..evaluators.factory import EvaluatorSpec
from ..store.lock import holder
from .jobs.desk import Desk

MOST_OTHERS = 1000  # files that are listed
BUILTIN, UNIFORM = "builtin", "uniform"


@dataclass(slots=True)
class House:
    """One served graph file.

    Attributes:
      path: of the file. read_only: whether nothing may be searched, built or imported.
      evaluators: by name those that a search may use: a page may not name programs or files.
      ram_bytes: most memory of a search, unless it asks for less; None: the default of searches.
      beside: other graph files, of any folder, that the page may compare this one with, or merge into it.
    """

    path: Path
    read_only: bool = False
    evaluators: dict[str, EvaluatorSpec] = field(default_factory=lambda: offered(()))
    ram_bytes: int | None = None
    beside: tuple[Path, ...] = ()
    desk: Desk = field(default_factory=Desk)
    _folder: tempfile.TemporaryDirectory[str] | None = None
    _making: threading.Lock = field(default_factory=threading.Lock)

    @property
    def folder(self) -> Path:
        """A folder for uploads and exports, made when it is first needed and removed at the end."""
        with self._making:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="graphsearch-")
            return Path(self._folder.name)

    def others(self) -> dict[str, Path]:
        """Returns the other graph files that a page may name: those of the folder, and those `beside`."""
        near: list[Path] = []
        with suppress(OSError):  # a folder that may be entered and not read
            near = sorted(path for path in self.path.parent.iterdir() if path.suffix == self.path.suffix)
        found = (path for path in [*near, *self.beside] if path.is_file() and not path.samefile(self.path))
        return {path.name: path for path in islice(found, MOST_OTHERS)}

    def may_write(self) -> None:
        """Raises InvalidParameterError if the file is served for reading only."""
        if self.read_only:
            raise InvalidParameterError("this page is read-only: it was started with --read-only")

    def stamp(self) -> str:
        """Returns a text that changes when the file does; a reader alone leaves an empty log, or none."""
        return " ".join(_mark(path) for path in (self.path, Path(f"{self.path}-wal")))

    def holder(self) -> dict[str, Any] | None:
        """Returns who writes the file, None if nobody does: `pid`, `since`, whether it is one of `ours`."""
        found = holder(self.path)
        if found is None:
            return None
        return {"pid": found.pid, "since": found.since, "ours": self.desk.is_writing}

    def close(self) -> None:
        """Ends and saves what is being done, and removes the folder."""
        self.desk.close()
        if self._folder:
            self._folder.cleanup()


def offered(names: tuple[str, ...] | list[str], **options: Any) -> dict[str, EvaluatorSpec]:
    """Returns the evaluators that a page may choose from: the given ones first, and those without files."""
    found = {name: EvaluatorSpec(evaluator=name, **options) for name in names}
    return found | {name: EvaluatorSpec(evaluator=name) for name in (BUILTIN, UNIFORM) if name not in found}


def _mark(path: Path) -> str:
    try:
        facts = path.stat()
    except OSError:
        return "-"
    return f"{facts.st_size}.{facts.st_mtime_ns}" if facts.st_size else "-"
