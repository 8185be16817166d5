"""Layout propagation, shared by ConvertLayout and AlterOpLayout.

    nn.relu(nn.conv2d(%x, %w))        with NHWC for nn.conv2d becomes

    %0 = layout_transform(%x, src_layout="NCHW", dst_layout="NHWC");
    %1 = layout_transform(%w, src_layout="OIHW", dst_layout="HWIO");
    %2 = nn.relu(nn.conv2d(%0, %1, data_layout="NHWC", kernel_layout="HWIO"));
    layout_transform(%2, src_layout="NHWC", dst_layout="NCHW")

A result in another layout is represented by a `LaidOut`, a TempExpr, until an operator without a rule for the layout
reads it: there it is transformed back. Operators with a rule compute in the layout. No `LaidOut` remains after the
pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast, final

from ...ir import Op, node
from ...tir.op_pattern import OpPatternKind
from ..attrs import Attrs
from ..expr import Call, Constant, Expr, Let, TempExpr, Tuple, TupleGetItem, Var
from ..operators import call_operator
from ..ops.declare import pattern_of
from ..parts import parts_of, with_parts
from ..types import TensorType, Type
from .rewriting import is_call

Choice = Callable[[Call], "tuple[str, str] | None"]
"""Returns the layouts of data and kernel for a convolution, or None to leave it unchanged."""


@final
@node
class LaidOut(TempExpr):
    """Tensor in another layout: `value` has layout `layout` instead of `declared`."""

    value: Expr
    declared: str
    layout: str

    def realize(self) -> Expr:
        """Return the tensor in its declared layout."""
        return transformed(self.value, self.layout, self.declared)


def transformed(expr: Expr, source: str, target: str) -> Expr:
    """Transpose a tensor from one layout to another."""
    if source == target:
        return expr
    if is_call(expr, "layout_transform") and expr.attrs is not None and expr.attrs.dst_layout == source:
        return transformed(expr.args[0], expr.attrs.src_layout, target)
    return call_operator("layout_transform", expr, src_layout=source, dst_layout=target)


class Layouts:
    """Rewrite of one expression: replacements of its nodes."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.standing: dict[Expr, Expr] = {}
        self._realized: dict[Expr, Expr] = {}

    def visit(self, expr: Expr) -> Expr:
        """Return the expression with the chosen layouts, in its declared layout."""
        stack: list[tuple[Expr, int]] = [(expr, 0)]
        while stack:
            item, step = stack.pop()
            if item in self.standing:
                continue
            if isinstance(item, Let) and step < 2:
                if step == 0:
                    stack += [(item, 1), (item.value, 0)]
                else:
                    self._bind(item)
                    stack += [(item, 2), (item.body, 0)]
            elif step == 0:
                stack.append((item, 2))
                stack.extend((part, 0) for part in reversed(parts_of(item)))
            else:
                self.standing[item] = self._node(item)
        return self.realized(expr)

    def _bind(self, let: Let) -> None:
        value = self.standing[let.value]
        if isinstance(value, LaidOut):
            var = Var(let.var.name_hint, span=let.var.span)
            self.standing[let.var] = value.replace(value=var)
        else:
            self.standing[let.var] = let.var

    def realized(self, expr: Expr) -> Expr:
        """Return the replacement of a node, in its declared layout."""
        standing = self.standing[expr]
        if not isinstance(standing, LaidOut):
            return standing
        if standing not in self._realized:
            self._realized[standing] = standing.realize()
        return self._realized[standing]

    def _node(self, item: Expr) -> Expr:
        if isinstance(item, Let):
            variable, value = self.standing[item.var], self.standing[item.value]
            if isinstance(variable, LaidOut) and isinstance(value, LaidOut):
                return Let(cast(Var, variable.value), value.value, self.realized(item.body), span=item.span)
        if isinstance(item, Call) and isinstance(item.op, Op):
            changed = self._call(item, item.op)
            if changed is not None:
                return changed
        if isinstance(item, TupleGetItem) and item.index == 0 and is_call(item.tuple_value, *_FIRST_OF_TUPLE):
            changed = self._first(item, item.tuple_value)
            if changed is not None:
                return changed
        return with_parts(item, [self.realized(part) for part in parts_of(item)])

    def _call(self, call: Call, op: Op) -> Expr | None:
        """Return the call in another layout, or None if it has no rule."""
        chosen = self.choice(call)
        if chosen is not None:
            return self._convolution(call, *chosen)
        carried = [a for a in map(self._carried, call.args) if a is not None]
        if not carried or op.name in _FIRST_OF_TUPLE:
            return None
        first = carried[0]
        rule = _RULES.get(op.name)
        if rule is not None:
            attrs = rule(call, first)
            if attrs is None:
                return None
            operands = [first.value, *(self.realized(arg) for arg in call.args[1:])]
            return self._laid_out(call, operands, attrs, first)
        if op.name == "concatenate" and isinstance(call.args[0], Tuple):
            fields = [self._in_layout(field, first) for field in call.args[0].fields]
            axis = _axis(first, cast(Any, call.attrs).axis)
            if any(field is None for field in fields):
                return None
            return self._laid_out(call, [Tuple(cast("list[Expr]", fields))], {"axis": axis}, first)
        if pattern_of(op) in (OpPatternKind.ELEMWISE, OpPatternKind.BROADCAST) and op.name not in _OTHERS:
            if _rank(call) != len(first.layout):
                return None
            operands = [self._in_layout(arg, first) for arg in call.args]
            return None if any(o is None for o in operands) else self._laid_out(call, operands, {}, first)
        return None

    def _carried(self, expr: Expr) -> LaidOut | None:
        if isinstance(expr, Tuple):
            return next((c for c in map(self._carried, expr.fields) if c is not None), None)
        standing = self.standing[expr]
        return standing if isinstance(standing, LaidOut) else None

    def _in_layout(self, expr: Expr, like: LaidOut) -> Expr | None:
        """Convert an operand that broadcasts with `like` to its layout; None if the operand's rank is unknown."""
        standing = self.standing[expr]
        if isinstance(standing, LaidOut) and standing.declared == like.declared and standing.layout == like.layout:
            return standing.value
        rank = _rank(expr)
        if rank is None or rank > len(like.layout):
            return None
        whole = self.realized(expr)
        if rank == 0:
            return whole
        if rank < len(like.layout):
            whole = call_operator("expand_dims", whole, axis=0, num_newaxis=len(like.layout) - rank)
        return transformed(whole, like.declared, like.layout)

    def _laid_out(self, call: Call, operands: list[Any], attrs: dict[str, Any], like: LaidOut) -> LaidOut:
        values = {} if call.attrs is None else dict(call.attrs.items())
        changed = Attrs({**values, **attrs}) if values else None
        return LaidOut(Call(call.op, operands, changed, span=call.span), like.declared, like.layout)

    def _convolution(self, call: Call, data_layout: str, kernel_layout: str) -> Expr | None:
        attrs = cast(Any, call.attrs)
        if attrs.out_layout and attrs.out_layout != attrs.data_layout:
            return None
        data, declared = self.standing[call.args[0]], attrs.data_layout
        if isinstance(data, LaidOut) and data.declared == declared and data.layout == data_layout:
            source = data.value
        else:
            source = transformed(self.realized(call.args[0]), declared, data_layout)
        kernel = transformed(self.realized(call.args[1]), attrs.kernel_layout, kernel_layout)
        layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout, "out_layout": ""}
        changed = call.replace(args=(source, kernel), attrs=Attrs({**dict(attrs.items()), **layouts}))
        if data_layout == declared:
            return changed
        return LaidOut(changed, declared, data_layout)

    def _first(self, item: TupleGetItem, call: Call) -> Expr | None:
        """First result of `nn.batch_norm` or `nn.dropout`, in the layout of the data."""
        data = self.standing[call.args[0]]
        if not isinstance(data, LaidOut):
            return None
        attrs = {} if call.attrs is None else dict(call.attrs.items())
        if "axis" in attrs:
            attrs["axis"] = _axis(data, attrs["axis"])
        operands = [data.value, *(self.realized(arg) for arg in call.args[1:])]
        return data.replace(value=item.replace(tuple_value=call.replace(args=tuple(operands), attrs=Attrs(attrs))))


