"""`graphsearch nodetypes`: what a file or a uniform tree holds by node types, against the formulas."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .nodetypes_views import stored_lines, synthetic_lines
from .options import Game, Json, Moves, Ply, given_position
from .output import FAILED, compiling, print_json, print_view, say, say_if_unfinished
from .progress import progress_bar
from .render import count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from graphsearch.alphabeta.nodetypes.classify import Classification
    from graphsearch.alphabeta.nodetypes.rules import Rules
    from graphsearch.alphabeta.nodetypes.synthetic import Synthetic

EXAMPLES = """\b
Examples:
  graphsearch nodetypes startpos --store first.graph
  graphsearch nodetypes startpos --store first.graph --rules kannan --plot types.png
  graphsearch nodetypes --synthetic 40 6
  graphsearch nodetypes --synthetic 40 4 --order random --json
"""

ENDINGS = (".png", ".svg")

SomePosition = Annotated[
    str | None,
    typer.Argument(
        metavar="POSITION",
        help="Where to begin: startpos, a FEN in quotes, or a PGN file (its last position).",
        show_default=False,
    ),
]
SomeStore = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="The graph file, with the entries of a search."),
]
SyntheticOption = Annotated[
    tuple[int, int] | None,
    typer.Option(
        "--synthetic",
        metavar="B N",
        help="Search a uniform tree instead: B moves at every node, N plies.",
        show_default=False,
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        "--order",
        metavar="ORDER",
        help="With --synthetic: perfect (the default), the best move is first; 0 to 1, it is with that"
        " probability; random, leaves have independent values.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="S", min=0, help="With --synthetic: of the tree's values; else 0."),
]
Candidates = Annotated[
    int | None,
    typer.Option(
        "--candidates",
        metavar="K",
        min=1,
        help="With --synthetic: so many first moves of a Cut node are candidates in Kannan's rules; else 1.",
    ),
]
RulesOption = Annotated[
    str,
    typer.Option("--rules", metavar="RULES", help="Whose expected types are tabled: garms or kannan."),
]
MaxNodes = Annotated[
    int | None,
    typer.Option(
        "--max-nodes",
        metavar="N",
        min=1,
        help="With POSITION: walk through at most N stored positions; else 5,000,000.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE.png|svg",
        help="Draw the counts by ply and type, against the formulas; needs matplotlib.",
    ),
]


def nodetypes(
    position: SomePosition = None,
    store: SomeStore = None,
    moves: Moves = None,
    game: Game = None,
    ply: Ply = None,
    synthetic: SyntheticOption = None,
    order: Order = None,
    seed: Seed = None,
    candidates: Candidates = None,
    rules: RulesOption = "garms",
    max_nodes: MaxNodes = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Count the PV, Cut and All nodes of stored searches, or of a uniform tree, against the minimal tree.

    With POSITION: the stored positions below it, by the bound of their entries (exact PV, lower Cut, upper
    All), beside what was expected of them by the published rules of Onno Garms and of Pradu Kannan, and by
    the search itself. The shortest line decides what is expected; of equal ones PV before Cut before All. The
    start is expected to be what its own bound says, PV without one. Exit code 1 if the file is damaged.

    With --synthetic: plain alpha-beta and principal variation search, node by node. With perfect order the
    counts are those of the formulas; any other shows the price.

    JSON: `agreement` has the matrix of expected and actual types, share and Cohen's kappa; `plies` the counts
    and the formulas.
    """
    chosen = _rules(rules)
    if plot is not None:
        _check_plot(plot)
    if (position is None) == (synthetic is None):
        raise typer.BadParameter("give either a POSITION with --store FILE, or --synthetic B N")
    if synthetic is not None:
        _refuse({"--store": store, "--moves": moves, "--game": game, "--ply": ply, "--max-nodes": max_nodes})
        tree = _search(*synthetic, order or "perfect", seed or 0, candidates or 1)
        _show_synthetic(tree, chosen, plot, json=json)
        return
    _refuse({"--order": order, "--seed": seed, "--candidates": candidates}, synthetic=True)
    if store is None:
        raise typer.BadParameter("name the graph file: --store FILE")
    assert position is not None
    board_name = (position, moves, game, ply)
    found = _classify(store, board_name, max_nodes)
    _show_stored(found, chosen, plot, json=json)
    if found.problems:
        say(f"graphsearch: {store} is damaged; what could be read was counted")
        raise typer.Exit(FAILED)


