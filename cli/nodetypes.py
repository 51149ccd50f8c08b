"""`graphsearch lab nodetypes`: the node types of the searches in a file, compared with the formulas."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import Json, LineOptions, StoreOption, argument, option
from .output import FAILED, print_answer, say, say_if_unfinished
from .progress import progress_bar
from .render import count
from .tables import LEFT, Cells, Part, table

if TYPE_CHECKING:
    import chess

    from graphsearch.solvers.alphabeta.nodetypes.classify import Classification
    from graphsearch.solvers.alphabeta.nodetypes.theory import Agreement, Rules


@command(
    "Compare PV, Cut and All nodes with the minimal tree.",
    "graphsearch lab nodetypes startpos --store first.graph",
    "graphsearch lab nodetypes startpos --store first.graph --rules kannan --json",
)
def nodetypes(
    *,
    position: Annotated[
        str,
        argument(
            "POSITION",
            "Where to start: startpos, chess960:N, a FEN in quotes, or a PGN file (its last position).",
        ),
    ],
    store: StoreOption,
    line: LineOptions,
    rules: Annotated[
        str, option("--rules RULES", "Whose expected types the table shows: garms or kannan.")
    ] = "garms",
    nodes: Annotated[
        int | None,
        option("--nodes N", "Read at most N stored positions; 5,000,000 by default.", min=1),
    ] = None,
    json: Json = False,
) -> None:
    """Count the PV, Cut and All nodes of stored searches; compare them with the minimal tree.

    The stored positions below POSITION get their types from the bounds of their entries (exact: PV, lower:
    Cut, upper: All). The table compares these with the types expected by the published rules of Onno
    Garms and of Pradu Kannan, and by the search itself. The shortest line to a position decides its expected
    type; among equal lines PV comes before Cut, and Cut before All. The start is expected to have the type of
    its own bound, or PV without one. Exit code 1 if the file is damaged.

    JSON: `agreement` has the matrix of expected and actual types, the share that agrees and Cohen's kappa;
    `plies` has the counts and the formulas.
    """
    chosen = _rules(rules)
    found = _classify(store, line.board_after(position), nodes)
    _show(found, chosen, json=json)
    if found.problems:
        say(f"graphsearch: {store} is damaged; only its readable part was counted")
        raise typer.Exit(FAILED)


def _rules(name: str) -> Rules:
    from graphsearch.solvers.alphabeta.nodetypes.theory import Rules

    try:
        return Rules(name)
    except ValueError:
        names = " or ".join(rules.value for rules in Rules)
        raise typer.BadParameter(f"must be {names}, not {name}", param_hint="--rules") from None


def _classify(store: Path, board: chess.Board, max_nodes: int | None) -> Classification:
    from graphsearch.solvers.alphabeta.nodetypes.classify import classify_file
    from graphsearch.solvers.alphabeta.nodetypes.walk import MAX_NODES

    say_if_unfinished(store)
    with progress_bar("Walking") as advance:

        def show(found: int, entries: int, ply: int) -> None:
            if advance:
                advance(found, max(found, entries), f"Ply {ply}")

        return classify_file(
            store,
            board,
            max_nodes=max_nodes or MAX_NODES,
            on_progress=show,
            on_problem=lambda problem: say(f"damaged: {problem}"),
        )


def _show(found: Classification, rules: Rules, *, json: bool) -> None:
    if found.ignored:
        say(f"note: {count(found.ignored, 'entry', 'entries')} of another evaluation ignored")
    if not found.complete:
        say(f"note: the limit of {count(found.nodes, 'position')} was reached; raise it with --nodes")
    print_answer(found, _lines(found, rules), json=json)


NAMES = {"pv": "PV", "cut": "Cut", "all": "All"}
WHOSE = {"garms": "Garms", "kannan": "Kannan", "search": "the search"}
LARGE = 10**15  # counts of at least this are written in powers of ten
MUCH = 10**7  # products of mean values of at least this, too
LITTLE = 0.001  # smaller quotients are written as "less than"


def _lines(found: Classification, rules: Rules) -> Iterator[Part]:
    yield found.position
    entries, deep = count(found.entries, "entry", "entries"), count(len(found.plies) - 1, "ply", "plies")
    yield (
        f"{count(found.nodes, 'stored position')}, {found.reached:,} of {entries}, {deep} deep,"
        f" {found.branching:.1f} moves a position; {found.proven:,} proven"
    )
    if found.start != "pv":
        name = NAMES[found.start]
        yield (
            f"The start is {name} by its bound: that is expected of it, and the minimal tree is the one of"
            f" {'an' if name == 'All' else 'a'} {name} node."
        )
    yield _table(found)
    yield ""
    yield from _agreements(found.agreement, rules)
    yield ""
    yield from _facts(found)


def _table(found: Classification) -> Cells:
    unknown = found.actual["unknown"] > 0
    rows = []
    for ply in found.plies:
        formula = ply.measured
        row = {
            "Ply": f"{ply.ply}",
            "Moves": "" if ply.moves is None else f"{ply.moves:.1f}",
            **{NAMES[kind]: f"{ply.nodes[kind]:,}" for kind in NAMES},
            "No bound": f"{ply.nodes['unknown']:,}" if unknown else "",
            "Leaves": f"{sum(ply.leaves.values()):,}",
            "Minimal Cut": number(formula.cut),
            "Minimal All": number(formula.all),
            "Times": ratio(ply.total, formula.total),
        }
        rows.append(row)
    return table(rows)


def _facts(found: Classification) -> Iterator[str]:
    if found.first_share is None:
        yield "Cut by the first move: unknown, no stored entry records a cut"
    else:
        share = f"{100 * found.first_share:.1f} %"
        yield f"Cut by the first move: {share} of {count(found.cuts, 'Cut node')} (Hyatt: more than 90 %)"
    yield _became(found.became_all, found.became_rightly)
    parts = []
    if found.cut_placed:
        parts.append(f"odd for {found.cut_odd:,} of {count(found.cut_placed, 'Cut node')}")
    if found.all_placed:
        parts.append(f"even for {found.all_even:,} of {count(found.all_placed, 'All node')}")
    if parts:
        yield f"Distance from the PV: {', '.join(parts)}"


def _became(nodes: int, rightly: int) -> str:
    """Returns a line on the Cut nodes that became All by Kannan's rules, and those really found All."""
    if not nodes:
        return "Kannan: no Cut node became All"
    was = "was" if rightly == 1 else "were"
    became = f"{count(nodes, 'Cut node')} became All when the candidates failed"
    return f"Kannan: {became}, {rightly:,} {was} found All"


