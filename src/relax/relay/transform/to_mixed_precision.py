"""ToMixedPrecision: compute float32 programs in float16 or bfloat16 where it pays and is safe.

    nn.relu(nn.dense(%x, %w))    becomes    %0 = cast(%x, dtype="float16");
                                            %1 = cast(%w, dtype="float16");
                                            %2 = nn.relu(nn.dense(%0, %1, out_dtype="float16"));
                                            cast(%2, dtype="float32")

Operators have one of TVM's three categories, stated in their declarations:

* ALWAYS (convolutions, products): computed in the mixed type, whatever their operands are
* FOLLOW (element-wise operators, pools, what moves elements): in the mixed type if an operand is, and the others are
  too or are constants or variables, which are cast
* NEVER (exponentials, reductions, and all others): in float32

Results, parameters, branches and closure arguments keep their types.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final, cast

from ...ir import DataType, Op
from ...op.facts import MixedPrecision
from ..attrs import Attrs
from ..expr import Call, Constant, Expr, Function, Let, Tuple, TupleGetItem, Var
from ..operators import call_operator
from ..ops.declare import mixed_precision_of
from ..parts import parts_of, with_parts
from ..types import TensorType, TupleType, Type
from .rewriting import Program, ordered_rewrite, relay_pass


class MixedTypeConversionCategory(enum.IntEnum):
    """Mixed-precision categories of operators."""

    MIXED_PRECISION_ALWAYS = 0
    MIXED_PRECISION_FOLLOW = 1
    MIXED_PRECISION_NEVER = 2


_ALWAYS, _FOLLOW, _NEVER = MixedTypeConversionCategory

CONVERSION: Final = "FTVMMixedPrecisionConversionType"
"""Op attribute key of the conversion."""

_DECLARED: Final = {MixedPrecision.ALWAYS: _ALWAYS, MixedPrecision.FOLLOW: _FOLLOW, MixedPrecision.NEVER: _NEVER}
"""Category of each value that a declaration may state (`ops.declare`)."""


def register_mixed_precision_conversion(op_name: str, func: Callable[..., Any] | None = None) -> Any:
    """Register ``func(call, mixed_precision_type) -> [category, accumulation dtype, output dtype]`` for an operator.

    Only the category is used: calls in the mixed type also return it. Without a function, returns a decorator.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        Op.get(op_name).set_attr(CONVERSION, function)
        return function

    return register if func is None else register(func)


