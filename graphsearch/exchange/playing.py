"""Replays the games of PGN files: converts words to positions and moves, and caches them between games."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import chess
import chess.polyglot

from ..base.errors import InvalidPositionError
from ..position.board import FREE_CLOCK, board_of, castling_fields, check, clock_term, text_of_key
from ..position.pgn_text import CLOSE, NULL_MOVES, OPEN, PgnGame, variant_of

MAX_NODES = 60_000  # cached positions: some 60 MB
NEW_NODES = 16  # cached per game: openings recur in other games, endgames do not
MAX_STARTS = 1000
_FILE = re.compile("[A-Ha-h]")  # in X-FEN: an inner rook may castle; with the outer one the key is the same


class BrokenGameError(Exception):
    """A game that cannot be replayed: the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class VariantError(Exception):
    """A game of a variant; the message is the variant's name."""


@dataclass(slots=True, eq=False)
class Node:
    """A position of the replayed games, with its cached moves by their words."""

    key: str
    fen: str
    ply: int
    steps: dict[str, PlayedStep] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class PlayedStep:
    """A move with its UCI, SAN and child position."""

    move: chess.Move
    uci: str
    san: str
    child: Node


@dataclass(frozen=True, slots=True)
class Played:
    """A move of a game; `step` is None for the position at its end."""

    node: Node
    step: PlayedStep | None
    variation: bool


class Player:
    """Replays games strictly, one at a time.

    Args:
      max_ply: skip moves from positions of this ply on, unread; None: skip none.

    Attributes:
      cut_variations: variations cut at a null move, in all games so far.
      null_line: line of the null move that ends the last game; 0 without one.
    """

    def __init__(self, max_ply: int | None = None) -> None:
        self._max_ply = max_ply
        self._nodes: dict[str, Node] = {}
        self._starts: dict[str, tuple[Node, chess.Board]] = {}
        self._fresh = 0
        self._names = PositionNames()
        self._board = chess.Board()
        self._start = chess.Board()
        self._moves: list[chess.Move] = []  # from the start to the current position
        self._pushed = 0  # number of them that are on the board; -1: the board is in another line
        self.cut_variations = 0
        self.null_line = 0

    def play(self, game: PgnGame) -> list[Played]:
        """Returns the moves of a game, including its variations.

        A null move ends the game or the variation; the moves before it are returned.

        Raises:
          BrokenGameError: if a move or the start position is invalid.
          VariantError: if it is neither standard chess nor Chess960.
        """
        node, self._start = self._begin(game, start_fen(game))
        self._board = self._start.copy(stack=False)
        self._moves, self._pushed, self._fresh, self.null_line = [], 0, 0, 0
        return list(self._played(game, node))

    # -------------------------------------------------------------- beginning
    def _begin(self, game: PgnGame, fen: str) -> tuple[Node, chess.Board]:
        found = self._starts.get(fen)
        if found is None:
            if len(self._starts) >= MAX_STARTS:
                self._starts.clear()
            board = start_board(game, fen)
            self._board, self._start = board, board
            found = self._starts[fen] = (self._node(board.ply()), board)
        return found

    # -------------------------------------------------------------- moves
    def _played(self, game: PgnGame, node: Node) -> Iterator[Played]:
        before: list[tuple[Node, list[chess.Move], Node]] = []  # state before each open variation
        last = node  # the position before the last move
        skipped = 0  # variation depth in a skipped part of the game
        for word, line in zip(game.moves, game.lines, strict=True):
            if skipped:
                skipped += (word == OPEN) - (word == CLOSE)
                if skipped or not before:
                    continue
            if word == OPEN:
                if node is last:
                    raise BrokenGameError(line, "a variation without a move before it")
                before.append((node, self._moves, last))
                self._jump(self._moves[:-1])
                node = last
            elif word == CLOSE:
                yield Played(node, None, bool(before))
                node, moves, last = before.pop()
                self._jump(moves)
            elif self._max_ply is not None and self._ply() >= self._max_ply:
                if not before:
                    break
                skipped = 1
            elif word in NULL_MOVES:
                if not before:
                    self.null_line = line
                    break
                self.cut_variations += 1
                skipped = 1
            else:
                step = self._step(node, word, line)
                yield Played(node, step, bool(before))
                last, node = node, step.child
        yield Played(node, None, bool(before))

    def _jump(self, moves: list[chess.Move]) -> None:
        self._moves = list(moves)
        self._pushed = -1

    def _step(self, node: Node, word: str, line: int) -> PlayedStep:
        # below FREE_CLOCK the clock cannot affect the next position's key
        is_free = self._start.halfmove_clock + len(self._moves) < FREE_CLOCK
        step = node.steps.get(word) if is_free else None
        if step is not None and self._ply() + 1 >= step.child.ply:
            self._moves.append(step.move)
            return step
        self._catch_up()
        try:
            move = self._board.parse_san(word)
        except ValueError as error:
            raise BrokenGameError(line, str(error)) from None
        san = self._board.san(move)
        self._board.push(move)
        self._moves.append(move)
        self._pushed += 1
        child = self._node(self._ply())
        step = PlayedStep(move, move.uci(), san, child)
        if node.key in self._nodes and child.key in self._nodes:
            node.steps[word] = step
        return step

    def _ply(self) -> int:
        return self._start.ply() + len(self._moves)

    def _catch_up(self) -> None:
        """Pushes the pending moves, so that the board shows the current position."""
        if self._pushed < 0:
            self._board = self._start.copy(stack=False)
            self._pushed = 0
        for move in self._moves[self._pushed :]:
            self._board.push(move)
        self._pushed = len(self._moves)

    def _node(self, ply: int) -> Node:
        """Returns the node of the board, with the lowest ply at which a game reached it."""
        key, fen = self._names.name(self._board)
        is_sole = not (self._board.chess960 and _FILE.search(self._board.castling_xfen()))
        node = self._nodes.get(key) if is_sole else None
        if node is None:
            node = Node(key, fen, ply)
            if is_sole:
                self._keep(node)
        elif ply < node.ply:
            node.fen, node.ply = fen, ply
        return node

    def _keep(self, node: Node) -> None:
        if self._fresh >= NEW_NODES or self._board.halfmove_clock > FREE_CLOCK:
            return  # above FREE_CLOCK, the key depends on the clock
        if len(self._nodes) >= MAX_NODES:
            self._nodes.clear()
            self._starts.clear()
        self._fresh += 1
        self._nodes[node.key] = node


