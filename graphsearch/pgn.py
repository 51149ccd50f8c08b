"""One position out of a PGN file: a game's mainline, strictly read.

A search of the wrong position is worse than none, so whatever cannot be read is an error or a note.
"""

from __future__ import annotations

from pathlib import Path

import chess

from .errors import InvalidPositionError
from .pgn_text import NULL_MOVES, GameReader, PgnGame, variant_of

_GRAPH_FILE = b"SQLite format 3\0"


def read_pgn(
    path: Path, *, game: int | None = None, ply: int | None = None
) -> tuple[chess.Board, tuple[str, ...]]:
    """Returns the position after `ply` half-moves (all unless given) of a game's mainline, and notes.

    Raises:
      InvalidPositionError: if the file, the game or the ply is not there, the game is a variant,
        or its moves up to there cannot be read.
    """
    number = 1 if game is None else game
    where = f"game {number} of {path}"
    try:
        _refuse_other_files(path)
        with path.open(encoding="utf-8-sig", errors="replace") as handle:
            reader = GameReader(handle)
            games = iter(reader)
            found = next((one for k, one in enumerate(games, start=1) if k == number), None)
            more = game is None and next(games, None) is not None
    except OSError as error:
        raise InvalidPositionError(f"cannot read {path}: {error.strerror or error}") from None
    if found is None:
        reason = "it has neither headers nor moves" if number == 1 and reader.strays else "it holds fewer"
        raise InvalidPositionError(f"there is no {where}: {reason}")
    notes = [f"{path} holds more games; this is the first (--game chooses another)"] if more else []
    return _position_of(found, where, ply, notes), tuple(notes)


def _refuse_other_files(path: Path) -> None:
    if path.is_dir():
        raise InvalidPositionError(f"{path} is a directory, not a PGN file")
    if not path.is_file():
        return  # a pipe cannot be read twice
    with path.open("rb") as handle:
        head = handle.read(4096)
    if head.startswith(_GRAPH_FILE):
        raise InvalidPositionError(f"{path} is a database, not a PGN file; a graph file goes with --store")
    if b"\0" in head:
        raise InvalidPositionError(f"{path} is not a text file, so it is no PGN file")


def _position_of(game: PgnGame, where: str, ply: int | None, notes: list[str]) -> chess.Board:
    variant = variant_of(game.headers)
    if variant:
        raise InvalidPositionError(f"{where} is {variant}; only standard chess can be searched")
    if game.error:
        raise InvalidPositionError(f"{where}, line {game.error_line}: {game.error}")
    board = _start_board(game, where)
    error = _play(game, board)
    plies = len(board.move_stack)
    if error and (ply is None or ply > plies):
        raise InvalidPositionError(f"{where} breaks off after {plies} plies: {error}")
    if ply is not None and ply > plies:
        raise InvalidPositionError(f"{where} has {plies} plies; there is no ply {ply}")
    if error:
        notes.append(f"{where} breaks off after {plies} plies: {error}")
    if game.strays:
        more = ", ..." if len(game.strays) > 5 else ""
        notes.append(f"{where}: passed over {', '.join(game.strays[:5])}{more}")
    while ply is not None and len(board.move_stack) > ply:
        board.pop()
    return board


def _start_board(game: PgnGame, where: str) -> chess.Board:
    """Returns the Board on which a game begins.

    Raises:
      InvalidPositionError: if its FEN cannot be read, or has rights to castle that are those of Chess960.
    """
    fen = game.headers.get("FEN", chess.STARTING_FEN)
    try:
        board = chess.Board(fen)
    except ValueError as error:
        raise InvalidPositionError(f"{where} breaks off after 0 plies: {error}") from None
    if board.has_chess960_castling_rights():
        raise InvalidPositionError(f"{where} has Chess960 castling; only standard chess can be searched")
    return board


def _play(game: PgnGame, board: chess.Board) -> str:
    """Plays the moves of a game; returns why it breaks off, empty if it does not."""
    for word in game.moves:
        if word in NULL_MOVES:
            return "a null move (--), which no game contains"
        try:
            board.push(board.parse_san(word))
        except ValueError as error:
            return str(error)
    return ""
