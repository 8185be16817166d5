"""Fuse three consecutive convolutions (inverted residual blocks) into one kernel.

Before   with R.dataflow():
             lv = R.call_tir(cls.conv2d_clip, (x, w1, …), …)
             lv1 = R.call_tir(cls.conv2d1_clip, (lv, w2, …), …)
             gv = R.call_tir(cls.conv2d2_add, (lv1, w3, x, …), …)
             R.output(gv)
After    with R.dataflow():
             gv = R.call_tir(cls.fused_convolutions, (x, w1, …, w2, …, w3, …), …)
             R.output(gv)

Candidates are a depthwise convolution, the kernel whose result it reads, and the only reader of its own result. The
schedule rule `ByRows` says whether it fuses the kernel that FuseTIR would make of the three: it arranges the nests of
such a kernel so that rows of the intermediate images stay in cache.

Left alone are results that something else reads, a first or second kernel that reads another image, kernels before and
after a call that may write to a tensor or on different virtual devices, calls that are not proved to fit their kernel,
and few channels of bfloat16. At optimisation level 0 nothing is done.
"""

from __future__ import annotations

from ..analysis.effects import effects_of
from ..analysis.properties import NORMAL_FORM, PURITY_TRUSTED, SHAPES_LOWERED
from ..analysis.uses import uses_of
from ..expr import Call, Constant, DataflowBlock, DataflowVar, Var, VarBinding
from ..ir import IRModule
from ..ir.transform import PassContext
from ..prim import is_const
from ..runtime.records import dataclass
from ..schedules.cpu.convolutions.chains.by_rows import ByRows
from ..schedules.cpu.convolutions.chains.chain import Link, link_of
from ..schedules.rule import Refusal
from ..tir import Buffer, PrimFunc
from ..transform.decorators import module_pass
from ..transform.fusion.fuse_ops import movable_kernel
from ..transform.fusion.fuse_tir import with_merged_kernels
from ..transform.fusion.kernel_calls import KernelCall, KernelCalls
from ..transform.fusion.merge_kernels import merged_kernel
from ..transform.fusion.outline import outlined
from ..transform.fusion.outline_groups import PRIMITIVE, GroupOutliner
from .current_target import current_target

NAME = "fused_convolutions"
CHANNELS = 256
"""Least channels between convolutions of bfloat16 that are fused: with fewer, images are large, and storing the
intermediate results as bfloat16 takes less time than converting them once more in registers.
"""
RANK = 4


@module_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED, PURITY_TRUSTED})
def FuseConvolutions(mod: IRModule) -> IRModule:
    """Fuse three consecutive convolutions into one kernel; see the module's docstring."""
    kernels = [func for func in mod.functions.values() if isinstance(func, PrimFunc)]
    if PassContext.current().opt_level == 0 or not any(map(_may_be_depthwise, kernels)):
        return mod
    links = _Links({})
    grouped = GroupOutliner(mod, lambda block, calls: _Block(block, calls, links).chains(), lambda group: NAME).module()
    return mod if grouped is mod else with_merged_kernels(grouped, lambda kernel: kernel)


def _may_be_depthwise(func: PrimFunc) -> bool:
    """True if a kernel has weights of one input channel, which takes less time to see than the convolution."""
    return any(buffer.ndim == RANK and is_const(buffer.shape[1], 1) for buffer in func.buffer_map.values())


@dataclass(frozen=True)
class _Links:
    """Convolutions that kernels compute, recognised once."""

    found: dict[PrimFunc, Link | None]

    def of(self, func: PrimFunc) -> Link | None:
        if func not in self.found:
            self.found[func] = link_of(func)
        return self.found[func]


class _Block:
    """Bindings of a dataflow block by number, with their users."""

    def __init__(self, block: DataflowBlock, calls: KernelCalls, links: _Links) -> None:
        self.bindings, self.calls, self.links = block.bindings, calls, links
        self.kernels = [movable_kernel(binding, calls) for binding in block.bindings]
        self.numbers = {binding.var: number for number, binding in enumerate(block.bindings)}
        self.readers: list[list[int]] = [[] for _ in block.bindings]
        self.place: list[int] = []
        """The number of calls before a binding that may write to a tensor."""
        writes = 0
        for number, binding in enumerate(block.bindings):
            uses = uses_of(binding)
            uses.add_definition(binding.var)
            for var in uses.variables:
                if var in self.numbers and var is not binding.var:
                    self.readers[self.numbers[var]].append(number)
            if isinstance(binding.value, Call) and effects_of(binding.value, calls.mod).may_change:
                writes += 1
            self.place.append(writes)

    def chains(self) -> list[list[VarBinding]]:
        """The groups of three convolutions, each in order."""
        groups: list[list[VarBinding]] = []
        used: set[int] = set()
        for number, kernel in enumerate(self.kernels):
            numbers = self._around(number) if kernel is not None and _may_be_depthwise(kernel.func) else []
            group = [b for b in map(self.bindings.__getitem__, numbers) if isinstance(b, VarBinding)]
            if len(group) == 3 and not used & set(numbers) and self._is_fused(group):
                used |= set(numbers)
                groups.append(group)
        return groups

    def _around(self, depthwise: int) -> list[int]:
        """The numbers of a depthwise convolution and those before and behind it; none unless they may move together."""
        link = self._link(depthwise)
        data = None if link is None or not link.is_depthwise else self._argument(depthwise, link.windows.data)
        expand = self.numbers.get(data) if isinstance(data, Var) else None
        if expand is None or self.readers[expand] != [depthwise] or len(self.readers[depthwise]) != 1:
            return []
        numbers = [expand, depthwise, self.readers[depthwise][0]]
        if not all(isinstance(self.bindings[n].var, DataflowVar) for n in numbers[:2]):
            return []
        if self.place[numbers[0]] != self.place[numbers[-1]] or any(self.kernels[n] is None for n in numbers):
            return []
        return numbers if len({self._device(number) for number in numbers}) == 1 else []

    def _is_fused(self, group: list[VarBinding]) -> bool:
        """True if the rule fuses the kernel of a group."""
        merged = outlined(group, {PRIMITIVE: 1})
        kernel = merged_kernel(merged.function, self.calls)
        if kernel is None:
            return False
        constants = [i for i, argument in enumerate(merged.arguments) if isinstance(argument, Constant)]
        accepted = ByRows().accepts(kernel, current_target(), constants)
        if isinstance(accepted, Refusal):
            return False
        return not accepted.chain.is_narrow or accepted.chain.project.inputs >= CHANNELS

    def _link(self, number: int) -> Link | None:
        kernel = self.kernels[number]
        return None if kernel is None else self.links.of(kernel.func)

    def _argument(self, number: int, buffer: Buffer) -> object:
        kernel = self.kernels[number]
        inputs = () if kernel is None else kernel.inputs
        return next((value for candidate, value in inputs if candidate is buffer), None)

    def _device(self, number: int) -> tuple[int, ...]:
        kernel: KernelCall | None = self.kernels[number]
        return () if kernel is None else tuple(id(info.vdevice) for _, info in kernel.outputs)
