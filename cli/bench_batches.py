"""`graphsearch bench --batches`: its options, its progress, and its results as tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import EvaluatorOptions, check_plot_file, closing
from .output import console, print_json, say
from .render import rate
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.bench.batches.plan import Plan
    from graphsearch.bench.batches.report import Report

    Row = Mapping[str, Any]
    Cell = Callable[[Row], str]

SAY_SECONDS = 10.0  # between two lines of progress where there is no terminal
FULL_SHARE = 0.95  # of a batch that counts as full
LARGE_COUNT = 100_000
NAME_WIDTH, BATCH_WIDTH = 11, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesOptions:
    """What `bench --batches` measures."""

    full: Annotated[
        bool, typer.Option("--full", help="With --batches: measure everything, which takes hours.")
    ] = False
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="With --batches: also plot the figures, as FILE.png."),
    ] = None
    evaluator: Annotated[
        list[str] | None,
        typer.Option(
            "--evaluator",
            metavar="NAME",
            help="With --batches: measure this evaluator too, besides uniform and builtin; may be repeated.",
        ),
    ] = None
    positions: Annotated[
        int | None,
        typer.Option(
            "--positions",
            metavar="N",
            min=0,
            help="With --batches: compare searches on at most N positions, 0 for none; fewer take less "
            "time and leave larger errors.",
        ),
    ] = None
    reference: Annotated[
        Path | None,
        typer.Option(
            "--reference",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="With --batches: positions to compare searches on, as JSON lines with fen and bestmove "
            "(of a strong engine), gzipped or not; by default generated positions, whose best moves "
            "are unknown.",
        ),
    ] = None
    epd: Annotated[
        Path | None,
        typer.Option(
            "--epd",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="With --batches: problems to solve, as EPD lines with bm.",
        ),
    ] = None

    def plan(self, nodes: int | None) -> Plan:
        """Returns what to measure, on graphs of up to `nodes` nodes.

        Raises:
          typer.BadParameter: for an unknown evaluator.
        """
        for name in self.evaluator or ():
            made, _ = EvaluatorOptions(evaluator=name).create()
            with closing(made):
                pass
        from graphsearch.bench.batches import plan

        return plan.Plan(
            evaluators=tuple(dict.fromkeys(("uniform", "builtin", *(self.evaluator or ())))),
            nodes=nodes or plan.NODES,
            efforts=plan.FULL if self.full else plan.FIVE_MINUTES,
            positions=self.positions,
            reference=self.reference,
            epd=self.epd,
        )


def bench_batches(options: BatchesOptions, nodes: int | None, *, json: bool) -> None:
    """Takes the measurements and prints them; the plot's name and library are checked before."""
    from graphsearch.bench.batches.report import measure

    plan, plot = options.plan(nodes), options.plot
    if plot is not None:
        from graphsearch.bench.batches.plot import check_library

        check_plot_file(plot, ".png")
        check_library()
    for what in plan.left_out():
        say(f"skipped: {what}")
    with StopSignals(), _progress() as report:
        found = measure(plan, report)
    if plot is not None:
        from graphsearch.bench.batches.plot import draw

        draw(found["rows"], plot, caption=f"{found['machine']}; error bars: standard errors over positions")
        say(f"Plotted: {plot}")
    if json:
        print_json(found)
        return
    print(found["machine"])
    for line in tables(found["rows"]):
        print(line)


