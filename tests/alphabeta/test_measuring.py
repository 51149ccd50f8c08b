"""`python -m tools.measure_alphabeta`: what it leaves out, and what it refuses."""

from __future__ import annotations

import pytest

from tools.measure_alphabeta import main

MATE_IN_2 = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"
STALEMATE = "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"


def test_depths_that_find_a_mate_have_no_row(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--depth", "4", "--table-mb", "1", "--fen", MATE_IN_2, "--fen", STALEMATE])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["1", "2", "3"]
    assert [line.split()[1:3] for line in (lines[4], lines[7])] == [["a", "mate,"]] * 2
    assert lines[8].startswith("median leaves/minimal")


@pytest.mark.parametrize("arguments", [["--depth", "0"], ["--fen", "bad"], ["--table-mb", "x"]])
def test_wrong_arguments_are_refused_in_a_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert f"argument {arguments[0]}: " in capsys.readouterr().err