def start_fen(game: PgnGame) -> str:
    """Returns the FEN of a game's first position, empty for the start position.

    Raises:
      BrokenGameError: if its text cannot be parsed, or it has no FEN and needs one.
      VariantError: if it is neither standard chess nor Chess960.
    """
    variant = variant_of(game.headers)
    if variant:
        raise VariantError(variant)
    if game.error:
        raise BrokenGameError(game.error_line, game.error)
    fen = game.headers.get("FEN", "")
    if not fen and game.headers.get("SetUp") == "1":
        raise BrokenGameError(game.line, "SetUp is 1, but there is no FEN")
    return fen


def start_board(game: PgnGame, fen: str) -> chess.Board:
    """Returns the board of a game's first position; an empty FEN is the start position.

    Raises:
      BrokenGameError: if the FEN is invalid.
    """
    try:
        board = board_of(fen or chess.STARTING_FEN)
    except ValueError as error:
        raise BrokenGameError(game.line, f"its FEN cannot be read: {error}: {fen}") from None
    try:
        check(board)
    except InvalidPositionError as error:
        raise BrokenGameError(game.line, str(error)) from None
    return board


# ------------------------------------------------------------------ names of positions
MAX_RANKS = 50_000  # cached per rank: some 10 MB

Rank = tuple[int, ...]  # 8 bits each: pawns, knights, bishops, rooks, queens, kings, White's pieces

_HASHER = chess.polyglot.ZobristHasher(chess.polyglot.POLYGLOT_RANDOM_ARRAY)
_CORNERS = ((chess.BB_H1, "K"), (chess.BB_A1, "Q"), (chess.BB_H8, "k"), (chess.BB_A8, "q"))
_RANDOM = chess.polyglot.POLYGLOT_RANDOM_ARRAY


class PositionNames:
    """Computes keys and FENs of boards, with a cache for each rank.

    >>> PositionNames().name(chess.Board())
    ('463b96181691fc9c', 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1')
    """

    def __init__(self) -> None:
        self._ranks: list[dict[Rank, tuple[int, str]]] = [{} for _ in range(8)]
        self._castling: dict[int, tuple[int, str]] = {}

    def name(self, board: chess.Board) -> tuple[str, str]:
        """Returns the key of a board as text, and its FEN."""
        key, texts = 0, []
        for ranks, rank, index in zip(self._ranks, _ranks(board), range(7, -1, -1), strict=True):
            found = ranks.get(rank)
            if found is None:
                if len(ranks) >= MAX_RANKS:
                    ranks.clear()
                found = ranks[rank] = _of_rank(rank, index)
            key ^= found[0]
            texts.append(found[1])
        castling = self._of_castling(board)
        ep = "-"
        if board.ep_square is not None:
            key ^= _HASHER.hash_ep_square(board)
            ep = chess.SQUARE_NAMES[board.ep_square] if board.has_pseudo_legal_en_passant() else "-"
        key ^= castling[0] ^ _HASHER.hash_turn(board) ^ clock_term(board.halfmove_clock)
        side = "w" if board.turn else "b"
        clocks = f"{board.halfmove_clock} {board.fullmove_number}"
        text = text_of_key(key, castling_fields(board) if board.chess960 else 0)
        return text, f"{'/'.join(texts)} {side} {castling[1]} {ep} {clocks}"

    def _of_castling(self, board: chess.Board) -> tuple[int, str]:
        if board.chess960:  # the meaning of a rook's square depends on the king
            return _HASHER.hash_castling(board), board.castling_xfen()
        rights = board.clean_castling_rights()
        found = self._castling.get(rights)
        if found is None:
            text = "".join(letter for corner, letter in _CORNERS if rights & corner) or "-"
            found = self._castling[rights] = (_HASHER.hash_castling(board), text)
        return found


def _ranks(board: chess.Board) -> zip[Rank]:
    """Returns the eight ranks of a board, the eighth first."""
    men = (board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings)
    return zip(*(bits.to_bytes(8, "big") for bits in (*men, board.occupied_co[chess.WHITE])), strict=True)


def _of_rank(rank: Rank, index: int) -> tuple[int, str]:
    """Returns a rank's term of the key (for XOR), and its text in a FEN."""
    key, text = 0, ""
    *kinds, white = rank
    for file in range(8):
        bit = 1 << file
        kind = next((k for k, bits in enumerate(kinds) if bits & bit), None)
        if kind is None:
            text += "1"
            continue
        is_white = bool(white & bit)
        key ^= _RANDOM[64 * (2 * kind + is_white) + 8 * index + file]
        text += chess.Piece(kind + 1, is_white).symbol()
    for run in range(8, 1, -1):
        text = text.replace("1" * run, str(run))
    return key, text
