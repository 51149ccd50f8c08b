"""Draws a neighbourhood or a book as SVG, or as DOT for Graphviz.

Orange is good for White, blue is good for Black, light grey is even; darker is clearer. Orange and blue stay
distinct in all common kinds of colour blindness.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

import chess

from ..query.neighbourhood import DrawnEdge, DrawnNode, Neighbourhood, neighbourhood
from .output import ExportReport, Target, new_output, target_name

WHITE, BLACK = (0xC8, 0x5A, 0x00), (0x1F, 0x55, 0xA5)  # of a won position
NODE_EVEN, EDGE_EVEN = (0xF3, 0xF1, 0xEC), (0x9A, 0x9A, 0x9A)
UNKNOWN = "#ffffff"
THINNEST, WIDEST = 0.8, 8.0

Rgb = tuple[int, int, int]


def colour(white_q: float | None, even: Rgb) -> str:
    """Returns the colour of a value seen by White: `even` at 0, the winner's colour at 1 or -1.

    The colour scales with the square root of |Q|, as small differences matter most.

    >>> colour(0.0, NODE_EVEN), colour(1.0, NODE_EVEN), colour(-1.0, EDGE_EVEN), colour(None, NODE_EVEN)
    ('#f3f1ec', '#c85a00', '#1f55a5', '#ffffff')
    """
    if white_q is None:
        return UNKNOWN
    share = min(1.0, abs(white_q)) ** 0.5
    end = WHITE if white_q > 0 else BLACK
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in zip(even, end, strict=True))


def ink(background: str) -> str:
    """Returns black or white, whichever is easier to read on a colour.

    >>> ink("#f3f1ec"), ink("#1f55a5")
    ('#1a1a1a', '#ffffff')
    """
    red, green, blue = (int(background[k : k + 2], 16) for k in (1, 3, 5))
    return "#1a1a1a" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#ffffff"


def width(n: int, most: int) -> float:
    """Returns the width of an edge of N visits; it grows with the root of N up to `most` visits.

    >>> width(0, 100), width(25, 100), width(100, 100)
    (0.8, 4.4, 8.0)
    """
    share = (n / most) ** 0.5 if most else 0.0
    return round(THINNEST + share * (WIDEST - THINNEST), 2)


def most_visits(picture: Neighbourhood) -> int:
    """Returns the visits of the most visited edge."""
    return max((edge.n for edge in picture.edges), default=0)


def move_text(edge: DrawnEdge, parent: DrawnNode) -> str:
    """Returns a move with its number: `3. Nf3`, `3... Nc6`."""
    fields = parent.position.split()
    return f"{fields[5]}{'.' if fields[1] == 'w' else '...'} {edge.san}"


def numbers_text(node: DrawnNode) -> str:
    """Returns N of a position, and Q seen by White."""
    n = "" if node.n is None else f"{node.n:,}"
    return n if node.white_q is None else f"{n}  {node.white_q:+z.2f}".strip()


def _about(edge: DrawnEdge) -> str:
    return f"{edge.san}: N {edge.n:,}" + ("" if edge.white_q is None else f", Q {edge.white_q:+.3f}")


def title_of(picture: Neighbourhood) -> str:
    """Returns the title of a picture, one line."""
    what = f"book {picture.book}" if picture.book is not None else picture.position
    return f"{what}: {len(picture.nodes):,} positions, {picture.transpositions:,} with several ways in"


BOX, TALL, ACROSS, DOWN, MARGIN, LEGEND = 104, 36, 190, 48, 24, 44  # pixels
HEAD = 7  # of an arrow

Point = tuple[float, float]


def svg_of(picture: Neighbourhood) -> str:
    """Returns a picture as an SVG document with plain text elements; colours show Q seen by White."""
    wide = MARGIN * 2 + BOX + ACROSS * max(node.level for node in picture.nodes)
    tall = MARGIN * 2 + TALL + DOWN * max(node.place for node in picture.nodes) + LEGEND
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{tall:g}" role="img"'
        f' viewBox="0 0 {wide:g} {tall:g}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f"<title>{escape(title_of(picture))}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *_svg_edges(picture),
        *_svg_nodes(picture),
        *_svg_legend(tall - LEGEND / 2),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _corner(node: DrawnNode) -> Point:
    """Returns the upper left corner of a box."""
    return MARGIN + ACROSS * node.level, MARGIN + DOWN * node.place


# ------------------------------------------------------------------ boxes
def _svg_nodes(picture: Neighbourhood) -> Iterator[str]:
    main = {edge.child: edge for edge in picture.edges if edge.main}
    for k, node in enumerate(picture.nodes):
        way = main.get(k)
        head = move_text(way, picture.nodes[way.parent]) if way else "root"
        x, y = _corner(node)
        middle, numbers = x + BOX / 2, escape(numbers_text(node))
        fill = colour(node.white_q, NODE_EVEN)
        text = f'text-anchor="middle" fill="{ink(fill)}"'
        border = 'stroke="#8a8a8a"' if way else 'stroke="#1a1a1a" stroke-width="2"'
        yield (
            f"<g><title>{escape(node.position)}  {numbers}</title>"
            f'<rect x="{x:g}" y="{y:g}" width="{BOX}" height="{TALL}" rx="6" fill="{fill}" {border}/>'
            f'<text x="{middle:g}" y="{y + 15:g}" font-weight="bold" {text}>{escape(head)}</text>'
            f'<text x="{middle:g}" y="{y + 29:g}" font-size="10" {text}>{numbers}</text></g>'
        )


# ------------------------------------------------------------------ edges
def _svg_edges(picture: Neighbourhood) -> Iterator[str]:
    """Yields the edges, the widest at the bottom, then labels for the moves that no box names."""
    most = most_visits(picture)
    ordered = sorted(picture.edges, key=lambda edge: -edge.n)
    labels = []
    for edge in ordered:
        parent, child = picture.nodes[edge.parent], picture.nodes[edge.child]
        curve = _curve(parent, child)
        yield _svg_path(edge, curve, width(edge.n, most), dashed=child.level <= parent.level)
        if not edge.main:
            x, y = _on(curve, 0.72)
            labels.append(
                f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle" font-size="11" fill="#1a1a1a"'
                f' stroke="#ffffff" stroke-width="4" paint-order="stroke">{escape(edge.san)}</text>'
            )
    yield from labels


def _curve(parent: DrawnNode, child: DrawnNode) -> tuple[Point, Point, Point, Point]:
    """Returns a cubic curve between two boxes; one to the same or an earlier level ends at the right side."""
    (px, py), (cx, cy) = _corner(parent), _corner(child)
    start = (px + BOX, py + TALL / 2)
    if child.level > parent.level:
        end = (cx, cy + TALL / 2)
        bend = (end[0] - start[0]) / 2
        return start, (start[0] + bend, start[1]), (end[0] - bend, end[1]), end
    end = (cx + BOX, cy + TALL / 2)
    bend = 60 + 12 * (parent.level - child.level)
    return start, (start[0] + bend, start[1]), (end[0] + bend, end[1]), end


def _on(curve: tuple[Point, Point, Point, Point], t: float) -> Point:
    """Returns the point of a cubic curve at `t` in [0, 1]."""
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    x, y = (sum(w * point[axis] for w, point in zip(weights, curve, strict=True)) for axis in (0, 1))
    return x, y


def _svg_path(edge: DrawnEdge, curve: tuple[Point, Point, Point, Point], wide: float, *, dashed: bool) -> str:
    a, b, c, (x, y) = curve
    back = HEAD if dashed else -HEAD
    paint = colour(edge.white_q, EDGE_EVEN) if edge.white_q is not None else "#9a9a9a"
    half = max(3.5, wide / 2 + 1.5)
    line = f"M{a[0]:g} {a[1]:g}C{b[0]:g} {b[1]:g} {c[0] + back:g} {c[1]:g} {x + back:g} {y:g}"
    head = f"M{x:g} {y:g}l{back} {half:g}v{-2 * half:g}z"
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    return (
        f"<g><title>{escape(_about(edge))}</title>"
        f'<path d="{line}" fill="none" stroke="{paint}" stroke-width="{wide:g}"{dash}/>'
        f'<path d="{head}" fill="{paint}"/></g>'
    )


# ------------------------------------------------------------------ legend
def _svg_legend(y: float) -> Iterator[str]:
    steps = [k / 6 for k in range(-6, 7)]
    x = MARGIN
    for k, q in enumerate(steps):
        paint = colour(q * abs(q), NODE_EVEN)
        yield f'<rect x="{x + 12 * k}" y="{y - 6:g}" width="12" height="12" fill="{paint}"/>'
    yield (
        f'<text x="{x + 12 * len(steps) + 8}" y="{y + 4:g}" fill="#1a1a1a">'
        "Q: Black better \u2013 White better; edge width: N</text>"
    )


def dot_of(picture: Neighbourhood) -> str:
    """Returns a picture as a digraph: a node for each position, an edge for each move, levels as ranks."""
    most = most_visits(picture)
    levels = defaultdict(list)
    for node in picture.nodes:
        levels[node.level].append(f'"{node.key}"')
    lines = [
        "digraph graphsearch {",
        f"  label={_quoted(title_of(picture))};",
        '  graph [rankdir=LR, fontname="Helvetica", nodesep=0.15, ranksep=0.7];',
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=10, arrowsize=0.6];',
        *(f"  {_dot_node(node)}" for node in picture.nodes),
        *(f"  {_dot_edge(edge, picture, most)}" for edge in picture.edges),
        # one group for each level keeps it in one column
        *(f"  {{ rank=same; {'; '.join(keys)} }}" for keys in levels.values()),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    r"""Returns a text as a quoted DOT string.

    >>> print(_quoted('a "b" \\ c'))
    "a \"b\" \\ c"
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _attributes(**values: str) -> str:
    return "[" + ", ".join(f"{name}={_quoted(value)}" for name, value in values.items()) + "]"


