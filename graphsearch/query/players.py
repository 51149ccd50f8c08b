"""Players of the imported games by name. Reads only."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..base.answer import Answer
from ..base.errors import InvalidParameterError
from ..store.store import Store
from ..store.tables import games as tables
from ..store.tables.games import GameRow, PlayerRow, sources
from .source import opened

MOST_NAMED = 12  # players that a message lists

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Players(Answer):
    """The answer of `players`: stored games, number of players, and the players found."""

    json_keys = "games total players=rows"

    games: int
    total: int
    rows: tuple[PlayerRow, ...]


def players(path: str | os.PathLike[str], text: str = "", *, top: int | None = None) -> Players:
    """Returns the players of a file's imported games, most games first.

    Args:
      path: the graph file; it is only read.
      text: only players whose names contain all of its words, or words that begin with them.
      top: most rows.

    Raises:
      InvalidParameterError: if the file has no players.
      StoreError: if it cannot be read.
    """
    with opened(path) as source:
        found = _all(source.store)
        rows = [row for row in found if matches(text, row.name)]
        return Players(tables.kept(source.store), len(found), tuple(rows[:top]))


def named(store: Store, names: Sequence[str]) -> list[PlayerRow]:
    """Returns the players with given names, exact or by beginnings of words: `carlsen m` is Carlsen, Magnus.

    Case, accents and punctuation do not matter. An exact name wins over longer ones.

    Raises:
      InvalidParameterError: if the file has no players, or a name matches none or several, which are listed.
    """
    there = _all(store)
    found = {row.id: row for name in names for row in _one(store, there, name)}
    return list(found.values())


def _all(store: Store) -> list[PlayerRow]:
    found = tables.players(store)
    if not found:
        raise InvalidParameterError(
            f"{store.path} has no players;"
            " `graphsearch import FILE --players` adds them, also from files that were imported before"
        )
    return found


def _one(store: Store, there: Sequence[PlayerRow], name: str) -> list[PlayerRow]:
    """Returns the players of a name: one, or several with names that differ only in case and punctuation."""
    exact = [row for row in there if row.name == name]
    same = exact or [row for row in there if _words(row.name) == _words(name)]
    found = same or [row for row in there if _words(name) and matches(name, row.name)]
    if len(found) == 1 or same:
        return found
    if not found:
        raise InvalidParameterError(f"{store.path} has no games of {name!r}; `players` lists all names")
    texts = [f"{row.name} ({row.games:,})" for row in found[:MOST_NAMED]]
    more = f" and {len(found) - MOST_NAMED:,} more" if len(found) > MOST_NAMED else ""
    raise InvalidParameterError(
        f"{name!r} may be {len(found):,} players (with their games): {'; '.join(texts)}{more};"
        " write more of the name, or give --player several times to take them together"
    )


def matches(text: str, name: str) -> bool:
    """Returns whether every word of a text begins a word of a name.

    >>> matches("carlsen m", "Carlsen, Magnus"), matches("vachier", "Vachier-Lagrave"), matches("x", "Tal")
    (True, True, False)
    """
    words = _words(name)
    return all(any(word.startswith(part) for word in words) for part in _parts(text))


def _words(text: str) -> tuple[str, ...]:
    plain = text.casefold()
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    return tuple(_WORD.findall(plain))


_parts = lru_cache(maxsize=100)(_words)  # cached: one text is compared with many names


def kept_game(store: Store, source: int, number: int) -> tuple[GameRow, str]:
    """Returns a stored game, and the name of the file that it comes from.

    Raises:
      InvalidParameterError: if the file keeps no such game.
    """
    row = tables.game(store, source, number)
    file = next((one.name for one in sources(store) if one.id == source), None)
    if row is None or file is None:
        raise InvalidParameterError(
            f"{store.path} has no game {source}:{number}; `import --players` stores games"
        )
    return row, file