# ------------------------------------------------------------------ progress
@contextmanager
def _progress() -> Iterator[Report]:
    """Yields what shows the progress: one line that changes on a terminal, a line now and then in a pipe."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _lines()
        return
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(20), TextColumn("{task.description}"))
    with Progress(*columns, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share, left, what: bar.update(
            task, completed=share, description=progress_line(share, left, what)
        )


def _lines() -> Report:
    last = [-SAY_SECONDS]

    def report(share: float, left: float | None, what: str) -> None:
        now = time.monotonic()
        if now - last[0] >= SAY_SECONDS:
            last[0] = now
            say(progress_line(share, left, what))

    return report


def progress_line(share: float, left: float | None, what: str) -> str:
    """Returns how far the measurements are, in one line.

    >>> progress_line(0.25, 190.0, "filling"), progress_line(0.0, None, "compiling")
    ('25 %, about 3 min left: filling', '0 %: compiling')
    """
    if left is None:
        return f"{100 * share:.0f} %: {what}"
    time_left = f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"
    return f"{100 * share:.0f} %, about {time_left} left: {what}"


# ------------------------------------------------------------------ tables
def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yields the lines of all tables: batches filled, positions, speed and price."""
    for evaluator in dict.fromkeys(row["evaluator"] for row in rows):
        own = [row for row in rows if row["evaluator"] == evaluator]
        yield from _smallest(evaluator, own)
        yield from _table(
            f"{evaluator}: one wave, medians of {own[0]['graphs']} graphs",
            [row for row in own if row["batch"] > 1],
            [
                ("positions reached", _count("positions_per_batch")),
                ("rounds", _count("rounds")),
                ("collisions", _count("collisions")),
            ],
        )
        yield from _table(
            f"{evaluator}: speed (for small waves, the call from Python dominates gathering)",
            own,
            [("gather, us a position", _time), ("visits/s of whole waves", _rate)],
        )
        yield from _price(evaluator, [row for row in own if row["agreement"] is not None])


