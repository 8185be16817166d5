"""Group kernels to be fused: each group becomes a Primitive function, which FuseTIR turns into one kernel.

Before   with R.dataflow():                                      After   with R.dataflow():
             lv = R.call_tir(cls.add, (x, y), …)                             gv = cls.fused_add_relu(x, y)
             gv = R.call_tir(cls.relu, (lv,), …)                             R.output(gv)
             R.output(gv)
                                                                 @R.function(private=True)
                                                                 def fused_add_relu(x, y):
                                                                     R.func_attr({"Primitive": 1})
                                                                     with R.dataflow(): … as before

The kinds of kernels are those that AnnotateTIROpPattern writes; a kernel without one is left alone. Groups are made by
post-dominators (`relax.transform.fusion.groups`): chains and diamonds of elementwise, broadcasting and injective
kernels, with a reduction at the end perhaps; and reductions and contractions with the elementwise kernels behind them.
A kernel with several outputs counts with the projections that take them out of its tuple. Constants become parameters.

Dataflow blocks in branches and local functions are fused too. A size that only an output's struct info mentions is a
dependency: the function gets it as R.Shape.

Left alone are

* calls that are not proved to fit their kernel (`relax.transform.fusion.kernel_calls`), calls in place, and calls of
  anything but PrimFuncs;
* kernels on two sides of a call that may write to a tensor, and on different virtual devices;
* results that the block gives away, but as the last of a group;
* what makes floats of bytes at the end of a group, if one other group reads the floats: it joins that group, so that
  bytes are stored between them;
* reshapes behind all others of a group: RewriteDataflowReshape makes views of them, and loops over the shape before are
  faster than such as divide indices.

`fuse_opt_level`: 0 fuses nothing; -1 takes the level of the PassContext. The context's config entry
`relax.FuseOps.max_depth` bounds the number of kernels in a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...analysis.effects import effects_of
from ...analysis.properties import NORMAL_FORM, PURITY_TRUSTED, SHAPES_LOWERED
from ...analysis.uses import uses_of
from ...expr import Binding, Call, Constant, DataflowBlock, DataflowVar, TupleGetItem, Var, VarBinding
from ...ir import IRModule
from ...ir.transform import PassContext
from ...struct_info import TensorStructInfo
from ...tir.flat_copy import is_flat_copy
from ...tir.nests import same_size
from ...tir.op_pattern import OpPatternKind
from ..decorators import module_pass
from ..rewrite_dataflow_reshape import private_in_block
from .annotate_tir_op_pattern import OP_PATTERN
from .groups import FusionNode, fusion_groups
from .kernel_calls import KernelCall, KernelCalls, dims_of
from .outline import can_be_passed, sizes_in
from .outline_groups import GroupOutliner

MAX_DEPTH: Final = "relax.FuseOps.max_depth"
LONGEST_NAME: Final = 60


@module_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED, PURITY_TRUSTED})
def FuseOps(mod: IRModule, fuse_opt_level: int = -1) -> IRModule:
    """Group kernels into functions; see the module's docstring."""
    context = PassContext.current()
    level = context.opt_level if fuse_opt_level == -1 else fuse_opt_level
    if level == 0:
        return mod
    max_depth = int(context.config.get(MAX_DEPTH, 256))
    return GroupOutliner(mod, lambda block, calls: groups_of(block, calls, max_depth), _name).module()


# --------------------------------------------------------------------------------------- the graph


def groups_of(block: DataflowBlock, calls: KernelCalls, max_depth: int) -> list[list[VarBinding]]:
    """The groups of bindings to fuse in a block, each in order."""
    bindings = block.bindings
    numbers = {binding.var: number for number, binding in enumerate(bindings)}
    kernels = [_fusable(binding, calls) for binding in bindings]
    nodes: list[FusionNode] = []
    writes = 0
    for number, (binding, kernel) in enumerate(zip(bindings, kernels, strict=True)):
        source = _projected(binding, numbers, nodes)
        kind = OpPatternKind.OPAQUE
        if kernel is not None:
            kind = OpPatternKind(kernel.func.attrs[OP_PATTERN])
        elif source is not None:
            kind = OpPatternKind.ELEMWISE
        if isinstance(binding.value, Call) and effects_of(binding.value, calls.mod).may_change:
            writes += 1
        region = nodes[source].place if source is not None else (writes, _devices(kernel))
        nodes.append(FusionNode(kind, [], not isinstance(binding.var, DataflowVar), region))
        for var in _used(binding):
            if var in numbers and numbers[var] < number:
                nodes[numbers[var]].consumers.append((number, _edge(var, kernel, kind)))
    private = private_in_block(block, calls.mod)
    viewed = [
        kernel is not None and binding.var in private and is_flat_copy(kernel.func)
        for binding, kernel in zip(bindings, kernels, strict=True)
    ]
    groups = _with_narrow_results(fusion_groups(nodes, max_depth), nodes, kernels)
    groups = [_without_views(group, viewed) for group in groups]
    chosen = [group for group in groups if sum(kernels[i] is not None for i in group) > 1]
    return [_with_sources([bindings[i] for i in group]) for group in chosen]


