"""Files of games for the tests of BOOK.toml."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from graphsearch.position.values import CP_FACTOR, CP_SLOPE

GAMES = """[White "A"]

1. e4 e5 2. Nf3 Nc6 *

[White "B"]

1. e4 e5 2. Nf3 d6 3. d4 *

[White "C"]

1. e4 e5 2. Bc4 *

[White "D"]

1. e4 e5 2. Nf3 Nc6 3. Bb5 *
"""


@pytest.fixture
def games(tmp_path: Path) -> Path:
    (tmp_path / "games.pgn").write_text(GAMES)
    return tmp_path


def q_from_cp(cp: float) -> float:
    """Returns the Q whose centipawns (`centipawn`) are `cp`."""
    return math.atan(cp / CP_FACTOR) / CP_SLOPE
