"""Group the kernels of attention that a model spells out: the group becomes one kernel, which streams keys and values.

Before   with R.dataflow():                                          After   with R.dataflow():
             lv = R.call_tir(cls.transpose, (q,), …)                             gv = cls.fused_attention(q, k, v, mask)
             lv1 = R.call_tir(cls.transpose1, (k,), …)                           R.output(gv)
             lv2 = R.call_tir(cls.matmul, (lv, lv1), …)
             lv3 = R.call_tir(cls.divide, (lv2, R.const(8.0)), …)    @R.function(private=True)
             lv4 = R.call_tir(cls.add, (lv3, mask), …)               def fused_attention(q, k, v, mask):
             lv5 = R.call_tir(cls.softmax, (lv4,), …)                    R.func_attr({"Primitive": 1})
             lv6 = R.call_tir(cls.transpose, (v,), …)                    with R.dataflow(): … as before
             lv7 = R.call_tir(cls.matmul1, (lv5, lv6), …)
             gv = R.call_tir(cls.transpose, (lv7,), …)
             R.output(gv)

The schedule rule `StreamedAttention` says which kernels, merged as FuseTIR merges them, it streams: so the results are
those of the same formulas. FuseOps, which runs next, keeps to the kernels that are left.

A group begins with a product and ends with another one that reads what was made of it; in between may stand anything
that makes scores of products, and the softmax. Transposes of operands join it if nothing else reads them, and so do
transposes and conversions of the result. Weights that are converted to a narrower dtype before they are used, as
ToMixedPrecision has them, are rounded in the kernel too.

Left alone are scores, weights and products that something else reads, kernels on two sides of a call that may write to
a tensor or on different virtual devices, calls that are not proved to fit their kernel, scores of 16-bit floats, and
weights that are rounded where keys or values do not lie in rows: separate products are faster then.
`relax.FuseOps` at level 0 does nothing, nor does this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..analysis.effects import effects_of
from ..analysis.properties import NORMAL_FORM, PURITY_TRUSTED, SHAPES_LOWERED
from ..analysis.uses import uses_of
from ..expr import Call, DataflowBlock, DataflowVar, Function, VarBinding
from ..ir import IRModule, quick_hash, structural_equal
from ..ir.transform import PassContext
from ..prim import Cast, FloatImm, free_vars
from ..prim import Var as PrimVar
from ..schedules.cpu import StreamedAttention
from ..schedules.rule import Refusal
from ..tir import BufferLoad, BufferStore, PrimFunc
from ..tir.inline_blocks import inline_blocks
from ..tir.nests import Nest, nest_of, root_of
from ..tir.op_pattern import OpPatternKind
from ..transform.decorators import module_pass
from ..transform.fusion.annotate_tir_op_pattern import OP_PATTERN
from ..transform.fusion.fuse_ops import movable_kernel
from ..transform.fusion.kernel_calls import KernelCall, KernelCalls
from ..transform.fusion.merge_kernels import merged_kernel
from ..transform.fusion.outline import outlined
from ..transform.fusion.outline_groups import PRIMITIVE, GroupOutliner
from .current_target import current_target


@module_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED, PURITY_TRUSTED})
def FuseAttention(mod: IRModule) -> IRModule:
    """Group the kernels of attention; see the module's docstring."""
    kernels = [func for func in mod.functions.values() if isinstance(func, PrimFunc)]
    if PassContext.current().opt_level == 0 or not any(map(_has_maximum, kernels)):
        return mod
    decided = _Decided({}, {})
    return GroupOutliner(
        mod, lambda block, calls: _Block(block, calls, decided).groups(), lambda group: "fused_attention"
    ).module()


class _Decided(NamedTuple):
    """Cached analysis of kernels, shared by the functions of a module."""

    traits: dict[PrimFunc, _Traits]
    """By the kernel, which many calls have in common."""
    functions: dict[int, list[tuple[Function, bool]]]
    """The functions that were merged, by hash, and whether they compute attention: layers have equal ones."""


