"""Checks after derivation: struct info on every expression, and no impure call in a pure context."""

from __future__ import annotations

from ..derive.context import FORCE_PURE, FunctionScope, Scopes
from ..derive.rules import check_purity
from ..expr import BindingBlock, Call, DataflowBlock, Function
from ..ir import BaseFunc, Diagnostic, DiagnosticError, IRModule, Op, RelaxExpr, Span
from ..rewrite.visitor import ExprVisitor


def check_derived(obj: IRModule | BaseFunc | RelaxExpr) -> list[Diagnostic]:
    """Return a diagnostic for each expression without struct info and each impure call in a pure context."""
    if not isinstance(obj, IRModule):
        checker = _Checker(Scopes(warn=False), "")
        checker.visit_expr(obj)
        return checker.found
    scopes = Scopes(obj, warn=False)
    diagnostics: list[Diagnostic] = []
    for global_var, function in obj.functions.items():
        if isinstance(function, Function):
            checker = _Checker(scopes, global_var.name_hint)
            checker.visit_expr(function)
            diagnostics += checker.found
    return diagnostics


class _Checker(ExprVisitor):
    def __init__(self, scopes: Scopes, name: str) -> None:
        self.scopes = scopes
        self.name = name
        self.found: list[Diagnostic] = []
        self.span: Span | None = None

    def visit_expr(self, expr: RelaxExpr) -> None:
        if not isinstance(expr, Op) and expr.struct_info_ is None:
            kind = type(expr).__name__
            self.found.append(
                Diagnostic(
                    "E2105",
                    f"this {kind} has no struct info",
                    expr.span or self.span,
                    self.scopes.where,
                    hint="emit it through a BlockBuilder, or run relax.transform.Normalize()",
                )
            )
            return
        super().visit_expr(expr)

    def visit_function_(self, op: Function) -> None:
        scope = FunctionScope(self.name, op.is_pure, bool(op.attrs.get(FORCE_PURE, False)))
        frames, self.scopes.frames = self.scopes.frames, []
        self.scopes.function_scopes.append(scope)
        super().visit_function_(op)
        self.scopes.function_scopes.pop()
        self.scopes.frames = frames

    def visit_binding_block(self, block: BindingBlock) -> None:
        self.scopes.open_frame(isinstance(block, DataflowBlock))
        super().visit_binding_block(block)
        self.scopes.frames.pop()

    def visit_call_(self, op: Call) -> None:
        super().visit_call_(op)
        try:
            check_purity(op, self.scopes)
        except DiagnosticError as error:
            self.found += error.diagnostics
