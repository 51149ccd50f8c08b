"""`graphsearch reevaluate`: another evaluator's V and P in a file; and `lab refresh`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command, command_line, report
from .options import EvaluatorOptions, Json, Ram, StoreOption, byte_count, graph_ram, option
from .output import print_answer, say
from .program import command_text
from .progress import titled_bar
from .render import count, numbered, opening_at
from .scores import is_white, signed
from .signals import StopSignals
from .tables import Part

if TYPE_CHECKING:
    from graphsearch.evaluators.protocol import Evaluator as EvaluatorObject
    from graphsearch.graph.sweeps.evaluating import EvaluatingProgress
    from graphsearch.graph.sweeps.reevaluate import ReevaluateReport
    from graphsearch.graph.sweeps.refresh import RefreshProgress, RefreshReport

MAX_ROOTS = 20  # changed roots in the output; JSON has all


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of one call."""

    store: StoreOption
    evaluator: EvaluatorOptions
    ram: Ram = None
    json: Json = False


@command(
    "Re-evaluate a graph file with another evaluator.",
    "graphsearch reevaluate sunday.graph --evaluator uniform",
    "graphsearch reevaluate sunday.graph --evaluator uniform --ram 2GB --json",
)
def reevaluate(request: Request) -> None:
    """Re-evaluate a graph file: V and P of another evaluator replace those in the file.

    Visits do not change. At the end every value is brought up to date with its children, as by `lab refresh`.
    Ctrl-C saves; after a kill only some seconds are lost. Repeat the command to resume: no position is
    evaluated twice. Until it has finished, the file is marked, and other commands refuse to write to it. To
    return to the previous evaluator, repeat the command with that evaluator; its evaluations are made again.
    """
    if not request.evaluator.named:
        raise typer.BadParameter("name the new evaluator: --evaluator NAME")
    ram_bytes = graph_ram(request.ram)  # checked before an evaluator is loaded
    evaluator, _ = request.evaluator.create()
    with closing(evaluator), StopSignals("Stopping: waiting for the evaluator and saving...\n") as signals:
        code = _reevaluated(request, evaluator, signals, ram_bytes)
    if code:
        raise typer.Exit(code)


def _reevaluated(
    request: Request, evaluator: EvaluatorObject, signals: StopSignals, ram_bytes: int | None
) -> int:
    """Replaces the evaluations of the file; returns the exit code."""
    from graphsearch.graph.sweeps.reevaluate import reevaluate as reevaluate_file
    from graphsearch.store.store import Store

    resume = command_line("reevaluate", request)
    with titled_bar("Evaluating", _title) as show:
        with Store.open(request.store, read_only=True) as store:
            mark = store.unfinished
            if mark and store.identity.as_json() != evaluator.identity.as_json():
                say(
                    f"note: {request.store} {mark.describe(store.identity)}; these are evaluated again with"
                    f" {evaluator.identity.describe()} unless they already come from it"
                )
        signals.arm()
        report = reevaluate_file(
            request.store,
            evaluator,
            ram_bytes=ram_bytes,
            stop=signals.stop,
            on_progress=show,
            command=resume,
        )
    print_answer(report, _summary(report, evaluator.identity.describe()), json=request.json)
    if not report.finished:
        say(f"Saved: {report.done:,} of {count(report.records, 'position')}. Resume with: {resume}")
        return signals.exit_code
    if not report.settled:
        refresh = command_text("lab", "refresh", str(request.store))
        say(f"The values have not settled; continue with: {refresh}")
    return 0


def _summary(report: ReevaluateReport, name: str) -> list[str]:
    if report.finished and not report.evaluated and report.done == report.records and not report.roots:
        return [f"The file already holds the values of {name}; nothing was evaluated."]
    lines = [
        f"{count(report.records, 'record')}, {count(report.evaluated, 'position')} evaluated"
        f" ({report.evaluated_now:,} now), {report.seconds:.1f} s;"
        f" change of V: mean {report.mean_change:.4f}, largest {report.largest_change:.4f}"
    ]
    if not report.finished:
        return lines
    if report.kept:
        lines.append(f"left alone: {count(report.kept, 'edge')} whose visits the file has lost")
    lines.append(
        f"{count(report.roots, 'root')}; favourite move changed: {len(report.changed):,} (White's view)"
    )
    lines += [
        f"  {_name(root.position)}: {root.before} ({_q(root.q_before, root.position)})"
        f" -> {root.after} ({_q(root.q_after, root.position)})"
        for root in report.changed[:MAX_ROOTS]
    ]
    if len(report.changed) > MAX_ROOTS:
        lines.append(f"  and {len(report.changed) - MAX_ROOTS:,} more; --json has all")
    return lines


def _name(position: str) -> str:
    """Returns the moves and the opening of a position that has a name, else its FEN."""
    found = opening_at(position)
    return f"{numbered(None, found.line)} ({found})" if found else position


def _q(q: float, position: str) -> str:
    """Returns a Q of the side to move, in the shown view."""
    return f"Q {signed(q, white=is_white(position))}"


def _title(now: EvaluatingProgress) -> str:
    if now.stage == "evaluating":
        return f"Evaluating, {now.rate:,.0f}/s"
    return now.stage.capitalize()


Tolerance = Annotated[
    float, option("--tolerance X", "Leave values alone that are off by less than X in Q.", show_default=False)
]


def _refreshed(found: RefreshReport) -> Iterator[Part]:
    yield (
        f"{count(found.records, 'record')}, {count(found.sweeps, 'sweep')}, {found.seconds:.1f} s;"
        f" largest change of Q {found.first_change:.5f} in the first, {found.last_change:.5f} in the last"
    )
    yield (
        f"{count(found.stale, 'stale edge')}; written: {count(found.changed_edges, 'edge')}"
        f" of {count(found.changed_records, 'record')}"
    )
    alone = found.lost + found.missing
    if alone:
        yield f"left alone: {count(alone, 'edge')} whose visits the file has lost"
    if not found.settled:
        say(f"The values have not settled after {count(found.sweeps, 'sweep')}; refresh again to continue.")


@report(
    "Bring all values in a graph file up to date.",
    "graphsearch lab refresh first.graph",
    "graphsearch lab refresh first.graph --tolerance 0.0001 --json",
    view=_refreshed,
)
def refresh(store: StoreOption, tolerance: Tolerance = 0.001, ram: Ram = None) -> RefreshReport:
    """Give every move in a graph file the current value of the position it leads to.

    A position that was searched further along one line leaves stale values in the other lines that lead to
    it. A search updates them when it passes by; this command updates all of them. Visits do not change.
    Nothing is written before the values have settled, and Ctrl-C at any time leaves the file intact.

    A table in memory takes 20 bytes a node. If --ram has no room for it, the graph is swept in parts, with 50
    bytes a node in the temporary folder (TMPDIR).
    """
    from graphsearch.graph.sweeps.refresh import refresh as refresh_file

    limit = None if ram is None else byte_count(ram)
    with titled_bar("Reading", _refresh_title) as show:
        return refresh_file(store, tolerance, ram_bytes=limit, on_progress=show)


def _refresh_title(now: RefreshProgress) -> str:
    if now.stage != "sweeping":
        return now.stage.capitalize()
    change = "" if now.largest is None else f", largest change {now.largest:.5f}"
    return f"Sweep {now.sweep}{change}"
