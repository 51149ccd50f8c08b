"""What a phase takes: time, memory, bytes, the longest stall and the largest log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...store.file import log_bytes
from ...workers.process import peak_rss
from ..offload.instruments import io_counters, resident_bytes
from .plan import Measured

LOOK_SECONDS = 0.02  # between two looks at the log
SAY_SECONDS = 2.0  # between two lines about the progress


class Meter:
    """Measures one phase, in the process that does it.

    Attributes:
      units, unit: what the figures are divided by; set by the phase.
      more: what this phase alone tells.
      cpu_beside, peak_beside: CPU seconds of processes that the phase has started, most bytes of one of them.
    """

    def __init__(self, *files: Path, told: Path | None = None) -> None:
        """Measures from now on.

        Args:
          files: those whose log counts.
          told: the file in which the progress is written, as `done total`; None: nowhere.
        """
        self._told = told
        self.units, self.unit = 1, "call"
        self.more: dict[str, Any] = {}
        self.cpu_beside, self.peak_beside = 0.0, 0
        self._files = files
        self._largest_log = 0
        self._ended = threading.Event()
        self._longest = 0.0
        self._said = time.perf_counter()
        self._before = io_counters()
        self._rss_before = resident_bytes()
        self._cpu = time.process_time()
        self._begin = self._last = time.perf_counter()

    def tick(self, done: int = 0, total: int = 0) -> None:
        """Notes that the phase is alive; takes what progress is called with."""
        now = time.perf_counter()
        self._longest = max(self._longest, now - self._last)
        self._last = now
        if self._told and total and now - self._said >= SAY_SECONDS:
            self._said = now
            self._told.write_text(f"{done} {total}")

    def elapsed(self) -> float:
        """Returns the seconds until the last tick."""
        return self._last - self._begin

    def restart(self) -> None:
        """Forgets the time until now, such as that of preparations."""
        self._cpu = time.process_time()
        self._begin = self._last = time.perf_counter()
        self._longest = 0.0
        self._before = io_counters()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks at the logs meanwhile."""
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._ended.set()
            watcher.join()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._largest_log = max(self._largest_log, *map(log_bytes, self._files))

    def measured(self, phase: str, nodes: int, *files: Path) -> Measured:
        """Returns what was measured until now; `files` are those that the phase leaves."""
        self.tick()
        after = io_counters()
        written = after["write_bytes"] - self._before["write_bytes"] if "write_bytes" in after else None
        return Measured(
            phase=phase,
            nodes=nodes,
            units=self.units,
            unit=self.unit,
            seconds=self._last - self._begin,
            cpu_seconds=time.process_time() - self._cpu + self.cpu_beside,
            peak_rss=max(peak_rss() or 0, self.peak_beside) or None,
            rss_before=self._rss_before,
            written_bytes=written,
            longest_stall_s=self._longest,
            log_bytes=self._largest_log,
            file_bytes=sum(file.stat().st_size for file in files if file.exists()),
            more=self.more,
        )
