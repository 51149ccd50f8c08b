"""Repertoires: books whose moves a person chose, own moves and the replies to them; and their survey.

A repertoire is a book of its side without windows. It consists of positions with the keys of the graph, so a
line that transposes into it shares its moves. The survey compares it with the graph: likely positions,
missing replies, doubtful moves. A repertoire is written as PGN, from move one, and as the TOML of a book that
fills its gaps.

Functions with a path raise StoreError if the file cannot be read or written, and InvalidParameterError if the
side is not white or black.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import chess
import chess.pgn

from ...base.answer import Answer
from ...base.deadline import check_time
from ...base.errors import InvalidParameterError, InvalidPositionError
from ...base.limits import REPERTOIRE
from ...exchange.importing import GivenFile
from ...exchange.output import JUDGED_VISITS, mistake_of
from ...position.board import after, board_of, check, fen_of, key_text, legal_moves
from ...position.notation import numbered, ply_of
from ...position.openings import opening_at
from ...query.line import judge
from ...query.source import RecordSource, opened
from ...query.source import steps_of as visited_steps
from ...store.file import editing, opened_to_read
from ...store.provenance import now
from ...store.tables.books import REPERTOIRES, is_own_turn
from ...store.tables.games import games_by_move
from ...store.tables.rows import rows as rows_of_table
from ...store.tables.rows import table_of
from ...store.verify import Problems
from .. import rows
from ..growth import CHOSEN
from ..tree import LEAF, OPEN, BookMove, BookTree, Position, reply_share
from .studies import START, AnyPath, game_of, read_file, steps_of, text_of

SIDES = tuple(REPERTOIRES)
CONFIG = '[book]\nside = "{}"\nmax_ply = 1000\n[[window]]\nplies = [1000]\n'  # it adds no moves of its own
FURTHER_PLIES = 4  # of a book beyond the repertoire
LEAST_SHARE, LEAST_REACH = 0.05, 0.01  # of a reply, and of the line with it, to be a gap
LINE_KEYS = "root=at.root line=at.line moves=at.moves"  # of JSON objects
SECOND = 0.1  # weight of a second own move in the choice of main lines


@dataclass(frozen=True, slots=True)
class RepertoireChange(Answer):
    """The result of a change: numbers of added moves, removed moves, and moves now."""

    side: str
    added: int
    removed: int
    moves: int


@dataclass(slots=True, kw_only=True)
class ImportedRepertoire(Problems, Answer):
    """The result of an import into a repertoire; `problems` lists each skipped part with its reason."""

    json_keys = "side games added moves left_out=problems found"

    side: str
    games: int = 0
    added: int = 0
    moves: int = 0


@dataclass(slots=True)
class Repertoire:
    """The repertoire of a side, in memory.

    Attributes:
      book: number of its book; None before its first move. written: the roots in the file.
      tree: its positions and moves; the root that is the start position comes first.
    """

    side: str
    book: int | None
    tree: BookTree
    written: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of moves."""
        return sum(len(position.moves) for position in self.tree.positions.values())

    def is_own(self, key: str) -> bool:
        """Returns whether the side is to move in a position."""
        return is_own_turn(self.side, self.tree.positions[key].turn)

    def is_answered(self, key: str) -> bool:
        """Returns whether the repertoire has a move in a position."""
        return key in self.tree.positions and bool(self.tree.positions[key].moves)

    # -------------------------------------------------------------- changes
    def add_position(self, board: chess.Board) -> Position:
        """Returns the position of a board, which is added if it is new."""
        return self.tree.add(Position(key=key_text(board), fen=fen_of(board), ply=board.ply(), since=0))

    def begin(self, board: chess.Board) -> Position:
        """Returns the first position of a line; an unknown position becomes a root."""
        if key_text(board) not in self.tree.positions:
            self.tree.roots.append(key_text(board))
        return self.add_position(board)

    def add(self, position: Position, move: chess.Move) -> Position:
        """Adds a move of a position; returns the position after it."""
        board = board_of(position.fen)
        san = board.san(move)
        board.push(move)
        child = self.add_position(board)
        if move.uci() not in position.moves:
            made = BookMove(move=move.uci(), san=san, child=child.key, rule=CHOSEN, since=0)
            self.tree.link(position, made)
            position.state = OPEN
        return child

    def write(self, connection: sqlite3.Connection) -> None:
        """Writes what has changed; raises InvalidParameterError if there are too many moves."""
        if self.size > REPERTOIRE.most:
            raise InvalidParameterError(
                f"more than {REPERTOIRE.most:,} moves, the most for {REPERTOIRE.what}{REPERTOIRE.hint}"
            )
        if not self.tree.changed and self.written == (*self.tree.roots,):
            return
        if self.book is None:
            texts = {"name": REPERTOIRES[self.side], "side": self.side, "config": CONFIG.format(self.side)}
            book = table_of(connection, "book").insert(texts | {"created": now(), "updated": now()})
            self.book = int(book.last_pk or 0)
        positions = self.tree.positions
        rows.write_positions(connection, *rows.position_rows(self.tree, self.book, self.tree.changed))
        if self.written != (*self.tree.roots,):
            roots = [(key, positions[key].fen, CHOSEN) for key in self.tree.roots]
            rows.write_roots(connection, self.book, roots)


