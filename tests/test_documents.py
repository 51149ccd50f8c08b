"""The documents: commands and Python run as printed, links resolve, words are explained, nothing is stale."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
import typer.main

from graphsearch.book.toml import parse_config
from graphsearch.evaluators.factory import _KINDS, NAMES, SEARCH_OPTIONS, EvaluatorSpec, check
from graphsearch.search.params import OPTION_NAMES
from tools.benchmarks.__main__ import parser_of
from tools.benchmarks.harness import REGISTRY, find

from .conftest import ROOT, Cli
from .support.books import small_book

RUN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
READ = [*RUN, ROOT / "CHANGELOG.md", *sorted((ROOT / "schema").glob("*.md"))]
MOST_LINES = 200  # of the README
MOST_BYTES = 100_000  # of a picture
USE = "pip install . && graphsearch analyze startpos --time 10 --store first.graph"
INSTALL = "pip install -e '.[test]' && "
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
GAMES = (
    """[White "Kasparov, Garry"]
[Black "Carlsen, Magnus"]
[Date "2024.03.15"]

1. e4 e5 *

[White "B"]
[Black "Carlsen, Magnus"]
[Date "2024.03.16"]

1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 7. Bb3 d6 8. c3 O-O 9. h3 Nb8 10. d4 Nbd7
11. c4 c6 12. cxb5 axb5 13. Nc3 Bb7 14. Bg5 b4 15. Nb1 h6 16. Bh4 c5 *
"""
    + 9 * '\n[White "Kasparov, Garry"]\n[Black "B"]\n\n1. d4 d5 *\n'
)
SHORTER = {
    "--visits 5000": "--visits 1000",
    "Limits(visits=500)": "Limits(visits=50)",
    "--forever --workers 4": "--time 1 --workers 2",
    "--shards 2 --time 3": "--shards 2 --visits 3000",
    "perft startpos 6": "perft startpos 4",
    "sleep 14": "sleep 4",  # the kernels are compiled
    "startpos --depth 8": "startpos --depth 4",
    "--depth 7": "--depth 4",
}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a document: its language, the file that it shows (if it says so), its text."""

    kind: str
    title: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands of a console."""
        return [line.removeprefix("$ ") for line in self.text.splitlines() if line.startswith("$ ")]


def blocks(path: Path) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(path.read_text(encoding="utf-8"))]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tool(name: str) -> ModuleType:
    """Returns tools/NAME.py as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------ what is shown runs
