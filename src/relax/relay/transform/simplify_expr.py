"""SimplifyExpr: algebraic simplification of operator chains.

    reshape(reshape(%x))                               becomes    reshape(%x)
    transpose(transpose(%x)), layout_transform         becomes    one transpose, or %x
    cast(%x) to its own dtype                          becomes    %x
    cast(cast(%x)), the first one wider                becomes    cast(%x)
    reshape, broadcast_to, squeeze, … to its own shape becomes    %x
    multiply(%x, 1), divide(%x, 1), subtract(%x, 0)    becomes    %x        the shape and dtype being the same
    add(%x, 0)                                         becomes    %x        of integers: of floats, -0 + 0 is 0
    divide(1, sqrt(%x))                                becomes    rsqrt(%x)
    power(%x, 2)                                       becomes    multiply(%x, %x)
    zeros_like, ones_like, full_like, reshape_like, broadcast_to_like, cast_like
                                                       become     the operator that states shape and dtype

Rules that need a shape apply only to static shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from ...ir import DataType, Op
from ..expr import Call, Constant, Expr, Function
from ..operators import call_operator
from .rewriting import Program, Rewriter, is_call, ordered_rewrite, relay_pass


class _Simplifier(Rewriter):
    def rewrite(self, pre: Expr, post: Expr) -> Expr:
        if not isinstance(post, Call) or not isinstance(post.op, Op):
            return post
        for rule in _RULES.get(post.op.name, ()):
            changed = rule(self, post)
            if changed is not None:
                return changed
        return post

    def same(self, call: Call, operand: Expr) -> Expr | None:
        """Return the operand if it has the type of the call, without `Any`."""
        mine, other = self.tensor(call), self.tensor(operand)
        is_same = mine is not None and other is not None and mine == other and self.shape(operand) is not None
        return operand if is_same else None

    def number(self, expr: Expr) -> Any:
        """Value of a constant whose elements are all equal."""
        if not isinstance(expr, Constant) or not expr.data.size:
            return None
        data: Any = expr.data
        first = data.reshape(-1)[0]
        return first.item() if (data == first).all() else None


def _attrs(call: Call) -> Any:
    return call.attrs


def _no_change(simplifier: _Simplifier, call: Call) -> Expr | None:
    return simplifier.same(call, call.args[0])


def _merged_reshape(simplifier: _Simplifier, call: Call) -> Expr | None:
    inner, shape = call.args[0], simplifier.shape(call)
    if not is_call(inner, "reshape", "squeeze", "expand_dims", "nn.batch_flatten", "reshape_like") or shape is None:
        return None
    return None if 0 in shape else call_operator("reshape", inner.args[0], newshape=shape)


def _order(simplifier: _Simplifier, call: Expr) -> tuple[int, ...] | None:
    """Permutation applied by a call, or None."""
    if is_call(call, "transpose"):
        axes = _attrs(call).axes
        type_ = simplifier.tensor(call.args[0])
        if type_ is None:
            return None
        rank = len(cast("tuple[Any, ...]", type_.shape))
        return tuple(axis % rank for axis in axes) if axes else tuple(reversed(range(rank)))
    if is_call(call, "layout_transform"):
        source, target = _attrs(call).src_layout, _attrs(call).dst_layout
        if source.isalpha() and sorted(source) == sorted(target):
            return tuple(source.index(letter) for letter in target)
    return None


def _merged_transpose(simplifier: _Simplifier, call: Call) -> Expr | None:
    outer, inner = _order(simplifier, call), _order(simplifier, call.args[0])
    if outer is not None and outer == tuple(range(len(outer))):
        return call.args[0]
    if outer is None or inner is None:
        return None
    source = cast(Call, call.args[0]).args[0]
    order = tuple(inner[axis] for axis in outer)
    return source if order == tuple(range(len(order))) else call_operator("transpose", source, axes=order)


def _cast(simplifier: _Simplifier, call: Call) -> Expr | None:
    operand, target = call.args[0], DataType(_attrs(call).dtype)
    type_ = simplifier.tensor(operand)
    if type_ is not None and type_.dtype == target:
        return operand
    if not is_call(operand, "cast"):
        return None
    source = simplifier.tensor(operand.args[0])
    if source is None or not _holds(DataType(_attrs(operand).dtype), cast(DataType, source.dtype)):
        return None
    return call_operator("cast", operand.args[0], dtype=target)


def _holds(wide: DataType, narrow: DataType) -> bool:
    """True if `wide` represents every value of `narrow`, so that a cast through it is lossless."""
    for kind in ("int", "uint", "float"):
        if str(wide).rstrip("0123456789") == kind == str(narrow).rstrip("0123456789"):
            return wide.bits >= narrow.bits
    return False


def _unit(
    value: int, sides: tuple[int, ...], integers_only: bool = False
) -> Callable[[_Simplifier, Call], Expr | None]:
    """Rule: an operand with this value is an identity; `sides` are the positions where it may occur."""

    def rule(simplifier: _Simplifier, call: Call) -> Expr | None:
        for side in sides:
            if simplifier.number(call.args[side]) == value:
                other = call.args[1 - side]
                type_ = simplifier.tensor(other)
                if type_ is not None and not (integers_only and "float" in str(type_.dtype)):
                    return simplifier.same(call, other)
        return None

    return rule


def _reciprocal_root(simplifier: _Simplifier, call: Call) -> Expr | None:
    numerator, root = call.args
    is_one = isinstance(numerator, Constant) and numerator.is_scalar and simplifier.number(numerator) == 1
    return call_operator("rsqrt", root.args[0]) if is_one and is_call(root, "sqrt") else None


def _square(simplifier: _Simplifier, call: Call) -> Expr | None:
    base, exponent = call.args
    if simplifier.number(exponent) != 2 or simplifier.same(call, base) is None:
        return None
    return call_operator("multiply", base, base)


def _stated(simplifier: _Simplifier, call: Call) -> Expr | None:
    """Replace a ``…_like`` operator by the one with explicit attributes."""
    type_, shape = simplifier.tensor(call), simplifier.shape(call)
    name = cast(Op, call.op).name
    if type_ is None:
        return None
    if name == "cast_like":
        return call_operator("cast", call.args[0], dtype=type_.dtype)
    if shape is None:
        return None
    match name:
        case "zeros_like":
            return call_operator("zeros", shape=shape, dtype=type_.dtype)
        case "ones_like":
            return call_operator("ones", shape=shape, dtype=type_.dtype)
        case "full_like":
            return call_operator("full", call.args[1], shape=shape, dtype=type_.dtype)
        case "reshape_like":
            return None if 0 in shape else call_operator("reshape", call.args[0], newshape=shape)
        case _:
            return call_operator("broadcast_to", call.args[0], shape=shape)


_LIKE: Final = ("zeros_like", "ones_like", "full_like", "reshape_like", "broadcast_to_like", "cast_like")

_RULES: Final[dict[str, tuple[Callable[[_Simplifier, Call], Expr | None], ...]]] = {
    "reshape": (_no_change, _merged_reshape),
    "broadcast_to": (_no_change,),
    "squeeze": (_no_change,),
    "nn.batch_flatten": (_no_change,),
    "transpose": (_merged_transpose,),
    "layout_transform": (_merged_transpose,),
    "cast": (_cast,),
    "copy": (_no_change,),
    "multiply": (_unit(1, (0, 1)),),
    "divide": (_unit(1, (1,)), _reciprocal_root),
    "subtract": (_unit(0, (1,)),),
    "add": (_unit(0, (0, 1), integers_only=True),),
    "power": (_unit(1, (1,)), _square),
    **dict.fromkeys(_LIKE, (_stated,)),
}
"""Rules for calls of each operator, in the order in which they are tried."""


def simplify_expr(expr: Expr, program: Program | None = None) -> Expr:
    """Apply the rules to a typed expression; return it unchanged if none applies."""
    program = Program() if program is None else program
    return ordered_rewrite(expr, program, lambda ordered: _Simplifier().visit(ordered))


@relay_pass("SimplifyExpr", opt_level=0, required=["InferType"])
def SimplifyExpr(function: Function, program: Program) -> Expr:
    """Simplify operator chains, in every function."""
    return simplify_expr(function, program)
