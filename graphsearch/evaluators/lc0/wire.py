"""Decodes protocol buffers by field numbers, without a schema compiler.

It supports only the types in lc0's `net.proto`: varints, 32- and 64-bit words, bytes and nested messages. For
a field that is not repeated the last value counts, as the format requires.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

VARINT, WORD64, BYTES, WORD32 = 0, 1, 2, 5  # wire types; 3 and 4 (groups) are obsolete
VARINT_BYTES = 10  # 64 bits, 7 per byte
_TYPE_NAMES = {VARINT: "a number", WORD64: "eight bytes", BYTES: "bytes", WORD32: "four bytes"}
_WORD_BYTES = {WORD64: 8, WORD32: 4}
_NOTHING = memoryview(b"")


class WireError(ValueError):
    """Raised for bytes that are no protocol buffer, or not the expected message."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One value: in `number` for a varint, else in `data`."""

    kind: int
    number: int
    data: memoryview


class Message:
    """One message; the constructor decodes its fields, each call of `message` decodes a nested one."""

    def __init__(self, data: bytes | memoryview) -> None:
        """Reads the fields of a message.

        Raises:
          WireError: if the bytes end within a field, or a field has an unknown type.
        """
        self._fields: dict[int, list[_Field]] = {}
        for key, field in _fields(memoryview(data)):
            self._fields.setdefault(key, []).append(field)

    def renumbered(self, numbers: Mapping[int, int]) -> Message:
        """Returns a message with the fields in `numbers` only, renumbered from its keys to its values."""
        made = Message(b"")
        made._fields = {numbers[key]: found for key, found in self._fields.items() if key in numbers}
        return made

    def __contains__(self, key: int) -> bool:
        return key in self._fields

    def _all(self, key: int, kind: int) -> list[_Field]:
        found = self._fields.get(key, [])
        for field in found:
            if field.kind != kind:
                raise WireError(f"field {key} is {_TYPE_NAMES[field.kind]}, not {_TYPE_NAMES[kind]}")
        return found

    def number(self, key: int, default: int = 0) -> int:
        """Returns a varint; `default` if the field is missing."""
        found = self._all(key, VARINT)
        return found[-1].number if found else default

    def raw(self, key: int) -> memoryview:
        """Returns bytes; none if the field is missing."""
        found = self._all(key, BYTES)
        return found[-1].data if found else _NOTHING

    def real(self, key: int) -> float:
        """Returns a 32-bit float; 0 if the field is missing."""
        found = self._all(key, WORD32)
        return float(struct.unpack("<f", found[-1].data)[0]) if found else 0.0

    def word(self, key: int) -> int | None:
        """Returns a 32-bit unsigned word, None if the field is missing."""
        found = self._all(key, WORD32)
        return int(struct.unpack("<I", found[-1].data)[0]) if found else None

    def text(self, key: int) -> str:
        """Returns a text, with invalid UTF-8 replaced; empty if the field is missing."""
        return bytes(self.raw(key)).decode(errors="replace")

    def message(self, key: int) -> Message:
        """Returns a nested message; an empty one if the field is missing."""
        return Message(self.raw(key))

    def messages(self, key: int) -> list[Message]:
        """Returns the nested messages of a repeated field."""
        return [Message(field.data) for field in self._all(key, BYTES)]


def _fields(data: memoryview) -> Iterator[tuple[int, _Field]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        key, kind = tag >> 3, tag & 7
        if key == 0 or kind not in _TYPE_NAMES:
            raise WireError(f"byte {at - 1} begins a field {key} of the unknown type {kind}")
        if kind == VARINT:
            number, at = _varint(data, at)
            yield key, _Field(kind, number, _NOTHING)
            continue
        size, at = (_WORD_BYTES[kind], at) if kind in _WORD_BYTES else _varint(data, at)
        if at + size > len(data):
            raise WireError(f"field {key} needs {size} bytes from byte {at} on and {len(data) - at} are left")
        yield key, _Field(kind, 0, data[at : at + size])
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for i in range(VARINT_BYTES):
        if at + i >= len(data):
            raise WireError(f"the bytes end within the number at byte {at}")
        value |= (data[at + i] & 127) << 7 * i
        if data[at + i] < 128:
            return value, at + i + 1
    raise WireError(f"the number at byte {at} has more than {VARINT_BYTES} bytes")
