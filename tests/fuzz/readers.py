"""PGN, EPD, Polyglot, BOOK.toml, FEN, UCI, networks: seeds, changes, and what reads them."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import re
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import chess
import chess.pgn
import numpy as np
import zstandard

from graphsearch.base.errors import GraphSearchError
from graphsearch.book.config import read_config
from graphsearch.book.review.review import GameChoice, SourceGame, source_game, wanted_games
from graphsearch.book.study.studies import read_games, text_of
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.nnue.evaluator import ARCHITECTURES, PACKED, read_network
from graphsearch.evaluators.protocol import PositionBatch
from graphsearch.exchange.importing import GivenFile, opened
from graphsearch.graph.graph import Graph
from graphsearch.position.board import legal_moves, pack
from graphsearch.position.notation import board_from_fen
from tests.support.random_lc0 import varint

from ..support.nnue import MadeUp
from ..support.positions import listed
from ..support.random_lc0 import RandomNetwork, Shape, tower
from . import commands
from .damage import Words, mutated
from .files import DisagreementError
from .harness import Call, guarded
from .works import BOOK, MATE, PGN

BOMB = 700  # MB that a small compressed file expands to

FENS = [
    chess.STARTING_FEN.encode(),
    MATE.encode(),
    b"r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    b"rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
    b"R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1",
    b"2QQ2Q1/Q4Q2/3Q3Q/1k6/4Q3/2Q4Q/Q4Q2/1KQQ2Q1 w - - 0 1",
    b"4k3/8/8/8/8/8/8/4K2R w K - 100 1",
    b"8/8/8/8/8/8/8/K1k5 b - - 99 120",
    b"bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9",
    b"1r1k2rr/p2bbp1p/8/8/8/8/P2BBP1P/RR2K1RR w BGbg - 3 20",
]
fen_words = Words(
    "startpos", "chess960:7", "KQkq", "HAha", "Bb", "-", "e3", "a6", "w", "b", "8", "0", "99", "100", "255",
    "QQQQQQQQ", "kK",
)  # fmt: skip


@cache
def _empty_graph() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.graph"
        Graph.open(path).close()
        return path.read_bytes()


def _store(folder: Path) -> Path:
    path = folder / "a.graph"
    path.write_bytes(_empty_graph())
    return path


def warm() -> None:
    """Imports what the commands need."""
    _empty_graph()
    commands.run("import", "--format", "epd", os.devnull, "--store", os.devnull)


# ------------------------------------------------------------------ FEN
def mutate_fen(seeds: list[bytes], rng: random.Random) -> bytes:
    """Returns a changed FEN, or men put anywhere in any number."""
    if rng.random() < 0.5:
        return fen_words(seeds, rng)
    men = rng.choice(("QQQQqk", "PNBRQpnbrq", "Pp", "QRBN", "Qq"))
    share = rng.choice((0.1, 0.4, 0.95))
    squares = ["K", "k", *(rng.choice(men) if rng.random() < share else "1" for _ in range(62))]
    rng.shuffle(squares)
    rows = "/".join("".join(squares[i : i + 8]) for i in range(0, 64, 8))
    clocks = f"{rng.choice((0, 1, 75, 76, 99, 100, 101, 150, 255, 256))} {rng.choice((1, 50, 6000))}"
    return f"{rows} {rng.choice('wb')} {rng.choice(('-', 'KQkq', 'k'))} - {clocks}".encode()


def read_fen(data: bytes, folder: Path) -> bool:
    """Reads a FEN; one that is let in has the moves of python-chess, in a buffer of just their size."""
    text = data.decode("utf-8", "replace")
    try:
        board = board_from_fen(text)
    except GraphSearchError:
        board = None
    if board is None:
        return commands.run("evaluate", "--", text).code == 0
    check_moves(board)
    line = (
        ("evaluate",),
        ("analyze", "--visits", "4", "--ram", "64MB"),
        ("alphabeta", "--depth", "1", "--ram", "8MB"),
        ("mate", "--visits", "9"),
    )
    name, *options = line[len(data) % len(line)]
    return commands.run(name, *options, "--", text).code == 0


def check_moves(board: chess.Board) -> None:
    """Compares the moves that kernels find with those of python-chess."""
    expected = len(legal_moves(board))
    words = np.array(pack(board), np.uint64)
    for low in (False, True):
        out = guarded(expected, np.uint16, low=low)
        found = len(listed(words, out)[0])
        if found != expected:
            raise DisagreementError(f"{found} moves instead of {expected}: {board.fen()}")


# ------------------------------------------------------------------ games and books
pgn_words = Words(
    "e4", "Nf3", "O-O", "0-0-0", "exd5", "e8=Q", "1.", "1...", "(", ")", "{", "}", ";", "$1", "$999", "!?",
    "*", "1-0", "1/2-1/2", "[", "]", '[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]', '[SetUp "1"]',
    '[Variant "Chess960"]', '[FEN "4k3/8/8/8/8/8/8/1R2K1R1 w GB - 0 1"]',
    "%", "[%eval 0.3]", "Z0", "--", "e.p.", '[Result "?"]', "\\", '"', "9999.",
    "[Round \"1\"]",
)  # fmt: skip
epd_words = Words(
    "bm", "am", "pv", "ce", "acn", "id", "c0", "hmvc", "fmvn", ";", '"x"', "e4", "e2e4", "-", "w", "b",
    "KQkq", "0",
)  # fmt: skip
toml_words = Words(
    "[book]", "[[root]]", "[expansion]", "[[window]]", "[[force]]", "[[exclude]]", "[evaluator]", "[leaf]",
    "side", '"white"', '"black"', "max_ply", "moves", '"1. e4"', "plies", "[0, 4]", "reply_p", "0.1",
    "policy", '"dropout"', "alpha", "evaluations", "visits", "params", "play", '["c4"]', "only", "true",
    "=", "fen", "pgn", "book", "name", "1979-05-27", "'''", "[[", "]]", "{", "a.b", "reply_games", "own_cp",
    "syzygy", "pool", "options", "#", "a" + ".a" * 5000, '"a"' + " . 'a'" * 30,
)  # fmt: skip
TOMLS = [
    BOOK,
    b'[book]\nside = "black"\nmax_ply = 20\n[[root]]\nfen = "startpos"\nmoves = "1. e4"\n[expansion]\n'
    b'policy = "dropout"\nalpha = 10\n[[window]]\nplies = [0, 11]\nreply_p = 0.05\nreply_cp = 20\n[[force]]\n'
    b'moves = "1. d4 d5"\nplay = ["c4"]\nonly = true\n[[exclude]]\nmoves = "1. d4 Nf6"\nplay = ["Bg5"]\n'
    b"[leaf]\nevaluations = 1000\nparams = { CPuct = 2 }\n",
]


def imports(kind: str, suffix: str) -> Call:
    """Returns what imports a file into an empty graph and looks at it."""

    def call(data: bytes, folder: Path) -> bool:
        file, store = folder / f"a{suffix}", _store(folder)
        file.write_bytes(data)
        ended = commands.run("import", "--format", kind, file, "--store", store, "--json")
        if kind == "pgn" and len(data) % 3 == 0 and suffix == ".pgn":
            commands.run("analyze", file, "--visits", 2, "--ram", "64MB")
        if kind == "epd" and len(data) % 3 == 0:
            commands.run("evaluate", file)
        if kind == "epd" and len(data) % 3 == 1:
            commands.run("analyze", file, "--visits", 2, "--ram", "64MB")
        if len(data) % 4 == 0:
            commands.run("games", "startpos", "--store", store)
            commands.run("lab", "sql", "SELECT fen, san, weight FROM polyglot_entry", "--store", store)
        return ended.code == 0

    return call


NOTED = b'[White "A"]\n\n{a} 1. e4!? {b\nc} e5 $14 (1... c5 ({x} 1... e6) 2. Nf3 -- ) 2. Nf3 ; d\nNc6?? *\n'


def read_studies(data: bytes, folder: Path) -> bool:
    """Reads games into studies; what is let in is written, and read again the same."""

    def written(file: Path) -> tuple[str, list[str]]:
        texts, left_out = [], []
        with opened(GivenFile(str(file)), folder) as given:
            for game in read_games(given.lines(), "a.pgn"):
                texts.append(text_of(game.tree))
                left_out += game.left_out
        return "\n".join(texts), left_out

    file = folder / "a.pgn"
    file.write_bytes(data)
    text, _ = written(file)
    file.write_text(text, encoding="utf-8")
    again, left_out = written(file)
    headers = [line for line in left_out if "no move is kept" in line]
    if again != text or len(headers) < len(left_out):
        raise DisagreementError(f"{left_out} is left out of what was written, or it is read as another text")
    return bool(text)


def read_notes(data: bytes, folder: Path) -> bool:
    """Reads games with all their notes; what is let in is written and read again the same."""
    file, taken = folder / "a.pgn", 0
    file.write_bytes(data)
    with opened(GivenFile(str(file)), folder) as given:
        for number, game in wanted_games(given.lines(), GameChoice()):
            found = source_game(number, game)
            if not isinstance(found, SourceGame):
                continue
            taken += 1
            written = chess.pgn.read_game(io.StringIO(str(found.tree)))
            moves = tuple(written.mainline_moves()) if written else ()
            if moves != found.moves:
                raise DisagreementError(f"game {number}: {moves} is read of what was {found.moves}")
    return taken > 0


def mutate_polyglot(seeds: list[bytes], rng: random.Random) -> bytes:
    data = mutated(rng.choice(seeds) * rng.choice((1, 1, 3)), rng)
    return data if rng.random() < 0.6 else data.ljust(64, b"\1")[: 16 * rng.randrange(5)]


def read_toml(data: bytes, folder: Path) -> bool:
    """Reads a book's description; a short one that is let in is built, too."""
    file = folder / "white.toml"
    file.write_bytes(data)
    read_config(file)
    if len(data) % 5 == 0:
        build = ("book", "build", file, "--evaluations", 8, "--time", 5, "--ram", "64MB")
        return commands.run(*build, "--store", _store(folder)).code == 0
    return True


