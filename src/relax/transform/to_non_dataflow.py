"""Dissolve dataflow blocks: what they hold runs in order, once, as if it stood outside.

Before   with R.dataflow():                  After   lv = R.exp(x)
             lv = R.exp(x)                           gv = R.add(lv, lv)
             gv = R.add(lv, lv)                      return gv
             R.output(gv)
         return gv

DataflowVars become Vars; neighbouring blocks are merged. Inside branches and local functions too.
"""

from __future__ import annotations

from typing import cast

from ..analysis.properties import NO_DATAFLOW, NORMAL_FORM
from ..derive.substitution import Substitution
from ..expr import Binding, BindingBlock, DataflowBlock, DataflowVar, Function, SeqExpr, Var
from ..ir import IRModule, Node, StructInfo, walk
from ..rewrite.rebuild import with_info
from .decorators import function_pass


@function_pass(needs={NORMAL_FORM}, gives={NO_DATAFLOW}, breaks=())
def ToNonDataflow(func: Function, mod: IRModule) -> Function:
    """Turn every dataflow block into an ordinary binding block."""
    return without_dataflow(func)


def without_dataflow(func: Function) -> Function:
    """One function with ordinary binding blocks only; itself if it has no others."""
    return cast(Function, _Dissolve({}, {}).node(func)) if _has_dataflow(func) else func


def _has_dataflow(func: Function) -> bool:
    blocks: list[Node] = []

    def visit(item: Node) -> bool:
        if isinstance(item, DataflowBlock):
            blocks.append(item)
        return not blocks and not isinstance(item, (Var, StructInfo))

    walk(func, visit)
    return bool(blocks)


class _Dissolve(Substitution):
    def define(self, var: Var) -> Var:
        defined = super().define(var)
        if not isinstance(defined, DataflowVar):
            return defined
        plain_var = Var(var.name_hint, defined.annotation, span=var.span)
        if defined.struct_info_ is not None and plain_var.struct_info_ is None:
            with_info(plain_var, defined.struct_info_)
        self.variables[var] = plain_var
        return plain_var

    def seq(self, seq: SeqExpr) -> SeqExpr:
        rebuilt = super().seq(seq)
        bindings: list[Binding] = [b for block in rebuilt.blocks for b in block.bindings]
        return rebuilt.replace(blocks=(BindingBlock(bindings),) if bindings else ())
