"""`graphsearch lab nodetypes`: the node types of a file or of a uniform tree, compared with the formulas."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command, named_values
from .nodetypes_view import stored_lines, synthetic_lines
from .options import Json, LineOptions, argument, check_plot_file, option
from .output import FAILED, print_answer, say, say_if_unfinished
from .progress import progress_bar
from .render import count

if TYPE_CHECKING:
    import chess

    from graphsearch.solvers.alphabeta.nodetypes.classify import Classification
    from graphsearch.solvers.alphabeta.nodetypes.synthetic import Synthetic
    from graphsearch.solvers.alphabeta.nodetypes.theory import Rules

SomePosition = Annotated[
    str | None,
    argument(
        "POSITION",
        "Where to start: startpos, chess960:N, a FEN in quotes, or a PGN file (its last position).",
    ),
]
SomeStore = Annotated[
    Path | None, option("--store FILE", "The graph file with the transposition entries of a search.")
]
RulesOption = Annotated[
    str, option("--rules RULES", "Whose expected types the table shows: garms or kannan.")
]
MaxNodes = Annotated[
    int | None,
    option("--nodes N", "With POSITION: read at most N stored positions; 5,000,000 by default.", min=1),
]
Plot = Annotated[
    Path | None,
    option("--plot FILE.png|svg", "Plot the counts by ply and type against the formulas; needs matplotlib."),
]


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
    position: SomePosition = None,
    store: SomeStore = None,
    line: LineOptions,
    tree: TreeOptions,
    rules: RulesOption = "garms",
    nodes: MaxNodes = None,
    plot: Plot = None,
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
        _show_synthetic(_search(*tree.synthetic, tree), chosen, plot, json=json)
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


def _show_synthetic(found: Synthetic, rules: Rules, plot: Path | None, *, json: bool) -> None:
    if plot is not None:
        from graphsearch.solvers.alphabeta.nodetypes.plot import draw_synthetic

        draw_synthetic(found, rules, plot)
        say(f"Plotted: {plot}")
    print_answer(found, synthetic_lines(found, rules), json=json)


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
    print_answer(found, stored_lines(found, rules), json=json)
