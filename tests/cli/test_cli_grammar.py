"""The grammar of commands: few names, files and positions in every form, settings, help, completion."""

from __future__ import annotations

import ast
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import chess
import pytest
from graphsearch.cli.options import remember, remembered_evaluator

from graphsearch.base.errors import InvalidParameterError
from graphsearch.evaluators.factory import NAMES, EvaluatorSpec
from tools import command_reference

from ..conftest import ROOT, Cli

MOST_COMMANDS, MOST_OPTIONS = 44, 74
SETTINGS = importlib.import_module("graphsearch.cli.settings").KEYS
OF_PROGRAM = {"--help", "--version", "--install-completion", "--show-completion"}
OF_OTHERS = {"--address", "--head", "--force-reinstall", "--onnx-batch-size"}  # of `ray`, `pip` and `lc0`
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
NAMING = re.compile(rf"docs/|schema/|examples/|`graphsearch |{OPTION.pattern}")


@cache
def commands() -> dict[str, Any]:
    app = importlib.import_module("graphsearch.cli.app").app()
    return {words.strip(): command for words, command in command_reference.leaves("", app)}


def options(command: Any) -> set[str]:
    return {name for one in command.params if one.param_type_name == "option" for name in one.opts}


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("GRAPHSEARCH_STORE", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


# ------------------------------------------------------------------ names
def test_a_user_sees_few_commands_and_few_options() -> None:
    shown = {words: one for words, one in commands().items() if not words.startswith("lab ")}
    assert len(shown) <= MOST_COMMANDS
    names = {name for one in shown.values() for name in options(one) if name.startswith("--")} | {"--version"}
    assert len(names) <= MOST_OPTIONS


def named_texts() -> Iterator[tuple[str, str]]:
    """Yields `(where, text)` of every help."""
    for words, one in commands().items():
        parts = [one.help or "", one.epilog or "", *(param.help or "" for param in one.params)]
        yield words, "\n".join(parts)
    for topic, text in importlib.import_module("graphsearch.cli.app").TOPICS.items():
        yield f"help {topic}", text


def test_every_name_that_a_help_offers_is_accepted() -> None:
    every = set().union(*map(options, commands().values())) | OF_PROGRAM
    for where, text in named_texts():
        assert set(OPTION.findall(text)) <= every, where
        for line in re.findall(r"^\s*graphsearch (.+)$", text, flags=re.MULTILINE):
            line_is_accepted(line)
        offered = set(re.findall(r"--evaluator ([a-z0-9]+)\b(?![-.])", text))
        assert offered <= {known.partition(":")[0] for known in NAMES}, where


@cache
def literals() -> list[tuple[str, str]]:
    """Returns `(where, text)` of every text in the sources, messages among them."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node.value)
        for path in [*(ROOT / "cli").rglob("*.py"), *(ROOT / "graphsearch").rglob("*.py")]
        if NAMING.search(text := path.read_text(encoding="utf-8"))  # to parse the others takes seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_every_page_command_and_topic_that_a_message_names_exists() -> None:
    known = commands()
    groups = {words.partition(" ")[0] for words in known if " " in words}
    topics = importlib.import_module("graphsearch.cli.app").ABOUT
    for where, text in literals():
        for page in re.findall(r"\b(?:docs|schema|examples)/[\w./-]+\w", text):
            assert (ROOT / page).exists(), f"{where} names {page}"
        for words in re.findall(r"`graphsearch ([a-z]+(?: [a-z]+)?)", text):
            first, _, second = words.partition(" ")
            name = words if first in groups and second else first
            assert name in known or name in groups, f"{where} names {words}"
            assert first != "help" or second in {*topics, ""}, f"{where} names {words}"


def test_every_option_that_a_message_offers_is_accepted() -> None:
    every = set().union(*map(options, commands().values())) | OF_PROGRAM
    for where, text in literals():
        for sentence in re.findall(r"(?:; |\bwith |\buse )[^;`]*", text):
            found = set(OPTION.findall(sentence))
            assert found <= every | OF_OTHERS, f"{where} offers {found - every}"


def line_is_accepted(line: str) -> None:
    """Asserts that the command of a line exists, and has its options."""
    known = commands()
    words = shlex.split(line.partition(" > ")[0])
    if words[0] in ("COMMAND", "help") or words in (["lab"], ["store"], ["book"]):
        return
    name = next(
        (n for k in (3, 2, 1) if (n := " ".join(words[:k])) in known or (k == 1 and n.startswith("-"))), None
    )
    assert name is not None, line
    if name in known:
        given = {word.partition("=")[0] for word in words if re.match("--|-[a-z]$", word)}
        assert given <= options(known[name]) | {"--help", "-h"}, line


# ------------------------------------------------------------------ help
def test_help_has_headings_and_topics(cli: Cli) -> None:
    out = cli("--help").out
    places = [out.index(f"\n{heading}:") for heading in ("Search", "Look", "Games", "Books", "Files", "More")]
    assert places == sorted(places)
    assert cli("help", "analyze").out == cli("analyze", "--help").out == cli("analyze", "-h").out
    assert "chess960:518" in cli("help", "positions").out
    assert "CPuct" in cli("help", "parameters").out
    assert "syzygy" in cli("help", "settings").out
    assert "positions" in cli("help").out
    assert cli("help", "nothing").code == 2


def test_every_command_and_option_has_help_with_an_example(cli: Cli) -> None:
    for words, command in commands().items():
        assert all(param.help for param in command.params), words
        found = cli(*words.split(), "--help")
        assert (found.code, found.err) == (0, ""), words
        assert f"\n    graphsearch {words}" in found.out, words


# ------------------------------------------------------------------ the graph file
def test_the_graph_file_comes_in_every_way(
    cli: Cli, small_graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(*words: object) -> Any:
        found = cli("show", *words, "--json").json
        return found | {"brief": found["brief"] | dict.fromkeys(("unsettled", "lines"))}  # they name the file

    wanted = answer("--store", small_graph, "1. e4")
    assert wanted
    assert answer(small_graph, "1. e4") == wanted
    assert answer(small_graph, "startpos", "--moves", "e4") == wanted
    missing = cli("show", "1. e4")
    assert (missing.code, "name a graph file" in missing.err) == (2, True)
    monkeypatch.setenv("GRAPHSEARCH_STORE", str(small_graph))
    assert answer("1. e4") == wanted
    monkeypatch.delenv("GRAPHSEARCH_STORE")
    (tmp_path / "graphsearch.toml").write_text(f"store = '{small_graph.name}'\n")
    small_graph.rename(tmp_path / small_graph.name)
    assert answer("1. e4") == wanted
    cli("store", "backup", "copy.graph").ends(0)
    assert answer("copy.graph", "1. e4") == wanted


def test_a_query_and_its_file_come_in_either_order(cli: Cli, small_graph: Path) -> None:
    for words in (("lab", "sql", "SELECT 1"), ("show", "1. e4")):
        first = cli(*words, small_graph, "--json").ends(0)
        assert cli(*words[:-1], small_graph, words[-1], "--json").ends(0).out == first.out


def test_a_file_keeps_its_own_evaluator(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRAPHSEARCH_STATE_DIR", str(tmp_path / "state"))
    warm = ("--evaluator", "builtin", "--evaluator-option", "PolicyTemperature=2")
    for name, options in {"uniform": ("--evaluator", "uniform"), "warm": warm}.items():
        cli("analyze", f"{name}.graph", "--visits", 20, *options).ends(0)
        again = cli("analyze", f"{name}.graph", "--visits", 20, "--json").ends(0)
        assert "is searched with its own evaluator" in again.err
        assert again.json["visits"] == 40
    command = [sys.executable, "-m", "graphsearch", "uci", "warm.graph"]
    engine = subprocess.run(command, input=b"uci\n", capture_output=True, check=True)
    assert b"name EvaluatorOptions type string default PolicyTemperature=2\n" in engine.stdout
    served = MagicMock(side_effect=InvalidParameterError("not served"))
    monkeypatch.setattr("graphsearch.web.task_queue.ServedFile", served)
    cli("serve", "warm.graph").ends(2, "not served")
    first, *_ = served.call_args.kwargs["evaluators"].values()
    assert first.options == (("PolicyTemperature", "2"),)
    (tmp_path / "state" / "evaluators.json").unlink()
    cli("analyze", "warm.graph", "--visits", 20).ends(1, "values of another evaluator")
    given = (("Threads", "3"), ("policy.threads", "2"), ("Workers", "2"))  # of the builtin V, of the engine
    remember(MagicMock(as_json=lambda: "x"), EvaluatorSpec(policy="uci:toga", options=given))
    assert remembered_evaluator("x")["evaluator_option"] == ["policy.threads=2"]


@pytest.mark.parametrize(
    ("text", "fens"),
    [
        ("1. e4 e5", ["rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w"]),
        ('[Event "?"]\n\n1. d4 *\n', ["rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b"]),
        (f"{chess.STARTING_FEN}\n4k3/8/8/8/8/8/4P3/4K3 w - - 0 1\n", ["rnbqkbnr/pppppppp", "4k3/8/8/8/8"]),
    ],
)
def test_a_search_reads_stdin(cli: Cli, monkeypatch: pytest.MonkeyPatch, text: str, fens: list[str]) -> None:
    pipe = io.BufferedReader(io.BytesIO(text.encode()))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(pipe))
    found = cli("analyze", "-", "--visits", 20, "--json").ends(0).out.splitlines()
    assert all(json.loads(row)["position"].startswith(fen) for row, fen in zip(found, fens, strict=True))


def test_settings_hold_by_their_place(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config" / "graphsearch").mkdir(parents=True)
    user = tmp_path / "config" / "graphsearch" / "graphsearch.toml"
    user.write_text('evaluator = "uniform"\nthreads = 2\n')
    (tmp_path / "graphsearch.toml").write_text("threads = 1\ncolor = false\n")
    monkeypatch.setenv("GRAPHSEARCH_STORE", "a.graph")
    rows = [line.split() for line in cli("help", "settings").out.splitlines()]
    assert {row[0]: (row[-2], row[-1]) for row in rows if row and row[0] in SETTINGS} == {
        "threads": ("1", str(tmp_path / "graphsearch.toml")),
        "color": ("false", str(tmp_path / "graphsearch.toml")),
        "evaluator": ("uniform", str(user)),
        "store": ("a.graph", "GRAPHSEARCH_STORE"),
        "ram": ("-", "default"),
        "syzygy": ("-", "default"),
    }
    (tmp_path / "graphsearch.toml").write_text("\ufeffthreads = 1\ncolor = false\n", encoding="utf-8")
    assert cli("config", "--json").json["settings"]["threads"]["value"] == 1
    assert cli("config").out == cli("help", "settings").out
    assert cli("analyze", "--visits", 20).code == 0
    assert cli("store", "info", "--json").json["evaluator"]["kind"] == "uniform"
    (tmp_path / "graphsearch.toml").write_text('evaluator = "mine.py:Mine"\n')
    with chdir(tmp_path / "config"):
        assert f" {tmp_path / 'mine.py'}:Mine " in cli("config").out
    (tmp_path / "graphsearch.toml").write_text("stor = 1\n")
    wrong = cli("help", "settings")
    assert (wrong.code, "no setting 'stor'" in wrong.err) == (2, True)
    (tmp_path / "graphsearch.toml").write_text('threads = "many"\n')
    assert "must be a whole number" in cli("help", "settings").err


# ------------------------------------------------------------------ completion
def completed(line: str) -> list[str]:
    """Returns what bash is offered for the last word of a line, by a process of its own."""
    asked = {"_GRAPHSEARCH_COMPLETE": "complete_bash", "COMP_WORDS": line}
    asked["COMP_CWORD"] = str(len(line.split()) - 1)
    program = "import sys; from graphsearch.cli import main; sys.argv = ['graphsearch']; sys.exit(main())"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_shell_completes_commands_and_options() -> None:
    assert completed("graphsearch stor") == ["store"]
    assert completed("graphsearch lab pe") == ["perft"]
    assert completed("graphsearch show --deta") == ["--details"]
