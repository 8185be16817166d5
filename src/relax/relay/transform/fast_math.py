"""FastMath: replace operators by faster, less accurate ones.

    exp(%x)    becomes    fast_exp(%x)

The same applies to `erf`, `tanh` and `nn.softmax`.
"""

from __future__ import annotations

from typing import Final

from ...ir import Op
from ..expr import Call, Expr, Function
from ..functor import MixedModeMutator
from .rewriting import Program, is_call, relay_pass

FASTER: Final = {"exp": "fast_exp", "erf": "fast_erf", "tanh": "fast_tanh", "nn.softmax": "nn.fast_softmax"}
"""Operators and their replacements."""


class _Faster(MixedModeMutator):
    def rewrite_call(self, pre: Call, post: Call) -> Expr:
        del pre
        if isinstance(post.op, Op) and is_call(post, *FASTER):
            return post.replace(op=Op.get(FASTER[post.op.name]))
        return post


def fast_math(expr: Expr) -> Expr:
    """Return the expression with the faster operators; itself if there is none to replace."""
    return _Faster().visit(expr)


@relay_pass("FastMath", opt_level=4)
def FastMath(function: Function, program: Program) -> Expr:
    """Replace operators by faster, less accurate ones, in every function."""
    del program
    return fast_math(function)
