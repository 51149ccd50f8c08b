"""Where a worker of a test run was when it crashed or hung: the run's summary shows it at its end.

A worker's stderr is lost among the dots, and `pytest-timeout` ends a worker without a word.
"""

from __future__ import annotations

import faulthandler
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

FOLDER = "GRAPHSEARCH_TEST_TRACES"  # set by the process that deals out the tests
BEFORE_TIMEOUT_S = 15  # a hanging test's threads are written down so long before it is ended


class Traces:
    """The file in which a worker's threads are written down."""

    def __init__(self, worker: str) -> None:
        """Opens the file, and has a crash of this process written there."""
        self._file: TextIO = (Path(os.environ[FOLDER]) / worker).open("w")
        faulthandler.enable(self._file)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Has the threads written down where a test hangs."""
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{item.nodeid}\n")
        self._file.flush()
        limit = float(item.config.getini("timeout")) - BEFORE_TIMEOUT_S
        faulthandler.dump_traceback_later(limit, file=self._file)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()


class Summary:
    """Shows the files of workers that crashed or hung."""

    def __init__(self) -> None:
        """Makes the folder of the files, whose name the workers inherit."""
        self._folder = tempfile.TemporaryDirectory(prefix="graphsearch-traces-")
        os.environ[FOLDER] = self._folder.name

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints what was written down, if it is more than the name of a test."""
        for file in sorted(Path(self._folder.name).iterdir()):
            text = file.read_text(errors="replace")
            if text.count("\n") > 1:
                terminalreporter.section(f"threads of {file.name}")
                terminalreporter.write_line(text)
        self._folder.cleanup()
