"""Makes evaluators from names and options.

--evaluator NAME                                  one evaluator
--policy NAME --value NAME                        the priors of one, the values of another
--evaluator-option [policy.|value.]NAME=VALUE     their options
--syzygy DIR                                      tablebases before them
workers=K, --pool ray                             in other processes, on other machines

Evaluators are imported when they are made; importing all of them would add 0.03 s to every start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from ..base.errors import InvalidParameterError, UnknownEvaluatorError
from ..base.system import cores
from . import option_values as values
from .option_values import WORKERS
from .protocol import Evaluator
from .uci.settings import OWN as UCI_OPTIONS
from .uci.settings import read_options

if TYPE_CHECKING:
    from .pool import Crew

NAMES = ("builtin", "uniform", "nnue:FILE|PROGRAM", "lc0:FILE", "uci:PROGRAM")
DEFAULT = "builtin"
Part = Literal["both", "policy", "value"]  # the part of an evaluator that is used
BOTH: Part = "both"
POLICY: Part = "policy"
VALUE: Part = "value"
POLICY_OPTIONS = ("PolicyTemperature", "policy_depth", "policy_head")  # no effect on values
VALUE_OPTIONS = ("value_head",)  # no effect on policies
SEARCH_OPTIONS = ("PolicyTemperature",)  # in lc0 these are search options

Options = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSpec:
    """Names and options of an evaluator; hashable, and can be sent to other processes.

    Attributes:
      evaluator: one of `NAMES`; default: `builtin`.
      policy, value: evaluators to take P and V from; a missing one is `evaluator`.
      options: (name, text) pairs; an option that both parts have needs the prefix "policy." or "value.".
      syzygy: folders of tablebases, separated as in PATH.
      pool: `local`, `ray` or `ray:ADDRESS`; the option `workers` sets the number of workers, default: one per
        core. None: this process, unless `workers` is above 1.
    """

    evaluator: str | None = None
    policy: str | None = None
    value: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    syzygy: str | None = None
    pool: str | None = None

    def describe(self) -> str:
        """Returns the names of the evaluators, such as `lc0:net.pb.gz + uci:stockfish`."""
        return " + ".join(_parts(self).values())


def create(which: str | EvaluatorSpec, options: Mapping[str, str] | None = None) -> Evaluator:
    """Makes an evaluator.

    Args:
      which: one of `NAMES`, or a specification.
      options: used only with a name: `PolicyTemperature` (builtin, nnue, lc0): above 1 flattens the priors,
        below 1 sharpens them. `history` (lc0): `line` or `position`. `device` (lc0): `auto`, `cpu`, ...
        `policy_head`, `value_head` (lc0): for a network with several.
        `threads` (builtin, nnue, lc0): CPU threads, 0 for all cores.
        `workers`: number of processes. `uci` has options of its own, and those of the engine.

    Raises:
      UnknownEvaluatorError: if the name is unknown.
      EvaluatorError: if the evaluator cannot be made: its file, its packages or its device fail.
      InvalidParameterError: if this evaluator does not have an option, or a value is out of range.
    """
    spec = which
    if isinstance(spec, str):
        spec = EvaluatorSpec(evaluator=spec, options=tuple((options or {}).items()))
    if spec.syzygy is None:
        return _made(spec)
    from .tablebase import Syzygy, TablebaseEvaluator

    tables = Syzygy(spec.syzygy)
    try:
        return TablebaseEvaluator(_made(spec), tables)
    except BaseException:
        tables.close()
        raise


def check(spec: EvaluatorSpec) -> None:
    """Checks names, options and values as `create` does, but opens and starts nothing.

    It cannot find errors that only the engine or network itself detects.

    Raises:
      UnknownEvaluatorError: if a name is unknown.
      InvalidParameterError: if an evaluator does not have an option, or a value is out of range.
    """
    from ..workers.executor import check_pool

    kinds = {role: _kind(name) for role, name in _parts(spec).items()}
    if spec.pool is not None:
        check_pool(spec.pool)
    if spec.pool is not None and not _has_own_pool(spec, kinds):
        _, spec = _without_workers(spec)
    for role, options in _shares(spec, kinds).items():
        if kinds[role].passes_on:
            read_options(options)
        else:
            values.temperature(options, 1.0)
            values.threads(options)
            values.workers(options)
            values.history(options)


def _has_own_pool(spec: EvaluatorSpec, kinds: Mapping[Part, _Kind]) -> bool:
    from ..workers.executor import LOCAL

    return BOTH in kinds and kinds[BOTH].has_workers and spec.pool == LOCAL


def _made(spec: EvaluatorSpec) -> Evaluator:
    """Makes the evaluator of a specification, without tablebases."""
    parts = _parts(spec)
    kinds = {role: _kind(name) for role, name in parts.items()}
    if spec.pool is not None and not _has_own_pool(spec, kinds):
        return _in_pool(spec, kinds)
    shares = _shares(spec, kinds)
    if BOTH in parts:
        return _part(parts[BOTH], shares[BOTH], BOTH)
    from .combined import CombinedEvaluator

    policy = _part(parts[POLICY], shares[POLICY], POLICY)
    try:
        return CombinedEvaluator(policy, _part(parts[VALUE], shares[VALUE], VALUE))
    except BaseException:
        policy.close()
        raise


def _in_pool(spec: EvaluatorSpec, kinds: Mapping[Part, _Kind]) -> Evaluator:
    """Returns a pool whose workers each have the whole evaluator, both parts if there are two."""
    from ..workers.executor import threads_per_worker
    from .pool import pooled

    assert spec.pool is not None
    given, inner = _without_workers(spec)
    workers = given or cores()
    _shares(inner, kinds)  # raises errors in options before any worker starts
    threads = threads_per_worker(workers, spec.pool)
    return pooled(partial(create, with_threads(inner, threads)), workers, spec.pool)


def crew_of(spec: EvaluatorSpec, workers: int, pool: str | None) -> Crew:
    """Returns workers that each have the evaluator, for detached searches; they start when they are needed.

    Args:
      pool: where the workers are, as for `PooledEvaluator`.

    Raises:
      InvalidParameterError: if the pool is unknown, or the evaluator has workers of its own.
      EvaluatorError: if the pool cannot be used.
    """
    from ..workers.executor import check_pool, threads_per_worker
    from .pool import Crew

    check_pool(pool)
    check(spec)
    given, _ = _without_workers(spec)
    if spec.pool is not None or (given or 1) > 1:
        raise InvalidParameterError(
            "the searches and their evaluator cannot both have workers: leave out those of the evaluator"
        )
    return Crew(partial(create, with_threads(spec, threads_per_worker(workers, pool))), workers, pool)


def _without_workers(spec: EvaluatorSpec) -> tuple[int | None, EvaluatorSpec]:
    """Returns the number of workers, None if not given, and the specification for each worker."""
    numbers = [text for name, text in spec.options if name.lower() == WORKERS]
    if len(numbers) > 1:
        raise InvalidParameterError(f"the option {WORKERS} is given twice")
    workers = values.workers({WORKERS: numbers[0]}) if numbers else None
    rest = tuple(pair for pair in spec.options if pair[0].lower() != WORKERS)
    return workers, replace(spec, options=rest, syzygy=None, pool=None)


def with_threads(spec: EvaluatorSpec, threads: int) -> EvaluatorSpec:
    """Returns the specification with the option `threads` added for every part that has and does not set it.

    Raises:
      UnknownEvaluatorError: if a name is unknown.
      InvalidParameterError: if no evaluator has an option.
    """
    kinds = {role: _kind(name) for role, name in _parts(spec).items()}
    _, bare = _without_workers(spec)
    shares = _shares(bare, kinds)
    missing = [role for role, kind in kinds.items() if {"threads"} & {*kind.options} - {*shares[role]}]
    more = tuple(("threads" if role == BOTH else f"{role}.threads", str(threads)) for role in missing)
    return replace(spec, options=spec.options + more)


def _parts(spec: EvaluatorSpec) -> dict[Part, str]:
    """Returns the evaluator name of each part."""
    rest = DEFAULT if spec.evaluator is None else spec.evaluator
    if spec.policy is None and spec.value is None:
        return {BOTH: rest}
    if None not in (spec.policy, spec.value, spec.evaluator):
        raise InvalidParameterError("give an evaluator, or a policy and a value, not all three")
    return {
        POLICY: rest if spec.policy is None else spec.policy,
        VALUE: rest if spec.value is None else spec.value,
    }


# -------------------------------------------------------------------- kinds
Maker = Callable[[str, Options, Part], Evaluator]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of evaluator.

    Attributes:
      make: makes the evaluator from the text after the colon, the options, and the part that is used.
      options: its own options. passes_on: whether it passes other options on to its program.
      has_workers: whether it splits batches itself.
    """

    make: Maker
    options: tuple[str, ...]
    passes_on: bool = False
    has_workers: bool = False


