"""The bytes of an imported file: plain, gzip or zstd, from a disk or a pipe, and the digest they have."""

from __future__ import annotations

import gzip
import hashlib
import io
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from ..errors import ImportFileError

PIECE = 1 << 20
LONGEST_LINE = 1 << 20  # bytes; a longer one is no text that people or programs write
STDIN = "-"

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SQLITE = b"SQLite format 3\0"

OnBytes = Callable[[int, int], object]  # done, total


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file to import: a path, or the name of an open stream, such as standard input."""

    name: str
    stream: BinaryIO | None = None


class Input:
    """An open file that is imported.

    Attributes:
      name: as it was given. digest: SHA-256 of its bytes, hex. size: in bytes, as it lies there.
    """

    def __init__(self, name: str, raw: BinaryIO, digest: str, size: int) -> None:
        self.name = name
        self.digest = digest
        self.size = size
        self._raw = raw
        self._plain = _unpacked(raw)

    @property
    def position(self) -> int:
        """How many of its bytes were read."""
        return self._raw.tell()

    def check_packing(self) -> None:
        """Reads packed bytes once to their end, so that nothing is taken from a file that is cut short.

        Raises:
          ImportFileError: if they are damaged or cut short.
        """
        if self._plain is not self._raw:
            for _ in self.pieces(PIECE):
                pass
            self._raw.seek(0)
            self._plain = _unpacked(self._raw)

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yields the unpacked bytes in pieces of `size`; only the last one may be shorter.

        Raises:
          ImportFileError: if packed bytes are damaged or cut short.
        """
        with self._readable():
            while True:
                piece = _read_whole(self._plain, size)
                if piece:
                    yield piece
                if len(piece) < size:
                    return

    def lines(self) -> Iterator[str]:
        """Yields the lines of a text with their ends, as Latin-1: every encoding that extends ASCII will do.

        Raises:
          ImportFileError: if it is no text, or packed bytes are damaged or cut short.
        """
        with self._readable():
            buffered = io.BufferedReader(_Borrowed(self._plain), PIECE)
            self._refuse_other_files(buffered.peek(4096)[:4096])
            yield from self._lines(io.TextIOWrapper(buffered, encoding="latin-1", newline=None))

    def _lines(self, text: io.TextIOWrapper) -> Iterator[str]:
        number = 0
        while line := text.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE:
                raise ImportFileError(f"{self.name}, line {number}: it is too long to be text")
            yield line

    def _refuse_other_files(self, head: bytes) -> None:
        if head.startswith(_SQLITE):
            raise ImportFileError(
                f"{self.name} is a database, not a text file; give a graph file with --store"
            )
        if b"\0" in head:
            raise ImportFileError(f"{self.name} is not a text file (convert UTF-16 to UTF-8)")

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except EOFError:
            raise ImportFileError(f"{self.name} is cut short: its compressed data end too early") from None
        except (zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
            raise ImportFileError(f"{self.name}: its compressed data are damaged: {error}") from None
        except OSError as error:
            raise ImportFileError(f"cannot read {self.name}: {error.strerror or error}") from None


@contextmanager
def opened(given: GivenFile, folder: Path, on_bytes: OnBytes | None = None) -> Iterator[Input]:
    """Yields a file, its digest known: what comes through a pipe is kept in a temporary file meanwhile.

    Only so can it be told before anything is counted whether the same bytes were imported before.

    Args:
      folder: for the temporary file, which has no name and is gone however the program ends.
      on_bytes: called with bytes read and bytes in all while the digest is made.

    Raises:
      ImportFileError: if it cannot be read.
    """
    with ExitStack() as files:
        try:
            found = _open(given, folder, on_bytes, files)
        except OSError as error:
            raise ImportFileError(f"cannot read {given.name}: {error.strerror or error}") from None
        yield found


def _open(given: GivenFile, folder: Path, on_bytes: OnBytes | None, files: ExitStack) -> Input:
    path = Path(given.name)
    if given.stream is None and path.is_dir():
        raise ImportFileError(f"{given.name} is a folder; name the files in it")
    stream = given.stream or files.enter_context(path.open("rb"))
    if given.stream is None and path.is_file():
        kept, size = stream, path.stat().st_size
        digest = _digest(stream, None, size, on_bytes)
    else:
        nameless = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (`files` closes it)
        kept = cast(BinaryIO, files.enter_context(nameless))
        digest = _digest(stream, kept, 0, on_bytes)
        size = kept.tell()
    kept.seek(0)
    found = Input(given.name, kept, digest, size)
    found.check_packing()
    return found


def _digest(file: BinaryIO, copy: BinaryIO | None, size: int, on_bytes: OnBytes | None) -> str:
    """Returns the SHA-256 of what is left in a file, which is copied meanwhile if `copy` is given."""
    found, done = hashlib.sha256(), 0
    while piece := file.read(PIECE):
        found.update(piece)
        if copy is not None:
            copy.write(piece)
        done += len(piece)
        if on_bytes:
            on_bytes(done, max(size, done))
    return found.hexdigest()


def _unpacked(raw: BinaryIO) -> BinaryIO:
    """Returns what reads the unpacked bytes of a file; how they are packed, its first bytes say."""
    head = raw.read(4)
    raw.seek(0)
    if head.startswith(_GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
    if head == _ZSTD or (head[1:] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F):  # or a skippable frame
        return cast(BinaryIO, _ZstdFrames(raw))
    return raw


class _Borrowed(io.RawIOBase):
    """The bytes of a file that stays open when this is closed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._file.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


class _ZstdFrames(io.RawIOBase):
    """The frames of a zstd file, one after the other; an end in the middle of one is an error."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._frame = _new_frame()
        self._begun = False  # whether the frame has any bytes
        self._packed = b""
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready and self._fill():
            pass
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _fill(self) -> bool:
        """Unpacks a little more; returns whether there was anything left to unpack."""
        packed = self._packed or self._raw.read(PIECE >> 4)
        if not packed:
            if self._begun:
                raise EOFError
            return False
        self._ready = self._frame.decompress(packed)
        self._packed, self._begun = self._frame.unused_data, not self._frame.eof
        if self._frame.eof:
            self._frame = _new_frame()
        return True


def _new_frame() -> zstandard.ZstdDecompressionObj:
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


def _read_whole(file: BinaryIO, size: int) -> bytes:
    """Returns `size` bytes, fewer only at the end."""
    parts = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
