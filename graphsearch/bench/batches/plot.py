"""The rows as a picture: how full, how fast, at what price; one colour and marker for each gatherer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import GraphSearchError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Row = Mapping[str, Any]

STYLES = {  # colours of Okabe and Ito, told apart without seeing all colours
    "classic": ("#0072B2", "o"),
    "budget": ("#E69F00", "s"),
    "exclude": ("#009E73", "^"),
    "flow": ("#D55E00", "D"),
}
OTHER_STYLE = ("#555555", "x")
SEQUENTIAL_COLOUR = "#333333"
APART = 1.1  # error bars of one batch stand side by side
PANEL_INCHES = (3.7, 2.7)
DPI = 110


def check_library() -> None:
    """Raises GraphSearchError, with what to do, if the drawing library is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise GraphSearchError(
            "a plot needs matplotlib: pip install '.[plot]' in the folder of graphsearch"
        ) from None


def draw(rows: Sequence[Row], path: Path, *, caption: str = "") -> None:
    """Draws the rows of the report into a PNG file, with the caption below.

    Raises:
      GraphSearchError: if the drawing library is missing.
      OSError: if the file cannot be written.
    """
    check_library()
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _figure(rows)
    figure.supxlabel(caption, fontsize=9, color="#555555")
    FigureCanvasAgg(figure)
    figure.savefig(path, format="png", dpi=DPI)


def _figure(rows: Sequence[Row]) -> Figure:
    from matplotlib.figure import Figure

    lines = list(_lines(rows))
    columns = max(len(line) for line in lines)
    width, height = PANEL_INCHES
    figure = Figure(figsize=(columns * width, len(lines) * height + 0.6), layout="constrained")
    grid = figure.subplots(len(lines), columns, squeeze=False)
    for axes_line, panels in zip(grid, lines, strict=True):
        for axes in axes_line[len(panels) :]:
            axes.set_visible(False)
        for axes, panel in zip(axes_line, panels, strict=False):
            panel.draw(axes)
        if panels[0].log:
            _align(axes_line[: len(panels)])
    handles = [_handle(gather) for gather in _gatherers(rows)] + [_sequential_handle()]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=11)
    return figure


