"""Compiles what most tests need, once, on two cores: each worker of a test run would compile all it meets.

The first test that needs a kernel which is missing here compiles it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

PURPOSE = "tests"


def compile_all() -> None:
    """Compiles both parts at once, unless an earlier test run did."""
    from graphsearch.jit.compiler import is_compiled, mark_compiled

    if is_compiled(PURPOSE):
        return
    sys.stderr.write("compiling the kernels, once: about a minute\n")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        parts = [_start("waves", first), _start("rest", second)]
        codes = [part.wait() for part in parts]
    if not any(codes):
        mark_compiled(PURPOSE)


def _start(part: str, folder: str) -> subprocess.Popen[bytes]:
    """Starts one process that compiles a part, in a folder for its files."""
    return subprocess.Popen(
        [sys.executable, "-m", "graphsearch.cli.compile_kernels", part],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
