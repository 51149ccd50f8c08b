"""How values look in a picture: colours that colour-blind people tell apart, widths, labels. Pure.

Orange is good for White, blue is good for Black, a light grey is even. Orange and blue differ in all common
kinds of colour blindness; the darker, the clearer.
"""

from __future__ import annotations

from ...query.neighbourhood import DrawnEdge, DrawnNode, Neighbourhood

WHITE, BLACK = (0xC8, 0x5A, 0x00), (0x1F, 0x55, 0xA5)  # of a won position
NODE_EVEN, EDGE_EVEN = (0xF3, 0xF1, 0xEC), (0x9A, 0x9A, 0x9A)
UNKNOWN = "#ffffff"
THINNEST, WIDEST = 0.8, 8.0

Rgb = tuple[int, int, int]


def colour(white_q: float | None, even: Rgb) -> str:
    """Returns the colour of a value as White sees it, from `even` at 0 to that of the side that wins.

    Small differences matter most, so the square root of |Q| says how far it goes.

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
    """Returns the width of an edge of N visits beside one of `most`: its area grows with the root of N.

    >>> width(0, 100), width(25, 100), width(100, 100)
    (0.8, 4.4, 8.0)
    """
    share = (n / most) ** 0.5 if most else 0.0
    return round(THINNEST + share * (WIDEST - THINNEST), 2)


def most_visits(picture: Neighbourhood) -> int:
    """Returns the visits of its widest edge."""
    return max((edge.n for edge in picture.edges), default=0)


def move_text(edge: DrawnEdge, parent: DrawnNode) -> str:
    """Returns a move with its number, as people write it: `3. Nf3`, `3... Nc6`."""
    fields = parent.position.split()
    return f"{fields[5]}{'.' if fields[1] == 'w' else '...'} {edge.san}"


def numbers_text(node: DrawnNode) -> str:
    """Returns N, and Q as White sees it, of a position."""
    n = "" if node.n is None else f"{node.n:,}"
    return n if node.white_q is None else f"{n}  {node.white_q:+z.2f}".strip()


def title_of(picture: Neighbourhood) -> str:
    """Returns what a picture shows, in a line."""
    what = f"book {picture.book}" if picture.book is not None else picture.position
    return f"{what}: {len(picture.nodes):,} positions, {picture.transpositions:,} with several ways in"
