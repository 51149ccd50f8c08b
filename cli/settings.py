"""Settings: defaults of options from `graphsearch.toml`, and the graph file from GRAPHSEARCH_STORE.

The nearest graphsearch.toml from the current folder upwards overrides the user's, in the folder of settings
that the system has for them. Options of the command line override both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphsearch.base.errors import EvaluatorError, InvalidParameterError
from graphsearch.base.faults import FOLDER_VARIABLE, state_folder
from graphsearch.base.system import replace, user_folder

NAME = "graphsearch.toml"
STORE_VARIABLE = "GRAPHSEARCH_STORE"
KEYS = {  # setting -> its type and description
    "store": (str, "the graph file"),
    "evaluator": (str, "as --evaluator"),
    "ram": (str, "memory limit, as --ram"),
    "threads": (int, "as --threads"),
    "syzygy": (str, "folder of Syzygy tablebases, as --syzygy"),
    "color": (bool, "false: no colours; the variable NO_COLOR says the same"),
}
PATHS = ("store", "syzygy")  # relative to the folder of their file


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its origin: a file or an environment variable."""

    name: str
    value: str | int | bool
    origin: str


def settings() -> dict[str, Setting]:
    """Returns the settings for the current folder, by name; raises InvalidParameterError as `_read`."""
    found: dict[str, Setting] = {}
    for path in files(Path.cwd()):
        for setting in _read(path):
            found.setdefault(setting.name, setting)
    if STORE_VARIABLE in os.environ:
        named = os.environ[STORE_VARIABLE]
        found.pop("store", None)
        if named:
            found["store"] = Setting("store", named, STORE_VARIABLE)
    return found


_ignored = False


def ignore_settings(state: Path) -> None:
    """Makes this process ignore all settings, for commands that no user has given; `state`: its memory."""
    global _ignored
    _ignored = True
    os.environ[STORE_VARIABLE] = ""
    os.environ[FOLDER_VARIABLE] = str(state)


def files(folder: Path) -> Iterator[Path]:
    """Yields the settings files for a folder, the nearest first; none if they are ignored."""
    if _ignored:
        return
    for above in (folder, *folder.parents):
        if (above / NAME).is_file():
            yield above / NAME
            break
    user = user_file()
    if user.is_file():
        yield user


def user_file() -> Path:
    """Returns the path of the user's own settings."""
    return user_folder("config") / NAME


def _read(path: Path) -> Iterator[Setting]:
    """Yields the settings of a file; raises InvalidParameterError for one that cannot be."""
    from graphsearch.base.limits import TOML, read_file, toml_tables

    try:
        found = toml_tables(read_file(path, TOML).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidParameterError(f"{path}: {error}") from None
    for name, value in found.items():
        if name not in KEYS:
            raise InvalidParameterError(f"{path}: there is no setting {name!r}; known are {', '.join(KEYS)}")
        kind = KEYS[name][0]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InvalidParameterError(f"{path}: {name} must be a {TYPES[kind]}, not {value!r}")
        if name in PATHS and isinstance(value, str):
            value = str(path.parent / Path(value).expanduser())
        if name == "evaluator" and ":" in value:
            from graphsearch.evaluators.factory import absolute_name

            with suppress(EvaluatorError, ValueError):  # the command that uses it says what is wrong
                value = absolute_name(value, path.parent)
        yield Setting(name, value, str(path))


TYPES = {str: "text", int: "whole number", bool: "true or false"}


# ---------------------------------------------------------------- evaluators by their answers
REMEMBERED = 200  # evaluators, the last named ones


def remember_evaluator(identity: str, options: Mapping[str, Any]) -> None:
    """Keeps the options that named an evaluator on this machine, under its identity.

    A graph file does not hold them: a file from elsewhere could name a program, which a search would start.
    """
    known = _remembered()
    if known.get(identity) == options:
        return
    known = {**{key: value for key, value in known.items() if key != identity}, identity: dict(options)}
    file = _evaluators_file()
    with suppress(OSError):  # nothing depends on it
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{os.getpid()}")
        new.write_text(json.dumps(dict(list(known.items())[-REMEMBERED:])), encoding="utf-8")
        replace(new, file)


def remembered_evaluator(identity: str) -> dict[str, Any]:
    """Returns the options that last named an evaluator on this machine; empty if none did."""
    found = _remembered().get(identity)
    return found if isinstance(found, dict) else {}


def _remembered() -> dict[str, Any]:
    try:
        found = json.loads(_evaluators_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _evaluators_file() -> Path:
    return state_folder() / "evaluators.json"
