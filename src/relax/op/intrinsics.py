"""The intrinsics (language.md §7.3): calls of TIR, packed functions and closures; shapes, checks, devices.

Most state their result's struct info in `sinfo_args`. See `relax.op.intrinsic` for how they are lowered and evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..expr import Call, ExternFunc, StringImm, Tuple
from ..info.mapping import substitute_struct_info
from ..info.relations import Level, check_compatible, erase, match_dimensions
from ..ir import GlobalVar, RelaxExpr, StructInfo, VDevice, child, parse_vdevice, same_vdevice
from ..prim import IntImm
from ..runtime.builtin_table import BUILTINS, PACKED, UNKNOWN, Effects
from ..runtime.builtins import bind_captured
from ..runtime.devices import Device, is_cpu
from ..struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .arguments import DTypeLike, FunctionLike, InfoLike, ShapeLike, TupleLike
from .errors import OPERANDS, OperatorError
from .facts import Exactness
from .intrinsic import (
    UNIT,
    DestinationPassing,
    Intrinsic,
    IntrinsicServices,
    Lowering,
    PackedCall,
    TupleCall,
    require_function,
    require_tuple,
    result_of,
)
from .operator import Array, Operator, composite, operator
from .tir_calls import (
    INPLACE,
    SIGNATURE,
    as_arguments,
    as_callee,
    as_indices,
    as_infos,
    as_output,
    as_sequence,
    as_shape,
    check_inplace_indices,
    check_signature,
    output_infos,
)


def _callee_info(call: Call, builder: Any, default: StructInfo) -> StructInfo:
    """Struct info of the callee; the module under construction takes precedence over the argument's own."""
    callee = call.args[0]
    if isinstance(callee, GlobalVar) and hasattr(builder, "global_struct_info"):
        return builder.global_struct_info(callee) or default
    return default


def _call(instance: Operator, sinfo_args: tuple[StructInfo, ...], *args: Any) -> Call:
    return instance.call(*args).replace(sinfo_args=sinfo_args)


# ----------------------------------------------------------------------------------------- TIR, packed


@operator("relax.call_tir")
class CallTIR(DestinationPassing):
    """Allocate the outputs, call a PrimFunc with inputs, integers (`tir_vars`) and outputs; return the outputs.

    `out_sinfo` is one tensor's struct info (that tensor is returned) or a list (a tuple is). The
    older spelling gives shapes and a dtype: ``call_tir(f, args, (m, n), dtype="float32")``.
    """

    def infer(self, gvar: StructInfo, args: StructInfo, tir_vars: ShapeStructInfo | None = None) -> StructInfo: ...

    def infer_from_call(
        self, call: Call, builder: Any, gvar: StructInfo, args: StructInfo, tir_vars: StructInfo | None = None
    ) -> StructInfo:
        require_function(gvar)
        require_tuple(args)
        outputs = output_infos(call.sinfo_args)
        check_signature(_callee_info(call, builder, gvar), args, tir_vars, outputs)
        return call.sinfo_args[0]

    @staticmethod
    def make(
        gvar: RelaxExpr,
        args: TupleLike,
        out_sinfo: InfoLike | ShapeLike | None = None,
        tir_vars: ShapeLike | None = None,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] = None,
        output_shape: ShapeLike | Sequence[ShapeLike] | None = None,
    ) -> Call:
        name = "call_tir"
        out = as_output(name, output_shape if out_sinfo is None else out_sinfo, dtype)
        return _call(CallTIR(), (out,), as_callee(name, gvar), as_arguments(name, args), as_shape(name, tir_vars))


