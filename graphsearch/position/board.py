"""Positions: python-chess Boards, their legality, packed words, keys, ends of games. Does not import Numba.

A packed position is `uint64[10]`; `schema/node_record.md` is its reference. Square 0 is a1, 63 is h8.

    word  0-5  squares of pawns, knights, bishops, rooks, queens, kings of both sides
          6-7  squares of White's and of Black's men: word `WHITE + side`, 0 for White
          8    META: bit 0 Black to move | 1-4 castling K Q k q | 5-11 en passant square + 1, 0 if no pawn
               stands ready to capture | 12-19 halfmove clock, at most 255 | 20 Chess960: a castling right
               is not standard | 21-32 files of the rooks of K Q k q, each XOR the standard one, 0 without
               the right; all 0 unless Chess960
          9    KEY: the Polyglot key

A kind of man has the number of its word, also in promotions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from itertools import repeat
from typing import TypeAlias

import chess
import chess.polyglot
import numpy as np
from numpy.typing import NDArray

from ..base.errors import InvalidPositionError
from ..base.limits import shortened
from ..jit.types import Pointer, uint64

Position: TypeAlias = Pointer[uint64]  # these ten words
BoardTable: TypeAlias = Pointer[uint64]  # [TABLE_WORDS], `tables.py`

PAWNS, KNIGHTS, BISHOPS, ROOKS, QUEENS, KINGS, WHITE, BLACK, META, KEY = range(10)
NO_MAN = 6  # of an empty square

BLACK_TO_MOVE = 1
CASTLING_SHIFT, CASTLING_BITS = 1, 15
EN_PASSANT_SHIFT, EN_PASSANT_BITS = 5, 127
CLOCK_SHIFT, CLOCK_BITS = 12, 255
CHESS960_SHIFT, CHESS960_BITS = 20, (1 << 13) - 1  # the bit, and the four files
CHESS960 = 1 << CHESS960_SHIFT
ROOK_FILES_SHIFT, FILE_BITS = CHESS960_SHIFT + 1, 3  # of each of the four
STANDARD_ROOK_FILES = 7 | 0 << 3 | 7 << 6 | 0 << 9  # K Q k q
META_BITS = CHESS960_SHIFT + 13  # the bits above are 0
KING_FILE = 4  # of standard castling
WITHOUT_CLOCK = ((1 << META_BITS) - 1) & ~(CLOCK_BITS << CLOCK_SHIFT)

MOST_PAWNS = 8  # of a side
POSITION_WORDS = KEY + 1  # 6 kinds of men, 2 colours, meta, Polyglot key
MAX_CLOCK = CLOCK_BITS
MAX_MOVE_NUMBER = 1 << 15  # the longest game has 5,898 moves
MOVE_CODES = 5 << 12  # of `encode_move`: two squares, and four promotions or none
MAX_MOVES = 255  # a byte of a record counts them; no legal position has more than 253
FREE_CLOCK = 75  # clocks up to here share one key
CHESS960_STARTS = 960
CLOCK_DRAW = 100  # half-moves without progress after which a draw may be claimed (50-move rule)
CLOCK_END = 150  # and those that end the game (75-move rule)

_CASTLING_ROOKS = (chess.BB_H1, chess.BB_A1, chess.BB_H8, chess.BB_A8)
_U64 = (1 << 64) - 1

Words = NDArray[np.uint64]

NOT_TERMINAL, CHECKMATE, STALEMATE, DEAD = 0, 1, 2, 3  # terminal kinds, as recorded


# ------------------------------------------------------------------ boards
class Chess960Board(chess.Board):
    """A Board with the moves of the packed position: `chess960` is True while castling is not standard.

    Castling is king takes own rook while a king or rook that may castle is not on its standard square, and
    the king's two steps otherwise.

    >>> board = as_chess960(chess.Board("4k2r/8/8/8/8/8/8/R3KR2 w Fk - 0 1"))
    >>> board.chess960, board.push_uci("e1f1").uci(), board.fen(), board.chess960
    (True, 'e1f1', '4k2r/8/8/8/8/8/8/R4RK1 b k - 1 1', False)
    """

    def settle(self) -> None:
        """Recomputes `chess960`; call it after setting the position by hand."""
        self.chess960 = self.has_chess960_castling_rights()

    def push(self, move: chess.Move) -> None:
        """Makes a move; castling in either notation."""
        super().push(move)
        self.settle()

    def pop(self) -> chess.Move:
        """Takes back the last move and returns it."""
        move = super().pop()
        self.settle()
        return move

    def root(self) -> Chess960Board:
        """Returns the first position of the game."""
        board = super().root()
        board.settle()
        return board


def as_chess960(board: chess.Board) -> Chess960Board:
    """Returns a copy of a game as a `Chess960Board`."""
    root, game = board.root(), Chess960Board(None)
    game.set_board_fen(root.board_fen())
    game.turn, game.castling_rights, game.ep_square = root.turn, root.castling_rights, root.ep_square
    game.halfmove_clock, game.fullmove_number = root.halfmove_clock, root.fullmove_number
    game.settle()
    for move in board.move_stack:
        game.push(move)
    return game


def settled(board: chess.Board) -> chess.Board:
    """Returns a game with the moves of the packed positions: `board` itself, or a `Chess960Board` copy."""
    return as_chess960(board) if board.chess960 and type(board) is chess.Board else board


def board_of(fen: str) -> chess.Board:
    """Returns the Board of a FEN, X-FEN or Shredder-FEN; a `Chess960Board` if castling is not standard there.

    Raises:
      InvalidPositionError: if python-chess cannot read it; the position itself is not checked.

    >>> board_of("nbbrknrq/pppppppp/8/8/8/8/PPPPPPPP/NBBRKNRQ w GDgd - 0 1").fen().split()[2]
    'KQkq'
    """
    try:
        board = chess.Board(fen)
    except ValueError as error:
        raise InvalidPositionError(str(error)) from None
    return as_chess960(board) if board.has_chess960_castling_rights() else board


def chess960_start(number: int) -> chess.Board:
    """Returns the Chess960 start position with a number from 0 to 959; 518 is standard chess."""
    return board_of(chess.Board.from_chess960_pos(number).fen())


def splitmix64(x: int) -> int:
    """Returns the splitmix64 hash of a 64-bit integer (Steele, Lea and Flood, 2014).

    >>> hex(splitmix64(0))
    '0xe220a8397b1dcdaf'
    """
    x = (x + 0x9E3779B97F4A7C15) & _U64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _U64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _U64
    return x ^ (x >> 31)


def clock_term(clock: int) -> int:
    """Returns the halfmove clock's part of the key, for XOR: 0 up to 75, then `splitmix64(clock)`.

    Near the 50-move limit the clock decides games, so there it is part of a position's identity.
    """
    return 0 if clock <= FREE_CLOCK else splitmix64(clock)


def pack(board: chess.Board) -> Words:
    """Returns the packed words of a position that passes `check_rules`; a clock above 255 becomes 255."""
    check_rules(board)
    return pack_checked(board)


def pack_checked(board: chess.Board, key: int | None = None) -> Words:
    """Returns the packed words of a position that passed `check`; `key`: its key, if that is known."""
    words = np.zeros(POSITION_WORDS, np.uint64)
    words[:META] = (
        board.pawns,
        board.knights,
        board.bishops,
        board.rooks,
        board.queens,
        board.kings,
        board.occupied_co[chess.WHITE],
        board.occupied_co[chess.BLACK],
    )
    ep = 0 if board.ep_square is None or not board.has_pseudo_legal_en_passant() else board.ep_square + 1
    clock = max(0, min(board.halfmove_clock, MAX_CLOCK))
    words[META] = (not board.turn) | castling_fields(board) | ep << EN_PASSANT_SHIFT | clock << CLOCK_SHIFT
    words[KEY] = chess.polyglot.zobrist_hash(board) if key is None else key ^ clock_term(clock)
    return words


def castling_fields(board: chess.Board) -> int:
    """Returns the castling fields of a position's META: the rights, and in Chess960 the rooks' files."""
    rights = board.clean_castling_rights()
    if not (board.chess960 and board.has_chess960_castling_rights()):
        return sum(1 << i for i, rook in enumerate(_CASTLING_ROOKS) if rights & rook) << CASTLING_SHIFT
    found = CHESS960
    for rook in chess.scan_forward(rights):
        colour = chess.WHITE if rook < chess.A2 else chess.BLACK
        king = board.king(colour)
        assert king is not None
        right = 2 * (not colour) + (rook < king)
        file = chess.square_file(rook) ^ STANDARD_ROOK_FILES >> FILE_BITS * right & 7
        found |= 1 << CASTLING_SHIFT + right | file << ROOK_FILES_SHIFT + FILE_BITS * right
    return found


def _castling_rooks(meta: int) -> int:
    files = meta >> ROOK_FILES_SHIFT ^ STANDARD_ROOK_FILES
    return sum(
        1 << (files >> FILE_BITS * right & 7) + 56 * (right // 2)
        for right in range(4)
        if meta >> CASTLING_SHIFT + right & 1
    )


def unpack(words: Iterable[int]) -> chess.Board:
    """Returns the Board of packed words, with fullmove number 1; does not read the key.

    >>> unpack(pack(chess.Board())).fen()
    'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1'
    """
    w = [int(x) for x in words]
    board = Chess960Board(None) if w[META] & CHESS960 else chess.Board(None)
    board.chess960 = bool(w[META] & CHESS960)
    board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings = w[:WHITE]
    board.occupied_co[chess.WHITE], board.occupied_co[chess.BLACK] = w[WHITE], w[BLACK]
    board.occupied = w[WHITE] | w[BLACK]
    board.turn = not w[META] & BLACK_TO_MOVE
    board.castling_rights = _castling_rooks(w[META])
    ep = w[META] >> EN_PASSANT_SHIFT & EN_PASSANT_BITS
    board.ep_square = ep - 1 if ep else None
    board.halfmove_clock = clock_of_words(w)
    return board


def fen_of(board: chess.Board) -> str:
    """Returns the FEN of a position, with the en passant square wherever a pawn stands ready to take.

    The key includes it then, even if the pawn is pinned. python-chess's default omits the square for a pinned
    pawn, and so writes a different position of the graph. A clock above 255 becomes 255, as in `pack`.

    >>> fen_of(chess.Board("8/8/8/KP5r/1R2Pp1k/8/8/8 b - e3 0 1"))
    '8/8/8/KP5r/1R2Pp1k/8/8/8 b - e3 0 1'
    """
    if board.halfmove_clock > MAX_CLOCK:
        board = board.copy(stack=False)
        board.halfmove_clock = MAX_CLOCK
    return board.fen(en_passant="xfen")


def key_of(board: chess.Board) -> int:
    """Returns the 64-bit key of a position: the Polyglot hash, XOR `clock_term`.

    >>> hex(key_of(chess.Board()))
    '0x463b96181691fc9c'
    """
    return chess.polyglot.zobrist_hash(board) ^ clock_term(min(board.halfmove_clock, MAX_CLOCK))


def clock_of_words(words: Words | Sequence[int]) -> int:
    """Returns the halfmove clock of packed words."""
    return int(words[META]) >> CLOCK_SHIFT & CLOCK_BITS


def key_of_words(words: Words | Sequence[int]) -> int:
    """Returns the key of packed words."""
    return int(words[KEY]) ^ clock_term(clock_of_words(words))


def key_text(board: chess.Board) -> str:
    """Returns the key of a position as text, in the form of `text_of_key` that tables and JSON use.

    >>> [key_text(board_of(f"4k3/8/8/8/8/8/8/4KRR1 w {rook} - 0 1")) for rook in "FG"]
    ['b9b0ecdc57d6e50a0005', 'b9b0ecdc57d6e50a0003']
    """
    return text_of_key(key_of(board), castling_fields(board) if board.chess960 else 0)


def key_text_of_words(words: Words | Sequence[int]) -> str:
    """Returns `key_text` of packed words."""
    return text_of_key(key_of_words(words), int(words[META]))


def text_of_key(key: int, meta: int) -> str:
    """Returns a key in 16 hex digits; appends bits 20-32 of META as 4 more if castling is not standard.

    The key alone has the side and wing of each castling right, but not which of two rooks castles.
    """
    return f"{key:016x}{meta >> CHESS960_SHIFT & CHESS960_BITS:04x}" if meta & CHESS960 else f"{key:016x}"


def key_of_text(text: str) -> int:
    """Returns the key in a text from `text_of_key`."""
    return int(text[:16], 16)


def terminal_kind(board: chess.Board) -> int:
    """Returns CHECKMATE, STALEMATE, DEAD (insufficient material) or NOT_TERMINAL, whatever the path."""
    if board.is_insufficient_material():
        return DEAD
    if any(board.generate_legal_moves()):
        return NOT_TERMINAL
    return CHECKMATE if board.is_check() else STALEMATE


def may_claim(board: chess.Board) -> bool:
    """Returns whether the side to move may claim a draw by the 50-move rule.

    >>> [may_claim(chess.Board(f"7k/8/8/8/8/8/8/K5R1 w - - {clock} 90")) for clock in (99, 100, 150)]
    [False, True, False]
    """
    return CLOCK_DRAW <= board.halfmove_clock < CLOCK_END and terminal_kind(board) == NOT_TERMINAL


def is_over_by_clock(board: chess.Board) -> bool:
    """Returns whether the 75-move rule ends the game; a checkmate or stalemate on the board comes first."""
    return board.halfmove_clock >= CLOCK_END and terminal_kind(board) == NOT_TERMINAL


def pack_root(board: chess.Board) -> NDArray[np.uint64]:
    """Returns the packed words of a position in which the side to move plays on instead of claiming a draw.

    Solvers take a clock of 100 for a draw. With 99, moves that mate or reset the clock count, and all others
    draw.
    """
    if board.halfmove_clock < CLOCK_DRAW:
        return pack(board)
    root = board.copy(stack=False)
    root.halfmove_clock = CLOCK_DRAW - 1
    return pack(root)


# ------------------------------------------------------------------ legality
def check_rules(board: chess.Board, given: str = "") -> None:
    """Raises InvalidPositionError with the reasons if a position is illegal; `given`: as of `check`."""
    check_type(board)
    if type(board).uci_variant != "chess":
        raise InvalidPositionError(
            f"only standard chess and Chess960 can be searched, not {type(board).uci_variant}"
        )
    if status := board.status():
        reasons = [s.name.lower().replace("_", " ") for s in chess.Status if s & status and s.name]
    else:
        colours = [colour for colour in chess.COLORS if not _is_promotion_possible(board, colour)]
        what = "has more promoted pieces than pawns that are gone"
        reasons = [f"{chess.COLOR_NAMES[colour]} {what}" for colour in colours]
    if reasons:
        raise InvalidPositionError(f"illegal position ({', '.join(reasons)}): {given or fen_of(board)}")


def check_type(board: object) -> None:
    """Checks that a position from a caller is a Board; raises InvalidPositionError if not."""
    if not isinstance(board, chess.Board):
        raise InvalidPositionError(
            f"the position must be a chess.Board, not {type(board).__name__}; use read_position(text).board"
        )


def _is_promotion_possible(board: chess.Board, colour: chess.Color) -> bool:
    """Returns whether each of a side's pieces can be an original one or a promoted pawn.

    No move turns a True into a False. The check bounds the number of moves: with fifteen queens, records and
    kernel buffers would be too small (tests/position/test_board.py).
    """
    own = board.occupied_co[colour]
    pieces = ((board.queens, 1), (board.rooks, 2), (board.bishops, 2), (board.knights, 2))
    promoted = sum(max(0, (men & own).bit_count() - first) for men, first in pieces)
    return promoted + (board.pawns & own).bit_count() <= MOST_PAWNS


def check(board: chess.Board, given: str = "") -> None:
    """Checks that a position can be searched; raises InvalidPositionError with the reason if not.

    Args:
      given: the FEN as the user wrote it, for the message; a board drops impossible rights, for example.
    """
    check_rules(board, given)
    if not 0 <= board.halfmove_clock <= MAX_CLOCK:
        raise InvalidPositionError(
            f"halfmove clock {shortened(str(board.halfmove_clock))} is out of range 0..{MAX_CLOCK}:"
            f" {shortened(given or board.fen(), 200)}"
        )
    if not 1 <= board.fullmove_number <= MAX_MOVE_NUMBER:
        raise InvalidPositionError(
            f"move number {shortened(str(board.fullmove_number))} is out of range 1..{MAX_MOVE_NUMBER}"
        )


# ------------------------------------------------------------------ moves
def encode_move(move: chess.Move) -> int:
    """Returns a move as 16 bits: from | to << 6 | promotion << 12 (0 none, 1-4 N B R Q).

    >>> encode_move(chess.Move.from_uci("a7a8q"))
    20016
    """
    return move.from_square | move.to_square << 6 | ((move.promotion - 1) << 12 if move.promotion else 0)


def decode_move(code: int) -> chess.Move:
    """Decodes a move from `encode_move`."""
    promotion = code >> 12 & 7
    return chess.Move(code & 63, code >> 6 & 63, promotion + 1 if promotion else None)


def legal_moves(board: chess.Board) -> list[chess.Move]:
    """Returns the legal moves in canonical order: of `canonical_rank`, of `generate_moves`, of records."""
    return sorted(board.generate_legal_moves(), key=partial(canonical_rank, board))


def canonical_rank(board: chess.Board, move: chess.Move) -> int:
    """Returns the sort key of a legal move in canonical order: group << 12 | first << 6 | second.

    Groups: 0 king steps, 1 castling (king's side first), 2 knights, 3 diagonal and 4 straight moves of
    bishops, rooks and queens, 5 pawn captures towards the a-file, 6 towards the h-file, 7 single and
    8 double pushes, 9 en passant. Pieces are sorted by from-square, then to-square; pawns by to-square, with
    promotions in the order Q N R B; en passant by from-square.
    """
    origin, target = move.from_square, move.to_square
    man = chess.BB_SQUARES[origin]
    if board.pawns & man:
        return _pawn_rank(board, move)
    if board.kings & man:
        return 1 << 12 | (63 - target) << 6 if board.is_castling(move) else target << 6
    if board.knights & man:
        return 2 << 12 | origin << 6 | target
    straight = (origin ^ target) & 7 == 0 or (origin ^ target) >> 3 == 0
    return (4 if straight else 3) << 12 | origin << 6 | target


_PROMOTION_ORDER = {None: 0, chess.QUEEN: 0, chess.KNIGHT: 1, chess.ROOK: 2, chess.BISHOP: 3}


def _pawn_rank(board: chess.Board, move: chess.Move) -> int:
    origin, target = move.from_square, move.to_square
    step = (target & 7) - (origin & 7)
    if step and not board.occupied & chess.BB_SQUARES[target]:
        return 9 << 12 | origin << 6
    group = (5 if step < 0 else 6) if step else 8 if abs(target - origin) == 16 else 7
    return group << 12 | target << 6 | _PROMOTION_ORDER[move.promotion]


def game_before(board: chess.Board, least: int) -> list[Words]:
    """Returns packed positions of a game before its last one, the latest first.

    Returns at least `least` positions if the game has them, then goes on to an irreversible move, so that
    every possible repetition of these positions is included.
    """
    game, found = settled(board).copy(), list[Words]()
    while game.move_stack and (len(found) < least or clock_of_words(found[-1])):
        game.pop()
        found.append(pack(game))
    return found


def after(board: chess.Board, move: chess.Move) -> chess.Board:
    """Returns the position after a move, without history."""
    child = board.copy(stack=False)
    child.push(move)
    return child


def occurrences(board: chess.Board, times: int) -> dict[int, chess.Board]:
    """Returns the positions that occurred so often since the last irreversible move, by Polyglot key."""
    game = settled(board).copy()
    counts, found = Counter[int](), dict[int, chess.Board]()
    while game.move_stack and game.halfmove_clock:
        game.pop()
        key = chess.polyglot.zobrist_hash(game)
        counts[key] += 1
        if counts[key] == times:
            found[key] = game.copy(stack=False)
    return found


def history_keys(board: chess.Board) -> NDArray[np.uint64]:
    """Returns the keys of the positions that occurred twice in the game."""
    return np.array(list(occurrences(board, 2)), np.uint64)


def problem_of(board: chess.Board, text: str, error: ValueError) -> str:
    """Returns what python-chess's error says of the text of a move, as `is ambiguous (Nbd2 or Nfd2)`."""
    if not isinstance(error, chess.AmbiguousMoveError):
        is_illegal = isinstance(error, chess.IllegalMoveError)
        return "is illegal" if is_illegal else "is neither a SAN nor a UCI move"
    target = text.partition("=")[0].rstrip("+#")[-2:]
    alike = (san for san in sorted(map(board.san, board.legal_moves)) if san[0] == text[0])
    return f"is ambiguous ({' or '.join(san for san in alike if san.rstrip('+#').endswith(target))})"


# ------------------------------------------------------------------ arrays of packed positions
_LETTERS = b"PNBRQK"  # by kind
_EMPTY = ord(".")
_RIGHTS = ["".join(c for i, c in enumerate("KQkq") if x >> i & 1) or "-" for x in range(16)]


def fens(words: NDArray[np.uint64], plies: Iterable[int] | None = None) -> list[str]:
    """Returns the FENs of packed positions, `[R, 10]`, as `fen_of(unpack(words))` does.

    Args:
      plies: of the positions, which give the fullmove numbers; None: these are 1.
    """
    numbers = repeat(1, len(words)) if plies is None else (ply // 2 + 1 for ply in plies)
    metas = words[:, META].tolist()
    fields = [_fields(meta) for meta in metas]
    for i in np.flatnonzero(words[:, META] & np.uint64(CHESS960)).tolist():
        fields[i] = _fields(metas[i], unpack(words[i].tolist()).castling_xfen())
    rows = zip(_placements(words), fields, numbers, strict=True)
    return [f"{placement} {middle} {number}" for placement, middle, number in rows]


@lru_cache(maxsize=1 << 12)
def _fields(meta: int, rights: str | None = None) -> str:
    """Returns the fields of a FEN between the placement and the move number."""
    turn, ep = "wb"[meta & BLACK_TO_MOVE], meta >> EN_PASSANT_SHIFT & EN_PASSANT_BITS
    rights = rights or _RIGHTS[meta >> CASTLING_SHIFT & CASTLING_BITS]
    square = chess.SQUARE_NAMES[ep - 1] if ep else "-"
    return f"{turn} {rights} {square} {meta >> CLOCK_SHIFT & CLOCK_BITS}"


def key_texts(words: NDArray[np.uint64]) -> list[str]:
    """Returns the keys of packed positions, `[R, 10]`, as `key_text_of_words` does."""
    text = words[:, KEY].astype(">u8").tobytes().hex()
    longer = (words[:, META] & np.uint64(CHESS960) > 0) | (clocks_of(words) > FREE_CLOCK)
    rows = enumerate(longer.tolist())
    return [key_text_of_words(words[i]) if more else text[16 * i : 16 * i + 16] for i, more in rows]


def clocks_of(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns the halfmove clocks of packed positions, `[R, 10]`."""
    return np.asarray(words[:, META] >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS), np.int64)


def _placements(words: NDArray[np.uint64]) -> list[str]:
    men = np.ascontiguousarray(words[:, : NO_MAN + 2]).astype("<u8").view(np.uint8)
    bits = np.unpackbits(men, axis=1, bitorder="little").reshape(len(words), NO_MAN + 2, 8, 8)
    board = np.full((len(words), 8, 8), _EMPTY, np.uint8)  # ranks from the first
    for kind, letter in enumerate(_LETTERS):
        board += bits[:, kind] * np.uint8(letter - _EMPTY)
    board += bits[:, BLACK] * np.uint8(ord("a") - ord("A"))
    ranks, which = np.unique(board[:, ::-1].reshape(-1).view(np.uint64), return_inverse=True)
    text = b"\n".join(ranks.view("V8").tolist()).decode("ascii")  # ranks repeat: each is written once
    for run in range(8, 0, -1):
        text = text.replace(chr(_EMPTY) * run, str(run))
    return list(map("/".join, np.array(text.splitlines(), object)[which].reshape(-1, 8).tolist()))
