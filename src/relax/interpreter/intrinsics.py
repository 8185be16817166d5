"""Services of the interpreter for intrinsics (language.md §7.3): calls and allocation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import tvm_ffi

from ..expr import Call, ExternFunc, Var
from ..info.runtime import runtime_device
from ..ir import GlobalVar, IRModule, RelaxExpr, VDevice
from ..op.intrinsics import CallDPSPacked
from ..op.tir_calls import output_infos
from ..runtime.builtin_table import BUILTINS
from ..runtime.builtins import alloc_storage, to_device
from ..runtime.closure import Closure
from ..runtime.devices import Device
from ..runtime.info import PrimInfo
from ..runtime.names import with_outputs
from ..runtime.tensor import new_tensor, numpy_view
from ..struct_info import TensorStructInfo
from . import matching
from .matching import name_of
from .scope import Environment
from .steps import Steps


class Evaluator(Protocol):
    """The part of the interpreter that intrinsics use."""

    mod: IRModule
    devices: list[Device]

    def apply(self, function: Any, args: Sequence[Any]) -> Steps:
        """Call a function value."""
        ...

    def extern_value(self, name: str) -> Any:
        """Return the function of a symbol."""
        ...

    def check_result(self, result: Any, call: Call, scope: Environment, callee: str) -> None:
        """Check a result against what the call declares."""
        ...


class Activation:
    """The services in one scope: a `relax.op.intrinsic.IntrinsicServices`."""

    def __init__(self, run: Evaluator, scope: Environment) -> None:
        self.run = run
        self.scope = scope

    def builtin(self, name: str, values: Sequence[Any]) -> Any:
        """The result of a runtime builtin."""
        return BUILTINS[name].function(*values)

    def apply(self, function: Any, args: Sequence[Any]) -> Steps:
        """Call a function value."""
        return self.run.apply(function, args)

    def invoke(self, call: Call, function: Any, args: Sequence[Any]) -> Steps:
        """Call a function value, and check the result against the sinfo_args of the call."""
        result = yield self.run.apply(function, args)
        self.run.check_result(result, call, self.scope, callee_name(call.args[0]))
        return result

    def call_kernel(
        self, call: Call, function: Any, inputs: Any, integers: Any, reused: Sequence[int] | None = None
    ) -> Steps:
        """Call a function with inputs, integers and outputs; return the outputs.

        One output is returned as it is, several as a tuple. An output that is one of the inputs must fit it; the
        function is passed that input once.
        """
        # Where the outputs are is said by what was derived of the call.
        infos = output_infos(call.sinfo_args if call.struct_info_ is None else (call.struct_info_,))
        reused = (-1,) * len(infos) if reused is None else reused
        outputs: list[Any] = []
        for index, info in zip(reused, infos, strict=True):
            if index < 0:
                outputs.append(self._output(info))
            else:
                outputs.append(inputs[index])
                matching.match(inputs[index], info, self.scope, f"match_cast of argument {index}", "")
        fresh = [output for index, output in zip(reused, outputs, strict=True) if index < 0]
        if isinstance(call.attrs, CallDPSPacked):
            function = self._writing(call.args[0], function, len(fresh))
        yield self.run.apply(function, _arranged(function, inputs, integers, fresh))
        return outputs[0] if isinstance(call.sinfo_args[0], TensorStructInfo) else tuple(outputs)

    def _writing(self, callee: RelaxExpr, function: Any, outputs: int) -> Any:
        """Return a callee as a function that writes outputs: a library's function has another name then."""
        if isinstance(callee, GlobalVar):
            callee = self.run.mod[callee.name_hint]
        name = callee.global_symbol if isinstance(callee, ExternFunc) else ""
        return function if with_outputs(name, outputs) == name else self.run.extern_value(with_outputs(name, outputs))

    def _output(self, info: TensorStructInfo) -> tvm_ffi.Tensor:
        if isinstance(info.shape, Var):
            shape = tuple(self.scope[info.shape])
        else:
            shape = tuple(cast(int, self.scope.evaluate(dim)) for dim in info.dims or ())
        device = self._counted(0) if info.vdevice is None else runtime_device(info.vdevice)
        return fresh_tensor(shape, str(info.dtype), device)

    def _counted(self, number: int) -> Device | None:
        """A device by its number in the module's list; None, which is the host's first, if it lists none."""
        return self.run.devices[number] if number < len(self.run.devices) else None

    def allocate(self, shape: Any, dtype: Any, device: int) -> tvm_ffi.Tensor:
        """A fresh tensor on a device of the module's list."""
        return fresh_tensor(shape, str(dtype), self._counted(device))

    def allocate_storage(self, size: Any, dtype: Any, device: int) -> tvm_ffi.Tensor:
        """Memory for `size` elements on a device of the module's list."""
        return alloc_storage(size, dtype, self._counted(device))

    def to_vdevice(self, tensor: Any, vdevice: VDevice) -> Any:
        """The tensor on a virtual device."""
        return to_device(tensor, runtime_device(vdevice))


def fresh_tensor(shape: Sequence[int], dtype: str, device: Device | None = None) -> tvm_ffi.Tensor:
    """Allocate a tensor filled with garbage (NaN, -1, True), which exposes uninitialised reads.

    Raises ValueError for a negative dimension.
    """
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


def callee_name(callee: RelaxExpr) -> str:
    """The name of a callee in messages."""
    return callee.global_symbol if isinstance(callee, ExternFunc) else name_of(callee)
