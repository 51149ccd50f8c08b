"""`graphsearch lab nodetypes`: the node types of a file or of a uniform tree, compared with the formulas."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command, named_values
from .options import Json, LineOptions, argument, check_plot_file, option
from .output import FAILED, print_answer, say, say_if_unfinished
from .progress import progress_bar
from .render import count
from .tables import LEFT, Cells, Part, table

if TYPE_CHECKING:
    import chess

    from graphsearch.solvers.alphabeta.nodetypes.classify import Classification
    from graphsearch.solvers.alphabeta.nodetypes.synthetic import Searched, Synthetic
    from graphsearch.solvers.alphabeta.nodetypes.theory import Agreement, Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions:
    """A uniform tree to search; options not given are None."""

    synthetic: Annotated[
        tuple[int, int] | None,
        option("--synthetic B N", "Search a uniform tree instead: B moves at every node, N plies."),
    ] = None
    order: Annotated[
        str | None,
        option(
            "--order ORDER",
            "With --synthetic: perfect (the default): the best move comes first; a number from 0 to 1: it "
            "comes first with that probability; random: leaves have independent values.",
        ),
    ] = None
    seed: Annotated[
        int | None, option("--seed S", "With --synthetic: seed of the tree's values; 0 by default.", min=0)
    ] = None
    candidates: Annotated[
        int | None,
        option(
            "--candidates K",
            "With --synthetic: number of first moves of a Cut node that are candidates in Kannan's rules; 1 "
            "by default.",
            min=1,
        ),
    ] = None


@command(
    "Compare PV, Cut and All nodes with the minimal tree.",
    "graphsearch lab nodetypes startpos --store first.graph",
    "graphsearch lab nodetypes startpos --store first.graph --rules kannan --plot types.png",
    "graphsearch lab nodetypes --synthetic 40 6",
    "graphsearch lab nodetypes --synthetic 40 4 --order random --json",
)
def nodetypes(
    *,
    position: Annotated[
        str | None,
        argument(
            "POSITION",
            "Where to start: startpos, chess960:N, a FEN in quotes, or a PGN file (its last position).",
        ),
    ] = None,
    store: Annotated[
        Path | None, option("--store FILE", "The graph file with the transposition entries of a search.")
    ] = None,
    line: LineOptions,
    tree: TreeOptions,
    rules: Annotated[
        str, option("--rules RULES", "Whose expected types the table shows: garms or kannan.")
    ] = "garms",
    nodes: Annotated[
        int | None,
        option("--nodes N", "With POSITION: read at most N stored positions; 5,000,000 by default.", min=1),
    ] = None,
    plot: Annotated[
        Path | None,
        option(
            "--plot FILE.png|svg", "Plot the counts by ply and type against the formulas; needs matplotlib."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Count the PV, Cut and All nodes of stored searches or of a uniform tree; compare them with the minimal
    tree.

    With POSITION: the stored positions below it get their types from the bounds of their entries (exact: PV,
    lower: Cut, upper: All). The table compares these with the types expected by the published rules of Onno
    Garms and of Pradu Kannan, and by the search itself. The shortest line to a position decides its expected
    type; among equal lines PV comes before Cut, and Cut before All. The start is expected to have the type of
    its own bound, or PV without one. Exit code 1 if the file is damaged.

    With --synthetic: plain alpha-beta and principal variation search, node by node. With perfect order the
    counts equal those of the formulas; any other order shows its price.

    JSON: `agreement` has the matrix of expected and actual types, the share that agrees and Cohen's kappa;
    `plies` has the counts and the formulas.
    """
    chosen = _rules(rules)
    if plot is not None:
        check_plot_file(plot)
    if (position is None) == (tree.synthetic is None):
        raise typer.BadParameter("give either a POSITION with --store FILE, or --synthetic B N")
    if tree.synthetic is not None:
        _refuse({"--store": store, **named_values(line), "--nodes": nodes}, "a POSITION")
        searched = _search(*tree.synthetic, tree)
        if plot is not None:
            from graphsearch.solvers.alphabeta.nodetypes.plot import draw_synthetic

            draw_synthetic(searched, chosen, plot)
            say(f"Plotted: {plot}")
        print_answer(searched, _synthetic_lines(searched, chosen), json=json)
        return
    _refuse(named_values(tree), "--synthetic")
    if store is None:
        raise typer.BadParameter("a POSITION needs a graph file: --store FILE")
    assert position is not None
    found = _classify(store, line.board_after(position), nodes)
    _show_stored(found, chosen, plot, json=json)
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


def _refuse(options: dict[str, object], other: str) -> None:
    """Refuses options of the other mode."""
    for name, value in options.items():
        if value is not None:
            raise typer.BadParameter(f"{name} needs {other}")


# ------------------------------------------------------------------ uniform trees
def _search(branching: int, depth: int, options: TreeOptions) -> Synthetic:
    from graphsearch.solvers.alphabeta.nodetypes.synthetic import SyntheticTree, synthetic

    tree = SyntheticTree(branching, depth, _order(options.order or "perfect"), options.seed or 0)
    with progress_bar("Searching") as advance:

        def show(nodes: int, guess: float) -> None:
            if advance:
                advance(nodes, round(guess), "Searching, nodes")

        return synthetic(tree, candidates=options.candidates or 1, on_progress=show)


