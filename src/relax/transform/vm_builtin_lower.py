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

from ..derive.rules import notes_of
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..ir import (
    Diagnostic,
    DiagnosticError,
    GlobalVar,
    IRModule,
    Op,
    RelaxExpr,
    StructInfo,
    VDevice,
    listed_vdevices,
)
from ..op import is_call_of, operator_of
from ..op.intrinsic import DestinationPassing, Intrinsic, PackedCall
from ..op.intrinsics import CallBuiltinWithCtx, InvokeClosure
from ..op.storage import EndOfLife
from ..struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .decorators import module_pass
from .rebuild import carry_info, same_or, with_info
from .remove_purity_checking import force_pure
from .vdevice_operand import VDeviceOperands

UNLOWERED = "E4101"
"""An operator that nothing lowers, or that cannot be lowered yet."""


@module_pass
def VMBuiltinLower(mod: IRModule) -> IRModule:
    """Call builtins of the machine in place of operators. Raises DiagnosticError for operators left over."""
    lowering = _BuiltinLowering(VDeviceOperands(listed_vdevices(mod)))
    functions = {g: lowering.function(f) if isinstance(f, Function) else f for g, f in mod.functions.items()}
    if lowering.errors:
        raise DiagnosticError(lowering.errors)
    return mod.with_functions(functions)


class _BuiltinLowering:
    def __init__(self, devices: VDeviceOperands) -> None:
        self.devices = devices
        self.errors: list[Diagnostic] = []
        self._new: list[Binding] = []
        self._where = ""

    def function(self, func: Function) -> Function:
        self._where = f"in {func.attrs.get('global_symbol', 'a private function')}"
        lowered = carry_info(func, func.replace(body=self.seq(func.body)))
        return lowered if lowered is func else force_pure(lowered)

    def seq(self, expr: RelaxExpr) -> RelaxExpr:
        if not isinstance(expr, SeqExpr):
            return expr
        blocks = [self.block(block) for block in expr.blocks]
        return carry_info(expr, expr.replace(blocks=same_or(expr.blocks, blocks)))

    def block(self, block: BindingBlock) -> BindingBlock:
        outer, self._new = self._new, []
        for binding in block.bindings:
            self.binding(binding)
        bindings, self._new = self._new, outer
        return block.replace(bindings=same_or(block.bindings, bindings))

    def binding(self, binding: Binding) -> None:
        if not isinstance(binding, VarBinding):
            assert isinstance(binding, MatchCast)
            self._new.append(binding)
            return
        value = binding.value
        match value:
            case If(cond, yes, no):
                new: RelaxExpr = value.replace(
                    cond=cond, true_branch=self.seq(yes), false_branch=self.seq(no)
                )
            case Call():
                new = self.call(value)
            case _:
                new = value
        self._new.append(binding.replace(value=carry_info(value, new)))

    # ------------------------------------------------------------------------------------- calls

    def call(self, call: Call) -> RelaxExpr:
        if isinstance(call.op, Var):
            return self._packed(call, InvokeClosure.builtin, (call.op, *call.args))
        if not isinstance(call.op, Op):
            return call
        operator = operator_of(call)
        if isinstance(operator, EndOfLife):
            return Tuple(())
        if isinstance(operator, PackedCall | CallBuiltinWithCtx):
            callee, *args = operator.builtin_arguments(call, self)
            return self._direct(call, callee, args)
        if isinstance(operator, Intrinsic) and operator.builtin:
            return self._packed(call, operator.builtin, operator.builtin_arguments(call, self))
        if operator is not None and operator.view:
            shape = self._result_shape(call)
            if shape is not None:
                return self._packed(call, "vm.builtin.reshape", (call.args[0], shape))
        self._refuse(call, call.op.name)
        return call

    def _packed(self, call: Call, name: str, args: Sequence[RelaxExpr]) -> Call:
        return Call(ExternFunc(name), tuple(args), None, (call.struct_info,), span=call.span)

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
            self._error(message, args, "match_cast it to a tuple first")
            return (args,)
        fields: list[RelaxExpr] = []
        for index, field in enumerate(info.fields):
            item = with_info(TupleGetItem(args, index, span=args.span), field)
            var = with_info(Var("field", span=args.span), field)
            self._new.append(VarBinding(var, item, span=args.span))
            fields.append(var)
        return fields

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
        try:
            return self.devices.operand(vdevice, expr.span, self._where)
        except DiagnosticError as error:
            self.errors += error.diagnostics
            return PrimValue(0)

    # ---------------------------------------------------------------------------------- complaints

    def _refuse(self, call: Call, name: str) -> None:
        short = name.removeprefix("relax.")
        hint = "run LegalizeOps and CallTIRRewrite before, as the default pipeline does"
        if any(isinstance(i, TensorStructInfo) and i.ndim == -1 for i in _infos(call)):
            hint = "match_cast the argument: its rank is not known here"
        elif is_call_of(call, DestinationPassing):
            hint = "run CallTIRRewrite before VMBuiltinLower"
        message = f"{short}: nothing says how to compute this operator here"
        self._error(message, call, hint, notes_of(call))

    def _error(self, message: str, expr: RelaxExpr, hint: str = "", notes: Sequence[str] = ()) -> None:
        self.errors.append(Diagnostic(UNLOWERED, message, expr.span, self._where, tuple(notes), hint))


def _infos(call: Call) -> list[StructInfo | None]:
    return [arg.struct_info_ for arg in call.args]


def _shape_leaf(shape: RelaxExpr) -> RelaxExpr:
    if isinstance(shape, ShapeExpr) and shape.struct_info_ is None:
        return with_info(shape, ShapeStructInfo(shape.values))
    return shape