class _Block:
    """Bindings of a dataflow block by number, with their users."""

    def __init__(self, block: DataflowBlock, calls: KernelCalls, decided: _Decided) -> None:
        self.calls = calls
        self._decided = decided
        self.bindings = block.bindings
        self.kernels = [movable_kernel(binding, calls) for binding in block.bindings]
        numbers = {binding.var: number for number, binding in enumerate(block.bindings)}
        self.operands: list[list[int]] = []
        self.readers: list[set[int]] = [set() for _ in block.bindings]
        self.place: list[int] = []
        """The number of calls before a binding that may write to a tensor."""
        writes = 0
        for number, binding in enumerate(block.bindings):
            uses = uses_of(binding)
            uses.add_definition(binding.var)
            own = [numbers[v] for v in uses.variables if v in numbers and v is not binding.var]
            self.operands.append(own)
            for operand in own:
                self.readers[operand].add(number)
            if isinstance(binding.value, Call) and effects_of(binding.value, calls.mod).may_change:
                writes += 1
            self.place.append(writes)

    def groups(self) -> list[list[VarBinding]]:
        """The groups of bindings that compute attention, each in order."""
        groups: list[list[VarBinding]] = []
        used: set[int] = set()
        for last, kernel in enumerate(self.kernels):
            chain = self._chain(last) if kernel is not None and self._cached_traits(kernel).is_product else None
            if chain is None or used & chain:
                continue
            for members in (self._with_transposes(chain), chain):
                group = self._group(members)
                if group is not None:
                    groups.append(group)
                    used |= members
                    break
        return groups

    def _chain(self, last: int) -> set[int] | None:
        """The kernels from a product to a last one that reads a softmax; None if there are none."""
        for operand in self.operands[last]:
            members = {last}
            waiting = [operand]
            products = softmaxes = 0
            while waiting:
                number = waiting.pop()
                kernel = self.kernels[number]
                if kernel is None or number in members or not self._is_private(number):
                    continue
                members.add(number)
                softmaxes += self._cached_traits(kernel).has_maximum
                if self._cached_traits(kernel).is_product:
                    products += 1
                else:
                    waiting += self.operands[number]
            if products == 1 and softmaxes:
                return self._between(members, last)
        return None

    def _between(self, members: set[int], last: int) -> set[int] | None:
        """The members that depend on the product, if nothing else reads them."""
        reached: set[int] = set()
        for number in sorted(members):
            kernel = self.kernels[number]
            assert kernel is not None
            is_first = self._cached_traits(kernel).is_product and number != last
            if is_first or reached.intersection(self.operands[number]):
                reached.add(number)
        inside = all(self.readers[number] <= reached for number in reached - {last})
        return reached if inside and last in reached else None

    def _is_private(self, number: int) -> bool:
        return isinstance(self.bindings[number].var, DataflowVar)

    def _with_transposes(self, chain: set[int]) -> set[int]:
        """A chain with transposes of its operands that nothing else reads, and what moves or converts its result."""
        members = set(chain)
        for number in chain:
            for operand in self.operands[number]:
                own = self._is_private(operand) and self.readers[operand] <= chain
                if own and self._is_transpose(operand):
                    members.add(operand)
        last = max(chain)
        while self._is_private(last) and len(self.readers[last]) == 1:
            (last,) = self.readers[last]
            kernel = self.kernels[last]
            if kernel is None or not self._cached_traits(kernel).is_move:
                break
            members.add(last)
        return members

    def _is_transpose(self, number: int) -> bool:
        kernel = self.kernels[number]
        return kernel is not None and self._cached_traits(kernel).is_transpose

    def _cached_traits(self, kernel: KernelCall) -> _Traits:
        """Return the role that a kernel can play in attention."""
        traits = self._decided.traits.get(kernel.func)
        if traits is None:
            traits = self._decided.traits[kernel.func] = _traits_of(kernel.func)
        return traits

    def _group(self, members: set[int]) -> list[VarBinding] | None:
        """The bindings of some numbers, if their kernels merge to attention."""
        numbers = sorted(members)
        if self.place[numbers[0]] != self.place[numbers[-1]] or len(self._devices(numbers)) > 1:
            return None
        group = [b for b in map(self.bindings.__getitem__, numbers) if isinstance(b, VarBinding)]
        return group if self._is_attention(outlined(group, {PRIMITIVE: 1}).function) else None

    def _is_attention(self, function: Function) -> bool:
        """True if the merged kernels of a group are recognised as attention."""
        decided = self._decided.functions.setdefault(quick_hash(function), [])
        for other, answer in decided:
            if structural_equal(other, function):
                return answer
        kernel = merged_kernel(function, self.calls)
        inlined = None if kernel is None else inline_blocks(kernel)
        whole = inlined is not None and _is_streamed_whole(inlined)
        decided.append((function, whole))
        return whole

    def _devices(self, numbers: Iterable[int]) -> set[tuple[int, ...]]:
        kernels: Sequence[KernelCall | None] = [self.kernels[number] for number in numbers]
        return {tuple(id(info.vdevice) for _, info in kernel.outputs) for kernel in kernels if kernel is not None}


