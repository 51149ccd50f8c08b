"""BOOK.toml: what an author writes is taken as meant, and what is wrong is told with its line."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from graphsearch.base.errors import BookConfigError, InvalidParameterError
from graphsearch.book.config import TABLES, BookConfig, Expansion, Leaf, Window, parse_config, read_config
from graphsearch.position.board import key_text

from ..conftest import ROOT

HEAD = '[book]\nside = "white"\nmax_ply = 24\n'
HERE = Path("/nowhere")


def parsed(text: str, folder: Path = HERE) -> BookConfig:
    return parse_config(HEAD + text, folder, "book.toml")


# ------------------------------------------------------------ what is meant
def test_everything_is_read() -> None:
    book = parsed(
        """name = "mine"
        [[root]]
        moves = "1. d4 d5"
        [[root]]
        fen = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 5"
        moves = "e4 Kd7"
        [expansion]
        policy = "cost"
        per_ply = 2
        per_loss = 5
        per_log_p = 0
        per_move = 0.5
        [[window]]
        plies = [0, 12]
        own_cp = 15
        reply_p = 0.05
        reply_games = 20
        [[window]]
        plies = [13]
        own_cp = 5
        own_moves = 2
        reply_cp = 30
        reply_moves = "all"
        [[force]]
        moves = "1. d4 d5"
        play = ["c4", "g1f3"]
        only = true
        [[exclude]]
        moves = "1. d4 d5"
        play = ["Bg5"]
        [evaluator]
        policy = "uniform"
        options = { "value.PolicyTemperature" = 1.5 }
        [leaf]
        visits = 50
        params = { MinibatchSize = 32, gather = "classic" }
        """
    )
    assert book.name == "mine"
    assert [root.board.ply() for root in book.roots] == [2, 10]
    assert book.windows == (
        Window(plies=[0, 12], own_cp=15, reply_p=0.05, reply_games=20),
        Window(plies=[13], own_cp=5, own_moves=2, reply_cp=30),
    )
    assert book.expansion == Expansion(policy="cost", per_ply=2, per_loss=5, per_log_p=0, per_move=0.5)
    assert book.leaf == Leaf(evaluations=None, visits=50, params={"MinibatchSize": "32", "gather": "classic"})
    key = key_text(book.roots[0].board)
    assert (book.forced, book.excluded) == ({key: ("c2c4", "g1f3")}, {key: ("c1g5",)})
    assert book.only == {key}
    assert (book.evaluator.policy, book.evaluator.options) == (
        "uniform",
        (("value.PolicyTemperature", "1.5"),),
    )
    assert book.notes == ()


def test_files_are_looked_for_beside_the_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "engine").write_text("#!/bin/sh\n")
    (tmp_path / "engine").chmod(0o755)
    (tmp_path / "tables").mkdir()
    (tmp_path / "net.pb.gz").write_text("")
    toml = tmp_path / "white.toml"
    toml.write_text(
        HEAD + '[evaluator]\npolicy = "lc0:net.pb.gz"\nvalue = "uci:./engine -x"\n' + 'syzygy = "tables"\n'
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for path in (toml, Path("../white.toml")):
        book = read_config(path)
        assert book.name == "white"
        assert re.fullmatch(r"lc0:/.*/net.pb.gz", book.evaluator.policy or "")
        assert re.fullmatch(r"uci:/.*/engine -x", book.evaluator.value or "")
    (tmp_path / "mine.py").write_text("")
    toml.write_text(HEAD + '[evaluator]\nname = "mine.py:Mine"\n')
    assert read_config(toml).evaluator.evaluator == f"{tmp_path / 'mine.py'}:Mine"


# ------------------------------------------------------------ what is wrong or odd
def faults(text: str, folder: Path = HERE) -> list[str]:
    """Returns the lines of the error that a text gives."""
    with pytest.raises(BookConfigError) as caught:
        parse_config(text, folder, "book.toml")
    return str(caught.value).split("\n")


WRONG = [
    ("side = 3", 4, "not TOML: Cannot overwrite a value"),
    ("[boook]\nside = 1", 4, "[boook]: there is no such key; did you mean 'book'?"),
    ("maxply = 3", 4, "[book] maxply: there is no such key; did you mean 'max_ply'?"),
    ('name = " "', 4, "[book] name: must not be blank"),
    ('name = "a\\nb"', 4, "printable"),
    ('[[root]]\nmoves = "1. e4 e6 2. Ke3"', 5, "move 3 of the list, 'Ke3', is illegal in rnbqkbnr/pppp"),
    ('[[root]]\nfen = "8/8/8/8/8/8/8/8 w - - 0 1"', 5, "illegal position (no white king"),
    ('[[root]]\nfen = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 30"', 5, "at ply 58, but max_ply is 24"),
    ('[expansion]\npolicy = "droput"', 5, "'dropout' or 'cost', not 'droput'; did you mean 'dropout'?"),
    ("[[window]]\nplies = [12, 3]", 5, "the first ply must not be behind the last one, as in [12, 3]"),
    ('[[force]]\nplay = [\n"e4",\n"Ke2"]', 5, "play[1]: move 1 of the list, 'Ke2', is illegal in rnbq"),
    ('[[force]]\nplay=["e4"]\n[[exclude]]\nplay=["e4"]', 6, "e4 is forced (line 4) and excluded (line 6)"),
    ('[[exclude]]\nfen = "kQ6/8/8/8/8/8/8/7K b - - 0 1"\nplay = ["Kxb8"]', 4, "leaves no legal move in kQ6/"),
    ('[evaluator]\nname = "bultin"', 5, "unknown evaluator 'bultin'; known are builtin, uniform"),
    ('[evaluator]\nname = "lc0:no.pb.gz"', 5, "/no.pb.gz (looked for in the folder of"),
    ('[evaluator]\nname = "no.py:Mine"', 5, "/no.py (looked for in the folder of"),
    ('[evaluator]\nname = "uci:no-such-engine"', 5, "there is no engine 'no-such-engine' on PATH"),
    ('[evaluator]\nname = "uci:\'"', 5, "not a command"),
    ('[evaluator]\nname = "uniform"\nvalue = "uniform"\npolicy = "builtin"', 4, "not all three"),
    ("[evaluator]\noptions = { PolicyTemperature = 99 }", 5, "must be a number from 0.1 to 10, not '99'"),
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
        ("", ["[book] side: is missing", "[book] max_ply: is missing"]),
        (
            'side = "white"\n' + HEAD,
            ["book.toml:1: [side]: there is no such key; known are book, root,"],
        ),
        ("root = 3\n" + HEAD, ["[root]: must be written as [[root]], not 3"]),
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


def test_a_fault_is_told_in_the_words_of_the_file() -> None:
    """Pydantic's own words name types of Python."""
    values = ("3", "-3", "1e300", "nan", "true", '"x"', "[]", "[[]]", "[0, 1, 2]", "{ x = [] }", "1979-05-27")
    for section, table in TABLES.items():
        for key, value in product(table.model_fields, values):
            for text in (f"[{section}]\n{key} = {value}\n", f"[[{section}]]\n{key} = {value}\n"):
                words = "\n".join(faults(text))  # at least: [book] lacks its side
                assert not re.search("should|valid |instance|required|permitted", words), words
    assert faults(f'{HEAD}[expansion]\npolicy = "x"')[0].endswith("must be 'dropout' or 'cost', not 'x'")


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
        '"a"' + " . 'b'" * 20 + " = 1",
        '"\\""' + '."\\""' * 20 + " = 1",
        "x = { " + "a." * 9 + "a = 1 }",
    ],
    ids=["key", "table", "quoted", "escaped", "inline"],
)
def test_a_dotted_key_has_few_parts(text: str) -> None:
    """`tomllib` alone takes 4 GB for some of these, and time by the square."""
    assert faults(f"{HEAD}{text}\n") == ["book.toml:4: a dotted key of more than 8 parts"]


def test_a_text_of_many_tables_is_too_large() -> None:
    assert "more than 1 MiB" in faults("".join(f"[a{k}]\n" for k in range(150_000)))[0]


# ------------------------------------------------------------ documentation
def test_every_key_and_its_default_is_documented() -> None:
    text = (ROOT / "docs" / "books.md").read_text(encoding="utf-8")
    for section, table in TABLES.items():
        part = text.partition(f"### `[{section}]`")[2] or text.partition(f"### `[[{section}]]`")[2]
        part = part.partition("\n### ")[0]
        assert part, section
        for key in table.model_fields:
            assert f"| `{key}`" in part, f"{section}.{key}"
    for name in ("alpha", "per_ply", "per_loss", "per_log_p", "per_move"):
        assert f"| `{name}` | {getattr(Expansion(), name):g} |" in text


def test_the_documented_examples_are_books(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "books.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```toml[^\n]*\n(.*?)^```", page, re.M | re.S)
    found = [text for text in examples if "[book]" in text]
    assert len(found) == 3
    books = [parse_config(text, tmp_path, f"book{i}.toml") for i, text in enumerate(found)]
    assert [book.side for book in books] == ["white", "black", "both"]
    assert [book.notes for book in books] == [(), (), ()]
