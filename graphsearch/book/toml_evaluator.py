"""The table `[evaluator]` of a BOOK.toml: checked as far as possible without starting the evaluator."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from pydantic import Field, ValidationInfo, field_validator, model_validator

from ..errors import EvaluatorError, GraphSearchError
from ..evaluators.factory import EvaluatorSpec, check
from ..evaluators.nnue.layout import NNUE_SUFFIX
from .toml_values import Options, Table, Text, located, refuse


class EvaluatorTable(Table):
    """`[evaluator]`: checked as far as possible without starting it; its files must exist."""

    name: Text | None = None
    policy: Text | None = None
    value: Text | None = None
    options: Options = Field(default_factory=dict)
    syzygy: Text | None = None
    pool: Text | None = None

    @field_validator("name", "policy", "value")
    @classmethod
    def _locate(cls, name: str | None, info: ValidationInfo) -> str | None:
        """Returns the name with the absolute path of its file or command."""
        kind, _, rest = (name or "").partition(":")
        if not rest or kind not in ("lc0", "uci", "nnue"):
            return name
        locate = _network if kind == "lc0" or rest.endswith(NNUE_SUFFIX) else _command
        return f"{kind}:{locate(rest, info.context)}"

    @field_validator("syzygy")
    @classmethod
    def _locate_folders(cls, text: str | None, info: ValidationInfo) -> str | None:
        """Returns the absolute paths of the folders of tablebases."""
        paths = [located(info.context, part) for part in (text or "").split(os.pathsep) if part]
        for path in paths:
            if not path.is_dir():
                raise ValueError(f"there is no folder {path} (looked for in the folder of this file)")
        return os.pathsep.join(map(os.fspath, paths))

    @model_validator(mode="after")
    def _check(self) -> EvaluatorTable:
        try:
            check(self.spec())
        except (EvaluatorError, ValueError) as error:
            refuse([(self._key_of(str(error)), str(error))])
        return self

    def _key_of(self, message: str) -> tuple[str, ...]:
        """Returns the path of the key whose value a message names."""
        for key in ("name", "policy", "value", "pool"):
            if repr(getattr(self, key)) in message:
                return (key,)
        return next((("options", name) for name in self.options if name.lower() in message.lower()), ())

    def spec(self) -> EvaluatorSpec:
        """Returns the evaluator's specification."""
        return EvaluatorSpec(
            evaluator=self.name,
            policy=self.policy,
            value=self.value,
            options=tuple(self.options.items()),
            syzygy=self.syzygy,
            pool=self.pool,
        )


def _network(name: str, folder: Path | None) -> str:
    path = located(folder, name)
    if not path.is_file():
        raise ValueError(f"there is no network {path} (looked for in the folder of this file)")
    return os.fspath(path)


def _command(command: str, folder: Path | None) -> str:
    """Returns the command of an engine with the absolute path of its program."""
    from ..evaluators.uci.program import find_program

    whole = located(folder, command)
    try:
        first, *others = [command] if os.sep in command and whole.is_file() else shlex.split(command)
    except ValueError as error:
        raise ValueError(f"not a command: {error}") from None
    if os.sep in first:
        path = os.fspath(located(folder, first))
        command = shlex.join([path, *others]) if others else path
    try:
        find_program(command)
    except GraphSearchError as error:
        raise ValueError(str(error)) from None
    return command
