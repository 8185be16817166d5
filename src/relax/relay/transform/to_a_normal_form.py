"""ToANormalForm: a `let` for every node that is not a variable, a constant, an operator, a constructor or a global.

    fn (%c: bool, %x: int32) {                    fn (%c: bool, %x: int32) {
      %0 = add(%x, 1);                              let %x1 = add(%x, 1);
      if (%c) { multiply(%0, %0) } else { %0 }      let %x2 = if (%c) {
    }                                     becomes     let %x3 = multiply(%x1, %x1);
                                                      %x3
                                                    } else {
                                                      %x1
                                                    };
                                                    %x2
                                                  }

A node is bound in the scope where it is evaluated (`relay.scopes`), in the order of evaluation, so effects keep their
order. A function at the top is not bound itself. Functions with the attribute Primitive are left alone.
"""

from __future__ import annotations

from ..expr import Expr, Function
from .linear import linearized
from .rewriting import Program, relay_pass


def to_a_normal_form(expr: Expr) -> Expr:
    """The expression in A-normal form; itself if it is."""
    return linearized(expr, lambda node: True, binds_result=True)


@relay_pass("ToANormalForm", opt_level=1)
def ToANormalForm(function: Function, program: Program) -> Expr:
    """Bind every node of every function by a `let`."""
    del program
    return to_a_normal_form(function)


__all__ = ["ToANormalForm", "to_a_normal_form"]
