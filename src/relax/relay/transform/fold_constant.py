"""FoldConstant: evaluate expressions that depend only on constants.

    multiply(%x, add(2f, 3f))    becomes    multiply(%x, 5f)

Folded are calls of operators and of functions with the attribute Primitive on constants (evaluated by Relax's
interpreter), projections of tuples, `if`s on constants, variables bound to constants, and `shape_of` a tensor of static
shape. A value larger than both its operands and `MOST_ELEMENTS` is not folded, nor is a call that fails.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ...ir import Op
from ...transform.fold_kernels import FAILURES
from ..evaluator import Evaluator
from ..expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from ..meaning import evaluate
from ..parts import parts_of, with_parts
from .linear import sequenced
from .rewriting import Program, Rewriter, is_call, ordered_rewrite, relay_pass

MOST_ELEMENTS = 65_536
"""Most elements of a folded value that is larger than its operands."""


class Folder(Rewriter):
    """Rewrites calls on constants. The value of a `let` is rewritten before its body."""

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
                parts = [part if isinstance(part, Var) and part not in memo else memo[part] for part in parts_of(node)]
                memo[node] = self._rewritten(node, with_parts(node, parts))
        return memo[expr]

    def bind(self, let: Let) -> None:
        """Called for each `let` after its value and before its body is rewritten."""

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
    """Evaluate a call on values; None if it fails or the result is much larger than the operands."""
    try:
        value = _value(call, args)
    except FAILURES:
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
    """Value of a constant or tuple of constants, else None."""
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
    return sum(map(_count, cast("tuple[Any, ...]", value))) if isinstance(value, tuple) else int(np.size(value))


def fold_constant(expr: Expr, program: Program | None = None) -> Expr:
    """Fold constant expressions; return the expression unchanged if there are none."""
    program = Program() if program is None else program
    return ordered_rewrite(expr, program, lambda ordered: folded(Folder(), ordered, program))


def folded(folder: Folder, ordered: Expr, program: Program) -> Expr:
    """Fold a sequenced expression, repeatedly: the branch that replaces an `if` may bind effects and yield a constant.

    let %x = { let %r = ref(1); True }; if (%x) …        becomes        let %r = ref(1); if (True) …
    """
    result = folder.visit(ordered)
    while True:
        again = sequenced(result, program.effects)
        folder.memo = {}  # nodes were replaced, and variables may be constants now
        changed = again if again is result else folder.visit(again)
        if changed is again:
            return result
        result = changed


@relay_pass("FoldConstant", opt_level=2, required=["InferType"], settles=True)
def FoldConstant(function: Function, program: Program, fold_qnn: bool = False) -> Expr:
    """Evaluate constant expressions in every function. `fold_qnn` is accepted for compatibility."""
    del fold_qnn
    return fold_constant(function, program)
