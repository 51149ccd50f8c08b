"""Which opening books a file has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..file import sql_errors
from ..store import Store
from .games import has_tables
from .rows import rows


@dataclass(frozen=True, slots=True)
class BookRow:
    """A row of the table `book`: `config` is the TOML text by which all of it was decided."""

    id: int
    name: str
    side: Literal["white", "black", "both"]
    config: str
    created: str
    updated: str


def books(store: Store) -> list[BookRow]:
    """Returns the books of a file, by name; none in a file of an older format."""
    if not has_tables(store):
        return []
    with sql_errors(store.path, "read it"):
        names = ("id", "name", "side", "config", "created", "updated")
        return [BookRow(*row) for row in rows(store.connection, "book", names, "ORDER BY name")]
