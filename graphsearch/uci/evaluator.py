"""The evaluator that the options ask for."""

from __future__ import annotations

import re

from ..errors import EvaluatorError, InvalidParameterError
from ..evaluators import Evaluator, create
from .options import Settings

NOT_YET = ("Policy", "Value", "SyzygyPath", "Workers", "Pool")


def make_evaluator(settings: Settings) -> Evaluator:
    """Returns the evaluator that some settings name.

    Raises:
      GraphSearchError: if it is unknown or cannot be made, or an option is not one of it.
    """
    for name in NOT_YET:
        if settings.text(name):
            raise EvaluatorError(f"the option {name} has no effect in this version; leave it empty")
    return create(settings.text("Evaluator"), evaluator_options(settings))


def evaluator_options(settings: Settings) -> dict[str, str]:
    """Returns the options of the evaluator: those of EvaluatorOptions, PolicyTemperature and Threads.

    Raises:
      InvalidParameterError: if EvaluatorOptions is not a list of NAME=VALUE.
    """
    options: dict[str, str] = {}
    for word in re.split(r"[;\s]+", settings.text("EvaluatorOptions")):
        name, sign, value = word.partition("=")
        if word and not (name and sign):
            raise InvalidParameterError(f"EvaluatorOptions are NAME=VALUE, separated by blanks, not {word!r}")
        if word:
            options[name] = value
    if settings.text("PolicyTemperature"):
        options["PolicyTemperature"] = settings.text("PolicyTemperature")
    if settings.text("Evaluator").startswith("lc0:") and settings.number("Threads"):
        options["threads"] = settings.text("Threads")
    return options