def checked_side(side: str) -> str:
    """Returns the side of a repertoire; raises InvalidParameterError if it is not white or black."""
    if side not in SIDES:
        raise InvalidParameterError(f"a repertoire is white's or black's, not {side or 'nobody'!r}")
    return side


def load(path: AnyPath, side: str) -> Repertoire:
    """Returns the repertoire of a side; of a damaged file, what fits together."""
    with opened_to_read(path) as connection:
        return load_from(connection, side)


def load_from(connection: sqlite3.Connection, side: str) -> Repertoire:
    """Returns the repertoire of a side from an open file; as `load`."""
    name = REPERTOIRES[checked_side(side)]
    for (number,) in rows_of_table(connection, "book", ("id",), "WHERE name = ?", (name,)):
        tree = BookTree()
        roots = rows.read_tree(connection, number, tree, whole=False)
        roots.sort(key=lambda root: root[1] != chess.STARTING_FEN)
        tree.roots = [key for key, _, _ in roots if key in tree.positions]
        return Repertoire(side, number, tree, (*tree.roots,))
    return Repertoire(side, None, BookTree())


@contextmanager
def _edited(path: AnyPath, side: str) -> Iterator[tuple[sqlite3.Connection, Repertoire]]:
    """Yields the repertoire of a side in an open file, and writes it in the same transaction."""
    checked_side(side)
    with editing(path) as connection:
        found = load_from(connection, side)
        yield connection, found
        found.write(connection)


# ------------------------------------------------------------------ adding
def add_line(path: AnyPath, side: str, board: chess.Board) -> RepertoireChange:
    """Adds the moves to a position to a side's repertoire: own moves, and the replies to them.

    Raises:
      InvalidParameterError: if there is no move to add, or there are too many moves.
      InvalidPositionError: if the position is illegal.
    """
    check(board)
    if not board.move_stack:
        raise InvalidParameterError("name a line: there is no move to add")
    with _edited(path, side) as (_, found):
        before, position = found.size, found.begin(board.root())
        for move in board.move_stack:
            position = found.add(position, move)
    return RepertoireChange(side, found.size - before, 0, found.size)


def import_file(path: AnyPath, side: str, given: GivenFile) -> ImportedRepertoire:
    """Adds all lines of a PGN file, compressed or not, or of a stream, to a side's repertoire.

    Raises:
      ImportFileError: if the file cannot be read, or has no game that can be read.
      InvalidParameterError: if there are too many moves.
      StoreError: if the file cannot be written; nothing is added then.
    """
    report = ImportedRepertoire(side=checked_side(side))
    games = read_file(given, report)
    with _edited(path, side) as (_, found):
        before = found.size
        for game in games:
            check_time()
            if game.tree.variations:
                at = {START: found.begin(game.tree.board())}
                for step in steps_of(game.tree):
                    at[step.number] = found.add(at[step.parent], step.move)
    report.games, report.added, report.moves = len(games), found.size - before, found.size
    return report


# ------------------------------------------------------------------ removing
def remove_move(path: AnyPath, side: str, board: chess.Board) -> RepertoireChange:
    """Removes the last move of a line from a side's repertoire, with all positions that only it reached.

    Raises:
      InvalidParameterError: if the line has no moves.
      InvalidPositionError: if the repertoire does not have the move.
    """
    if not board.move_stack:
        raise InvalidParameterError("name a line, whose last move is removed")
    before = board.copy()
    move = before.pop()
    with _edited(path, side) as (connection, found):
        size, position = found.size, found.tree.positions.get(key_text(before))
        if position is None or move.uci() not in position.moves:
            san = before.san(move)
            raise InvalidPositionError(f"{side}'s repertoire does not have {san} in {fen_of(before)}")
        found.tree.unlink(position, move.uci())
        position.state = OPEN if position.moves else LEAF
        found.tree.roots = [key for key in found.tree.roots if found.is_answered(key)]
        _drop(found, connection, found.tree.positions.keys() - found.tree.reachable())
        found.tree.lengthen()
    return RepertoireChange(side, 0, size - found.size, found.size)