class _Mixed:
    """Rewrite of one expression. `low` holds nodes computed in the mixed type instead of float32."""

    def __init__(self, mixed: str, missing_op_mode: int) -> None:
        self.mixed = mixed
        self.missing = missing_op_mode
        self.standing: dict[Expr, Expr] = {}
        self.low: set[Expr] = set()
        self._casts: dict[tuple[Expr, str], Expr] = {}

    def visit(self, expr: Expr) -> Expr:
        """Return the rewritten expression, with its original type."""
        stack: list[tuple[Expr, int]] = [(expr, 0)]
        while stack:
            node, step = stack.pop()
            if node in self.standing:
                continue
            if isinstance(node, Let) and step < 2:
                if step == 0:
                    stack += [(node, 1), (node.value, 0)]
                else:
                    self._bind(node)
                    stack += [(node, 2), (node.body, 0)]
            elif step == 0:
                stack.append((node, 2))
                stack.extend((part, 0) for part in reversed(parts_of(node)))
            else:
                self.standing[node] = self._node(node)
        return self.whole(expr)

    def _bind(self, let: Let) -> None:
        if self.standing[let.value] in self.low:
            self.standing[let.var] = Var(let.var.name_hint, span=let.var.span)
            self.low.add(self.standing[let.var])
        else:
            self.standing[let.var] = let.var

    # -- what stands for a node, in one type or the other

    def whole(self, expr: Expr) -> Expr:
        """Replacement of a node, with the node's original type."""
        standing = self.standing[expr]
        return self._raised(standing, _type(expr)) if standing in self.low else standing

    def _raised(self, standing: Expr, type_: Type | None) -> Expr:
        if isinstance(type_, TupleType):
            if (standing, "") in self._casts:
                return self._casts[standing, ""]
            fields = [
                self._raised(TupleGetItem(standing, i), field) if _is_float(field) else TupleGetItem(standing, i)
                for i, field in enumerate(type_.fields)
            ]
            return self._casts.setdefault((standing, ""), Tuple(fields))
        return self._cast(standing, "float32")

    def lowered(self, expr: Expr) -> Expr:
        """Replacement of a node, in the mixed type if it is of floats."""
        standing = self.standing[expr]
        if standing in self.low:
            return standing
        if isinstance(expr, Tuple):
            return with_parts(expr, [self.lowered(field) for field in expr.fields])
        return self._cast(standing, self.mixed) if _is_float(_type(expr)) else standing

    def _cast(self, expr: Expr, dtype: str) -> Expr:
        key = expr, dtype
        if key not in self._casts:
            self._casts[key] = call_operator("cast", expr, dtype=dtype)
        return self._casts[key]

    # -- nodes

    def _node(self, node: Expr) -> Expr:
        if isinstance(node, Call) and isinstance(node.op, Op) and self._is_mixed(node, node.op):
            return self._computed(node)
        if isinstance(node, TupleGetItem) and self.standing[node.tuple_value] in self.low:
            changed = node.replace(tuple_value=self.standing[node.tuple_value])
            if _is_float(_type(node)):
                self.low.add(changed)
            return changed
        if isinstance(node, Let) and self.standing[node.var] in self.low:
            var, value = self.standing[node.var], self.standing[node.value]
            return Let(cast(Var, var), value, self.whole(node.body), span=node.span)
        return with_parts(node, [self.whole(part) for part in parts_of(node)])

    def _is_mixed(self, call: Call, op: Op) -> bool:
        operands = [operand for arg in call.args for operand in (arg.fields if isinstance(arg, Tuple) else (arg,))]
        floats = [operand for operand in operands if _is_float(_type(operand))]
        if not floats or not all(_is_float(field) for field in _fields(_type(call))):
            return False
        category = self._category(call, op)
        if category is not _FOLLOW:
            return category is _ALWAYS
        low = [self.standing[operand] in self.low for operand in floats]
        cheap = (is_low or isinstance(o, (Constant, Var)) for is_low, o in zip(low, floats, strict=True))
        return any(low) and all(cheap)

    def _category(self, call: Call, op: Op) -> MixedTypeConversionCategory:
        register = op.get_attr(CONVERSION)
        if register is not None:
            return MixedTypeConversionCategory(register(call, self.mixed)[0])
        declared = mixed_precision_of(op)
        if declared is not None:
            return _DECLARED[declared]
        if self.missing == 0:
            raise ValueError(f"ToMixedPrecision: {op.name} has no category (missing_op_mode=0)")
        return _NEVER if self.missing == 1 else _ALWAYS

    def _computed(self, call: Call) -> Expr:
        args = tuple(self.lowered(arg) for arg in call.args)
        attrs = call.attrs
        if attrs is not None and "out_dtype" in attrs:
            attrs = Attrs({**dict(attrs.items()), "out_dtype": DataType(self.mixed)})
        changed = call.replace(args=args, attrs=attrs)
        self.low.add(changed)
        return changed


def _type(expr: Expr) -> Type | None:
    return expr.type if isinstance(expr, Constant) else getattr(expr, "checked_type_", None)


def _fields(type_: Type | None) -> tuple[Type | None, ...]:
    return type_.fields if isinstance(type_, TupleType) else (type_,)


def _is_float(type_: Type | None) -> bool:
    return isinstance(type_, TensorType) and str(type_.dtype) == "float32"


def to_mixed_precision(
    expr: Expr, mixed_precision_type: str = "float16", missing_op_mode: int = 1, program: Program | None = None
) -> Expr:
    """Return the typed expression with operators in the mixed type; itself if there are none."""
    program = Program() if program is None else program
    return ordered_rewrite(expr, program, lambda ordered: _Mixed(mixed_precision_type, missing_op_mode).visit(ordered))


@relay_pass("ToMixedPrecision", opt_level=0, required=["InferType"])
def ToMixedPrecision(
    function: Function, program: Program, mixed_precision_type: str = "float16", missing_op_mode: int = 1
) -> Expr:
    """Compute operators in a narrower type where it pays, in every function.

    An operator without a category is an error if `missing_op_mode` is 0, stays in float32 if it is 1, and is computed
    in the mixed type if it is 2. Raises ValueError for another type than float16 and bfloat16.
    """
    if mixed_precision_type not in ("float16", "bfloat16"):
        raise ValueError(f"ToMixedPrecision: the type is float16 or bfloat16, found {mixed_precision_type!r}")
    return to_mixed_precision(function, mixed_precision_type, missing_op_mode, program)
