"""The pieces of chess.svg as SVG symbols; attributes replace inline styles, which the explorer forbids."""

from __future__ import annotations

from functools import cache
from xml.etree import ElementTree

import chess.svg


@cache
def sprite() -> str:
    """Returns an SVG element that defines the twelve pieces: `piece-wk` is the white king, 45 by 45 units.

    >>> 'id="piece-bq"' in sprite(), "style=" in sprite()
    (True, False)
    """
    symbols = []
    for letter, text in chess.svg.PIECES.items():
        piece = ElementTree.fromstring(text)  # noqa: S314 (a constant of python-chess)
        for key in ("id", "class"):
            piece.attrib.pop(key, None)
        for element in piece.iter():
            for declaration in element.attrib.pop("style", "").split(";"):
                name, _, value = declaration.partition(":")
                element.attrib |= {name.strip(): value.strip()} if value else {}
        name = f"piece-{'w' if letter.isupper() else 'b'}{letter.lower()}"
        plain = ElementTree.tostring(piece, encoding="unicode")
        symbols.append(f'<symbol id="{name}" viewBox="0 0 45 45">{plain}</symbol>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="sprite" aria-hidden="true">{"".join(symbols)}</svg>'
    )
