"""The intrinsics (language.md §7.3): each is an evaluation that is given the call, and evaluates its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

import tvm_ffi

from ..expr import Call, ExternFunc, Var
from ..info.runtime import runtime_device
from ..ir import RelaxExpr
from ..op import operator_of
from ..op.intrinsics import AssertOp, CallTIRInplace, HintOnDevice, Print, ToVDevice
from ..op.tir_calls import output_infos
from ..runtime import ops
from ..runtime.builtins import alloc_storage, alloc_tensor_in, bind_captured, shape_of, to_device
from ..runtime.closure import Closure
from ..runtime.devices import Device
from ..runtime.info import PrimInfo
from ..runtime.tensor import new_tensor, numpy_view
from ..struct_info import TensorStructInfo
from . import matching
from .matching import Origin, name_of
from .scope import Environment
from .steps import Steps


class Evaluator(Protocol):
    """The part of the interpreter that intrinsics use."""

    devices: list[Device]

    def value(self, expr: RelaxExpr, scope: Environment) -> Steps:
        """The value of an expression."""
        ...

    def values(self, exprs: Sequence[RelaxExpr], scope: Environment) -> Steps:
        """The values of several, left to right."""
        ...

    def apply(self, function: Any, args: Sequence[Any]) -> Steps:
        """Call a function value."""
        ...

    def check_result(self, result: Any, call: Call, scope: Environment, callee: str) -> None:
        """Check a result against what the call declares."""
        ...


# ---------------------------------------------------------------------------- destination-passing style


def call_tir(run: Evaluator, call: Call, scope: Environment) -> Steps:
    """Allocate the outputs; call the function with inputs, integers and outputs; return the outputs.

    One output is returned as it is, several as a tuple. In call_tir_inplace an output may be one of the inputs,
    which must then fit; the function is passed that input once.
    """
    callee, inputs, *integers = yield run.values(call.args, scope)
    # Where the outputs are is said by what was derived of the call.
    infos = output_infos(call.sinfo_args if call.struct_info_ is None else (call.struct_info_,))
    operator = operator_of(call)
    reused = operator.inplace_indices if isinstance(operator, CallTIRInplace) else (-1,) * len(infos)
    outputs: list[Any] = []
    for index, info in zip(reused, infos, strict=True):
        if index < 0:
            outputs.append(_allocate(info, scope, run))
        else:
            outputs.append(inputs[index])
            matching.check(
                inputs[index], info, scope, Origin(f"{scope.function}: match_cast of argument {index}", "")
            )
    fresh = [output for index, output in zip(reused, outputs, strict=True) if index < 0]
    yield run.apply(callee, _arranged(callee, inputs, tuple(*integers), fresh))
    return outputs[0] if isinstance(call.sinfo_args[0], TensorStructInfo) else tuple(outputs)


def _allocate(info: TensorStructInfo, scope: Environment, run: Evaluator) -> tvm_ffi.Tensor:
    if isinstance(info.shape, Var):
        shape = tuple(scope[info.shape])
    else:
        shape = tuple(cast(int, scope.evaluate(dim)) for dim in info.dims or ())
    device = _counted(run, 0) if info.vdevice is None else runtime_device(info.vdevice)
    return fresh_tensor(shape, str(info.dtype), device)


def _counted(run: Evaluator, number: int) -> Device | None:
    """A device by its number in the module's list; None, which is the host's first, if it lists none."""
    return run.devices[number] if number < len(run.devices) else None


def fresh_tensor(shape: Sequence[int], dtype: str, device: Device | None = None) -> tvm_ffi.Tensor:
    """A tensor of unlikely contents: NaN, -1, True. Raises ValueError for a negative dimension."""
    tensor = new_tensor(tuple(shape), dtype, device)
    memory = numpy_view(tensor)
    if dtype == "bool":
        memory[...] = True
    elif memory.size:
        memory.reshape(-1).view("uint8")[...] = 0xFF
    return tensor


def _arranged(callee: Any, inputs: Any, integers: Any, outputs: Sequence[Any]) -> list[Any]:
    """Integers stand before the outputs, or after them where the callee's signature ends in one."""
    info = callee.info if isinstance(callee, Closure) else None
    params = info.params if info is not None and info.params is not None else ()
    if integers and params and isinstance(params[-1], PrimInfo):
        return [*inputs, *outputs, *integers]
    return [*inputs, *integers, *outputs]


# -------------------------------------------------------------------------------- packed functions, closures


def call_packed(run: Evaluator, call: Call, scope: Environment) -> Steps:
    """call_pure_packed, call_inplace_packed: an ordinary call; only the compiler cares for what they promise."""
    callee, *args = yield run.values(call.args, scope)
    result = yield run.apply(callee, args)
    run.check_result(result, call, scope, callee_name(call.args[0]))
    return result


