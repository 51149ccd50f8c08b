"""Combines two evaluators: the priors of the first, the values of the second."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

from ..store.record.provenance import EvaluatorIdentity, Option
from .protocol import OUTSIDE_BATCH, Evaluation, Evaluator, PositionBatch

KIND = "policy+value"
SHOWN_HEX = 16  # digits of each part's digest in the options; the combined digest hashes both in full


class CombinedEvaluator(Evaluator):
    """Returns P of one evaluator and V of another; both evaluate a batch at the same time.

    Attributes:
      policy, value: the two parts.
      identity: of both; option names have the prefix of their part, such as "policy.digest".
    """

    def __init__(self, policy: Evaluator, value: Evaluator) -> None:
        self.policy = policy
        self.value = value
        options = {**_parts("policy", policy.identity), **_parts("value", value.identity)}
        both = policy.identity.digest + "+" + value.identity.digest
        digest = hashlib.sha256(both.encode()).hexdigest()
        self.identity = EvaluatorIdentity(KIND, digest, options, value.identity.mapping)
        self.notes = (*policy.notes, *value.notes)
        self.wants_lines = policy.wants_lines or value.wants_lines
        self.batch_size = max(OUTSIDE_BATCH, policy.batch_size, value.batch_size)
        self._thread = ThreadPoolExecutor(1, "graphsearch-value")

    @property
    def calls_kernels(self) -> bool:
        """Whether one of the parts calls kernels."""
        return self.policy.calls_kernels or self.value.calls_kernels

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns the WDL of `value` and the priors of `policy`.

        Raises:
          EvaluatorError: if either fails; raised after both have finished.
        """
        answer = self._thread.submit(self.value.evaluate, batch)
        try:
            priors = self.policy.evaluate(batch).priors
        finally:
            answer.exception()  # always wait: an evaluator allows one caller at a time
        value = answer.result()
        return Evaluation(value.wdl, priors, value.bounds)

    def close(self) -> None:
        """Closes both evaluators."""
        self._thread.shutdown()
        self.policy.close()
        self.value.close()


def _parts(role: str, identity: EvaluatorIdentity) -> dict[str, Option]:
    found: dict[str, Option] = {f"{role}.kind": identity.kind}
    if identity.digest:
        found[f"{role}.digest"] = identity.digest[:SHOWN_HEX]
    return found | {f"{role}.{name}": value for name, value in identity.options.items()}
