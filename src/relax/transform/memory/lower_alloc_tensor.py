"""Lower each builtin.alloc_tensor to a storage and a tensor in it.

Before   a = R.builtin.alloc_tensor(R.shape([n, 4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
After    storage = R.memory.alloc_storage(R.shape([n * 16]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
         a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([n, 4]), R.dtype("float32"))

For back ends that know storages only: the machine allocates tensors itself, and the default pipeline does without. It
is run after StaticPlanBlockMemory, on what that has left. A tensor stays as it is if its dimensions are not written
out, or if it is on a named device.
"""

from __future__ import annotations

from ...analysis.memory import size_in_bytes
from ...analysis.properties import NO_DATAFLOW, NORMAL_FORM, SHAPES_LOWERED
from ...expr import Call, Function, PrimValue, ShapeExpr, VarBinding
from ...ir import IRModule
from ...op import memory
from ...prim import simplify
from ...rewrite import Rewriter, bindings_in
from ...struct_info import TensorStructInfo
from ..decorators import function_pass
from .arenas import is_allocation


@function_pass(needs={NORMAL_FORM, NO_DATAFLOW}, breaks={SHAPES_LOWERED})
def LowerAllocTensor(func: Function, mod: IRModule) -> Function:
    """Replace builtin.alloc_tensor by memory.alloc_storage and memory.alloc_tensor; see the module's docstring."""
    return _Storages(mod).rewrite_function(func)


class _Storages(Rewriter):
    def concerns(self, function: Function) -> bool:
        return any(is_allocation(binding.value) for binding in bindings_in(function))

    def var_binding(self, binding: VarBinding) -> None:
        value, info = binding.value, binding.var.struct_info_
        if isinstance(value, Call) and is_allocation(value) and isinstance(info, TensorStructInfo):
            tensor = self.tensor(value, info)
            binding = binding if tensor is value else binding.replace(value=tensor)
        super().var_binding(binding)

    def tensor(self, call: Call, info: TensorStructInfo) -> Call:
        """A tensor at the start of a storage of its size; the allocation itself, if that cannot be said."""
        if not isinstance(info.shape, ShapeExpr) or info.vdevice is not None:
            return call
        size = size_in_bytes(info.shape.values, str(info.dtype))
        shape, dtype, device, scope = call.args
        allocated = memory.alloc_storage(ShapeExpr((simplify(size),)), device, scope, "uint8")
        storage = self.builder.emit(allocated.replace(span=call.span), "storage")
        return memory.alloc_tensor(storage, PrimValue(0), shape, dtype).replace(span=call.span)
