"""Files that are imported: plain, gzip or zstd, on disk or a pipe, identified by the digest of its content.

A file goes into the graph file in transactions that record the progress.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from ..base import limits
from ..base.errors import ImportFileError, InputFileError
from ..position.pgn import SQLITE
from ..store.file import LOG_BYTES
from ..store.store import Store
from ..store.tables import games as tables
from ..store.tables.games import GameSource

# ------------------------------------------------------------------ bytes
PIECE = 1 << 20
ZSTD_STEP = 1 << 10  # packed bytes per decompression step: at most 32 MiB unpacked, 128 KiB from each 4 bytes
STDIN = "-"

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_OTHER_PACKING = {
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\0": "xz",
    b"7z\xbc\xaf\x27\x1c": "7-zip",
    b"Rar!\x1a\x07": "rar",
}

OnBytes = Callable[[int, int], object]  # done, total
OnRead = Callable[[], object]


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file to import: a path, or an open stream (such as standard input) with its name."""

    name: str
    stream: BinaryIO | None = None


@dataclass(frozen=True, slots=True)
class FileProgress:
    """Progress in a file.

    Attributes:
      stage: such as `Reading`. name: of the file or the game. done, total: in units of the stage, as bytes.
      count, rate: processed items (games, visits), and items per second; 0 if the stage processes none.
    """

    stage: str
    name: str
    done: int
    total: int
    count: int = 0
    rate: float = 0.0


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Converts read errors of a file in its body to ImportFileError."""
    try:
        yield
    except InputFileError as error:
        raise ImportFileError(str(error)) from None
    except EOFError:
        raise ImportFileError(f"{name} is cut short: its compressed data end too early") from None
    except (zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise ImportFileError(f"{name}: its compressed data are damaged: {error}") from None
    except OSError as error:
        raise ImportFileError(f"cannot read {name}: {error.strerror or error}") from None


class Input:
    """An open file: its name, and its size in bytes, compressed if the file is.

    `digests`: SHA-256 of its unpacked content, and of a packed file, which older programs knew by that.
    """

    def __init__(self, name: str, raw: BinaryIO, digest: str, size: int, on_read: OnRead) -> None:
        self.name, self.digests, self.size, self._raw = name, [digest], size, raw
        self._on_read = on_read  # called before every read; may raise to stop the import
        self.rewind()

    @property
    def position(self) -> int:
        """The number of file bytes consumed so far, read-ahead not included."""
        return self._raw.tell() * self._handed_out // max(1, self._watched.count)

    def rewind(self) -> None:
        """Restarts reading at the first byte."""
        self._watched = _Watched(self._raw, self.name, self._on_read)
        self._plain = io.BufferedReader(self._watched, PIECE)
        self._handed_out = 0  # unpacked bytes

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yields the unpacked bytes in pieces of `size`; only the last one may be shorter.

        Raises:
          ImportFileError: if packed bytes are damaged or cut short.
        """
        with _readable(self.name):
            while True:
                piece = self._plain.read(size)
                self._handed_out += len(piece)
                if piece:
                    yield piece
                if len(piece) < size:
                    return

    def byte_lines(self) -> Iterator[bytes]:
        """Yields the lines of a text with their ends.

        Raises:
          ImportFileError: if it is no text, or packed bytes are damaged or cut short.
        """
        with _readable(self.name):
            head = self._plain.peek(4096)[:4096]
            if head.startswith(SQLITE):
                raise ImportFileError(
                    f"{self.name} is a database, not a text file; give a graph file with --store"
                )
            if b"\0" in head:
                raise ImportFileError(f"{self.name} is not a text file (convert UTF-16 to UTF-8)")
            for line in limits.byte_lines(self._plain, self.name):
                self._handed_out += len(line)
                yield line

    def lines(self) -> Iterator[str]:
        """Yields the lines, decoded as UTF-8 or Windows-1252; errors as `byte_lines`."""
        for number, line in enumerate(self.byte_lines()):
            yield limits.decoded(line if number else line.removeprefix(b"\xef\xbb\xbf"))


