"""A second reader of graph files, written from schema/ alone: plain Python, sqlite3, zstandard, python-chess.

It imports nothing of this program, and is as slow as it is short. What it needs and schema/ does not say is a
defect of schema/.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import chess
import chess.polyglot
import zstandard

FORMAT = 4
WORD = (1 << 64) - 1
FREE = 75  # up to this clock, positions share a record
FRAME = bytes.fromhex("28b52ffd0038")  # the six bytes that every frame of a block lacks
START_WORDS = (
    0x00FF00000000FF00, 0x4200000000000042, 0x2400000000000024, 0x8100000000000081,
    0x0800000000000008, 0x1000000000000010, 0x000000000000FFFF, 0xFFFF000000000000,
)  # fmt: skip


@dataclass(frozen=True)
class Edge:
    """A move of the visited prefix in UCI; of its n visits the path drew r, and the others have value q."""

    move: str
    p: float
    n: int
    r: int
    q: float
    draws: int


@dataclass(frozen=True)
class Record:
    """A position as its record says it."""

    words: tuple[int, ...]
    v: float
    draws: int
    evaluator: int
    flags: int
    codes: bytes
    run: int
    edges: tuple[Edge, ...]

    @property
    def clock(self) -> int:
        return self.words[8] >> 12 & 255

    @property
    def identity(self) -> tuple[int, ...]:
        clock = self.clock if self.clock > FREE else 0
        return (*self.words[:8], self.words[8] & ~(255 << 12), clock)

    @property
    def key(self) -> int:
        return self.words[9] ^ clock_term(self.clock)

    @property
    def n(self) -> int:
        return 1 + sum(edge.n for edge in self.edges)

    @property
    def bounds(self) -> tuple[int, int]:
        """What is proven: flags and edges."""
        lower, upper = (self.flags >> 2 & 3) - 1, (self.flags >> 4 & 3) - 1
        proven = [edge_bounds(edge) for edge in self.edges]
        low = max([-1, *(one for one, _ in proven)])
        high = max((one for _, one in proven), default=1) if len(proven) == len(self.codes) else 1
        low, high = max(low, lower), min(high, upper)
        return (low, high) if low <= high else (lower, upper)

    @property
    def q(self) -> float:
        total = self.v
        for edge in self.edges:
            total += (edge.n - edge.r) * edge.q
        lower, upper = self.bounds
        return min(max(total / self.n, lower), upper)


def edge_bounds(edge: Edge) -> tuple[int, int]:
    """Returns what an edge proves, for the side to move before it."""
    if edge.n > edge.r:
        if abs(edge.q) == 1 and 1 <= edge.draws <= 1000:
            return int(edge.q), int(edge.q)
        if edge.draws == 1001:
            return 0, 0
        if 1002 <= edge.draws <= 1011:
            return 0, 1
        if 1012 <= edge.draws <= 1021:
            return -1, 0
    return -1, 1


# ------------------------------------------------------------------ positions
def clock_term(clock: int) -> int:
    if clock <= FREE:
        return 0
    x = (clock + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & WORD
    return x ^ x >> 31


def check_hash(words: tuple[int, ...]) -> int:
    """Returns the check hash of entries, 32 bits; they keep the lower 16."""

    def fold(a: int, b: int) -> int:
        product = a * b
        return product >> 64 ^ product & WORD

    clock = words[8] >> 12 & 255
    meta = words[8] & ~(255 << 12) | (clock << 12 if clock > FREE else 0)
    h = fold(words[0] ^ 0xA0761D6478BD642F, words[1] ^ 0xE7037ED1A0B428DB)
    h ^= fold(words[2] ^ 0x8EBC6AF09C88C6E3, words[3] ^ 0x589965CC75374CC3)
    h ^= fold(words[4] ^ 0x1D8E4E27C47D124F, words[5] ^ 0xEB44ACCAB455D165)
    h ^= fold(words[6] ^ 0x2545F4914F6CDD1D, meta ^ 0x9FB21C651E98DF25)
    return h >> 32


def board_of(words: tuple[int, ...]) -> chess.Board:
    """Returns the python-chess Board of a packed position."""
    meta = words[8]
    board = chess.Board.empty()
    board.chess960 = bool(meta >> 20 & 1)
    for kind in range(6):
        for square in chess.SquareSet(words[kind]):
            board.set_piece_at(square, chess.Piece(kind + 1, bool(words[6] >> square & 1)))
    board.turn = not meta & 1
    rights = 0
    for k, usual in enumerate((7, 0, 7, 0)):  # K Q k q
        if meta >> 1 + k & 1:
            rights |= 1 << (meta >> 21 + 3 * k & 7 ^ usual) + 56 * (k >= 2)
    board.castling_rights = rights
    board.ep_square = (meta >> 5 & 127) - 1 if meta >> 5 & 127 else None
    board.halfmove_clock = meta >> 12 & 255
    return board


def canonical(board: chess.Board) -> list[chess.Move]:
    return sorted(board.legal_moves, key=lambda move: _rank(board, move))


def _rank(board: chess.Board, move: chess.Move) -> tuple[int, int, int]:
    start, end = move.from_square, move.to_square
    kind, step = board.piece_type_at(start), chess.square_file(end) - chess.square_file(start)
    if kind == chess.KING:
        return (1, step < 0, 0) if board.is_castling(move) else (0, end, 0)
    if kind == chess.KNIGHT:
        return 2, start, end
    if kind != chess.PAWN:
        straight = not step or chess.square_rank(start) == chess.square_rank(end)
        return 3 + straight, start, end
    promotion = (None, chess.QUEEN, chess.KNIGHT, chess.ROOK, chess.BISHOP).index(move.promotion)
    if step and board.is_en_passant(move):
        return 9, start, 0
    if step:
        return 5 if step < 0 else 6, end, promotion
    return 8 if abs(end - start) == 16 else 7, end, promotion


# ------------------------------------------------------------------ blocks
class Bytes:
    """The rest of some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        self._at += count
        assert self._at <= len(self._data), "columns end early"
        return self._data[self._at - count : self._at]

    def varint(self) -> int:
        number = 0
        for k in range(5):
            (byte,) = self.take(1)
            number |= (byte & 127) << 7 * k
            if byte < 128:
                return number
        raise AssertionError("a varint has at most five bytes")

    def end(self) -> None:
        assert self._at == len(self._data), "columns end late"


