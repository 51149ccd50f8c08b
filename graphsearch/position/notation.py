"""Positions and moves as people write them: `startpos`, FEN, EPD, PGN, lists of moves, other languages.

Every Board keeps its move stack: repetition counts need the game before the position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import chess

from ..base.errors import InvalidPositionError, UnusableFileError
from ..base.limits import FEN, shortened, size_text
from .board import CHESS960_STARTS, board_of, check, chess960_start, problem_of

START_WORD = "startpos"
MOVES_WORD = " moves "  # between a position and moves, as in UCI
POSITION_FILES = {".epd", ".fen", ".fens"}
_CHESS960_START = re.compile(r"chess960:(\d{1,9})", re.ASCII)

_PLACEMENT = re.compile(r"[1-8pnbrqkPNBRQK]+(?:/[1-8pnbrqkPNBRQK]+)+")  # perhaps too few ranks: still a FEN
_UCI_MOVE = re.compile(r"[a-h][1-8][a-h][1-8][nbrq]?")
_MOVE_NUMBER = re.compile(r"\d+\.+|[1-9]\d*$|\.+")
_LINE = re.compile(r"(?:1\.+\s*)?[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8][+#!?]*(?:[\s,]|$)")  # of moves
_CLOCK = re.compile(r"\s*([+-]?[0-9]{1,40})(?:\s*(;)|(?=\s)|$)")
# the EPD operations that are part of the position, outside quotes; an open quote ends at a semicolon
_CLOCKS = re.compile(r'"(?:(?:[^"\\]|\\.)*"|[^;]*)|\b(hmvc|fmvn)\s+(\S+?)\s*(?:;|$)')
_MOVES = re.compile(r"\s*moves\s+([^;\"]+)")  # as the first operation
_OPCODE = re.compile(r"\s*(?:$|[A-Za-z]\w*(?=\s|$))", re.ASCII)


@dataclass(frozen=True, slots=True)
class GivenPosition:
    """A position, whose move stack is the game that led to it, and remarks for the user, one line each."""

    board: chess.Board
    notes: tuple[str, ...] = ()


def read_position(
    text: str, *, moves: str | None = None, game: int | None = None, ply: int | None = None
) -> GivenPosition:
    """Returns the position that a text names, after `moves`.

    Args:
      text: `startpos`, `chess960:N` (a start position of Chess960), a FEN (the clocks may be missing), an EPD
        line, moves from the start position, one of these followed by `moves LIST`, or the path of
        a file of games (PGN) or positions (FEN, EPD).
      moves: SAN or UCI moves to play from there, with or without move numbers.
      game: number of the game in the PGN file, from 1; default: the first.
      ply: number of half-moves of the game to play; default: all.

    Raises:
      InvalidPositionError: if there is no such position, or it is not legal chess.
      UnusableFileError: if a file has no games or positions, or the wanted one cannot be read.

    >>> read_position("1. e4 e5").board == read_position("startpos moves e2e4 e7e5").board
    True
    """
    if f" {text}".startswith(MOVES_WORD) and not _is_there(text):
        text = f"{START_WORD} {text}"
    named, word, line = text.partition(MOVES_WORD)
    if word and moves is None and ";" not in line and not _is_there(text):
        text, moves = named, line
    given = _named_position(text.strip(), game, ply)
    play_moves(given.board, moves or "")
    check(given.board)
    return given


def _named_position(text: str, game: int | None, ply: int | None) -> GivenPosition:
    start, is_fen = start_position(text), begins_with_fen(text)
    if text and not start and _is_there(text):
        return GivenPosition(*_in_file(Path(text), game, ply))
    if (start or is_fen) and (game is not None or ply is not None):
        raise InvalidPositionError("a game or ply number is for a PGN file, not for a FEN or startpos")
    if is_fen and text.split() == [text]:
        raise InvalidPositionError(
            f"put a FEN in quotes, with all its fields; this is only its first one: {shortened(text)}"
        )
    if start or is_fen:
        return GivenPosition(start or board_from_fen(text))
    if not _LINE.match(text) or (game, ply) != (None, None):
        what = f"no file {shortened(text)!r}" if text else "an empty position"
        raise InvalidPositionError(
            f"{what}; give startpos, chess960:N, a FEN or moves in quotes, or a PGN file"
        )
    board = chess.Board()
    play_moves(board, text)
    return GivenPosition(board)


def _in_file(path: Path, game: int | None, ply: int | None) -> tuple[chess.Board, tuple[str, ...]]:
    from .pgn import open_text, read_pgn  # python-chess's PGN reader takes 20 ms to import

    with open_text(path) as lines:
        head = list(_through_first(lines))
        everything = chain(head, lines)
        if path.suffix.lower() not in POSITION_FILES and not (head and begins_with_fen(head[-1])):
            return read_pgn(everything, path, game=game, ply=ply)
        if ply is not None:
            raise InvalidPositionError(f"{path} holds positions, not games: there is no ply {ply}")
        return _numbered_fen(everything, path, game)


def _through_first(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.strip() and not line.startswith("#"):
            return


def _numbered_fen(
    lines: Iterable[str], path: Path, number: int | None
) -> tuple[chess.Board, tuple[str, ...]]:
    """Returns a position of a file by number, from 1; None: the first, with a note if there are more."""
    found = islice(read_fen_lines(lines), (number or 1) - 1, None)
    line, board = next(found, (0, None))
    if board is None and number in (None, 1):
        raise UnusableFileError(f"{path} has no positions")
    if board is None:
        raise InvalidPositionError(f"there is no position {number} in {path}: it holds fewer")
    if isinstance(board, InvalidPositionError):
        raise UnusableFileError(f"{path}, line {line}: {board}")
    more = number is None and next(found, None) is not None
    note = f"{path} holds more positions; this is the first (--game chooses another)"
    return board, (note,) if more else ()


def holds_positions(text: str) -> bool:
    """Returns whether a text is the path of a file with one position per line; True for a pipe."""
    if not _is_there(text) or Path(text).is_dir():
        return False
    if not Path(text).is_file() or Path(text).suffix.lower() in POSITION_FILES:
        return True
    from .pgn import open_text

    with open_text(Path(text)) as lines:
        head = list(_through_first(lines))
    return bool(head) and begins_with_fen(head[-1])


def begins_with_fen(text: str) -> bool:
    """Returns whether the first word of a text is the first field of a FEN, perhaps with too few ranks."""
    words = text.split(maxsplit=1)
    return bool(words) and bool(_PLACEMENT.fullmatch(words[0]))


def start_position(text: str) -> chess.Board | None:
    """Returns the start position with this name, None for any other text.

    Raises:
      InvalidPositionError: if the number of a Chess960 position is out of range.
    """
    if text == START_WORD:
        return chess.Board()
    found = _CHESS960_START.fullmatch(text)
    if not found:
        return None
    if int(found[1]) >= CHESS960_STARTS:
        raise InvalidPositionError(f"Chess960 has start positions 0 to {CHESS960_STARTS - 1}, not {text!r}")
    return chess960_start(int(found[1]))


def _is_there(text: str) -> bool:
    """Returns whether a text is the path of an existing file; False if it cannot be a path."""
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def named_board(text: str) -> chess.Board:
    """Returns the position that a text names: a `start_position`, or else a FEN or EPD (`board_from_fen`)."""
    return start_position(text) or board_from_fen(text)


def board_from_fen(text: str) -> chess.Board:
    """Returns the legal position of a FEN with 4 to 6 fields, or of an EPD line.

    Reads the EPD operations `hmvc` and `fmvn` (the clocks), and plays `moves`, as in UCI, if it is the first.
    Ignores all others, however odd.

    Raises:
      InvalidPositionError: with the reason, if the text is neither or the position is illegal.

    >>> board_from_fen("7k/8/8/8/8/8/8/K7 w - - hmvc 12; id \\"quiet\\";").fen()
    '7k/8/8/8/8/8/8/K7 w - - 12 1'
    """
    check_length(text)
    fields, rest = fields_of(text)
    if len(fields) < 4:
        raise InvalidPositionError(
            "a FEN needs at least four fields (pieces, side to move, castling, en passant), not"
            f" {shortened(text)!r}"
        )
    given = shortened(text.strip(), 200)
    try:
        clocks, operations = clocks_and_operations(rest)
        board = board_of(" ".join([*fields, *clocks]))
    except ValueError as error:
        raise InvalidPositionError(f"not a FEN: {_reason(error)}: {given!r}") from None
    check(board, repr(given))
    if moves := _MOVES.match(operations):
        play_moves(board, moves[1])
        check(board)
    return board


def fields_of(text: str) -> tuple[list[str], str]:
    """Returns the first four fields of a FEN or EPD, fewer if it has fewer, and the text after them.

    A semicolon may end the fourth one, as some programs write EPD.
    """
    fields = text.split(None, 4)
    if len(fields) < 4:
        return fields, ""
    square, end, more = fields[3].partition(";")
    return [*fields[:3], square], f"{more}{' ' * bool(more or end)}{''.join(fields[4:])}"


def check_length(text: str) -> None:
    """Raises InvalidPositionError if a FEN or EPD is too long."""
    if len(text) > FEN.most:
        raise InvalidPositionError(
            f"a FEN or EPD has at most {size_text(FEN.most)}, not {len(text):,} characters{FEN.hint}"
        )


def _reason(error: ValueError) -> str:
    """Returns python-chess's reason without the FEN that it repeats at the end."""
    return re.sub(r"(?: (?:in|of)(?: position part of)? fen)?: '.*$", "", str(error))


