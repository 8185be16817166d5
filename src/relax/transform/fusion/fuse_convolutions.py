"""Fuse three consecutive convolutions (inverted residual blocks) into one kernel.

Before   with R.dataflow():
             lv = R.call_tir(cls.conv2d_clip, (x, w1, …), …)
             lv1 = R.call_tir(cls.conv2d1_clip, (lv, w2, …), …)
             gv = R.call_tir(cls.conv2d2_add, (lv1, w3, x, …), …)
             R.output(gv)
After    with R.dataflow():
             gv = R.call_tir(cls.fused_convolutions, (x, w1, …, w2, …, w3, …), …)
             R.output(gv)

The first and the last are convolutions of single elements (1 × 1), the one between them is depthwise; they are
recognised by what they compute. The first may have larger windows if it has few input channels, as the first layer of a
network has. Each may have computations of its elements before and behind it, as FuseTIR has put them into its kernel.
The nests of the new kernel are those of the three: the schedule rule `ByRows` arranges them so that lines of the middle
stay in cache.

Left alone are convolutions whose results something else reads, those with weights that are not constants, a first or a
middle one with another tensor of pixels, such as a residual, which lines in cache would have to wait for, windows with
dilation, for which there are no loops by rows, numbers
that are neither float32 nor bfloat16 throughout, few channels of bfloat16, kernels on two sides of a call that may
write to a tensor or on different virtual devices, and calls that are not proved to fit their kernel. At optimisation
level 0 nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable

from ...analysis.effects import effects_of
from ...analysis.properties import NORMAL_FORM, PURITY_TRUSTED, SHAPES_LOWERED
from ...analysis.uses import uses_of
from ...expr import Call, Constant, DataflowBlock, DataflowVar, Var, VarBinding
from ...ir import IRModule
from ...ir.transform import PassContext
from ...prim import IntImm, is_const
from ...tir import Buffer, PrimFunc
from ...tir.convolution import DTYPE, NARROW, RANK, Convolution, convolution_of
from ..decorators import module_pass
from .fuse_ops import movable_kernel
from .fuse_tir import with_merged_kernels
from .kernel_calls import KernelCall, KernelCalls
from .outline_groups import GroupOutliner

NAME = "fused_convolutions"
CHANNEL = 1
"""Channel dimension."""
CHANNELS = 256
"""The least channels between convolutions of bfloat16: images with fewer are large, and writing what is between as
bfloat16 and reading it again takes less than converting it once more in registers."""


@module_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED, PURITY_TRUSTED})
def FuseConvolutions(mod: IRModule) -> IRModule:
    """Fuse three consecutive convolutions into one kernel; see the module's docstring."""
    convolutions = {
        func: convolution
        for func in mod.functions.values()
        if isinstance(func, PrimFunc) and (convolution := convolution_of(func)) is not None
    }
    if PassContext.current().opt_level == 0 or not any(c.is_depthwise for c in convolutions.values()):
        return mod
    grouped = GroupOutliner(
        mod, lambda block, calls: _Block(block, calls, convolutions).chains(), lambda group: NAME
    ).module()
    return mod if grouped is mod else with_merged_kernels(grouped, lambda kernel: kernel)


class _Block:
    """Bindings of a dataflow block by number, with their users."""

    def __init__(self, block: DataflowBlock, calls: KernelCalls, convolutions: dict[PrimFunc, Convolution]) -> None:
        self.bindings = block.bindings
        self.kernels = [movable_kernel(binding, calls) for binding in block.bindings]
        self.convolutions = [None if k is None else convolutions.get(k.func) for k in self.kernels]
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
        for number, convolution in enumerate(self.convolutions):
            chain = self._chain(number) if convolution is not None and convolution.is_depthwise else []
            if len(chain) == 3 and not used & set(chain):
                used |= set(chain)
                groups.append([b for b in map(self.bindings.__getitem__, chain) if isinstance(b, VarBinding)])
        return groups

    def _chain(self, depthwise: int) -> list[int]:
        """The numbers of three convolutions, of which the second one is depthwise; none if there are no such."""
        data = self._operand(depthwise)
        expand = self.numbers.get(data) if isinstance(data, Var) else None
        if expand is None or self.readers[expand] != [depthwise] or len(self.readers[depthwise]) != 1:
            return []
        project = self.readers[depthwise][0]
        chain = [expand, depthwise, project]
        first, last = self.convolutions[expand], self.convolutions[project]
        begins = first is not None and (first.is_of_elements or first.is_first)
        ends = last is not None and last.is_of_elements
        if not begins or not ends or self._operand(project) is not self.bindings[depthwise].var:
            return []
        private = all(isinstance(self.bindings[n].var, DataflowVar) for n in (expand, depthwise))
        private = private and all(map(self._is_of_channels, (expand, depthwise)))
        fits = private and all(map(self._has_weights, chain)) and self.place[expand] == self.place[project]
        fits = fits and self._is_worth_it(chain)
        return chain if fits and len({self._device(number) for number in chain}) == 1 else []

    def _is_worth_it(self, chain: list[int]) -> bool:
        """True for float32, and for bfloat16 with many channels between the convolutions; without dilation."""
        convolutions = [c for c in map(self.convolutions.__getitem__, chain) if c is not None]
        if not all(convolution.is_dense for convolution in convolutions):
            return False
        dtypes = {str(c.data.dtype) for c in convolutions}
        channels = convolutions[-1].weights.shape[1]
        return dtypes == {DTYPE} or (dtypes == {NARROW} and isinstance(channels, IntImm) and channels.value >= CHANNELS)

    def _operand(self, number: int) -> object:
        """The data of a convolution."""
        return self._argument(number, lambda convolution: convolution.data)

    def _is_of_channels(self, number: int) -> bool:
        """True if images that a convolution's kernel reads besides its data have an element to a channel, or one."""
        kernel, convolution = self.kernels[number], self.convolutions[number]
        if kernel is None or convolution is None:
            return False
        own = convolution.data, convolution.weights
        images = [b for b, _ in kernel.inputs if b.ndim == RANK and all(b is not operand for operand in own)]
        return all(is_const(size, 1) for b in images for d, size in enumerate(b.shape) if d != CHANNEL)

    def _has_weights(self, number: int) -> bool:
        """True if the weights of a convolution are a constant."""
        return isinstance(self._argument(number, lambda convolution: convolution.weights), Constant)

    def _argument(self, number: int, of: Callable[[Convolution], Buffer]) -> object:
        kernel, convolution = self.kernels[number], self.convolutions[number]
        if kernel is None or convolution is None:
            return None
        buffer = of(convolution)
        return next((value for candidate, value in kernel.inputs if candidate is buffer), None)

    def _device(self, number: int) -> tuple[int, ...]:
        kernel: KernelCall | None = self.kernels[number]
        return () if kernel is None else tuple(id(info.vdevice) for _, info in kernel.outputs)