def _dot_node(node: DrawnNode) -> str:
    fill = colour(node.white_q, NODE_EVEN)
    text = numbers_text(node) or "?"
    more = {"label": f"root\n{text}", "penwidth": "2"} if not node.level else {"label": text}
    return f'"{node.key}" {_attributes(**more, fillcolor=fill, fontcolor=ink(fill), tooltip=node.position)};'


def _dot_edge(edge: DrawnEdge, picture: Neighbourhood, most: int) -> str:
    parent, child = picture.nodes[edge.parent], picture.nodes[edge.child]
    more = {} if child.level > parent.level else {"style": "dashed", "constraint": "false"}
    paint = colour(edge.white_q or 0.0, EDGE_EVEN)
    attributes = _attributes(
        label=edge.san, penwidth=f"{width(edge.n, most):g}", color=paint, tooltip=_about(edge), **more
    )
    return f'"{parent.key}" -> "{child.key}" {attributes};'


POSITIONS = 60  # fit on a page
FORMS: dict[str, Callable[[Neighbourhood], str]] = {"svg": svg_of, "dot": dot_of}


def export_picture(
    path: str | Path,
    target: Target,
    form: str,
    board: chess.Board | None = None,
    *,
    depth: int | None = None,
    min_visits: int | None = None,
    most: int = POSITIONS,
    book: str | None = None,
) -> ExportReport:
    """Writes the result of `query.neighbourhood` as a picture; returns a report.

    Args:
      target: file, or binary stream. form: `svg` or `dot`.
      board, depth, min_visits, most, book: as in `neighbourhood`.

    Raises:
      ExportError: if the output cannot be written.
      GraphSearchError: as in `neighbourhood`.
    """
    began = time.monotonic()
    picture = neighbourhood(path, board, depth=depth, min_visits=min_visits, most=most, book=book)
    with new_output(target, store=Path(path)) as out:
        out.write(FORMS[form](picture).encode())
    report = ExportReport(form, target_name(target), positions=len(picture.nodes), moves=len(picture.edges))
    report.left_out["moves_outside"] = picture.hidden
    report.seconds = time.monotonic() - began
    return report
