"""Changes of bytes and of text that know nothing of what they change."""

from __future__ import annotations

import random
from collections.abc import Sequence

NUMBERS = (0, 1, 2, 127, 128, 255, 256, 32767, 32768, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
MOST = 1 << 24  # bytes of a text: repeated repetitions would make hundreds of megabytes
LARGE = ((1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 99999999999999999999)


def mutated(data: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Returns bytes after one to eight changes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        _change(out, rng, others)
    return bytes(out)


def _change(out: bytearray, rng: random.Random, others: Sequence[bytes]) -> None:
    at = rng.randrange(len(out) + 1)
    length = min(rng.choice((1, 1, 2, 4, 8, 32, 256, 4096)), len(out) - at)
    what = rng.randrange(9)
    if what == 0 and length:
        out[at] ^= 1 << rng.randrange(8)
    elif what == 1 and length:
        out[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    elif what == 2:
        value = rng.choice(NUMBERS + LARGE[1:4])
        size = rng.choice((2, 4, 8))
        out[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, rng.choice(("little", "big")))
    elif what == 3:
        del out[at : at + length]
    elif what == 4:
        out[at:at] = rng.randbytes(max(1, length))
    elif what == 5:
        out[at:at] = out[at : at + length] * rng.choice((1, 1, 2, 50))
    elif what == 6:
        out[at : at + length] = bytes(length)
    elif what == 7 and others:
        other = rng.choice(others)
        begin = rng.randrange(len(other) + 1)
        out[at : at + length] = other[begin : begin + rng.choice((8, 64, 1024))]
    elif what == 8 and rng.random() < 0.3:
        del out[at:]


class Words:
    """A mutator of text that knows some words of its language."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __call__(self, seeds: list[bytes], rng: random.Random) -> bytes:
        """Returns a text made of a seed: words replaced, repeated and moved, or plain changes of bytes."""
        data = rng.choice(seeds)
        for _ in range(rng.choice((1, 1, 2, 3, 6))):
            data = self._changed(data, seeds, rng)
        return data if rng.random() < 0.8 else mutated(data, rng, seeds)

    def _changed(self, data: bytes, seeds: list[bytes], rng: random.Random) -> bytes:
        separator = rng.choice((b" ", b" ", b"\n", b"\n", b'"', b"/"))
        parts = data.split(separator)
        at = rng.randrange(len(parts))
        what = rng.randrange(7)
        if what == 0:
            parts[at] = self._word(rng)
        elif what == 1:
            parts.insert(at, self._word(rng))
        elif what == 2:
            del parts[at]
        elif what == 3:
            parts[at:at] = [parts[at]] * rng.choice((1, 2, 20, 2000))
        elif what == 4:
            other = rng.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
        elif what == 5:
            parts[at] = rng.choice(rng.choice(seeds).split(separator))
        else:
            parts[at] = mutated(parts[at], rng)
        return separator.join(parts)[:MOST]

    def _word(self, rng: random.Random) -> bytes:
        kind = rng.randrange(8)
        if kind == 0:
            return str(rng.choice(NUMBERS + LARGE) * rng.choice((1, -1))).encode()
        if kind == 1:
            return rng.choice(
                (b"nan", b"inf", b"-inf", b"1e999", b"0x10", b"1e-320", "\u0663".encode(), b"-0")
            )
        if kind == 2:
            return rng.choice(
                (b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", "\u2028".encode(), b"\r", b"\t", b"%")
            )
        if kind == 3 and rng.random() < 0.3:
            return rng.choice((b"x", b"(", b"[", b"{", b'"')) * rng.choice((300, 70_000))
        return rng.choice(self._words).encode()