def _drop(found: Repertoire, connection: sqlite3.Connection, keys: Collection[str]) -> None:
    """Deletes positions with their moves."""
    for key in keys:
        found.tree.positions.pop(key)
    for position in found.tree.positions.values():
        position.parents -= set(keys)
    found.tree.changed -= set(keys)
    for table in ("book_position", "book_move"):
        pairs = [(found.book, key) for key in keys]
        connection.executemany(f"DELETE FROM {table} WHERE book = ? AND key = ?", pairs)  # noqa: S608 (constants)


# ------------------------------------------------------------------ survey
@dataclass(frozen=True, slots=True)
class SurveyedMove(Answer):
    """A move of a repertoire; values are seen by the side that plays it.

    Attributes:
      n, q, cp, mate: edge N, Q, centipawns, moves to a mate; None where the graph has none.
      share: probability of a reply (1 for own moves). games: imported games with it.
      loss: of Q against the best move, None if it cannot be judged. nag: ?!, ? or ?? by this loss, else None.
      best_san: the best move in SAN; None if it is this one or unknown.
    """

    move: str
    san: str
    child: str
    n: int | None
    q: float | None
    cp: int | None
    mate: int | None
    share: float
    games: int
    loss: float | None = None
    nag: int | None = None
    best_san: str | None = None


class MainLine(NamedTuple):
    """A position on its main line: the likeliest line, with first own moves preferred.

    Attributes:
      reach: probability of the line, own moves counting 1.
      root: FEN where it begins. line, moves: SAN and UCI from there.
    """

    position: str
    board: chess.Board
    reach: float
    root: str
    line: tuple[str, ...]
    moves: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SurveyedPosition(Answer):
    """A position of a repertoire, whether it is its side's turn, and the moves there, the likeliest first."""

    json_keys = f"key position=at.position own reach=at.reach {LINE_KEYS} opening replies"

    key: str
    at: MainLine
    own: bool
    opening: str | None
    replies: tuple[SurveyedMove, ...]


@dataclass(frozen=True, slots=True)
class Gap(Answer):
    """A likely reply without an answer, its numbers, and the reach of the line with it."""

    json_keys = f"position=at.position {LINE_KEYS} reply san reach share p n games"

    at: MainLine
    reply: str
    san: str
    reach: float
    share: float
    p: float | None
    n: int
    games: int


@dataclass(frozen=True, slots=True)
class WeakSpot(Answer):
    """An own move that loses clearly against the best one (`nag`), or has no search (no `q`)."""

    json_keys = f"position=at.position {LINE_KEYS} move reach=at.reach"

    at: MainLine
    move: SurveyedMove


@dataclass(frozen=True, slots=True)
class Survey(Answer):
    """The survey of a repertoire: numbers of own and all moves; the rest with the likeliest first.

    Each position comes after one that leads to it.
    """

    side: str
    own: int
    moves: int
    positions: tuple[SurveyedPosition, ...]
    gaps: tuple[Gap, ...]
    weak: tuple[WeakSpot, ...]


