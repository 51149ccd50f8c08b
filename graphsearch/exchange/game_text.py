"""The text of a game that is kept, read again from the file that it was imported from."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import ImportFileError
from ..query.players import kept_game
from ..store.sharded.files import open_to_read
from ..store.tables.players import GameRow
from .sources import GivenFile, opened


@dataclass(frozen=True, slots=True)
class GameText:
    """A game: what the graph file keeps of it, the file that has its text, and the text."""

    game: GameRow
    file: str
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch query game`; the moves are in the text."""
        facts = asdict(self.game)
        facts["plies"] = len(facts.pop("moves"))
        return facts | {"file": self.file, "text": self.text}


def game_text(
    path: str | os.PathLike[str], source: int, number: int, *, file: str | os.PathLike[str] | None = None
) -> GameText:
    """Returns the text of a game, comments and variations included, as it stands in its file.

    Args:
      path: the graph file; it is only read.
      source, number: of the game, as the view `played_games` has them.
      file: where its PGN file is now; None: where it was when it was imported.

    Raises:
      InvalidParameterError: if the game is not kept.
      ImportFileError: if the PGN file is not there, or its bytes are others than those that were imported.
      StoreError: if the graph file cannot be read.
    """
    with open_to_read(path) as store:
        row, name, digest = kept_game(store, source, number)
    where = Path(file) if file is not None else Path(name)
    if not where.is_file():
        raise ImportFileError(
            f"{where}, which has the text of game {source}:{number}, is not there; name it with --file"
        )
    with opened(GivenFile(str(where)), where.parent) as given:
        if given.digest != digest:
            raise ImportFileError(
                f"{where} has changed since game {source}:{number} was imported from it;"
                " name the file as it was with --file"
            )
        return GameText(row, str(where), _decoded(given.cut(row.place, row.size)))


def _decoded(data: bytes) -> str:
    """Returns text as UTF-8 if it is that, else as Latin-1."""
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        return data.decode("latin-1").strip()
