"""Counts by ply and type as a picture, on a logarithmic scale against the formulas; and who expected what."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import GraphSearchError
from .agreement import Agreement
from .formulas import minimal
from .rules import ALL, CUT, KINDS, PV, Rules

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .classify import Classification
    from .synthetic import Synthetic

STYLES = {  # colours of Okabe and Ito, told apart without seeing all colours
    PV: ("#D55E00", "o", "PV"),
    CUT: ("#0072B2", "s", "Cut"),
    ALL: ("#009E73", "^", "All"),
}
SIZE_INCHES = (10.4, 4.4)
DPI = 130
GRID = "#dddddd"
FORMULA: dict[str, Any] = {  # drawn around the counts, so that both show where they are the same
    "linestyle": "--",
    "linewidth": 1.0,
    "markersize": 10.0,
    "markerfacecolor": "none",
    "markeredgewidth": 0.8,
    "alpha": 0.8,
}
WHOSE = {Rules.GARMS: "Onno Garms", Rules.KANNAN: "Pradu Kannan"}

Line = list[float]


@dataclass(frozen=True, slots=True)
class _Picture:
    """What is drawn.

    Attributes:
      counted, formulas: by type, a number for each ply. title: over the counts. caption: below all.
      agreement: matrix on the right. rules: whose.
    """

    counted: dict[str, Line]
    formulas: dict[str, Line]
    title: str
    caption: str
    agreement: Agreement
    rules: Rules


def check_library() -> None:
    """Raises GraphSearchError, with what to do, if the drawing library is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise GraphSearchError(
            "a plot needs matplotlib: pip install 'matplotlib>=3.9', or '.[plot]' in a checkout"
        ) from None


def draw_stored(found: Classification, rules: Rules, path: Path) -> None:
    """Draws stored positions into a PNG or SVG file.

    Raises:
      GraphSearchError: if the drawing library is missing.
      OSError: if the file cannot be written.
    """
    plies = found.plies
    _draw(
        _Picture(
            {kind: [ply.nodes[kind] for ply in plies] for kind in KINDS},
            {kind: [getattr(ply.measured, kind) for ply in plies] for kind in KINDS},
            f"{found.nodes:,} stored positions, {found.branching:.1f} moves each",
            found.position,
            found.agreement[rules.value],
            rules,
        ),
        path,
    )


def draw_synthetic(found: Synthetic, rules: Rules, path: Path) -> None:
    """Draws what a principal variation search of a uniform tree visited; errors as of `draw_stored`."""
    tree, pvs = found.tree, found.searches[-1]
    plies = range(tree.depth + 1)
    counts = [pvs.actual(ply) for ply in plies]
    _draw(
        _Picture(
            {kind: [float(row[i]) for row in counts] for i, kind in enumerate(KINDS)},
            {kind: [float(getattr(minimal(tree.branching, ply), kind)) for ply in plies] for kind in KINDS},
            f"PVS, {tree.branching} moves, {tree.order_name} order: {pvs.leaves:,} leaves",
            f"{pvs.price:,.2f} times the leaves of the minimal tree; seed {tree.seed}",
            pvs.agreement(rules),
            rules,
        ),
        path,
    )


def _draw(picture: _Picture, path: Path) -> None:
    check_library()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.fonttype": "none"}):  # text stays text
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        FigureCanvasAgg(figure)
        counts, matrix = figure.subplots(1, 2, width_ratios=(1.75, 1))
        _draw_counts(counts, picture)
        _draw_matrix(matrix, picture)
        _draw_legend(figure)
        figure.supxlabel(picture.caption, fontsize=8.5, color="#555555")
        figure.savefig(path, format=path.suffix[1:].lower(), dpi=DPI)


def _draw_counts(axes: Axes, picture: _Picture) -> None:
    from matplotlib.ticker import MaxNLocator

    most = max(max(line) for line in picture.counted.values())
    for kind, (colour, marker, _) in STYLES.items():
        formula = _positive(picture.formulas[kind])
        axes.plot(*formula, color=colour, marker=marker, **FORMULA)
        axes.plot(
            *_positive(picture.counted[kind]), color=colour, marker=marker, markersize=5.5, linewidth=1.6
        )
    axes.set_yscale("log")
    axes.set_ylim(0.7, max(10.0, most * 4))  # formulas leave a deep search behind
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("ply", fontsize=9)
    axes.set_ylabel("nodes", fontsize=9)
    axes.set_title(picture.title, fontsize=10)
    axes.tick_params(labelsize=8)
    axes.grid(True, color=GRID, linewidth=0.6)


def _positive(values: Sequence[float]) -> tuple[list[int], Line]:
    """Returns the plies and values that a logarithmic scale can show."""
    shown = [(ply, value) for ply, value in enumerate(values) if 0 < value < math.inf]
    return [ply for ply, _ in shown], [value for _, value in shown]


def _draw_matrix(axes: Axes, picture: _Picture) -> None:
    """Draws the nodes by expected and actual type; the shade is the share of the row."""
    shares = [[n / sum(row) if sum(row) else 0.0 for n in row] for row in picture.agreement.matrix]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.15)
    names = [name for _, _, name in STYLES.values()]
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("found", fontsize=9)
    axes.set_ylabel(f"expected by {WHOSE[picture.rules]}", fontsize=9)
    axes.tick_params(labelsize=9, length=0)
    for y, row in enumerate(picture.agreement.matrix):
        for x, n in enumerate(row):
            share = shares[y][x]
            text = f"{n:,}\n{100 * share:.1f} %" if sum(row) else f"{n:,}"
            colour = "white" if share > 0.6 else "black"
            axes.text(x, y, text, ha="center", va="center", fontsize=8.5, color=colour)
    kappa, share_all = picture.agreement.kappa, picture.agreement.share
    known = "" if share_all is None else f"{100 * share_all:.1f} % agree"
    axes.set_title(known + ("" if kappa is None else f", kappa {kappa:.3f}"), fontsize=10)


def _draw_legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker=marker, label=name) for colour, marker, name in STYLES.values()
    ]
    handles.append(Line2D([], [], color="#555555", marker="o", label="minimal tree", **FORMULA))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=10)