@operator("relax.call_tir_inplace")
class CallTIRInplace(DestinationPassing):
    """Like call_tir, but output i reuses the argument `inplace_indices[i]` (-1: a fresh tensor).

    The PrimFunc takes inputs, integers and the fresh outputs. The reused arguments must not be used again.
    """

    allocates: ClassVar[bool] = False

    inplace_indices: tuple[int, ...]

    def reused(self, call: Call) -> tuple[RelaxExpr, tuple[int, ...]]:
        return call.args[1], tuple(index for index in self.inplace_indices if index >= 0)

    def infer(self, gvar: StructInfo, args: StructInfo, tir_vars: ShapeStructInfo | None = None) -> StructInfo: ...

    def infer_from_call(
        self, call: Call, builder: Any, gvar: StructInfo, args: StructInfo, tir_vars: StructInfo | None = None
    ) -> StructInfo:
        require_function(gvar)
        require_tuple(args)
        outputs = output_infos(call.sinfo_args)
        check_inplace_indices(self.inplace_indices, len(outputs), args, "output")
        for i, (index, output) in enumerate(zip(self.inplace_indices, outputs, strict=True)):
            if index >= 0 and isinstance(args, TupleStructInfo):
                fit = check_compatible(args.fields[index], output)
                if fit.level is Level.DIFFERENT:
                    message = f"output {i} cannot reuse argument {index}: {fit.reason}"
                    raise OperatorError(INPLACE, message, operand="args")
        fresh = [out for index, out in zip(self.inplace_indices, outputs, strict=True) if index < 0]
        check_signature(_callee_info(call, builder, gvar), args, tir_vars, fresh)
        return call.sinfo_args[0]

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        function, inputs, *integers = values
        return machine.call_kernel(call, function, inputs, tuple(*integers), self.inplace_indices)

    @staticmethod
    def make(
        gvar: RelaxExpr,
        args: TupleLike,
        inplace_indices: int | Sequence[int],
        out_sinfo: InfoLike | None = None,
        tir_vars: ShapeLike | None = None,
    ) -> Call:
        name = "call_tir_inplace"
        indices = as_indices(name, inplace_indices)
        return _call(
            CallTIRInplace(indices),
            (as_output(name, out_sinfo, None),),
            as_callee(name, gvar),
            as_arguments(name, args),
            as_shape(name, tir_vars),
        )


@operator("relax.call_dps_packed")
class CallDPSPacked(DestinationPassing):
    """Allocate the outputs, call a packed function with inputs and outputs; return the outputs."""

    propagates_vdevice: ClassVar[bool] = False
    named_callee: ClassVar[bool] = True

    def infer(self, func: StructInfo, args: StructInfo) -> StructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, func: StructInfo, args: StructInfo) -> StructInfo:
        require_function(func)
        require_tuple(args)
        outputs = output_infos(call.sinfo_args)
        check_signature(_callee_info(call, builder, func), args, None, outputs)
        return call.sinfo_args[0]

    @staticmethod
    def make(
        func: FunctionLike,
        args: TupleLike,
        out_sinfo: InfoLike | ShapeLike | None = None,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] = None,
        output_shape: ShapeLike | Sequence[ShapeLike] | None = None,
    ) -> Call:
        name = "call_dps_packed"
        out = as_output(name, output_shape if out_sinfo is None else out_sinfo, dtype)
        return _call(CallDPSPacked(), (out,), as_callee(name, func), as_arguments(name, args))


@composite("relax.call_packed")
def call_packed(func: FunctionLike, *args: Any, sinfo_args: InfoLike | None = None) -> Call:
    """Call a packed function, which may have any effect."""
    callee = as_callee("call_packed", func)
    return Call(callee, args, None, as_infos("call_packed", sinfo_args))


@operator("relax.call_pure_packed")
class CallPurePacked(PackedCall):
    """Call a packed function that the caller declares to have no side effects."""

    def call_effects(self, call: Call) -> Effects:
        callee = call.args[0]
        if not isinstance(callee, ExternFunc) or callee.global_symbol not in BUILTINS:
            return PACKED
        return BUILTINS[callee.global_symbol].effects.after(1)

    def infer(self, func: StructInfo, *args: StructInfo) -> StructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, func: StructInfo, *args: StructInfo) -> StructInfo:
        require_function(func)
        return result_of(call.sinfo_args)

    @staticmethod
    def make(func: FunctionLike, *args: Any, sinfo_args: InfoLike | None = None) -> Call:
        name = "call_pure_packed"
        return _call(CallPurePacked(), as_infos(name, sinfo_args), as_callee(name, func), *args)