def clocks_and_operations(rest: str) -> tuple[list[str], str]:
    """Returns the clocks of a FEN or EPD from the text after its four fields, and the text of its operations.

    One clock or both may stand there, as in a FEN; else `hmvc` and `fmvn` give them, anywhere but in quotes.
    The last operation needs no semicolon, unless the text begins with a move. Raises ValueError if a clock is
    not a number, or no operations follow.

    >>> clocks_and_operations("7 30 bm e4;"), clocks_and_operations("hmvc 7; bm e4")
    ((['7', '30'], ' bm e4;'), (['7', '1'], 'hmvc 7; bm e4'))
    """
    found, at = list[str](), 0
    while len(found) < 2 and (match := _CLOCK.match(rest, at)):
        found.append(match[1])
        at = match.end()
        if match[2]:
            break
    operations = rest[at:]
    if ";" not in rest and (not _OPCODE.match(operations) or _LINE.match(operations.strip())):
        raise ValueError(
            "expected two clocks or EPD operations after the en passant field (moves follow 'moves')"
        )
    named = {name: value for name, value in _CLOCKS.findall(operations) if name}
    for name, value in named.items():
        if not found and not _CLOCK.fullmatch(value):
            raise ValueError(f"{name} must be a number, not {shortened(value)}")
    return [*found, "1"][:2] if found else [named.get("hmvc", "0"), named.get("fmvn", "1")], operations


