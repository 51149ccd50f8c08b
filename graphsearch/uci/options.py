"""The engine's options: names, allowed values, present values, and the evaluator that they describe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ..base.errors import InvalidParameterError
from ..base.limits import byte_count, shortened, whole_number
from ..evaluators.factory import EvaluatorSpec, parse_options, with_threads
from ..search.params import GATHERERS, LEAST_RAM, MAX_BATCH, OPTION_NAMES, SearchParams
from ..search.params import WHOLE_NUMBERS as WHOLE

CHECK, SPIN, STRING, COMBO = "check", "spin", "string", "combo"
MAX_MULTIPV = 500  # as lc0
MAX_THREADS = 1024
MAX_OVERHEAD_MS = 10_000


@dataclass(frozen=True, slots=True)
class Option:
    """One option as UCI declares it; `choices` for a combo, `low` and `high` for a spin."""

    name: str
    kind: str
    default: str = ""
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()

    def line(self, value: str) -> str:
        """Returns the option's declaration with `value` as default."""
        text = f"option name {self.name} type {self.kind} default {value or '<empty>'}"
        if self.kind == SPIN:
            text += f" min {self.low} max {self.high}"
        return text + "".join(f" var {choice}" for choice in self.choices)

    def checked(self, text: str) -> str:
        """Returns a value in its stored form; raises InvalidParameterError if it is not allowed."""
        text = text.strip()
        if self.kind == CHECK:
            return self._one_of(text, ("true", "false"))
        if self.kind == COMBO:
            return self._one_of(text, self.choices)
        if self.kind == SPIN:
            return self._number(text)
        if self.name == "RAM" and text and byte_count(text) < LEAST_RAM:
            raise InvalidParameterError(f"RAM must be at least 8MB, not {text}")
        if self.name in ("GraphFile", "LogFile") and text:
            return os.path.expanduser(text)  # noqa: PTH111 (pathlib's fails where there is no such home)
        if self.name in OPTION_NAMES:
            text = text or self.default
            SearchParams.from_options([f"{self.name}={text}"])
        return text

    def _one_of(self, text: str, allowed: tuple[str, ...]) -> str:
        for known in allowed:
            if text.lower() == known.lower():
                return known
        raise InvalidParameterError(f"{self.name} must be {' or '.join(allowed)}, not {shortened(text)!r}")

    def _number(self, text: str) -> str:
        with suppress(InvalidParameterError):
            number = whole_number(text)
            if self.low <= number <= self.high:
                return str(number)
        wanted = f"a whole number from {self.low} to {self.high}"
        raise InvalidParameterError(f"{self.name} must be {wanted}, not {shortened(text)!r}")


def _search_option(option: str) -> Option:
    default = str(getattr(SearchParams(), OPTION_NAMES[option]))  # MinibatchSize: 0 for auto, as in lc0
    if option == "Gather":
        return Option(option, COMBO, default, choices=GATHERERS)
    if OPTION_NAMES[option] in WHOLE:
        most = {"MinibatchSize": MAX_BATCH, "Overlap": 1}.get(option)  # these begin at 0
        return Option(option, SPIN, default, 0 if most else 1, most or 10**9)
    return Option(option, STRING, default)


OPTIONS = (
    Option("GraphFile", STRING),
    Option("RAM", STRING),
    Option("Evaluator", STRING, "builtin"),
    Option("EvaluatorOptions", STRING),
    Option("Policy", STRING),
    Option("Value", STRING),
    Option("PolicyTemperature", STRING),
    Option("SyzygyPath", STRING),
    Option("Threads", SPIN, "0", 0, MAX_THREADS),
    Option("Workers", STRING),  # empty: the evaluator's default
    Option("Pool", STRING),
    Option("MultiPV", SPIN, "1", 1, MAX_MULTIPV),
    Option("Ponder", CHECK, "false"),
    Option("Move Overhead", SPIN, "100", 0, MAX_OVERHEAD_MS),
    Option("UCI_Chess960", CHECK, "false"),
    Option("UCI_ShowWDL", CHECK, "false"),
    Option("UCI_AnalyseMode", CHECK, "false"),
    Option("VerboseMoveStats", CHECK, "false"),
    Option("LogLiveStats", CHECK, "false"),
    Option("LogFile", STRING),
    *(_search_option(name) for name in OPTION_NAMES),
    Option("UCI_EngineAbout", STRING, "graphsearch, a chess search whose memory is a file"),
)
BY_NAME = {option.name.lower(): option for option in OPTIONS}
OF_THE_GRAPH = (  # a change makes the evaluator anew; the graph stays if its answers are the same
    "GraphFile", "RAM", "Evaluator", "EvaluatorOptions", "Policy", "Value", "PolicyTemperature",
    "SyzygyPath", "Threads", "Workers", "Pool", "Gather",
)  # fmt: skip
OF_THE_PLACE = 2  # the first two; a change of these reopens the graph


