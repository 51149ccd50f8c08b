"""Runs the main commands of an installed graphsearch, and prints what two systems must agree on as JSON.

    python tools/smoke.py SAMPLES [KILLS] > here.json

Times, dates and paths are left out; exported files are listed with a digest.

SAMPLES: docs/samples. KILLS: of a process that writes, 20 if it is not given; with fewer, only the first
commands have a process of their own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

PROGRAM = [sys.executable, "-m", "graphsearch"]
FOLDER = "Größe und Übung"  # blanks and umlauts
BOOK = """[book]
side = "white"
max_ply = 3
[[root]]
moves = "1. d4"
[[window]]
reply_p = 0.15
[leaf]
evaluations = 50
"""
FULL, ALONE = 20, 3  # kills of a full run; commands with a process of their own in a shorter one
UNEQUAL = "~ "  # before commands whose output depends on the speed
COMMANDS = """
analyze startpos --visits 2000 --store a.graph
analyze startpos --moves "e4 e5" --visits 500 --store a.graph --json
analyze startpos --visits 3000 --store a.graph
show startpos --moves "e4 e5" --store a.graph
show startpos --store a.graph --json
lines startpos --store a.graph
tree startpos --depth 3 --max-moves 3 --min-visits 100 --store a.graph
curve startpos --moves "e4 e5 Nf3" --store a.graph
find --store a.graph --lines 3
history startpos --store a.graph
import games.pgn --store a.graph
import positions.epd --store a.graph
games startpos --store a.graph
import games.pgn --store a.graph --players
novelties --store a.graph
review opera.pgn --visits 50 --store a.graph -o reviewed.pgn
export --store a.graph -o a.bin --weights q --min-visits 2
export --store a.graph -o a.csv
export --store a.graph -o a.jsonl
export --store a.graph -o a.pgn
export --store a.graph -o a.epd
export --store a.graph -o site --format site
book build white.toml --store book.graph --evaluations 500
~ book status --store book.graph
book why startpos --moves "d4" --store book.graph
book todo --store book.graph
book build white.toml --store book2.graph --evaluations 200 --workers 2
repertoire add startpos --moves "d4 d5 c4" --store a.graph --side white
repertoire show --store a.graph
study import games.pgn --store a.graph
study list --store a.graph
note startpos --text "größer" --store a.graph
note startpos --store a.graph
~ mate "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1" --store m.graph
~ alphabeta startpos --depth 3
evaluate startpos
~ evaluate startpos --evaluator uci:ENGINE --evaluator-option nodes=10
store verify a.graph
store backup a.graph b.graph
~ store merge a.graph book.graph -o merged.graph
store compact merged.graph
store verify merged.graph
store info merged.graph
diff a.graph b.graph
lab sql a.graph "SELECT count(*) FROM game"
lab perft startpos 4
show startpos --store missing.graph
analyze "no position"
"""
DEEP = Path(*["a long name of a folder"] * 14)  # more than 260 characters
VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00)?|(\d+ h )?(\d+ min )?[\d.,]+ (ms|s|MB|kB|B)\b"
    r"|\"(seconds|created)\": [^,}]*|visits/s [\d.kM]+|[\d,.]+ per second"
)


def run(*words: str, folder: Path) -> tuple[int, bytes, bytes]:
    """Runs a command line in a folder and returns its exit code, stdout and stderr."""
    done = subprocess.run(
        [*PROGRAM, *words], cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout, done.stderr


HOUSE = """
import json, os, sys
from graphsearch.cli import main
asked, ended = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for stream in (sys.stdout, sys.stderr):
    stream.reconfigure(encoding="utf-8")
for line in asked:
    words, *files = json.loads(line)
    for number, file in enumerate(files, 1):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0))
        os.dup2(opened, number)
        os.close(opened)
    print(main(words), file=ended, flush=True)
"""


def run_all(commands: Iterable[list[str]], folder: Path) -> Iterator[tuple[int, bytes, bytes]]:
    """Runs command lines in one process, since Wine takes seconds to start one; yields as `run` returns."""
    files = [folder.parent / name for name in ("stdout", "stderr")]
    with subprocess.Popen(
        [sys.executable, "-c", HOUSE], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as house:
        assert house.stdin is not None
        assert house.stdout is not None
        for words in commands:
            house.stdin.write(json.dumps([words, *map(str, files)]).encode() + b"\n")
            house.stdin.flush()
            code = int(house.stdout.readline())
            yield code, files[0].read_bytes(), files[1].read_bytes()


def plain(data: bytes, folder: Path) -> str:
    """Returns output without what differs from run to run and from system to system."""
    text = data.decode("utf-8")
    for form in (str(folder), json.dumps(str(folder), ensure_ascii=False)[1:-1]):
        text = text.replace(form + os.sep * 2, "FOLDER/").replace(form + os.sep, "FOLDER/")
        text = text.replace(form, "FOLDER")
    return VOLATILE.sub("#", text).replace('\\"', "'").replace('"', "'")  # shells quote differently


def digests(folder: Path) -> dict[str, str]:
    """Returns digests of everything that was exported."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in files
        if path.suffix in {".bin", ".csv", ".jsonl", ".pgn", ".epd", ".svg", ".js", ".html", ".css"}
    }


