"""The documents: commands and Python run as printed, links resolve, words are explained, nothing is stale."""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from graphsearch.evaluators.factory import _KINDS, NAMES, TEMPERATURE, EvaluatorSpec, check
from graphsearch.search.params import OPTION_NAMES
from tools import command_reference, python_reference, site_hooks
from tools.benchmarks.__main__ import parser_of
from tools.benchmarks.harness import REGISTRY, find
from tools.update_samples import PAGES, Block, in_processes, masked, prepare, regenerated
from tools.update_samples import blocks as blocks_of

from .conftest import ROOT

RUN = [page for page in PAGES if page.name != "install.md"]  # which installs programs
READ = [*PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "schema").glob("*.md"))]
FOR_USERS = [
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if "contributing" not in path.parts and not path.read_text(encoding="utf-8").startswith("<!-- written by")
]
MOST_LINES = 2640  # of all pages for users
LONGEST_LINE = 120


def blocks(path: Path) -> list[Block]:
    return blocks_of(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# ------------------------------------------------------------ what is shown runs
@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which every page begins."""
    folder = tmp_path_factory.mktemp("documents") / "begin"
    prepare(folder)
    return folder


PAGES_THAT_RUN = [path for path in RUN if {block.kind for block in blocks(path)} & {"console", "python"}]


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES_THAT_RUN, ids=name_of)
def test_a_page_runs_from_top_to_bottom_and_its_samples_are_what_the_program_prints(
    path: Path, begin: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(begin, folder)
    text = path.read_text(encoding="utf-8")
    assert masked(regenerated(text, folder, in_processes(folder))) == masked(text), (
        f"run: python -m tools.update_samples {name_of(path)}"
    )


# ------------------------------------------------------------ what is not run exists
@cache
def commands() -> dict[str, Any]:
    """Returns the commands of the program by name: `graphsearch store info`."""
    app = importlib.import_module("graphsearch.cli.app").app()
    return dict(command_reference.leaves("graphsearch", app))


def shown_commands() -> Iterator[tuple[Path, str]]:
    """Yields every command line that a document shows in a block or in a sentence, lines joined."""
    for path in READ:
        for block in blocks(path):
            if block.kind in ("console", "sh", "text"):
                for line in block.text.replace("\\\n", " ").splitlines():
                    yield path, line.removeprefix("$ ").strip()
        for line in re.findall(r"`(graphsearch [^`]+)`", path.read_text(encoding="utf-8")):
            yield path, " ".join(line.split())


def test_every_shown_command_and_option_exists() -> None:
    known, seen = commands(), 0
    for path, line in shown_commands():
        words = shlex.split(line.partition(" #")[0]) if line.startswith("graphsearch ") else []
        for length in (4, 3, 2):
            command = known.get(" ".join(words[:length]))
            if words and command is not None:
                options = {name for param in command.params for name in param.opts} | {"--help"}
                used = {word for word in words if word.startswith("--") and len(word) > 2}
                assert used <= options, f"{name_of(path)}: {line}"
                if ROOT / "docs" in path.parents or path.name == "README.md":
                    for param in command.params:
                        given = any(name in words for name in param.opts)
                        needed = param.required and param.opts[0].startswith("-")
                        assert given or not needed or "--store" in param.opts, line  # or a setting names it
                seen += 1
                break
        else:
            assert not words or words[1].startswith(("-", "[", "COMMAND")), f"{name_of(path)}: {line}"
    assert seen > 100


def test_every_option_that_a_page_names_exists() -> None:
    known = {name for command in commands().values() for param in command.params for name in param.opts}
    known |= {"--help", "--install-completion", "--show-completion"}
    for path in FOR_USERS:
        text = re.sub(r"`python -m tools[^`]*`", "", FENCED.sub("", path.read_text(encoding="utf-8")))
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) <= known, name_of(path)


def test_every_evaluator_that_is_offered_is_accepted() -> None:
    seen = set()
    for path in READ:
        text = re.sub(r"python -m tools.*", "", path.read_text(encoding="utf-8"))
        for name in re.findall(r"--(?:evaluator|policy|value)[ =]([a-z][^\s`,)\]]*)", text):
            check(EvaluatorSpec(evaluator=name.rstrip(".;:")))
            seen.add(name.partition(":")[0])
    assert seen >= {"mine.py", *(name.partition(":")[0] for name in NAMES[:-1])}


def test_every_evaluator_option_and_parameter_that_is_offered_is_accepted() -> None:
    known = {one.lower() for one in (*OPTION_NAMES, TEMPERATURE)}
    own = {option.lower() for kind in _KINDS.values() for option in (*kind.options, "workers")}
    for path in READ:
        if path.name == "CHANGELOG.md":
            continue
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"--param[ =]([A-Za-z]+)=", text):
            assert name.lower() in known or name == "NAME", f"{name_of(path)}: --param {name}"
        for name in re.findall(r"--evaluator-option[ =](?:policy\.|value\.)?([A-Za-z_]+)=", text):
            assert name.lower() in own or name == "NAME" or name[0].isupper(), f"{name_of(path)}: {name}"


def test_extras_are_installed_in_one_way() -> None:
    """The package is on no registry: `graphsearch[...]` would install whatever stands there by that name."""
    sources = [
        path for folder in ("graphsearch", "cli", "docs") for path in (ROOT / folder).rglob("*.[pm][yd]")
    ]
    assert len(sources) > 200
    for path in [*sources, ROOT / "README.md"]:
        assert "graphsearch[" not in path.read_text(encoding="utf-8"), name_of(path)


def test_every_named_file_and_tool_exists() -> None:
    rooms = "|".join(folder.name for folder in (ROOT / "graphsearch").iterdir() if folder.is_dir())
    named = re.compile(rf"`((?:graphsearch|cli|schema|docs|tools|tests|{rooms})/[\w/]+\.\w+)`")
    for path in RUN:
        for name in named.findall(path.read_text(encoding="utf-8")):
            stands_for_many = re.search("[A-Z]", name)  # NAME_export.py, formatN.graph
            is_there = (ROOT / name).is_file() or (ROOT / "graphsearch" / name).is_file()
            assert is_there or stands_for_many, f"{name_of(path)}: {name}"
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
    assert seen == set(REGISTRY), "docs/contributing/benchmarks.md names every benchmark"


# ------------------------------------------------------------ links and pictures
LINK = re.compile(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def without_code(path: Path) -> str:
    """Returns the text of a document outside its blocks of code."""
    return FENCED.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """Returns the anchors that the headings of a document have."""
    headings = re.findall(r"^#+ (.*)$", without_code(path), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.strip())) for heading in plain}


def test_every_relative_link_resolves() -> None:
    links = [(path, "".join(found)) for path in READ for found in LINK.findall(without_code(path))]
    for path, link in links:
        target, _, anchor = link.partition("#")
        if not re.match(r"\w+:", target):
            file = path.parent / target if target else path
            assert file.exists(), f"{name_of(path)} links to {target}"
            assert not anchor or anchor in anchors(file), f"{name_of(path)} links to {link}"


def test_the_links_of_the_site_are_those_of_the_repository() -> None:
    assert doctest.testmod(site_hooks).failed == 0
    assert site_hooks.rewritten("[f](../schema/store.md) [s](search.md)", "file.md") == (
        "[f](schema/store.md) [s](search.md)"
    )


def test_the_site_lists_every_page() -> None:
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert listed == pages | {page for page in site_hooks.OUTSIDE.values() if page.endswith(".md")}


# ------------------------------------------------------------ what must be said
def test_the_pages_for_users_are_short() -> None:
    texts = {path: path.read_text(encoding="utf-8").splitlines() for path in FOR_USERS}
    assert sum(map(len, texts.values())) <= MOST_LINES
    for path, lines in texts.items():
        longest = max(lines, key=len)
        assert len(longest) <= LONGEST_LINE, f"{name_of(path)}: {longest}"


def test_the_command_reference_is_what_the_program_says() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert page == command_reference.reference(), "run: python tools/command_reference.py"


def test_the_python_reference_is_what_the_docstrings_say() -> None:
    page = (ROOT / "docs" / "python-reference.md").read_text(encoding="utf-8")
    assert page == python_reference.reference(), "run: python -m tools.python_reference"
