"""Give PrimFuncs the sizes and memory scopes that their calls have.

Before   def main(x: R.Tensor((n, 8), "float32")):
             y = R.call_tir(cls.scale, (x,), R.Tensor((n, 8), "float32"))
             z = R.call_tir(cls.scale, (y,), R.Tensor((n, 8), "float32"))
             return z
         @T.prim_func(private=True)
         def scale(a, b):                                  # buffers of p × q
             for i, j in T.grid(p, q): ...
After    def main(x: R.Tensor((n, 8), "float32")): ...      # the same
         @T.prim_func(private=True)
         def scale(a, b):                                  # buffers of p × 8
             for i, j in T.grid(p, 8): ...

A size becomes a number if every call of the PrimFunc says the same number for it. A buffer that lives in "global"
memory gets the memory scope of the virtual device on which the tensors of every call are, if that is another one: in
TVM the pass is for this; the memory of a CPU has one scope only, and there the sizes are what matters.

A PrimFunc stays as it is if it can be called from outside, if something else than `call_tir` and `call_tir_inplace`
mentions it, or if its calls say different things. Sizes that are parameters of their own (`tir_vars`) stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..analysis.properties import NORMAL_FORM
from ..derive.call_graph import references
from ..derive.context import prim_func_struct_info
from ..expr import Call, Function
from ..ir import GlobalVar, IRModule, Node, StructInfo, children_of
from ..op import is_call_of, operator_of
from ..op.intrinsics import CallTIR, CallTIRInplace
from ..op.tir_calls import arrange, output_infos
from ..prim import IntImm
from ..prim import Var as PrimVar
from ..struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..tir import Buffer, PrimFunc, specialize
from ..tir.functor import substitute
from .decorators import module_pass

Arguments = list[StructInfo | None]
"""The struct info that a call gives for the parameters of a PrimFunc, in order; None for an integer."""


@module_pass(needs={NORMAL_FORM}, breaks=())
def SpecializePrimFuncBasedOnCallSite(mod: IRModule) -> IRModule:
    """Specialize PrimFuncs by what all their calls say; see the module's docstring."""
    calls = _calls_of_kernels(mod)
    return mod.with_functions({
        g: _specialized(f, calls[g.name_hint]) if isinstance(f, PrimFunc) and calls.get(g.name_hint) else f
        for g, f in mod.functions.items()
    })  # fmt: skip


def _calls_of_kernels(mod: IRModule) -> dict[str, list[Call]]:
    """The calls in destination-passing style of each private PrimFunc that nothing else mentions."""
    calls: dict[str, list[Call]] = {
        g.name_hint: [] for g, f in mod.functions.items() if isinstance(f, PrimFunc) and "global_symbol" not in f.attrs
    }
    mentioned: set[str] = set()
    for function in mod.functions.values():
        if not isinstance(function, Function):
            mentioned |= references(function, set(calls))
            continue
        pending: list[Node] = [function]
        while pending:
            node = pending.pop()
            children = children_of(node)
            if isinstance(node, Call) and is_call_of(node, CallTIR, CallTIRInplace):
                callee = node.args[0]
                if isinstance(callee, GlobalVar):
                    calls.get(callee.name_hint, []).append(node)
                    children = [child for child in children if child is not callee]
            if isinstance(node, GlobalVar):
                mentioned.add(node.name_hint)
            pending += [child for child in children if not isinstance(child, StructInfo)]
    return {name: uses for name, uses in calls.items() if name not in mentioned}


def _specialized(function: PrimFunc, calls: list[Call]) -> PrimFunc:
    """A PrimFunc with what all of these calls say of its buffers; itself if that is nothing new."""
    said = [_arguments(function, call) for call in calls]
    complete = [arguments for arguments in said if arguments is not None]
    if len(complete) < len(said):
        return function
    sizes = [_sizes(function, arguments) for arguments in complete]
    params = set(function.params)
    agreed = {
        var: value
        for var, value in sizes[0].items()
        if value is not None and var not in params and all(other[var] == value for other in sizes)
    }
    scopes: dict[Buffer, Buffer] = {}
    for buffer, *_ in _buffers(function, complete[0]):
        storage_scopes = {
            _scope(info) for each in complete for other, info in _buffers(function, each) if other is buffer
        }
        scope = storage_scopes.pop()
        if not storage_scopes and buffer.scope == "global" and scope != "global":
            scopes[buffer] = buffer.replace(scope=scope)
    placed: PrimFunc = substitute(function, scopes)
    return specialize(placed, agreed) if agreed else placed


def _arguments(function: PrimFunc, call: Call) -> Arguments | None:
    """The struct info for each parameter; None if the call does not say how many arguments there are."""
    inputs = call.args[1].struct_info_
    if not isinstance(inputs, TupleStructInfo):
        return None
    count = 0
    if len(call.args) > 2:
        integers = call.args[2].struct_info_
        count = integers.ndim if isinstance(integers, ShapeStructInfo) else -1
    operator, outputs = operator_of(call), list(output_infos(call.sinfo_args))
    if isinstance(operator, CallTIRInplace):
        reused = operator.inplace_indices
        outputs = [output for output, index in zip(outputs, reused, strict=True) if index < 0]
    params = prim_func_struct_info(function).params or ()
    arguments = arrange(list(inputs.fields), [None] * count, outputs, params)
    return arguments if count >= 0 and len(arguments) == len(function.params) else None


def _buffers(function: PrimFunc, arguments: Arguments) -> Iterator[tuple[Buffer, StructInfo | None]]:
    """The buffers of the parameters, each with what a call says of it."""
    for param, info in zip(function.params, arguments, strict=True):
        buffer = function.buffer_map.get(param)
        if buffer is not None:
            yield buffer, info


def _sizes(function: PrimFunc, arguments: Arguments) -> Mapping[PrimVar, int | None]:
    """The number that a call says for each size of a PrimFunc; None where it says none, or several."""
    sizes: dict[PrimVar, set[int]] = {}
    for buffer, info in _buffers(function, arguments):
        dims = info.dims if isinstance(info, TensorStructInfo) else None
        given = dims if dims is not None and len(dims) == buffer.ndim else (None,) * buffer.ndim
        for size, value in zip(buffer.shape, given, strict=True):
            if isinstance(size, PrimVar):
                numbers = sizes.setdefault(size, set())
                if isinstance(value, IntImm) and value.value >= 0:  # negative ones are in code that never runs
                    numbers.add(value.value)
    return {var: next(iter(numbers)) if len(numbers) == 1 else None for var, numbers in sizes.items()}


def _scope(info: StructInfo | None) -> str:
    """The memory in which a tensor is."""
    device = info.vdevice if isinstance(info, TensorStructInfo) else None
    return "global" if device is None else device.memory_scope
