"""`graphsearch mate`: what it prints, keeps and refuses."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import chess

from tests.conftest import Cli
from tests.support.forks import Command
from tests.support.pools import until

TWO = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"


def test_a_mate_is_printed_with_its_line(cli: Cli) -> None:
    done = cli("mate", TWO, "--check").ends(0)
    lines = done.out.splitlines()
    assert lines[0] == "White mates in 2; there is no shorter mate"
    assert lines[1].startswith("1. Ra6 ")
    assert lines[1].endswith("#")
    assert "proven positions" in lines[2]
    assert lines[3].startswith("checked: every defence was played out")


def test_json_has_moves_line_and_what_is_excluded(cli: Cli) -> None:
    data = cli("mate", TWO, "--moves", "Ra6", "--json", "--check").json
    assert (data["mate"], data["shortest"], data["excluded"], data["stop_reason"]) == (-1, True, 0, "proven")
    assert (len(data["pv"]), data["checked"]["plies"], data["stored"]) == (2, 2, False)
    none = cli("mate", "startpos", "--within", "1", "--json").json
    assert (none["mate"], none["pv"], none["excluded"], none["shortest"]) == (None, [], 1, False)


def test_results_of_a_file_are_counted_and_written_with_its_lines(cli: Cli, tmp_path: Path) -> None:
    problems, out = tmp_path / "problems.epd", tmp_path / "solved.epd"
    bare = TWO.rsplit(" ", 2)[0]
    lines = [f'{bare} dm 2; id "two";', f"{bare} bm #3;", f"{bare} bm Ra2;", "", f"{bare} am Ra6;", TWO]
    problems.write_text("\n".join([*lines, f"{bare} bm nonsense;"]) + "\n")
    done = cli("mate", problems, "-o", out).ends(0)
    assert "solved: 2 of 4" in done.err
    assert "line 7: bm: move 1 of the list, 'nonsense', is neither a SAN nor a UCI move" in done.err
    first, *_, plain, unread = written = out.read_text().splitlines()
    assert first.startswith(f'{bare} hmvc 0; fmvn 1; id "two"; dm 2; pv Ra6 ')
    assert "; dm 2; pv Ra6 " in plain
    assert ("; bm nonsense; dm 2; pv" in unread, len(written)) == (True, 6)
    rows = [json.loads(line) for line in cli("mate", problems, "--json").ends(0).out.splitlines()]
    assert [(row["line"], row["solved"]) for row in rows] == [
        *((1, True), (2, True), (3, False), (5, False)),
        *((6, None), (7, None)),
    ]
    for words, code in (((TWO, "-o", out), 2), ((problems, "-o", problems), 2)):
        wrong = cli("mate", *words)
        assert (wrong.code, len(wrong.faults)) == (code, 1)
    assert problems.read_text().startswith(bare)


def test_nothing_found_is_said_with_its_reason(cli: Cli) -> None:
    assert "no mate in up to 1 move: that was the limit" in cli("mate", "startpos", "--within", 1).out
    assert "the visit limit was reached" in cli("mate", "startpos", "--visits", 50).out
    assert (
        cli("mate", "7k/8/6K1/8/8/8/8/8 w - - 0 1").out
        == "no mate: the game is over (stalemate, dead position or 75-move rule)\n"
    )
    assert cli("mate", "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1").out == "checkmate\n"


def test_a_file_keeps_proofs_without_its_evaluator(cli: Cli, small_graph: Path, tmp_path: Path) -> None:
    for path in (small_graph, tmp_path / "new.graph"):
        first = cli("mate", TWO, "--store", path, "--json").json
        assert first["stored"]
        again = cli("mate", TWO, "--store", path, "--json").json
        assert (again["mate"], again["pv"], again["shortest"]) == (2, first["pv"], True)
        assert not again["stored"]
        assert again["visits"] <= first["visits"]
        assert cli("store", "verify", path).code == 0


def test_ctrl_c_ends_with_what_is_excluded(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    process = Command("mate", chess.STARTING_FEN, "--store", path, "--json")
    until(path.exists)  # just before it begins
    time.sleep(0.4)
    process.send_signal(signal.SIGINT)
    done = process.end().ends(130)
    if done.out:  # else it was still compiling
        assert (done.json["mate"], done.json["stop_reason"]) == (None, "stop")


def test_every_position_of_a_file_is_searched_in_turn(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "problems.epd"
    file.write_text(
        "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1\nnonsense\nkbK5/pp6/1P6/8/8/8/8/R7 w - - bm Ra6;\n"
    )
    both = cli("mate", file)
    assert both.code == 1, "a line is no position"
    assert [line for line in both.out.splitlines() if "mates in" in line] == [
        "White mates in 1; there is no shorter mate",
        "White mates in 2; there is no shorter mate",
    ]
    assert "line 3: kbK5" in both.out
    assert "line 2: a FEN needs" in both.err
    found = [json.loads(line)["mate"] for line in cli("mate", file, "--json").out.splitlines()]
    assert found == [1, 2]
    assert cli("mate", file, "--game", 1, "--json").json["mate"] == 1


def test_a_file_without_a_position_is_refused(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "empty.epd"
    for text in ("", "\n# nothing yet\n"):
        file.write_text(text)
        for args in ((), ("--json",), ("-o", tmp_path / "out.epd")):
            refused = cli("mate", file, *args)
            assert (refused.code, refused.out, refused.faults) == (
                1,
                "",
                [f"graphsearch: {file} has no positions"],
            )
    assert not (tmp_path / "out.epd").exists()
