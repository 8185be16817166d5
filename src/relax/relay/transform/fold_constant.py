"""FoldConstant: the values of what depends on constants only.

    multiply(%x, add(2f, 3f))    becomes    multiply(%x, 5f)

A call of an operator, or of a function with the attribute Primitive, on constants becomes its value, as Relax's
interpreter computes it; a projection of a tuple its field; an `if` of a constant its branch; a variable bound to a
constant the constant; `shape_of` a tensor of known shape that shape. A value larger than its operands and than
`MOST_ELEMENTS` stays as it is computed, as does a call that fails.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ...ir import DiagnosticError, Op
from ..evaluator import Evaluator
from ..expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from ..meaning import evaluate
from ..parts import parts_of, with_parts
from .linear import sequenced
from .rewriting import Program, Rewriter, is_call, ordered_rewrite, relay_pass

MOST_ELEMENTS = 65_536
"""Elements of a value that may be larger than what it is computed from."""


class Folder(Rewriter):
    """Rewrites calls on constants. A `let` of a constant goes before its body is rewritten."""

    def visit(self, expr: Expr) -> Expr:
        memo = self.memo
        stack: list[tuple[Expr, int]] = [(expr, 0)]
        while stack:
            node, step = stack.pop()
            if node in memo:
                continue
            if isinstance(node, Let) and step < 2 and not isinstance(node.value, Function):
                if step == 0:
                    stack += [(node, 1), (node.value, 0)]
                    continue
                value = memo[node.value]
                if isinstance(value, Constant):
                    memo[node.var] = value
                self.bind(node)
                stack += [(node, 2), (node.body, 0)]
            elif isinstance(node, Let) and isinstance(memo.get(node.var), Constant):
                memo[node] = memo[node.body]
            elif step == 0:
                stack.append((node, 3))
                stack.extend((part, 0) for part in reversed(parts_of(node)))
            else:
                parts = [
                    part if isinstance(part, Var) and part not in memo else memo[part]
                    for part in parts_of(node)
                ]
                memo[node] = self._rewritten(node, with_parts(node, parts))
        return memo[expr]

    def bind(self, let: Let) -> None:
        """Called for each `let` once its value is rewritten, before its body is."""

    def rewrite(self, pre: Expr, post: Expr) -> Expr:
        match post:
            case TupleGetItem(Tuple(fields), index) if index < len(fields):
                return fields[index]
            case If(Constant(data), true_branch, false_branch):
                return true_branch if bool(data) else false_branch
            case Call():
                return self._call(post)
            case _:
                return post

    def _call(self, call: Call) -> Expr:
        if is_call(call, "shape_of"):
            shape = self.shape(call.args[0])
            if shape is not None:
                return Constant(np.array(shape, str(cast(Any, call.attrs).dtype)), span=call.span)
        args = [_value_of(arg) for arg in call.args]
        if any(arg is None for arg in args):
            return call
        value = value_of_call(call, args)
        return call if value is None else _constant(value)


def value_of_call(call: Call, args: list[Any]) -> Any:
    """The value of a call on values; None if it fails, or is much larger than they."""
    try:
        value = _value(call, args)
    except (DiagnosticError, ArithmeticError, ValueError):
        return None
    return None if value is None or _count(value) > max(MOST_ELEMENTS, sum(map(_count, args))) else value


def _value(call: Call, args: list[Any]) -> Any:
    if isinstance(call.op, Op):
        return evaluate(call.op, call.attrs, args, call.span)
    if isinstance(call.op, Function) and call.op.attrs.get("Primitive"):
        return _plain(Evaluator().evaluate(call))
    return None


def _plain(value: Any) -> Any:
    return tuple(map(_plain, cast("tuple[Any, ...]", value))) if isinstance(value, tuple) else value.numpy()


def _value_of(expr: Expr) -> Any:
    """The value of a constant or of a tuple of constants; None of anything else."""
    if isinstance(expr, Constant):
        return expr.data
    if isinstance(expr, Tuple):
        fields = [_value_of(field) for field in expr.fields]
        return None if any(field is None for field in fields) else tuple(fields)
    return None


def _constant(value: Any) -> Expr:
    if isinstance(value, tuple):
        return Tuple([_constant(field) for field in cast("tuple[Any, ...]", value)])
    return Constant(value)


def _count(value: Any) -> int:
    return (
        sum(map(_count, cast("tuple[Any, ...]", value))) if isinstance(value, tuple) else int(np.size(value))
    )


def fold_constant(expr: Expr, program: Program | None = None) -> Expr:
    """The expression with the values of what depends on constants only; itself if there is nothing such."""
    program = Program() if program is None else program
    return ordered_rewrite(expr, program, lambda ordered: folded(Folder(), ordered, program))


def folded(folder: Folder, ordered: Expr, program: Program) -> Expr:
    """A sequenced expression folded. The branch that an `if` becomes may bind what has effects, and give a constant.

    let %x = { let %r = ref(1); True }; if (%x) …        becomes        let %r = ref(1); if (True) …
    """
    result = folder.visit(ordered)
    while True:
        again = sequenced(result, program.effects)
        folder.memo = {}  # of other nodes, and of variables that may be constants now
        changed = again if again is result else folder.visit(again)
        if changed is again:
            return result
        result = changed


@relay_pass("FoldConstant", opt_level=2, required=["InferType"], settles=True)
def FoldConstant(function: Function, program: Program, fold_qnn: bool = False) -> Expr:
    """Evaluate what depends on constants only, in every function. `fold_qnn` is taken for compatibility."""
    del fold_qnn
    return fold_constant(function, program)


__all__ = ["MOST_ELEMENTS", "FoldConstant", "Folder", "fold_constant", "folded", "value_of_call"]
