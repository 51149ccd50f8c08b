"""What an export did, and what it left out."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

# what may be left out, in the order in which it is told: name -> one, several
LEFT_OUT = {
    "roots": ("root that the file does not hold", "roots that the file does not hold"),
    "missing": ("position that the file does not hold", "positions that the file does not hold"),
    "few_visits": ("position with too few visits", "positions with too few visits"),
    "other_side": ("position of the other side", "positions of the other side"),
    "at_depth": ("position at the depth limit", "positions at the depth limit"),
    "moves_few_visits": ("move with too few visits", "moves with too few visits"),
    "moves_beyond": ("move beyond --max-moves", "moves beyond --max-moves"),
    "moves_outside": ("move that leads out of the picture", "moves that lead out of the picture"),
    "moves_illegal": (
        "move that is not legal in its position",
        "moves that are not legal in their positions",
    ),
    "moves_scored_nothing": ("move that scored nothing", "moves that scored nothing"),
    "moves_scaled_away": ("move whose weight became 0", "moves whose weight became 0"),
    "clashes": ("position with the key of another one", "positions with the key of another one"),
    "unknown_entries": ("entry of an unknown position", "entries of unknown positions"),
}


@dataclass(slots=True)
class ExportReport:
    """What an export did.

    Attributes:
      form: `polyglot`, `pgn`, `epd`, `jsonl`, `csv`, `parquet`, `svg`, `dot` or `site`.
      path: of the output, `-` for a stream.
      positions, moves: written; of a PGN file, those of its trees. games: of a PGN file, else 0.
      transpositions: of a PGN file, moves that end in a reference.
      scaled: of a Polyglot book, moves whose weight did not fit 16 bits as it was.
      merged: of a Polyglot book, entries of one position and move that became one.
      left_out: what is not there, by the names of LEFT_OUT.
      problems: damage that was met, one line each. seconds: wall time.
    """

    form: str
    path: str
    positions: int = 0
    moves: int = 0
    games: int = 0
    transpositions: int = 0
    scaled: int = 0
    merged: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch export`."""
        return dataclasses.asdict(self) | {
            "left_out": {name: self.left_out[name] for name in LEFT_OUT if self.left_out[name]}
        }

    def left_out_lines(self) -> list[str]:
        """Returns what was left out, one line each."""
        return [
            f"left out: {self.left_out[name]:,} {words[self.left_out[name] != 1]}"
            for name, words in LEFT_OUT.items()
            if self.left_out[name]
        ]
