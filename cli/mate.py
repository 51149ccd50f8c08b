"""`graphsearch mate`: the shortest mate in a position, or the moves in which none exists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphsearch.base.errors import InvalidPositionError, UnusableFileError

from .commands import command
from .options import Json, PositionOptions, StoreToSave, Time, option
from .output import FAILED, print_json, say
from .progress import clock, progress_display
from .render import count, rate
from .signals import StopSignals

if TYPE_CHECKING:
    import chess

    from graphsearch.solvers.mate.check import MateCheck
    from graphsearch.solvers.mate.session import MateProgress, MateResult
    from graphsearch.solvers.mate.sides import MateLimits
    from graphsearch.store.record.transposition import EntryTable

TABLE_BYTES = 256 << 20  # of the file's entries in memory
WHY = {
    "visits": "the visit limit was reached",
    "time": "the time limit was reached",
    "stop": "the search was stopped",
    "excluded": "that was the limit",
    "hopeless": "neither side can mate with the pieces on the board",
    "finished": "the game is over (stalemate, dead position or 75-move rule)",
    "claimable": "the side to move may claim a draw (50-move rule)",
}

Within = Annotated[int | None, option("--within M", "Look only for mates in up to M moves.", min=1)]
Check = Annotated[
    bool, option("--check", "Play the mate out against every defence, using only the rules of python-chess.")
]
Output = Annotated[
    Path | None,
    option(
        "-o --output OUT", "Of a file of positions: also write its lines to this EPD file, with dm and pv."
    ),
]


@command(
    "Find the shortest mate in a position.",
    'graphsearch mate "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"',
    'graphsearch mate "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1" --check --json',
    "graphsearch mate positions.epd --time 10 -o solved.epd",
)
def mate(
    position: PositionOptions,
    within: Within = None,
    visits: Annotated[int | None, option("--visits N", "Stop after expanding N nodes.", min=1)] = None,
    time: Time = None,
    store: StoreToSave = None,
    check: Check = False,
    output: Output = None,
    json: Json = False,
) -> None:
    """Find the shortest mate in a position by proof-number search, for either side.

    Of a file with a position on each line (EPD), all are searched in turn, each within the limits; --game K
    takes one of them. Where its lines name a result (`dm 3`, `bm #3`, `bm Qg7#`, `am`), the last line counts
    how many were solved; a shorter mate solves, too. A mate is proven against every defence. Where the output
    says so, it is also proven that no shorter mate exists. Without --time and --visits, a search ends after
    60 seconds. Ctrl-C ends it and prints what is known.

    JSON: one object for each position, of a file with `line` and `solved`, which is null where the line names
    no result. `mate` is in moves: negative if the side to move is mated, 0 for checkmate, null if none is
    proven. `pv` is the whole line, with best attack and longest defence; `shortest` tells whether no shorter
    mate exists; `excluded` is the number of moves within which neither side can force mate.
    """
    from graphsearch.exchange.output import check_target
    from graphsearch.position.notation import holds_positions
    from graphsearch.solvers.mate.sides import DEFAULT_SECONDS, MateLimits

    if time is None and visits is None:
        time = DEFAULT_SECONDS
    limits = MateLimits(visits=visits, seconds=time, moves=within)
    if output is not None:
        if not holds_positions(position.position):
            raise typer.BadParameter("-o writes the lines of a file of positions; name one")
        check_target(output, store=store, source=Path(position.position))
    tried, found, bad, results = 0, 0, 0, _Results(output, store)
    with StopSignals("Stopping: finding the proven line...\n") as signals:
        for line, text, board in _problems(position):
            if signals.stop.is_set():
                break
            if isinstance(board, InvalidPositionError):
                bad += 1
                say(f"graphsearch: line {line}: {board}")
                continue
            with _proofs_of(store, board) as entries:
                result, checked = _search(board, limits, entries, signals, check=check)
            tried += 1
            found += result.mate is not None
            solved = results.add(line, text, result)
            if json:
                more: dict[str, object] = {"line": line, "solved": solved} if line else {}
                more |= {} if checked is None else {"checked": checked.as_dict()}
                print_json(result.as_dict() | more)
                continue
            if line:
                print(f"line {line}: {board.fen()}")
            print(*_answer(board, result, checked), sep="\n")
    if not (tried or bad or signals.exit_code):
        raise UnusableFileError(f"{position.position} has no positions")
    results.finish()
    if store is None and found and not json:
        say("Nothing was saved; use --store FILE to keep the proofs for later searches.")
    if signals.exit_code or bad:
        raise typer.Exit(signals.exit_code or FAILED)


class _Results:
    """Collects the results of a file of positions: the solved ones, and its lines with the mates found."""

    def __init__(self, output: Path | None, store: Path | None) -> None:
        self._output, self._store = output, store
        self._solved: list[bool] = []
        self._lines: list[str] = []

    def add(self, number: int, text: str, result: MateResult) -> bool | None:
        """Adds the result of a line; returns whether it solves it, None if the line names no result.

        Operations that cannot be read are reported and stay in the written line.
        """
        from graphsearch.exchange.epd_import import annotated, is_solved, read_epd
        from graphsearch.position.lines import sans_of

        if not text:  # not of a file
            return None
        board, operations, faults = read_epd(text)
        for fault in faults:
            say(f"graphsearch: line {number}: {fault}")
        mate = str(result.mate) if result.mate is not None and result.mate > 0 else None
        pv = " ".join(sans_of(board, list(result.pv)))
        self._lines.append(annotated(text, {"dm": mate, "pv": pv}))
        solved = is_solved(operations, result.mate, result.pv[0].uci() if result.pv else None)
        self._solved += [] if solved is None else [solved]
        return solved

    def finish(self) -> None:
        """Prints the number of solved positions, and writes the lines."""
        if self._solved:
            say(f"solved: {sum(self._solved):,} of {len(self._solved):,}")
        if self._output is not None:
            from graphsearch.exchange.output import new_output

            with new_output(self._output, store=self._store) as out:
                out.write("".join(f"{line}\n" for line in self._lines).encode())
            say(f"{self._output}: {count(len(self._lines), 'position')}")


def _problems(position: PositionOptions) -> Iterator[tuple[int, str, chess.Board | InvalidPositionError]]:
    """Yields the positions to solve: those of a file, each with its line, or the named one with line 0."""
    from graphsearch.base.limits import open_file, text_lines
    from graphsearch.position.notation import holds_positions, read_fen_lines

    one = (position.moves, position.game, position.ply) != (None, None, None)
    if one or not holds_positions(position.position):
        yield 0, "", position.board()
        return
    with open_file(position.position, piped=True) as file:
        for number, text in enumerate(text_lines(file, position.position), 1):
            for _, board in read_fen_lines([text]):
                yield number, text.strip(), board


@contextmanager
def _proofs_of(store: Path | None, board: chess.Board) -> Iterator[EntryTable | None]:
    """Yields the proofs of a file, and saves it at the end; None without a file."""
    if store is None:
        yield None
        return
    from graphsearch.graph.graph import Graph
    from graphsearch.solvers.mate.session import note_proof

    with Graph.open_unevaluated(store) as graph:
        entries = graph.use_entries(TABLE_BYTES)
        note_proof(graph, board)
        yield entries


def _search(
    board: chess.Board, limits: MateLimits, entries: EntryTable | None, signals: StopSignals, *, check: bool
) -> tuple[MateResult, MateCheck | None]:
    """Returns the result, and its check if `check` is set and there is a mate."""
    from graphsearch.solvers.mate.check import check_mate
    from graphsearch.solvers.mate.session import MateSearch

    search = MateSearch(board, limits, entries=entries)
    search.warm_up()
    signals.arm()
    with progress_display(signals, status_line, least_gap_s=0.2) as show:
        result = search.run(signals.stop, show)
    if not check or result.mate is None:
        return result, None
    return result, check_mate(board, result.mate, search.attack)


# ---------------------------------------------------------------- output
def _answer(board: chess.Board, result: MateResult, checked: MateCheck | None) -> list[str]:
    lines = [_verdict(board, result)]
    if result.pv:
        lines.append(board.variation_san(result.pv))
    if result.stop_reason != "finished":
        figures = (
            f"visits {result.visits:,}",
            f"proven positions {result.proofs:,}",
            f"visits/s {rate(result.visits / max(result.seconds, 1e-9))}",
            f"{result.seconds:.1f} s",
        )
        lines.append("   ".join(figures))
    if checked is not None:
        lines.append(
            f"checked: every defence was played out, {count(checked.positions, 'position')};"
            f" the longest lasts {count(checked.plies, 'ply', 'plies')}"
        )
    return lines


def _verdict(board: chess.Board, result: MateResult) -> str:
    from graphsearch.solvers.mate.sides import MOST_MOVES

    if result.mate is None:
        why = WHY[result.stop_reason]
        if result.stop_reason == "excluded" and result.excluded >= MOST_MOVES:
            why = "longer mates are not searched for"  # most often the 50-move rule comes first
        within = f" in up to {count(result.excluded, 'move')}" if result.excluded else " is proven"
        hopeless = result.stop_reason in ("hopeless", "finished", "claimable")
        return f"no mate: {why}" if hopeless else f"no mate{within}: {why}"
    if result.mate == 0:
        return "checkmate"
    white = board.turn == (result.mate > 0)
    text = f"{'White' if white else 'Black'} mates in {abs(result.mate)}"
    if result.shortest:
        return f"{text}; there is no shorter mate"
    why = WHY.get(result.stop_reason, result.stop_reason)
    shorter = f"none in up to {result.excluded}" if result.excluded else "a shorter one is possible"
    return f"{text} or less; {shorter}: {why}"


def status_line(progress: MateProgress) -> str:
    """Returns the progress of a search for a mate, in one line."""
    found = "no mate yet" if progress.mate is None else f"mate in {abs(progress.mate)}"
    parts = (
        clock(progress.seconds),
        f"visits {progress.visits:,}",
        f"visits/s {rate(progress.visits / max(progress.seconds, 1e-9))}",
        f"{found}, none in up to {progress.excluded}",
    )
    return "   ".join(parts)
