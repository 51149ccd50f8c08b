"""The README: its commands run as printed, its reference is the program's, its words are explained."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer.main

from .conftest import ROOT
from .support.books import small_book

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
SET_UP = [
    "pip install . && graphsearch analyze startpos --time 10 --store first.graph",
    "pip install -e '.[test]' && pytest -n 2 --dist loadfile",
]
GAMES = """[White "A"]

1. e4 e5 *

[White "B"]

1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 7. Bb3 d6 8. c3 O-O 9. h3 Nb8 10. d4 Nbd7
11. c4 c6 12. cxb5 axb5 13. Nc3 Bb7 14. Bg5 b4 15. Nb1 h6 16. Bh4 c5 *
"""


def tool() -> ModuleType:
    """Returns tools/readme_reference.py as a module."""
    spec = importlib.util.spec_from_file_location("readme_reference", ROOT / "tools" / "readme_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands(block: str) -> list[str]:
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


CONSOLE = list(
    dict.fromkeys(command for kind, block in BLOCKS if kind == "console" for command in commands(block))
)


@pytest.fixture
def sandbox(tmp_path: Path) -> dict[str, str]:
    """An environment with `graphsearch` on the path, in a folder that has what the examples name."""
    program = tmp_path / "bin" / "graphsearch"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m graphsearch "$@"\n')
    program.chmod(0o755)
    (tmp_path / "games.pgn").write_text(GAMES)
    small_book().write(tmp_path / "white.graph")
    (tmp_path / "white.toml").write_text(next(block for kind, block in BLOCKS if kind == "toml"))
    (tmp_path / "book.bin").write_bytes(bytes.fromhex("463b96181691fc9c031c000700000000"))
    (tmp_path / "positions.epd").write_text("4k3/8/8/8/8/8/4P3/4K3 w - - bm e4;\n")
    return os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def shortened(command: str) -> str:
    """Returns a command that does the same in less time."""
    command = command.replace("--time 10", "--time 1").replace("perft startpos 6", "perft startpos 4")
    command = command.replace("--time 3600", "--time 5").replace(
        "--forever --workers 4", "--time 5 --workers 2"
    )
    command = command.replace("--seconds 10", "--seconds 1")
    command = command.replace("startpos --depth 8", "startpos --depth 5").replace("--depth 7", "--depth 4")
    return re.sub(r"graphsearch bench", "graphsearch bench --nodes 3000", command)


def test_the_commands_of_the_readme_run_in_their_order(sandbox: dict[str, str], tmp_path: Path) -> None:
    assert len(CONSOLE) > 15
    for command in CONSOLE:
        if command in SET_UP or "--batches" in command:  # tests/bench/test_bench_batches.py runs that one
            continue
        done = subprocess.run(
            ["bash", "-c", shortened(command)], cwd=tmp_path, env=sandbox, capture_output=True, text=True
        )
        assert done.returncode in ((0, 1) if "kill -9" in command else (0,)), f"{command}\n{done.stderr}"


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    scripts = [block for kind, block in BLOCKS if kind == "python"]
    assert scripts
    for script in scripts:
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_two_set_up_commands_are_the_first_two() -> None:
    assert CONSOLE[:2] == SET_UP
    assert "pip install -q -e '.[test]'" in (ROOT / ".ci" / "run").read_text()


def test_the_reference_is_what_the_program_says() -> None:
    assert tool().with_reference(README) == README, "run: python tools/readme_reference.py"


WORDS = """batch bounds catch-up collision edge evict flush FPU key leaf N N-in-flight node P Q terminal U V
visit wave WDL"""


@pytest.mark.parametrize("word", re.split(r"\s+", WORDS))
def test_the_glossary_explains(word: str) -> None:
    glossary = README.partition("## Glossary")[2].partition("\n## ")[0]
    assert f"\n| {word} | " in glossary


def test_every_command_and_option_is_documented() -> None:
    app = importlib.import_module("graphsearch.cli.app").app
    text = README.partition("## Commands")[2]
    for path, command in tool()._leaves("graphsearch", typer.main.get_command(app)):
        assert f"### `{path}" in text
        assert command.help
        assert path in command.epilog
        for param in command.params:
            assert param.help, f"{path} {param.name}"
