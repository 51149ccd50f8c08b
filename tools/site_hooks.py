"""What MkDocs calls: pages from outside docs/ join the site, and links between all of them are rewritten.

README.md becomes the first page, so the site and the repository say the same.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\(|src=\")([^)\s\"#]*)")  # the target of a link or picture, before a #
OUTSIDE = {  # file of the repository -> page of the site
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "LICENSE",
    **{f"schema/{path.name}": f"schema/{path.name}" for path in (ROOT / "schema").glob("*.md")},
}


def page_of(path: str) -> str:
    """Returns where a file of the repository lies in the site.

    >>> page_of("README.md"), page_of("docs/search.md"), page_of("tools/play_games.py")
    ('index.md', 'search.md', '../tools/play_games.py')
    """
    return OUTSIDE.get(path) or posixpath.relpath(path, "docs")


def source_of(page: str) -> str:
    """Returns the file of the repository that a page of the site is made from.

    >>> source_of("index.md"), source_of("search.md")
    ('README.md', 'docs/search.md')
    """
    pages = {site: path for path, site in OUTSIDE.items()}
    return pages.get(page, f"docs/{page}")


def rewritten(markdown: str, page: str) -> str:
    """Returns a page's text with links that hold in the site, from links that hold in the repository.

    >>> rewritten("[it](docs/search.md#waves)", "index.md")
    '[it](search.md#waves)'
    """
    source, here = posixpath.dirname(source_of(page)), posixpath.dirname(page)

    def moved(match: re.Match[str]) -> str:
        opening, target = match.groups()
        if not target or re.match(r"\w+:", target):
            return match.group()
        path = posixpath.normpath(posixpath.join(source, target))
        return opening + posixpath.relpath(page_of(path), here or ".")

    return LINK.sub(moved, markdown)


def on_files(files: Any, config: Any) -> Any:
    """Returns the files of the site, with those from outside docs/."""
    make: Callable[..., Any] = type(next(iter(files))).generated
    for path, page in OUTSIDE.items():
        files.append(make(config, page, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Returns the text that MkDocs renders."""
    return rewritten(markdown, page.file.src_uri)