def talk(folder: Path) -> list[str]:
    """Returns the best moves of the engine to a chess program that ends its lines as Windows does."""
    said = (
        b"uci\r\nsetoption name GraphFile value uci.graph\r\nsetoption name Threads value 1\r\nisready\r\n"
        b"ucinewgame\r\nposition startpos moves e2e4\r\ngo nodes 300\r\n"
    )
    with subprocess.Popen(
        [*PROGRAM, "uci"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        engine.stdin.write(said)
        engine.stdin.flush()
        lines = []
        for line in engine.stdout:
            lines.append(line.decode().split(" ponder")[0].strip())
            if line.startswith(b"bestmove"):
                engine.stdin.write(b"quit\r\n")
                engine.stdin.flush()
        return [line for line in lines if line.split(" ")[0] in {"uciok", "readyok", "bestmove"}]


def browse(folder: Path) -> list[str]:
    """Returns the answers of the page's server."""
    with subprocess.Popen(
        [*PROGRAM, "serve", "a.graph", "--port", "0", "--no-browser"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as server:
        assert server.stdout is not None
        address = b""
        for line in server.stdout:
            if found := re.search(rb"http://\S+", line):
                address = found[0]
                break
        try:
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with opener.open(address.decode(), timeout=300) as answer:
                return [str(answer.status), answer.headers["Content-Type"]]
        finally:
            server.kill()


WRITER = """
import sys, chess
from graphsearch import Graph, Limits, analyze
while True:
    with Graph.open(sys.argv[1]) as graph:
        result = analyze(graph, chess.Board(), Limits(visits=150))
    print(result.node.visits, flush=True)
"""


def kill_writers(folder: Path, kills: int) -> str:
    """Kills a process that writes, again and again; returns the first fault, or `sound`."""
    from graphsearch.store.store import Store
    from graphsearch.store.verify import verify

    path, known = folder / "killed.graph", 0
    for k in range(kills):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(1 + k % 3):
                known = max(known, int(writer.stdout.readline()))
            time.sleep(0.013 * k)
            writer.kill()
            rest = writer.stdout.read().split()
            known = max([known, *map(int, rest)])
        if problems := verify(path).problems:
            return f"after kill {k + 1}: {problems}"
        with Store.open(path, read_only=True) as store:
            visits = max(root.visits for root in store.roots())
        if visits < known:
            return f"after kill {k + 1}: {visits} visits, {known} were acknowledged"
    return "sound"


def main(samples: Path, kills: int) -> None:
    """Runs everything in a new folder and prints it."""
    found: dict[str, Any] = {}
    engine = subprocess.list2cmdline(PROGRAM) if os.name == "nt" else shlex.join(PROGRAM)
    os.environ.pop("GRAPHSEARCH_STORE", None)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as around:
        os.environ["GRAPHSEARCH_STATE_DIR"] = str(Path(around, "state"))
        folder = Path(around).resolve() / FOLDER
        folder.mkdir()
        (folder / "white.toml").write_text(BOOK, encoding="utf-8", newline="\n")
        for sample in samples.iterdir():
            (folder / sample.name).write_bytes(sample.read_bytes())
        lines = COMMANDS.strip().splitlines()
        commands = [
            [word.replace("ENGINE", f"{engine} uci") for word in shlex.split(line.removeprefix(UNEQUAL))]
            for line in lines
        ]
        alone = ALONE if kills < FULL else len(lines)
        answers = chain(
            (run(*words, folder=folder) for words in commands[:alone]), run_all(commands[alone:], folder)
        )
        began = time.monotonic()
        for line, (code, output, problem) in zip(lines, answers, strict=True):
            shown = problem * bool(code) + output * (not line.startswith(UNEQUAL))
            found[line] = [code, *plain(shown, folder).splitlines()]
            print(f"{time.monotonic() - began:5.1f} s  {line}", file=sys.stderr, flush=True)
            began = time.monotonic()
        deep = folder / DEEP
        os.makedirs(f"\\\\?\\{deep}" if os.name == "nt" else deep)  # noqa: PTH103
        code, _, problem = run(
            "analyze", "startpos", "--visits", "100", "--store", str(deep / "a.graph"), folder=folder
        )
        found["long path"] = [code, *(problem.decode().splitlines() if code else [])]
        found["files"] = digests(folder)
        found["uci"] = talk(folder)
        found["serve"] = browse(folder)
        found["killed"] = kill_writers(folder, kills)
    sys.stdout.reconfigure(newline="\n")  # type: ignore[union-attr]
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else FULL)
