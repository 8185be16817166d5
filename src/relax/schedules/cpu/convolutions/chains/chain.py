"""Recognise chains of three convolutions: an expansion, a depthwise and a pointwise convolution.

    E[n, c, y, x] = f(Σ We[c, ci] * X[n, ci, y, x])                                     expands: more channels
    D[n, c, h, w] = g(Σ Wd[c, 0, i, j] * padded E[n, c, h * 2 + i - 1, w * 2 + j - 1])  depthwise
    C[n, co, h, w] = k(Σ Wp[co, c] * D[n, c, h, w])                                     projects: fewer channels

An inverted residual is such a chain, with `X` added in `k`. So is the beginning of a network, with a first layer over
windows of up to 4 channels as the expansion. `f` and `g` depend only on the sum and the channel. Data and weights are
float32, or bfloat16 with float32 sums and intermediates rounded to bfloat16. `chain_of` refuses functions with other
computations, other dtypes, dynamic channel counts, dilated windows and dynamic padding.
"""

from __future__ import annotations

from collections.abc import Sequence

from .....prim import IntImm, PrimExpr, Var, is_const
from .....runtime.records import dataclass
from .....tir import Buffer, BufferLoad, BufferStore, PrimFunc
from .....tir.nests import loads_in, root_of, same_size
from .....tir.usage import free_vars
from ....common_parts import CommonParts
from ....rule import Refusal
from ...large_sums import number_sum
from ..few_channels import FEW
from ..pointwise.pointwise import finished, is_total
from ..windows import LONGEST_SHUFFLE, Axis, Kernel, Windows, rewritten_kernels

DTYPE = "float32"
NARROW = "bfloat16"


@dataclass(frozen=True)
class Finish:
    """Epilogue applied to the accumulators of a convolution."""

    store: BufferStore
    """Store of a result."""
    total: Var
    """Variable in the store's value that stands for the accumulator."""
    channel: Var
    parts: tuple[tuple[Var, PrimExpr], ...]
    """Per-channel values, and the variables in the store's value that stand for them."""

    @property
    def is_of_channel(self) -> bool:
        """True if a result depends only on its accumulator and its channel."""
        known = {id(self.total), *(id(name) for name, _ in self.parts)}
        value = self.store.value
        return not loads_in(value) and all(id(var) in known for var in free_vars(value))


@dataclass(frozen=True)
class Link:
    """One convolution of a chain."""

    windows: Windows
    finish: Finish
    inputs: int
    channels: int

    @property
    def is_depthwise(self) -> bool:
        """True if each output channel reads one input channel, its own."""
        return self.windows.groups == self.channels and self.inputs == 1 and self.windows.depth is not None


