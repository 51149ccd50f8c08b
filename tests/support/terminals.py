"""A terminal for commands that run in this process."""

from __future__ import annotations

import importlib
import os
import pty
import re
import sys
import threading
from collections.abc import Iterable, Sequence

import pytest

ESCAPES = r"\x1b\[[0-9;?]*[A-Za-z]"


def on_a_terminal(
    patch: pytest.MonkeyPatch,
    commands: Iterable[Sequence[object]],
    *,
    columns: int = 80,
    streams: Sequence[str] = ("stdout", "stderr"),
) -> str:
    """Runs commands whose streams are a terminal; returns what it showed, without escape codes."""
    main = importlib.import_module("graphsearch.cli").main
    parent, child = pty.openpty()
    chunks: list[bytes] = []
    reader = threading.Thread(target=_read_all, args=(parent, chunks))
    reader.start()
    with patch.context() as changed, os.fdopen(child, "w", encoding="utf-8") as terminal:
        for name in streams:
            changed.setattr(sys, name, terminal)
        for name, value in (("COLUMNS", str(columns)), ("LINES", "24"), ("TERM", "xterm")):
            changed.setenv(name, value)
        codes = [main([str(word) for word in words]) for words in commands]
    reader.join()
    shown = re.sub(ESCAPES, "", b"".join(chunks).decode()).replace("\r\n", "\n")
    assert not any(codes), shown
    return shown


def _read_all(parent: int, chunks: list[bytes]) -> None:
    """Reads what a terminal shows until its program closes it; else the program would wait for room."""
    try:
        while chunk := os.read(parent, 65536):
            chunks.append(chunk)
    except OSError:  # Linux says so when the last writer is gone
        pass
    finally:
        os.close(parent)
