"""Plots counts by ply and type on a logarithmic scale against the formulas, and the types' agreement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....base.plotting import require_matplotlib
from ....base.version import __version__
from .theory import ALL, CUT, KINDS, PV, Agreement, Rules, minimal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .classify import Classification
    from .synthetic import Synthetic

STYLES = {  # colours of Okabe and Ito, distinct for colour-blind readers
    PV: ("#D55E00", "o", "PV"),
    CUT: ("#0072B2", "s", "Cut"),
    ALL: ("#009E73", "^", "All"),
}
SIZE_INCHES = (10.4, 4.4)
DPI = 130
GRID = "#dddddd"
LOWEST, ROOM = 0.7, 4  # lower end of the scale; its upper end as a multiple of the largest count
APART = {PV: 0.0, CUT: -0.1, ALL: 0.1}  # plies: markers of equal numbers stand side by side
WIDEST = 0.015  # of the width at most
MARGIN = 0.5  # plies
FORMULA: dict[str, Any] = {  # drawn around the counts, so that equal values of both stay visible
    "linestyle": "--",
    "linewidth": 1.0,
    "markersize": 10.0,
    "markerfacecolor": "none",
    "markeredgewidth": 0.8,
    "alpha": 0.8,
}
WHOSE = {Rules.GARMS: "Onno Garms", Rules.KANNAN: "Pradu Kannan"}

Line = list[float]
Points = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Picture:
    """The data of one plot.

    Attributes:
      counted, formulas: by type, a number for each ply. title: above the counts. caption: below the plot.
      agreement: matrix on the right. rules: the rules of its expected types.
    """

    counted: dict[str, Line]
    formulas: dict[str, Line]
    title: str
    caption: str
    agreement: Agreement
    rules: Rules


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
            f"{found.nodes:,} stored positions{_below(found.start)}, {found.branching:.1f} moves each",
            found.position,
            found.agreement[rules.value],
            rules,
        ),
        path,
    )


def _below(start: str) -> str:
    return "" if start == PV else f" below {'an' if start == ALL else 'a'} {STYLES[start][2]} node"


def draw_synthetic(found: Synthetic, rules: Rules, path: Path) -> None:
    """Draws the search of a uniform tree into a PNG or SVG file; errors as for `draw_stored`."""
    tree, pvs = found.tree, found.searches[-1]
    plies = range(tree.depth + 1)
    counts = [pvs.actual(ply) for ply in plies]
    _draw(
        _Picture(
            {kind: [float(row[i]) for row in counts] for i, kind in enumerate(KINDS)},
            {kind: [float(getattr(minimal(tree.branching, ply), kind)) for ply in plies] for kind in KINDS},
            f"PVS, {tree.branching} moves, {tree.order_phrase}:"
            f" {pvs.leaves:,} {'leaf' if pvs.leaves == 1 else 'leaves'}",
            f"{pvs.price:,.2f} times the leaves of the minimal tree; seed {tree.seed}",
            pvs.agreement(rules),
            rules,
        ),
        path,
    )


def _draw(picture: _Picture, path: Path) -> None:
    require_matplotlib()
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
        figure.supxlabel(f"{picture.caption}   (graphsearch {__version__})", fontsize=8.5, color="#555555")
        figure.savefig(path, format=path.suffix[1:].lower(), dpi=DPI)


def _draw_counts(axes: Axes, picture: _Picture) -> None:
    from matplotlib.ticker import MaxNLocator

    top = max(10.0, ROOM * max(max(line) for line in picture.counted.values()))
    axes.set_yscale("log")
    axes.set_ylim(LOWEST, top)
    for kind, (colour, marker, _) in STYLES.items():
        widest = WIDEST * max(1, len(picture.counted[kind]) - 1)
        apart = min(widest, max(-widest, APART[kind]))
        plies, values = _positive(picture.formulas[kind])
        inside = np.flatnonzero(values <= top).tolist()  # no half marker on the edge
        axes.plot(apart + plies, values, color=colour, marker=marker, markevery=inside, **FORMULA)
        for place in _exits(plies, values, top):
            _draw_exit(axes, apart + place, colour)
        counts = np.array(picture.counted[kind], np.float64)
        counts[counts == 0] = np.nan  # a gap
        axes.plot(
            apart + np.arange(len(counts)), counts, color=colour, marker=marker, markersize=5.5, linewidth=1.6
        )
    axes.set_xlim(-MARGIN, len(picture.counted[PV]) - 1 + MARGIN)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("ply", fontsize=9)
    axes.set_ylabel("nodes", fontsize=9)
    axes.set_title(picture.title, fontsize=10)
    axes.tick_params(labelsize=8)
    axes.grid(True, color=GRID, linewidth=0.6)


def _positive(values: Sequence[float]) -> tuple[Points, Points]:
    """Returns the plies and values that a logarithmic scale can show."""
    shown = [(float(ply), float(value)) for ply, value in enumerate(values) if 0 < value < math.inf]
    plies, found = np.array(shown, np.float64).reshape(-1, 2).T
    return plies, found


def _exits(plies: Points, values: Points, top: float) -> Line:
    """Returns the plies at which a line crosses the upper edge of a logarithmic scale on its way up.

    >>> _exits(np.array([0.0, 1.0, 2.0]), np.array([1.0, 10.0, 1000.0]), 100.0)
    [1.5]
    """
    logs, edge = np.log(values), math.log(top)
    return [
        float(plies[i] + (plies[i + 1] - plies[i]) * (edge - logs[i]) / (logs[i + 1] - logs[i]))
        for i in range(len(logs) - 1)
        if logs[i] <= edge < logs[i + 1]
    ]


def _draw_exit(axes: Axes, place: float, colour: str) -> None:
    """Draws an arrow on the upper edge: the line continues above it."""
    axes.annotate(
        "",
        (place, 1.005),
        (place, 0.925),
        xycoords=axes.get_xaxis_transform(),
        textcoords=axes.get_xaxis_transform(),
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0},
        annotation_clip=False,
    )


def _draw_matrix(axes: Axes, picture: _Picture) -> None:
    """Draws the nodes by expected and actual type; the shade is the share of the row."""
    shares = [[n / sum(row) if sum(row) else 0.0 for n in row] for row in picture.agreement.matrix]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.15)
    names = [name for _, _, name in STYLES.values()]
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("found", fontsize=9)
    axes.set_ylabel("expected", fontsize=9)
    axes.tick_params(labelsize=9, length=0)
    for y, row in enumerate(picture.agreement.matrix):
        for x, n in enumerate(row):
            share = shares[y][x]
            text = f"{n:,}\n{100 * share:.1f} %" if sum(row) else f"{n:,}"
            colour = "white" if share > 0.6 else "black"
            axes.text(x, y, text, ha="center", va="center", fontsize=8.5, color=colour)
    kappa, share_all = picture.agreement.kappa, picture.agreement.share
    known = "no node of known type" if share_all is None else f"{100 * share_all:.1f} % agree"
    figures = known + ("" if kappa is None else f", kappa {kappa:.3f}")
    axes.set_title(f"Rules of {WHOSE[picture.rules]}:\n{figures}", fontsize=10)


def _draw_legend(figure: Figure) -> None:
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    styles = STYLES.values()
    handles: list[Any] = [Line2D([], [], color=colour, marker=marker) for colour, marker, _ in styles]
    handles.append(
        tuple(Line2D([], [], color=colour, marker=marker, **FORMULA) for colour, marker, _ in styles)
    )
    figure.legend(
        handles,
        [*(f"{name} found" for _, _, name in styles), "minimal tree (an arrow: it goes on above)"],
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.4)},
        handlelength=3.2,
        loc="outside upper center",
        ncols=len(handles),
        frameon=False,
        fontsize=10,
    )
