"""Makes evaluators from names and options.

--evaluator NAME                                  one evaluator, such as mine.py:Class
--policy NAME --value NAME                        the priors of one, the values of another
--evaluator-option [policy.|value.]NAME=VALUE     their options
--syzygy DIR                                      tablebases before them
workers=K, --pool ray                             in other processes, on other machines

Evaluators are imported when they are made; importing all of them would add 0.03 s to every start.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from math import inf, nan
from pathlib import Path
from typing import Any, Literal, TextIO

from ..base.errors import EvaluatorError, EvaluatorFileError, InvalidParameterError, UnknownEvaluatorError
from ..base.faults import signal_of
from ..base.limits import shortened
from ..base.system import cores
from ..store.provenance import EvaluatorIdentity, Option
from .nnue.layout import NNUE_SUFFIX
from .pool import MAX_WORKERS, PART_SECONDS, Crew, PooledEvaluator, check_pool, threads_per_worker
from .protocol import OUTSIDE_BATCH, Evaluation, Evaluator, PositionBatch, accepted
from .uci.program import located, located_command

NAMES = ("builtin", "uniform", "nnue:FILE|PROGRAM", "lc0:FILE", "uci:PROGRAM", "FILE.py:CLASS")
DEFAULT = "builtin"
TEMPERATURE = "PolicyTemperature"  # in lc0 a search option
Part = Literal["both", "policy", "value"]  # the part of an evaluator that is used
PART_OPTIONS: dict[Part, tuple[str, ...]] = {  # without effect on the other part
    "policy": (TEMPERATURE, "policy_depth", "policy_head"),
    "value": ("nodes", "depth", "value_head"),
}


# ------------------------------------------------------------------ readers of options
WORKERS = "workers"
CHECKS = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}

Options = dict[str, Option]
Reader = Callable[[str, str], Option]  # of an option's name and its text; raises InvalidParameterError


def number(kind: type[int] | type[float], least: float, most: float) -> Reader:
    """Returns the reader of a number, or of a whole number.

    >>> number(int, 1, 9)("nodes", "10")
    Traceback (most recent call last):
    graphsearch.base.errors.InvalidParameterError: nodes must be a whole number from 1 to 9, not '10'
    """

    def read(name: str, text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            value = nan
        if not least <= value <= most:
            what = "a whole number" if kind is int else "a number"
            raise InvalidParameterError(
                f"{name} must be {what} from {least} to {most}, not {shortened(text)!r}"
            )
        return value

    return read


def choice(*choices: str) -> Reader:
    """Returns the reader of one of some words, in any case."""

    def read(name: str, text: str) -> str:
        if text.lower() not in choices:
            raise InvalidParameterError(f"{name} must be {' or '.join(choices)}, not {shortened(text)!r}")
        return text.lower()

    return read


def truth(name: str, text: str) -> bool:
    """Reads `true` or `false`."""
    if text.lower() not in CHECKS:
        raise InvalidParameterError(f"{name} must be true or false, not {shortened(text)!r}")
    return CHECKS[text.lower()]


def word(name: str, text: str) -> str:
    """Reads any text."""
    return text


THREADS = {"threads": number(int, 0, 1024)}
BUILTIN = THREADS | {TEMPERATURE: number(float, 0.1, 10)}
LC0 = BUILTIN | {
    "history": choice("line", "position"),
    "device": lambda name, text: text.lower(),
    "policy_head": word,
    "value_head": word,
}
UCI: dict[str, Reader] = {  # the evaluator's own; it passes others on to the engine
    "nodes": number(int, 1, 10**12),
    "depth": number(int, 0, 200),
    "policy_depth": number(int, 1, 200),
    TEMPERATURE: number(float, 0.005, 10),
    "timeout": number(float, 0.01, 86400),
    "reproducible": truth,
}


# ------------------------------------------------------------------ evaluators
@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSpec:
    """Names and options of an evaluator; hashable, and can be sent to other processes.

    Attributes:
      evaluator: one of `NAMES`; default: `builtin`.
      policy, value: evaluators to take P and V from; a missing one is `evaluator`.
      options: (name, text) pairs; an option that both parts have needs the prefix "policy." or "value.".
      syzygy: folders of tablebases, separated as in PATH.
      pool: `local`, `ray` or `ray:ADDRESS`; None: this process, unless the option `workers` (default: one per
        core) is above 1.
    """

    evaluator: str | None = None
    policy: str | None = None
    value: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    syzygy: str | None = None
    pool: str | None = None

    def describe(self) -> str:
        """Returns the names of the evaluators, such as `lc0:net.pb.gz + uci:stockfish`."""
        return " + ".join(_names(self).values())


def create(which: str | EvaluatorSpec, options: Mapping[str, str] | None = None) -> Evaluator:
    """Makes an evaluator.

    Args:
      which: one of `NAMES`, or a specification.
      options: used only with a name. `PolicyTemperature` (builtin, nnue, lc0): above 1 flattens the priors,
        below 1 sharpens them. `threads` (likewise): CPU threads, 0 for all cores. `history` (lc0): `line` or
        `position`. `device` (lc0): `auto`, `cpu`, ... `policy_head`, `value_head` (lc0): for a network with
        several. `workers`: number of processes. `uci` has options of its own, and those of the engine. A
        class of a Python file gets its options as texts, by keyword.

    Raises:
      UnknownEvaluatorError: if the name is unknown.
      EvaluatorError: if the evaluator cannot be made: its file, its packages or its device fail.
      InvalidParameterError: if this evaluator does not have an option, or a value is out of range.
    """
    spec = which
    if isinstance(spec, str):
        spec = EvaluatorSpec(evaluator=spec, options=tuple((options or {}).items()))
    with ExitStack() as stack:  # if a part fails, those before it are closed
        tables = None
        if spec.syzygy is not None:
            from .tablebase import Syzygy, TablebaseEvaluator

            tables = Syzygy(spec.syzygy)
            stack.callback(tables.close)
        made = _pooled(spec) if _is_pooled(spec) else _here(spec)
        stack.pop_all()
    return made if tables is None else TablebaseEvaluator(made, tables)


def check(spec: EvaluatorSpec) -> None:
    """Checks names, options and values, with the errors of `create`, but opens and starts nothing.

    It cannot find errors that only the engine or network itself detects.
    """
    check_pool(spec.pool)
    _workers(spec)
    for kind, _, options in _parts(spec).values():
        _arguments(kind, options)


def _here(spec: EvaluatorSpec) -> Evaluator:
    """Makes an evaluator in this process, without tablebases."""
    made = list[Evaluator]()
    with ExitStack() as stack:
        for part, (kind, name, given) in _parts(spec).items():
            unused = [n for other, some in PART_OPTIONS.items() if part not in ("both", other) for n in some]
            options = {option: value for option, value in given.items() if option not in unused}
            source = name if kind is _KINDS["FILE.py"] else name.partition(":")[2]
            make = getattr(import_module(f"..{kind.module}", __name__), kind.name)
            role = {"part": part} if kind.passes_on else {}
            made.append(make(*filter(None, [source]), **_arguments(kind, options), **role))
            stack.callback(made[-1].close)
        stack.pop_all()
    return made[0] if len(made) == 1 else CombinedEvaluator(*made)


def _pooled(spec: EvaluatorSpec) -> Evaluator:
    """Returns a pool whose workers each have the whole evaluator, both parts if there are two."""
    check(spec)  # before any worker starts
    workers = _workers(spec) or cores()
    has_timeout = any(kind is _KINDS["uci"] for kind, _, _ in _parts(spec).values())  # of its own
    timeout = inf if has_timeout else PART_SECONDS
    return PooledEvaluator(_maker(spec, workers, spec.pool), workers, spec.pool, timeout=timeout)


def _maker(spec: EvaluatorSpec, workers: int, pool: str | None) -> Callable[[], Evaluator]:
    """Returns the function that makes the evaluator in one of so many workers."""
    options = tuple(pair for pair in spec.options if pair[0].lower() != WORKERS)
    inner = replace(spec, options=options, syzygy=None, pool=None)
    return partial(create, with_threads(inner, threads_per_worker(workers, pool)))


def crew_of(spec: EvaluatorSpec, workers: int, pool: str | None) -> Crew:
    """Returns workers that each have the evaluator, for detached searches; they start when they are needed.

    Raises:
      InvalidParameterError: if the pool is unknown, or the evaluator has workers of its own.
      EvaluatorError: if the pool cannot be used.
    """
    check_pool(pool)
    check(spec)
    if _is_pooled(spec):
        raise InvalidParameterError(
            "the searches and their evaluator cannot both have workers: leave out those of the evaluator"
        )
    return Crew(_maker(spec, workers, pool), workers, pool)


def _workers(spec: EvaluatorSpec) -> int | None:
    numbers = [text for name, text in spec.options if name.lower() == WORKERS]
    if len(numbers) > 1:
        raise InvalidParameterError(f"the option {WORKERS} is given twice")
    return int(number(int, 1, MAX_WORKERS)(WORKERS, numbers[0])) if numbers else None


def _is_pooled(spec: EvaluatorSpec) -> bool:
    return spec.pool is not None or (_workers(spec) or 1) > 1


def with_threads(spec: EvaluatorSpec, threads: int) -> EvaluatorSpec:
    """Returns the specification with the option `threads` added for every part that has and does not set it.

    Errors are those of `check`.
    """
    more = tuple(
        ("threads" if part == "both" else f"{part}.threads", str(threads))
        for part, (kind, _, options) in _parts(spec).items()
        if "threads" in kind.options and "threads" not in options
    )
    return replace(spec, options=spec.options + more)


# -------------------------------------------------------------------- kinds
@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of evaluator: module and name of what makes one; the readers of its own options.

    Attributes:
      passes_on: whether it passes other options on: to a program, or to a class of the user.
    """

    module: str
    name: str
    options: Mapping[str, Reader]
    passes_on: bool = False

    def option(self, name: str) -> str | None:
        """Returns an option's name as this kind spells it, None if it has no such option of its own."""
        return {own.lower(): own for own in self.options}.get(name.lower())


