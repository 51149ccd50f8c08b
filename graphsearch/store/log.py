"""Keeping the write-ahead log short, for those who write without a thread of their own."""

from __future__ import annotations

from ..errors import StoreError
from .file import LOG_BYTES
from .store import Store

LONGEST_LOG_BYTES = 1 << 30  # a reader of an old state may hold so much; then nothing more is written


def shorten_log(store: Store) -> None:
    """Copies a long write-ahead log into the file; call it between two transactions.

    Raises:
      StoreError: if it has become too long, because another program reads an old state of the file.
    """
    size, held = store.checkpoint(over=LOG_BYTES)
    if held and size > LONGEST_LOG_BYTES:
        raise StoreError(
            f"{store.path}: another program is reading an old state of it, so its write-ahead log keeps"
            f" growing ({size >> 20} MiB); close that program and continue; everything so far is saved"
        )
