"""Replace calls of private Relax functions by their bodies.

Before   def main(x: R.Tensor(("n",))):            After   def main(x: R.Tensor(("n",))):
             y = cls.twice(x)                                  z = R.add(x, x)
             return y                                          return z

         @R.function(private=True)
         def twice(v: R.Tensor(("m",))):
             z = R.add(v, v)
             return z

Functions inlined go, if nothing else names them. A call stays a call if its function is an entry point, calls itself
through whatever others, or has attributes (a fused kernel is one, and stays one); if its arguments or its result must
be checked against an annotation at run time, which is the call's to do; and, in a dataflow block, if the body has
branches or local functions.
"""

from __future__ import annotations

from typing import cast

from ..analysis.properties import NORMAL_FORM
from ..analysis.totality import never_fails
from ..derive.call_graph import call_graph, components
from ..derive.substitution import copy_with_new_vars, substitute
from ..expr import Call, Function, SeqExpr
from ..info.relations import Verdict, check_compatible, fit_all
from ..ir import BaseFunc, GlobalVar, IRModule, RelaxExpr
from ..rewrite import Rewriter, bindings_in
from ..rewrite.inlined import emitted, has_control_flow
from ..struct_info import FuncStructInfo
from .decorators import module_pass


@module_pass(opt_level=0, needs={NORMAL_FORM}, breaks=())
def InlinePrivateFunctions(mod: IRModule) -> IRModule:
    """Inline private functions that do not call themselves; see the module's docstring."""
    graph = call_graph(mod)
    order = [group for group in components(graph) if isinstance(mod[group[0]], Function)]
    recursive = {name for group in order for name in group if len(group) > 1 or name in graph[name]}
    inliner = _Inliner(mod, recursive)
    for name in (name for group in order for name in group):
        inliner.functions[name] = inliner.rewrite_function(cast(Function, mod[name]), name)
    if not inliner.inlined:
        return mod
    functions: dict[GlobalVar, BaseFunc] = {g: inliner.functions.get(g.name_hint, f) for g, f in mod.functions.items()}
    return _without_inlined(mod.with_functions(functions), inliner.inlined)


class _Inliner(Rewriter):
    def __init__(self, mod: IRModule, recursive: set[str]) -> None:
        super().__init__(mod)
        self.recursive = recursive
        self.functions: dict[str, Function] = {}
        """The functions rewritten so far: callees come first."""
        self.inlined: set[str] = set()

    def concerns(self, function: Function) -> bool:
        values = (getattr(binding, "value", None) for binding in bindings_in(function))
        return any(isinstance(value, Call) and self.callee(value) is not None for value in values)

    def callee(self, call: Call) -> Function | None:
        """The function to inline for a call; None to keep the call."""
        if not isinstance(call.op, GlobalVar) or call.op.name_hint in self.recursive:
            return None
        function = self.functions.get(call.op.name_hint)
        return None if function is None or function.attrs else function

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        function = self.callee(call)
        if function is None or (self.builder.in_dataflow and has_control_flow(function.body)):
            return call
        function = copy_with_new_vars(function)
        params = [param.struct_info for param in function.params]
        with self.builder.knowing():
            fits, sizes, unmatched = fit_all([arg.struct_info for arg in call.args], params)
            result = check_compatible(function.body.struct_info, cast(FuncStructInfo, function.struct_info).ret)
        if unmatched or any(fit.verdict is not Verdict.YES for fit in (*fits, result)):
            return call
        self.inlined.add(cast(GlobalVar, call.op).name_hint)
        args = (
            arg if never_fails(arg) else self.builder.emit(arg, param.name_hint)
            for arg, param in zip(call.args, function.params, strict=True)
        )
        table = {**dict(zip(function.params, args, strict=True)), **sizes}
        body = cast(SeqExpr, substitute(function.body, table))
        return emitted(self.builder, body) if self.builder.in_dataflow else body


def _without_inlined(mod: IRModule, inlined: set[str]) -> IRModule:
    """The module without inlined functions that nothing names any longer."""
    while True:
        named = {name for names in call_graph(mod).values() for name in names}
        functions = {g: f for g, f in mod.functions.items() if g.name_hint not in inlined or g.name_hint in named}
        if len(functions) == len(mod.functions):
            return mod
        mod = mod.with_functions(functions)
