"""Lines to the positions of a list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..query.routes import routes

MOST_PLIES = 24  # of a line on the page


def with_ways(path: Path, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns rows about positions, each with a line to it from a root as `way`; None if none is known."""
    found = routes(path, [row["position"] for row in rows])
    ways = {
        fen: {
            "start": way.start,
            "line": list(way.line),
            "opening": str(way.opening) if way.opening else None,
        }
        for fen, way in found.items()
    }
    return [row | {"way": ways.get(row["position"])} for row in rows]
