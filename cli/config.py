"""`graphsearch config`: the settings that hold, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .commands import report
from .settings import KEYS, NAME, Setting, settings, user_file
from .tables import LEFT, Part, table


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds, by name."""

    found: dict[str, Setting]

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch config`."""
        return {"settings": {name: asdict(one) for name, one in self.found.items()}}


def _view(found: Settings) -> Iterator[Part]:
    rows = []
    for name in KEYS:
        one = found.found.get(name)
        value = (
            "" if one is None else str(one.value).lower() if isinstance(one.value, bool) else str(one.value)
        )
        rows.append(
            {"Setting": name, "Value": value or "-", "From": "default" if one is None else one.origin}
        )
    yield table(rows, dict.fromkeys(("Setting", "Value", "From"), LEFT))
    yield f"\nSettings are read from the nearest {NAME}, then from {user_file()}."


@report(
    "Print the settings that hold here, and where they are from.",
    "graphsearch config",
    view=_view,
)
def config() -> Settings:
    """Print the defaults of options that hold in this folder, and where each is from.

    graphsearch.toml may set store, evaluator, ram, threads, syzygy, score-type and color:

    \b
      store = "books.graph"
      evaluator = "nnue:stockfish"
      threads = 8

    The nearest one from this folder upwards holds, then the user's. The variable GRAPHSEARCH_STORE comes
    before both for the graph file, and options of the command line before everything.

    JSON: `settings`, each with `value` and `origin`.
    """
    return Settings(settings())
