"""Sources of values: the evaluator that made them, and the search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain

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
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> EvaluatorIdentity:
        """Returns the identity parsed from `as_json`'s text.

        Raises:
          InputFileError: if the text is not an identity.
        """
        from ...base.outside import Identity, declared

        return cls(**declared(Identity, text).model_dump())

    def describe(self) -> str:
        """Returns the identity in short form, for messages: `builtin (1a2b3c4d)`."""
        shown = {k: str(v)[:BRIEF_DIGEST] if _is_digest(k) else v for k, v in sorted(self.options.items())}
        options = ", ".join(f"{k}={v}" for k, v in shown.items())
        details = "; ".join(part for part in (self.digest[:8], options, self.mapping) if part)
        return f"{self.kind} ({details})" if details else self.kind

    def fields(self) -> dict[str, object]:
        """Returns all parts of the identity by their names in messages."""
        return {"evaluator": self.kind, "digest": self.digest, "mapping": self.mapping, **_flat(self.options)}


UNBOUND = EvaluatorIdentity("none")  # of a file that no evaluator has filled yet


def _flat(options: Mapping[str, object], above: str = "") -> dict[str, object]:
    """Returns options by name, nested ones as "outer.inner"."""
    flat: dict[str, object] = {}
    for name, value in sorted(options.items()):
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{above}{name}.")
        else:
            flat[above + name] = value
    return flat


def differences(there: EvaluatorIdentity, here: EvaluatorIdentity) -> str:
    """Returns the differences of two evaluators, field by field, in one line; empty if they are equal.

    >>> one = EvaluatorIdentity("lc0", "1a2b3c4d5e", {"PolicyTemperature": 1.359})
    >>> differences(one, EvaluatorIdentity("lc0", "5e6f7a8b9c", {"PolicyTemperature": 1.0}))
    'digest 1a2b3c4d.. there, 5e6f7a8b.. here; PolicyTemperature 1.359 there, 1.0 here'
    """
    both = there.fields(), here.fields()
    found = []
    for name in dict.fromkeys(chain(*both)):
        one, other = (json.dumps(fields[name]) if name in fields else "not set" for fields in both)
        brief, other_brief = (_brief(name, fields) for fields in both)
        if one != other:
            shown = (brief, other_brief) if brief != other_brief else (one, other)
            found.append(f"{name} {shown[0]} there, {shown[1]} here")
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
    """One search, as listed by `store info`. Times are ISO 8601 in UTC; counts are of its own additions.

    `kind` is `search`, or another reason to ask an evaluator, such as `reevaluate`; `evaluator` is its number
    in the table `evaluator`; `program` is the version that ran, None if unknown.
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
    """A position that was searched as a root: its key (`key_text`), FEN and last known root N."""

    key: str
    position: str
    visits: int
    last_searched: str
