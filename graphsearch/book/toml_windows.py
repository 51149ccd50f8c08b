"""Windows, expansion, leaf and evaluator of a BOOK.toml."""

from __future__ import annotations

import os
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from ..errors import EvaluatorError, GraphSearchError, InvalidParameterError
from ..evaluators.factory import EvaluatorSpec, check
from ..evaluators.nnue.layout import NNUE_SUFFIX
from ..search.params import MAX_LIMIT, SearchParams
from .config import Backup, Expansion, Leaf, Policy, Side, Window
from .toml_roots import MAX_PLY, located
from .toml_table import Faults, Table

MOST_CP = 100_000
MOST_MOVES = 256
MOST_WEIGHT = 1e6
ALL = "all"
# which policy of expansion each of its numbers belongs to
NUMBERS = {
    "cpuct": "puct",
    "alpha": "dropout",
    "per_ply": "cost",
    "per_loss": "cost",
    "per_log_p": "cost",
    "per_move": "cost",
}
POSITIVE = ("cpuct",)  # the others may be 0


# ------------------------------------------------------------------ windows
def read_windows(tables: list[Table], side: Side | None, max_ply: int | None) -> tuple[Window, ...]:
    """Returns the windows of a book; one of all plies with the best move alone if there is none."""
    windows = tuple(_window(table, side) for table in tables)
    if not windows:
        return (Window(),)
    for table, window in zip(tables, windows, strict=True):
        if max_ply is not None and window.first >= max_ply:
            table.note("plies", f"has no effect: it begins at ply {window.first}, max_ply is {max_ply}")
    return windows


def note_gaps(windows: tuple[Window, ...], first: int, max_ply: int, faults: Faults) -> None:
    """Notes the plies from `first`, that of the earliest root, on that no window covers."""
    for start, end in _gaps(windows, first, max_ply):
        what = f"plies {start} to {end}" if start != end else f"ply {start}"
        faults.note(("window",), f"no [[window]] covers {what}: only forced moves are taken in there")


def _window(table: Table, side: Side | None) -> Window:
    first, last = _plies(table)
    own_cp = table.number("own_cp", 0, MOST_CP)
    if side == "both":
        for key in ("reply_p", "reply_cp", "reply_games", "reply_moves"):
            if key in table:
                table.note(key, f'{key} has no effect: with side = "both" every move is an own one')
    return Window(
        first=first,
        last=last,
        own_cp=own_cp or 0.0,
        own_moves=_at_most(table, "own_moves", None if "own_cp" in table else 1),
        reply_p=table.number("reply_p", 0, 1),
        reply_cp=table.number("reply_cp", 0, MOST_CP),
        reply_games=table.whole("reply_games", 1, MAX_LIMIT),
        reply_moves=_at_most(table, "reply_moves", None),
    )


def _at_most(table: Table, key: str, default: int | None) -> int | None:
    value = table.whole(key, 1, MOST_MOVES, word=ALL)
    return value if key in table else default


def _plies(table: Table) -> tuple[int, int | None]:
    """Returns the first and the last ply of a window; all plies unless it says."""
    what = f"a list of the first and the last ply, such as [0, 12], or of the first, from 0 to {MAX_PLY}"
    items = table.items("plies", what)
    if items is None:
        return 0, None
    values = [value for _, value in items]
    good = len(values) <= 2 and all(type(value) is int and 0 <= value <= MAX_PLY for value in values)
    if not good:
        table.fault("plies", f"must be {what}, not {values}")
        return 0, None
    if values[0] > values[-1]:
        table.fault("plies", f"the first ply must not be behind the last one, as in {values}")
    return values[0], values[1] if len(values) == 2 else None


def _gaps(windows: tuple[Window, ...], start: int, max_ply: int) -> list[tuple[int, int]]:
    """Returns the plies from `start` to before `max_ply` that no window covers, as (first, last).

    >>> _gaps((Window(first=2, last=4), Window(first=8)), 0, 20)
    [(0, 1), (5, 7)]
    """
    gaps = []
    for window in sorted(windows, key=lambda window: window.first):
        end = min(window.first, max_ply)
        if end > start:
            gaps.append((start, end - 1))
        start = max(start, max_ply if window.last is None else window.last + 1)
    return gaps if start >= max_ply else [*gaps, (start, max_ply - 1)]


