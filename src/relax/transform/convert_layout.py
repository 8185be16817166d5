"""Compute in other layouts: NHWC inside, transposed once, at the edges.

Before   with R.dataflow():                                ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})
             lv = R.nn.conv2d(x, w)
             gv = R.nn.relu(lv)
             R.output(gv)
After    with R.dataflow():
             lv = R.permute_dims(x, axes=[0, 2, 3, 1])
             lv1 = R.permute_dims(w, axes=[0, 2, 3, 1])
             lv2 = R.nn.conv2d(lv, lv1, data_layout="NHWC", kernel_layout="OHWI")
             lv3 = R.nn.relu(lv2)
             gv = R.permute_dims(lv3, axes=[0, 3, 1, 2])
             R.output(gv)

Each operator named gets operands and result in the layouts desired (`Operator.in_layouts`): of a convolution those of
data, kernel and, if it is another than the data's, result. What the callback `layout_cb` says of a call goes before.
All others follow an operand whose dimensions have been permuted, where they can (`Operator.permuted`), through tuples
and through match_casts; where they cannot, the operand is transposed back. Transposes of the program are looked
through, so that one may cancel another. FoldConstant transposes weights that are constants; DeadCodeElimination drops
transposes that lost their users.

Layouts may be packed, ``{"relax.nn.conv2d": ["NCHW16c", "OIHW16i16o"]}``: operands and results are then converted by
`R.layout_transform`. Element-wise operators, pools, concatenations and splits follow a packed operand
(`Operator.blocked`); others get it back. A convolution stays as it is unless all sizes that its layouts split are
proved to be multiples of the parts.

The values of a dataflow block visible outside keep their layout, and so does everything outside of dataflow blocks: see
ConvertToDataflow. A call stays as it is if the ranks of its operands are not known, or if its variable is annotated
with more than its value tells.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from ..analysis.properties import LEGALIZED, NO_OPERATORS, NORMAL_FORM
from ..expr import BindingBlock, Call, DataflowVar, Function, MatchCast, ShapeExpr, Tuple, TupleGetItem, Var, VarBinding
from ..info.relations import is_base_of
from ..ir import Diagnostic, DiagnosticError, IRModule, Op, RelaxExpr, StructInfo
from ..op import Operator, operator_of
from ..op.errors import OperatorError, Shown, diagnose
from ..op.facts import Axes, Order, Part, Permuted, fits, is_packed, part_of, rank_of
from ..op.layout import LayoutTransform
from ..op.shapes import ExpandDims, PermuteDims
from ..prim import PrimExpr, const, simplify
from ..rewrite import Rewriter, bindings_in
from ..runtime.records import dataclass
from ..struct_info import TensorStructInfo, TupleStructInfo
from ..tir.index_map import IndexMap
from ..tir.layout import Layout as TensorLayout
from ..tir.layout import bijective_layout
from .decorators import module_pass

DesiredLayouts = Mapping[str, Sequence[str]]
LayoutCallback = Callable[[Call], DesiredLayouts]


@module_pass(needs={NORMAL_FORM}, breaks={LEGALIZED, NO_OPERATORS})
def ConvertLayout(mod: IRModule, desired_layouts: DesiredLayouts, layout_cb: LayoutCallback | None = None) -> IRModule:
    """Convert operators in dataflow blocks to the layouts desired; see the module's docstring.

    `desired_layouts` has layouts by the names of operators, ``{"relax.nn.conv2d": ["NHWC", "OHWI"]}``. `layout_cb` is
    called with each call, and may return such a mapping for it, or an empty one. Raises DiagnosticError (E4009) for a
    name that is no operator, and for layouts that an operator does not have.
    """
    unknown = [name for name in desired_layouts if not Op.exists(name)]
    if unknown:
        raise DiagnosticError(_unknown_operator(name) for name in unknown)
    return _Layouts(mod, desired_layouts, layout_cb).module()


def _unknown_operator(name: str) -> Diagnostic:
    near = difflib.get_close_matches(name, Op.list_op_names(), 1)
    hint = f"did you mean {near[0]!r}?" if near else "give registered names, such as relax.nn.conv2d"
    return Diagnostic("E4009", f"ConvertLayout: there is no operator {name!r}", hint=hint)


def inverse(axes: Axes) -> Axes:
    """The permutation that undoes another."""
    return tuple(axes.index(axis) for axis in range(len(axes)))


def after(first: Axes, second: Order) -> Order:
    """The permutation by `first`, then by `second`."""
    return tuple(Part(first[e.axis], e.size) if isinstance(e, Part) else first[e] for e in second)


def is_identity(axes: Order) -> bool:
    """True if a permutation leaves all dimensions where they are."""
    return axes == tuple(range(len(axes)))


@dataclass
class Permutations:
    """A tensor of the program, with the dimension orders in which it is available."""

    axes: Order
    """Dimension order in which it was computed: dimension d is dimension axes[d] of the original."""
    at_hand: dict[Order, RelaxExpr]
    """Available values by dimension order: variables, constants, or projections."""


Layout: TypeAlias = "Permutations | tuple[Layout, ...]"
"""The permutations of a tensor, or of the tensors in a tuple."""


class _Layouts(Rewriter):
    def __init__(self, mod: IRModule, desired: DesiredLayouts, callback: LayoutCallback | None) -> None:
        super().__init__(mod)
        self.desired, self.callback = desired, callback
        self.layouts: dict[Var, Layout] = {}
        """Tensors of the current dataflow block that are available in another dimension order."""

    def concerns(self, function: Function) -> bool:
        values = (binding.value for binding in bindings_in(function))
        return any(isinstance(value, Call) and self._desired(value) for value in values)

    def _desired(self, call: Call) -> Sequence[str]:
        """The layouts desired for a call, empty if there are none."""
        if not isinstance(call.op, Op):
            return ()
        chosen = () if self.callback is None else self.callback(call).get(call.op.name, ())
        return chosen or self.desired.get(call.op.name, ())

    # -- blocks and bindings

    def block(self, block: BindingBlock) -> BindingBlock:
        outer, self.layouts = self.layouts, {}
        try:
            return super().block(block)
        finally:
            self.layouts = outer

    def var_binding(self, binding: VarBinding) -> None:
        if self.builder.in_dataflow and not self._is_claim(binding):
            layout = self._layout_of_value(binding.value)
            if layout is not None and _is_moved(layout):
                self._define(binding, layout)
                return
            if isinstance(binding.value, Call) and self._converted(binding, binding.value):
                return
        super().var_binding(binding)
        self._look_through(binding)

    def _layout_of_value(self, value: RelaxExpr) -> Layout | None:
        """The layout of a value that only names others, if one of them is at hand in other orders; else None."""
        match value:
            case Var():
                return self.layouts.get(value)
            case TupleGetItem(Var() as whole, index):
                layout = self.layouts.get(whole)
                return layout[index] if isinstance(layout, tuple) else None
            case Tuple(fields) if any(self._layout_of_value(field) is not None for field in fields):
                return tuple(map(self._layout, fields))
            case _:
                return None

    def _is_claim(self, binding: VarBinding) -> bool:
        """True if a variable is annotated with more than its value tells, which is checked where it is bound."""
        return not is_base_of(binding.var.struct_info, binding.value.struct_info)

    def _define(self, binding: VarBinding, layout: Layout) -> None:
        """Give a variable its layout; bind it if it is seen outside of the block."""
        self.layouts[binding.var] = layout
        if isinstance(layout, Permutations) and isinstance(layout.at_hand[layout.axes], TupleGetItem):
            value = self.builder.emit(layout.at_hand[layout.axes], binding.var.name_hint)
            layout.at_hand[layout.axes] = value
        if isinstance(binding.var, DataflowVar):
            return
        order = _program_order(layout)
        if isinstance(layout, tuple) or order in layout.at_hand:
            self.bind(binding, self.builder.normalize(self._original(layout)))
        else:
            layout.at_hand[order] = self.bind(binding, self.builder.normalize(_transpose(layout, order)))

    def _look_through(self, binding: VarBinding) -> None:
        """Note that a transpose of the program has its operand in another order of dimensions."""
        match binding.value:
            case Call(Op(), (Var() as source,), PermuteDims() as operator) if self.builder.in_dataflow:
                var, info = self.variables.get(binding.var, binding.var), source.struct_info
                if not isinstance(info, TensorStructInfo) or info.ndim == -1:
                    return
                plain = tuple(range(info.ndim))
                axes = operator.order(info.ndim)
                orders = {plain: super().variable(source)}
                layout = self.layouts.get(source)
                if isinstance(layout, Permutations):
                    orders = layout.at_hand
                at_hand = {after(inverse(axes), order): value for order, value in orders.items()}
                self.layouts[binding.var] = Permutations(plain, {**at_hand, plain: var})
            case _:
                pass

    def match_cast(self, binding: MatchCast) -> None:
        value, info = binding.value, binding.struct_info
        layout = self.layouts.get(value) if isinstance(value, Var) else None
        if (
            not isinstance(layout, Permutations)
            or is_identity(layout.axes)
            or not isinstance(binding.var, DataflowVar)
            or not isinstance(info, TensorStructInfo)
            or info.ndim != rank_of(layout.axes)
            or not isinstance(info.shape, ShapeExpr | None)
            or not fits(info, layout.axes)
        ):
            super().match_cast(binding)
            return
        moved = cast(TensorStructInfo, self.info(info))
        if moved.dims is not None:
            moved = TensorStructInfo(ShapeExpr(_sizes(moved.dims, layout.axes)), moved.dtype, moved.vdevice)
        var = self.builder.match_cast(self._in_order(layout, layout.axes), moved, binding.var.name_hint)
        self.layouts[binding.var] = Permutations(layout.axes, {layout.axes: var})

    # -- values

    def variable(self, var: Var) -> RelaxExpr:
        layout = self.layouts.get(var) if isinstance(var, DataflowVar) else None
        return super().variable(var) if layout is None else self._original(layout)

    def _layout(self, expr: RelaxExpr) -> Layout:
        """The orders in which a variable, or the fields of a tuple, are at hand."""
        if isinstance(expr, Tuple):
            return tuple(map(self._layout, expr.fields))
        if isinstance(expr, Var) and expr in self.layouts:
            return self.layouts[expr]
        axes = _plain(expr.struct_info)
        layout = Permutations(axes, {axes: self.rewrite(expr)})
        if isinstance(expr, Var) and isinstance(expr.struct_info, TensorStructInfo):
            self.layouts[expr] = layout
        return layout

    def _original(self, layout: Layout) -> RelaxExpr:
        """The value in the order of the program."""
        if isinstance(layout, tuple):
            return Tuple([self._original(field) for field in layout])
        return self._in_order(layout, _program_order(layout))

    def _in_order(self, layout: Permutations, axes: Order) -> RelaxExpr:
        """Return the value in a dimension order, emitting a transpose if it is not available."""
        if axes not in layout.at_hand:
            layout.at_hand[axes] = self.builder.emit(_transpose(layout, axes))
        elif isinstance(layout.at_hand[axes], TupleGetItem):
            layout.at_hand[axes] = self.builder.emit(layout.at_hand[axes])
        return layout.at_hand[axes]

    def _operand(self, arg: RelaxExpr, order: Order | RelaxExpr | None) -> RelaxExpr:
        """An operand as a rule of permutation asks for it."""
        if isinstance(order, RelaxExpr):
            return order
        if order is None:
            return self.rewrite(arg)
        return self._permuted(self._layout(arg), order)

    def _permuted(self, layout: Layout, axes: Order) -> RelaxExpr:
        if isinstance(layout, tuple):
            return Tuple([self._permuted(field, axes) for field in layout])
        missing = rank_of(axes) - rank_of(layout.axes)
        if missing:
            lifted = self.builder.emit(ExpandDims(tuple(range(missing))).call(self._original(layout)))
            plain = tuple(range(rank_of(axes)))
            return self.builder.emit(_moved(lifted, plain, axes)) if not is_identity(axes) else lifted
        return self._in_order(layout, axes)

    # -- calls

    def _converted(self, binding: VarBinding, call: Call) -> bool:
        """Emit a call on permuted operands; False if the call stays as it is."""
        operator = operator_of(call)
        rule = None if operator is None else self._rule(call, operator)
        if rule is None:
            return False
        args = [self._operand(arg, order) for arg, order in zip(call.args, rule.operands, strict=True)]
        if isinstance(rule.operator, PermuteDims) and is_identity(rule.operator.axes or ()):
            plain = _plain(call.struct_info)
            self._define(binding, Permutations(plain, {plain: args[0]}))
            return True
        moved = rule.operator.raw_call(args, call.sinfo_args, call.span)
        if all(order is None or is_identity(order) for order in rule.results):
            self.bind(binding, self.builder.normalize(moved))
            return True
        value = self.builder.emit(moved, binding.var.name_hint)
        info = call.struct_info
        if isinstance(info, TupleStructInfo):
            pairs = zip(rule.results, info.fields, strict=True)
            orders = [_plain(field) if order is None else order for order, field in pairs]
            layout: Layout = tuple(Permutations(o, {o: TupleGetItem(value, i)}) for i, o in enumerate(orders))
        else:
            order = rule.results[0] or ()
            layout = Permutations(order, {order: value})
        self._define(binding, layout)
        return True

    def _rule(self, call: Call, operator: Operator) -> Permuted | None:
        """The rule by which a call is to be permuted; None if it keeps its layout."""
        infos = [arg.struct_info for arg in call.args]
        layouts = self._desired(call)
        if layouts:
            try:
                rule = operator.in_layouts(layouts, infos)
            except OperatorError as error:
                shown = [
                    Shown(o.name, arg, info) for (o, arg), info in zip(operator.arguments(call), infos, strict=True)
                ]
                wrong = OperatorError("E4009", f"ConvertLayout to {list(layouts)}: {error.message}", hint=error.hint)
                raise diagnose(wrong, operator.short_name, shown, call.span) from None
            return None if rule is None or _is_as_before(rule) else rule
        if not all(isinstance(field, TensorStructInfo) for field in fields_of(call.struct_info)):
            return None
        for arg in call.args:
            for leaf in arg.fields if isinstance(arg, Tuple) else (arg,):
                order = self._moved_order(leaf)
                rule = None if order is None else _following(operator, order, infos)
                if rule is not None:
                    return rule
        return None

    def _moved_order(self, arg: RelaxExpr) -> Order | None:
        """The order in which an operand was computed, if it is not that of the program."""
        layout = self.layouts.get(arg) if isinstance(arg, Var) else None
        fields = layout if isinstance(layout, tuple) else (layout,)
        for field in fields:
            if isinstance(field, Permutations) and not is_identity(field.axes):
                return field.axes
        return None


def _following(operator: Operator, order: Order, infos: Sequence[StructInfo]) -> Permuted | None:
    """The rule by which an operator follows an operand in an order; None if it needs that of the program."""
    if is_packed(order):
        return operator.blocked(order, infos)
    return operator.permuted(tuple(e for e in order if not isinstance(e, Part)), infos)


def _is_as_before(rule: Permuted) -> bool:
    """True if a rule is the identity on all operands and results."""
    orders = [*rule.operands, *rule.results]
    return all(order is None or (isinstance(order, tuple) and is_identity(order)) for order in orders)


def fields_of(info: StructInfo) -> Sequence[StructInfo]:
    """The struct infos of a tuple's fields; of anything else its own."""
    return info.fields if isinstance(info, TupleStructInfo) else (info,)


