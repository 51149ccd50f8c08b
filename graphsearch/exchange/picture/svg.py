"""A neighbourhood as SVG: levels from left to right, a box for each position, every way into it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ...query.neighbourhood import DrawnEdge, DrawnNode, Neighbourhood
from .look import EDGE_EVEN, NODE_EVEN, colour, ink, most_visits, move_text, numbers_text, title_of, width

BOX, TALL, ACROSS, DOWN, MARGIN, LEGEND = 104, 36, 190, 48, 24, 44  # pixels
HEAD = 7  # of an arrow

Point = tuple[float, float]


def svg_of(picture: Neighbourhood) -> str:
    """Returns a picture as an SVG document; text stays text, and colours go by Q as White sees it."""
    wide = MARGIN * 2 + BOX + ACROSS * max(node.level for node in picture.nodes)
    tall = MARGIN * 2 + TALL + DOWN * max(node.place for node in picture.nodes) + LEGEND
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{tall:g}" role="img"'
        f' viewBox="0 0 {wide:g} {tall:g}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f"<title>{escape(title_of(picture))}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *_edges(picture),
        *_nodes(picture),
        *_legend(tall - LEGEND / 2),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _corner(node: DrawnNode) -> Point:
    """Returns the left upper corner of a box."""
    return MARGIN + ACROSS * node.level, MARGIN + DOWN * node.place


# ------------------------------------------------------------------ boxes
def _nodes(picture: Neighbourhood) -> Iterator[str]:
    main = {edge.child: edge for edge in picture.edges if edge.main}
    for k, node in enumerate(picture.nodes):
        way = main.get(k)
        head = move_text(way, picture.nodes[way.parent]) if way else "root"
        yield _box(node, head, is_root=way is None)


def _box(node: DrawnNode, head: str, *, is_root: bool) -> str:
    x, y = _corner(node)
    middle, numbers = x + BOX / 2, escape(numbers_text(node))
    fill = colour(node.white_q, NODE_EVEN)
    text = f'text-anchor="middle" fill="{ink(fill)}"'
    border = 'stroke="#1a1a1a" stroke-width="2"' if is_root else 'stroke="#8a8a8a"'
    return (
        f"<g><title>{escape(node.position)}  {numbers}</title>"
        f'<rect x="{x:g}" y="{y:g}" width="{BOX}" height="{TALL}" rx="6" fill="{fill}" {border}/>'
        f'<text x="{middle:g}" y="{y + 15:g}" font-weight="bold" {text}>{escape(head)}</text>'
        f'<text x="{middle:g}" y="{y + 29:g}" font-size="10" {text}>{numbers}</text></g>'
    )


# ------------------------------------------------------------------ edges
def _edges(picture: Neighbourhood) -> Iterator[str]:
    """Yields the edges, the widest below the others, and then the moves that no box names."""
    most = most_visits(picture)
    ordered = sorted(picture.edges, key=lambda edge: -edge.n)
    labels = []
    for edge in ordered:
        parent, child = picture.nodes[edge.parent], picture.nodes[edge.child]
        curve = _curve(parent, child)
        yield _path(edge, curve, width(edge.n, most), dashed=child.level <= parent.level)
        if not edge.main:
            labels.append(_label(edge.san, _on(curve, 0.72)))
    yield from labels


def _curve(parent: DrawnNode, child: DrawnNode) -> tuple[Point, Point, Point, Point]:
    """Returns a cubic curve between two boxes; one that leads back ends at the right side of its box."""
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
    """Returns a point of a cubic curve."""
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    x, y = (sum(w * point[axis] for w, point in zip(weights, curve, strict=True)) for axis in (0, 1))
    return x, y


def _path(edge: DrawnEdge, curve: tuple[Point, Point, Point, Point], wide: float, *, dashed: bool) -> str:
    a, b, c, (x, y) = curve
    back = HEAD if dashed else -HEAD
    paint = colour(edge.white_q, EDGE_EVEN) if edge.white_q is not None else "#9a9a9a"
    half = max(3.5, wide / 2 + 1.5)
    line = f"M{a[0]:g} {a[1]:g}C{b[0]:g} {b[1]:g} {c[0] + back:g} {c[1]:g} {x + back:g} {y:g}"
    head = f"M{x:g} {y:g}l{back} {half:g}v{-2 * half:g}z"
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    about = f"{edge.san}: N {edge.n:,}" + ("" if edge.white_q is None else f", Q {edge.white_q:+.3f}")
    return (
        f"<g><title>{escape(about)}</title>"
        f'<path d="{line}" fill="none" stroke="{paint}" stroke-width="{wide:g}"{dash}/>'
        f'<path d="{head}" fill="{paint}"/></g>'
    )


def _label(san: str, at: Point) -> str:
    return (
        f'<text x="{at[0]:g}" y="{at[1] + 4:g}" text-anchor="middle" font-size="11" fill="#1a1a1a"'
        f' stroke="#ffffff" stroke-width="4" paint-order="stroke">{escape(san)}</text>'
    )


# ------------------------------------------------------------------ legend
def _legend(y: float) -> Iterator[str]:
    steps = [k / 6 for k in range(-6, 7)]
    x = MARGIN
    for k, q in enumerate(steps):
        paint = colour(q * abs(q), NODE_EVEN)
        yield f'<rect x="{x + 12 * k}" y="{y - 6:g}" width="12" height="12" fill="{paint}"/>'
    yield (
        f'<text x="{x + 12 * len(steps) + 8}" y="{y + 4:g}" fill="#1a1a1a">'
        "Q: Black better \u2013 White better; edge width: N</text>"
    )