def _builtin(_: str, options: Options, part: Part) -> Evaluator:
    from .builtin.evaluator import BuiltinEvaluator

    temperature = values.temperature(options, 1.0) if part != VALUE else 1.0
    return BuiltinEvaluator(temperature, threads=values.threads(options))


def _nnue(source: str, options: Options, part: Part) -> Evaluator:
    from .nnue.evaluator import NnueEvaluator

    temperature = values.temperature(options, 1.0) if part != VALUE else 1.0
    return NnueEvaluator(source, temperature=temperature, threads=values.threads(options))


def _uniform(_: str, options: Options, part: Part) -> Evaluator:
    from .uniform import UniformEvaluator

    return UniformEvaluator(threads=values.threads(options))


def _lc0(file: str, options: Options, part: Part) -> Evaluator:
    from .lc0.evaluator import DEFAULT_TEMPERATURE, Lc0Evaluator
    from .lc0.weights import POLICY_HEAD, VALUE_HEAD

    temperature = values.temperature(options, DEFAULT_TEMPERATURE)
    if part == VALUE:
        temperature = DEFAULT_TEMPERATURE  # no effect on values, so keep it out of the identity
    device = options.get("device", "auto").lower()
    return Lc0Evaluator(
        file,
        temperature=temperature,
        history=values.history(options),
        device=device,
        threads=values.threads(options),
        policy_head=options.get("policy_head", POLICY_HEAD) if part != VALUE else POLICY_HEAD,
        value_head=options.get("value_head", VALUE_HEAD) if part != POLICY else VALUE_HEAD,
    )


