"""The records that have no place in the file: one of them must not keep the others from being written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ..position.board import fen_of, key_of_words, key_text_of_words, unpack


class LeftOut:
    """The records that were left out, each named once.

    Attributes:
      keys: of all of them, in hexadecimal: the plain tables list none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.keys: set[str] = set()
        self._names: dict[int, str] = {}

    def add(self, words: NDArray[np.uint64], reason: str) -> None:
        """Notes the packed position of a record, and why it was left out."""
        self.keys.add(key_text_of_words(words))
        self._names[key_of_words(words)] = f"{fen_of(unpack(words))} has {reason}"

    def error(self) -> StoreError | None:
        """Returns the error that names them, and forgets them; None if there are none."""
        names, self._names = [*self._names.values()], {}
        if not names:
            return None
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        return StoreError(
            f"{self._path}: a record cannot be written and is lost: {names[0]}{more}; all others are saved"
        )
