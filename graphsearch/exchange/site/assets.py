"""The page of a site: HTML, style, and one classic script, because a page in a folder may load no modules."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from importlib import resources

from ...version import __version__
from ..pieces import sprite
from .parts import Site

SHARED = ("chess.js", "board.js")  # modules of the explorer
OWN = ("data.js", "layers.js", "look.js", "views.js", "page.js")

_IMPORT = re.compile(r"^import\b[^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export\s+", re.MULTILINE)


def page_files(site: Site) -> dict[str, str]:
    """Returns the files of the page itself, by name."""
    return {
        "index.html": _page(site),
        "site.css": f"{_shared('board.css')}\n{_own('site.css')}",
        "site.js": script(),
    }


@cache
def script() -> str:
    """Returns the script of all sites: the modules of the board, then what is ours."""
    board = "\n".join(plain(_shared(name)) for name in SHARED)
    own = "\n".join(_own(name) for name in OWN)
    return (
        '(() => {\n"use strict";\n'
        f"const {{ Board, menOf }} = (() => {{\n{board}\nreturn {{ Board, menOf }};\n}})();\n{own}\n}})();\n"
    )


def plain(module: str) -> str:
    r"""Returns a module as part of a classic script: without imports, and its names exported to nobody.

    >>> plain('import { a } from "./a.js";\nexport class B {}\n')
    'class B {}\n'
    """
    return _EXPORT.sub("", _IMPORT.sub("", module))


def _shared(name: str) -> str:
    return resources.files("graphsearch").joinpath("web", "static", name).read_text("utf-8")


def _own(name: str) -> str:
    return resources.files(__package__).joinpath("static", name).read_text("utf-8")


def _page(site: Site) -> str:
    """Returns the page; whatever comes from the file is escaped."""
    values = {
        "title": escape(site.title),
        "about": escape(_about(site)),
        "roots": "".join(f'<option value="{number}">{escape(fen)}</option>' for number, fen in site.roots),
        "pieces": sprite(),
        "program": escape(f"graphsearch {__version__}"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _own("index.html"))


def _about(site: Site) -> str:
    what = "book" if site.book is not None else "graph"
    return f"{what}, {site.positions:,} positions" if site.positions > 1 else f"{what}, 1 position"