@operator("relax.call_inplace_packed")
class CallInplacePacked(PackedCall):
    """Call a packed function that changes only the arguments `inplace_indices`, which are not used again.

    Result i is the argument `inplace_indices[i]`, or (-1) a new value.
    """

    effects: ClassVar[Effects] = PACKED

    inplace_indices: tuple[int, ...]

    def reused(self, call: Call) -> tuple[RelaxExpr, tuple[int, ...]]:
        return Tuple(call.args[1:]), tuple(index for index in self.inplace_indices if index >= 0)

    def infer(self, func: StructInfo, *args: StructInfo) -> StructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, func: StructInfo, *args: StructInfo) -> StructInfo:
        require_function(func)
        result = result_of(call.sinfo_args)
        given = TupleStructInfo(args)
        results = result.fields if isinstance(result, TupleStructInfo) else (result,)
        check_inplace_indices(self.inplace_indices, len(results), given, "result")
        for i, (index, info) in enumerate(zip(self.inplace_indices, results, strict=True)):
            fit = check_compatible(args[index], info) if index >= 0 else None
            if fit is not None and fit.level is Level.DIFFERENT:
                message = f"result {i} cannot be argument {index}: {fit.reason}"
                raise OperatorError(INPLACE, message, operand="args")
        return result

    @staticmethod
    def make(
        func: FunctionLike, *args: Any, inplace_indices: int | Sequence[int], sinfo_args: InfoLike | None = None
    ) -> Call:
        name = "call_inplace_packed"
        instance = CallInplacePacked(as_indices(name, inplace_indices))
        return _call(instance, as_infos(name, sinfo_args), as_callee(name, func), *args)


@operator("relax.call_builtin_with_ctx")
class CallBuiltinWithCtx(TupleCall):
    """Call a builtin of the VM, which receives the VM as its first argument. It may have any effect."""

    effects: ClassVar[Effects] = UNKNOWN
    propagates_vdevice: ClassVar[bool] = False
    named_callee: ClassVar[bool] = True
    takes_sinfo_args: ClassVar[bool] = True
    pure: ClassVar[bool] = False

    def infer(self, func: StructInfo, args: StructInfo) -> StructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, func: StructInfo, args: StructInfo) -> StructInfo:
        require_function(func)
        require_tuple(args)
        return result_of(call.sinfo_args)

    @staticmethod
    def make(func: FunctionLike, args: TupleLike, *, sinfo_args: InfoLike | None = None) -> Call:
        name = "call_builtin_with_ctx"
        infos = as_infos(name, sinfo_args)
        return _call(CallBuiltinWithCtx(), infos, as_callee(name, func), as_arguments(name, args))


# -------------------------------------------------------------------------------------------- closures


@operator("relax.make_closure")
class MakeClosure(TupleCall):
    """A closure of a global function; the captured values are its last parameters."""

    effects: ClassVar[Effects] = Effects(reads=(), aliases="all")
    builtin: ClassVar[str] = "vm.builtin.make_closure"
    propagates_vdevice: ClassVar[bool] = False
    total: ClassVar[bool] = True

    def infer(self, func: StructInfo, args: StructInfo) -> StructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, func: StructInfo, args: StructInfo) -> StructInfo:
        require_function(func)
        require_tuple(args)
        info = _callee_info(call, builder, func)
        if not isinstance(info, FuncStructInfo) or info.params is None:
            return ObjectStructInfo()
        if not isinstance(args, TupleStructInfo):
            return ObjectStructInfo()
        kept = len(info.params) - len(args.fields)
        if kept < 0:
            message = f"{len(args.fields)} values for a function of {len(info.params)} parameters"
            raise OperatorError(SIGNATURE, message, operand="args")
        return _partial(info, kept, args.fields)

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        return bind_captured(*values)

    @staticmethod
    def make(func: FunctionLike, args: TupleLike = ()) -> Call:
        name = "make_closure"
        return MakeClosure().call(as_callee(name, func), as_arguments(name, args))


def _partial(info: FuncStructInfo, kept: int, captured: tuple[StructInfo, ...]) -> FuncStructInfo:
    """Struct info of a function whose parameters from `kept` on are bound."""
    params = info.params or ()
    table, unknown = match_dimensions(params[kept:], captured)

    def bound(inner: StructInfo) -> StructInfo:
        return erase(substitute_struct_info(inner, table), unknown)

    return FuncStructInfo([bound(param) for param in params[:kept]], bound(info.ret), info.purity)