@dataclass(slots=True)
class Surveyor:
    """Looks up a repertoire in a graph file; computes the shares of replies once per position."""

    repertoire: Repertoire
    source: RecordSource
    _games: dict[str, dict[str, int]] = field(default_factory=dict)
    _shares: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reads the imported games and the records of all positions at once."""
        positions = self.repertoire.tree.positions
        self.source.read_ahead({key: board_of(one.fen) for key, one in positions.items()})
        self._games = games_by_move(self.source.store, positions)

    def games(self, key: str) -> Mapping[str, int]:
        """Returns the imported games of a position by move."""
        return self._games.get(key, {})

    def shares(self, position: Position) -> dict[str, float]:
        """Returns the probability of each move of a position: 1 for own moves, else from games or the graph.

        With 20 games or more, it is the share of games; otherwise the greater of P and the share of N. If
        nothing is known about the moves of the repertoire, they get equal shares.
        """
        key = position.key
        if self.repertoire.is_own(key):
            return dict.fromkeys(position.moves, 1.0)
        if key not in self._shares:
            likely = self._likely(board_of(position.fen))
            games = self.games(key)
            found = {move: reply_share(games, move, p) for move, p in likely.items()}
            if position.moves and not any(found.get(move) for move in position.moves):
                found |= dict.fromkeys(position.moves, 1 / len(position.moves))
            self._shares[key] = found
        return self._shares[key]

    def _likely(self, board: chess.Board) -> dict[str, float]:
        """Returns the greater of P and the share of N, by move."""
        moves = [move.uci() for move in legal_moves(board)]
        record = self.source.read(board)
        if record is None or not record.codes:
            return dict.fromkeys(moves, 0.0)
        visits = max(1, sum(edge.n for edge in record.edges))
        found = {moves[at]: record.priors[at] for at in record.order}
        for at, edge in zip(record.order, record.edges, strict=False):
            found[moves[at]] = max(found[moves[at]], edge.n / visits)
        return found

    def main_lines(self) -> dict[str, MainLine]:
        """Returns the positions that lines reach, the likeliest first, each after one that leads to it."""
        tree = self.repertoire.tree
        weights, ways = tree.likeliest_ways(self._weights)
        found: dict[str, MainLine] = {}
        for key in sorted(weights, key=lambda key: (-weights[key], tree.positions[key].ply)):
            check_time()
            line, reach = tree.line(key, ways), 1.0
            root = tree.positions[line.keys[0]].fen
            if key in ways:
                before, move = ways[key]
                reach = found[before].reach * self.shares(tree.positions[before]).get(move.move, 0.0)
            fen = tree.positions[key].fen
            found[key] = MainLine(fen, board_of(fen), reach, root, line.sans, line.moves)
        return found

    def position(self, key: str, at: MainLine) -> SurveyedPosition:
        """Returns a position with its moves."""
        position, opening = self.repertoire.tree.positions[key], opening_at(at.board)
        moves = [
            self._move(position, at.board, row)
            for row in position.moves.values()
            if at.board.is_legal(chess.Move.from_uci(row.move))
        ]
        return SurveyedPosition(
            key=key,
            at=at,
            own=self.repertoire.is_own(key),
            opening=str(opening) if opening else None,
            replies=tuple(sorted(moves, key=lambda move: -move.share)),
        )

    def _move(self, position: Position, board: chess.Board, row: BookMove) -> SurveyedMove:
        move = chess.Move.from_uci(row.move)
        judged, behind = judge(self.source, board, move), self.source.read(after(board, move))
        n = judged.n or (behind.visits if behind else None)
        is_known = (n or 0) >= JUDGED_VISITS or judged.mate is not None
        loss = judged.cost if self.repertoire.is_own(position.key) and is_known else None
        return SurveyedMove(
            move=row.move,
            san=row.san,
            child=row.child,
            n=n,
            q=judged.q,
            cp=judged.cp,
            mate=judged.mate,
            share=self.shares(position).get(row.move, 0.0),
            games=self.games(position.key).get(row.move, 0),
            loss=loss,
            nag=None if loss is None else mistake_of(loss),
            best_san=None if loss is None or judged.best == move else judged.best_san,
        )

    def gaps(self, key: str, at: MainLine) -> Iterator[Gap]:
        """Yields the likely or known replies at a position without an answer."""
        if self.repertoire.is_own(key):
            return
        position, record = self.repertoire.tree.positions[key], self.source.read(at.board)
        visits = {step.move: step.edge.n for step in visited_steps(record, at.board)}
        for place, move in enumerate(legal_moves(at.board)):
            text = move.uci()
            share = self.shares(position).get(text, 0.0)
            likely = share >= LEAST_SHARE and share * at.reach >= LEAST_REACH
            child = after(at.board, move)
            if not (likely or text in position.moves) or self.repertoire.is_answered(key_text(child)):
                continue
            if any(child.legal_moves):
                yield Gap(
                    at=at,
                    reply=text,
                    san=at.board.san(move),
                    reach=share * at.reach,
                    share=share,
                    p=record.priors[place] if record and record.codes else None,
                    n=visits.get(move, 0),
                    games=self.games(key).get(text, 0),
                )

    def _weights(self, position: Position) -> dict[str, float]:
        """Returns the weights of the moves of a position in the choice of main lines."""
        shares = self.shares(position)
        if not self.repertoire.is_own(position.key):
            return shares
        return {move: SECOND if rank else 1.0 for rank, move in enumerate(position.moves)}


def survey(path: AnyPath, side: str) -> Survey:
    """Returns the survey of a side's repertoire, from the graph and imported games."""
    repertoire = load(path, side)
    with opened(path) as source:
        surveyor = Surveyor(repertoire, source)
        lines = surveyor.main_lines()
        positions = tuple(surveyor.position(key, at) for key, at in lines.items())
        gaps = [gap for key, at in lines.items() for gap in surveyor.gaps(key, at)]
    weak = [
        WeakSpot(one.at, move)
        for one in positions
        if one.own
        for move in one.replies
        if move.nag is not None or move.q is None
    ]
    return Survey(
        side=side,
        own=sum(len(one.replies) for one in positions if one.own),
        moves=repertoire.size,
        positions=positions,
        gaps=tuple(sorted(gaps, key=lambda gap: (-gap.reach, len(gap.at.line)))),
        weak=tuple(sorted(weak, key=lambda spot: (-spot.at.reach, len(spot.at.line)))),
    )


