"""What a shard sends, and where its time goes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..search import wave_kernel as wave
from .messages_kernel import HEADER_WORDS

WORD_BYTES = 8


@dataclass(slots=True)
class Traffic:
    """What a shard has sent, and where its time went.

    Attributes:
      steps: times that all shards waited for each other.
      messages: sent to other shards. bytes: of them. rows: visits or bundles sent down.
      entry_levels: entries that were passed on, one for each level. visit_levels: visits of them.
      passing, admitting, evaluating, backing: seconds of the phases of a wave, without what was waited for.
      waiting: seconds from a message to the answers of all others, sending included.
    """

    steps: int = 0
    messages: int = 0
    bytes: int = 0
    rows: int = 0
    entry_levels: int = 0
    visit_levels: int = 0
    passing: float = 0.0
    admitting: float = 0.0
    evaluating: float = 0.0
    backing: float = 0.0
    waiting: float = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Counts the time of the body to a phase, without what it waits for."""
        began, waited = time.perf_counter(), self.waiting
        try:
            yield
        finally:
            spent = time.perf_counter() - began - (self.waiting - waited)
            setattr(self, name, getattr(self, name) + spent)

    def send(self, sizes: Sequence[int], own: int) -> None:
        """Counts messages of so many words behind the header, of which one's own goes nowhere."""
        others = len(sizes) - 1
        self.steps += 1
        self.messages += others
        self.bytes += WORD_BYTES * (sum(sizes) - sizes[own] + others * HEADER_WORDS)

    def pass_on(self, w: wave.WaveArrays, order: NDArray[np.int64]) -> None:
        """Counts the entries of a level."""
        if len(order):
            asked = w.entries.view(np.int64)[wave.ASKED :: wave.ENTRY_WORDS]
            self.entry_levels += len(order)
            self.visit_levels += int(asked[order].sum())
