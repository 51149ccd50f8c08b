"""The same code without the compiler: as plain Python, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

CALL = """
import importlib, json, sys
module, name, *arguments = sys.argv[1:]
print(json.dumps(getattr(importlib.import_module(module), name)(*map(json.loads, arguments))))
"""


def in_plain_python(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a function at the top of a module returns as plain Python; all values are JSON."""
    words = [sys.executable, "-c", CALL, function.__module__, function.__name__, *map(json.dumps, arguments)]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))
