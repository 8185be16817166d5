"""Use channels-last layout for tensors between convolution chains, and between int8 convolutions.

Before   with R.dataflow():                                   lv: R.Tensor((n, 24, h, w), "float32")
             lv = R.call_tir(cls.fused_convolutions, (x, …), R.Tensor((n, 24, h, w), "float32"))
             gv = R.call_tir(cls.fused_convolutions1, (lv, …), R.Tensor((n, 24, h, w), "float32"))
             R.output(gv)
After    with R.dataflow():                                   lv: R.Tensor((n, h, w, 24), "float32")
             lv = R.call_tir(cls.fused_convolutions2, (x, …), R.Tensor((n, h, w, 24), "float32"))
             gv = R.call_tir(cls.fused_convolutions3, (lv, …), R.Tensor((n, 24, h, w), "float32"))
             R.output(gv)

A chain (`FuseConvolutions`) multiplies pixels by vectors of channels. From such tensors it reads the pixels where they
are, and stores results as its registers have them, in the place of copying the ones and transposing the others. The
kernels are the same with the dimensions of parameters in another order.

A kernel of one convolution of bytes is a chain here, too, where the machine has dot products of them: four neighbouring
channels of a pixel are a word that these multiply. The schedule rules `ByRows` and `BytePixels` say which parameters of
a kernel may be moved (`images`).

Left alone are tensors that anything but a chain reads, or reads as something else than an image; results of other
kernels; tensors of other numbers than float32 and bytes; chains whose weights are not constants. A
result and the images that are added to it have one order: if one of them is left alone, so are the others. A single
convolution of bytes turns its result itself, so that it may add images of another order. So that turning is paid for,
such a tensor is read or computed by a convolution that turns neither its data nor its result. At optimisation level 0
nothing is done.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..analysis.properties import NORMAL_FORM, PURITY_TRUSTED, SHAPES_LOWERED
from ..analysis.uses import uses_of
from ..expr import BindingBlock, Call, Constant, DataflowBlock, DataflowVar, Function, ShapeExpr, Var, VarBinding
from ..info.relations import is_base_of
from ..ir import GlobalVar, IRModule
from ..ir.transform import PassContext
from ..op import is_call_of
from ..op.intrinsics import CallTIR
from ..rewrite import Rewriter, blocks_in
from ..runtime.records import dataclass
from ..schedules.cpu.convolutions.byte_pixels import BytePixels
from ..schedules.cpu.convolutions.chains.by_rows import ByRows
from ..schedules.cpu.convolutions.chains.chain import DTYPE
from ..schedules.cpu.convolutions.chains.channels_last import RANK, Images
from ..schedules.rule import Refusal
from ..target import Target
from ..tir import Buffer, PrimFunc
from ..tir.nests import nest_of, root_of
from ..tir.permuted_parameters import LAST, with_permuted_parameters
from ..transform.decorators import module_pass
from ..transform.fusion.fuse_tir import without_unused
from ..transform.fusion.kernel_calls import KernelCall, KernelCalls
from .current_target import current_target

LENGTH = 3
"""Convolutions of a chain."""


@module_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED, PURITY_TRUSTED})
def ChannelsLast(mod: IRModule) -> IRModule:
    """Use channels-last layout for tensors between convolution chains; see the module's docstring."""
    if PassContext.current().opt_level == 0:
        return mod
    target = current_target()
    chains = {
        func: images
        for func in mod.functions.values()
        if isinstance(func, PrimFunc) and (images := _images_of(func, target)) is not None
    }
    if not chains:
        return mod
    rewriter = _Calls(mod, chains)
    result = rewriter.module()
    return without_unused(result, rewriter.replaced) if rewriter.replaced else mod


def _images_of(func: PrimFunc, target: Target | None) -> Images | None:
    """Return the images of a kernel that may be moved: of a chain, or of a convolution of bytes; else None."""
    sums = sum(nest is not None and nest.is_reduction for nest in map(nest_of, root_of(func)[1]))
    images: Images | Refusal | None = None
    if sums == LENGTH:
        images = ByRows().images(func)
    elif sums == 1 and target is not None and _has_bytes(func):
        images = BytePixels().images(func, target)
    return None if isinstance(images, Refusal) else images


def _has_bytes(func: PrimFunc) -> bool:
    return any(buffer.ndim == RANK and buffer.dtype == "int8" for buffer in func.buffer_map.values())