def play_moves(board: chess.Board, text: str) -> None:
    """Plays a list of SAN or UCI moves; InvalidPositionError names the first that is not legal."""
    for number, move in enumerate(_move_words(text), 1):
        board.push(_parse_move(board, move, number))


def read_moves(board: chess.Board, text: str) -> list[chess.Move]:
    """Returns the moves of a list in SAN or UCI, alternatives in this position, at least one.

    >>> [move.uci() for move in read_moves(chess.Board(), "e4, g1f3")]
    ['e2e4', 'g1f3']
    """
    moves = [_parse_move(board, word, number) for number, word in enumerate(_move_words(text), 1)]
    if not moves:
        raise InvalidPositionError("the list of moves is empty")
    return moves


def _move_words(text: str) -> Iterator[str]:
    for word in re.split(r"[\s,]+", text):
        move = _MOVE_NUMBER.sub("", word, count=1) if _MOVE_NUMBER.match(word) else word
        if move:
            yield move


def _parse_move(board: chess.Board, text: str, number: int) -> chess.Move:
    bare = text.rstrip("!?")
    try:
        move = read_uci(board, bare) if _UCI_MOVE.fullmatch(bare) else board.parse_san(bare)
    except ValueError as error:
        raise _bad_move(board, text, number, problem_of(board, bare, error)) from None
    if not move:
        raise _bad_move(board, text, number, "is a null move, which no game contains")
    return move


def read_uci(board: chess.Board, text: str) -> chess.Move:
    """Parses a legal move, or the null move, in UCI.

    Castling may be written as king takes rook, or as the king's steps if no other move has that notation.
    Raises ValueError if the text is neither.

    >>> read_uci(board_from_fen("4k3/8/8/8/8/8/8/1R1K3R w HB - 0 1"), "d1g1").uci()
    'd1h1'
    """
    try:
        return board.parse_uci(text)
    except chess.IllegalMoveError:
        move = _castling_to(board, chess.Move.from_uci(text))
        if move is None:
            raise
        return move


def read_legal_uci(board: chess.Board, text: str) -> chess.Move:
    """Returns the legal move of a text in UCI, as `read_uci`, but ValueError for the null move."""
    move = read_uci(board, text)
    if not move:
        raise ValueError("the null move is not legal")
    return move


def _castling_to(board: chess.Board, steps: chess.Move) -> chess.Move | None:
    """Returns the legal castling that moves the king to the target of `steps`; None if there is none."""
    away = abs(chess.square_file(steps.from_square) - chess.square_file(steps.to_square))
    file = {6: 1, 2: -1}.get(chess.square_file(steps.to_square), 0)
    if not board.chess960 or steps.promotion or away < 2 or not file:
        return None
    if chess.square_rank(steps.from_square) != chess.square_rank(steps.to_square):
        return None
    for move in board.generate_castling_moves(chess.BB_SQUARES[steps.from_square]):
        if (move.to_square - move.from_square) * file > 0 and board.is_legal(move):
            return move
    return None


