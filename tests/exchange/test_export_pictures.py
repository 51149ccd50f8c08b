"""Pictures of `export`: every position once, every way in, widths by N, colours by Q, texts escaped."""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import chess
import pytest

from graphsearch.exchange.picture import FORMS, NODE_EVEN, colour, export_picture, width
from graphsearch.query.neighbourhood import neighbourhood

from ..conftest import Cli
from ..query.handmade import graph_file
from .exported import add_book

LINES = {
    "": {"e4": (60, 0.1), "Nf3": (20, 0.05)},
    "e4": {"e5": (40, -0.15)},
    "e4 e5": {"Nf3": (39, 0.2)},
    "e4 e5 Nf3": None,
    "Nf3": {"e5": (19, 0.1)},
    "Nf3 e5": {"e4": (18, 0.2)},
}
EVIL = '</title><script>alert(1)</script>"&\\'
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = graph_file(tmp_path / "hand.graph", LINES)
    add_book(path, EVIL, "white", [chess.STARTING_FEN], {"e4": -0.3, "e4 e5": 0.2})
    return path


def drawn(file: Path, out: Path) -> ET.Element:
    export_picture(file, out, "svg")
    return ET.fromstring(out.read_text("utf-8"))


def test_an_svg_has_a_box_for_each_position_and_a_line_for_each_way_in(file: Path, tmp_path: Path) -> None:
    root = drawn(file, tmp_path / "a.svg")
    boxes = [box for box in root.iter(f"{SVG}rect") if box.get("rx")]
    lines = [path for path in root.iter(f"{SVG}path") if path.get("stroke")]
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert (len(boxes), len(lines)) == (6, 6)
    assert {"root", "1. e4", "1... e5", "2. Nf3"} < set(texts)
    assert texts.count("e4") == 1, "the second way in is named at its line"


def test_the_more_visits_the_wider_and_the_better_for_a_side_the_more_of_its_colour(
    file: Path, tmp_path: Path
) -> None:
    root = drawn(file, tmp_path / "a.svg")
    wide = {
        (group.findtext(f"{SVG}title") or "").split(",")[0]: float(line.get("stroke-width") or 0)
        for group in root.iter(f"{SVG}g")
        for line in group.iter(f"{SVG}path")
        if line.get("stroke")
    }
    assert wide["e4: N 60"] == width(60, 60) > wide["e5: N 40"] > wide["Nf3: N 20"] > width(0, 60)
    reds = [int(colour(q / 10, NODE_EVEN)[1:3], 16) for q in range(-10, 11)]
    assert reds[0] < reds[5] < reds[10] > reds[20], "blue for Black, orange for White"
    assert colour(0.1, NODE_EVEN) != colour(0.05, NODE_EVEN) != colour(-0.05, NODE_EVEN)


def test_what_comes_from_a_file_is_escaped(file: Path, tmp_path: Path) -> None:
    picture = neighbourhood(file, book=EVIL)
    root = ET.fromstring(FORMS["svg"](picture))
    assert (root.findtext(f"{SVG}title") or "").startswith(f"book {EVIL}")
    assert root.find(f".//{SVG}script") is None
    assert '</script>\\"&\\\\' in FORMS["dot"](picture)


def test_a_digraph_names_each_position_once_and_graphviz_draws_it(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.dot"
    report = export_picture(file, out, "dot", book=EVIL)
    assert (report.positions, report.moves) == (3, 2)
    export_picture(file, out, "dot")
    text = out.read_text("utf-8")
    nodes = [line for line in text.splitlines() if "fillcolor" in line]
    assert (len(nodes), text.count(" -> "), text.count('[label="e5"')) == (6, 6, 2)
    program = shutil.which("dot")
    if not program:
        pytest.skip("Graphviz is not installed")
    for picture in (neighbourhood(file), neighbourhood(file, book=EVIL)):
        made = subprocess.run(
            [program, "-Tsvg"],
            input=FORMS["dot"](picture),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert made.stderr == ""
        groups = ET.fromstring(made.stdout).iter(f"{SVG}g")
        assert sum(group.get("class") == "node" for group in groups) == len(picture.nodes)


def test_the_commands_write_a_file_or_stdout_and_say_what_is_wrong(
    cli: Cli, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.svg"
    said = cli("export", "--format", "svg", "startpos", "--depth", 1, "--store", file, "-o", out)
    assert (said.code, "3 positions, 2 moves" in said.out) == (0, True)
    assert out.read_bytes().startswith(b"<svg")
    data = cli("export", "--format", "dot", "--lines", 2, "--store", file, "-o", out, "--json").json
    assert (data["form"], data["positions"], data["left_out"]) == ("dot", 2, {"moves_outside": 2})
    streamed = cli("export", "--format", "dot", "--store", file, "-o", "-")
    assert streamed.out.startswith("digraph")
    assert "6 positions" in streamed.err
    for words, code in (
        (("--book", "none", "-o", out), 2),
        (("--moves", "e4 e4", "-o", out), 2),
        (("-o", file), 2),
        (("-o", "-", "--json"), 2),
        (("8/8/8/4k3/8/4K3/4P3/8 w - - 0 1", "-o", out), 1),
    ):
        wrong = cli("export", "--format", "svg", *words, "--store", file)
        assert (wrong.code, wrong.out) == (code, ""), words
