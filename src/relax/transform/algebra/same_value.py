"""SameValues: base of passes that replace a call's result by an equal operand where this is unobservable.

Every call gives a fresh tensor. That its result is instead another name for an operand shows if one of the two is
changed, or if both are referred to by others; so

* in a function that changes no tensor, at most one of the two may be referred to by others;
* in a function that may, neither may be;
* or one of them is only read in its dataflow block, which changes nothing.
"""

from __future__ import annotations

from typing import ClassVar

from ...analysis.alias import own_variables
from ...analysis.effects import any_call
from ...dpl.rewrite import KnownValues
from ...expr import BindingBlock, Call, DataflowVar, Function, Var, VarBinding
from ...ir import IRModule, RelaxExpr
from ...op import Operator, is_call_of
from ...rewrite import bindings_in
from ..rewrite_dataflow_reshape import private_in_block


class SameValues(KnownValues):
    """Replaces a result by the operand it equals; see the module's docstring."""

    concerned: ClassVar[type[Operator]]
    """Operator whose calls are candidates."""

    def __init__(self, mod: IRModule | None = None) -> None:
        super().__init__(mod)
        self.own: set[Var] = set()
        """Variables that only this function refers to."""
        self.private: set[Var] = set()
        """Variables that only the dataflow block reads."""
        self.may_change = False
        """True if the function may change a tensor."""

    def same_as(self, call: Call) -> RelaxExpr | None:
        """The operand that a call's result equals, in struct info and elements; None if it equals none."""
        raise NotImplementedError

    def concerns(self, function: Function) -> bool:
        return any(isinstance(b.value, Call) and is_call_of(b.value, self.concerned) for b in bindings_in(function))

    def function(self, function: Function) -> RelaxExpr:
        outer = self.own, self.private, self.may_change
        self.own, self.private = set(own_variables(function)), set()
        self.may_change = any_call(function, lambda effects: effects.may_change)
        new = super().function(function)
        self.own, self.private, self.may_change = outer
        return new

    def block(self, block: BindingBlock) -> BindingBlock:
        outer = self.private
        self.private = set(private_in_block(block))
        new = super().block(block)
        self.private = outer
        return new

    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        """Emit a binding, or let the operand that the value equals take its place."""
        source = self.same_as(value) if isinstance(value, Call) else None
        if not isinstance(source, Var) or not self.may_be_one(binding.var, source):
            return super().bind(binding, value, var)
        for readers in (self.own, self.private):
            if binding.var not in readers:
                readers.discard(source)
        if isinstance(binding.var, DataflowVar) or not self.builder.in_dataflow:
            self.variables[binding.var] = source
            return source
        return super().bind(binding, source, var)

    def may_be_one(self, var: Var, source: Var) -> bool:
        """True if it is unobservable whether two variables hold the same tensor or equal ones."""
        owned = (var in self.own) + (source in self.own)
        return owned > self.may_change or var in self.private or source in self.private
