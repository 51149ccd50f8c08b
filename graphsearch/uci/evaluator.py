"""Makes the evaluator of the options."""

from __future__ import annotations

from ..errors import InvalidParameterError
from ..evaluators.factory import EvaluatorSpec, create, parse_options, with_threads
from ..evaluators.protocol import Evaluator
from .options import Settings


def make_evaluator(settings: Settings) -> Evaluator:
    """Returns the evaluator of some settings.

    Raises:
      GraphSearchError: if it is unknown or cannot be made, or an option does not belong to it.
    """
    return create(evaluator_spec(settings))


def evaluator_spec(settings: Settings) -> EvaluatorSpec:
    """Returns the evaluator's specification; with PolicyEvaluator and ValueEvaluator, Evaluator has no
    effect.

    Raises:
      GraphSearchError: if EvaluatorOptions is not a list of NAME=VALUE, or has an unknown name.
    """
    policy, value = settings.text("Policy") or None, settings.text("Value") or None
    evaluator = None if policy and value else settings.text("Evaluator") or None
    spec = EvaluatorSpec(
        evaluator=evaluator,
        policy=policy,
        value=value,
        options=(*_given(settings), *_own(settings)),
        syzygy=settings.text("SyzygyPath") or None,
        pool=settings.text("Pool") or None,
    )
    return _with_threads(spec, settings)


def substitute_spec(settings: Settings) -> EvaluatorSpec:
    """Returns the specification of the evaluator that replaces one that cannot be made."""
    return _with_threads(EvaluatorSpec(), settings)


def _with_threads(spec: EvaluatorSpec, settings: Settings) -> EvaluatorSpec:
    threads = settings.number("Threads")
    return with_threads(spec, threads) if threads else spec


def _given(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Returns EvaluatorOptions: separated by semicolons, or by blanks if there is no semicolon."""
    text = settings.text("EvaluatorOptions")
    words = text.split(";") if ";" in text else text.split()
    try:
        return parse_options(word for word in words if word.strip())
    except InvalidParameterError as error:
        raise InvalidParameterError(
            f"EvaluatorOptions: {error}; several are separated by semicolons"
        ) from None


def _own(settings: Settings) -> list[tuple[str, str]]:
    """Returns the evaluator's options that are also options of the engine."""
    return [(name, settings.text(name)) for name in ("PolicyTemperature", "Workers") if settings.text(name)]