def zst_seeds(_: Path) -> list[bytes]:
    return [zstandard.ZstdCompressor().compress(PGN * 20), zstandard.ZstdCompressor().compress(PGN) * 2]


def mutate_zst(seeds: list[bytes], rng: random.Random) -> bytes:
    """Returns compressed games: the frames changed, or the games, or a file that grows without end."""
    what = rng.randrange(40)
    if what == 0:
        return seeds[0] + zstandard.ZstdCompressor().compress(bytes(1 << 20)) * BOMB
    if what < 20:
        return mutated(rng.choice(seeds), rng, seeds)
    return zstandard.ZstdCompressor().compress(pgn_words([PGN], rng)) + rng.choice((b"", b"x", seeds[1]))


# ------------------------------------------------------------------ UCI
uci_words = Words(
    "uci", "isready", "ucinewgame", "stop", "ponderhit", "d", "show", "debug on", "go", "nodes 20",
    "depth 2", "movetime 20", "wtime 99999999999999999999", "btime 0", "winc -5", "movestogo 0", "infinite",
    "ponder", "mate 1", "searchmoves e2e4", "position startpos", "position fen", "moves e2e4 e7e5",
    "setoption name", "value", "MultiPV", "Hash", "RAM 1MB", "CPuct", "Gather", "flow", "UCI_Chess960",
    "true", "Clear Hash", "perft 2", "GraphFile",
    "position fen 2QQ2Q1/Q4Q2/3Q3Q/1k6/4Q3/2Q4Q/Q4Q2/1KQQ2Q1 w - - 0 1",
)  # fmt: skip
SESSIONS = [
    b"uci\nisready\nposition startpos moves e2e4\ngo nodes 20\nisready\nstop\nquit\n",
    b"setoption name MultiPV value 3\nposition fen " + MATE.encode() + b"\ngo mate 1\ngo depth 2\nd\n",
    b"ucinewgame\nposition startpos\ngo wtime 50 btime 50 winc 0 binc 0 movestogo 5\n"
    b"position startpos moves d2d4\ngo movetime 10 searchmoves d7d5\nshow\n",
]
MOST_LINES = 60  # of a session: each `go` may take its time
_DEFECT = re.compile(r"ERROR: \w+ failed: .*|What was not saved is lost")
_LEAVES = re.compile(rb"(?i)(uci|lc0|ray|syzygy|pool|file)\S*\s*[:=/]")