def _with_narrow_results(
    groups: Sequence[list[int]], nodes: Sequence[FusionNode], kernels: Sequence[KernelCall | None]
) -> list[list[int]]:
    """The groups, of which none ends by making floats of bytes that one other group reads: that group makes them."""
    result = [list(group) for group in groups]
    owners = {number: group for group in result for number in group}
    for group in result:
        last = group[-1] if group else 0
        if len(group) < 2 or nodes[last].is_external or not _widens_bytes(kernels[last]):
            continue
        readers = [number for number, _ in nodes[last].consumers]
        reader_groups = {id(owners.get(number)): owners.get(number) for number in readers}
        reader = next(iter(reader_groups.values()), None)
        if len(reader_groups) != 1 or reader is None or nodes[readers[0]].place != nodes[last].place:
            continue
        plain = all(edge == OpPatternKind.ELEMWISE for _, edge in nodes[last].consumers)
        if plain and all(nodes[number].kind <= OpPatternKind.BROADCAST for number in readers):
            group.remove(last)
            reader.append(last)
            reader.sort()
            owners[last] = reader
    return result


def _widens_bytes(kernel: KernelCall | None) -> bool:
    """True for a kernel that makes one wider number of each byte of its first operand."""
    if kernel is None or kernel.func.attrs[OP_PATTERN] != OpPatternKind.ELEMWISE or len(kernel.outputs) != 1:
        return False
    infos = kernel.inputs[0][1].struct_info_, kernel.outputs[0][1]
    if not all(isinstance(info, TensorStructInfo) for info in infos):
        return False
    source, result = (info for info in infos if isinstance(info, TensorStructInfo))
    return source.dtype.is_integer and source.dtype.bits == 8 and result.dtype.bits > 8


def _without_views(group: list[int], viewed: Sequence[bool]) -> list[int]:
    """Return a group without trailing reshapes, which are free as views."""
    while group and viewed[group[-1]]:
        group = group[:-1]
    return group


def _with_sources(group: Sequence[Binding]) -> list[VarBinding]:
    """A group without the projections out of tuples that others make: it is given what they take, not the tuple."""
    bound = {binding.var for binding in group}
    return [
        b
        for b in group
        if isinstance(b, VarBinding) and not (isinstance(b.value, TupleGetItem) and b.value.tuple_value not in bound)
    ]


def _fusable(binding: Binding, calls: KernelCalls) -> KernelCall | None:
    kernel = movable_kernel(binding, calls)
    if kernel is None or kernel.func.attrs.get(OP_PATTERN, OpPatternKind.OPAQUE) >= OpPatternKind.TUPLE:
        return None
    return kernel


def movable_kernel(binding: Binding, calls: KernelCalls) -> KernelCall | None:
    """The kernel that a binding calls, if a function of its own can be given all that the call reads."""
    kernel = calls.of(binding.value) if isinstance(binding, VarBinding) else None
    if kernel is None or not all(isinstance(value, Var | Constant) for _, value in kernel.inputs):
        return None
    return kernel if can_be_passed(sizes_in([binding])) else None


def _projected(binding: Binding, numbers: dict[Var, int], nodes: Sequence[FusionNode]) -> int | None:
    """The number of the kernel whose output a binding takes out of the tuple; None if it does not."""
    match binding:
        case VarBinding(_, TupleGetItem(Var() as source)) if source in numbers:
            number = numbers[source]
            return number if nodes[number].kind < OpPatternKind.TUPLE else None
        case _:
            return None


def _devices(kernel: KernelCall | None) -> tuple[object, ...]:
    infos = () if kernel is None else kernel.outputs
    return tuple({id(info.vdevice): None for _, info in infos})


def _used(binding: Binding) -> list[Var]:
    uses = uses_of(binding)
    uses.add_definition(binding.var)
    return [var for var in uses.variables if var is not binding.var]


def _edge(var: Var, kernel: KernelCall | None, kind: OpPatternKind) -> OpPatternKind:
    """The kind of operand that a variable is: elementwise if it has the shape of an output."""
    if kernel is None or kind > OpPatternKind.BROADCAST:
        return kind
    dims = dims_of(var.struct_info_)
    for _, info in kernel.outputs if dims is not None else ():
        other = dims_of(info) or ()
        if dims is not None and len(dims) == len(other) and all(map(same_size, dims, other)):
            return OpPatternKind.ELEMWISE
    return OpPatternKind.BROADCAST


def _name(group: Sequence[VarBinding]) -> str:
    """Return "fused_" followed by the kernels' names, cut to a maximum length."""
    name = "fused"
    for binding in group:
        match binding.value:
            case Call(_, (callee, *_)) if len(name) < LONGEST_NAME:
                name += f"_{getattr(callee, 'name_hint', '')}"
            case _:
                pass
    return name
