"""Sources of values: the evaluator that made them, the search, and their tables (`schema/store.md`).

The functions take a connection, and so also work on a file that is being opened, or is damaged. They raise
CorruptRecordError if a stored value is not what it should be.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from ..base.errors import CorruptRecordError, EvaluatorMismatchError, InvalidParameterError, StoreError
from ..base.system import join_command
from ..base.version import __version__
from .record_kernel import MAX_EVALUATOR
from .tables.rows import json_object, rows, shown, write_row

Option = str | int | float | bool
BY_RULE = 0  # the evaluator of results by rules or tablebases
BRIEF_DIGEST = 8  # characters of a digest in messages, if they are enough to distinguish it


@dataclass(frozen=True, slots=True)
class EvaluatorIdentity:
    """The identity of an evaluator; equal ones give equal answers. A file is bound to one and refuses others.

    Attributes:
      kind: `builtin`, `uniform`, `table`, ...
      digest: hash of everything that decides its answers (weights, network, program), hex.
      options: options that change its answers, by name.
      mapping: name of the map from its raw scores to WDL.
    """

    kind: str
    digest: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)
    mapping: str = ""

    def as_json(self) -> str:
        """Returns the canonical JSON text of the identity; equal identities give equal texts."""
        try:
            return json.dumps(asdict(self), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:  # NumPy's numbers are none
            raise InvalidParameterError(
                f"the options of an evaluator's identity must be text, numbers, true or false: {error}"
            ) from error

    def describe(self) -> str:
        """Returns the identity in short form, for messages: `builtin (1a2b3c4d)`."""
        shown = {k: str(v)[:BRIEF_DIGEST] if _is_digest(k) else v for k, v in sorted(self.options.items())}
        options = ", ".join(f"{k}={v}" for k, v in shown.items())
        details = "; ".join(part for part in (self.digest[:8], options, self.mapping) if part)
        return f"{self.kind} ({details})" if details else self.kind


UNBOUND = EvaluatorIdentity("none")  # of a file that no evaluator has filled yet


def _flat(options: Mapping[str, object], above: str = "") -> dict[str, object]:
    """Returns options by name, nested ones as "outer.inner"."""
    flat: dict[str, object] = {}
    for name, value in sorted(options.items()):
        flat |= _flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {above + name: value}
    return flat


def differences(there: EvaluatorIdentity, here: EvaluatorIdentity) -> str:
    """Returns the differences of two evaluators, field by field, in one line; empty if they are equal.

    >>> one = EvaluatorIdentity("lc0", "1a2b3c4d5e", {"PolicyTemperature": 1.359})
    >>> differences(one, EvaluatorIdentity("lc0", "5e6f7a8b9c", {"PolicyTemperature": 1.0}))
    'digest 1a2b3c4d.. there, 5e6f7a8b.. here; PolicyTemperature 1.359 there, 1.0 here'
    """
    both = [
        {"evaluator": one.kind, "digest": one.digest, "mapping": one.mapping, **_flat(one.options)}
        for one in (there, here)
    ]
    found = []
    for name in dict.fromkeys(chain(*both)):
        whole = [json.dumps(fields[name]) if name in fields else "not set" for fields in both]
        brief = [_brief(name, fields) for fields in both]
        if whole[0] != whole[1]:
            found.append("{} {} there, {} here".format(name, *(whole if brief[0] == brief[1] else brief)))
    return "; ".join(found)


def _is_digest(name: str) -> bool:
    """Returns whether a field is a digest, also that of a part: "policy.digest"."""
    return name.rpartition(".")[2] == "digest"


def _brief(name: str, fields: Mapping[str, object]) -> str:
    text = str(fields.get(name, "not set"))
    if _is_digest(name) and len(text) > BRIEF_DIGEST:
        return text[:BRIEF_DIGEST] + ".."
    return (text if text.isprintable() else json.dumps(text)) or "none"


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A row of `run`. Times are ISO 8601 in UTC; counts are of its own additions.

    `kind` is `search`, or another reason to ask an evaluator, such as `reevaluate`; `program` is the version
    that ran, None if unknown.
    """

    id: int
    started: str
    finished: str | None
    position: str
    limits: Mapping[str, float | int]
    params: Mapping[str, float | int]
    visits: int
    evaluations: int
    evaluator: int = 1
    kind: str = "search"
    program: str | None = None