def play(data: bytes, folder: Path) -> bool:
    """Speaks a session to the engine; every `go` has an answer, and nothing is lost."""
    if _LEAVES.search(data):
        return False  # names a program or a file: not for chance to choose
    session = b"".join(data.splitlines(keepends=True)[:MOST_LINES])
    with contextlib.chdir(folder):
        ended = commands.run("uci", "--ram", "64MB", "--store", folder / "a.graph", stdin=session)
    if found := _DEFECT.search(ended.out):
        raise DisagreementError(found[0][:200])
    return ended.code == 0


# ------------------------------------------------------------------ networks
def network_seeds(_: Path) -> list[bytes]:
    """Returns small networks of several kinds, as protocol buffers."""
    kinds = (
        tower(),
        tower(1, policy="classical", wdl=False, encoding=2),
        tower(2, squeezes=False, activation="mish"),
    )
    found = [kind.message for kind in kinds]
    small = Shape(encoders=1, width=4, inner=4, feed=4, smolgen=2, policy_encoders=1, input=3)
    several = replace(small, embedding="dense", several=True, encoding=2, input=133)
    return [*found, *(RandomNetwork(shape).message for shape in (small, several))]


def mutate_network(given: list[bytes], rng: random.Random) -> bytes:
    """Returns changed bytes; mostly near the start, where the description is; some compressed."""
    data = rng.choice(given)
    near = min(len(data), rng.choice((64, 400, len(data))))
    out = mutated(data[:near], rng, given) + data[near:]
    if rng.random() < 0.2:  # a length that promises more than there is
        at = rng.randrange(near)
        out = out[:at] + varint(rng.choice((1 << 20, 1 << 31, 1 << 62))) + out[at:]
    kind = rng.randrange(40)
    if kind == 0:
        return gzip.compress(bytes(1 << 20), mtime=0) * BOMB  # a small file that expands to `BOMB` megabytes
    if kind < 8:
        return gzip.compress(out, 1, mtime=0)
    return mutated(gzip.compress(data, 1, mtime=0), rng) if kind < 14 else out