def _expanded(frame: bytes, dictionary: bytes, most: int) -> bytes:
    kind = zstandard.DICT_TYPE_FULLDICT
    known = zstandard.ZstdCompressionDict(dictionary, dict_type=kind) if dictionary else None
    reader = zstandard.ZstdDecompressor(dict_data=known).decompressobj()
    found = reader.decompress(FRAME + frame)
    assert reader.eof
    assert len(found) <= most
    return found


def _squares(data: Bytes, count: int) -> list[int]:
    squares: list[int] = []
    for skipped in data.take(count):
        squares.append(skipped if not squares else squares[-1] + 1 + skipped)
    return squares


def _value(high: int, low: bytes) -> float:
    (found,) = struct.unpack("<f", low[:3] + bytes([high]))
    return float(found)


def records_of(block: bytes, dictionaries: tuple[bytes, bytes]) -> Iterator[Record]:
    assert struct.unpack("<I", block[-4:])[0] == zlib.crc32(block[:-4])
    header, z = struct.unpack_from("<IH", block)
    count, codes, edges = (header & 31) + 1, header >> 5 & 0x1FFF, header >> 18 & 0x1FFF
    low = [block[6 + 4 * k : 10 + 4 * k] for k in range(count + edges)]
    begin = 6 + 4 * (count + edges)
    every_code = _expanded(block[begin : begin + z], dictionaries[0], codes) if z else b""
    assert len(every_code) == codes
    data = Bytes(_expanded(block[begin + z : -4], dictionaries[1], 128 * count + 12 * edges))

    reference, emptied, filled, meta, clock, flags, evaluator, v, v_draws, moves, visited = (
        data.take(count) for _ in range(11)
    )
    q, q_draws = data.take(edges), data.take(edges)
    assert (sum(moves), sum(visited)) == (codes, edges)
    en_passant = iter(data.take(sum(one & 1 for one in meta)))
    chess960 = iter([int.from_bytes(data.take(2), "little") for one in meta if one >> 7])
    gone = [_squares(data, one) for one in emptied]
    come = [_squares(data, one) for one in filled]
    men = iter(data.take(sum(filled)))
    own_runs = iter([data.varint() for one in meta if one >> 6 & 1])
    n = [data.varint() for _ in range(edges)]
    r = [data.varint() for _ in range(edges)] if header >> 31 else [0] * edges
    data.end()

    found: list[tuple[list[int], int, int]] = []  # men, word 8, run: of each record so far
    edge = code = 0
    for k in range(count):
        assert reference[k] <= k
        before, word, run = found[k - reference[k]] if reference[k] else (_men(START_WORDS), 15 << 1, 0)
        board = list(before)
        left = [before[square] for square in gone[k]]
        for square in gone[k]:
            board[square] = -1
        for j, square in enumerate(come[k]):
            board[square] = (next(men) + (left[j] if j < len(left) else 12)) % 13
        word = (
            meta[k] >> 1 & 1
            | (word >> 1 & 15 ^ meta[k] >> 2 & 15) << 1
            | (next(en_passant) + 1 if meta[k] & 1 else 0) << 5
            | clock[k] << 12
            | (word >> 20 ^ (next(chess960) if meta[k] >> 7 else 0)) << 20
        )
        run = next(own_runs) if meta[k] >> 6 & 1 else run
        found.append((board, word, run))
        words = _words(board, word)
        mine = every_code[code : code + moves[k]]
        of = slice(edge, edge + visited[k])
        values = [
            (n[e], r[e], _value(q[e], low[count + e]), q_draws[e] << 8 | low[count + e][3])
            for e in range(of.start, of.stop)
        ]
        yield Record(
            words=words,
            v=_value(v[k], low[k]),
            draws=v_draws[k] << 8 | low[k][3],
            evaluator=evaluator[k],
            flags=flags[k],
            codes=mine,
            run=run,
            edges=_edges(words, mine, values),
        )
        edge, code = edge + visited[k], code + moves[k]


