"""The intrinsics (language.md §7.3): calls of TIR, packed functions and closures; shapes, checks, devices.

Most say their result in the call's `sinfo_args`. None has a formula: lowering knows them by name.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..expr import Call, ExternFunc, Tuple
from ..info.mapping import substitute_struct_info
from ..info.relations import Level, check_compatible, erase, match_dimensions
from ..ir import GlobalVar, RelaxExpr, StructInfo, VDevice, child, parse_vdevice
from ..prim import IntImm
from ..runtime.builtin_table import BUILTINS, PACKED, UNKNOWN, Effects
from ..runtime.devices import Device, is_cpu
from ..struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .errors import OPERANDS, OperatorError
from .operator import Array, Operator, composite, operator
from .tir_calls import (
    INPLACE,
    SIGNATURE,
    as_arguments,
    as_callee,
    as_infos,
    as_output,
    as_sequence,
    as_shape,
    check_signature,
    output_infos,
    refused,
)

UNIT = TupleStructInfo(())


class Intrinsic(Operator):
    """The base of operators that lowering knows by name: they have no formula, and LegalizeOps leaves them."""

    __slots__ = ()


def result_of(sinfo_args: tuple[StructInfo, ...]) -> StructInfo:
    """Object for no sinfo_args, the one given, a Tuple of several."""
    if not sinfo_args:
        return ObjectStructInfo()
    return sinfo_args[0] if len(sinfo_args) == 1 else TupleStructInfo(sinfo_args)


def _callee_info(call: Call, builder: Any, known: StructInfo) -> StructInfo:
    """The struct info of the first argument; a module that is being built knows its functions best."""
    callee = call.args[0]
    if isinstance(callee, GlobalVar) and hasattr(builder, "global_struct_info"):
        return builder.global_struct_info(callee) or known
    return known


def _call(made: Operator, sinfo_args: tuple[StructInfo, ...], *args: Any) -> Call:
    return made.call(*args).replace(sinfo_args=sinfo_args)


# ----------------------------------------------------------------------------------------- TIR, packed


@operator("relax.call_tir")
class CallTIR(Intrinsic):
    """Allocate the outputs, call a PrimFunc with inputs, integers (`tir_vars`) and outputs; return the outputs.

    `out_sinfo` is one tensor's struct info (that tensor is returned) or a list (a tuple is). The
    older spelling gives shapes and a dtype: ``call_tir(f, args, (m, n), dtype="float32")``.
    """

    takes_sinfo_args: ClassVar[bool] = True

    def infer(
        self, gvar: StructInfo, args: StructInfo, tir_vars: ShapeStructInfo | None = None
    ) -> StructInfo: ...

    def infer_from_call(
        self,
        call: Call,
        builder: Any,
        gvar: StructInfo,
        args: StructInfo,
        tir_vars: StructInfo | None = None,
    ) -> StructInfo:
        require_tuple(args)
        outputs = output_infos(call.sinfo_args)
        check_signature(_callee_info(call, builder, gvar), args, tir_vars, outputs)
        return call.sinfo_args[0]

    @staticmethod
    def make(
        gvar: Any,
        args: Any,
        out_sinfo: Any = None,
        tir_vars: Any = None,
        *,
        dtype: Any = None,
        output_shape: Any = None,
    ) -> Call:
        name = "call_tir"
        out = as_output(name, output_shape if out_sinfo is None else out_sinfo, dtype)
        return _call(
            CallTIR(), (out,), as_callee(name, gvar), as_arguments(name, args), as_shape(name, tir_vars)
        )


def require_tuple(args: StructInfo) -> None:
    """The arguments are a tuple, or a value that may be one."""
    if not isinstance(args, (TupleStructInfo, ObjectStructInfo)):
        raise OperatorError(OPERANDS, f"args must be a tuple, found {args}", operand="args")


@operator("relax.call_tir_inplace")
class CallTIRInplace(Intrinsic):
    """Like call_tir, but output i reuses the argument `inplace_indices[i]` (-1: a fresh tensor).

    The PrimFunc takes inputs, integers and the fresh outputs. The reused arguments must not be used again.
    """

    takes_sinfo_args: ClassVar[bool] = True

    inplace_indices: tuple[int, ...]

    def reused(self, call: Call) -> tuple[RelaxExpr, tuple[int, ...]]:
        return call.args[1], tuple(index for index in self.inplace_indices if index >= 0)

    def infer(
        self, gvar: StructInfo, args: StructInfo, tir_vars: ShapeStructInfo | None = None
    ) -> StructInfo: ...

    def infer_from_call(
        self,
        call: Call,
        builder: Any,
        gvar: StructInfo,
        args: StructInfo,
        tir_vars: StructInfo | None = None,
    ) -> StructInfo:
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

    @staticmethod
    def make(gvar: Any, args: Any, inplace_indices: Any, out_sinfo: Any = None, tir_vars: Any = None) -> Call:
        name = "call_tir_inplace"
        indices = as_indices(name, inplace_indices)
        return _call(
            CallTIRInplace(indices),
            (as_output(name, out_sinfo, None),),
            as_callee(name, gvar),
            as_arguments(name, args),
            as_shape(name, tir_vars),
        )


def as_indices(op_name: str, indices: Any) -> tuple[int, ...]:
    """Argument positions from an integer or a list of them."""
    given = as_sequence(indices)
    for index in given:
        if not isinstance(index, (int, np.integer, IntImm)) or isinstance(index, bool):
            raise refused(op_name, f"inplace_indices holds a {type(index).__name__}, expected integers")
    return tuple(int(index) for index in given)


def check_inplace_indices(indices: tuple[int, ...], results: int, args: StructInfo, what: str) -> None:
    """One index per result, each an argument or -1, none twice, and at least one that names an argument."""
    if len(indices) != results:
        raise OperatorError(
            INPLACE, f"{len(indices)} inplace_indices for {results} {what}{'s' * (results != 1)}"
        )
    count = len(args.fields) if isinstance(args, TupleStructInfo) else None
    seen: set[int] = set()
    for index in indices:
        if index < -1 or (count is not None and index >= count):
            known = "" if count is None else f"; there are {count}, counted from 0"
            raise OperatorError(
                INPLACE, f"inplace_indices: there is no argument {index}{known}", operand="args"
            )
        if index in seen:
            raise OperatorError(INPLACE, f"inplace_indices: argument {index} is named twice", operand="args")
        if index >= 0:
            seen.add(index)
    if not seen:
        raise OperatorError(INPLACE, "inplace_indices names no argument", hint="use the call that allocates")


@operator("relax.call_dps_packed")
class CallDPSPacked(Intrinsic):
    """Allocate the outputs, call a packed function with inputs and outputs; return the outputs."""

    propagates_vdevice: ClassVar[bool] = False

    takes_sinfo_args: ClassVar[bool] = True

    def infer(self, func: StructInfo, args: StructInfo) -> StructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, func: StructInfo, args: StructInfo) -> StructInfo:
        require_tuple(args)
        outputs = output_infos(call.sinfo_args)
        check_signature(_callee_info(call, builder, func), args, None, outputs)
        return call.sinfo_args[0]

    @staticmethod
    def make(
        func: Any, args: Any, out_sinfo: Any = None, *, dtype: Any = None, output_shape: Any = None
    ) -> Call:
        name = "call_dps_packed"
        out = as_output(name, output_shape if out_sinfo is None else out_sinfo, dtype)
        return _call(CallDPSPacked(), (out,), as_callee(name, func), as_arguments(name, args))


@composite("relax.call_packed")
def call_packed(func: Any, *args: Any, sinfo_args: Any = None) -> Call:
    """An ordinary call of a packed function, which may have any effect."""
    callee = as_callee("call_packed", func)
    return Call(callee, args, None, as_infos("call_packed", sinfo_args))


@operator("relax.call_pure_packed")
class CallPurePacked(Intrinsic):
    """Call a packed function of which the caller says that it has no visible effect."""

    propagates_vdevice: ClassVar[bool] = False

    def call_effects(self, call: Call) -> Effects:
        callee = call.args[0]
        if not isinstance(callee, ExternFunc) or callee.global_symbol not in BUILTINS:
            return PACKED
        return BUILTINS[callee.global_symbol].effects.after(1)

    takes_sinfo_args: ClassVar[bool] = True

    def infer(self, func: StructInfo, *args: StructInfo) -> StructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, func: StructInfo, *args: StructInfo) -> StructInfo:
        require_function(func)
        return result_of(call.sinfo_args)

    @staticmethod
    def make(func: Any, *args: Any, sinfo_args: Any = None) -> Call:
        name = "call_pure_packed"
        return _call(CallPurePacked(), as_infos(name, sinfo_args), as_callee(name, func), *args)


def require_function(func: StructInfo) -> None:
    """The callee is a function, or a value that may be one."""
    if not isinstance(func, (FuncStructInfo, ObjectStructInfo)):
        raise OperatorError(OPERANDS, f"the callee must be a function, found {func}", operand="func")


@operator("relax.call_inplace_packed")
class CallInplacePacked(Intrinsic):
    """Call a packed function that changes only the arguments `inplace_indices`, which are not used again.

    Result i is the argument `inplace_indices[i]`, or (-1) a new value.
    """

    propagates_vdevice: ClassVar[bool] = False

    takes_sinfo_args: ClassVar[bool] = True

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
    def make(func: Any, *args: Any, inplace_indices: Any, sinfo_args: Any = None) -> Call:
        name = "call_inplace_packed"
        made = CallInplacePacked(as_indices(name, inplace_indices))
        return _call(made, as_infos(name, sinfo_args), as_callee(name, func), *args)


@operator("relax.call_builtin_with_ctx")
class CallBuiltinWithCtx(Intrinsic):
    """Call a builtin of the machine, which gets the machine as its first argument. It may have any effect."""

    effects: ClassVar[Effects] = UNKNOWN
    propagates_vdevice: ClassVar[bool] = False

    takes_sinfo_args: ClassVar[bool] = True
    pure: ClassVar[bool] = False

    def infer(self, func: StructInfo, args: StructInfo) -> StructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, func: StructInfo, args: StructInfo) -> StructInfo:
        require_tuple(args)
        return result_of(call.sinfo_args)

    @staticmethod
    def make(func: Any, args: Any, *, sinfo_args: Any = None) -> Call:
        name = "call_builtin_with_ctx"
        infos = as_infos(name, sinfo_args)
        return _call(CallBuiltinWithCtx(), infos, as_callee(name, func), as_arguments(name, args))


# -------------------------------------------------------------------------------------------- closures


@operator("relax.make_closure")
class MakeClosure(Intrinsic):
    """A closure of a global function whose last parameters are given: the values it captures."""

    effects: ClassVar[Effects] = Effects(reads=(), aliases="all")
    propagates_vdevice: ClassVar[bool] = False

    total = True

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

    @staticmethod
    def make(func: Any, args: Any = ()) -> Call:
        name = "make_closure"
        return MakeClosure().call(as_callee(name, func), as_arguments(name, args))


def _partial(info: FuncStructInfo, kept: int, captured: tuple[StructInfo, ...]) -> FuncStructInfo:
    """The struct info of a function whose parameters from `kept` on are given."""
    params = info.params or ()
    table, unknown = match_dimensions(params[kept:], captured)

    def bound(part: StructInfo) -> StructInfo:
        return erase(substitute_struct_info(part, table), unknown)

    return FuncStructInfo([bound(param) for param in params[:kept]], bound(info.ret), info.purity)


@operator("relax.invoke_closure")
class InvokeClosure(Intrinsic):
    """Call a closure; it may have any effect."""

    effects: ClassVar[Effects] = UNKNOWN
    propagates_vdevice: ClassVar[bool] = False

    takes_sinfo_args: ClassVar[bool] = True
    pure: ClassVar[bool] = False

    def infer(self, closure: StructInfo, args: StructInfo) -> StructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, closure: StructInfo, args: StructInfo) -> StructInfo:
        require_function(closure)
        require_tuple(args)
        return result_of(call.sinfo_args)

    @staticmethod
    def make(closure: RelaxExpr, args: Any, sinfo_args: Any = None) -> Call:
        name = "invoke_closure"
        return _call(InvokeClosure(), as_infos(name, sinfo_args), closure, as_arguments(name, args))


@operator("relax.invoke_pure_closure")
class InvokePureClosure(Intrinsic):
    """Call a closure that has no visible effect. (It may reuse an argument in place, which is then not used again.)"""

    effects: ClassVar[Effects] = UNKNOWN
    propagates_vdevice: ClassVar[bool] = False

    takes_sinfo_args: ClassVar[bool] = True

    def infer(self, closure: StructInfo, args: StructInfo) -> StructInfo: ...

    def infer_from_call(self, call: Call, builder: Any, closure: StructInfo, args: StructInfo) -> StructInfo:
        require_function(closure)
        require_tuple(args)
        return result_of(call.sinfo_args)

    @staticmethod
    def make(closure: RelaxExpr, args: Any, sinfo_args: Any = None) -> Call:
        name = "invoke_pure_closure"
        return _call(InvokePureClosure(), as_infos(name, sinfo_args), closure, as_arguments(name, args))


# --------------------------------------------------------------------------------------- shapes, null


@operator("relax.shape_of")
class ShapeOf(Intrinsic):
    """The shape of a tensor, as a shape value."""

    effects: ClassVar[Effects] = Effects(reads=())
    total = True

    propagates_vdevice: ClassVar[bool] = False

    def infer(self, expr: TensorStructInfo) -> ShapeStructInfo:
        return ShapeStructInfo(expr.dims, expr.ndim)

    def reference(self, expr: Array) -> tuple[int, ...]:
        return expr.shape


@operator("relax.tensor_to_shape")
class TensorToShape(Intrinsic):
    """The shape whose dimensions are the elements of a one-dimensional int64 tensor."""

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

    total = True

    def infer(self, expr: ShapeStructInfo) -> TensorStructInfo:
        return TensorStructInfo(None if expr.ndim == -1 else (expr.ndim,), "int64", None, 1)

    def reference(self, expr: tuple[int, ...]) -> Array:
        return np.asarray(expr, "int64")


@operator("relax.null_value")
class NullValue(Intrinsic):
    """The null object."""

    total = True

    def infer(self) -> ObjectStructInfo:
        return ObjectStructInfo()


# ------------------------------------------------------------------------------------ printing, checks


@operator("relax.print")
class Print(Intrinsic):
    """Print values, through a Python format string or one after the other."""

    format: str = ""

    pure: ClassVar[bool] = False
    propagates_vdevice: ClassVar[bool] = False

    def infer(self, *values: StructInfo) -> TupleStructInfo:
        return UNIT


@operator("relax.assert_op")
class AssertOp(Intrinsic):
    """Raise an error, made of a format string and values, unless a bool scalar holds."""

    format: str = ""

    pure: ClassVar[bool] = False
    propagates_vdevice: ClassVar[bool] = False

    def infer(self, condition: TensorStructInfo | PrimStructInfo, *values: StructInfo) -> TupleStructInfo:
        dtype = condition.dtype
        self.require(dtype.is_void or dtype.is_bool, "condition", "a bool scalar", found=str(dtype))
        if isinstance(condition, TensorStructInfo):
            rank = condition.ndim
            self.require(rank in (-1, 0), "condition", "a bool scalar", code=OPERANDS, found=f"rank {rank}")
        return UNIT

    @staticmethod
    def make(condition: Any, *values: Any, format_args: Any = (), format: str = "") -> Call:
        """``assert_op(cond, x, y, format="…")``, or with the values as `format_args`, one or a list."""
        flat: list[Any] = []
        for value in (*values, format_args):
            flat.extend(as_sequence(value))
        return AssertOp(format).call(condition, *flat)


# --------------------------------------------------------------------------------------------- devices


def as_vdevice(value: Any) -> VDevice:
    """A virtual device, given as one, by text, or by a device of the machine (``relax.cpu(1)``)."""
    if isinstance(value, VDevice):
        return value
    if isinstance(value, str):
        return parse_vdevice(value)
    if isinstance(value, Device):
        return VDevice("llvm" if is_cpu(value) else value.type, value.index)
    raise ValueError(f'expected a VDevice or text such as "llvm:0", found {value!r}')


@operator("relax.to_vdevice")
class ToVDevice(Intrinsic):
    """The tensor on another virtual device: itself if it is there, else a copy."""

    effects: ClassVar[Effects] = Effects(aliases=(0,))
    dst_vdevice: VDevice = child(converter=as_vdevice)

    propagates_vdevice: ClassVar[bool] = False

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        return data.replace(vdevice=self.dst_vdevice)

    def reference(self, data: Array) -> Array:
        return data


@operator("relax.hint_on_device")
class HintOnDevice(Intrinsic):
    """The tensor itself, with the remark that it belongs on a device."""

    effects: ClassVar[Effects] = Effects(aliases=(0,))
    dst_vdevice: VDevice = child(converter=as_vdevice)

    propagates_vdevice: ClassVar[bool] = False

    def infer(self, data: TensorStructInfo) -> TensorStructInfo:
        return data.replace(vdevice=self.dst_vdevice)

    def reference(self, data: Array) -> Array:
        return data
