"""Runs what the documents show, and writes what the program answers below it.

python -m tools.update_samples [PAGE ...]

A page runs from top to bottom in a folder of its own, which begins with the files of docs/samples/
and what `BEGIN` makes of them. In a console, the lines below a command are its output, if there are
any; a text block that follows a Python block at once is what the script prints. A line `...` stands
for lines that are left out: as many lines stay before and after it as there were.
"""

from __future__ import annotations

import importlib
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SAMPLES = ROOT / "docs" / "samples"
BEGIN = ("graphsearch analyze startpos --visits 20000 --store first.graph",)
FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
TERMINAL = {"TERM": "dumb", "COLUMNS": "118", "LINES": "50"}  # on which commands print
ELSEWHERE = re.compile(r"pip install |graphsearch serve |python -m tools\.")
ALONE = re.compile(r"__main__|NUMBA_DISABLE_JIT|duckdb|polars")  # in scripts for processes of their own
SHELL = re.compile(r"[|<>&;$*~`]")  # a command with one of these needs a shell
STYLES = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")  # colours and the like, of a terminal
VARIES = (  # what differs from run to run
    (re.compile(r"\d{4}\.\d\d\.\d\d"), "DATE"),
    (re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?(?:\+00:00|Z)?)?"), "DATE"),
    (re.compile(r"[\d.,]+k?(?= (?:s|ms|[KMG]B|bytes|per second)\b)"), "#"),
    (re.compile(r"\b(visits/s|nodes/s|nps|time) [\d.,]+[kM]?"), r"\1 #"),
    (re.compile(r"[ \u2500]+"), " "),
)