@contextmanager
def opened(
    given: GivenFile, folder: Path, on_bytes: OnBytes = lambda *_: None, on_read: OnRead = lambda: None
) -> Iterator[Input]:
    """Yields an open file with its digests, which show whether the same content was imported before.

    Args:
      folder: for a copy of a pipe's data; it has no name, and so disappears however the program ends.
      on_bytes: called with bytes read and total bytes while the digest is computed.
      on_read: called repeatedly while reading; may raise to stop the import.

    Raises:
      ImportFileError: if it cannot be read.
    """
    with ExitStack() as files:
        with _readable(given.name):
            if given.stream is None:
                check_file(given.name)
            found = _open(given, folder, on_bytes, on_read, files)
        yield found


def check_file(name: str) -> None:
    """Raises InputFileError if a file does not exist, is a folder, or is a device."""
    try:
        if Path(name).is_dir():
            raise InputFileError(f"{name} is a folder; name the files in it")
        limits.check_kind(name, piped=True)
    except FileNotFoundError:
        raise InputFileError(f"there is no file {name}") from None
    except OSError:
        return  # the import reports these too


def _open(given: GivenFile, folder: Path, on_bytes: OnBytes, on_read: OnRead, files: ExitStack) -> Input:
    stream: BinaryIO = given.stream or files.enter_context(
        limits.open_file(given.name, piped=True, on_wait=on_read)
    )
    if given.stream is None and stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        kept, size = stream, os.fstat(stream.fileno()).st_size
        digest = _digest(stream, None, size, on_bytes, given.name)
    else:
        nameless = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (`files` closes it)
        kept = cast(BinaryIO, files.enter_context(nameless))
        digest = _digest(stream, kept, 0, on_bytes, given.name)
        size = kept.tell()
    head = _head(kept, 10)  # any bytes would be entries of a Polyglot book
    for first, program in _OTHER_PACKING.items():
        # the digits of pi follow in every bzip2 file; three bytes may begin a key of a Polyglot book
        if head.startswith(first) and (program != "bzip2" or head[4:] == b"1AY&SY"):
            raise ImportFileError(f"{given.name} is packed by {program}; unpack it, or use gzip or zstd")
    found = Input(given.name, kept, digest, size, on_read)
    if _is_packed(kept):  # a truncated file fails before anything is imported
        found.digests = [hashlib.file_digest(found._plain, "sha256").hexdigest(), digest]
        found.rewind()
    return found


def _digest(file: BinaryIO, copy: BinaryIO | None, size: int, on_bytes: OnBytes, name: str) -> str:
    """Returns the SHA-256 of a file; copies it to `copy` if given, up to the limit for pipes."""
    found, done = hashlib.sha256(), 0
    while piece := file.read(PIECE):
        found.update(piece)
        done += len(piece)
        if copy is not None:
            limits.check_size(done, limits.PIPED, name)
            copy.write(piece)
        on_bytes(done, max(size, done))
    return found.hexdigest()


def _is_packed(raw: BinaryIO) -> bool:
    head = _head(raw)
    skippable = head[1:] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F
    return head.startswith(_GZIP) or head == _ZSTD or skippable


def _head(raw: BinaryIO, size: int = 4) -> bytes:
    """Returns the first bytes of a file, and rewinds it."""
    raw.seek(0)
    head = raw.read(size)
    raw.seek(0)
    return head


class _Watched(io.RawIOBase):
    """A stream of a file's unpacked bytes; closing it leaves the file open.

    Every read calls `on_read`, which may raise, and checks the unpacked size against the packed size.
    """

    def __init__(self, raw: BinaryIO, name: str, on_read: OnRead) -> None:
        self._name, self._on_read = name, on_read
        self._is_packed, self._size = _is_packed(raw), os.fstat(raw.fileno()).st_size
        self._pieces, self._rest = _unpacked(raw), memoryview(b"")
        self.count = 0  # unpacked bytes read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._on_read()
        piece = self._rest or memoryview(next(self._pieces, b""))
        size = min(len(piece), len(buffer))
        buffer[:size], self._rest = piece[:size], piece[size:]
        self.count += size
        if self._is_packed:
            limits.check_unpacked(self.count, self._size, self._name)
        return size