class ClosureCall(TupleCall):
    """Base class of calls of closures."""

    __slots__ = ()

    effects: ClassVar[Effects] = UNKNOWN
    builtin: ClassVar[str] = "vm.builtin.invoke_closure"
    propagates_vdevice: ClassVar[bool] = False
    takes_sinfo_args: ClassVar[bool] = True

    def infer_from_call(self, call: Call, builder: Any, closure: StructInfo, args: StructInfo) -> StructInfo:
        require_function(closure)
        require_tuple(args)
        return result_of(call.sinfo_args)


@operator("relax.invoke_closure")
class InvokeClosure(ClosureCall):
    """Call a closure; it may have any effect."""

    pure: ClassVar[bool] = False

    def infer(self, closure: StructInfo, args: StructInfo) -> StructInfo: ...

    @staticmethod
    def make(closure: RelaxExpr, args: TupleLike, sinfo_args: InfoLike | None = None) -> Call:
        name = "invoke_closure"
        return _call(InvokeClosure(), as_infos(name, sinfo_args), closure, as_arguments(name, args))


@operator("relax.invoke_pure_closure")
class InvokePureClosure(ClosureCall):
    """Call a closure without side effects. (It may reuse an argument in place, which is then not used again.)"""

    def infer(self, closure: StructInfo, args: StructInfo) -> StructInfo: ...

    @staticmethod
    def make(closure: RelaxExpr, args: TupleLike, sinfo_args: InfoLike | None = None) -> Call:
        name = "invoke_pure_closure"
        return _call(InvokePureClosure(), as_infos(name, sinfo_args), closure, as_arguments(name, args))


# --------------------------------------------------------------------------------------- shapes, null


@operator("relax.shape_of")
class ShapeOf(Intrinsic):
    """The shape of a tensor as a shape value."""

    effects: ClassVar[Effects] = Effects(reads=())
    builtin: ClassVar[str] = "vm.builtin.shape_of"
    total: ClassVar[bool] = True
    propagates_vdevice: ClassVar[bool] = False

    def infer(self, expr: TensorStructInfo) -> ShapeStructInfo:
        return ShapeStructInfo(expr.dims, expr.ndim)

    def reference(self, expr: Array) -> tuple[int, ...]:
        return expr.shape


@operator("relax.tensor_to_shape")
class TensorToShape(Intrinsic):
    """The shape whose dimensions are the elements of a one-dimensional int64 tensor."""

    exactness: ClassVar[Exactness] = Exactness.ALWAYS
    builtin: ClassVar[str] = "relax.run.tensor_to_shape"
    propagates_vdevice: ClassVar[bool] = False

    def infer(self, expr: TensorStructInfo) -> ShapeStructInfo:
        self.require(expr.dtype in ("", "int64"), "expr", "an int64 tensor", found=str(expr.dtype))
        self.require(expr.ndim in (-1, 1), "expr", "of one dimension", code=OPERANDS, found=str(expr.ndim))
        count = expr.dims[0] if expr.dims else None
        return ShapeStructInfo(ndim=count.value if isinstance(count, IntImm) else -1)

    def reference(self, expr: Array) -> tuple[int, ...]:
        return tuple(int(size) for size in expr)


@operator("relax.shape_to_tensor")
class ShapeToTensor(Intrinsic):
    """A one-dimensional int64 tensor of a shape's dimensions."""

    exactness: ClassVar[Exactness] = Exactness.ALWAYS
    builtin: ClassVar[str] = "relax.run.shape_to_tensor"
    total: ClassVar[bool] = True

    def infer(self, expr: ShapeStructInfo) -> TensorStructInfo:
        return TensorStructInfo(None if expr.ndim == -1 else (expr.ndim,), "int64", None, 1)

    def reference(self, expr: tuple[int, ...]) -> Array:
        return np.asarray(expr, "int64")


