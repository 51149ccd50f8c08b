"""A neighbourhood in the language of Graphviz: `dot -Tsvg`, `dot -Tpdf` and others draw it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...query.neighbourhood import DrawnEdge, DrawnNode, Neighbourhood
from .look import EDGE_EVEN, NODE_EVEN, colour, ink, most_visits, numbers_text, title_of, width


def dot_of(picture: Neighbourhood) -> str:
    """Returns a picture as a digraph: a node for each position, an edge for each move, levels as ranks."""
    most = most_visits(picture)
    lines = [
        "digraph graphsearch {",
        f"  label={_quoted(title_of(picture))};",
        '  graph [rankdir=LR, fontname="Helvetica", nodesep=0.15, ranksep=0.7];',
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=10, arrowsize=0.6];',
        *(f"  {_node(node)}" for node in picture.nodes),
        *(f"  {_edge(edge, picture, most)}" for edge in picture.edges),
        *(f"  {rank}" for rank in _ranks(picture)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    r"""Returns a quoted string of the language.

    >>> print(_quoted('a "b" \\ c'))
    "a \"b\" \\ c"
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _attributes(**values: str) -> str:
    return "[" + ", ".join(f"{name}={_quoted(value)}" for name, value in values.items()) + "]"


def _node(node: DrawnNode) -> str:
    fill = colour(node.white_q, NODE_EVEN)
    text = numbers_text(node) or "?"
    more = {"label": f"root\n{text}", "penwidth": "2"} if not node.level else {"label": text}
    return f'"{node.key}" {_attributes(**more, fillcolor=fill, fontcolor=ink(fill), tooltip=node.position)};'


def _edge(edge: DrawnEdge, picture: Neighbourhood, most: int) -> str:
    parent, child = picture.nodes[edge.parent], picture.nodes[edge.child]
    more = {} if child.level > parent.level else {"style": "dashed", "constraint": "false"}
    paint = colour(edge.white_q or 0.0, EDGE_EVEN)
    about = f"{edge.san}: N {edge.n:,}" + ("" if edge.white_q is None else f", Q {edge.white_q:+.3f}")
    attributes = _attributes(
        label=edge.san, penwidth=f"{width(edge.n, most):g}", color=paint, tooltip=about, **more
    )
    return f'"{parent.key}" -> "{child.key}" {attributes};'


def _ranks(picture: Neighbourhood) -> Iterator[str]:
    """Yields what keeps each level in one column."""
    levels = defaultdict(list)
    for node in picture.nodes:
        levels[node.level].append(f'"{node.key}"')
    for keys in levels.values():
        yield f"{{ rank=same; {'; '.join(keys)} }}"