Run = Callable[[str, str], str]  # the kind of a block and its text, or one command -> what goes to stdout


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page: its language, the file that it shows (if it says so), its text and place."""

    kind: str
    title: str
    text: str
    start: int
    end: int

    @property
    def commands(self) -> list[str]:
        """The commands of a console."""
        return [command for command, _ in transcript(self.text)]


def blocks(text: str) -> list[Block]:
    """Returns the fenced blocks of a page."""
    found = FENCE.finditer(text)
    return [Block(one[1], one[2] or "", one[3], one.start(), one.end()) for one in found]


def masked(sample: str) -> list[str]:
    """Returns the lines of a sample without what differs from run to run.

    >>> masked("depth 11/40   11.3 s")
    ['depth 11/40 # s']
    """
    for pattern, mark in VARIES:
        sample = pattern.sub(mark, sample)
    return [line.rstrip() for line in sample.strip().splitlines()]


def shortened(output: str, sample: str) -> str:
    """Returns an output with the lines left out that a sample leaves out; the sample, if it says the same.

    >>> shortened("a b c d".replace(" ", chr(10)), "x ... y".replace(" ", chr(10))).split()
    ['a', '...', 'd']
    """
    output = STYLES.sub("", output).strip("\n")
    lines, shown = [line.rstrip() for line in output.splitlines()], sample.splitlines()
    if "..." in shown:
        first = shown.index("...")
        last = len(shown) - first - 1
        lines = [*lines[:first], "...", *lines[len(lines) - last :]]
    new = "".join(f"{line}\n" for line in lines)
    return sample if masked(new) == masked(sample) else new


def regenerated(text: str, folder: Path, run: Run) -> str:
    """Returns a page with its samples made anew; writes its files into the folder."""
    parts, place, output, script_end = list[str](), 0, "", 0
    for block in blocks(text):
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        new = block.text
        if block.kind == "console":
            new = "".join(_again(command, sample, folder, run) for command, sample in transcript(new))
        elif block.kind == "python":
            output, script_end = run("python", new), block.end
        elif block.kind == "text" and block.start == script_end + 1:
            new = shortened(output, new)
        body = text.index("\n", block.start) + 1
        parts += [text[place:body], new]
        place = body + len(block.text)
    return "".join([*parts, text[place:]])


def transcript(text: str) -> list[tuple[str, str]]:
    """Returns the commands of a console, each with what it printed, or "" if that is not shown.

    >>> transcript("$ one\\n1\\n$ two\\n")
    [('one', '1\\n'), ('two', '')]
    """
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def _again(command: str, sample: str, folder: Path, run: Run) -> str:
    output = "" if ELSEWHERE.match(command) else run("console", command).replace(f"{folder}/", "")
    return f"$ {command}\n" + (shortened(output, sample) if sample else "")


def prepare(folder: Path) -> None:
    """Makes the folder in which a page begins."""
    shutil.copytree(SAMPLES, folder, dirs_exist_ok=True)
    program = folder / "bin" / "graphsearch"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m graphsearch "$@"\n')
    program.chmod(0o755)
    with chdir(folder), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        for command in BEGIN:  # here: forks find modules imported and kernels loaded
            assert program_main()(shlex.split(command)[1:]) == 0


def in_processes(folder: Path) -> Run:
    """Returns what runs a script, or a command on a terminal, in a folder and returns its output.

    A script, or a command of graphsearch that needs no shell, runs in a fork of this process, which imports
    nothing anew; but not a script that sets what counts at an import, or needs threads of a library.
    """
    environment = os.environ | TERMINAL | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}

    def run(kind: str, text: str) -> str:
        reading, writing = os.pipe() if kind == "python" else pty.openpty()
        with tempfile.TemporaryFile() as errors:
            streams = (folder, environment, writing, errors.fileno())
            if kind == "python" and not ALONE.search(text):
                wait = _forked(partial(_executed, text), *streams)
            elif text.startswith("graphsearch ") and not SHELL.search(text):
                wait = _forked(partial(program_main(), shlex.split(text)[1:]), *streams)
            else:
                words = [sys.executable if kind == "python" else "bash", "-c", text]
                wait = subprocess.Popen(
                    words, cwd=folder, env=environment, stdout=writing, stderr=errors
                ).wait
            os.close(writing)
            output = read_all(reading)
            if wait():
                errors.seek(0)
                raise RuntimeError(f"{text}\n{output}{errors.read().decode()}")
        return output

    return run


def program_main() -> Callable[[list[str]], int]:
    """Returns what runs a command line of graphsearch, with all commands imported."""
    for command in (ROOT / "cli").glob("[a-z]*.py"):  # which import what they share
        importlib.import_module(f"graphsearch.cli.{command.stem}")
    main: Callable[[list[str]], int] = importlib.import_module("graphsearch.cli").main
    return main


def _executed(script: str) -> int:
    exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})
    return 0


def _forked(
    run: Callable[[], int], folder: Path, environment: Mapping[str, str], stdout: int, stderr: int
) -> Callable[[], int]:
    """Calls a function in a fork of this process; returns what waits for its end, 0 if all went well."""
    if child := os.fork():
        return lambda: os.waitpid(child, 0)[1]
    code = 1
    try:
        os.chdir(folder)
        os.environ.update(environment)
        for number, opened in ((1, stdout), (2, stderr)):
            os.dup2(opened, number)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
        code = run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def read_all(descriptor: int) -> str:
    """Returns what comes out of a pipe or a terminal until its last writer is gone; closes it."""
    chunks = []
    with suppress(OSError):  # Linux raises it at the end of a terminal
        while chunk := os.read(descriptor, 1 << 16):
            chunks.append(chunk)
    os.close(descriptor)
    return b"".join(chunks).decode().replace("\r\n", "\n")


def main() -> int:
    """Makes the samples of all pages anew, or of those that are named; returns 1 if a page fails."""
    failed = 0
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    with tempfile.TemporaryDirectory() as name:
        begin = Path(name) / "begin"
        prepare(begin)
        for k, page in enumerate(chosen):
            folder = Path(name) / str(k)
            shutil.copytree(begin, folder)
            text = page.read_text(encoding="utf-8")
            try:
                new = regenerated(text, folder, in_processes(folder))
            except RuntimeError as error:
                print(f"{page.relative_to(ROOT)}: {error}")
                failed = 1
            else:
                page.write_text(new, encoding="utf-8")
                print(f"{page.relative_to(ROOT)}: {'changed' if new != text else 'as it was'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
