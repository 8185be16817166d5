"""The expressions every language level shares: the base of Relax expressions, GlobalVar, and StructInfo's base."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, final

from .node import Node, label, node, set_slot
from .structural import structural_equal, structural_hash


class StructInfo(Node):
    """Structural information about a value: see relax.struct_info for the kinds.

    ``==`` asks for structural equality, in which a variable that is not bound inside equals itself only.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, StructInfo) and structural_equal(self, other))

    def __hash__(self) -> int:
        return structural_hash(self)

    def is_base_of(self, derived: StructInfo) -> bool:
        """True if `derived` is provably at least as specific as this."""
        return _is_base_of(self, derived)


def _load_is_base_of(base: StructInfo, derived: StructInfo) -> bool:
    """The relation, before its module is loaded."""
    importlib.import_module("relax.info.relations")
    return _is_base_of(base, derived)


_is_base_of = _load_is_base_of


def register_is_base_of(function: Any) -> None:
    """The subtype relation stands above this room and registers itself here when its module is imported."""
    global _is_base_of
    _is_base_of = function


class BaseExpr(Node):
    """The base of all expressions, of Relax and of TIR."""

    __slots__ = ()


class RelaxExpr(BaseExpr):
    """An expression of Relax: it has struct info, derived once by normalisation."""

    __slots__ = ("_struct_info",)

    _struct_info: StructInfo

    @property
    def struct_info(self) -> StructInfo:
        """The struct info. Raises ValueError before it has been derived."""
        try:
            return self._struct_info
        except AttributeError:
            kind = type(self).__name__
            raise ValueError(
                f"the struct info of this {kind} has not been derived yet; "
                "emit it through a BlockBuilder, or run relax.transform.Normalize()"
            ) from None

    @property
    def struct_info_(self) -> StructInfo | None:
        """The struct info, None before it has been derived."""
        return getattr(self, "_struct_info", None)

    def __extra_state__(self) -> Any:
        return self.struct_info_

    def __setstate__(self, state: Any) -> None:
        if state is not None:
            set_slot(self, "_struct_info", state)


def update_struct_info(expr: RelaxExpr, struct_info: StructInfo) -> None:
    """Write the derived struct info of an expression. For normalisation only."""
    set_slot(expr, "_struct_info", struct_info)


@final
@node
class GlobalVar(RelaxExpr):
    """A name bound in an IRModule. Two of one name are structurally equal."""

    name_hint: str

    __is_variable__: ClassVar[bool] = False

    def __call__(self, *args: Any) -> Any:
        """A call of the function this names."""
        return _make_global_call(self, args)


def _load_calls(global_var: GlobalVar, args: tuple[Any, ...]) -> Any:
    """The call of a global variable, before the module of calls is loaded."""
    importlib.import_module("relax.expr")
    return _make_global_call(global_var, args)


_make_global_call: Any = _load_calls


def register_global_call(function: Any) -> None:
    """Calls stand above this room; they register how one is made here."""
    global _make_global_call
    _make_global_call = function


class BaseFunc(RelaxExpr):
    """A function of any language level that an IRModule can hold; it has `attrs`."""

    __slots__ = ()

    __is_scope__: ClassVar[bool] = True

    @property
    def attrs(self) -> dict[str, Any]:
        raise NotImplementedError

    def with_attr(self, key: str | dict[str, Any], value: Any = None) -> Any:
        """A copy with one attribute set, or several given as a dict."""
        changes = key if isinstance(key, dict) else {key: value}
        return self._with_attrs({**self.attrs, **changes})

    def with_attrs(self, attrs: Mapping[str, Any]) -> Any:
        """A copy with these attributes added or replaced."""
        return self._with_attrs({**self.attrs, **attrs})

    def without_attr(self, key: str) -> Any:
        """A copy without the attribute."""
        return self._with_attrs({k: v for k, v in self.attrs.items() if k != key})

    def _with_attrs(self, attrs: dict[str, Any]) -> Any:
        result = self.replace(attrs=attrs)
        # Attributes say nothing of parameters and result: what is known of these stays known.
        if result is not self and self.struct_info_ is not None:
            update_struct_info(result, self.struct_info_)
        return result


@final
@node
class VDevice(Node):
    """A virtual device that values may be placed on: target text, index, memory scope."""

    target: str = "llvm"
    vdevice_id: int = 0
    memory_scope: str = "global"


__all__ = [
    "BaseExpr", "BaseFunc", "GlobalVar", "RelaxExpr", "StructInfo", "VDevice", "label",
    "register_global_call", "register_is_base_of", "update_struct_info",
]  # fmt: skip