def _smallest(evaluator: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yields the table of the graph sizes from which each gatherer fills each batch."""
    gatherers = _gatherers(rows)
    yield from ("", f"{evaluator}: nodes from which {100 * FULL_SHARE:.0f} % of a batch is filled")
    yield "".join([f"{'batch':>{NAME_WIDTH}}", *(f"{name:>10}" for name in gatherers)])
    for batch in _values([row for row in rows if row["batch"] > 1], "batch"):
        cells = [_from_nodes(rows, gather, batch) for gather in gatherers]
        yield "".join([f"{batch:>{NAME_WIDTH},}", *(f"{cell:>10}" for cell in cells)])


def _from_nodes(rows: Sequence[Row], gather: str, batch: int) -> str:
    """Returns the graph size from which the batch is always filled, `-` if it never is."""
    found = [row for row in rows if row["gather"] == gather and row["batch"] == batch]
    since = None
    for row in reversed(found):
        if row["positions_per_batch"] < FULL_SHARE * batch:
            break
        since = row["nodes"]
    return "-" if since is None else f"{since:,}"


def _price(evaluator: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yields the tables of the price (mean and standard error), where batches differ."""
    rows = [row for row in rows if row["batch"] <= _largest_searched(rows, row["nodes"])]
    if not rows:
        return
    counts = " and ".join(f"{row['positions']} at {row['nodes']:,}" for row in _firsts(rows))
    yield from _table(
        f"{evaluator}: price at equal evaluations, mean\u00b1standard error over positions ({counts}).\n"
        "Sequential search has 100 %, 0 and 0 %; larger batches equal the last one",
        [row for row in rows if row["batch"] > 1],
        [
            ("best move as sequential, %", _share("agreement")),
            ("root L1 distance, 0 to 2", _distance("root_distance")),
            ("waste, %", _share("waste")),
        ],
        first="evaluations",
    )
    yield from _table(
        f"{evaluator}: the same minus classic at the same batch size, paired by position",
        [row for row in rows if row["batch"] > 1 and row["gather"] != "classic"],
        [
            ("best move, %", _share("agreement_vs_classic", signed=True)),
            ("root L1 distance", _distance("root_distance_vs_classic", signed=True)),
            ("waste, %", _share("waste_vs_classic", signed=True)),
        ],
        first="evaluations",
    )
    solved: list[tuple[str, Cell]] = (
        [("solved", _solved)] if any(row["solved"] is not None for row in rows) else []
    )
    if any(row["reference_agreement"] is not None for row in rows):
        groups: list[tuple[str, Cell]] = [
            ("best move as reference, %", _share("reference_agreement")),
            ("less sequential", _share("reference_agreement_vs_sequential", signed=True)),
        ]
        if any(row["loss"] is not None for row in rows):
            groups += [
                ("loss, expected result", _distance("loss", digits=4)),
                ("less sequential", _distance("loss_vs_sequential", signed=True, digits=4)),
            ]
        yield from _table(
            f"{evaluator}: against the reference", rows, [*groups, *solved], first="evaluations"
        )
    elif solved:
        yield from _table(f"{evaluator}: problems", rows, solved, first="evaluations")


def _largest_searched(rows: Sequence[Row], evaluations: int) -> int:
    """Returns the smallest batch that takes all evaluations of a search, or else the largest."""
    batches = _values(rows, "batch")
    return next((batch for batch in batches if batch >= evaluations), batches[-1])


def _table(
    title: str, rows: Sequence[Row], groups: Sequence[tuple[str, Cell]], first: str = "nodes"
) -> Iterator[str]:
    """Yields a table with a line for each graph size and batch, gatherers side by side in every group."""
    gatherers = _gatherers(rows)
    columns = [[cell(row) for row in rows] for _, cell in groups]
    widths = [max(7, *(len(text) for text in column)) for column in columns]
    spans = [len(gatherers) * (width + 1) for width in widths]
    yield from ("", *title.split("\n"))
    heads = (f" {f' {name} ':-^{span - 1}}" for (name, _), span in zip(groups, spans, strict=True))
    yield " " * (NAME_WIDTH + BATCH_WIDTH) + " ".join(heads)
    names = ("".join(f" {gather:>{width}}" for gather in gatherers) for width in widths)
    yield f"{first:>{NAME_WIDTH}}{'batch':>{BATCH_WIDTH}}" + " ".join(names)
    last = None
    for key, texts in _grouped(rows, columns).items():
        nodes = f"{key[0]:,}" if key[0] != last else ""
        if last not in (None, key[0]):
            yield ""
        last = key[0]
        cells = (
            "".join(f" {text.get(gather, ''):>{width}}" for gather in gatherers)
            for text, width in zip(texts, widths, strict=True)
        )
        yield f"{nodes:>{NAME_WIDTH}}{key[1]:>{BATCH_WIDTH},}" + " ".join(cells)


def _grouped(
    rows: Sequence[Row], columns: Sequence[Sequence[str]]
) -> dict[tuple[int, int], list[dict[str, str]]]:
    """Returns the texts of each group by gatherer, under (nodes, batch)."""
    found: dict[tuple[int, int], list[dict[str, str]]] = {}
    for i, row in enumerate(rows):
        texts = found.setdefault((row["nodes"], row["batch"]), [{} for _ in columns])
        for text, column in zip(texts, columns, strict=True):
            text[row["gather"]] = column[i]
    return found


def _gatherers(rows: Sequence[Row]) -> list[str]:
    return [str(name) for name in dict.fromkeys(row["gather"] for row in rows)]


def _values(rows: Sequence[Row], name: str) -> list[int]:
    return sorted({row[name] for row in rows})


def _firsts(rows: Sequence[Row]) -> list[Row]:
    """Returns the first row of each number of nodes."""
    return list({row["nodes"]: row for row in reversed(rows)}.values())[::-1]


# ------------------------------------------------------------------ cells
def _count(name: str) -> Cell:
    """Returns the cell of a count; a large one has three figures."""
    return lambda row: f"{row[name]:,.0f}" if row[name] < LARGE_COUNT else rate(row[name])


def _time(row: Row) -> str:
    us = row["gather_us_per_position"]
    return "-" if us is None else f"{us:.2f}" if us < 100 else f"{us:.0f}"


def _rate(row: Row) -> str:
    return "-" if row["visits_per_s"] is None else rate(row["visits_per_s"])


def _share(name: str, *, signed: bool = False) -> Cell:
    """Returns the cell of a share in per cent with its standard error."""

    def cell(row: Row) -> str:
        value, error = row[name], row[f"{name}_error"]
        if value is None:
            return "-"
        text = with_sign(100 * value, 0) if signed else f"{100 * value:.0f}"
        return text if error is None else f"{text}\u00b1{100 * error:.0f}"

    return cell


def with_sign(value: float, digits: int) -> str:
    """Returns a number with its sign; what rounds to zero has none.

    >>> with_sign(0.4, 0), with_sign(-3.2, 0), with_sign(-0.001, 2)
    ('0', '-3', '0.00')
    """
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def _distance(name: str, *, signed: bool = False, digits: int = 2) -> Cell:
    """Returns the cell of a distance with its standard error: `.20±.02`."""

    def cell(row: Row) -> str:
        value, error = row[name], row[f"{name}_error"]
        if value is None:
            return "-"
        text = with_sign(value, digits) if signed else f"{value:.{digits}f}"
        return text if error is None else f"{text}\u00b1{error:.{digits}f}".replace("0.", ".")

    return cell


def _solved(row: Row) -> str:
    return "-" if row["solved"] is None else f"{row['solved']}/{row['solved_of']}"
