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

from collections.abc import Sequence

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
from ..expr import Call, ExternFunc, Function, ShapeExpr, Tuple, TupleGetItem, Var, VarBinding
from ..ir import DiagnosticError, GlobalVar, IRModule, Op, RelaxExpr, StructInfo, VDevice
from ..op import is_call_of, operator_of
from ..op.intrinsic import DestinationPassing, Intrinsic, PackedCall
from ..op.intrinsics import CallBuiltinWithCtx, InvokeClosure
from ..op.storage import EndOfLife
from ..rewrite import Rewriter, bindings_in
from ..rewrite.rebuild import with_info
from ..struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .decorators import module_pass
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


LowerRuntimeBuiltin = VMBuiltinLower
"""TVM's later name of the pass."""


class _BuiltinLowering(Rewriter):
    def concerns(self, function: Function) -> bool:
        calls = (binding.value for binding in bindings_in(function))
        return any(isinstance(call, Call) and isinstance(call.op, (Op, Var)) for call in calls)

    def function(self, function: Function) -> RelaxExpr:
        forced = force_pure(function)
        new = super().function(forced)
        return function if new is forced else new

    def var_binding(self, binding: VarBinding) -> None:
        if not is_call_of(binding.value, EndOfLife):  # the machine sees by itself when a register is read last
            super().var_binding(binding)
        else:
            self.variables[binding.var] = Tuple(())

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if isinstance(call.op, Var):
            return self._packed(call, InvokeClosure.builtin, (call.op, *call.args))
        if not isinstance(call.op, Op):
            return call
        operator = operator_of(call)
        if isinstance(operator, PackedCall | CallBuiltinWithCtx):
            callee, *args = operator.builtin_arguments(call, self)
            return self._direct(call, callee, args)
        if isinstance(operator, Intrinsic) and operator.builtin:
            return self._packed(call, operator.builtin, operator.builtin_arguments(call, self))
        if operator is not None and operator.view:
            shape = self._result_shape(call)
            if shape is not None:
                return self._packed(call, "vm.builtin.reshape", (call.args[0], shape))
        raise self.refusal(call, call.op.name)

    def _packed(self, call: Call, name: str, args: Sequence[RelaxExpr]) -> Call:
        packed = Call(ExternFunc(name), tuple(args), None, (call.struct_info,), span=call.span)
        return with_info(packed, call.struct_info)

    def _direct(self, call: Call, callee: RelaxExpr, args: Sequence[RelaxExpr]) -> Call:
        """A call of a packed function, or of whatever else the callee is."""
        if isinstance(callee, ExternFunc):
            return Call(callee, tuple(args), None, call.sinfo_args, span=call.span)
        if isinstance(callee, GlobalVar):
            return Call(callee, tuple(args), span=call.span)
        return self._packed(call, InvokeClosure.builtin, (callee, *args))

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
        elif is_call_of(call, DestinationPassing):
            hint = "run CallTIRRewrite before VMBuiltinLower"
        message = f"{short}: nothing says how to compute this operator here"
        return self.builder.error(UNLOWERED, message, call.span, notes_of(call), hint)


def _infos(call: Call) -> list[StructInfo | None]:
    return [arg.struct_info_ for arg in call.args]


def _shape_leaf(shape: RelaxExpr) -> RelaxExpr:
    if isinstance(shape, ShapeExpr) and shape.struct_info_ is None:
        return with_info(shape, ShapeStructInfo(shape.values))
    return shape
