"""Headers of PGN, and NAGs of mistakes."""

from __future__ import annotations

COLUMNS = 80
# least loss of Q against the best move, in [-1, 1], and the NAG: ?!, ?, ??
MISTAKES = ((0.3, 4), (0.2, 2), (0.1, 6))
JUDGED_VISITS = 10  # minimum visits of a move with a NAG


def header(name: str, value: str) -> bytes:
    r"""Returns a header line.

    >>> header("Event", 'the "b"')
    b'[Event "the \\"b\\""]\n'
    """
    text = "".join(c if c.isprintable() else "?" for c in value).replace("\\", "\\\\").replace('"', '\\"')
    return f'[{name} "{text}"]\n'.encode()


def mistake_of(loss: float) -> int | None:
    """Returns the NAG of a loss of Q in [0, 2] by `MISTAKES`, None for a small loss.

    >>> mistake_of(0.3), mistake_of(0.05)
    (4, None)
    """
    return next((nag for least, nag in MISTAKES if loss >= least - 1e-9), None)