@dataclass(frozen=True, slots=True)
class _Panel:
    """One figure over the batch size, a line for each gatherer.

    Attributes:
      rows: what is drawn. name: which figure. share: draw it as a share of the batch.
      label: of the upright axis. sequential: value of the sequential search and its error, if it has one.
    """

    title: str
    label: str
    rows: Sequence[Row]
    name: str
    share: bool = False
    log: bool = False
    most: float | None = None
    sequential: tuple[float, float] | None = None

    def draw(self, axes: Axes) -> None:
        """Draws the panel."""
        gatherers = _gatherers(self.rows)
        if self.sequential:
            _draw_sequential(axes, *self.sequential)
        for number, gather in enumerate(gatherers):
            apart = APART ** (number - (len(gatherers) - 1) / 2)
            self._draw_line(axes, gather, apart)
        _batch_axis(axes, [row["batch"] for row in self.rows])
        axes.set_title(self.title, fontsize=10)
        axes.set_ylabel(self.label, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(True, color="#dddddd", linewidth=0.6)
        self._upright_axis(axes)

    def _upright_axis(self, axes: Axes) -> None:
        if self.log:
            from matplotlib.ticker import LogLocator, NullFormatter

            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
            return
        top = self.most or axes.get_ylim()[1]
        axes.set_ylim(-0.04 * top, 1.04 * top)
        if self.name != "root_distance":
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")

    def _draw_line(self, axes: Axes, gather: str, apart: float) -> None:
        own = [row for row in self.rows if row["gather"] == gather and row[self.name] is not None]
        colour, marker = STYLES.get(gather, OTHER_STYLE)
        values = [row[self.name] / (row["batch"] if self.share else 1) for row in own]
        errors = [row.get(f"{self.name}_error") or 0.0 for row in own]
        axes.errorbar(
            [row["batch"] * apart for row in own],
            values,
            yerr=errors if any(errors) else None,
            color=colour,
            marker=marker,
            markersize=4.5,
            linewidth=1.4,
            elinewidth=0.9,
            capsize=2,
        )


def _lines(rows: Sequence[Row]) -> Iterator[list[_Panel]]:
    """Yields the lines of panels: filling and time of every evaluator, then the price by evaluations."""
    evaluators = list(dict.fromkeys(row["evaluator"] for row in rows))
    for name, label, share in (
        ("positions_per_batch", "share of the batch filled", True),
        ("gather_us_per_position", "gather, us per position", False),
    ):
        for evaluator in evaluators:
            sizes = _by_nodes([row for row in rows if row["batch"] > 1], evaluator)
            yield [
                _Panel(
                    title=f"{evaluator}, {nodes:,} nodes",
                    label=label if first else "",
                    rows=own,
                    name=name,
                    share=share,
                    log=not share,
                    most=1.0,
                )
                for first, (nodes, own) in zip((True, *(False,) * len(sizes)), sizes.items(), strict=False)
            ]
    for evaluator in evaluators:
        for nodes, own in _by_nodes(rows, evaluator).items():
            if any(row["agreement"] is not None for row in own):
                yield list(_prices(f"{evaluator}, {nodes:,} evaluations", own))


def _prices(title: str, rows: Sequence[Row]) -> Iterator[_Panel]:
    """Yields the panels of the price; the sequential search is what every gatherer is with batch 1."""
    searched = [row for row in rows if row["batch"] > 1]
    yield _Panel(title, "best move as sequential", searched, "agreement", most=1.0, sequential=(1.0, 0.0))
    yield _Panel(title, "root L1 distance", searched, "root_distance", sequential=(0.0, 0.0))
    yield _Panel(title, "waste", searched, "waste", sequential=(0.0, 0.0))
    base = next((row for row in rows if row["batch"] == 1 and row["reference_agreement"] is not None), None)
    if base:
        line = (base["reference_agreement"], base["reference_agreement_error"] or 0.0)
        yield _Panel(title, "best move as the reference", searched, "reference_agreement", sequential=line)


def _by_nodes(rows: Sequence[Row], evaluator: str) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        if row["evaluator"] == evaluator:
            found.setdefault(row["nodes"], []).append(row)
    return found


def _gatherers(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["gather"] for row in rows))


# ------------------------------------------------------------------ parts of a panel
def _align(line: Sequence[Axes]) -> None:
    """Gives the panels of a line one upright axis."""
    ends = [axes.get_ylim() for axes in line]
    for axes in line:
        axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))


def _batch_axis(axes: Axes, batches: Sequence[int]) -> None:
    ticks = sorted(set(batches))
    axes.set_xscale("log")
    axes.set_xticks(ticks, [batch_name(batch) for batch in ticks])
    axes.minorticks_off()
    axes.set_xlabel("batch", fontsize=9)


def batch_name(batch: int) -> str:
    """Returns a batch size for an axis.

    >>> batch_name(256), batch_name(16384)
    ('256', '16k')
    """
    return f"{batch // 1024}k" if batch >= 1024 and batch % 1024 == 0 else f"{batch}"


def _draw_sequential(axes: Axes, value: float, error: float) -> None:
    axes.axhline(value, color=SEQUENTIAL_COLOUR, linestyle="--", linewidth=1.2, zorder=1)
    if error:
        axes.axhspan(value - error, value + error, color=SEQUENTIAL_COLOUR, alpha=0.12, linewidth=0)


def _handle(gather: str) -> Line2D:
    from matplotlib.lines import Line2D

    colour, marker = STYLES.get(gather, OTHER_STYLE)
    return Line2D([], [], color=colour, marker=marker, label=gather)


def _sequential_handle() -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=SEQUENTIAL_COLOUR, linestyle="--", label="sequential search")