def _bad_move(board: chess.Board, text: str, number: int, problem: str) -> InvalidPositionError:
    return InvalidPositionError(f"move {number} of the list, {text!r}, {problem} in {board.fen()}")


def read_fen_lines(
    lines: Iterable[str], read: Callable[[str], chess.Board] = named_board
) -> Iterator[tuple[int, chess.Board | InvalidPositionError]]:
    """Yields `(line number, position or its error)` of lines, but not of blank ones and those with a `#`.

    >>> [(n, type(x).__name__) for n, x in read_fen_lines(["# two", "", "8/8/8/8/8/8/8/K1k5 w - -", "e4"])]
    [(3, 'Board'), (4, 'InvalidPositionError')]
    """
    for number, line in enumerate(lines, 1):
        text = line.strip().lstrip("\ufeff")
        if not text or text.startswith("#"):
            continue
        try:
            yield number, read(text)
        except InvalidPositionError as error:
            yield number, error


# ------------------------------------------------------------------ moves in SAN
def sans_of(board: chess.Board, moves: Iterable[chess.Move]) -> tuple[str, ...]:
    """Returns the moves of a line in SAN."""
    walk, sans = board.copy(stack=False), []
    for move in moves:
        sans.append(walk.san(move))
        walk.push(move)
    return tuple(sans)


def legal_part(board: chess.Board, line: Iterable[str]) -> list[chess.Move]:
    """Returns the moves of a line in UCI, up to the first that is illegal."""
    walk, moves = board.copy(stack=False), []
    for text in line:
        try:
            moves.append(walk.push_uci(text))
        except ValueError:
            break
    return moves


def ply_of(fen: str) -> int:
    """Returns the number of half-moves before a position, from its move number and side to move."""
    fields = fen.split()
    return 2 * (int(fields[5]) - 1) + (fields[1] == "b")


def number(ply: int, *, first: bool = True) -> str:
    """Returns the move number to print before a move at a ply; for Black, empty unless `first`.

    >>> number(0), number(3), number(3, first=False)
    ('1.', '2...', '')
    """
    if ply & 1:
        return f"{ply // 2 + 1}..." if first else ""
    return f"{ply // 2 + 1}."


def numbered(sans: Sequence[str], ply: int) -> str:
    """Returns moves in SAN with their numbers; the first move is at `ply`.

    >>> numbered(["e5", "Nf3"], 1), numbered(["Kd7", "Ke2", "Ke6"], 13)
    ('1... e5 2. Nf3', '7... Kd7 8. Ke2 Ke6')
    """
    return " ".join(f"{number(at, first=at == ply)} {san}".lstrip() for at, san in enumerate(sans, ply))


# ------------------------------------------------------------------ moves in other languages
# letters of king, queen, rook, bishop and knight; the languages that share them stand together
LETTERS = {
    "German, Danish, Norwegian, Swedish": "KDTLS",
    "French": "RDTFC",
    "Spanish, Italian": "RDTAC",
    "Portuguese": "RDTBC",
    "Dutch": "KDTLP",
    "Polish": "KHWGS",
    "Czech, Slovak": "KDVSJ",
    "Hungarian": "KVBFH",
    "Russian": "КФЛСК",
}
ENGLISH = "KQRBN"
FIGURINES = str.maketrans("♔♕♖♗♘♚♛♜♝♞", ENGLISH * 2, "♙♟\ufe0e\ufe0f")
RUSSIAN_KING = ("Кр", "K")  # noqa: RUF001 (the knight is К)


def readings(text: str) -> Iterator[str]:
    """Yields a text of moves with letters for figurines, then with each language's letters as English ones.

    >>> "1. Nf3 d5 2. Qe2" in readings("1. Sf3 d5 2. De2")
    True
    """
    text = text.translate(FIGURINES)
    yield text
    for letters in LETTERS.values():
        moves = text.replace(*RUSSIAN_KING) if letters == LETTERS["Russian"] else text
        # the letter of a piece that moves, or that a pawn becomes
        piece = rf"(?<!\w)[{letters}](?=[a-h]?[1-8]?[x:]?[a-h][1-8])|(?<=[a-h][18])=?[{letters}]\b"
        table = str.maketrans(letters, ENGLISH)
        found = re.sub(piece, lambda word: word[0].translate(table), moves)  # noqa: B023 (called here)
        if found != text:
            yield found
