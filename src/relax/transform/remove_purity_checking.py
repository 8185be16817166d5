"""Stop tracking purity: from here on lowering brings in effects, such as writing to what was just allocated.

Before   @R.function                                  After   @R.function
         def main(x):                                         def main(x):
             y = R.call_pure_packed("f", x, …)                    R.func_attr({"relax.force_pure": True})
             return y                                             y = R.call_packed("f", x, …)
                                                                  return y

Pure functions, local ones too, are taken at their word (`relax.force_pure`), so that calls in them are not
checked. Marked calls become ordinary ones. A dataflow block admits no effects whatever the function says, so calls in
one are left as they are: run ToNonDataflow first to have them all.
"""

from __future__ import annotations

from typing import cast

from ..derive.context import FORCE_PURE
from ..derive.normalize import Normalizer
from ..expr import Call, ExternFunc, Function
from ..ir import IRModule, RelaxExpr
from ..op import is_call_of
from ..op.intrinsic import PackedCall
from ..op.intrinsics import InvokeClosure, InvokePureClosure
from .decorators import module_pass


@module_pass
def RemovePurityChecking(mod: IRModule) -> IRModule:
    """Mark pure functions as such without checks, and call marked packed functions and closures directly."""
    remover = _Remover(mod, warn=False)
    return mod.with_functions(
        {
            g: remover.function_body(f, g.name_hint) if isinstance(f, Function) else f
            for g, f in mod.functions.items()
        }
    )


def force_pure(func: Function) -> Function:
    """The function, if it is pure, with its purity not to be checked."""
    if not func.is_pure or func.attrs.get(FORCE_PURE):
        return func
    return func.with_attr(FORCE_PURE, True)


class _Remover(Normalizer):
    def function_body(self, expr: Function, name: str) -> Function:
        return super().function_body(force_pure(expr), name)

    def visit_call(self, expr: Call) -> RelaxExpr:
        normal = cast(Call, super().visit_call(expr))
        if self.in_dataflow:
            return normal
        callee = normal.args[0] if normal.args else None
        direct: RelaxExpr | None = None
        if is_call_of(normal, PackedCall):
            if isinstance(callee, ExternFunc):
                direct = Call(callee, normal.args[1:], None, normal.sinfo_args, span=normal.span)
        elif is_call_of(normal, InvokePureClosure):
            direct = InvokeClosure().raw_call(normal.args, normal.sinfo_args, normal.span)
        return normal if direct is None else self.visit(direct)