@operator("relax.null_value")
class NullValue(Intrinsic):
    """The null object."""

    builtin: ClassVar[str] = "vm.builtin.null_value"
    total: ClassVar[bool] = True

    def infer(self) -> ObjectStructInfo:
        return ObjectStructInfo()


# ------------------------------------------------------------------------------------ printing, checks


@operator("relax.print")
class Print(Intrinsic):
    """Print values, through a Python format string or one after the other."""

    format: str = ""

    builtin: ClassVar[str] = "relax.run.print"
    pure: ClassVar[bool] = False
    propagates_vdevice: ClassVar[bool] = False

    def infer(self, *values: StructInfo) -> TupleStructInfo:
        return UNIT

    def builtin_arguments(self, call: Call, lowering: Lowering) -> Sequence[RelaxExpr]:
        return StringImm(self.format), *call.args

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        machine.builtin(self.builtin, (self.format, *values))
        return ()


@operator("relax.assert_op")
class AssertOp(Intrinsic):
    """Raise an error with a formatted message unless a bool scalar is true."""

    format: str = ""

    builtin: ClassVar[str] = "relax.run.assert_op"
    pure: ClassVar[bool] = False
    propagates_vdevice: ClassVar[bool] = False

    def infer(self, condition: TensorStructInfo | PrimStructInfo, *values: StructInfo) -> TupleStructInfo:
        dtype = condition.dtype
        self.require(dtype.is_void or dtype.is_bool, "condition", "a bool scalar", found=str(dtype))
        if isinstance(condition, TensorStructInfo):
            rank = condition.ndim
            self.require(rank in (-1, 0), "condition", "a bool scalar", code=OPERANDS, found=f"rank {rank}")
        return UNIT

    def builtin_arguments(self, call: Call, lowering: Lowering) -> Sequence[RelaxExpr]:
        condition, *rest = call.args
        return condition, StringImm(self.format), *rest

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        condition, *rest = values
        machine.builtin(self.builtin, (condition, self.format, *rest))
        return ()

    @staticmethod
    def make(condition: Any, *values: Any, format_args: Any = (), format: str = "") -> Call:
        """``assert_op(cond, x, y, format="…")``, or with the values as `format_args`, one or a list."""
        flat: list[Any] = []
        for value in (*values, format_args):
            flat.extend(as_sequence(value))
        return AssertOp(format).call(condition, *flat)


# --------------------------------------------------------------------------------------------- devices


def as_vdevice(value: Any) -> VDevice:
    """Convert a virtual device, text, or a runtime device (``relax.cpu(1)``) to a virtual device.

    Raises ValueError for another value.
    """
    if isinstance(value, VDevice):
        return value
    if isinstance(value, str):
        return parse_vdevice(value)
    if isinstance(value, Device):
        return VDevice("llvm" if is_cpu(value) else value.type, value.index)
    raise ValueError(f'expected a VDevice or text such as "llvm:0", found {value!r}')


class Placing(Intrinsic):
    """Base class of operators that state the virtual device of their result."""

    __slots__ = ()

    effects: ClassVar[Effects] = Effects(aliases=(0,))
    builtin: ClassVar[str] = "vm.builtin.to_device"
    propagates_vdevice: ClassVar[bool] = False

    dst_vdevice: VDevice = child(converter=as_vdevice)

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        return data.replace(vdevice=self.dst_vdevice)

    def reference(self, data: Array) -> Array:
        return data

    def builtin_arguments(self, call: Call, lowering: Lowering) -> Sequence[RelaxExpr]:
        return call.args[0], lowering.device(self.dst_vdevice, call)

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        return machine.to_vdevice(values[0], self.dst_vdevice)


@operator("relax.to_vdevice")
class ToVDevice(Placing):
    """The tensor on another virtual device: itself if already there, else a copy."""

    def call_effects(self, call: Call) -> Effects:
        info = call.args[0].struct_info_
        source = info.vdevice if isinstance(info, TensorStructInfo) else None
        copies = source is not None and not same_vdevice(source, self.dst_vdevice)
        return Effects() if copies else self.effects


@operator("relax.hint_on_device")
class HintOnDevice(Placing):
    """The tensor itself, annotated with the virtual device on which it should be."""
