"""Bodies of functions in the place of calls."""

from __future__ import annotations

from typing import cast

from ..block_builder import BlockBuilder
from ..derive.substitution import substitute
from ..expr import Function, If, MatchCast, SeqExpr, Var, VarBinding
from ..ir import RelaxExpr


def has_control_flow(expr: RelaxExpr) -> bool:
    """True if an expression, or a body's bindings, holds branches or local functions, which a dataflow block cannot."""
    values = [expr]
    if isinstance(expr, SeqExpr):
        values = [expr.body, *(getattr(b, "value", expr.body) for block in expr.blocks for b in block.bindings)]
    return any(isinstance(value, (If, Function)) for value in values)


def emitted(builder: BlockBuilder, body: SeqExpr) -> RelaxExpr:
    """Emit the bindings of a body into the open block, whatever blocks they stood in; returns the body's result."""
    table: dict[Var, Var] = {}
    for binding in (binding for block in body.blocks for binding in block.bindings):
        name = binding.var.name_hint
        if isinstance(binding, MatchCast):
            value = substitute(binding.value, table)
            table[binding.var] = builder.match_cast(value, binding.struct_info, name)
        else:
            value = substitute(cast(VarBinding, binding).value, table)
            table[binding.var] = builder.emit(value, name)
    return substitute(body.body, table)
