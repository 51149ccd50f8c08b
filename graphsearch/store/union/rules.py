"""How the plain tables of two files become one: a rule for every table of `tables/columns.py`.

A row is known by the key of its table or, if that is a number which each file gives by itself, by other
columns (`identity`). Numbers of other rows are translated (`refs`). A new column needs no change here, a new
table one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the rows of a table are united.

    Attributes:
      refs: column -> table whose numbers it holds; a NULL stays one.
      by: of two rows that are the same one, that which is greater in these columns counts; else the old one.
      identity: columns that identify a row whose key is the number `id`; empty if the key itself does.
      until: the column that is NULL as long as such a row may change; without it, `by` alone decides.
      agree: columns in which the same row must agree: of two that do not, the second is left out, and named.
    """

    refs: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()
    until: str = ""
    agree: tuple[str, ...] = ()


# in the order in which they are united: numbers before what refers to them
NUMBERED: dict[str, Rule] = {
    "run": Rule(
        refs={"evaluator": "evaluator"},
        identity=("started", "position", "limits", "params", "kind", "program"),
        until="finished",
        by=("finished", "visits", "evaluations"),
    ),
    "book": Rule(identity=("name",), by=("updated", "created"), agree=("side",)),
    "book_run": Rule(
        refs={"book": "book", "run": "run"},
        identity=("started", "config", "workers"),
        until="finished",
        by=("finished", "visits", "evaluations", "positions", "searched", "seconds"),
    ),
    "book_queue": Rule(identity=("added", "book", "fen", "moves", "origin"), by=("changed",)),
    "player": Rule(identity=("name",)),
    "event": Rule(identity=("name", "site")),
    "entry_run": Rule(
        identity=("started", "kind", "fen", "limits", "evaluation", "program"),
        until="finished",
        by=("finished", "nodes", "seconds"),
    ),
    "entry_iteration": Rule(
        refs={"run": "entry_run"}, identity=("depth", "alpha", "beta", "value", "nodes", "seconds", "pv")
    ),
}

KEYED: dict[str, Rule] = {
    "root": Rule(by=("visits", "last_searched")),
    "root_history": Rule(refs={"run": "run"}, by=("saved",)),
    "book_history": Rule(refs={"book": "book", "run": "run"}, by=("saved",)),
    "game": Rule(refs={"source": "source", "white": "player", "black": "player", "event": "event"}),
    "opinion": Rule(refs={"evaluator": "evaluator", "run": "run"}, by=("n", "run")),
    "polyglot_entry": Rule(refs={"source": "source"}, by=("fen",)),  # one that has a name
    "epd_position": Rule(refs={"source": "source"}),
    "book_root": Rule(refs={"book": "book"}),
}

# tables that a module of their own unites: `numbers.py`, `imports.py`, `books.py`, `entries.py`, `records.py`
OWN = frozenset(
    {
        *("evaluator", "source", "game_position", "game_move", "book_position", "book_move"),
        *("entry_piece", "segment", "chunk", "block"),
    }
)

# facts of one file; what follows from the records and is written anew; leases of builds that run now
LEFT = frozenset({"store_info", "top_position", "top_edge", "book_lease"})
