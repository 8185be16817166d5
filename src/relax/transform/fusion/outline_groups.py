"""Rewrite shared by fusion passes: replace each group of bindings by a call of an outlined function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ...expr import BindingBlock, DataflowBlock, Function, Var, VarBinding
from ...ir import IRModule
from ...op import is_call_of
from ...op.intrinsics import CallTIR
from ...rewrite import Rewriter, blocks_in
from .kernel_calls import KernelCalls
from .outline import outlined

PRIMITIVE: Final = "Primitive"
"""The attribute of the functions that groups become."""

Groups = Callable[[DataflowBlock, KernelCalls], Iterable[list[VarBinding]]]
Name = Callable[[Sequence[VarBinding]], str]


class GroupOutliner(Rewriter):
    """Replace each group by a call.

    Parameters
    ----------
    mod
        The module.
    groups
        The groups of bindings of a dataflow block, each in order.
    name
        The name of the function of a group.
    """

    def __init__(self, mod: IRModule, groups: Groups, name: Name) -> None:
        super().__init__(mod)
        self.kernels = KernelCalls(mod)
        self._groups_of, self._name_of = groups, name
        self._groups: dict[Var, list[VarBinding]] = {}
        """The groups of the blocks around, by the variable of the last member."""
        self._inner: set[Var] = set()
        """The variables of the other members."""

    def concerns(self, function: Function) -> bool:
        return not function.attrs.get(PRIMITIVE) and any(
            isinstance(block, DataflowBlock) and any(is_call_of(b.value, CallTIR) for b in block.bindings)
            for block in blocks_in(function)
        )

    def block(self, block: BindingBlock) -> BindingBlock:
        if isinstance(block, DataflowBlock):
            for group in self._groups_of(block, self.kernels):
                self._groups[group[-1].var] = group
                self._inner.update(binding.var for binding in group[:-1])
        return super().block(block)

    def var_binding(self, binding: VarBinding) -> None:
        if binding.var in self._inner:
            return
        group = self._groups.get(binding.var)
        if group is None:
            super().var_binding(binding)
            return
        outline = outlined(group, {PRIMITIVE: 1})
        callee = self.builder.add_func(outline.function, self._name_of(group))
        call = outline.call(callee, [self.rewrite(argument) for argument in outline.arguments])
        self.bind(binding, self.builder.normalize(call.replace(span=binding.value.span)))
