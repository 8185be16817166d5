"""Module properties that passes require, establish and invalidate, each with its check.

    @module_pass(needs={NORMAL_FORM, NO_DATAFLOW}, gives={STORAGE_EXPLICIT}, breaks={SHAPES_LOWERED})
    def CallTIRRewrite(mod): ...

VerifyInstrument holds passes to them, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..derive.context import FORCE_PURE
from ..expr import Call, DataflowBlock, Function, PrimValue, ShapeExpr
from ..ir import IRModule, Node, Op, StructInfo, children_of, listed_vdevices, walk
from ..ir.transform import Property
from ..op import is_call_of, operator_of
from ..op.intrinsic import DestinationPassing, Intrinsic
from ..op.intrinsics import HintOnDevice
from ..prim import FloatImm, IntImm
from .normal_form import check_normal_form


def _nowhere(name: str, wrong: Callable[[Node], str], where: Callable[[IRModule], bool] = lambda mod: True) -> Property:
    """Make a property that holds if `wrong` describes no violation for any node of the Relax functions.

    Struct info is not looked at. Modules that `where` does not hold for have the property anyway.
    """

    def violation(mod: IRModule) -> str:
        violations: list[str] = []

        def visit(item: Node) -> bool:
            if not isinstance(item, StructInfo) and not violations:
                violations.extend(filter(None, [wrong(item)]))
            return not isinstance(item, StructInfo) and not violations

        for global_var, function in mod.functions.items() if where(mod) else ():
            if isinstance(function, Function):
                walk(function, visit)
            if violations:
                return f"{global_var.name_hint} has {violations[0]}"
        return ""

    return Property(name, violation)


def _operator_call(item: Node, allowed: Callable[[Call], bool]) -> str:
    """A call of an operator that is not allowed, in words."""
    if not isinstance(item, Call) or not isinstance(item.op, Op) or allowed(item):
        return ""
    return f"a call of {item.op.name}"


def _is_legal(call: Call) -> bool:
    operator = operator_of(call)
    return operator is not None and (isinstance(operator, Intrinsic) or operator.view)


def _is_computed(item: Node) -> str:
    """A shape or scalar that is computed from shape variables, in words."""
    match item:
        case ShapeExpr(values) if not all(isinstance(value, IntImm) for value in values):
            return f"the shape {item}"
        case PrimValue(value) if not isinstance(value, IntImm | FloatImm):
            return f"the scalar {item}"
        case _:
            return ""


def _not_normal(mod: IRModule) -> str:
    return next((f"{d.message}, {d.label}" for d in check_normal_form(mod)), "")


NORMAL_FORM: Final = Property("normal_form", _not_normal)
"""Language.md §4: no nested expressions, no empty blocks, no two blocks of one kind in a row."""
DEVICES_PLACED: Final = _nowhere(
    "devices_placed",
    lambda item: _operator_call(item, lambda call: not is_call_of(call, HintOnDevice)),
    where=lambda mod: bool(listed_vdevices(mod)),
)
"""No virtual-device hints are left: each became a copy or was removed."""
LEGALIZED: Final = _nowhere("legalized", lambda item: _operator_call(item, _is_legal))
"""The operators left are intrinsics, and views of storage."""
NO_DATAFLOW: Final = _nowhere("no_dataflow", lambda item: "a dataflow block" if isinstance(item, DataflowBlock) else "")
"""The order of effects is the order of bindings."""
PURITY_TRUSTED: Final = _nowhere(
    "purity_trusted",
    lambda item: (
        "a pure function that is checked"
        if isinstance(item, Function) and item.is_pure and not item.attrs.get(FORCE_PURE)
        else ""
    ),
)
"""Purity is no longer checked, so that functions may write into their allocations."""
STORAGE_EXPLICIT: Final = _nowhere(
    "storage_explicit", lambda item: _operator_call(item, lambda call: not is_call_of(call, DestinationPassing))
)
"""Outputs of kernels are allocated by bindings of their own."""
NO_LITERALS: Final = _nowhere(
    "no_literals", lambda item: "a function literal" if any(isinstance(i, Function) for i in children_of(item)) else ""
)
"""Every function is a function of the module."""
NO_OPERATORS: Final = _nowhere("no_operators", lambda item: _operator_call(item, lambda call: False))
"""Every call is one of a function, of the module or packed."""
SHAPES_LOWERED: Final = _nowhere("shapes_lowered", _is_computed)
"""Shapes and scalars computed from shape variables are made by calls."""
