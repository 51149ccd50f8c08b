"""Imports games of PGN files into a graph file: counts and results by position and move.

cut_text -> GameText -> sure_game, or read_game of position/pgn.py -> GivenGame -> play -> PlayedBlock -> rows
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import chess
import chess.pgn
import numpy as np
from numpy.typing import NDArray

from ..base.dates import pgn_date
from ..base.errors import ImportFileError
from ..base.limits import GAME_MOVES
from ..position.board import KEY, KINGS, POSITION_WORDS, after, encode_move, fens, key_texts, pack
from ..position.board_kernel import MAX_LEGAL_MOVES, list_all
from ..position.openings import DEEPEST, opening_names, opening_places
from ..position.pgn import (
    RESULTS,
    GameText,
    ReadGame,
    cut_text,
    own_moves,
    read_game,
    read_tags,
    shown,
    start_board,
    variant_of,
)
from ..query.game_list import key_parts
from ..query.steps import CASTLING_STEP, Ints, Mask, Words, castling_of, names_of, positions_after, uci_names
from ..store.record import board_tables, keys_of
from ..store.store import Store
from ..store.tables import games as tables
from ..store.tables.games import GameRow, MoveRow, PositionRow
from ..store.tables.rows import MAX_GAME_MOVES
from .importing import Importing, Input, Problem
from .kept_games import TEXTS, TextKeeper

# ------------------------------------------------------------------ games to play
MAX_STARTS = 1000  # cached first positions
MAX_WORDS = 1 << 16  # cached words
LONGEST_WORD = 32  # characters of a move with its number, and more

# features of a legal move: its code (`encode_move`), the kind of its man, the wing of castling + 1
KIND_SHIFT, WING_SHIFT = 15, 18
CODE, FILE, RANK = (1 << KIND_SHIFT) - 1, 7, 7 << 3
ALWAYS = (1 << WING_SHIFT + 2) - 1 & ~FILE & ~RANK  # given by each text of a move
CASTLING = 3 << WING_SHIFT

_COMMENT = re.compile(r"\{[^}]*\}")
_NUMBER = re.compile(r"[1-9]\d{0,3}\.+|\.\.+")  # 0000 is a null move, also in a longer number
_MOVE = re.compile(
    r"(?:[1-9]\d{0,3}\.+)?(?:([NBRQK])([a-h]?)([1-8]?)x?([a-h][1-8])|(?:([a-h])x)?([a-h][1-8])(?:=?([NBRQ]))?"
    r"|(O-O(?:-O)?))[+#]?[!?]{0,2}"
)
_LETTERS = " NBRQK"  # by kind; a pawn has none


class Wanted(NamedTuple):
    """The features of a move that a text gives: its bits in `mask` are `value`."""

    mask: int
    value: int


NO_MOVE, ODD_WORD = Wanted(0, 0), Wanted(-1, -1)


@lru_cache(maxsize=MAX_WORDS)
def wanted_move(word: str) -> Wanted:
    """Returns the features of the move in a word; NO_MOVE for a move number, ODD_WORD for any other word."""
    found = _MOVE.fullmatch(word)
    if not found:
        return NO_MOVE if _NUMBER.fullmatch(word) else ODD_WORD
    letter, file, rank, target, pawn_file, pawn_target, promotion, castling = found.groups()
    if castling:
        return Wanted(CASTLING, (1 if castling == "O-O" else 2) << WING_SHIFT)
    target, file = target or pawn_target, file or pawn_file or ("" if letter else pawn_target[0])
    mask = ALWAYS | (FILE if file else 0) | (RANK if rank else 0)
    value = _LETTERS.index(letter or " ") << KIND_SHIFT | _LETTERS.index(promotion or " ") << 12
    value |= chess.parse_square(target) << 6
    return Wanted(mask, value | (ord(file) - ord("a") if file else 0) | (int(rank) - 1 << 3 if rank else 0))


class GivenGame(NamedTuple):
    """A game to play; `result`: behind its moves; `place`, `size`: of its text in the file, in bytes.

    `start`: the first position, packed. `ply`: half-moves before it, by its move number.
    """

    headers: dict[str, str]
    result: str
    place: int
    size: int
    start: Words
    ply: int
    moves: Sequence[Wanted]


def sure_game(text: GameText) -> GivenGame | None:
    """Returns a game of which each word is surely read as `chess.pgn` reads it; None for any other game.

    Its tags can be read, and its moves are those of most programs, with move numbers, comments in braces,
    and `!` and `?`. Its words are held in memory, so it is not longer than BYTES_IN_BLOCK.
    """
    tags = read_tags(text)
    if text.error or text.size > BYTES_IN_BLOCK or tags.error or tags.remarks or variant_of(tags.headers):
        return None
    start = _first_position(tags.headers.get("FEN", ""), tags.headers.get("SetUp", ""))
    *words, result = _COMMENT.sub(" ", "".join(line for _, line in text.moves)).split() or [""]
    if max(map(len, words), default=0) > LONGEST_WORD:
        return None
    moves = [move for move in map(wanted_move, words) if move != NO_MOVE]
    if start is None or result not in RESULTS or ODD_WORD in moves or len(moves) > GAME_MOVES.most:
        return None
    return GivenGame(tags.headers, result, text.place, text.size, *start, moves)


@lru_cache(maxsize=MAX_STARTS)
def _first_position(fen: str, set_up: str) -> tuple[Words, int] | None:
    """Returns the packed first position of a game and its ply; None if that has an error, or is Chess960."""
    try:
        board = start_board({"FEN": fen, "SetUp": set_up})
    except ValueError:
        return None
    return None if board.chess960 else (pack(board), board.ply())


def judged_game(game: ReadGame) -> GivenGame:
    """Returns the mainline of a game as python-chess read it."""
    start = game.start or chess.Board()
    moves = [Wanted(CODE, encode_move(move)) for move in game.moves]
    return GivenGame(
        game.headers, game.result, game.text.place, game.text.size, pack(start), start.ply(), moves
    )


def variations_of(game: ReadGame, max_ply: int | None) -> Iterator[GivenGame]:
    """Yields the moves of variations below `max_ply` as games of one move: each counts whenever it occurs."""
    waiting: list[tuple[chess.pgn.GameNode, chess.Board, bool]] = [
        (game.tree, game.start or chess.Board(), False)
    ]
    while waiting:
        node, board, in_variation = waiting.pop()
        for i, child in enumerate(node.variations):
            if child.move:
                [move] = own_moves(board, [child.move])
                if (in_variation or i > 0) and (max_ply is None or board.ply() < max_ply):
                    yield GivenGame({}, "", 0, 0, pack(board), board.ply(), [Wanted(CODE, encode_move(move))])
                waiting.append((child, after(board, move), in_variation or i > 0))


# ------------------------------------------------------------------ playing
@dataclass(frozen=True, slots=True)
class PlayedBlock:
    """Played games, in concatenated arrays.

    Attributes:
      sizes: `[G]`: number of positions of each game, one more than its moves; 0 for one that is odd: a move
        does not fit exactly one legal move.
      positions: `[P, 10]`, before every move and at the end of each game. keys: `[P]`.
      codes, numbers: `[P]`: the move from there, its number in canonical order; 0 at the end of a game.
    """

    games: Sequence[GivenGame]
    sizes: Ints
    positions: Words
    keys: NDArray[np.uint64]
    codes: NDArray[np.uint16]
    numbers: NDArray[np.uint8]


def play(games: Sequence[GivenGame], max_ply: int | None = None) -> PlayedBlock:
    """Plays games side by side; moves from positions from `max_ply` on are left out."""
    most = np.array([len(game.moves) for game in games], np.int64)
    begins, wanted = np.cumsum(most) - most, [move for game in games for move in game.moves]
    features = np.array(wanted, np.int64).reshape(-1, 2)
    if max_ply is not None:
        most = np.minimum(most, [max(0, max_ply - game.ply) for game in games])
    odd, parts, at, ply = np.zeros(len(games), bool), [], np.arange(len(games)), 0
    words = np.array([game.start for game in games], np.uint64).reshape(-1, POSITION_WORDS)
    keys = keys_of(words)
    while True:
        codes, numbers = np.zeros(len(at), np.uint16), np.zeros(len(at), np.uint8)
        parts.append((at, words, keys, codes, numbers))
        going = np.flatnonzero(most[at] > ply)
        if not len(going):
            break
        codes[going], numbers[going], fits = _fitting(words[going], features[begins[at[going]] + ply])
        odd[at[going[~fits]]] = True
        going, ply = going[fits], ply + 1
        words, keys = positions_after(words, going, codes[going])
        at = at[going]
    of, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(of, kind="stable")
    order = order[~odd[of[order]]]
    return PlayedBlock(games, np.where(odd, 0, most + 1), *(column[order] for column in columns))


def _fitting(words: Words, wanted: Ints) -> tuple[NDArray[np.uint16], Ints, Mask]:
    """Returns the legal move with the wanted features, `[R, 2]`, in each position: its code, and its number.

    The mask is False where none or several have them.
    """
    offsets, kinds = np.zeros(len(words) + 1, np.int64), np.zeros(len(words), np.uint8)
    moves = np.zeros(len(words) * MAX_LEGAL_MOVES, np.uint16)
    list_all(board_tables(), words.reshape(-1), offsets, moves, kinds)
    codes, of = moves[: offsets[-1]].astype(np.int64), np.repeat(np.arange(len(words)), np.diff(offsets))
    origin, step = codes & 63, (codes >> 6 & FILE) - (codes & FILE)
    kind = (words[of, : KINGS + 1] >> origin.astype(np.uint64)[:, None] & np.uint64(1)).argmax(1)
    wing = np.where((kind == KINGS) & (np.abs(step) == CASTLING_STEP), 1 + (step < 0), 0)
    features = codes | kind << KIND_SHIFT | wing << WING_SHIFT
    found = np.flatnonzero(features & wanted[of, 0] == wanted[of, 1])
    places = offsets[:-1].copy()
    places[of[found]] = found
    return moves[places], places - offsets[:-1], np.bincount(of[found], minlength=len(words)) == 1


# ------------------------------------------------------------------ rows of positions and moves
WHITE, DRAWS, BLACK, UNKNOWN, VARIATIONS, COLUMNS = range(6)  # columns of a count


def _table_rows(
    blocks: Sequence[PlayedBlock], results: NDArray[np.int64]
) -> tuple[Iterator[PositionRow], Iterator[MoveRow]]:
    """Returns the rows of positions and of moves, both sorted by key; `results`: the column of each game.

    The FEN of a position comes from its first occurrence with the fewest half-moves.
    """
    sizes, positions, keys, codes = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("sizes", "positions", "keys", "codes")
    )
    begins = np.array([game.ply for block in blocks for game in block.games], np.int64)
    games = np.repeat(np.arange(len(sizes)), sizes)
    step = np.arange(len(keys)) - (np.cumsum(sizes) - sizes)[games]
    plies, castling = begins[games] + step, castling_of(positions)
    order = np.lexsort((plies, castling, keys))
    sorted_keys, castling = keys[order], castling[order]
    first = np.concatenate(([True], (sorted_keys[1:] != sorted_keys[:-1]) | (castling[1:] != castling[:-1])))
    of = np.empty(len(keys), np.int64)
    of[order] = np.cumsum(first) - 1
    words, plies = positions[order[first]], plies[order[first]]
    texts = key_texts(words)
    moved = np.flatnonzero(step < sizes[games] - 1)
    places, of_moves, counts = _count_moves(of[moved], codes[moved], games[moved], results[games[moved]])
    uci, parts = uci_names(), [slice(i, i + TEXTS_AT_ONCE) for i in range(0, len(keys), TEXTS_AT_ONCE)]
    sans = (names_of(words, places[some], of_moves[some])[0].astype(str).tolist() for some in parts)
    fen = (fens(words[some], plies[some].tolist()) for some in parts)
    moves = zip(
        [texts[place] for place in places.tolist()],
        [uci[code] for code in of_moves.tolist()],
        chain.from_iterable(sans),
        *counts.T.tolist(),
        strict=True,
    )
    return zip(texts, chain.from_iterable(fen), plies.tolist(), strict=True), moves


def _count_moves(
    of: NDArray[np.int64], codes: NDArray[np.uint16], games: NDArray[np.int64], results: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.int64]]:
    """Returns the distinct moves: position and code, `[M]` each, and games by column, `[M, COLUMNS]`.

    A game counts once for a move that it repeats. The arguments are those of every move of every game.
    """
    found, move = np.unique(of << 16 | codes, return_inverse=True)
    once = np.unique(games * max(1, len(found)) + move, return_index=True)[1]
    counts = np.bincount(move[once] * COLUMNS + results[once], minlength=len(found) * COLUMNS)
    return found >> 16, (found & 0xFFFF).astype(np.uint16), counts.reshape(-1, COLUMNS)


# ------------------------------------------------------------------ imports
GAMES_AT_ONCE = 5000  # of a transaction
POSITIONS_AT_ONCE = 400_000  # likewise: some 250 MB
TEXTS_AT_ONCE = 20_000  # FENs or moves in SAN: some 20 MB while they are made
GAMES_IN_BLOCK = 500  # played side by side
BYTES_IN_BLOCK = 1 << 22  # of their texts, but for the last game
MOST_WORDS = 5  # named of those that are skipped
NULL_MOVE = "a null move (--), which no game contains; the game counts up to there"
RESULT_TEXTS = ("1-0", "1/2-1/2", "0-1", "*")  # by the first columns of a count

_RESULTS = {"1-0": WHITE, "0-1": BLACK, "1/2-1/2": DRAWS, "1/2": DRAWS}


def read_games(importing: Importing, given: Input, *, variations: bool, max_ply: int | None) -> None:
    """Counts the games of a PGN file, and stores them if wanted."""
    _PgnImport(importing, given, variations, max_ply).read()


class _PgnImport:
    def __init__(self, importing: Importing, given: Input, variations: bool, max_ply: int | None) -> None:
        self._importing, self._report, self._given = importing, importing.report, given
        self._variations, self._max_ply = variations, max_ply
        self._texts = TextKeeper(tables.text_end(importing.store, importing.source.id))
        self._kept_before = importing.source.players or 0 if importing.players else None
        self._passed = 0  # games
        self._waiting: list[GameText] = []
        self._blocks: list[PlayedBlock] = []  # games to count
        self._results: list[int] = []  # their columns
        self._rows: list[GameRow] = []  # games to store
        self._words = 0  # outside the games
        self._first_strays: list[tuple[int, str]] = []  # skipped words, with their lines
        self._strays = self._at_odds = self._cut_variations = 0

    def read(self) -> None:
        """Imports the games that are not imported yet; saves the counts even after an error."""
        finished, size, held = False, min(GAMES_IN_BLOCK, GAMES_AT_ONCE), 0
        try:
            for text in cut_text(self._lines()):
                if text.is_nothing:
                    self._words += text.words
                    continue
                self._waiting.append(text)
                held += text.size
                borders = (self._importing.before, self._kept_before)
                is_full = len(self._waiting) >= size or held >= BYTES_IN_BLOCK
                if not is_full and self._passed + len(self._waiting) not in borders:
                    continue
                self._add_waiting()
                held = 0
                if self._importing.stop.is_set():
                    return
            self._add_waiting()
            if self._words and not self._passed:
                words = f"{self._words:,} words that are not moves"
                raise ImportFileError(f"{self._report.name} has no games, only {words}; is it a PGN file?")
            finished = True
        except ImportFileError:
            self._add_waiting()
            raise
        finally:
            self._save(finished=finished)
            self._add_notes(finished=finished)

    def _lines(self) -> Iterator[bytes]:
        place = 0
        for line in self._given.byte_lines():
            if self._importing.players:
                self._texts.add(place, line)
            place += len(line)
            yield line

    def _add_waiting(self) -> None:
        """Plays the waiting games; counts and stores them, unless they are already counted or stored."""
        texts, self._waiting = self._waiting, []
        first, self._passed = self._passed + 1, self._passed + len(texts)
        counts = first > self._importing.before
        stores = self._kept_before is not None and first > self._kept_before
        if counts or stores:
            games = [None if self._variations else sure_game(text) for text in texts]
            block = self._played(texts, games, counts=counts)
            numbers = [number for number, game in enumerate(games, first) if game]
            results = [result_of(game.headers.get("Result", ""), game.result) for game in block.games]
            columns = [column for column, _ in results]
            if counts:
                self._blocks += [block] if columns else []
                self._results += columns
                self._report.taken += len(block.games)
                self._at_odds += sum(at_odds for _, at_odds in results)
            if stores:
                self._rows += game_rows(block, numbers, columns)
                self._report.players += len(numbers)
        self._importing.show_progress()
        positions = sum(len(block.keys) for block in self._blocks)
        if positions >= POSITIONS_AT_ONCE or max(len(self._results), len(self._rows)) >= GAMES_AT_ONCE:
            self._save()

    def _played(
        self, texts: Sequence[GameText], games: list[GivenGame | None], *, counts: bool
    ) -> PlayedBlock:
        """Plays games; python-chess reads those that are None and odd ones. Out: None for skipped ones."""
        problems, unsure = list[Problem](), [i for i, game in enumerate(games) if not game]
        for _ in range(2):  # the second time without odd games
            for i in unsure:
                games[i] = self._judged(texts[i], problems, counts=counts)
            given = [i for i, game in enumerate(games) if game]
            block = play([game for game in games if game], self._max_ply)
            unsure = [given[k] for k in np.flatnonzero(block.sizes == 0).tolist()]
            if not unsure:
                break
        self._report.problems += sorted(problems, key=lambda problem: problem.place)
        return block

    def _judged(self, text: GameText, problems: list[Problem], *, counts: bool) -> GivenGame | None:
        """Returns a game as python-chess reads it, None if it is skipped; adds what it has besides moves."""
        game, report = read_game(text, variations=self._variations), self._report
        most = None if self._max_ply is None or game.start is None else self._max_ply - game.start.ply()
        fails = bool(game.error) and (most is None or game.error_moves < most)
        faults = [(game.error_line, game.error)] if fails else []
        faults += game.variation_faults if self._variations else []
        is_skipped = bool(game.variant or faults)
        if counts:
            problems += [Problem(*remark) for remark in game.remarks]
            report.skipped += is_skipped
        if counts and game.variant:
            report.variants[game.variant] += 1
        elif counts and faults:
            problems.append(Problem(*faults[0]))
        elif counts:
            problems += [Problem(game.null_line, NULL_MOVE)] if game.null_line else []
            self._strays += len(game.strays)
            self._first_strays = sorted([*self._first_strays, *game.strays], key=itemgetter(0))[:MOST_WORDS]
            if self._variations:
                moves = play(list(variations_of(game, self._max_ply)))
                self._blocks += [moves] if moves.games else []
                self._results += [VARIATIONS] * len(moves.games)
                self._cut_variations += game.null_variations
        return None if is_skipped else judged_game(game)

    def _save(self, *, finished: bool = False) -> None:
        passed = None if self._kept_before is None else max(self._passed, self._kept_before)
        self._importing.save(self._write, finished=finished, players=passed)
        self._blocks, self._results, self._rows = [], [], []

    def _write(self, store: Store) -> None:
        if self._blocks:
            tables.add_games(store, *_table_rows(self._blocks, np.array(self._results, np.int64)))
        source = self._importing.source.id
        tables.add_texts(store.connection, source, self._texts.pop_rows())
        if self._rows:
            tables.add(store, source, self._rows)

    def _add_notes(self, *, finished: bool) -> None:
        named = ", ".join(f"{shown(word)} in line {line}" for line, word in self._first_strays)
        strays = self._strays + self._words
        for number, what in (
            (self._at_odds, "games whose Result contradicts their ending, counted as without result"),
            (strays if self._passed else 0, f"words that are not moves, skipped{named and f' (as {named})'}"),
            (self._cut_variations, "variations that were read up to a null move (--) only"),
        ):
            if number:
                self._report.notes.append(f"{what}: {number:,}")
        if finished and not self._report.done:
            self._report.notes.append("it has no games")


def result_of(header: str, ending: str) -> tuple[int, bool]:
    """Returns the column of a game's result, and whether its Result header contradicts its ending.

    >>> [result_of("1-0", ending) for ending in ("1-0", "*", "0-1")]
    [(0, False), (0, False), (3, True)]
    """
    of_header, of_ending = _RESULTS.get(header.strip()), _RESULTS.get(ending)
    if of_header is not None and of_ending is not None and of_header != of_ending:
        return UNKNOWN, True
    found = of_header if of_ending is None else of_ending
    return (UNKNOWN if found is None else found), False


# ------------------------------------------------------------------ rows of kept games
LONGEST_TEXT = 255  # stored characters of a name or another text

_ELO = re.compile(r"\d{1,5}\Z", re.ASCII)
_NONE = frozenset({"", "?", "-", "*"})


def game_rows(block: PlayedBlock, numbers: Sequence[int], columns: Sequence[int]) -> Iterator[GameRow]:
    """Yields the rows of the games of a block; their numbers in the file, and columns of their results."""
    ends = np.cumsum(block.sizes).tolist()
    parts, places = key_parts(block.keys), opening_places(block.positions[:, KEY])
    for i, game in enumerate(block.games):
        headers, first, end = game.headers, ends[i] - int(block.sizes[i]), ends[i]
        named = np.flatnonzero(places[first : min(end, first + DEEPEST + 1)] >= 0)
        texts = {name.lower(): text_of(headers.get(name, "")) for name in TEXTS}
        if texts["event"] or texts["site"]:
            texts |= {"event": texts["event"] or "", "site": texts["site"] or ""}
        fen = fens(game.start.reshape(1, -1), [game.ply])[0] if headers.get("FEN") else None
        yield GameRow(
            source=0,
            number=numbers[i],
            place=game.place,
            size=game.size,
            **texts,
            white_elo=_elo_of(headers.get("WhiteElo", "")),
            black_elo=_elo_of(headers.get("BlackElo", "")),
            date=pgn_date(headers.get("Date", "")) or pgn_date(headers.get("UTCDate", "")),
            result=RESULT_TEXTS[columns[i]],
            fen=None if fen == chess.STARTING_FEN else fen,
            moves=block.numbers[first : end - 1].tobytes()[:MAX_GAME_MOVES],
            opening=opening_names()[places[first + named[-1]]] if len(named) else None,
            keys=parts[first:end].tobytes(),
        )


@lru_cache(maxsize=10_000)
def text_of(text: str) -> str | None:
    """Returns a cleaned header value, None if it is empty or a placeholder.

    >>> text_of(" Pelé "), text_of(" ? "), text_of("a\\0\\tb")
    ('Pelé', None, 'a b')
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    plain = " ".join(text.split())[:LONGEST_TEXT]
    return None if plain in _NONE else plain


def _elo_of(text: str) -> int | None:
    found = _ELO.match(text.strip())
    return int(found[0]) or None if found else None
