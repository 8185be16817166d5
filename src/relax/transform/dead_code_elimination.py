"""Remove unused bindings, and functions that no entry point reaches.

Before   with R.dataflow():                       After   with R.dataflow():
             lv0 = R.exp(x)                                   gv = R.add(x, x)
             gv = R.add(x, x)                                 R.output(gv)
             R.output(gv)                                 _ = R.print(gv)
         _ = R.print(gv)                                  return gv
         t = (gv, x)
         return gv

In a dataflow block an unused binding goes, whatever it computes: what stands there is pure, and removing a
call or a match_cast makes a program only more defined (language.md §7.2). Outside, errors and effects stay, so
only values that cannot fail go: leaves, projections of known tuples, closures, calls of operators that are `total`
on operands known to fit, and an If of nothing but those.

A binding is used when its variable is, or a shape variable it binds: in an expression, an annotation or any
struct info of what is kept. So the producer of a value that an impure call reads is kept, as is the
match_cast that gives a dimension of an allocation its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..analysis.properties import NORMAL_FORM
from ..analysis.totality import is_condition, never_fails
from ..analysis.uses import Uses
from ..derive.normalize import merge_blocks
from ..expr import Binding, BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..info.mapping import bound_in
from ..ir import IRModule, RelaxExpr
from .decorators import module_pass
from .rebuild import carry_info, same_or
from .remove_unused_functions import entry_names, without_unreachable


@module_pass(opt_level=1, needs={NORMAL_FORM}, breaks=())
def DeadCodeElimination(mod: IRModule, entry_functions: Sequence[str] | None = None) -> IRModule:
    """Remove unused bindings, then the functions that neither those with a global_symbol nor `entry_functions` reach.

    Raises DiagnosticError (E4005) when a name in `entry_functions` is not a function of the module.
    """
    entries = entry_names(mod, None, "DeadCodeElimination")
    entries |= entry_names(mod, entry_functions, "DeadCodeElimination")
    swept = mod.with_functions({g: sweep(f) if isinstance(f, Function) else f for g, f in mod.functions.items()})
    return without_unreachable(swept, entries)


def sweep(func: Function) -> Function:
    """Return a function without its unused bindings."""
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