def _rank(expr: Expr) -> int | None:
    type_: Type | None = expr.type if isinstance(expr, Constant) else getattr(expr, "checked_type_", None)
    return len(type_.shape) if isinstance(type_, TensorType) and isinstance(type_.shape, tuple) else None


def _axis(data: LaidOut, axis: int) -> int:
    """Map an axis of the declared layout to the other layout."""
    return data.layout.index(data.declared[axis])


def _one_axis(call: Call, data: LaidOut) -> dict[str, Any]:
    return {"axis": _axis(data, cast(Any, call.attrs).axis)}


def _layout_attr(call: Call, data: LaidOut) -> dict[str, Any] | None:
    attrs = cast(Any, call.attrs)
    if attrs.layout != data.declared or attrs.get("out_layout", "") not in ("", data.declared):
        return None
    return {"layout": data.layout}


def _pad(call: Call, data: LaidOut) -> dict[str, Any]:
    widths = cast(Any, call.attrs).pad_width
    return {"pad_width": tuple(widths[data.declared.index(letter)] for letter in data.layout)}


def _reduction(call: Call, data: LaidOut) -> dict[str, Any] | None:
    attrs = cast(Any, call.attrs)
    if not attrs.keepdims or attrs.axis is None:
        return None
    axes = (attrs.axis,) if isinstance(attrs.axis, int) else attrs.axis
    return {"axis": tuple(sorted(_axis(data, axis) for axis in axes))}


_POOLS: Final = [
    f"nn.{kind}{name}{d}d" for d in (1, 2, 3) for kind in ("", "global_") for name in ("max_pool", "avg_pool")
]
_RULES: Final[dict[str, Callable[[Call, LaidOut], dict[str, Any] | None]]] = {
    **dict.fromkeys(("nn.bias_add", "nn.prelu", "nn.softmax", "nn.log_softmax", "nn.fast_softmax"), _one_axis),
    **dict.fromkeys((*_POOLS, "nn.adaptive_avg_pool2d", "nn.upsampling", "image.resize2d"), _layout_attr),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod"), _reduction),
    "nn.pad": _pad,
}
"""Attributes of an operator adapted to data in another layout; None if it does not support it."""

_FIRST_OF_TUPLE: Final = ("nn.batch_norm", "nn.dropout")
_OTHERS: Final = ("nn.batch_flatten", "expand_dims", "broadcast_to", "broadcast_to_like", "full_like", "full")
"""Operators with an element-wise pattern whose operands have other axes than the result."""