# ------------------------------------------------------------------ files
Lines = dict[str, MainLine]
Ordered = dict[str, list[BookMove]]


def _main_lines(path: AnyPath, side: str) -> tuple[Repertoire, Lines, Ordered]:
    """Returns a repertoire, its positions on their main lines, and the moves of each, the likeliest first."""
    found = load(path, side)
    if not found.size:
        raise InvalidParameterError(f"{side}'s repertoire is empty; `graphsearch repertoire add` adds a line")
    moves: Ordered = {}
    with opened(path) as source:
        surveyor = Surveyor(found, source)
        main_lines = surveyor.main_lines()
        for key in main_lines:
            position = found.tree.positions[key]
            shares = surveyor.shares(position)
            there = [(-shares.get(move.move, 0.0), move) for move in position.moves.values()]
            moves[key] = [move for _, move in sorted(there, key=itemgetter(0))]
    return found, main_lines, moves


# ------------------------------------------------------------------ PGN
def pgn_of_repertoire(path: AnyPath, side: str) -> str:
    """Returns the repertoire of a side as PGN: a game for each root, replies and alternatives as variations.

    Each position is expanded once, on its main line; elsewhere a comment refers to it.

    Raises:
      InvalidParameterError: if its repertoire is empty.
      StoreError: if the file cannot be read, or has an illegal move.
    """
    repertoire, main_lines, moves = _main_lines(path, side)
    games = []
    for number, key in enumerate(repertoire.tree.roots, start=1):
        if moves.get(key):
            headers = {"Event": f"{side.capitalize()} repertoire", "Round": str(number)}
            games.append(_game(repertoire, main_lines, moves, key, headers))
    return "\n".join(games)


def _game(
    repertoire: Repertoire, main_lines: Lines, moves: Ordered, root: str, headers: dict[str, str]
) -> str:
    game = game_of(board_of(repertoire.tree.positions[root].fen), (), headers=headers)
    waiting: list[tuple[str, chess.pgn.GameNode]] = [(root, game)]
    while waiting:
        key, node = waiting.pop()
        line = main_lines[key].moves
        for move in moves[key]:
            there = main_lines.get(move.child)
            if there is None:
                continue  # in a damaged file
            added = node.add_variation(chess.Move.from_uci(move.move))
            if there.root == main_lines[key].root and there.moves == (*line, move.move):
                waiting.append((move.child, added))
            elif moves[move.child]:
                added.comment = f"transposes to {_line_text(there)}"
    return text_of(game)


def _line_text(main_line: MainLine) -> str:
    return numbered(main_line.line, ply_of(main_line.root)) if main_line.line else "the first position"


# ------------------------------------------------------------------ TOML
def toml_of_repertoire(path: AnyPath, side: str, name: str) -> str:
    """Returns the TOML of a book that keeps to a repertoire and answers the likely replies that it lacks.

    Own moves are forced, and the only ones in their positions. The replies of the repertoire are forced.

    Raises:
      InvalidParameterError: if its repertoire is empty.
    """
    repertoire, main_lines, moves = _main_lines(path, side)
    deepest = max(len(main_line.moves) + ply_of(main_line.root) for main_line in main_lines.values())
    parts = [f'[book]\nname = {json.dumps(name)}\nside = "{side}"\nmax_ply = {deepest + FURTHER_PLIES}\n']
    parts += [f"[[root]]\n{_position(main_lines[key])}" for key in repertoire.tree.roots if moves.get(key)]
    parts.append(f"[[window]]\nreply_p = {LEAST_SHARE}\n")
    for key, main_line in main_lines.items():
        if moves[key]:
            only = "only = true\n" if repertoire.is_own(key) else ""
            names = ", ".join(f'"{move.move}"' for move in moves[key])
            parts.append(f"[[force]]\n{_position(main_line)}play = [{names}]\n{only}")
    return "\n".join(parts)


def _position(main_line: MainLine) -> str:
    start = "" if fen_of(board_of(main_line.root)) == chess.STARTING_FEN else f'fen = "{main_line.root}"\n'
    return f'{start}moves = "{_line_text(main_line)}"\n' if main_line.line else start or 'fen = "startpos"\n'