def _uci(program: str, options: Options, part: Part) -> Evaluator:
    from .uci.evaluator import UciEvaluator

    return UciEvaluator(program, options, part)


_KINDS = {
    "builtin": _Kind(_builtin, ("PolicyTemperature", "threads")),
    "uniform": _Kind(_uniform, ("threads",)),
    "nnue": _Kind(_nnue, ("PolicyTemperature", "threads")),
    "lc0": _Kind(_lc0, ("PolicyTemperature", "history", "device", "threads", "policy_head", "value_head")),
    "uci": _Kind(_uci, tuple(UCI_OPTIONS), passes_on=True, has_workers=True),
}


def _kind(name: str) -> _Kind:
    kind, colon, rest = name.partition(":")
    needs_more = any(known.startswith(f"{kind}:") for known in NAMES)
    if kind not in _KINDS or needs_more != bool(rest) or (colon and not needs_more):
        raise UnknownEvaluatorError(f"unknown evaluator {name!r}; known are {', '.join(NAMES)}")
    return _KINDS[kind]


def plain(name: str, options: tuple[tuple[str, str], ...], part: Part) -> Evaluator:
    """Makes an evaluator in this process; workers call it."""
    return _kind(name).make(name.partition(":")[2], dict(options), part)


def _part(name: str, options: Options, part: Part) -> Evaluator:
    """Makes the evaluator of a part, in worker processes if its option `workers` is above 1."""
    kind = _kind(name)
    workers = 1 if kind.has_workers else values.workers(options) or 1
    if workers == 1:
        return plain(name, tuple(options.items()), part)
    from ..workers.executor import threads_per_worker
    from .pool import pooled

    del options[WORKERS]
    if "threads" in kind.options:
        options.setdefault("threads", str(threads_per_worker(workers)))
    return pooled(partial(plain, name, tuple(options.items()), part), workers)


