"""The worked examples of the format descriptions."""

from __future__ import annotations

import re
from pathlib import Path

SCHEMA = Path(__file__).resolve().parents[2] / "schema"


def example(name: str) -> dict[str, bytes]:
    """Returns the hex blocks of a description by title: lines ```` ```hex title ```` up to the next fence."""
    text = (SCHEMA / name).read_text("utf-8")
    found = {
        title: bytes.fromhex("".join(line.split("#")[0] for line in body.splitlines()))
        for title, body in re.findall(r"```hex (\w+)\n(.*?)```", text, re.DOTALL)
    }
    assert found, f"{name} has no worked example"
    return found