def _plain(info: StructInfo) -> Axes:
    """The order of dimensions of a tensor as it is; that of none, if its rank is not known."""
    return tuple(range(max(info.ndim, 0))) if isinstance(info, TensorStructInfo) else ()


def _is_moved(layout: Layout) -> bool:
    """True if a tensor was computed in another order than the program's."""
    if isinstance(layout, tuple):
        return any(map(_is_moved, layout))
    return not is_identity(layout.axes)


def _program_order(layout: Layout) -> Axes:
    """The order of dimensions in the program."""
    return tuple(range(rank_of(layout.axes))) if isinstance(layout, Permutations) else ()


def _sizes(dims: Sequence[PrimExpr], order: Order) -> list[PrimExpr]:
    """Dimensions of a tensor in an order; sizes are multiples of the parts."""
    return [
        const(e.size, "int64") if isinstance(e, Part) else simplify(dims[e] // max(part_of(order, e), 1)) for e in order
    ]


def _transpose(layout: Permutations, axes: Order) -> Call:
    """The call that brings a tensor from the order in which it was computed to another."""
    return _moved(layout.at_hand[layout.axes], layout.axes, axes)


def _moved(value: RelaxExpr, old: Order, new: Order) -> Call:
    """A call that brings a tensor from one order to another: a transpose, or a transformation that splits dimensions
    or joins their parts.
    """
    if set(old) == set(new):
        return PermuteDims(tuple(map(old.index, new))).call(value)
    way = bijective_layout(_as_layout(old), _as_layout(new))
    return LayoutTransform(IndexMap.from_func(lambda *i: way.forward_index(i), len(old))).call(value)


def _as_layout(order: Order) -> TensorLayout:
    """Layout whose letters are the dimensions of the program: A, B, …"""
    names = [f"{e.size}{chr(ord('a') + e.axis)}" if isinstance(e, Part) else chr(ord("A") + e) for e in order]
    return TensorLayout("".join(names), "int64")