def _is_streamed_whole(kernel: PrimFunc) -> bool:
    """True if the rule streams all that a kernel computes, and that is faster than separate products."""
    attention = StreamedAttention().accepts(kernel, current_target())
    if isinstance(attention, Refusal) or len(attention.chain) < len(root_of(kernel)[1]):
        return False
    return attention.rounded is None or attention.is_streamable


class _Traits(NamedTuple):
    """Role that a kernel can play in attention."""

    has_maximum: bool
    """True if the kernel computes a maximum starting from -inf, as softmax does."""
    is_product: bool
    is_transpose: bool
    is_move: bool
    """True for a transpose, a conversion, and both at once."""


def _traits_of(func: PrimFunc) -> _Traits:
    has_maximum = _has_maximum(func)
    reduces = func.attrs.get(OP_PATTERN) == OpPatternKind.OUT_ELEMWISE_FUSABLE
    is_product = reduces and not has_maximum
    return _Traits(has_maximum, is_product, _is_transpose(func), _is_transpose(func, conversions=True))


def _has_maximum(func: PrimFunc) -> bool:
    """True if a kernel has a reduction from -inf, such as the maximum of a softmax; pooling does not count."""
    for stmt in root_of(func)[1]:
        nest = nest_of(stmt)
        init = None if nest is None else nest.block.init
        if isinstance(init, BufferStore) and isinstance(init.value, FloatImm) and init.value.value == -math.inf:
            assert nest is not None
            return not any(_is_window(load, nest) for load in nest.loads())
    return False


def _is_window(load: BufferLoad, nest: Nest) -> bool:
    """True if an index of several moves with a variable of the result and with one of the reduction."""
    kinds = {v.var: v.iter_type for v in nest.block.iter_vars}
    moving = [{kinds[var] for var in free_vars(index) if var in kinds} for index in load.indices]
    return len(moving) > 1 and any(len(types) > 1 for types in moving)


def _is_transpose(func: PrimFunc, conversions: bool = False) -> bool:
    """True for a kernel of one nest that only moves elements, by exchanging dimensions; or converts them as well."""
    stmts = root_of(func)[1]
    nest = nest_of(stmts[0]) if len(stmts) == 1 else None
    if nest is None or nest.is_reduction:
        return False
    load = nest.stores[0].value
    load = load.value if conversions and isinstance(load, Cast) else load
    if not isinstance(load, BufferLoad):
        return False
    variables = {index for index in load.indices if isinstance(index, PrimVar)}
    return len(variables) == len(load.indices) == len(nest.stores[0].indices)