def read_lc0(data: bytes, folder: Path) -> bool:
    """Reads a network from its file; one that is let in evaluates the start position."""
    file = folder / "a.pb.gz"
    file.write_bytes(data)
    with closing(create(f"lc0:{file}", {"threads": "1"})) as evaluator:
        said = evaluator.evaluate(PositionBatch.from_boards([chess.Board()]))
    if np.isfinite(said.priors).all() and abs(float(said.priors.sum()) - 1) > 0.01:
        raise DisagreementError(f"priors of a sum of {said.priors.sum()}")
    return True


def nnue_seeds(_: Path) -> list[bytes]:
    """Returns a small network of Stockfish's form, plain and packed."""
    found = MadeUp.random(ARCHITECTURES[-1], [0])
    return [found.file(packed=packed) for packed in (False, True)]


def mutate_nnue(given: list[bytes], rng: random.Random) -> bytes:
    """Returns changed bytes: mostly in the header or where a part begins, or cut."""
    data = rng.choice(given)
    if rng.random() < 0.1:
        return data
    marks = [0, data.find(PACKED), data.rfind(PACKED), len(data) - 20_000]
    begin = max(0, rng.choice(marks))
    end = begin + rng.choice((16, 64, 2000))
    out = data[:begin] + mutated(data[begin:end], rng, given) + data[end:]
    return out[: rng.randrange(len(out))] if rng.random() < 0.2 else out


def read_nnue(data: bytes, folder: Path) -> bool:
    file = folder / "a.nnue"
    file.write_bytes(data)
    read_network(file)
    return True


def warm_networks() -> None:
    """Imports what reads networks; without the libraries, networks are refused by name."""
    with suppress(ImportError):
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