class Settings:
    """The values of all options. Reading an undeclared name is a KeyError."""

    def __init__(self, defaults: Mapping[str, str] | None = None) -> None:
        """Makes the settings of a new engine; `defaults` replaces those of some options, as by `set`."""
        self._values = {option.name: option.default for option in OPTIONS}
        for name, value in (defaults or {}).items():
            self.set(name, value)

    def copy(self) -> Settings:
        """Returns the present values, which later `setoption`s leave alone."""
        found = Settings()
        found._values = dict(self._values)
        return found

    def set(self, name: str, value: str) -> str:
        """Sets an option, whose name may be in any case; returns the declared name.

        Raises:
          InvalidParameterError: for an unknown name or a value that is out of range.
        """
        if name.lower() == "uci_variant":  # not offered, so that a GUI sends chess
            raise InvalidParameterError(f"{name} is not supported: only standard chess and Chess960 are")
        option = BY_NAME.get(name.lower())
        if option is None:
            known = ", ".join(option.name for option in OPTIONS)
            raise InvalidParameterError(f"there is no option {shortened(name)!r}; the options are {known}")
        if option.name != "UCI_EngineAbout":
            self._values[option.name] = option.checked(value)
        return option.name

    def lines(self) -> list[str]:
        """Returns the declarations of all options, with the present values as defaults."""
        return [option.line(self._values[option.name]) for option in OPTIONS]

    def text(self, name: str) -> str:
        """Returns the value of an option as text."""
        return self._values[name]

    def number(self, name: str) -> int:
        """Returns the value of a spin."""
        return int(self._values[name])

    def is_on(self, name: str) -> bool:
        """Returns the value of a check."""
        return self._values[name] == "true"

    def params(self) -> SearchParams:
        """Returns the parameters of a search."""
        return SearchParams.from_options([f"{name}={self._values[name]}" for name in OPTION_NAMES])

    def of_the_graph(self) -> tuple[str, ...]:
        """Returns the settings that an open graph depends on, those of its place first."""
        return tuple(self._values[name] for name in OF_THE_GRAPH)

    def ram_bytes(self) -> int | None:
        """Returns the memory for the graph, None for the default."""
        text = self._values["RAM"]
        return byte_count(text) if text else None


# ------------------------------------------------------------------ the evaluator
def spec_of(settings: Settings) -> EvaluatorSpec:
    """Returns the evaluator of some settings; Evaluator has no effect if Policy and Value are both set.

    Raises:
      GraphSearchError: if the evaluator is unknown, if EvaluatorOptions is not a list of NAME=VALUE, or if
        the evaluator does not have a given option.
    """
    threads = settings.number("Threads")
    policy, value = settings.text("Policy") or None, settings.text("Value") or None
    own = [(name, settings.text(name)) for name in ("PolicyTemperature", "Workers") if settings.text(name)]
    text = settings.text("EvaluatorOptions")
    words = text.split(";") if ";" in text or text.count("=") == 1 else text.split()
    try:
        given = parse_options(word for word in words if word.strip())
    except InvalidParameterError as error:
        raise InvalidParameterError(f"EvaluatorOptions: {error}; semicolons separate several") from None
    spec = EvaluatorSpec(
        evaluator=None if policy and value else settings.text("Evaluator") or None,
        policy=policy,
        value=value,
        options=(*given, *own),
        syzygy=settings.text("SyzygyPath") or None,
        pool=settings.text("Pool") or None,
    )
    return with_threads(spec, threads) if threads else spec