def _rules(name: str) -> Rules:
    from graphsearch.alphabeta.nodetypes.rules import Rules

    try:
        return Rules(name)
    except ValueError:
        names = " or ".join(rules.value for rules in Rules)
        raise typer.BadParameter(f"{names} is wanted, not {name}", param_hint="--rules") from None


def _refuse(options: dict[str, object], *, synthetic: bool = False) -> None:
    """Refuses options that go with the other use."""
    for name, value in options.items():
        if value is not None:
            where = "--synthetic" if synthetic else "a POSITION"
            raise typer.BadParameter(f"{name} goes with {where}")


def _check_plot(path: Path) -> None:
    if path.suffix.lower() not in ENDINGS:
        raise typer.BadParameter(
            f"a file name that ends in .png or .svg is wanted, not {path}", param_hint="--plot"
        )
    folder = path.parent
    if not folder.is_dir():
        raise typer.BadParameter(f"there is no folder {folder}", param_hint="--plot")
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise typer.BadParameter(f"{path} cannot be written", param_hint="--plot")
    from graphsearch.alphabeta.nodetypes.plot import check_library

    check_library()


# ------------------------------------------------------------------ uniform trees
def _search(branching: int, depth: int, order: str, seed: int, candidates: int) -> Synthetic:
    from graphsearch.alphabeta.nodetypes.synthetic import SyntheticTree, synthetic

    tree = SyntheticTree(branching, depth, _order(order), seed)
    with compiling("uniform tree"), progress_bar("Searching") as advance:

        def show(nodes: int, guess: float) -> None:
            if advance:
                advance(nodes, round(guess), "Searching, nodes")

        return synthetic(tree, candidates=candidates, on_progress=show)


def _order(text: str) -> float | None:
    """Returns the probability that the best move is first; None for random values."""
    if text in ("perfect", "random"):
        return 1.0 if text == "perfect" else None
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"perfect, random or a number from 0 to 1 is wanted, not {text}", param_hint="--order"
        ) from None


def _show_synthetic(found: Synthetic, rules: Rules, plot: Path | None, *, json: bool) -> None:
    if plot is not None:
        from graphsearch.alphabeta.nodetypes.plot import draw_synthetic

        draw_synthetic(found, rules, plot)
        say(f"plotted: {plot}")
    if json:
        print_json(found.as_dict())
        return
    _print(synthetic_lines(found, rules))


# ------------------------------------------------------------------ stored positions
def _classify(
    store: Path, given: tuple[str, str | None, int | None, int | None], max_nodes: int | None
) -> Classification:
    board = given_position(*given)
    from graphsearch.alphabeta.nodetypes.classify import classify_file
    from graphsearch.alphabeta.nodetypes.walk import MAX_NODES

    say_if_unfinished(store)
    with compiling("node types"), progress_bar("Walking") as advance:

        def show(found: int, entries: int, ply: int) -> None:
            if advance:
                advance(found, max(found, entries), f"Ply {ply}")

        return classify_file(
            store, board, max_nodes=max_nodes or MAX_NODES, on_progress=show, on_problem=_say_damaged
        )


def _say_damaged(problem: str) -> None:
    say(f"damaged: {problem}")


def _show_stored(found: Classification, rules: Rules, plot: Path | None, *, json: bool) -> None:
    if found.ignored:
        say(f"note: {count(found.ignored, 'entry', 'entries')} of another evaluation left out")
    if not found.complete:
        say(f"note: the limit of {count(found.nodes, 'position')} was met; --max-nodes N walks further")
    if plot is not None:
        from graphsearch.alphabeta.nodetypes.plot import draw_stored

        draw_stored(found, rules, plot)
        say(f"plotted: {plot}")
    if json:
        print_json(found.as_dict())
        return
    _print(stored_lines(found, rules))


def _print(parts: Iterable[str | RenderableType]) -> None:
    for part in parts:
        if isinstance(part, str):
            print(part)
        else:
            print_view(partial(_as_it_is, part))


def _as_it_is(part: RenderableType, width: int | None) -> RenderableType:
    return part