def _edges(
    words: tuple[int, ...], codes: bytes, values: list[tuple[int, int, float, int]]
) -> tuple[Edge, ...]:
    """Returns the visited prefix: moves in descending P, of equal P in canonical order."""
    if not codes:
        return ()
    board = board_of(words)
    moves, total = canonical(board), sum(code**4 for code in codes)
    assert len(moves) == len(codes)
    order = sorted(range(len(codes)), key=lambda k: -codes[k])
    return tuple(
        Edge(moves[place].uci(), codes[place] ** 4 / total, *value)
        for place, value in zip(order, values, strict=False)
    )


def _men(words: tuple[int, ...]) -> list[int]:
    """Returns the man of each square, 0 to 11, or -1."""
    men = [-1] * 64
    for kind in range(6):
        for square in chess.SquareSet(words[kind]):
            men[square] = kind + 6 * (words[7] >> square & 1)
    return men


def _words(men: list[int], word: int) -> tuple[int, ...]:
    kinds, sides = [0] * 6, [0, 0]
    for square, man in enumerate(men):
        if man >= 0:
            kinds[man % 6] |= 1 << square
            sides[man // 6] |= 1 << square
    words = (*kinds, *sides, word)
    return (*words, chess.polyglot.zobrist_hash(board_of((*words, 0))))


# ------------------------------------------------------------------ files
def open_file(path: Path) -> sqlite3.Connection:
    """Returns a connection to a graph file whose format is known here."""
    file = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    (mark,), (version,) = (
        file.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    assert mark == 0x47724772
    assert version == FORMAT
    return file


def read_records(path: Path) -> dict[tuple[int, ...], Record]:
    """Returns the newest record of every position, by its identity."""
    file, found = open_file(path), dict[tuple[int, ...], Record]()
    for (segment,) in file.execute("SELECT id FROM segment ORDER BY age, id").fetchall():
        last: tuple[int, tuple[int, ...]] = (-1, ())
        for chunk in file.execute(_CHUNKS, (segment,)).fetchall():
            first_block, blocks, gone, records, first_key, checksum, keys, dictionary, bloom = chunk
            assert zlib.crc32(keys + dictionary + bloom) == checksum
            split = struct.unpack_from("<H", dictionary)[0] + 2 if dictionary else 0
            dictionaries = dictionary[2:split], dictionary[split:]
            of_blocks = struct.unpack(f"<{blocks}Q", keys)
            total = 0
            for number in range(gone, blocks):
                (data,) = file.execute(
                    "SELECT data FROM block WHERE id = ?", (first_block + number,)
                ).fetchone()
                here = list(records_of(data, dictionaries))
                assert sort_key(here[0].words) == of_blocks[number]
                for record in here:
                    place = sort_key(record.words), record.identity
                    assert place > last, "records of a segment ascend"
                    assert may_hold(bloom, record.key)
                    last = place
                    found[record.identity] = record
                total += len(here)
            assert total == records
            assert first_key & WORD == of_blocks[gone]
    (nodes,) = file.execute("SELECT value FROM store_info WHERE name = 'nodes'").fetchone()
    assert int(nodes) == len(found)
    file.close()
    return found


_PIECES = "SELECT evaluation, entries, checksum, data FROM entry_piece ORDER BY id"
_CHUNKS = """
SELECT first_block, blocks, gone, records, first_key, checksum, keys, dictionary, bloom
FROM chunk WHERE segment = ? ORDER BY id
"""


def may_hold(bloom: bytes, key: int) -> bool:
    bits, x = 8 * len(bloom), key * 0x9E3779B97F4A7C15 & WORD
    s = (x << 32 | x >> 32) & WORD | 1
    places = [((x + k * s) & WORD) * bits >> 64 for k in range(5)]
    return all(bloom[place >> 3] >> (place & 7) & 1 for place in places)


def sort_key(words: tuple[int, ...]) -> int:
    def h(a: int, b: int) -> int:
        x = (a * 0x9E3779B97F4A7C15 + b * 0xC2B2AE3D27D4EB4F) & WORD
        return ((x ^ x >> 32) * 0xD6E8FEB86659FD93) & WORD

    white, black = words[6], words[7]
    counts = 0
    for kind in range(5):
        for side in (white, black):
            counts = counts << 4 | (words[kind] & side).bit_count()
    key = h(words[0] & white, words[0] & black) >> 48
    key = key << 8 | h(counts, 0) >> 56
    for kind, bits in ((1, 8), (2, 8), (3, 8), (4, 7), (5, 8)):
        key = key << bits | h(words[kind] & white, words[kind] & black) >> 64 - bits
    return key << 1 | words[8] & 1


def read_entries(path: Path, evaluation: str) -> dict[tuple[int, int], int]:
    """Returns the data word of each entry, by key and the 16 bits of the check hash."""
    file, found = open_file(path), dict[tuple[int, int], int]()
    for of, count, checksum, data in file.execute(_PIECES).fetchall():
        assert zlib.crc32(of.encode() + data) == checksum
        if of not in ("", evaluation):
            continue
        planes = zstandard.ZstdDecompressor().decompress(data)
        assert len(planes) == 16 * count
        key = 0
        for k in range(count):
            step, word = struct.unpack("<QQ", planes[k::count])
            key += step
            before = found.get((key, word >> 48), 0)
            if before >> 34 & 127 != 127 or word >> 34 & 127 == 127:
                found[key, word >> 48] = word
    file.close()
    return found