# ---------------------------------------------------------- expansion, leaf
def read_expansion(table: Table) -> Expansion:
    """Returns the policy of expansion."""
    policies: tuple[Policy, ...] = get_args(Policy)
    backups: tuple[Backup, ...] = get_args(Backup)
    policy, value = table.choice("policy", policies), table.choice("value", backups)
    chosen: dict[str, Any] = {"policy": policy, "value": value}
    for name, owner in NUMBERS.items():
        chosen[name] = table.number(name, 0, MOST_WEIGHT, above=name in POSITIVE)
        if name in table and owner != (policy or Expansion().policy):
            table.note(name, f'{name} has no effect: it belongs to policy = "{owner}"')
    assert set(chosen) == {field.name for field in fields(Expansion)}
    return Expansion(**{name: value for name, value in chosen.items() if value is not None})


def read_leaf(table: Table) -> Leaf:
    """Returns how a leaf is searched."""
    evaluations = table.whole("evaluations", 1, MAX_LIMIT)
    visits = table.whole("visits", 1, MAX_LIMIT)
    if "evaluations" in table and "visits" in table:
        table.fault("visits", "give evaluations or visits, not both")
    params = table.pairs("params")
    for place, (name, text) in enumerate(params):
        if name.lower() in [other.lower() for other, _ in params[:place]]:
            table.faults.add((*table.path, "params", name), f"{table.title} params: {name} is given twice")
        try:
            SearchParams.from_options([f"{name}={text}"])
        except InvalidParameterError as error:
            table.faults.add((*table.path, "params", name), f"{table.title} params: {error}")
    if evaluations is None and visits is None:
        return Leaf(params=tuple(params))
    return Leaf(evaluations=evaluations, visits=visits, params=tuple(params))


# ---------------------------------------------------------------- evaluator
def read_evaluator(table: Table, folder: Path) -> EvaluatorSpec:
    """Returns the evaluator, as far as it can be checked without being started; its files must be there."""
    names = {key: _located(table, key, folder) for key in ("name", "policy", "value")}
    options, pool = tuple(table.pairs("options")), table.text("pool")
    spec = EvaluatorSpec(
        evaluator=names["name"],
        policy=names["policy"],
        value=names["value"],
        options=options,
        syzygy=_folders(table, folder),
        pool=pool,
    )
    try:
        check(spec)
    except (InvalidParameterError, EvaluatorError) as error:
        table.faults.add(_place(table, options, str(error)), f"{table.title} {error}")
    return spec


def _place(table: Table, options: tuple[tuple[str, str], ...], message: str) -> tuple[str | int, ...]:
    """Returns the path of what a message about an evaluator speaks of."""
    for key in ("name", "policy", "value", "pool"):
        if isinstance(table.get(key), str) and repr(table.get(key)) in message:
            return (*table.path, key)
    for name, _ in options:
        if name.lower() in message.lower():
            return (*table.path, "options", name)
    return table.path


def _located(table: Table, key: str, folder: Path) -> str | None:
    """Returns an evaluator's name, its file's path made one that does not depend on where we are."""
    name = table.text(key, 'the name of an evaluator, such as "builtin"')
    kind, _, rest = (name or "").partition(":")
    if name is None or not rest or kind not in ("lc0", "uci", "nnue"):
        return name
    locate = _network if kind == "lc0" or rest.endswith(NNUE_SUFFIX) else _program
    return f"{kind}:{locate(table, key, rest, folder)}"


def _network(table: Table, key: str, file: str, folder: Path) -> str:
    path = located(folder, file)
    if not path.is_file():
        table.fault(key, f"there is no network {path} (looked for in the folder of this file)")
    return os.fspath(path)


def _program(table: Table, key: str, command: str, folder: Path) -> str:
    """Returns the command of an engine, a relative path made an absolute one."""
    from ..evaluators.uci.program import find_program

    whole = located(folder, command)
    try:
        first, *others = [command] if os.sep in command and whole.is_file() else shlex.split(command)
        if os.sep in first:
            path = os.fspath(located(folder, first))
            command = shlex.join([path, *others]) if others else path
        find_program(command)
    except ValueError as error:
        table.fault(key, f"not a command: {error}")
    except GraphSearchError as error:
        table.fault(key, str(error))
    return command


def _folders(table: Table, folder: Path) -> str | None:
    """Returns the folders of tablebases."""
    text = table.text("syzygy", "a folder of tablebases; several as in PATH")
    if text is None:
        return None
    paths = [located(folder, part) for part in text.split(os.pathsep) if part]
    for path in paths:
        if not path.is_dir():
            table.fault("syzygy", f"there is no folder {path} (looked for in the folder of this file)")
    return os.pathsep.join(map(os.fspath, paths))