_KINDS = {
    "builtin": _Kind("builtin.evaluator", "BuiltinEvaluator", BUILTIN),
    "uniform": _Kind("uniform", "UniformEvaluator", THREADS),
    "nnue": _Kind("nnue.evaluator", "NnueEvaluator", BUILTIN),
    "lc0": _Kind("lc0.evaluator", "Lc0Evaluator", LC0),
    "uci": _Kind("uci.evaluator", "UciEvaluator", UCI, passes_on=True),
    "FILE.py": _Kind("factory", "of_class", {}, passes_on=True),
}


def _kind(name: str) -> _Kind:
    kind, colon, rest = name.partition(":")
    path, _, of = name.rpartition(":")
    if path.endswith(".py") and of.isidentifier():
        return _KINDS["FILE.py"]
    needs_more = any(known.startswith(f"{kind}:") for known in NAMES)
    if kind not in _KINDS or needs_more != bool(rest) or (colon and not needs_more):
        raise UnknownEvaluatorError(f"unknown evaluator {name!r}; known are {', '.join(NAMES)}")
    return _KINDS[kind]


def absolute_name(name: str, folder: Path = Path()) -> str:
    """Returns the name of an evaluator with the absolute path of its file or program, from a folder."""
    if _kind(name) is _KINDS["FILE.py"]:
        path, _, of = name.rpartition(":")
        return f"{located(folder, path)}:{of}"
    kind, _, rest = name.partition(":")
    if kind == "lc0" or rest.endswith(NNUE_SUFFIX):
        return f"{kind}:{located(folder, rest)}"
    return f"{kind}:{located_command(folder, rest)}" if rest else name


