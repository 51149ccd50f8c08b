"""Reading TOML within limits; `tomllib` has none."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from .errors import InputFileError
from .limits import TOML, TOML_KEY, size_text

_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{TOML_KEY.most}}}")


def toml_tables(text: str) -> dict[str, Any]:
    """Returns the tables of a TOML text, within limits.

    Raises:
      InputFileError: if it is larger than TOML, or has a key of more parts than TOML_KEY.
      ValueError, RecursionError: as `tomllib.loads`.
    """
    text = text.removeprefix("\ufeff")  # editors of Windows write a byte order mark
    if len(text) > TOML.most:
        raise InputFileError(f"more than {size_text(TOML.most)}, the most for {TOML.what}{TOML.hint}")
    long_key = _LONG_KEY.search(text)
    if long_key:  # also inside strings: no name or move looks like such a key
        line = text.count("\n", 0, long_key.start()) + 1
        raise InputFileError(f"line {line}: a dotted key of more than {TOML_KEY.most} parts")
    return tomllib.loads(text)
