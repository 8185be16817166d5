"""Struct info derived again after values became more precise, as far as the values tell more than annotations.

Before   y: R.Tensor((2,)) = R.add(x, R.const([1, 1], "float32"))      x: R.Tensor((2,), "float32")
         z: R.Tensor((2,)) = R.exp(y)
After    y: R.Tensor((2,), "float32") = R.add(x, R.const([1, 1], "float32"))
         z: R.Tensor((2,), "float32") = R.exp(y)

A variable, or a function's result, that was described by less than its value gives takes the description of the
value. Where an annotation says as much as the value or more, it stays. Passes that replace a variable by something
known better (a constant, a variable of more precise struct info) end in this.
"""

from __future__ import annotations

from typing import cast

from ..derive.substitution import Substitution
from ..expr import Function, SeqExpr, Var, VarBinding
from ..info.relations import is_base_of
from ..ir import IRModule, Node, RelaxExpr, StructInfo, structural_equal
from ..rewrite.visitor import ExprMutator


class UnderivedSubstitution(Substitution):
    """A substitution whose results wait for their struct info: what they become may be known better."""

    def carry(self, old: Node, new: Node) -> Node:
        return new


def refined(func: Function, mod: IRModule) -> Function:
    """A function in normal form with every description at least as precise as its value's; itself if all are."""
    return cast(Function, _Refiner(mod).visit_expr(func))


def tells_more(info: StructInfo, known: StructInfo) -> bool:
    """Whether struct info is provably more precise than what is known."""
    return is_base_of(known, info) and not structural_equal(known, info)


class _Refiner(ExprMutator):
    def re_emit_binding(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> None:
        known = binding.var.struct_info
        info = self.builder_.visible(binding.var, value.struct_info)
        if not tells_more(info, known):
            super().re_emit_binding(binding, value, var)
            return
        new = type(binding.var)(binding.var.name_hint, span=binding.var.span)
        super().re_emit_binding(binding, value, self.with_struct_info(new, info))

    def visit_function_(self, op: Function) -> RelaxExpr:
        result = cast(Function, super().visit_function_(op))
        info = cast(SeqExpr, result.body).struct_info
        declared = result.ret_struct_info
        if declared is None or not tells_more(info, declared):
            return result
        return result.replace(ret_struct_info=info)


__all__ = ["UnderivedSubstitution", "refined", "tells_more"]