@dataclass(frozen=True, slots=True)
class RootInfo:
    """A row of `root`, a position that was searched as one: its key (`key_text`), FEN and last known N."""

    key: str
    position: str
    visits: int
    last_searched: str


# ------------------------------------------------------------------ facts, evaluators, runs and roots
MOST_COUNT = (1 << 53) - 1  # exact in every program that reads JSON
FIRST_EVALUATOR = 1  # id of the evaluator of a new file


def now(unit: str = "seconds") -> str:
    """Returns the present time as ISO 8601 in UTC, to the second unless another `unit` is given."""
    return datetime.now(UTC).isoformat(timespec=unit)


def fact(connection: sqlite3.Connection, name: str) -> str | None:
    """Returns the value of a row of `store_info`, None if there is none."""
    row = next(rows(connection, "store_info", ("value",), "WHERE name = ?", (name,)), None)
    return None if row is None else str(row[0])


def fact_number(
    connection: sqlite3.Connection, name: str, default: int = 0, among: range = range(MOST_COUNT)
) -> int:
    """Returns the number in a row of `store_info`, one of `among`; `default` if there is no row."""
    text = fact(connection, name)
    if text is None:
        return default
    if not (len(text) < 20 and text.isascii() and text.isdecimal() and int(text) in among):
        raise CorruptRecordError(f"the table store_info has no number {name!r}: {shown(text)}")
    return int(text)


def set_fact(connection: sqlite3.Connection, name: str, value: str | None) -> None:
    """Sets a row of `store_info`, or removes it if the value is None."""
    if value is None:
        connection.execute("DELETE FROM store_info WHERE name = ?", (name,))
    else:
        write_row(connection, "store_info", {"name": name, "value": value})


def _write_creation(connection: sqlite3.Connection) -> None:
    """Records the time and the program of the file's creation, unless they are recorded."""
    facts = [("created", now()), ("created_by", f"graphsearch {__version__}"), ("nodes", "0")]
    connection.executemany("INSERT OR IGNORE INTO store_info VALUES (?, ?)", facts)


def write_evaluator(connection: sqlite3.Connection, number: int, identity: EvaluatorIdentity) -> None:
    """Writes a row of `evaluator`."""
    row = asdict(identity) | {
        "id": number,
        "identity": identity.as_json(),
        "options": json.dumps(dict(identity.options), sort_keys=True),
    }
    write_row(connection, "evaluator", row, otherwise="ABORT")


def evaluator_number(connection: sqlite3.Connection) -> int:
    """Returns the id of the evaluator that the file is bound to."""
    return fact_number(connection, "evaluator", FIRST_EVALUATOR, range(1, MAX_EVALUATOR + 1))


def read_identity(connection: sqlite3.Connection) -> EvaluatorIdentity | None:
    """Returns the evaluator of the file; None if it is unbound, or its creation was cut short."""
    number = evaluator_number(connection)
    found = next(rows(connection, "evaluator", ("identity",), "WHERE id = ?", (number,)), None)
    return identity_of(found[0]) if found else None


def identity_of(text: object) -> EvaluatorIdentity:
    """Returns the identity of a text of `EvaluatorIdentity.as_json`, as a row of `evaluator` has it."""
    found = json_object(text) or {}
    kinds = {"kind": str, "digest": str, "mapping": str, "options": dict}
    if found.keys() != kinds.keys() or not all(isinstance(found[name], kinds[name]) for name in kinds):
        raise CorruptRecordError(f"the table evaluator has no identity: {shown(text)}")
    return EvaluatorIdentity(**found)


