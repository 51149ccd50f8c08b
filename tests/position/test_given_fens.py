"""FENs and EPD lines as other programs and people write them."""

from __future__ import annotations

import chess
import pytest

from graphsearch.base.errors import InvalidPositionError
from graphsearch.base.toml_text import toml_tables
from graphsearch.exchange.epd_import import read_epd
from graphsearch.position.notation import board_from_fen, read_fen_lines, read_position
from graphsearch.position.pgn import variant_of

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq"


@pytest.mark.parametrize("rest", ["-; ce 20;", "-;ce 20;", "-;", "- ce 20;"])
def test_a_semicolon_may_end_the_fields_of_an_epd_line(rest: str) -> None:
    board, operations, faults = read_epd(f"{START} {rest}")
    assert (board, faults) == (chess.Board(), [])
    assert operations == ({"ce": 20} if "ce" in rest else {})


@pytest.mark.parametrize("text", [f"{START} - 0 1 moves e2e4 e7e5", f"{START} - moves e2e4 e7e5; ce 20;"])
def test_moves_behind_a_fen_are_played_wherever_it_stands(text: str) -> None:
    after = chess.Board()
    after.push_uci("e2e4")
    after.push_uci("e7e5")
    assert board_from_fen(text) == after
    ((_, found),) = read_fen_lines([text])
    assert found == after
    assert read_position(text).board == after
    with pytest.raises(InvalidPositionError, match="move 3"):
        board_from_fen(f"{START} - moves e2e4 e7e6 e7e5")


def test_moves_alone_begin_at_the_start() -> None:
    assert read_position("moves e2e4 e7e5").board == read_position("startpos moves e2e4 e7e5").board


@pytest.mark.parametrize(
    "text",
    [f"{START}  e9  0 1", f"{START} - 999 1", "8/8/8/8/8/8/8/KK6 w  -  - 0 1"],
)
def test_messages_quote_the_fen_that_was_given(text: str) -> None:
    with pytest.raises(InvalidPositionError) as refused:
        board_from_fen(text)
    assert repr(text) in str(refused.value)


def test_an_unknown_variant_is_chess() -> None:
    assert [variant_of({"Variant": name}) for name in ("?", "-", "", " ? ")] == [""] * 4
    assert variant_of({"Variant": "Atomic"}) == "Atomic"


def test_a_byte_order_mark_before_toml_is_passed_over() -> None:
    assert toml_tables("\ufeff[analyze]\nvisits = 7\n") == {"analyze": {"visits": 7}}