def _arguments(kind: _Kind, options: Options) -> dict[str, Any]:
    """Returns options as the arguments of a kind; those that it passes on are one, `options`."""
    own = {name: value for name, value in options.items() if name in kind.options}
    if "nodes" in own and own.get("depth"):
        raise InvalidParameterError(
            "give either nodes or depth, not both: each of them ends the search for V"
        )
    others = {name: value for name, value in options.items() if name not in own}
    if TEMPERATURE in own:
        own["temperature"] = own.pop(TEMPERATURE)
    return own | ({"options": others} if kind.passes_on else {})


def of_class(name: str, *, options: Mapping[str, str], part: Part) -> Evaluator:
    """Makes an evaluator of a class, `FILE.py:CLASS`, that prints to stderr; `options`: named arguments."""
    path, _, wanted = name.rpartition(":")
    if not Path(path).expanduser().is_file():
        raise EvaluatorFileError(f"there is no file {path}: expected a Python file with an evaluator")
    spec = spec_from_file_location(path, Path(path).expanduser())
    assert spec is not None
    assert spec.loader is not None
    sys.modules[path] = module = module_from_spec(spec)  # dataclasses look up their annotations there
    sys.path.append(str(Path(path).expanduser().resolve().parent))  # for the files that it imports
    try:
        with _printing_aside():
            spec.loader.exec_module(module)
            found = getattr(module, wanted, None)
            made = found(**options) if isinstance(found, type) else None
    except BaseException as error:  # a file may end the program as well
        if signal_of(error):
            raise
        text = " ".join(str(error).split())
        raise EvaluatorError(f"{name} cannot be made: {type(error).__name__}: {text}") from error
    if made is None:
        raise EvaluatorError(f"{path} has no class {wanted}")
    evaluator = accepted(made)
    vars(evaluator).update((name, _printing_aside()(getattr(made, name))) for name in ("evaluate", "close"))
    return evaluator