def _agreements(agreements: Mapping[str, Agreement], rules: Rules) -> Iterator[Part]:
    """Yields the matrix of the chosen rules, and the figures of all rules."""
    expected = f"Expected by {WHOSE[rules.value]}"
    yield table(
        [
            {expected: NAMES[kind]}
            | {f"found {NAMES[other]}": f"{n:,}" for other, n in zip(NAMES, row, strict=True)}
            for kind, row in zip(NAMES, agreements[rules.value].matrix, strict=True)
        ],
        {expected: LEFT},
    )
    for name, agreement in agreements.items():
        yield f"Expected by {WHOSE[name]}: {_agreement(agreement)}"


def _agreement(agreement: Agreement) -> str:
    if agreement.share is None:
        return "no position to compare"
    kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.3f}"
    return f"{100 * agreement.share:.1f} % of {count(agreement.nodes, 'node')} agree{kappa}"


def number(value: float) -> str:
    """Returns a count, exact if it is an integer of moderate size.

    >>> number(5119999), number(39.4), number(40**12), number(49635491602486.3)
    ('5,119,999', '39.4', '1.7e+19', '5.0e+13')
    """
    if value == math.inf:
        return "infinite"
    if value >= (LARGE if isinstance(value, int) else MUCH):
        return f"{float(value):.1e}" if math.log10(value) < 300 else f"10^{round(math.log10(value))}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def ratio(part: float, whole: float) -> str:
    """Returns a quotient in two or three digits, empty if there is none.

    >>> ratio(3, 2), ratio(1, 250), ratio(1, 10**12), ratio(1, 0)
    ('1.50', '0.004', '<0.001', '')
    """
    if not whole:
        return ""
    found = part / whole
    return f"{found:,.2f}" if found >= 0.1 else f"{found:.3f}" if found >= LITTLE else f"<{LITTLE}"
