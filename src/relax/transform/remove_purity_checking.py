"""Drop purity tracking, since lowering introduces effects such as writes into allocations.

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

from ..analysis.properties import NO_DATAFLOW, NORMAL_FORM, PURITY_TRUSTED
from ..derive.context import FORCE_PURE
from ..expr import Binding, Call, ExternFunc, Function
from ..ir import IRModule, RelaxExpr
from ..op import is_call_of
from ..op.intrinsic import PackedCall
from ..op.intrinsics import InvokeClosure, InvokePureClosure
from ..rewrite import Rewriter, bindings_in
from .decorators import module_pass


@module_pass(needs={NORMAL_FORM, NO_DATAFLOW}, gives={PURITY_TRUSTED}, breaks=())
def RemovePurityChecking(mod: IRModule) -> IRModule:
    """Mark pure functions as such without checks, and call marked packed functions and closures directly."""
    return _Remover(mod).module()


def force_pure(func: Function) -> Function:
    """The function, if it is pure, with its purity not to be checked."""
    if not func.is_pure or func.attrs.get(FORCE_PURE):
        return func
    return func.with_attr(FORCE_PURE, True)


def _is_marked(binding: Binding) -> bool:
    """True for a call that is marked as pure, and for a local function."""
    value = getattr(binding, "value", None)
    return isinstance(value, Function) or (isinstance(value, Call) and is_call_of(value, PackedCall, InvokePureClosure))


class _Remover(Rewriter):
    def rewrite_function(self, function: Function, name: str = "") -> Function:
        if function.struct_info_ is None or any(map(_is_marked, bindings_in(function))):
            return super().rewrite_function(function, name)
        return force_pure(function)

    def function(self, function: Function) -> RelaxExpr:
        return super().function(force_pure(function))

    def call(self, call: Call) -> RelaxExpr:
        normal = self.parts(call)
        if self.builder.in_dataflow:
            return normal
        callee = normal.args[0] if normal.args else None
        if is_call_of(normal, PackedCall):
            if isinstance(callee, ExternFunc):
                return Call(callee, normal.args[1:], None, normal.sinfo_args, span=normal.span)
        elif is_call_of(normal, InvokePureClosure):
            return InvokeClosure().raw_call(normal.args, normal.sinfo_args, normal.span)
        return normal