_stdouts, _changing = list[TextIO](), threading.Lock()


@contextmanager
def _printing_aside() -> Iterator[None]:
    """Sends what the body prints to stderr: stdout is for answers. Several threads may be in it."""
    with _changing:
        _stdouts.append(sys.stdout)
        sys.stdout = sys.stderr
    try:
        yield
    finally:
        with _changing:
            sys.stdout = _stdouts.pop()


# ------------------------------------------------------------------ options
def _names(spec: EvaluatorSpec) -> dict[Part, str]:
    rest = DEFAULT if spec.evaluator is None else spec.evaluator
    if spec.policy is None and spec.value is None:
        return {"both": rest}
    if None not in (spec.policy, spec.value, spec.evaluator):
        raise InvalidParameterError("give an evaluator, or a policy and a value, not all three")
    return {
        "policy": rest if spec.policy is None else spec.policy,
        "value": rest if spec.value is None else spec.value,
    }


def _parts(spec: EvaluatorSpec) -> dict[Part, tuple[_Kind, str, Options]]:
    """Returns kind, name and option values of each part."""
    found: dict[Part, tuple[_Kind, str, Options]] = {
        part: (_kind(name), name, {}) for part, name in _names(spec).items()
    }
    kinds = {part: kind for part, (kind, _, _) in found.items()}
    for given, text in spec.options:
        if given.lower() == WORKERS:  # of the whole
            continue
        part, name = _addressed(given, kinds)
        kind, _, options = found[part]
        known = kind.option(name) or (name if kind.passes_on else None)
        if known is None:
            where, exist = "", {WORKERS, *(own for one in kinds.values() for own in one.options)}
            if name != given:
                where, exist = f"{part} part of the ", set(kind.options)
            raise InvalidParameterError(
                f"the {where}evaluator {spec.describe()} has no option {name}; it has"
                f" {', '.join(sorted(exist, key=str.lower))}"
            )
        if known.lower() in {other.lower() for other in options}:
            raise InvalidParameterError(f"the option {known} is given twice")
        options[known] = kind.options.get(known, word)(known, text)
    return found


