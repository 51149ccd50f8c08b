"""The strict reading of PGN text, against texts made to break it."""

from __future__ import annotations

import pytest

from graphsearch.position.pgn_text import GameReader, PgnGame, kind_of, variant_of


def games(text: str, *, variations: bool = False) -> list[PgnGame]:
    return list(GameReader(text.splitlines(keepends=True), variations=variations))


def mainlines(text: str) -> list[str]:
    return [" ".join(game.moves) for game in games(text)]


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ('[Event "A"]\n\n1. e4 e5 2. Nf3 *\n', ["e4 e5 Nf3"]),
        ("1.e4 e5 2.Nf3 1-0 1.d4 0-1", ["e4 e5 Nf3", "d4"]),
        ("1. e4 (1. d4 (1. c4 (1. Nf3))) (1. b3) e5 *", ["e4 e5"]),
        ("1. e4 {a } e5 {\n} Nf3 *", ["e4 e5 Nf3"]),
        ("1. e4 {; no ( line ) comment } e5 ; but { this is (one\n2. Nf3 *", ["e4 e5 Nf3"]),
        ("1. e4 {(} e5 {)} *", ["e4 e5"]),
        ('% escaped [Event "A"] d4\n1. e4\n% d4\ne5 *', ["e4 e5"]),
        ("1. e4!? $1 e5?? $139 2.Nf3$5 *", ["e4 e5 Nf3"]),
        ("1. e4 e5 2. Nf3 Nc6 3. Bc4 Bc5 4. 0-0 Nf6 *", ["e4 e5 Nf3 Nc6 Bc4 Bc5 0-0 Nf6"]),
        ("1. a8=q b1N 2. c8=R *", ["a8=q b1N c8=R"]),
        ('[Event "A"]\r\n\r\n1. e4\r\ne5 *\r\n', ["e4 e5"]),
        ('[Event "A"]\n1. e4 *\n[Event "B"]\n1. d4 *\n', ["e4", "d4"]),
        ('[Event "A"]\n\n1. e4 e5\n\n[Event "B"]\n\n1. d4 *\n', ["e4 e5", "d4"]),
        ('[Event "A"]\n\n[White "B"]\n\n1. e4 *\n', ["e4"]),
        ('[Event "A"]\n[Result "*"]\n\n[Event "B"]\n[Result "*"]\n', ["", ""]),
        ("\ufeff1. e4 *", ["e4"]),
        ('1. e4\n\ufeff[Event "B"]\n\n1. d4 *\n\xef\xbb\xbf1. c4', ["e4", "d4", "c4"]),
        ("\xef\xbb\xbf1. e4 *", ["e4"]),
        ("1. e4{comment}e5(1... c5)2. Nf3*", ["e4 e5"]),
        ("1. e4 e5 2. exd6ep d5 3. Nb1-c3+ Ng8xf6# *", ["e4 e5 exd6 d5 Nb1-c3 Ng8xf6"]),
        ("", []),
        ("\n \n%\n", []),
        ("* 1-0 *", []),
        ("just some prose.\n", []),
    ],
)
def test_games_are_taken_apart(text: str, moves: list[str]) -> None:
    if text.endswith("Nf3*"):  # a mark that sticks to a move is no mark, and the move none
        assert "Nf3*" in games(text)[0].error
        return
    assert mainlines(text) == moves
    assert not any(game.error for game in games(text))


@pytest.mark.parametrize(
    ("text", "error", "line"),
    [
        ("1. e4\n{ it does not end\n\nat all", "a comment that does not end", 2),
        ("1. e4 (1. d4\ne5 *", "a variation that does not end", 1),
        ("1. e4 )\n*", "a ) that closes nothing", 1),
        ("1. e4\ne5 } *", "a } that closes nothing", 2),
        ("1. e4 { nested { braces } d5 } *", "a } that closes nothing", 1),
        ("1. e4\nNf9 *", "the word 'Nf9'", 2),
        ("1. e4 ed *", "the word 'ed'", 1),
        ("1. e4 o-o *", "the word 'o-o'", 1),
        ('[FEN "8/8" x]\n\n1. e4 *', "a header that cannot be read", 1),
    ],
)
def test_what_cannot_be_read_is_an_error_of_its_game_with_its_line(text: str, error: str, line: int) -> None:
    [game] = games(text)
    assert error in game.error
    assert game.error_line == line


def test_what_stands_open_costs_no_other_game() -> None:
    text = '[Event "A"]\n\n1. e4 {open\n\n[Event "B"]\n\n1. d4 (1. c4\n\n[Event "C"]\n\n1. c4 *\n'
    found = games(text)
    assert [game.headers["Event"] for game in found] == ["A", "B", "C"]
    assert [bool(game.error) for game in found] == [True, True, False]
    assert found[2].moves == ["c4"]


def test_variations_stand_behind_the_move_that_they_replace() -> None:
    [game] = games("1. e4 (1. d4 d5 (1... Nf6)) e5 *", variations=True)
    assert " ".join(game.moves) == "e4 ( d4 d5 ( Nf6 ) ) e5"
    assert len(game.lines) == len(game.moves)


def test_headers_are_read_with_quotes_escapes_and_several_to_a_line() -> None:
    [game] = games('[White "The \\"Rock\\""] [Black "B"]\n[Event "a "big" one"]\n[White "again"]\n\n*\n')
    assert game.headers == {"White": 'The "Rock"', "Black": "B", "Event": 'a "big" one'}


def test_words_without_digits_are_kept_aside_not_dropped() -> None:
    reader = GameReader(["see below\n", "1. e4 resigns 1-0\n", "thanks\n"])
    [game] = list(reader)
    assert game.strays == ["resigns"]
    assert reader.strays == ["see", "below", "thanks"]


@pytest.mark.parametrize("word", ["e4", "Nbd7+", "O-O-O#", "12...Qxf7", "e8=Q!!", "--", "Z0", "Ng1f3"])
def test_moves_are_told_from_other_words(word: str) -> None:
    assert kind_of(word)[0].name == "MOVE"


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("Standard", ""),
        ("From Position", ""),
        ("chess", ""),
        ("", ""),
        ("Chess960", ""),
        ("Fischerandom", ""),
        ("crazyhouse", "crazyhouse"),
        ("made up", "made up"),
    ],
)
def test_variants_are_known_by_name(name: str, variant: str) -> None:
    assert variant_of({"Variant": name}) == variant


def test_notes_stand_among_the_moves_where_they_are_asked_for() -> None:
    text = (
        '[White "A"]\n\n{start} 1. e4!? $14 {a\nb} e5 (1... c5?! {x} 2. Nf3 ; end } of line\n) 2. Nf3!! 1-0\n'
    )
    (game,) = GameReader(text.splitlines(keepends=True), variations=True, notes=True)
    words = "{start|e4|$5|$14|{a\nb|e5|(|c5|$6|{x|Nf3|{ end ) of line\n|)|Nf3|$3"
    assert game.moves == words.split("|")
    (bare,) = GameReader(text.splitlines(keepends=True), notes=True)
    assert [word for word in bare.moves if word[0] not in "{$"] == ["e4", "e5", "Nf3"]
    assert not any("x" in word or "end" in word for word in bare.moves)
