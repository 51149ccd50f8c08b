"""Counts fused multiply-adds in compiled kernels for ARM: `python tools/fused.py FOLDER`; there must be none.

They round once where two instructions round twice, so a search would depend on the processor.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

MAGIC = b"\x7fELF"
EXECUTABLE, PROGBITS = 4, 1
SCALAR = 0x1F  # first byte of fmadd, fmsub, fnmadd and fnmsub
VECTOR_MASK, VECTOR = 0xBFA0FC00, {0x0E20CC00, 0x0EA0CC00}  # fmla, fmls
ELEMENT_MASK, ELEMENT = 0xBF80F400, {0x0F801000, 0x0F805000}  # the same, by one element of a vector


def instructions(data: bytes) -> list[int]:
    """Returns the instructions of an object file."""
    elf = data[data.index(MAGIC) :]
    (offset,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    words: list[int] = []
    for at in range(offset, offset + size * count, size):
        kind, flags, _, begin, length = struct.unpack_from("<IQQQQ", elf, at + 4)
        if kind == PROGBITS and flags & EXECUTABLE:
            words += (word for (word,) in struct.iter_unpack("<I", elf[begin : begin + length // 4 * 4]))
    return words


def is_fused(word: int) -> bool:
    """Returns whether an instruction multiplies and adds with one rounding."""
    return word >> 24 == SCALAR or word & VECTOR_MASK in VECTOR or word & ELEMENT_MASK in ELEMENT


def main(folder: str) -> int:
    """Prints the counts; returns 1 if there is a fused one, or no code."""
    words = [word for path in Path(folder).rglob("*.code") for word in instructions(path.read_bytes())]
    fused = sum(map(is_fused, words))
    print(f"{len(words):,} instructions, {fused} fused")
    return int(not words or fused > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
