"""Replace operators by what computes them: a call_tir of a PrimFunc made from the operator's formula.

Before   lv = R.exp(x)                     After   lv = R.call_tir(cls.exp, (x,), R.Tensor((n, 4), "float32"))

                                                   @T.prim_func(private=True)
                                                   def exp(x: T.Buffer(("n", 4)), compute: …): …

* An operator implemented by a packed function (its result has a size only the data tells) becomes a pure call of it.
* `customize_legalize_map` gives, by operator name, a function ``(builder, call) -> expression`` to use instead.
* Structurally equal PrimFuncs are one function: they are compared, not only hashed.
* A dimension that is not known is named by a match_cast first, and the kernel is generic over it.
* Intrinsics (call_tir, closures, print …) stay: later passes lower them.

Branches of an If and local functions are legalized too. All operators that cannot be legalized, in all functions, are
reported together (E4001).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import cast

from ..block_builder import BlockBuilder
from ..expr import Call, Function
from ..ir import Diagnostic, DiagnosticError, IRModule, Op, RelaxExpr
from ..op.intrinsics import Intrinsic
from ..op.operator import operator_of
from ..sinfo_text import struct_info_text
from .decorators import module_pass

Legalize = Callable[[BlockBuilder, Call], RelaxExpr]


@module_pass
def LegalizeOps(mod: IRModule, customize_legalize_map: Mapping[str, Legalize] | None = None) -> IRModule:
    """Legalize every operator of a module; see the module's docstring."""
    legalizer = _Legalizer(mod, customize_legalize_map or {})
    for global_var, func in mod.functions.items():
        if isinstance(func, Function):
            legalizer.functions[global_var.name_hint] = legalizer.function_body(func, global_var.name_hint)
    legalizer.finish()
    return legalizer.get()


class _Legalizer(BlockBuilder):
    """Normalisation, with each operator's call replaced on the way."""

    def __init__(self, mod: IRModule, custom: Mapping[str, Legalize]) -> None:
        super().__init__(mod, warn=False)
        self.trust = False
        self.custom = custom
        self.unsolved: list[tuple[Call, str, str]] = []
        """Calls that stay, each with the reason and the place."""

    def visit_call(self, expr: Call) -> RelaxExpr:
        normal = cast(Call, super().visit_call(expr))
        if not isinstance(normal.op, Op):
            return normal
        legalize = self.custom.get(normal.op.name) or self.rule(normal, normal.op)
        if legalize is None:
            return normal
        try:
            result = legalize(self, normal)
        except DiagnosticError as error:
            self.fail(normal, "; ".join(d.message for d in error.diagnostics))
            return normal
        if result is normal:
            self.fail(normal, self.reason(normal))
            return normal
        return self.visit(result if result.span is not None else _placed(result, normal))

    def rule(self, call: Call, op: Op) -> Legalize | None:
        """The operator's own way; None for an intrinsic."""
        operator = operator_of(call)
        if isinstance(operator, Intrinsic):
            return None
        return op.get_attr("FLegalize") or (lambda _, unchanged: unchanged)

    def fail(self, call: Call, reason: str) -> None:
        self.unsolved.append((call, reason, self.where))

    def reason(self, call: Call) -> str:
        """Why an operator could not be legalized."""
        operator = operator_of(call)
        if operator is None or (operator.compute is None and operator.packed is None):
            return "it has no formula, no packed function, and no entry in customize_legalize_map"
        infos = ", ".join(struct_info_text(arg.struct_info_) for arg in call.args)
        return f"too little is known of its operands: {infos}"

    def finish(self) -> None:
        """Report the operators that are left, all of them."""
        if not self.unsolved:
            return
        notes = Counter(
            f"{cast(Op, call.op).name}: {reason}{_place(call, where)}"
            for call, reason, where in self.unsolved
        )
        names = sorted({cast(Op, call.op).name for call, _, _ in self.unsolved})
        first = next((call.span for call, _, _ in self.unsolved if call.span is not None), None)
        raise DiagnosticError(
            Diagnostic(
                "E4001",
                f"LegalizeOps: cannot legalize {', '.join(names)}",
                first,
                notes=tuple(note if n == 1 else f"{note} ({n} times)" for note, n in notes.items()),
                hint="match_cast operands to what is known of them, or give a rule in customize_legalize_map",
            )
        )


def _place(call: Call, where: str) -> str:
    span = "" if call.span is None else f", at {call.span}"
    return f" ({where}{span})" if where else span


def _placed(result: RelaxExpr, call: Call) -> RelaxExpr:
    """What a call became stands where the call stood."""
    return result.replace(span=call.span) if call.span is not None and isinstance(result, Call) else result