# ------------------------------------------------------------------ options
def _shares(spec: EvaluatorSpec, kinds: Mapping[Part, _Kind]) -> dict[Part, Options]:
    """Returns the options of each part.

    Raises:
      InvalidParameterError: if no part has an option, several have it, or it is given twice.
    """
    shares: dict[Part, Options] = {role: {} for role in kinds}
    for given, value in spec.options:
        role, name = _addressed(given, kinds)
        known = _own(name, kinds[role]) or (name if kinds[role].passes_on else None)
        if known is None:
            raise InvalidParameterError(_unknown(name, spec, kinds if name == given else {role: kinds[role]}))
        if known.lower() in {other.lower() for other in shares[role]}:
            raise InvalidParameterError(f"the option {known} is given twice")
        shares[role][known] = value
    return shares


def _addressed(given: str, kinds: Mapping[Part, _Kind]) -> tuple[Part, str]:
    """Returns the part that an option is for, and its name without the prefix."""
    prefix, _, name = given.partition(".")
    for role in (POLICY, VALUE):
        if prefix == role and name:
            if role not in kinds:
                raise InvalidParameterError(f"there is no {role} part that could take the option {given}")
            return role, name
    owners = _owners(given, kinds)
    if len(owners) > 1:
        raise InvalidParameterError(
            f"both parts have an option {given}: write {POLICY}.{given} or {VALUE}.{given}"
        )
    return owners[0], given


def _owners(name: str, kinds: Mapping[Part, _Kind]) -> list[Part]:
    """Returns the parts with an option of their own, else those that pass it on, else any one part."""
    own = [role for role, kind in kinds.items() if _own(name, kind)]
    for role, options in ((POLICY, POLICY_OPTIONS), (VALUE, VALUE_OPTIONS)):
        if len(own) > 1 and name.lower() in {option.lower() for option in options}:
            return [role]
    return own or [role for role, kind in kinds.items() if kind.passes_on] or list(kinds)[:1]


def _own(name: str, kind: _Kind) -> str | None:
    """Returns an option's name as a kind spells it, None if it has no such option of its own."""
    return {own.lower(): own for own in {*kind.options, WORKERS}}.get(name.lower())


def _unknown(name: str, spec: EvaluatorSpec, kinds: Mapping[Part, _Kind]) -> str:
    where = "" if BOTH in kinds or len(kinds) > 1 else f"{next(iter(kinds))} part of the "
    exist = sorted({option for kind in kinds.values() for option in (*kind.options, WORKERS)}, key=str.lower)
    return f"the {where}evaluator {spec.describe()} has no option {name}; it has {', '.join(exist)}"


def split_options(options: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Splits `NAME=VALUE` texts of a search; returns the evaluator's options, and the other texts.

    >>> split_options(["CPuct=2", "policytemperature=1.2"])
    ({'PolicyTemperature': '1.2'}, ['CPuct=2'])
    """
    known = {name.lower(): name for name in SEARCH_OPTIONS}
    evaluator: dict[str, str] = {}
    others = []
    for option in options:
        name, sign, value = option.partition("=")
        if sign and name.strip().lower() in known:
            evaluator[known[name.strip().lower()]] = value.strip()
        else:
            others.append(option)
    return evaluator, others


def parse_options(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Parses `NAME=VALUE` texts into pairs.

    Raises:
      InvalidParameterError: if a text has another form.

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