def _unpacked(raw: BinaryIO) -> Iterator[bytes]:
    """Yields the unpacked bytes of a file; raises EOFError if it ends within packed data."""
    head = _head(raw)
    if head.startswith(_GZIP) or not _is_packed(raw):
        file = gzip.GzipFile(fileobj=raw) if head.startswith(_GZIP) else raw
        while piece := file.read(PIECE):
            yield piece
        return
    frame, packed = _zstd(), b""  # a reader of `zstandard` would pass over a frame that is cut short
    is_open = False  # whether the frame has any bytes
    while packed := packed or raw.read(PIECE >> 4):
        if piece := frame.decompress(packed[:ZSTD_STEP]):
            yield piece
        packed, is_open = packed[ZSTD_STEP:], not frame.eof
        if frame.eof:
            packed, frame = frame.unused_data + packed, _zstd()
    if is_open:
        raise EOFError


def _zstd() -> zstandard.ZstdDecompressionObj:
    return zstandard.ZstdDecompressor(max_window_size=limits.WINDOW.most).decompressobj()


# ------------------------------------------------------------------ imports
SAY_SECONDS = 0.2

OnProgress = Callable[[FileProgress], object]


@dataclass
class Importing:
    """The state of an import of one file; saves rows and progress.

    Attributes:
      source: its row in the file. before: items that an earlier import processed.
      players: whether to store the players of games. stop: once it is set, the importer saves and returns.
    """

    store: Store
    source: GameSource
    report: FileReport
    given: Input
    stop: threading.Event
    on_progress: OnProgress | None
    players: bool

    def __post_init__(self) -> None:
        self.before = self.report.done
        self._started = self._shown_at = time.monotonic()

    @property
    def complete(self) -> bool:
        """Whether the whole file is imported, with the players if requested."""
        return self.source.finished is not None and (
            not self.players or self.source.players == self.source.done
        )

    def save(self, write: tables.Write, *, finished: bool = False, players: int | None = None) -> None:
        """Writes rows and progress in a transaction; `players`: games passed for these; None: as before."""
        taken, skipped = self.report.taken, self.report.skipped
        with self.store.transaction():
            write(self.store)
            self.source = tables.update_source(
                self.store, self.source, taken=taken, skipped=skipped, finished=finished, players=players
            )
        self.store.checkpoint(over=LOG_BYTES)

    def show_progress(self, stage: str = "Importing", count: int | None = None) -> None:
        """Reports progress, at most every `SAY_SECONDS`; `count` replaces the number of processed items."""
        now = time.monotonic()
        if self.on_progress is None or now - self._shown_at < SAY_SECONDS:
            return
        self._shown_at = now
        done = max(self.report.done - self.before, self.report.players) if count is None else count
        rate, given = done / max(now - self._started, 1e-9), self.given
        self.on_progress(FileProgress(stage, given.name, given.position, given.size, done, rate))


# ------------------------------------------------------------------ reports
@dataclass(frozen=True, slots=True)
class Problem:
    """A skipped or suspicious item: its place in the file (line or entry), and the reason."""

    place: int
    reason: str


@dataclass(slots=True)
class FileReport:
    """The result of importing one file.

    Attributes:
      name, kind, digest: as in the table `source`. source: number of its row; 0 if it has none.
      state: `imported`; `continued` (resumed an earlier import); `players` (counted before, only players were
        added); `known` (imported before, nothing was done); `stopped` (by the user); `failed`.
      taken, skipped: games, entries or positions, in total. new_taken, new_skipped: of this run.
      players: games with players stored in this run. problems: skipped or wrong items of this run.
      variants: games of other variants in this run, by name. notes: messages for the user.
      error: reason of a failure, else empty. seconds: wall time of this run.
    """

    name: str
    kind: str
    digest: str = ""
    source: int = 0
    state: str = "failed"
    taken: int = 0
    skipped: int = 0
    new_taken: int = 0
    new_skipped: int = 0
    players: int = 0
    problems: list[Problem] = field(default_factory=list)
    variants: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """The number of processed items: imported and skipped."""
        return self.taken + self.skipped

    @property
    def new(self) -> int:
        """The number of items processed in this run."""
        return self.new_taken + self.new_skipped

    @property
    def failed(self) -> bool:
        """Whether the file could not be read, or nothing of it counts."""
        return bool(self.error) or (self.state != "stopped" and not self.taken)

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as a JSON object."""
        facts = asdict(self)
        facts["variants"] = dict(self.variants)
        return facts | {"failed": self.failed}
