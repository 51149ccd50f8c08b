"""How Numba types and reads bundles (`bundles.py`); importing this module imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.base import BaseContext
from numba.core.datamodel.models import PrimitiveModel
from numba.core.datamodel.registry import register_default
from numba.core.imputils import lower_getattr_generic
from numba.core.types import Type
from numba.core.typing.templates import AttributeTemplate, infer_getattr

WORD = ir.IntType(64)


class BundleType(types.Type):  # type: ignore[misc]
    """The type of a bundle: its class, and the types of its fields by name."""

    def __init__(self, of: type, fields: dict[str, Type]) -> None:
        super().__init__(f"{of.__module__}.{of.__qualname__}")
        self.of, self.fields = of, fields
        self.places = {name: place for place, name in enumerate(fields)}


@register_default(BundleType)
class BundleModel(PrimitiveModel):  # type: ignore[misc]
    """A bundle is a pointer to its words."""

    def __init__(self, manager: Any, kind: BundleType) -> None:
        super().__init__(manager, kind, WORD.as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = BundleType

    def generic_resolve(self, kind: BundleType, name: str) -> Type | None:
        """Returns the type of a field."""
        return kind.fields.get(name)


@lower_getattr_generic(BundleType)  # type: ignore[untyped-decorator]
def _read(
    context: BaseContext, builder: ir.IRBuilder, kind: BundleType, words: ir.Value, name: str
) -> ir.Value:
    """Reads a field; words never change, so that LLVM may keep what it has read."""
    found = builder.load(builder.gep(words, [WORD(kind.places[name])]))
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    of = kind.fields[name]
    value = context.get_value_type(of)
    return builder.inttoptr(found, value) if isinstance(value, ir.PointerType) else found
