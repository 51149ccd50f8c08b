"""The pieces of chess.svg as SVG symbols; attributes replace inline styles, which the explorer forbids."""

from __future__ import annotations

import re
from functools import cache

import chess
import chess.svg

_STYLE = re.compile(r'\sstyle="([^"]*)"')
_ID = re.compile(r'<g id="[^"]*" class="[^"]*"')


def _attributes(found: re.Match[str]) -> str:
    """Returns the declarations of a style as SVG attributes, which have the same names."""
    pairs = (part.split(":", 1) for part in found[1].split(";") if ":" in part)
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs)


@cache
def sprite() -> str:
    """Returns an SVG element that defines the twelve pieces: `piece-wk` is the white king, 45 by 45 units.

    >>> 'id="piece-bq"' in sprite(), "style=" in sprite()
    (True, False)
    """
    symbols = []
    for letter, text in chess.svg.PIECES.items():
        name = f"piece-{'w' if letter.isupper() else 'b'}{letter.lower()}"
        plain = _ID.sub("<g", _plain(text), count=1)
        symbols.append(f'<symbol id="{name}" viewBox="0 0 45 45">{plain}</symbol>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="sprite" aria-hidden="true">{"".join(symbols)}</svg>'
    )


def _plain(text: str) -> str:
    """Returns SVG without styles; a style declaration replaces an attribute of the same name."""

    def element(found: re.Match[str]) -> str:
        tag = found[0]
        style = _STYLE.search(tag)
        if not style:
            return tag
        rest = _STYLE.sub("", tag)
        for name in re.findall(r"([\w-]+)\s*:", style[1]):
            rest = re.sub(rf'\s{name}="[^"]*"', "", rest)
        end = "/>" if rest.endswith("/>") else ">"
        return rest.removesuffix(end).rstrip() + _attributes(style) + end

    return re.sub(r"<[^/>][^>]*>", element, text)
