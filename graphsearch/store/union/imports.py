"""Merges imports: an imported file counts once, however many graph files it was imported into.

The counts of games are sums over all PGN files, so they can be replaced, added or left out, but the share of
one file cannot be separated. Positions of EPD files and entries of Polyglot books have the number of their
file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import cast

from ..store import Store
from ..tables import games
from ..tables.games import GameSource, MoveRow
from .tables import Input, LeaveOut, portions

Identity = tuple[str, str, str]  # kind, digest and options of an import

PGN = "pgn"
_GAME_TABLES = ("game_move", "game_position")


def unite(store: Store, one: Input, leave_out: LeaveOut) -> dict[str, int]:
    """Merges the imports of an input and their games; returns the number of rows written.

    It needs an open transaction, and fills the numbers of the input's sources.

    Args:
      leave_out: called with a message if games cannot be merged without counting some twice.
    """
    ours, theirs = games.sources(store), games.sources(one.store)
    before = store.connection.total_changes
    one.numbers["source"] = {}
    pgns, others = (
        [[source for source in some if (source.kind == PGN) is wanted] for some in (ours, theirs)]
        for wanted in (True, False)
    )
    _enter(store, one, others[0], others[1])
    _unite_games(store, one, pgns[0], pgns[1], leave_out)
    return {"source": store.connection.total_changes - before}


def _identity(source: GameSource) -> Identity:
    return source.kind, source.digest, json.dumps(dict(source.options), sort_keys=True)


def _progress(source: GameSource) -> tuple[bool, int]:
    return source.finished is not None, source.taken + source.skipped


# ------------------------------------------------------------------ rows of `source`
def _enter(store: Store, one: Input, ours: Sequence[GameSource], theirs: Sequence[GameSource]) -> None:
    """Writes sources; of two states of one source, the more advanced one counts."""
    for source, known in _recognised(store, one, ours, theirs):
        if known is None:
            one.numbers["source"][source.id] = games.add_source(store, source)
        elif _progress(source) > _progress(known):
            store.connection.execute(
                "UPDATE source SET started = ?, finished = ?, taken = ?, skipped = ? WHERE id = ?",
                (source.started, source.finished, source.taken, source.skipped, known.id),
            )


def _recognised(
    store: Store, one: Input, ours: Sequence[GameSource], theirs: Sequence[GameSource]
) -> list[tuple[GameSource, GameSource | None]]:
    """Returns pairs of an input's source and the same one of ours, or None; keeps the larger `players`."""
    left, found = list(ours), list[tuple[GameSource, GameSource | None]]()
    for source in theirs:
        known = next((other for other in left if _identity(other) == _identity(source)), None)
        found.append((source, known))
        if known is None:
            continue
        left.remove(known)
        one.numbers["source"][source.id] = known.id
        if (source.players or 0) > (known.players or 0):
            store.connection.execute("UPDATE source SET players = ? WHERE id = ?", (source.players, known.id))
    return found


# ------------------------------------------------------------------ games
def _unite_games(
    store: Store,
    one: Input,
    ours: Sequence[GameSource],
    theirs: Sequence[GameSource],
    leave_out: LeaveOut,
) -> None:
    """Adds the games of an input, replaces ours by them, or leaves them out, depending on their sources."""
    if not theirs and next(one.rows("game_position", "LIMIT 1"), None):
        leave_out(
            f"{one.name}: its games are left out: its table source does not say which files they are of"
        )
    if _holds(ours, theirs):
        _recognised(store, one, ours, theirs)
        return
    if not Counter(map(_identity, ours)) & Counter(map(_identity, theirs)):
        _add_games(store, one)
        _enter(store, one, (), theirs)
    elif _holds(theirs, ours):
        for table in _GAME_TABLES:
            store.connection.execute(f"DELETE FROM {table}")  # noqa: S608 (constants)
        _add_games(store, one)
        _enter(store, one, ours, theirs)
    else:
        _recognised(store, one, ours, theirs)
        leave_out(_not_apart(one, ours, theirs))


def _holds(sources: Sequence[GameSource], others: Sequence[GameSource]) -> bool:
    """Returns whether `sources` include all games of `others`."""
    left = sorted(sources, key=_progress)
    for other in sorted(others, key=_progress):
        fitting = (s for s in left if _identity(s) == _identity(other) and _progress(s) >= _progress(other))
        found = next(fitting, None)
        if found is None:
            return False
        left.remove(found)
    return True


def _not_apart(one: Input, ours: Sequence[GameSource], theirs: Sequence[GameSource]) -> str:
    known = {_identity(source) for source in ours}
    missing = ", ".join(source.name for source in theirs if _identity(source) not in known)
    shared = ", ".join(source.name for source in theirs if _identity(source) in known)
    return (
        f"{one.name}: its games are left out: it counts those of {missing or 'some files'} together with"
        f" those of {shared}, which are there already; `graphsearch import` adds the missing file"
    )


def _add_games(store: Store, one: Input) -> None:
    for some in portions(one.rows("game_position", "ORDER BY key")):
        games.add_games(store, [(row[0], row[1], row[2]) for row in some], ())
    for moves in portions(one.rows("game_move", "ORDER BY key, move")):
        games.add_games(store, (), (cast(MoveRow, row) for row in moves))
