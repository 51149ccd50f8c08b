"""Where values come from: which evaluator made them, and in which search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

Option = str | int | float | bool


@dataclass(frozen=True, slots=True)
class EvaluatorIdentity:
    """What makes two evaluators the same: a file is bound to one identity and refuses others.

    Attributes:
      kind: `builtin`, `uniform`, `table`, ...
      digest: hash of what decides its answers (weights, network, program), hex.
      options: options that change its answers, by name.
      mapping: name of the map from its raw scores to WDL.
    """

    kind: str
    digest: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)
    mapping: str = ""

    def as_json(self) -> str:
        """Returns the canonical JSON text of the identity; equal identities give equal texts."""
        parts = {
            "kind": self.kind,
            "digest": self.digest,
            "options": dict(self.options),
            "mapping": self.mapping,
        }
        return json.dumps(parts, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> EvaluatorIdentity:
        """Returns the identity of `as_json`'s text."""
        return cls(**json.loads(text))

    def describe(self) -> str:
        """Returns the identity as a person reads it: `builtin (1a2b3c4d)`."""
        options = ", ".join(f"{k}={v}" for k, v in sorted(self.options.items()))
        details = "; ".join(part for part in (self.digest[:8], options, self.mapping) if part)
        return f"{self.kind} ({details})" if details else self.kind


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One search, as `store info` lists it. Times are ISO 8601 in UTC; counts are what it added."""

    id: int
    started: str
    finished: str | None
    position: str
    limits: Mapping[str, float | int]
    params: Mapping[str, float | int]
    visits: int
    evaluations: int


@dataclass(frozen=True, slots=True)
class RootInfo:
    """A position that was searched as a root: its key (16 hex digits), FEN and last known root N."""

    key: str
    position: str
    visits: int
    last_searched: str
