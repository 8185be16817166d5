"""CanonicalizeOps: replace `nn.bias_add` by `expand_dims` and `add`, which other passes handle.

    nn.bias_add(%x, %b, axis=1)    becomes    add(%x, expand_dims(%b, axis=1, num_newaxis=2))

for a tensor of four dimensions.

Skipped for tensors of unknown rank.
"""

from __future__ import annotations

from typing import Any, cast

from ..expr import Expr, Function
from ..operators import call_operator
from .rewriting import Program, Rewriter, is_call, relay_pass


class _Canonical(Rewriter):
    def rewrite(self, pre: Expr, post: Expr) -> Expr:
        if not is_call(post, "nn.bias_add"):
            return post
        data, bias = post.args
        type_ = self.tensor(data)
        if type_ is None:
            return post
        rank = len(cast("tuple[Any, ...]", type_.shape))
        behind = rank - 1 - cast(Any, post.attrs).axis % rank
        if behind:
            bias = call_operator("expand_dims", bias, axis=1, num_newaxis=behind)
        return call_operator("add", data, bias)


def canonicalize_ops(expr: Expr) -> Expr:
    """Return the typed expression without `nn.bias_add`; itself if there is none."""
    return _Canonical().visit(expr)


@relay_pass("CanonicalizeOps", opt_level=3, required=["InferType"])
def CanonicalizeOps(function: Function, program: Program) -> Expr:
    """Replace operators by simpler ones, in every function."""
    del program
    return canonicalize_ops(function)
