"""Kills and faults over all commands: `python -m tests.fuzz.campaign --kills 1000 --faults 1000`.

Each run takes a fresh copy of a small graph file and executes one command in a forked process. The process
is killed at a random moment of its usual time, or its k-th write, sync, truncation, renaming, removal or
creation of a file fails. Afterwards the file must be sound, nothing may be lost that was there before or that
the command ended with, and the same command must succeed without help. Exit code 1 if one of these does not
hold. Needs Linux and a C compiler.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ..support.faults import shim as shims
from .disturbing import FAULT, KILLED, Campaign, Row
from .works import WORKS, Work


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="kills that hit, in all (default 100)")
    parser.add_argument("--faults", type=int, default=100, help="faults that hit, in all (default 100)")
    parser.add_argument(
        "--work", action="append", metavar="NAME", help="only these commands, by their name in the table"
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other moments")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)  # the shim that this process has
    return parser.parse_args(arguments)


def run(library: Path, chosen: Sequence[Work], kills: int, faults: int, seed: int) -> list[Row]:
    """Returns a row for each command; each is hit as often as the others, faults go on where kills end."""
    campaign, turns = Campaign(library, seed), itertools.cycle(chosen)
    try:
        for how, wanted in ((KILLED, kills), (FAULT, faults)):
            hits = tries = 0
            while hits < wanted and tries < 3 * wanted + len(chosen):
                hits += campaign.disturb(next(turns), how)
                tries += 1
                if not tries % 50:
                    print(f"{hits} of {wanted} {how}s", file=sys.stderr, flush=True)
    finally:
        campaign.close()
    return list(campaign.rows.values())


COLUMNS = (
    "runs", "kills", "faults", "refused", "survived", "late", "lost", "unsound", "not_repeated",
    "tracebacks", "hangs",
)  # fmt: skip


def _table(rows: Sequence[Row]) -> str:
    lines = [f"{'command':24}" + "".join(f"{name.replace('_', ' '):>13}" for name in COLUMNS)]
    for row in rows:
        lines.append(f"{row.work:24}" + "".join(f"{getattr(row, name):13}" for name in COLUMNS))
    lines.append(f"{'all':24}" + "".join(f"{sum(getattr(row, name) for row in rows):13}" for name in COLUMNS))
    lines += [f"{row.work}: {text}" for row in rows for text in row.problems]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 if anything was lost or went wrong."""
    options = _options(arguments)
    if why := shims.why_not():
        raise SystemExit(f"the campaign cannot run here: {why}")
    if options.library is None:  # a process has the shim from its start, or never
        with tempfile.TemporaryDirectory() as folder:
            library = shims.build(Path(folder))
            command = [sys.executable, "-m", "tests.fuzz.campaign", *arguments, "--library", str(library)]
            return subprocess.run(command, env=shims.environment(library), check=False).returncode
    chosen = [work for work in WORKS if not options.work or work.name in options.work]
    rows = run(options.library, chosen, options.kills, options.faults, options.seed)
    print(json.dumps([asdict(row) for row in rows]) if options.json else _table(rows))
    return int(any(row.bad for row in rows))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