@dataclass(frozen=True)
class _ChainCall:
    """A call of a kernel that computes a convolution chain."""

    var: Var
    kernel: KernelCall
    chain: Images

    @property
    def operands(self) -> dict[Buffer, Var]:
        """Return the argument variables by parameter."""
        return {buffer: value for buffer, value in self.kernel.inputs if isinstance(value, Var)}

    def images(self) -> list[Var]:
        """The variables that are given as images: the data, and those that results are computed of."""
        wanted = (*(() if self.chain.is_first else (self.chain.data,)), *self.chain.beside)
        return [value for buffer, value in self.operands.items() if buffer in wanted]

    def beside(self) -> list[Var]:
        """The variables that results are computed of."""
        return [value for buffer, value in self.operands.items() if buffer in self.chain.beside]

    def mixed(self, chosen: set[Var]) -> set[Var]:
        """Variables that are not to be chosen, since not all that the call has in one order are."""
        beside = self.beside()
        if self.chain.data.dtype == DTYPE:
            together = {self.var, *beside} if beside else set[Var]()
            return together if len({var in chosen for var in together}) > 1 else set()
        touched = chosen & {self.var, *self.images()}
        return set() if all(var in chosen for var in beside) else touched

    def turns_nothing(self, chosen: set[Var]) -> bool:
        """True for a chain of float32, and for a convolution of bytes whose data and result both are chosen."""
        data = self.operands.get(self.chain.data)
        return self.chain.data.dtype == DTYPE or (self.var in chosen and data in chosen)

    def has_weights(self) -> bool:
        """True if all weights are constants."""
        constants = {buffer for buffer, value in self.kernel.inputs if isinstance(value, Constant)}
        return all(weights in constants for weights in self.chain.weights)


class _Calls(Rewriter):
    """Calls of kernels whose images have channels behind pixels."""

    def __init__(self, mod: IRModule, chains: Mapping[PrimFunc, Images]) -> None:
        super().__init__(mod)
        self.kernels, self.chains = KernelCalls(mod), chains
        self.last: set[Var] = set()
        """Variables of enclosing blocks that are in channels-last layout."""
        self.replaced: set[str] = set()
        """Names of the replaced kernels."""
        self._made: dict[tuple[str, frozenset[Buffer]], GlobalVar] = {}

    def concerns(self, function: Function) -> bool:
        return any(
            isinstance(block, DataflowBlock) and any(is_call_of(b.value, CallTIR) for b in block.bindings)
            for block in blocks_in(function)
        )

    def block(self, block: BindingBlock) -> BindingBlock:
        if isinstance(block, DataflowBlock):
            self.last |= self._chosen(block)
        return super().block(block)

    def _chosen(self, block: DataflowBlock) -> set[Var]:
        """Choose the variables of a block that become channels-last."""
        calls: list[_ChainCall] = []
        computed: set[Var] = set()
        refused: set[Var] = set()
        for binding in block.bindings:
            call = self._call(binding) if isinstance(binding, VarBinding) else None
            images: list[Var] = []
            if call is not None:
                calls.append(call)
                images = call.images()
                if isinstance(call.var, DataflowVar) and is_base_of(call.var.struct_info, binding.value.struct_info):
                    computed.add(call.var)
            other_values = [value for value in (call.operands.values() if call else ()) if value not in images]
            refused.update(other_values if call else (v for v in uses_of(binding).variables if v is not binding.var))
        chosen = computed - refused
        while chosen:
            mixed = set[Var]().union(*(call.mixed(chosen) for call in calls))
            straight = [call for call in calls if call.turns_nothing(chosen)]
            mixed |= chosen.difference(*({call.var, *call.images()} for call in straight))
            if not mixed:
                break
            chosen -= mixed
        return chosen

    def _call(self, binding: VarBinding) -> _ChainCall | None:
        """A binding as a call of a chain whose weights are known."""
        kernel = self.kernels.of(binding.value)
        chain = None if kernel is None else self.chains.get(kernel.func)
        if kernel is None or chain is None or len(kernel.outputs) != 1 or kernel.returns_tuple:
            return None
        call = _ChainCall(binding.var, kernel, chain)
        return call if call.has_weights() else None

    def var_binding(self, binding: VarBinding) -> None:
        call = self._call(binding) if self.last else None
        moved = set[Buffer]()
        if call is not None:
            moved = {buffer for buffer, value in call.operands.items() if value in self.last}
            moved |= {call.chain.result} if binding.var in self.last else set()
        if call is None or not moved:
            super().var_binding(binding)
            return
        assert isinstance(binding.value, Call)
        _, args, *rest = binding.value.args
        operands = (self._variant(call.kernel, frozenset(moved)), self.rewrite(args), *map(self.rewrite, rest))
        ((_, info),) = call.kernel.outputs
        if binding.var in self.last:
            assert isinstance(info.shape, ShapeExpr)
            dims = info.shape.values
            info = info.replace(shape=ShapeExpr([dims[axis] for axis in LAST]))
        changed = CallTIR().raw_call(operands, (self.info(info),), binding.value.span)
        self.bind(binding, self.builder.normalize(changed))

    def _variant(self, kernel: KernelCall, moved: frozenset[Buffer]) -> GlobalVar:
        """The kernel with channels behind pixels in some parameters."""
        name = kernel.callee.name_hint
        self.replaced.add(name)
        if (name, moved) not in self._made:
            func, _ = with_permuted_parameters(kernel.func, dict.fromkeys(moved, LAST))
            self._made[name, moved] = self.builder.add_func(func, name)
        return self._made[name, moved]