def _addressed(given: str, kinds: Mapping[Part, _Kind]) -> tuple[Part, str]:
    """Returns the part that an option is for, and its name without the prefix."""
    prefix, _, name = given.partition(".")
    for part in PART_OPTIONS:
        if prefix == part and name:
            if part not in kinds:
                raise InvalidParameterError(f"there is no {part} part that could take the option {given}")
            return part, name
    owners = [part for part, kind in kinds.items() if kind.option(given)]
    for part, options in PART_OPTIONS.items():
        if len(owners) > 1 and given.lower() in {option.lower() for option in options}:
            return part, given
    if len(owners) > 1:
        raise InvalidParameterError(f"both parts have option {given}: write policy.{given} or value.{given}")
    owners = owners or [part for part, kind in kinds.items() if kind.passes_on] or list(kinds)
    return owners[0], given


def split_options(options: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Splits `NAME=VALUE` texts of a search; returns the evaluator's options, and the other texts.

    >>> split_options(["CPuct=2", "policytemperature=1.2"])
    ({'PolicyTemperature': '1.2'}, ['CPuct=2'])
    """
    evaluator, others = dict[str, str](), list[str]()
    for option in options:
        name, sign, value = option.partition("=")
        if sign and name.strip().lower() == TEMPERATURE.lower():
            evaluator[TEMPERATURE] = value.strip()
        else:
            others.append(option)
    return evaluator, others


def parse_options(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Parses `NAME=VALUE` texts into pairs; InvalidParameterError for any other form.

    >>> parse_options(["nodes=500", "Skill Level = 3"])
    (('nodes', '500'), ('Skill Level', '3'))
    """
    pairs = []
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InvalidParameterError(f"an option must be NAME=VALUE, not {text!r}")
        pairs.append((name.strip(), value.strip()))
    return tuple(pairs)


# ------------------------------------------------------------------ two evaluators
SHOWN_HEX = 16  # digits of each part's digest in the options; the combined digest hashes both in full


class CombinedEvaluator(Evaluator):
    """Returns P of one evaluator and V of another; both evaluate a batch at the same time.

    Attributes:
      identity: of both; option names have the prefix of their part, such as "policy.digest".
    """

    def __init__(self, policy: Evaluator, value: Evaluator) -> None:
        self.policy = policy
        self.value = value
        options = {**_prefixed("policy", policy.identity), **_prefixed("value", value.identity)}
        digest = hashlib.sha256(f"{policy.identity.digest}+{value.identity.digest}".encode()).hexdigest()
        self.identity = EvaluatorIdentity("policy+value", digest, options, value.identity.mapping)
        self.notes = (*policy.notes, *value.notes)
        self.wants_lines = policy.wants_lines or value.wants_lines
        self.batch_size = max(OUTSIDE_BATCH, policy.batch_size, value.batch_size)
        self._thread = ThreadPoolExecutor(1, "graphsearch-value")

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns the WDL of `value` and the priors of `policy`; an error is raised when both have ended."""
        answer = self._thread.submit(self.value.evaluate, batch)
        try:
            priors = self.policy.evaluate(batch).priors
        finally:
            answer.exception()  # always wait: an evaluator allows one caller at a time
        return replace(answer.result(), priors=priors)

    def heed(self, stop: threading.Event) -> None:
        """Both give up calls that last, from when `stop` is set."""
        self.policy.heed(stop)
        self.value.heed(stop)

    def close(self) -> None:
        """Closes both evaluators."""
        self._thread.shutdown()
        self.policy.close()
        self.value.close()


def _prefixed(role: str, identity: EvaluatorIdentity) -> dict[str, Option]:
    found: dict[str, Option] = {f"{role}.kind": identity.kind}
    if identity.digest:
        found[f"{role}.digest"] = identity.digest[:SHOWN_HEX]
    return found | {f"{role}.{name}": value for name, value in identity.options.items()}
