"""Gather pure bindings into dataflow blocks.

Before   lv = R.exp(x)                        After   with R.dataflow():
         gv = R.add(lv, lv)                               lv = R.exp(x)
         R.print(gv)                                      gv = R.add(lv, lv)
         return gv                                        R.output(gv)
                                                      R.print(gv)
                                                      return gv

A run of neighbouring bindings becomes a block if it has at least `min_size` of them, without control flow, impure
calls, local functions and calls of Relax functions (which may be recursive); dataflow blocks beside it become part of
it. Variables not used after the run become DataflowVars, unless a local function captures them or the annotation of an
output names them. Inside branches and local functions too.
"""

from __future__ import annotations

from typing import cast

from ..analysis.effects import effects_of
from ..analysis.properties import NO_DATAFLOW, NORMAL_FORM
from ..derive.substitution import Substitution
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    ExternFunc,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Var,
    VarBinding,
)
from ..ir import IRModule, Op
from ..rewrite.rebuild import with_info
from ..rewrite.visitor import ExprVisitor
from .decorators import function_pass


@function_pass(needs={NORMAL_FORM}, breaks={NO_DATAFLOW})
def ConvertToDataflow(func: Function, mod: IRModule, min_size: int = 2) -> Function:
    """Make dataflow blocks of runs of at least `min_size` pure bindings. See the module's docstring."""
    return cast(Function, _Gather(mod, min_size).node(func))


class _Uses(ExprVisitor):
    """The variables used, in struct info as well."""

    def __init__(self) -> None:
        self.used: set[Var] = set()
        self.captured: set[Var] = set()
        """Those of them that local functions use."""
        self.inside_function = False

    def visit_function_(self, op: Function) -> None:
        outer, self.inside_function = self.inside_function, True
        super().visit_function_(op)
        self.inside_function = outer

    def visit_var_(self, op: Var) -> None:
        self.used.add(op)
        if self.inside_function:
            self.captured.add(op)


class _Gather(Substitution):
    def __init__(self, mod: IRModule, min_size: int) -> None:
        super().__init__({}, {})
        self.mod, self.min_size = mod, min_size
        self.local: set[Var] = set()
        """Variables of new dataflow blocks that are used nowhere else."""

    def seq(self, seq: SeqExpr) -> SeqExpr:
        return super().seq(self.gathered(seq))

    def gathered(self, seq: SeqExpr) -> SeqExpr:
        """The SeqExpr with its runs as dataflow blocks, whose variables are still what they were."""
        blocks: list[BindingBlock] = []
        changed = False
        for run in self.runs(seq):
            if isinstance(run, BindingBlock):
                blocks.append(run)
            else:
                blocks.append(DataflowBlock(tuple(run)))
                changed = True
        if not changed:
            return seq
        uses = [_uses_in(block) for block in blocks]
        body = _Uses()
        body.visit_expr(seq.body)
        captured = {var for use in uses for var in use.captured}
        users: dict[Var, int] = {}
        for index, use in enumerate([*uses, body]):
            for var in use.used:
                users[var] = index  # the last block that uses it
        for index, block in enumerate(blocks):
            if isinstance(block, DataflowBlock) and block not in seq.blocks:
                bound = {b.var for b in block.bindings}
                local = {var for var in bound if users.get(var, index) == index and var not in captured}
                self.local |= local - _in_annotations(bound - local)
        return seq.replace(blocks=tuple(blocks))

    def runs(self, seq: SeqExpr) -> list[BindingBlock | list[Binding]]:
        """Blocks that stay, in order, and between them the bindings of new dataflow blocks."""
        result: list[BindingBlock | list[Binding]] = []
        rest: list[Binding] = []
        run: list[BindingBlock | Binding] = []

        def end_run() -> None:
            bindings = [b for item in run for b in (item.bindings if isinstance(item, BindingBlock) else (item,))]
            if len(run) == 1 and isinstance(run[0], BindingBlock):
                end_rest()
                result.append(run[0])
            elif len(bindings) >= self.min_size or any(isinstance(item, BindingBlock) for item in run):
                end_rest()
                result.append(bindings)
            else:
                rest.extend(bindings)
            run.clear()

        def end_rest() -> None:
            if rest:
                result.append(BindingBlock(tuple(rest)))
                rest.clear()

        for block in seq.blocks:
            if isinstance(block, DataflowBlock):
                run.append(block)
                continue
            for binding in block.bindings:
                if self.is_dataflow(binding):
                    run.append(binding)
                else:
                    end_run()
                    rest.append(binding)
        end_run()
        end_rest()
        return result

    def is_dataflow(self, binding: Binding) -> bool:
        """True if a binding may stand in a dataflow block."""
        if isinstance(binding, MatchCast):
            return True
        value = cast(VarBinding, binding).value
        if isinstance(value, Call):
            return isinstance(value.op, (Op, ExternFunc)) and effects_of(value, self.mod).pure
        return not isinstance(value, (If, Function, SeqExpr))

    def define(self, var: Var) -> Var:
        defined = super().define(var)
        if var not in self.local:
            return defined
        dataflow_var = DataflowVar(var.name_hint, defined.annotation, span=var.span)
        if defined.struct_info_ is not None and dataflow_var.struct_info_ is None:
            with_info(dataflow_var, defined.struct_info_)
        self.variables[var] = dataflow_var
        return dataflow_var


def _in_annotations(variables: set[Var]) -> set[Var]:
    """Return the variables that occur in other variables' struct info and must be visible with them."""
    visitor = _Uses()
    for var in variables:
        visitor.visit_var_def(var)
    return visitor.used


def _uses_in(block: BindingBlock) -> _Uses:
    visitor = _Uses()
    visitor.visit_binding_block(block)
    return visitor
