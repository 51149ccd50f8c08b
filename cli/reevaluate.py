"""`graphsearch reevaluate`: another evaluator's V and P in a whole file, or beside it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import (
    Evaluator,
    EvaluatorChoice,
    EvaluatorOption,
    Json,
    Policy,
    Pool,
    Ram,
    StoreFile,
    SyzygyPath,
    Value,
    chosen_evaluator,
    closing,
    graph_ram,
)
from .output import compiling, print_json, say
from .program import program_name
from .progress import progress_bar
from .render import count
from .resume import command_line
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.evaluators.protocol import Evaluator as EvaluatorObject
    from graphsearch.sweep.opinions import OpinionProgress, OpinionReport
    from graphsearch.sweep.reevaluate import ReevaluateProgress, ReevaluateReport

EXAMPLES = """\b
Examples:
  graphsearch reevaluate sunday.graph --evaluator uniform
  graphsearch reevaluate first.graph --evaluator uniform --second-opinion --min-visits 10 --json
"""

MAX_ROOTS = 20  # changed roots that are shown; JSON has all

SecondOpinion = Annotated[
    bool,
    typer.Option(
        "--second-opinion",
        help="Write what the evaluator says beside the records, for `query disagree`; they stay as they are.",
    ),
]
MinVisits = Annotated[
    int | None,
    typer.Option(
        "--min-visits", metavar="N", min=1, help="With --second-opinion: of positions with N visits or more."
    ),
]


def reevaluate(
    file: StoreFile,
    evaluator: Evaluator = None,
    policy: Policy = None,
    value: Value = None,
    evaluator_option: EvaluatorOption = None,
    syzygy: SyzygyPath = None,
    pool: Pool = None,
    second_opinion: SecondOpinion = False,
    min_visits: MinVisits = None,
    ram: Ram = None,
    json: Json = False,
) -> None:
    """Go through a graph file with another evaluator: its V and P take the place of those in the file.

    Visits stay as they are; at the end every value is brought up to date with its children, as `refresh`
    does. Ctrl-C saves, a kill costs some seconds, and the same command goes on: no position is evaluated
    twice. Until it has ended the file is marked, and other commands that would write it refuse it. The way
    back to the evaluator before is the same command with that evaluator, and its evaluations once more.
    """
    if min_visits is not None and not second_opinion:
        raise typer.BadParameter(
            "--min-visits is for --second-opinion; in place of the old values all have to be replaced"
        )
    choice = EvaluatorChoice(
        evaluator=evaluator,
        policy=policy,
        value=value,
        evaluator_option=tuple(evaluator_option or ()),
        syzygy=syzygy,
        pool=pool,
    )
    if (evaluator, policy, value) == (None, None, None):
        raise typer.BadParameter("say with which evaluator: --evaluator NAME")
    limit = graph_ram(ram)
    rest = {"second_opinion": second_opinion, "min_visits": min_visits, "ram": ram, "json": json}
    command = command_line("reevaluate", str(file), asdict(choice) | rest)
    chosen, _ = chosen_evaluator(choice)
    with closing(chosen), StopSignals("Stopping: waiting for the evaluator and saving...\n") as signals:
        if second_opinion:
            code = _beside(file, chosen, min_visits or 1, signals, command, json=json)
        else:
            code = _in_place(file, chosen, limit, signals, command, json=json)
    if code:
        raise typer.Exit(code)


def _in_place(
    file: Path,
    evaluator: EvaluatorObject,
    limit: int | None,
    signals: StopSignals,
    command: str,
    *,
    json: bool,
) -> int:
    """Returns the exit code."""
    from graphsearch.sweep.reevaluate import reevaluate as reevaluate_file

    with compiling("reevaluate"), _bar() as show:
        _say_direction(file, evaluator)
        signals.arm()
        report = reevaluate_file(
            file, evaluator, ram_bytes=limit, stop=signals.stop, on_progress=show, command=command
        )
    if json:
        print_json(report.as_dict())
    else:
        for line in summary(report, evaluator.identity.describe()):
            print(line)
    if not report.finished:
        say(f"Saved: {report.done:,} of {count(report.records, 'position')}. Go on with: {command}")
        return signals.exit_code
    if not report.settled:
        say(f"The values had not settled; `{program_name()} refresh {shlex.quote(str(file))}` goes on.")
    return 0


def _say_direction(file: Path, evaluator: EvaluatorObject) -> None:
    """Says so if the file is on its way to another evaluator than this one."""
    from graphsearch.store.store import Store

    with Store.open(file, read_only=True) as store:
        mark = store.unfinished
        if mark and store.identity.as_json() != evaluator.identity.as_json():
            say(
                f"note: {file} {mark.describe(store.identity)}; these are evaluated again with"
                f" {evaluator.identity.describe()} unless they are of it already"
            )


def _beside(
    file: Path, evaluator: EvaluatorObject, least: int, signals: StopSignals, command: str, *, json: bool
) -> int:
    """Returns the exit code."""
    from graphsearch.sweep.opinions import second_opinion

    with compiling("reevaluate"), _opinion_bar() as show:
        signals.arm()
        report = second_opinion(file, evaluator, min_visits=least, stop=signals.stop, on_progress=show)
    if json:
        print_json(report.as_dict())
    else:
        for line in opinion_summary(report):
            print(line)
    if not report.finished:
        say(f"Saved: {report.done:,} of {count(report.positions, 'position')}. Go on with: {command}")
        return signals.exit_code
    if not json:
        say(f"See where they differ: {program_name()} query disagree {shlex.quote(str(file))}")
    return 0


def summary(report: ReevaluateReport, name: str) -> list[str]:
    """Returns what a reevaluation did, line by line."""
    nothing = not report.evaluated and not report.reused
    if report.finished and nothing and report.done == report.records and not report.roots:
        return [f"The file holds the values of {name} already; nothing was evaluated."]
    lines = [
        f"{count(report.records, 'record')}, {count(report.evaluated, 'position')} evaluated"
        f" ({report.evaluated_now:,} now){_reused(report.reused)}, {report.seconds:.1f} s;"
        f" change of V: mean {report.mean_change:.4f}, largest {report.largest_change:.4f}"
    ]
    if not report.finished:
        return lines
    if report.kept:
        lines.append(f"left alone: {count(report.kept, 'edge')} with visits that the file has lost")
    lines.append(f"{count(report.roots, 'root')}; favourite move changed: {len(report.changed):,}")
    lines += [
        f"  {root.position}: {root.before} ({root.q_before:+.3f}) -> {root.after} ({root.q_after:+.3f})"
        for root in report.changed[:MAX_ROOTS]
    ]
    if len(report.changed) > MAX_ROOTS:
        lines.append(f"  and {len(report.changed) - MAX_ROOTS:,} more; --json has all")
    return lines


def _reused(positions: int) -> str:
    return f", {positions:,} taken over from its second opinion" if positions else ""


def opinion_summary(report: OpinionReport) -> list[str]:
    """Returns what a second opinion took, line by line."""
    return [
        f"{report.done:,} of {count(report.positions, 'position')} have the second opinion:"
        f" {report.evaluated:,} evaluated, {report.updated:,} brought up to date, {report.seconds:.1f} s",
        f"difference of V: mean {report.mean_change:.4f}, largest {report.largest_change:.4f}",
    ]


@contextmanager
def _bar() -> Iterator[Callable[[ReevaluateProgress], None] | None]:
    """Yields what draws the progress on stderr; None where there is no terminal."""
    with progress_bar("Evaluating") as advance:
        yield None if advance is None else lambda now: advance(now.done, now.total, title(now))


@contextmanager
def _opinion_bar() -> Iterator[Callable[[OpinionProgress], None] | None]:
    with progress_bar("Counting") as advance:
        yield None if advance is None else lambda now: advance(now.done, now.total, opinion_title(now))


def title(now: ReevaluateProgress) -> str:
    """Returns what a reevaluation is at."""
    if now.stage == "evaluating":
        return f"Evaluating, {now.rate:,.0f}/s"
    return now.stage.capitalize()


def opinion_title(now: OpinionProgress) -> str:
    """Returns what a second opinion is at."""
    if now.stage == "counting":
        return "Counting"
    return f"Evaluating, {now.least:,} visits and more, {now.rate:,.0f}/s"
