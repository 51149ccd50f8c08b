"""Lines of FEN and EPD in bulk: python-chess is the oracle, whichever lines the kernel reads."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsearch.base.errors import InvalidPositionError
from graphsearch.base.limits import FEN
from graphsearch.position.board import fen_of, pack_checked, unpack
from graphsearch.position.fen_kernel import EMPTY, READ, UNCERTAIN, read_fens
from graphsearch.position.fens import clocks_of, read_lines
from graphsearch.position.notation import read_fen_lines
from graphsearch.position.tables import load_tables

from ..support.positions import random_words

BARE = b"4k3/8/8/8/8/8/8/4K3 w - -"
START = b"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR"
PLAIN = [  # the kernel reads them
    b"",
    b"0",
    b"7 30",
    b"255 32768",
    b"12 0",
    b"007 00030",
    b"7 30 bm Kd2;",
    b"1 2 3;",
    b"bm 7;",
    b"bm Kd2;",
    b"bm Kd2 Kd1; ce 35;",
    b"ce -35; acd 12;",
    b'id "hm; fm"; bm Kd2;',
    b"hmvc 7;",
    b'hmvc 7; fmvn 30; id "x";',
    b"fmvn  31;hmvc 8;hmvc 9;",
    b"0 1 hmvc 7;",
]
ODD = [  # python-chess reads them, or refuses them
    b"256 1",
    b"1 32769",
    b"-1 1",
    b"+5 1",
    b"5 -1",
    b"1 2 3",
    b"a b",
    b"bm Kd2",
    b"5 bm Kd2;",
    b"bm 7 ;",
    b"bm 123456 ;",
    b"bm +7 ;",
    b"7;",
    b"hmvc 7",
    b"hmvc;",
    b"hmvc x;",
    b"hmvc -7;",
    b"hmvc 256;",
    b"hmvc 123456;",
    b"hmvc 7 ;",
    b"xhmvc 7;",
    b"hmvc7 7;",
    b"hmvc 7; hmvc",
    b'id "hmvc 7;"',
    b'hmvc "7"; fmvn 3;',
    b"hmvc hmvc 7;",
    b"hmvc fmvn 7;",
    b"hmvc 7 fmvn 8;",
    "id “Müller”;".encode(),
    "7\u00a030".encode(),
    "bm\u2003Kd2;".encode(),
    b"bm\x0bKd2;",
    b"bm\x85Kd2;",
    b"bm \xff\xfe;",
    b"0 1\x0c",
    b"0 1\x00",
    b"99999999999999999999 1",
    b"1" * 41 + b" 1;",
]
POSITIONS = [
    START + b" w KQkq - 0 1",
    START + b" b HAha - 0 1",
    START + b" w KQkq e3 0 1",
    START + b" w QKqk - 0 1",
    START + b" w KKkq - 0 1",
    START + b" w kqKQ - 0 1",
    START + b" w - - 0 1",
    START + b" W KQkq - 0 1",
    START + b" w KQkq -",
    START + b" w KQkq",
    START + b" w",
    START,
    START + b"/ w KQkq - 0 1",
    START[:-1] + b" w KQkq - 0 1",
    START.replace(b"8/8", b"44/8", 1) + b" w KQkq - 0 1",
    START.replace(b"Q", b"Q~") + b" w KQkq - 0 1",
    b"r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1",
    b"r3k2r/8/8/8/8/8/8/R3K1R1 b KQkq - 0 1",
    b"r3k2r/8/8/8/8/8/8/R4K1R b KQkq - 0 1",
    b"rnbqkbnr/pppp1ppp/8/8/3Pp3/8/PPP1PPPP/RNBQKBNR b KQkq d3 0 3",  # a pawn stands ready to take
    b"rnbqkbnr/pppp1ppp/4p3/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq d3 0 3",  # none does
    b"rnbqkbnr/pppp1ppp/8/8/3Pp3/8/PPP1PPPP/RNBQKBNR b KQkq d6 0 3",
    b"rnbqkbnr/pppp1ppp/8/8/3Pp3/8/PPP1PPPP/RNBQKBNR b KQkq a1 0 3",
    b"8/8/8/KP5r/1R2Pp1k/8/8/8 b - e3 0 1",  # the pawn is pinned
    b"4k3/8/8/8/4Pp2/8/8/4KR2 b - e3 0 1",
    b"8/8/8/8/k3Pp1R/8/8/4K3 b - e3 0 1",  # check, by the rook or by the pawn's step
    b"8/8/8/5k2/4Pp2/8/8/4K3 b - e3 0 1",
    b"4k3/8/8/8/8/8/4r3/q3K3 w - - 0 1",  # two checkers
    b"4k3/4r3/8/8/8/8/4r3/4K3 w - - 0 1",
    b"4r1k1/8/8/8/8/5n2/4r3/4K3 w - - 0 1",
    b"r3K2r/8/8/8/8/8/8/4k3 w - - 0 1",  # two in one line
    b"4k3/8/8/8/8/8/8/4K2R b K - 0 1",
    b"4k3/8/8/8/8/8/8/4R1K1 w - - 0 1",  # the side that has moved is in check
    b"4k3/8/8/8/8/8/8/8 w - - 0 1",
    b"4k3/8/8/8/8/8/8/K3K3 w - - 0 1",
    b"8/8/8/8/8/8/8/8 w - - 0 1",
    b"4k3/8/8/8/8/8/8/P3K3 w - - 0 1",
    b"P3k3/8/8/8/8/8/8/4K3 w - - 0 1",
    b"4k3/8/8/8/8/P7/PPPPPPPP/4K3 w - - 0 1",
    b"4k3/8/8/8/8/8/PPPPPPPP/QQ2K3 w - - 0 1",  # one promoted piece too many
    b"4k3/8/8/8/8/8/PPPPPPP1/QQ2K3 w - - 0 1",
    b"4k3/8/8/8/8/NNBBRRQ1/PPPPPPPP/4K3 w - - 0 1",
    b"4k3/8/8/8/8/NNNBRRQ1/PPPPPPPP/4K3 w - - 0 1",
]
SPACING = [
    b"",
    b"   \t",
    b"\r",
    b"\x0b",
    b"#",
    b"  # 8/8",
    b"\xef\xbb\xbf",
    b"\xef\xbb\xbf# comment",
    b"\xef\xbb\xbf" + BARE,
    b"startpos",
    b" startpos\r",
    b"startpos 0 1",
    b"nonsense",
    b"  " + BARE + b"  \r",
    b"\t" + BARE.replace(b" ", b" \t ") + b"\t3  4 ",
    BARE + b" 3\r4",
    BARE.replace(b" ", b"\xc2\xa0"),
    BARE + b" # 3 4",
    b"\x00" + BARE,
]
QUOTED = {  # clocks in quotes are text; halfmove clock and move number of the lines
    b'id "a hmvc 12;";': (0, 1),
    b'id "a hmvc 12; fmvn 7;"; hmvc 3;': (3, 1),
    b'c0 "fmvn 9;"; fmvn 8;': (0, 8),
    b'c0 "a"; hmvc 5; id "b";': (5, 1),
    b'id "a \\" hmvc 12;"; hmvc 3;': (3, 1),
    b'id "a; hmvc 12;': (12, 1),
    b'id "a hmvc 12;': (0, 1),
}
LINES = [*POSITIONS, *SPACING, *(BARE + b" " + rest for rest in (*PLAIN, *ODD, *QUOTED))]


@cache
def fens() -> list[bytes]:
    """Returns FENs of random games, every second one without clocks, some en passant squares for nobody."""
    rng, found = random.Random(5), list[bytes]()
    for number, words in enumerate(random_words(600)):
        board = unpack(words.tolist())
        board.fullmove_number = rng.randrange(1, 400)
        fen = fen_of(board)
        found.append((fen if number % 2 else fen.rsplit(" ", 2)[0]).encode())
    return found


def verdicts_of(lines: list[bytes]) -> list[int]:
    """Returns what the kernel says of each line."""
    words, numbers = np.zeros(10 * len(lines), np.uint64), np.zeros(len(lines), np.int64)
    verdicts = np.zeros(len(lines), np.uint8)
    text = np.frombuffer(b"\n".join([*lines, b""]), np.uint8)
    read_fens(load_tables(), text, FEN.most, words, numbers, verdicts)
    return verdicts.tolist()


def assert_read_as_by_python_chess(lines: list[bytes]) -> None:
    errors: list[tuple[int, str]] = []
    words, numbers = read_lines(lines, 100, lambda number, error: errors.append((number, str(error))))
    boards, expected = [], []
    for number, item in read_fen_lines(line.decode("utf-8", "replace") for line in lines):
        if isinstance(item, InvalidPositionError):
            expected.append((99 + number, str(item)))
        else:
            boards.append(item)
    assert errors == expected
    assert words.tolist() == [pack_checked(board).tolist() for board in boards]
    assert numbers.tolist() == [board.fullmove_number for board in boards]


def test_a_line_is_read_or_refused_as_by_python_chess() -> None:
    for line in LINES:
        assert_read_as_by_python_chess([line])


def test_a_clock_in_quotes_is_text() -> None:
    lines = [BARE + b" " + rest for rest in QUOTED]
    words, numbers = read_lines(lines, 1, lambda number, error: pytest.fail(f"{number}: {error}"))
    assert list(zip(clocks_of(words).tolist(), numbers.tolist(), strict=True)) == list(QUOTED.values())


def test_many_lines_are_read_in_their_order_with_their_numbers() -> None:
    assert_read_as_by_python_chess([*fens(), *LINES, *fens()[:10]])
    assert_read_as_by_python_chess([])


@given(st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"\n", b""))), st.binary(max_size=20))
def test_any_bytes_are_read_or_refused_as_by_python_chess(lines: list[bytes], rest: bytes) -> None:
    assert_read_as_by_python_chess([*lines, BARE + b" " + rest.replace(b"\n", b"")])


def test_the_kernel_reads_what_is_plain_and_leaves_the_rest() -> None:
    verdicts = verdicts_of(fens())
    assert verdicts.count(UNCERTAIN) < len(verdicts) / 100, "double checks, checks beside en passant squares"
    assert set(verdicts_of([BARE + b" " + rest for rest in PLAIN])) == {READ}
    assert set(verdicts_of([b"", b" \t\r", b"# x", b"  #"])) == {EMPTY}
    assert READ not in verdicts_of([BARE + b" " + rest for rest in ODD])


def test_a_line_longer_than_a_fen_may_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FEN.variable, "60")
    assert_read_as_by_python_chess([BARE + b" " * 60, BARE + b' id "' + b"x" * 60 + b'";', BARE])