def bind(
    connection: sqlite3.Connection,
    path: Path,
    identity: EvaluatorIdentity | None,
    *,
    create: bool,
    unbound: bool,
    write: bool,
) -> None:
    """Checks that a file is bound to the given evaluator, and binds an unbound file to it.

    Args:
      create, unbound: as in `Store.open`. write: whether the file may be written.

    Raises:
      EvaluatorMismatchError: if the file is bound to another evaluator.
      StoreError: if its evaluator is missing, or `create` is given without `identity` and `unbound`.
    """
    found = read_identity(connection)
    if found is not None:
        if identity is not None and identity.as_json() != found.as_json():
            raise mismatch(path, found, identity)
    elif identity is not None and write and (create or is_blank(connection)):
        connection.execute("BEGIN IMMEDIATE")
        write_evaluator(connection, evaluator_number(connection), identity)
        _write_creation(connection)
        connection.execute("COMMIT")
    elif identity is not None or not is_blank(connection) or (create and not unbound):
        raise StoreError(f"{path} is not bound to an evaluator; create it with the identity of one")
    elif write:
        _write_creation(connection)


def is_blank(connection: sqlite3.Connection) -> bool:
    """Returns whether the file has no evaluator data: no segments and no listed evaluators."""
    return not any(
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()  # noqa: S608 (constants)
        for table in ("evaluator", "segment")
    )


def mismatch(path: Path, there: EvaluatorIdentity, here: EvaluatorIdentity) -> EvaluatorMismatchError:
    """Returns the error that explains how a file's evaluator and another one differ, and what to do."""
    return EvaluatorMismatchError(
        f"{path} holds values of another evaluator ({there.kind}): {differences(there, here)};"
        " use that one, another file, or"
        f" `graphsearch reevaluate {join_command([str(path)])} --evaluator ...`"
    )


def add_nodes(connection: sqlite3.Connection, fresh: int) -> None:
    """Adds to the number of distinct records, the fact `nodes`."""
    total = "CAST(CAST(value AS INTEGER) + ? AS TEXT)"
    connection.execute(f"UPDATE store_info SET value = {total} WHERE name = 'nodes'", (fresh,))  # noqa: S608


# ------------------------------------------------------------------ unfinished changes of evaluator
MARK = "reevaluating"  # row of store_info
UNSETTLED = "unsettled"  # row of store_info: a merge or a search of some moves has left stale values


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The progress of a reevaluation of the whole file; until its end the file has mixed values.

    Attributes:
      evaluator: number of the new evaluator, which the file is bound to already.
      done: records processed so far. total: records of the file at the beginning.
      evaluated, seconds: evaluations and time so far.
      command: the command that resumes it; empty if unknown.
    """

    evaluator: int
    done: int = 0
    total: int = 0
    evaluated: int = 0
    seconds: float = 0.0
    command: str = ""

    def describe(self, identity: EvaluatorIdentity) -> str:
        """Returns the state as part of a sentence: the new evaluator and the progress."""
        so_far = f"{self.done:,} of {self.total:,} positions are done"
        return f"is being reevaluated with {identity.describe()}, {so_far}"


def read_unfinished(connection: sqlite3.Connection) -> Unfinished | None:
    """Returns the mark of the file, None if it has none."""
    text = fact(connection, MARK)
    if text is None:
        return None
    found = json_object(text) or {}
    kinds = {one.name: (str if one.type == "str" else int | float) for one in fields(Unfinished)}
    if not {"evaluator"} <= found.keys() <= kinds.keys() or not all(
        isinstance(value, kinds[name]) for name, value in found.items()
    ):
        raise CorruptRecordError("the table store_info has no state of a reevaluation")
    return Unfinished(**found)


def unfinished_state(connection: sqlite3.Connection, path: Path, identity: EvaluatorIdentity) -> str:
    """Returns the progress of a marked file with this evaluator and how to resume; empty without a mark."""
    mark = read_unfinished(connection)
    if mark is None:
        return ""
    how = mark.command or "graphsearch reevaluate"
    return f"{path} {mark.describe(identity)}, and its values are mixed; continue with `{how}`"