def _order(text: str) -> float | None:
    """Returns the probability that the best move is first; None for random values."""
    if text in ("perfect", "random"):
        return 1.0 if text == "perfect" else None
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"must be perfect, random or a number from 0 to 1, not {text}", param_hint="--order"
        ) from None


# ------------------------------------------------------------------ stored positions
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


def _show_stored(found: Classification, rules: Rules, plot: Path | None, *, json: bool) -> None:
    if found.ignored:
        say(f"note: {count(found.ignored, 'entry', 'entries')} of another evaluation ignored")
    if not found.complete:
        say(f"note: the limit of {count(found.nodes, 'position')} was reached; raise it with --nodes")
    if plot is not None:
        from graphsearch.solvers.alphabeta.nodetypes.plot import draw_stored

        draw_stored(found, rules, plot)
        say(f"Plotted: {plot}")
    print_answer(found, _stored_lines(found, rules), json=json)


NAMES = {"pv": "PV", "cut": "Cut", "all": "All"}
SEARCH_NAMES = {"alphabeta": "alpha-beta", "pvs": "PVS"}
WHOSE = {"garms": "Garms", "kannan": "Kannan", "search": "the search"}
LARGE = 10**15  # counts of at least this are written in powers of ten
MUCH = 10**7  # products of mean values of at least this, too
LITTLE = 0.001  # smaller quotients are written as "less than"


def _stored_lines(found: Classification, rules: Rules) -> Iterator[Part]:
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
    yield _stored_table(found)
    yield ""
    yield from _agreements(found.agreement, rules)
    yield ""
    yield from _facts(found)


def _stored_table(found: Classification) -> Cells:
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
    yield _became("the candidates", found.became_all, found.became_rightly)
    parts = []
    if found.cut_placed:
        parts.append(f"odd for {found.cut_odd:,} of {count(found.cut_placed, 'Cut node')}")
    if found.all_placed:
        parts.append(f"even for {found.all_even:,} of {count(found.all_placed, 'All node')}")
    if parts:
        yield f"Distance from the PV: {', '.join(parts)}"


def _became(candidates: str, nodes: int, rightly: int) -> str:
    """Returns a line on the Cut nodes that became All by Kannan's rules, and those really found All."""
    if not nodes:
        return "Kannan: no Cut node became All"
    was = "was" if rightly == 1 else "were"
    return (
        f"Kannan: {count(nodes, 'Cut node')} became All when {candidates} failed, {rightly:,} {was} found All"
    )


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


# ------------------------------------------------------------------ uniform trees
def _synthetic_lines(found: Synthetic, rules: Rules) -> Iterator[Part]:
    tree = found.tree
    yield (
        f"{count(tree.branching, 'move')} at every node, {count(tree.depth, 'ply', 'plies')},"
        f" {tree.order_phrase}, seed {tree.seed}"
    )
    yield _synthetic_table(found)
    yield ""
    for done in found.searches:
        yield _summary(done)
    yield _verdict(found)
    yield ""
    pvs = found.searches[-1]
    yield from _agreements({one.value: pvs.agreement(one) for one in type(rules)}, rules)
    if rules.value == "kannan":
        candidates = count(pvs.candidates, "candidate")
        yield _became(candidates, pvs.became_all, pvs.became_rightly)


def _synthetic_table(found: Synthetic) -> Cells:
    from graphsearch.solvers.alphabeta.nodetypes.theory import minimal

    plain, pvs = found.searches
    rows = []
    for ply in range(found.tree.depth + 1):
        wanted, actual = minimal(found.tree.branching, ply), pvs.actual(ply)
        row = {"Ply": f"{ply}", "b^n": number(wanted.worst)}
        row |= {f"minimal {NAMES[kind]}": number(getattr(wanted, kind)) for kind in NAMES}
        row |= {"minimal": number(wanted.total), "alpha-beta": number(sum(plain.actual(ply)))}
        row |= {f"PVS {name}": number(n) for name, n in zip(NAMES.values(), actual, strict=True)}
        rows.append(row | {"PVS": number(sum(actual))})
    return table(rows)


def _summary(done: Searched) -> str:
    share = "" if done.first_share is None else f", {100 * done.first_share:.1f} % by the first move"
    again = f", {count(done.researches, 're-search', 're-searches')}" if done.search == "pvs" else ""
    return (
        f"{SEARCH_NAMES[done.search]}: {count(done.leaves, 'leaf', 'leaves')}, {done.price:,.2f} times the"
        f" minimal tree's; {count(done.cutoffs, 'cut')}{share}{again}; {done.seconds:.2f} s"
    )


def _verdict(found: Synthetic) -> str:
    from graphsearch.solvers.alphabeta.nodetypes.theory import random_branching

    tree = found.tree
    if found.exact:
        return "Both searches visit exactly the minimal tree, at every ply and for every type."
    if tree.order is not None or not tree.depth:
        return f"A minimal tree has {count(int(found.formula.total), 'leaf', 'leaves')}."
    factor, own = random_branching(tree.branching), found.searches[0].leaves ** (1 / tree.depth)
    over_log = f"{tree.branching / math.log(tree.branching):.2f}" if tree.branching > 1 else "1"
    return (
        f"Leaves^(1/n) of alpha-beta: {own:.2f}; with growing n it tends to {factor:.2f}, Pearl's branching"
        f" factor (b / ln b: {over_log}; perfect order, the square root of b:"
        f" {math.sqrt(tree.branching):.2f})"
    )


# ------------------------------------------------------------------ numbers
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
