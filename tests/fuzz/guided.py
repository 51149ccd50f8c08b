"""Fuzzes one target guided by coverage: `python -m tests.fuzz.guided --target toml --minutes 5`.

Needs Atheris (`pip install atheris`), which is no dependency: it exists for few versions of Python. It counts
the branches of this project's Python code, not of kernels. It stops at the first failure and keeps its input.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import shutil
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from graphsearch.errors import GraphSearchError

from .harness import Target, folder_for_work
from .targets import FOLDER, TARGETS


def _functions() -> Iterator[types.FunctionType]:
    """Yields the functions and methods of this project's modules that are imported and no kernels."""
    for name, module in list(sys.modules.items()):
        if (
            not name.startswith("graphsearch")
            or name.endswith("_kernel")
            or name.startswith("graphsearch.jit")
        ):
            continue
        for thing in list(vars(module).values()):
            inside = list(vars(thing).values()) if isinstance(thing, type) else [thing]
            yield from (
                one for one in inside if isinstance(one, types.FunctionType) and one.__module__ == name
            )


def _executes(target: Target, folder: Path) -> Any:
    """Returns what takes one input; it raises what is a failure."""

    def one_input(data: bytes) -> None:
        work = folder / "work"
        work.mkdir()
        quiet = io.StringIO()
        try:
            with contextlib.suppress(GraphSearchError), contextlib.redirect_stderr(quiet):
                target.call(data, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    return one_input


def main(arguments: Sequence[str]) -> None:
    """Fuzzes until the time is up, and leaves the process."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("--target", required=True, choices=TARGETS, metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--keep", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    options.keep.mkdir(parents=True, exist_ok=True)
    _fuzz(TARGETS[options.target], options.minutes, options.keep)


def _fuzz(target: Target, minutes: float, keep: Path) -> None:
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        raise SystemExit("Atheris is not installed: pip install atheris, or use tests.fuzz") from None
    folder = folder_for_work()
    corpus = folder / "corpus"
    corpus.mkdir()
    target.warm()
    for i, data in enumerate(target.seeds(folder)):
        (corpus / str(i)).write_bytes(data)
    for function in _functions():
        with contextlib.suppress(Exception):  # what Atheris cannot patch, it does not guide
            atheris.instrument_func(function)
    limits = [f"-max_total_time={int(60 * minutes)}", "-timeout=60", "-rss_limit_mb=4096", "-max_len=65536"]
    words = [sys.argv[0], *limits, f"-artifact_prefix={keep}/", str(corpus)]
    atheris.Setup(words, _executes(target, folder))
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
