"""Base of the expressions of all languages: base classes of Relax expressions and StructInfo, and GlobalVar."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, final

from .node import Node, label, node, set_slot
from .structural import structural_equal, structural_hash


class StructInfo(Node):
    """Structural information about a value; see relax.struct_info for the kinds.

    ``==`` is structural equality, in which a free variable equals only itself.
    """

    __slots__ = ("_uses",)

    _uses: Any
    """Variables used, written by `relax.analysis.uses`."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, StructInfo) and structural_equal(self, other))

    def __hash__(self) -> int:
        return structural_hash(self)

    def is_base_of(self, derived: StructInfo) -> bool:
        """True if `derived` is provably at least as specific as this struct info."""
        return _is_base_of(self, derived)


def _load_is_base_of(base: StructInfo, derived: StructInfo) -> bool:
    """Initial `is_base_of`, which loads the real one."""
    importlib.import_module("relax.info.relations")
    return _is_base_of(base, derived)


_is_base_of = _load_is_base_of


def register_is_base_of(function: Any) -> None:
    """Register the subtype relation, which is defined in a higher package."""
    global _is_base_of
    _is_base_of = function


class BaseExpr(Node):
    """Base class of the expressions of Relax and TIR."""

    __slots__ = ()


class RelaxExpr(BaseExpr):
    """An expression of Relax. Normalisation derives its struct info once."""

    __slots__ = ("_struct_info",)

    _struct_info: StructInfo

    @property
    def struct_info(self) -> StructInfo:
        """Struct info. Raises ValueError if it has not been derived."""
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
        """Struct info; None if it has not been derived."""
        return getattr(self, "_struct_info", None)

    def __extra_state__(self) -> Any:
        return self.struct_info_

    def __setstate__(self, state: Any) -> None:
        if state is not None:
            set_slot(self, "_struct_info", state)


def update_struct_info(expr: RelaxExpr, struct_info: StructInfo) -> None:
    """Set the derived struct info of an expression. For normalisation only."""
    set_slot(expr, "_struct_info", struct_info)


@final
@node
class GlobalVar(RelaxExpr):
    """A name bound in an IRModule. GlobalVars of the same name are structurally equal."""

    name_hint: str

    __is_variable__: ClassVar[bool] = False

    def __call__(self, *args: Any) -> Any:
        """Call of the named function."""
        return _make_global_call(self, args)


def _load_calls(global_var: GlobalVar, args: tuple[Any, ...]) -> Any:
    """Initial call of a global variable, which loads the real one."""
    importlib.import_module("relax.expr")
    return _make_global_call(global_var, args)


_make_global_call: Any = _load_calls


def register_global_call(function: Any) -> None:
    """Register the constructor of calls, which is defined in a higher package."""
    global _make_global_call
    _make_global_call = function


class BaseFunc(RelaxExpr):
    """A function of any language in an IRModule; it has `attrs`."""

    __slots__ = ()

    __is_scope__: ClassVar[bool] = True

    @property
    def attrs(self) -> dict[str, Any]:
        raise NotImplementedError

    def with_attr(self, key: str | dict[str, Any], value: Any = None) -> Any:
        """Copy with one attribute set, or several given as a dict."""
        changes = key if isinstance(key, dict) else {key: value}
        return self._with_attrs({**self.attrs, **changes})

    def with_attrs(self, attrs: Mapping[str, Any]) -> Any:
        """Copy with attributes added or replaced."""
        return self._with_attrs({**self.attrs, **attrs})

    def without_attr(self, key: str) -> Any:
        """Copy without an attribute."""
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
    """A virtual device for values: target text, index, memory scope."""

    target: str = "llvm"
    vdevice_id: int = 0
    memory_scope: str = "global"


__all__ = [
    "BaseExpr", "BaseFunc", "GlobalVar", "RelaxExpr", "StructInfo", "VDevice", "label",
    "register_global_call", "register_is_base_of", "update_struct_info",
]  # fmt: skip
