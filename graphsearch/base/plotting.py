"""The drawing library, an optional dependency."""

from __future__ import annotations

from importlib.util import find_spec

from .errors import MissingPackageError


def require_matplotlib() -> None:
    """Raises MissingPackageError, with the command to install it, if matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise MissingPackageError(
            "a plot needs matplotlib: pip install '.[plot]' in the folder of graphsearch"
        )