def invoke(run: Evaluator, call: Call, scope: Environment) -> Steps:
    """invoke_closure and kin: the arguments come as one tuple."""
    callee, args = yield run.values(call.args, scope)
    result = yield run.apply(callee, args)
    run.check_result(result, call, scope, callee_name(call.args[0]))
    return result


def call_tir_dyn(run: Evaluator, call: Call, scope: Environment) -> Steps:
    """The integers of the last argument, a shape, become the last arguments."""
    callee, args = yield run.values(call.args, scope)
    return (yield run.apply(callee, (*args[:-1], *args[-1])))


def builtin_alloc_tensor(run: Evaluator, call: Call, scope: Environment) -> Steps:
    """A fresh tensor on a device that is given by its number."""
    shape, dtype, number, _ = yield run.values(call.args, scope)
    return fresh_tensor(shape, str(dtype), _counted(run, number))


def memory_alloc_storage(run: Evaluator, call: Call, scope: Environment) -> Steps:
    """Memory for so many elements, on a device that is given by its number."""
    size, number, _, dtype = yield run.values(call.args, scope)
    return alloc_storage(size, dtype, _counted(run, number))


def vm_alloc_storage(run: Evaluator, call: Call, scope: Environment) -> Steps:
    """The same; the dtype comes before the scope."""
    size, number, dtype, _ = yield run.values(call.args, scope)
    return alloc_storage(size, dtype, _counted(run, number))


def make_closure(run: Evaluator, call: Call, scope: Environment) -> Steps:
    """A function whose last parameters are given."""
    callee, captured = yield run.values(call.args, scope)
    return bind_captured(callee, captured)


def callee_name(callee: RelaxExpr) -> str:
    """The name of a callee in messages."""
    return callee.global_symbol if isinstance(callee, ExternFunc) else name_of(callee)


# ---------------------------------------------------------------------------------- simple functions of values


def _print(call: Call, *values: Any) -> tuple[()]:
    ops.print(cast(Print, operator_of(call)).format, *values)
    return ()


def _assert(call: Call, condition: Any, *values: Any) -> tuple[()]:
    ops.assert_op(condition, cast(AssertOp, operator_of(call)).format, *values)
    return ()


def _to_device(call: Call, tensor: Any) -> Any:
    device = cast("ToVDevice | HintOnDevice", operator_of(call)).dst_vdevice
    return to_device(tensor, runtime_device(device))


def _null(call: Call) -> None:
    return None


def _itself(call: Call, value: Any) -> Any:
    return value


def _end_of_life(call: Call, value: Any) -> tuple[()]:
    return ()


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the values alone."""

    def of_call(call: Call, *values: Any) -> Any:
        return function(*values)

    return of_call


_SIMPLE: Final[dict[str, Callable[..., Any]]] = {
    "relax.shape_of": _plain(shape_of),
    "relax.tensor_to_shape": _plain(ops.tensor_to_shape),
    "relax.shape_to_tensor": _plain(ops.shape_to_tensor),
    "relax.null_value": _null,
    "relax.print": _print,
    "relax.assert_op": _assert,
    "relax.to_vdevice": _to_device,
    "relax.hint_on_device": _to_device,
    "relax.builtin.stop_lift_params": _itself,
    "relax.memory.alloc_tensor": _plain(alloc_tensor_in),
    "relax.vm.alloc_tensor": _plain(alloc_tensor_in),
    "relax.memory.kill_storage": _end_of_life,
    "relax.memory.kill_tensor": _end_of_life,
    "relax.vm.kill_object": _end_of_life,
}

Intrinsic = Callable[[Evaluator, Call, Environment], Steps]


def _simple(function: Callable[..., Any]) -> Intrinsic:
    def evaluation(run: Evaluator, call: Call, scope: Environment) -> Steps:
        return function(call, *(yield run.values(call.args, scope)))

    return evaluation


INTRINSICS: Final[dict[str, Intrinsic]] = {
    "relax.call_tir": call_tir,
    "relax.call_tir_inplace": call_tir,
    "relax.call_dps_packed": call_tir,
    "relax.call_pure_packed": call_packed,
    "relax.call_inplace_packed": call_packed,
    "relax.call_builtin_with_ctx": invoke,
    "relax.invoke_closure": invoke,
    "relax.invoke_pure_closure": invoke,
    "relax.vm.call_tir_dyn": call_tir_dyn,
    "relax.make_closure": make_closure,
    "relax.builtin.alloc_tensor": builtin_alloc_tensor,
    "relax.memory.alloc_storage": memory_alloc_storage,
    "relax.vm.alloc_storage": vm_alloc_storage,
    **{name: _simple(function) for name, function in _SIMPLE.items()},
}
"""The intrinsics by the names of their operators."""