@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has what the examples name, with `graphsearch` in bin/."""
    folder = tmp_path_factory.mktemp("documents")
    program = folder / "bin" / "graphsearch"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m graphsearch "$@"\n')
    program.chmod(0o755)
    (folder / "games.pgn").write_text(GAMES)
    small_book().write(folder / "white.graph")
    books = [block.text for block in blocks(ROOT / "docs" / "books.md") if block.kind == "toml"]
    (folder / "white.toml").write_text(books[0])
    (folder / "book.bin").write_bytes(bytes.fromhex("463b96181691fc9c031c000700000000"))
    (folder / "positions.epd").write_text("4k3/8/8/8/8/8/4P3/4K3 w - - bm e4;\n")
    main = importlib.import_module("graphsearch.cli").main
    assert main(["analyze", "startpos", "--visits", "2000", "--store", str(folder / "first.graph")]) == 0
    shutil.copy(folder / "first.graph", folder / "sunday.graph")
    return folder


def shortened(command: str) -> str:
    """Returns a command, or a script, that does the same in less time."""
    for long, short in SHORTER.items():
        command = command.replace(long, short)
    command = "graphsearch bench --nodes 3000" if command == "graphsearch bench" else command
    command = re.sub(r"(graphsearch analyze .*)--time [1-9]\d\b", r"\1--visits 3000", command)
    command = re.sub(r"(graphsearch book build .*)--time \d+", r"\1--evaluations 8000", command)
    return command.replace("--seconds 10", "--seconds 1")


def is_run_elsewhere(command: str) -> bool:
    """Returns whether a command sets up, or tests of its own run it with the same options."""
    if command in (USE, "graphsearch bench --json > figures.json") or "--pool ray:auto --workers" in command:
        return True
    return command.startswith(("pip install ", "graphsearch serve ", "python -m tools."))


def needs_a_process(command: str) -> bool:
    """Returns whether a command needs a shell, or a process of its own."""
    shell = re.search(r"[|&<>;$]", re.sub(r'"[^"]*"', "", command))
    return bool(shell) or re.match(r"graphsearch (uci|bench)", command) is not None or "--workers" in command


PAGES_THAT_RUN = [path for path in RUN if {block.kind for block in blocks(path)} & {"console", "python"}]


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES_THAT_RUN, ids=name_of)
def test_a_document_runs_from_top_to_bottom(
    path: Path, bench: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(bench, folder)
    if "store backup" in path.read_text(encoding="utf-8").partition("sunday.graph")[0]:
        (folder / "sunday.graph").unlink()  # the page makes it
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    for block in blocks(path):
        if block.title:
            (folder / block.title).write_text(block.text)
        if block.kind == "python":
            run([sys.executable, "-c", shortened(block.text)])
        for command in block.commands if block.kind == "console" else []:
            if is_run_elsewhere(command):
                continue
            if needs_a_process(command):
                run(["bash", "-c", shortened(command)])
            else:
                done = cli(*shlex.split(shortened(command))[1:])
                assert done.code == 0, f"{command}\n{done.err}"


def run(words: list[str]) -> None:
    """Runs a process that has to end well, unless it is told to be killed."""
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    killed = "kill -9" in words[-1]
    assert done.returncode == 0 or (killed and done.returncode == 1), f"{words[-1]}\n{done.stderr}"


def test_the_readme_begins_with_the_two_commands_that_everything_else_is_built_on() -> None:
    use, develop = [line for block in blocks(ROOT / "README.md") for line in block.commands][:2]
    assert use == USE
    assert develop.startswith(INSTALL)
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert steps.rstrip().endswith(develop.removeprefix(INSTALL))
    assert "pip install -q -e '.[test,docs]'" in steps


# ------------------------------------------------------------ what is not run exists
def shown_commands() -> Iterator[tuple[Path, str]]:
    """Yields every command line that a document shows in a block, continuation lines joined."""
    for path in READ:
        for block in blocks(path):
            if block.kind in ("console", "sh", "text"):
                for line in block.text.replace("\\\n", " ").splitlines():
                    yield path, line.removeprefix("$ ").strip()


def test_every_shown_command_and_option_exists() -> None:
    known = dict(tool("command_reference").leaves("graphsearch", the_command()))
    seen = 0
    for path, line in shown_commands():
        words = shlex.split(line.partition(" #")[0]) if line.startswith("graphsearch ") else []
        for length in (4, 3, 2):
            command = known.get(" ".join(words[:length]))
            if words and command is not None:
                options = {name for param in command.params for name in param.opts} | {"--help"}
                used = {word for word in words if word.startswith("--") and len(word) > 2}
                assert used <= options, f"{name_of(path)}: {line}"
                if path.parent.name == "docs" or path.name == "README.md":
                    for param in command.params:
                        given = any(name in words for name in param.opts)
                        assert not (param.required and param.opts[0].startswith("-") and not given), line
                seen += 1
                break
        else:
            assert not words or words[1].startswith(("-", "[", "COMMAND")), f"{name_of(path)}: {line}"
    assert seen > 100


def offered_evaluators() -> Iterator[tuple[str, str]]:
    """Yields every evaluator that help or a document offers, with where it stands."""
    listed = next(
        text
        for command in dict(tool("command_reference").leaves("graphsearch", the_command())).values()
        for option in command.params
        if "--evaluator" in option.opts and (text := " ".join(option.help.split())).startswith("builtin")
    )
    for name in re.findall(r"(?:^|; |or )([a-z0-9]+(?::[A-Z]+)?)(?= \(the default\):|: | or )", listed):
        yield name, "help"
    for path in READ:
        text = re.sub(r"python -m tools.*", "", path.read_text(encoding="utf-8"))
        for name in re.findall(r"--(?:evaluator|policy|value)[ =]([a-z][^\s`,)\]]*)", text):
            yield name, name_of(path)


def test_every_evaluator_that_is_offered_is_accepted() -> None:
    seen = set()
    for name, _ in offered_evaluators():
        check(EvaluatorSpec(evaluator=name.rstrip(".;:")))
        seen.add(name.partition(":")[0])
    assert seen >= {name.partition(":")[0] for name in NAMES}


def test_every_evaluator_option_and_parameter_that_is_offered_is_accepted() -> None:
    known = {one.lower() for one in (*OPTION_NAMES, *SEARCH_OPTIONS)}
    own = {option.lower() for kind in _KINDS.values() for option in (*kind.options, "workers")}
    for path in READ:
        if path.name == "CHANGELOG.md":
            continue
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"--param[ =]([A-Za-z]+)=", text):
            assert name.lower() in known or name == "NAME", f"{name_of(path)}: --param {name}"
        for name in re.findall(r"--evaluator-option[ =](?:policy\.|value\.)?([A-Za-z_]+)=", text):
            assert name.lower() in own or name == "NAME" or name[0].isupper(), f"{name_of(path)}: {name}"


def test_the_books_of_the_documents_fit_into_one_file(tmp_path: Path) -> None:
    (tmp_path / "games.pgn").write_text(GAMES)
    texts = [block.text for block in blocks(ROOT / "docs" / "books.md") if block.kind == "toml"][:3]
    books = [parse_config(text, tmp_path, f"{k}.toml") for k, text in enumerate(texts)]
    assert len({book.name for book in books}) == 3
    assert len({book.evaluator for book in books}) == 1


def test_extras_are_installed_in_one_way() -> None:
    """The package is on no registry: `graphsearch[...]` would install whatever stands there by that name."""
    sources = [
        path for folder in ("graphsearch", "cli", "docs") for path in (ROOT / folder).rglob("*.[pm][yd]")
    ]
    assert len(sources) > 300
    for path in [*sources, ROOT / "README.md"]:
        assert "graphsearch[" not in path.read_text(encoding="utf-8"), name_of(path)


@pytest.mark.parametrize("path", RUN, ids=name_of)
def test_every_named_file_exists(path: Path) -> None:
    rooms = "|".join(folder.name for folder in (ROOT / "graphsearch").iterdir() if folder.is_dir())
    tops = "graphsearch|cli|schema|docs|tools|tests"
    named = re.findall(rf"`((?:{tops}|{rooms})/[\w/]+\.\w+)`", path.read_text(encoding="utf-8"))
    for name in named:
        if re.search("[A-Z]", name):  # stands for many names: NAME_export.py, formatN.graph
            continue
        assert (ROOT / name).is_file() or (ROOT / "graphsearch" / name).is_file(), name


def test_every_named_tool_exists() -> None:
    for path in READ:
        for name in re.findall(r"python -m tools\.([a-z_]+)\b", path.read_text(encoding="utf-8")):
            files = (ROOT / "tools" / f"{name}.py", ROOT / "tools" / name / "__main__.py")
            assert any(file.is_file() for file in files), f"{name_of(path)}: tools.{name}"


def test_every_named_benchmark_and_its_options_exist() -> None:
    seen = set()
    for path in READ:
        text = re.sub(r"\\\n *", "", path.read_text(encoding="utf-8"))
        for words in re.findall(r"python -m tools\.benchmarks ([a-z][^\n`]*)", text):
            name, *rest = words.split()
            known = parser_of(name, find(name)).format_help()
            for option in re.findall(r"--[a-z-]+", " ".join(rest)):
                assert f"  {option} " in known, f"{name_of(path)}: {name} {option}"
            seen.add(name)
    assert seen == set(REGISTRY), "docs/benchmarks.md names every benchmark"


# ------------------------------------------------------------ links and pictures
LINK = re.compile(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """Returns the anchors that the headings of a document have."""
    text = FENCED.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.strip())) for heading in plain}


@pytest.mark.parametrize("path", READ, ids=name_of)
def test_every_relative_link_resolves(path: Path) -> None:
    for found in LINK.findall(FENCED.sub("", path.read_text(encoding="utf-8"))):
        target, _, anchor = "".join(found).partition("#")
        if re.match(r"\w+:", target):
            continue
        file = path if not target else path.parent / target
        assert file.exists(), f"{name_of(path)} links to {target}"
        if anchor and not anchor.startswith("graphsearch."):  # these are made from docstrings, for the site
            assert anchor in anchors(file), f"{name_of(path)} links to {target}#{anchor}"


def test_the_links_of_the_site_are_those_of_the_repository() -> None:
    hooks = tool("site_hooks")
    assert doctest.testmod(hooks).failed == 0
    assert hooks.rewritten("![x](docs/pictures/live.svg) [f](schema/store.md)", "index.md") == (
        "![x](pictures/live.svg) [f](schema/store.md)"
    )
    assert hooks.rewritten("[f](../schema/store.md) [s](search.md)", "file.md") == (
        "[f](schema/store.md) [s](search.md)"
    )
    assert hooks.rewritten("[f](../docs/file.md#a) [u](https://a.b/c)", "schema/store.md") == (
        "[f](../file.md#a) [u](https://a.b/c)"
    )


def test_the_site_lists_every_page() -> None:
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    outside = {page for page in tool("site_hooks").OUTSIDE.values() if page.endswith(".md")}
    assert listed == pages | outside


@pytest.mark.parametrize("name", ["live", "tree"])
def test_a_picture_is_small_and_whole(name: str) -> None:
    path = ROOT / "docs" / "pictures" / f"{name}.svg"
    assert path.stat().st_size < MOST_BYTES
    text = "".join(ElementTree.parse(path).getroot().itertext()).replace("\xa0", " ")
    assert "graphsearch" in text
    assert f"docs/pictures/{name}.svg" in (ROOT / "README.md").read_text(encoding="utf-8")


# ------------------------------------------------------------ what must be said
def the_command() -> Any:
    return typer.main.get_command(importlib.import_module("graphsearch.cli.app").app)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_the_command_reference_is_what_the_program_says() -> None:
    reference = tool("command_reference").reference()
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert page == reference, "run: python tools/command_reference.py"


def test_every_command_and_option_is_documented() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for path, command in tool("command_reference").leaves("graphsearch", the_command()):
        assert f"### `{path}" in text
        assert command.help
        assert path in command.epilog
        for param in command.params:
            assert param.help, f"{path} {param.name}"


WORDS = """batch bounds catch-up collision edge evict flush FPU key leaf N N-in-flight node P Q terminal U V
visit wave WDL"""


@pytest.mark.parametrize("word", re.split(r"\s+", WORDS))
def test_the_glossary_explains(word: str) -> None:
    assert f"\n| {word} | " in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