@dataclass(frozen=True)
class Chain:
    """Three convolutions, each of which reads the results of the previous one."""

    expand: Link
    depthwise: Link
    project: Link

    @property
    def is_narrow(self) -> bool:
        """True for bfloat16 convolutions."""
        return self.expand.windows.data.dtype == NARROW

    @property
    def is_first(self) -> bool:
        """True if the first convolution is of a network's first layer: it has larger windows over few channels."""
        return any(axis.taps > 1 for axis in self.expand.windows.axes)

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Window axes (rows, columns) of the depthwise convolution."""
        down, along = self.depthwise.windows.axes
        return down, along


def chain_of(func: PrimFunc) -> Chain | Refusal:
    """Return the chain that a function computes."""
    kernels = kernels_of(func)
    if len(kernels) != 3:
        return Refusal("the function is not three convolutions, with elementwise epilogues", unrelated=True)
    links = [link for link in map(_link, kernels) if link is not None]
    if len(links) != 3:
        return Refusal("a convolution is not over two axes, with static channels, in float32 or bfloat16")
    chain = Chain(*links)
    refusal = _refusal(chain)
    if refusal is None and not _is_joined(chain, root_of(func)[0]):
        refusal = Refusal("a convolution does not read the results of the previous one alone")
    return chain if refusal is None else refusal


def link_of(func: PrimFunc) -> Link | None:
    """Return the single convolution that a function computes, as a link of a chain; None for anything else."""
    kernels = kernels_of(func)
    return _link(kernels[0]) if len(kernels) == 1 else None


def kernels_of(func: PrimFunc) -> list[Kernel]:
    """Return the convolutions of a function in order; empty if it computes anything else."""
    kernels: list[Kernel] = []

    def seen(kernel: Kernel) -> Refusal:
        kernels.append(kernel)
        return Refusal("the convolution is one of several")

    rewritten_kernels(func, seen, number_sum)
    return kernels if sum(kernel.parts for kernel in kernels) == len(root_of(func)[1]) else []


def _link(kernel: Kernel) -> Link | None:
    windows = kernel.windows
    inputs, channels = windows.inputs, windows.channels
    dtype = windows.data.dtype
    if not isinstance(inputs, IntImm) or not isinstance(channels, IntImm) or not isinstance(windows.groups, int):
        return None
    if len(windows.axes) != 2 or dtype not in (DTYPE, NARROW) or windows.out.buffer.dtype != DTYPE:
        return None
    finish = _finish(kernel)
    total = channels.value * windows.groups
    dtypes = (DTYPE, NARROW) if dtype == NARROW else (DTYPE,)
    if finish is None or windows.weight.buffer.dtype != dtype or not inputs.value or not total:
        return None
    if finish.store.buffer.dtype not in dtypes:
        return None
    return Link(windows, finish, inputs.value, total)


def _finish(kernel: Kernel) -> Finish | None:
    """Epilogue applied to the accumulators, or None if its per-channel part may raise or is not float32."""
    windows = kernel.windows
    store, total = finished(kernel)
    varying = (total, *(axis.pixel.var for axis in windows.axes), *(v.var for v in windows.batch))
    parts = CommonParts(varying)
    value = parts.visit(store.value)
    if any(part.dtype != DTYPE or not is_total(part) for _, part in parts.values):
        return None
    return Finish(store.replace(value=value), total, windows.channel.var, tuple(parts.values))


def _refusal(chain: Chain) -> Refusal | None:
    """Return what keeps three convolutions from being of the kinds and dtypes of a chain, or None."""
    expand, depthwise, project = chain.expand, chain.depthwise, chain.project
    if not (_is_of_elements(expand) or (not chain.is_narrow and _is_of_few_channels(expand))):
        return Refusal("the first convolution is neither 1×1 nor over few channels of float32")
    if not _is_of_elements(project):
        return Refusal("the last convolution is not 1×1 with stride 1")
    if not depthwise.is_depthwise or not expand.channels == depthwise.channels == project.inputs:
        return Refusal("the convolution in the middle is not depthwise, with a channel for each channel of the first")
    if len({str(link.windows.data.dtype) for link in (expand, depthwise, project)}) > 1:
        return Refusal("the convolutions differ in dtype")
    if not all(_is_dense(axis) for axis in chain.axes):
        return Refusal("the windows of the depthwise convolution are dilated, have gaps, or padding of dynamic size")
    read = {expand.windows.data.data, *(link.windows.weight.buffer.data for link in (expand, depthwise, project))}
    if project.finish.store.buffer.data in read:
        return Refusal("results replace data or weights that other results need")
    if not (expand.finish.is_of_channel and depthwise.finish.is_of_channel):
        return Refusal("an epilogue in the middle depends on more than its sum and its channel")
    return None


def _is_dense(axis: Axis) -> bool:
    """True for windows without dilation or gaps between them, whose padding is static and shorter than a window."""
    padded = isinstance(axis.before, IntImm) and 0 <= axis.before.value < axis.taps
    return axis.dilation == 1 and axis.stride <= axis.taps and padded


def _is_of_elements(link: Link) -> bool:
    """True for a pointwise convolution with one result per data pixel."""
    windows = link.windows
    return (
        not windows.is_grouped
        and windows.depth is not None
        and windows.padding is None
        and all(a.taps == 1 and a.stride == 1 and is_const(a.before, 0) for a in windows.axes)
        and all(same_size(a.size, a.extent) for a in windows.axes)
    )


def _is_of_few_channels(link: Link) -> bool:
    """True for a convolution over few input channels, such as a first layer, whose rows are split by stride phase."""
    windows = link.windows
    return (
        not windows.is_grouped
        and windows.depth is not None
        and link.inputs <= FEW
        and any(a.taps > 1 for a in windows.axes)
        and windows.axes[1].stride <= LONGEST_SHUFFLE
        and all(map(_is_dense, windows.axes))
    )


def _is_joined(chain: Chain, allocated: Sequence[Buffer]) -> bool:
    """True if each convolution reads the results of the previous one, and nothing else reads them."""
    expand, depthwise, project = chain.expand, chain.depthwise, chain.project
    between = (expand.finish.store.buffer, depthwise.finish.store.buffer)
    reads = [load.buffer for load in loads_in(project.finish.store.value)]
    batches = [len(link.windows.batch) for link in (expand, depthwise, project)]
    return (
        all(buffer in allocated for buffer in between)
        and depthwise.windows.data is between[0]
        and project.windows.data is between[1]
        and not any(buffer in reads for buffer in between)
        and chain.expand.windows.data not in between
        and len(set(batches)) == 1
        and _same_shape(expand.windows.axes, depthwise.windows.axes)
    )


def _same_shape(first: Sequence[Axis], second: Sequence[Axis]) -> bool:
    """True if the results of one convolution have the shape of the next one's data."""
    return all(same_size(a.size, b.extent) for a, b in zip(first, second, strict=True))


def weights_of(chain: Chain) -> tuple[Buffer, Buffer, Buffer]:
    """Weights of the three convolutions."""
    loads: list[BufferLoad] = [link.windows.weight for link in (chain.expand, chain.depthwise, chain.project)]
    return loads[0].buffer, loads[1].buffer, loads[2].buffer
