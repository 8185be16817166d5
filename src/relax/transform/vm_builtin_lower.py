"""Turn the operators that lowering left, and calls of function values, into calls of the machine's builtins.

Before   alloc = R.builtin.alloc_tensor(R.shape([n, 4]), R.dtype("float32"), 0, "global")
         f = R.make_closure(cls.lifted, (x,))
         y = f(z)
         s = R.shape_of(y)
After    alloc = R.call_packed("vm.builtin.alloc_tensor", R.shape([n, 4]), R.dtype("float32"))
         f = R.call_packed("vm.builtin.make_closure", cls.lifted, x)
         y = R.call_packed("vm.builtin.invoke_closure", f, z)
         s = R.call_packed("vm.builtin.shape_of", y)

What the builtins do is said in ``relax.runtime.builtins``. It must run after call_tir has been rewritten and
dataflow blocks and local functions are gone; an operator that is then left is an error, and all such are
reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from ..analysis.properties import (
    LEGALIZED,
    NO_DATAFLOW,
    NO_LITERALS,
    NO_OPERATORS,
    NORMAL_FORM,
    PURITY_TRUSTED,
    SHAPES_LOWERED,
    STORAGE_EXPLICIT,
)
from ..derive.rules import notes_of
from ..expr import (
    Call,
    ExternFunc,
    Function,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ..ir import (
    DiagnosticError,
    GlobalVar,
    IRModule,
    Op,
    RelaxExpr,
    StructInfo,
    VDevice,
)
from ..op import operator_of
from ..op.intrinsics import AssertOp, HintOnDevice, Print, ToVDevice
from ..prim import IntImm
from ..rewrite import Rewriter
from ..struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .decorators import module_pass
from .rebuild import with_info
from .remove_purity_checking import force_pure
from .vdevice_operand import VDeviceOperands

UNLOWERED = "E4101"
"""An operator that nothing lowers, or that cannot be lowered yet."""


@module_pass(
    needs={NORMAL_FORM, LEGALIZED, NO_DATAFLOW, PURITY_TRUSTED, STORAGE_EXPLICIT, NO_LITERALS},
    gives={NO_OPERATORS},
    breaks={SHAPES_LOWERED},
)
def VMBuiltinLower(mod: IRModule) -> IRModule:
    """Call builtins of the machine in place of operators. Raises DiagnosticError for operators left over."""
    return _BuiltinLowering(mod).module()


Lowered = tuple[str, Sequence[RelaxExpr]]
"""The name of a builtin, and its arguments."""


class _BuiltinLowering(Rewriter):
    def function(self, function: Function) -> RelaxExpr:
        forced = force_pure(function)
        new = super().function(forced)
        return function if new is forced else new

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if isinstance(call.op, Var):
            return self._packed(call, ("vm.builtin.invoke_closure", (call.op, *call.args)))
        if not isinstance(call.op, Op):
            return call
        name = call.op.name
        if name in _REMARKS:
            return Tuple(())
        if name in ("relax.call_pure_packed", "relax.call_inplace_packed"):
            return self._direct(call, call.args[0], call.args[1:])
        if name == "relax.call_builtin_with_ctx":
            return self._direct(call, call.args[0], self.fields(call.args[1]))
        if name in _RULES:
            return self._packed(call, _RULES[name](self, call))
        operator = operator_of(call)
        if operator is not None and operator.view:
            shape = self._result_shape(call)
            if shape is not None:
                return self._packed(call, ("vm.builtin.reshape", (call.args[0], shape)))
        raise self.refusal(call, name)

    def _packed(self, call: Call, lowered: Lowered) -> Call:
        name, args = lowered
        return Call(ExternFunc(name), tuple(args), None, (call.struct_info,), span=call.span)

    def _direct(self, call: Call, callee: RelaxExpr, args: Sequence[RelaxExpr]) -> Call:
        """A call of a packed function, or of whatever else the callee is."""
        if isinstance(callee, ExternFunc):
            return Call(callee, tuple(args), None, call.sinfo_args, span=call.span)
        if isinstance(callee, GlobalVar):
            return Call(callee, tuple(args), span=call.span)
        return self._packed(call, ("vm.builtin.invoke_closure", (callee, *args)))

    def fields(self, args: RelaxExpr) -> Sequence[RelaxExpr]:
        """The arguments in a tuple: its fields, taken out one by one if it is a variable."""
        if isinstance(args, Tuple):
            return args.fields
        info = args.struct_info_
        if not isinstance(info, TupleStructInfo):
            message = "the arguments are a value of which it is not known whether it is a tuple"
            raise self.builder.error(UNLOWERED, message, args.span, (), "match_cast it to a tuple first")
        items = [TupleGetItem(args, index, span=args.span) for index in range(len(info.fields))]
        return [self.builder.emit(item, "field") for item in items]

    def _result_shape(self, call: Call) -> RelaxExpr | None:
        """The shape of a view: what is derived of it, else the shape value it was given."""
        info = call.struct_info
        if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr | Var):
            return _shape_leaf(info.shape)
        for arg in call.args[1:]:
            if isinstance(arg.struct_info_, ShapeStructInfo):
                return arg
        return None

    def device(self, vdevice: VDevice | None, expr: RelaxExpr) -> RelaxExpr:
        """A virtual device as an argument."""
        return VDeviceOperands(self.builder.vdevices).operand(vdevice, expr.span, self.builder.where)

    # ---------------------------------------------------------------------------------- complaints

    def refusal(self, call: Call, name: str) -> DiagnosticError:
        """The error for an operator that is left over."""
        short = name.removeprefix("relax.")
        hint = "run LegalizeOps and CallTIRRewrite before, as the default pipeline does"
        if any(isinstance(i, TensorStructInfo) and i.ndim == -1 for i in _infos(call)):
            hint = "match_cast the argument: its rank is not known here"
        elif short in ("call_tir", "call_tir_inplace", "call_dps_packed"):
            hint = "run CallTIRRewrite before VMBuiltinLower"
        message = f"{short}: nothing says how to compute this operator here"
        return self.builder.error(UNLOWERED, message, call.span, notes_of(call), hint)


def _infos(call: Call) -> list[StructInfo | None]:
    return [arg.struct_info_ for arg in call.args]


def _shape_leaf(shape: RelaxExpr) -> RelaxExpr:
    if isinstance(shape, ShapeExpr) and shape.struct_info_ is None:
        return with_info(shape, ShapeStructInfo(shape.values))
    return shape


# -------------------------------------------------------------------------------------------- the rules

_Rule = Callable[[_BuiltinLowering, Call], Lowered]


def _same(name: str) -> _Rule:
    return lambda lowering, call: (name, call.args)


def _make_closure(lowering: _BuiltinLowering, call: Call) -> Lowered:
    return "vm.builtin.make_closure", (call.args[0], *lowering.fields(call.args[1]))


def _invoke_closure(lowering: _BuiltinLowering, call: Call) -> Lowered:
    return "vm.builtin.invoke_closure", (call.args[0], *lowering.fields(call.args[1]))


def _call_tir_dyn(lowering: _BuiltinLowering, call: Call) -> Lowered:
    return "vm.builtin.call_tir_dyn", (call.args[0], *lowering.fields(call.args[1]))


def _print(lowering: _BuiltinLowering, call: Call) -> Lowered:
    return "relax.run.print", (StringImm(cast(Print, operator_of(call)).format), *call.args)


def _assert(lowering: _BuiltinLowering, call: Call) -> Lowered:
    condition, *values = call.args
    return "relax.run.assert_op", (condition, StringImm(cast(AssertOp, operator_of(call)).format), *values)


def _to_device(lowering: _BuiltinLowering, call: Call) -> Lowered:
    device = cast("ToVDevice | HintOnDevice", operator_of(call)).dst_vdevice
    return "vm.builtin.to_device", (call.args[0], lowering.device(device, call))


def _alloc_tensor(lowering: _BuiltinLowering, call: Call) -> Lowered:
    return "vm.builtin.alloc_tensor", (*call.args[:2], *_device_argument(call.args[2]))


def _alloc_storage(lowering: _BuiltinLowering, call: Call) -> Lowered:
    """(size, device, dtype, scope) and (size, device, scope, dtype) say the same."""
    dtype = call.args[2 if cast(Op, call.op).name == "relax.vm.alloc_storage" else 3]
    return "vm.builtin.alloc_storage", (call.args[0], dtype, *_device_argument(call.args[1]))


def _device_argument(index: RelaxExpr) -> tuple[RelaxExpr, ...]:
    """The number of a device, unless it is that of the first, which needs no mention."""
    first = isinstance(index, PrimValue) and isinstance(index.value, IntImm) and index.value.value == 0
    return () if first else (index,)


_REMARKS = frozenset({"relax.memory.kill_storage", "relax.memory.kill_tensor", "relax.vm.kill_object"})
"""Ends of lifetimes: the machine finds them itself, in the bytecode."""

_RULES: dict[str, _Rule] = {
    "relax.make_closure": _make_closure,
    "relax.invoke_closure": _invoke_closure,
    "relax.invoke_pure_closure": _invoke_closure,
    "relax.shape_of": _same("vm.builtin.shape_of"),
    "relax.tensor_to_shape": _same("relax.run.tensor_to_shape"),
    "relax.shape_to_tensor": _same("relax.run.shape_to_tensor"),
    "relax.null_value": _same("vm.builtin.null_value"),
    "relax.print": _print,
    "relax.assert_op": _assert,
    "relax.to_vdevice": _to_device,
    "relax.hint_on_device": _to_device,
    "relax.builtin.stop_lift_params": _same("vm.builtin.copy"),
    "relax.builtin.alloc_tensor": _alloc_tensor,
    "relax.memory.alloc_storage": _alloc_storage,
    "relax.vm.alloc_storage": _alloc_storage,
    "relax.memory.alloc_tensor": _same("vm.builtin.alloc_tensor_in"),
    "relax.vm.alloc_tensor": _same("vm.builtin.alloc_tensor_in"),
    "relax.vm.call_tir_dyn": _call_tir_dyn,
}
