"""ToANormalForm: bind every non-atomic node by a `let`.

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

A node is bound in its evaluation scope (`relay.scopes`), in evaluation order, so effects keep their order. A function
at the top is not bound itself. Functions with the attribute Primitive are not entered.
"""

from __future__ import annotations

from ..expr import Expr, Function
from .linear import linearized
from .rewriting import Program, relay_pass


def to_a_normal_form(expr: Expr) -> Expr:
    """Convert to A-normal form; return the expression unchanged if it is."""
    return linearized(expr, lambda node: True, binds_result=True)


@relay_pass("ToANormalForm", opt_level=1)
def ToANormalForm(function: Function, program: Program) -> Expr:
    """Bind every non-atomic node by a `let`, in every function."""
    del program
    return to_a_normal_form(function)
