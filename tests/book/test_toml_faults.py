"""Faults and notes of a BOOK.toml: one line each, with the line and the key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphsearch.base.errors import BookConfigError, InvalidParameterError
from graphsearch.book.config import parse_config, read_config

from .test_toml import HEAD, HERE, parsed


def faults(text: str, folder: Path = HERE) -> list[str]:
    """Returns the lines of the error that a text gives."""
    with pytest.raises(BookConfigError) as caught:
        parse_config(text, folder, "book.toml")
    assert str(caught.value) == "\n".join(caught.value.problems)
    return list(caught.value.problems)


WRONG = [
    ("side = 3", 4, "not TOML: Cannot overwrite a value"),
    ("\n\nx = nonsense", 6, "not TOML: Invalid value (at line 6, column 5)"),
    ("[boook]\nside = 1", 4, "[boook]: Extra inputs are not permitted; did you mean 'book'?"),
    ("maxply = 3", 4, "[book] maxply: Extra inputs are not permitted; did you mean 'max_ply'?"),
    ('name = " "', 4, "[book] name: must not be blank"),
    ('name = "a\\nb"', 4, "printable"),
    ('[[root]]\nmoves = "1. e4 e6 2. Ke3"', 5, "move 3 of the list, 'Ke3', is illegal in rnbqkbnr/pppp"),
    ('[[root]]\nfen = "8/8/8/8/8/8/8/8 w - - 0 1"', 5, "illegal position (no white king"),
    ('[[root]]\nfen = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 30"', 5, "at ply 58, but max_ply is 24"),
    (
        '[expansion]\npolicy = "droput"',
        5,
        "policy: Input should be 'dropout' or 'cost', not 'droput'; did you mean 'dropout'?",
    ),
    ("[[window]]\nplies = [12, 3]", 5, "the first ply must not be behind the last one, as in [12, 3]"),
    ("[[window]]\nown_p = 1", 5, "[[window]] own_p: Extra inputs are not permitted; did you mean 'own_cp'?"),
    ('[[force]]\nmoves = "e4"', 4, "[[force]] play: Field required"),
    (
        '[[force]]\nplay = [\n"e4",\n"Ke2"]',
        5,
        "play[1]: move 1 of the list, 'Ke2', is illegal in rnbqkbnr/pppppppp",
    ),
    ('[[force]]\nplay=["e4"]\n[[exclude]]\nplay=["e4"]', 6, "e4 is forced (line 4) and excluded (line 6)"),
    (
        '[[exclude]]\nfen = "7k/8/8/8/8/8/7r/6K1 w - - 0 1"\nplay = ["Kf1", "Kxh2"]',
        4,
        "leaves no legal move in 7k/",
    ),
    ('[evaluator]\nname = "bultin"', 5, "unknown evaluator 'bultin'; known are builtin, uniform"),
    ('[evaluator]\nname = "lc0:no.pb.gz"', 5, "/no.pb.gz (looked for in the folder of"),
    ('[evaluator]\nname = "uci:no-such-engine"', 5, "there is no engine 'no-such-engine' on PATH"),
    ('[evaluator]\nname = "uci:\'"', 5, "not a command"),
    ('[evaluator]\nname = "uniform"\nvalue = "uniform"\npolicy = "builtin"', 4, "not all three"),
    (
        "[evaluator]\noptions = { PolicyTemperature = 99 }",
        5,
        "PolicyTemperature must be a number from 0.1 to 10, not '99'",
    ),
    ("[evaluator]\noptions = { nodes = 5 }", 5, "the evaluator builtin has no option nodes; it has"),
    ('[evaluator]\npool = "moon"', 5, "the pool must be local, ray or ray:ADDRESS, not 'moon'"),
    ("[leaf]\nevaluations = 1\nvisits = 1", 6, "give evaluations or visits, not both"),
    ("[leaf.params]\nNonsense = 1", 5, "unknown parameter 'Nonsense'; known are CPuct,"),
    ("[leaf.params]\nCPuct = 1\n\ncpuct = 2", 7, "cpuct is given twice"),
]


@pytest.mark.parametrize(("text", "line", "words"), WRONG)
def test_a_fault_is_told_with_its_line_and_what_is_allowed(
    text: str, line: int, words: str, tmp_path: Path
) -> None:
    problems = faults(HEAD + text, tmp_path)
    assert len(problems) == 1, problems
    assert problems[0].startswith(f"book.toml:{line}: "), problems[0]
    assert words in problems[0]
    assert "\n" not in problems[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["[book] side: Field required", "[book] max_ply: Field required"]),
        ('[book]\nside = "white"', ["book.toml:1: [book] max_ply: Field required"]),
        (
            'side = "white"\n' + HEAD,
            ["book.toml:1: [side]: Extra inputs are not permitted; known are book, root,"],
        ),
        ("what = 1\n" + HEAD, ["[what]: Extra inputs are not permitted; known are book, root,"]),
        ("root = 3\n" + HEAD, ["[root]: Input should be a valid list, not 3"]),
        ("root = [3]\n" + HEAD, ["[[root]]: Input should be a valid dictionary"]),
    ],
)
def test_faults_of_the_book_as_a_whole(text: str, words: list[str]) -> None:
    found = faults(text)
    assert len(found) == len(words), found
    assert all(word in fault for word, fault in zip(words, found, strict=True)), found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[root]]\n[[root]]", ["book.toml:5: [[root]] is the position of root 1 again"]),
        ('[[root]]\nmoves = "e4 e5 Nf3"\n[[root]]\nmoves = "Nf3 e5 e4"', ["book.toml:7: "]),
        ('[[root]]\nmoves = "f3 e5 g4 Qh4#"', ["book.toml:5: [[root]] the game is over at"]),
        ("[[window]]\nplies = [2, 4]\n[[window]]\nplies = [8, 9]", ["0 to 1:", "5 to 7:", "10 to 23:"]),
        ("[[window]]\nplies = [0, 22]", ["book.toml:4: [[window]] does not cover ply 23: only forced moves"]),
        ('[[root]]\nmoves = "e4 e5"\n[[window]]\nplies = [2, 30]', []),
    ],
)
def test_what_is_no_fault_but_odd_is_noted(text: str, words: list[str]) -> None:
    notes = parsed(text).notes
    assert len(notes) == len(words), notes
    assert all(word in note for word, note in zip(words, notes, strict=True)), notes


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(HEAD.encode() + b'name = "\xe9"\n')
    for name, words in (
        ("no.toml", "cannot read it"),
        (".", "cannot read it"),
        ("latin.toml", ":4: not UTF-8"),
    ):
        with pytest.raises(InvalidParameterError, match=re.escape(words)):
            read_config(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 400_000 + " = 1",
        "[" + "a." * 400_000 + "a]",
        "[[" + "a." * 9 + "a]]",
        '"a"' + " . 'b'" * 20 + " = 1",
        '"\\""' + '."\\""' * 20 + " = 1",
        "x = { " + "a." * 9 + "a = 1 }",
    ],
    ids=["key", "table", "array", "quoted", "escaped", "inline"],
)
def test_a_dotted_key_has_few_parts(text: str) -> None:
    """`tomllib` alone takes 4 GB for some of these, and time by the square."""
    assert faults(f"{HEAD}{text}\n") == ["book.toml:4: a dotted key of more than 8 parts"]


def test_a_text_of_many_tables_is_too_large(tmp_path: Path) -> None:
    text = "".join(f"[a{k}]\n" for k in range(150_000))
    assert "more than 1 MiB" in faults(text)[0]
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(BookConfigError, match="more than 1 MiB"):
        read_config(tmp_path / "a.toml")
