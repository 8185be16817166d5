"""Removal of unused bindings from a function."""

from __future__ import annotations

from typing import cast

from ..derive.normalize import merge_blocks
from ..expr import Binding, BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..info.mapping import bound_in
from ..ir import RelaxExpr
from ..rewrite.rebuild import carry_info, same_or
from .totality import is_condition, never_fails
from .uses import Uses


def remove_all_unused(func: Function) -> Function:
    """Return a function without its unused bindings; the function itself if it has none.

    In a dataflow block, each unused binding goes. Outside of one, errors and effects stay: only values that cannot fail
    go.
    """
    return _Sweeper().function(func)


class _Sweeper:
    """One backward walk per SeqExpr; `live` holds what the rest of the function uses."""

    def __init__(self) -> None:
        self.live = Uses()

    def function(self, func: Function) -> Function:
        self.live.add(func.ret_struct_info)
        return carry_info(func, func.replace(body=self.body(func.body)))

    def body(self, expr: RelaxExpr) -> RelaxExpr:
        if not isinstance(expr, SeqExpr):
            self.live.add(expr)
            return expr
        self.live.add(expr.body)
        blocks: list[BindingBlock] = []
        for block in reversed(expr.blocks):
            kept = self.block(block)
            if kept.bindings:
                blocks.append(kept)
        blocks.reverse()
        return carry_info(expr, expr.replace(blocks=same_or(expr.blocks, merge_blocks(blocks))))

    def block(self, block: BindingBlock) -> BindingBlock:
        dataflow = isinstance(block, DataflowBlock)
        kept: list[Binding] = []
        for binding in reversed(block.bindings):
            if self.needed(binding, dataflow):
                kept.append(self.keep(binding))
        kept.reverse()
        return block.replace(bindings=same_or(block.bindings, kept))

    def needed(self, binding: Binding, dataflow: bool) -> bool:
        if binding.var in self.live.variables:
            return True
        if isinstance(binding, MatchCast):
            dims = bound_in(binding.struct_info)
            return not dataflow or any(dim in self.live.shape_variables for dim in dims)
        return not dataflow and not removable(cast(VarBinding, binding).value)

    def keep(self, binding: Binding) -> Binding:
        """Mark what a binding uses, having swept the branches or the function it holds."""
        self.live.add_definition(binding.var)
        if isinstance(binding, MatchCast):
            self.live.add(binding.struct_info)
            self.live.add(binding.value)
            return binding
        value = cast(VarBinding, binding).value
        if isinstance(value, If):
            true_branch, false_branch = self.body(value.true_branch), self.body(value.false_branch)
            value = carry_info(value, value.replace(true_branch=true_branch, false_branch=false_branch))
        elif isinstance(value, Function):
            value = self.function(value)
        self.live.add(value)
        return binding.replace(value=value)


def removable(value: RelaxExpr) -> bool:
    """True if computing a value can be skipped outside a dataflow block: it has no effect and cannot fail."""
    match value:
        case If(cond, true_branch, false_branch):
            branches = _removable_body(true_branch) and _removable_body(false_branch)
            return branches and is_condition(cond.struct_info_)
        case Function():
            return True
        case _:
            return never_fails(value)


def _removable_body(expr: RelaxExpr) -> bool:
    if not isinstance(expr, SeqExpr):
        return removable(expr)
    return never_fails(expr.body) and all(
        isinstance(block, DataflowBlock) or (isinstance(binding, VarBinding) and removable(binding.value))
        for block in expr.blocks
        for binding in block.bindings
    )
