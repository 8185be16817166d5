"""The check of normal form (language.md §4)."""

from __future__ import annotations

from collections.abc import Iterator

from ..expr import BindingBlock, Call, DataflowBlock, Function, If, SeqExpr, Tuple, TupleGetItem, is_leaf
from ..ir import Diagnostic, IRModule, Op, RelaxExpr, Span

_HINT = "relax.transform.Normalize() brings a program into normal form"


def is_normal_form(obj: IRModule | RelaxExpr) -> bool:
    """True if a module, a function or an expression is in normal form."""
    return next(_check(obj), None) is None


def check_normal_form(obj: IRModule | RelaxExpr) -> list[Diagnostic]:
    """Return a diagnostic for each violation of normal form."""
    return list(_check(obj))


def _check(obj: IRModule | RelaxExpr) -> Iterator[Diagnostic]:
    if not isinstance(obj, IRModule):
        yield from _Checker("").value(obj)
        return
    for global_var, function in obj.functions.items():
        if isinstance(function, Function):
            yield from _Checker(f"in {global_var.name_hint}").value(function)


class _Checker:
    def __init__(self, where: str) -> None:
        self.where = where
        self.span: Span | None = None

    def wrong(self, message: str, span: Span | None) -> Diagnostic:
        return Diagnostic("E2101", f"normal form: {message}", span or self.span, self.where, hint=_HINT)

    def value(self, expr: RelaxExpr) -> Iterator[Diagnostic]:
        """Check the value of a binding: a leaf, or an expression whose operands are leaves."""
        match expr:
            case Function():
                yield from self.body(expr.body, "the body of a function")
            case If():
                yield from self.leaf(expr.cond)
                yield from self.body(expr.true_branch, "the branch of an if")
                yield from self.body(expr.false_branch, "the branch of an if")
            case SeqExpr():
                yield self.wrong("a SeqExpr stands only as the body of a function or a branch of an if", expr.span)
            case Call():
                for operand in (expr.op, *expr.args):
                    if not isinstance(operand, Op):
                        yield from self.leaf(operand)
            case TupleGetItem():
                yield from self.leaf(expr.tuple_value)
            case Tuple():
                for item in expr.fields:
                    yield from self.leaf(item)
            case _:
                return

    def leaf(self, expr: RelaxExpr) -> Iterator[Diagnostic]:
        if not is_leaf(expr):
            yield self.wrong(f"a nested {type(expr).__name__} must be bound to a variable", expr.span)

    def body(self, expr: RelaxExpr, subject: str) -> Iterator[Diagnostic]:
        if not isinstance(expr, SeqExpr):
            yield self.wrong(f"{subject} must be a SeqExpr, found a {type(expr).__name__}", expr.span)
            return
        previous: BindingBlock | None = None
        for block in expr.blocks:
            yield from self.block(block, previous)
            previous = block
        if not is_leaf(expr.body):
            kind = type(expr.body).__name__
            yield self.wrong(f"the result of a SeqExpr must be a leaf, found a {kind}", expr.body.span)

    def block(self, block: BindingBlock, previous: BindingBlock | None) -> Iterator[Diagnostic]:
        is_dataflow = isinstance(block, DataflowBlock)
        if not block.bindings:
            yield self.wrong("a block is empty", block.span)
        if previous is not None and isinstance(previous, DataflowBlock) is is_dataflow:
            kind = "dataflow" if is_dataflow else "binding"
            yield self.wrong(f"two {kind} blocks in a row are to be merged", block.span)
        for binding in block.bindings:
            outer, self.span = self.span, binding.span or binding.var.span or self.span
            yield from self.value(binding.value)
            self.span = outer
