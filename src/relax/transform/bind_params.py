"""Give parameters of a function values, so that they can be folded, packed and planned for.

Before   def main(x: R.Tensor((1, 4)), w: R.Tensor(("n", 4))) -> R.Tensor((1, "n")): …     BindParams("main", {"w": w})
After    def main(x: R.Tensor((1, 4))) -> R.Tensor((1, 8)): …          w is R.const(w), and n is 8 everywhere

A parameter is named by its name or by its Var; a value is an array, a tensor, a number, a shape, a tuple of
values or an expression. Shape variables that a value determines are replaced in the whole function: annotations,
shape expressions, match_casts.

Struct info is derived again: a parameter of unknown dtype bound to float32 makes float32 of what is computed from it.

What can only be known when the function runs (a size ``2 * n`` whose n another parameter tells) is checked by a
match_cast at its start.

Every name that is no parameter, every value that does not fit, and a function that others call (their calls
would no longer fit) are reported together (E4003).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, cast

from ..analysis.properties import LEGALIZED, NO_OPERATORS, NORMAL_FORM, SHAPES_LOWERED
from ..derive.call_graph import global_vars_in
from ..expr import (
    BindingBlock,
    DataTypeImm,
    Function,
    MatchCast,
    SeqExpr,
    StringImm,
    Var,
    convert,
    register_operator_hooks,
)
from ..info.relations import Fit, Verdict, fit_all
from ..info.text import struct_info_text
from ..ir import Diagnostic, DiagnosticContext, IRModule, RelaxExpr, StructInfo
from ..rewrite import Rewriter
from ..struct_info import ObjectStructInfo
from .decorators import module_pass
from .refine import refined


@module_pass(needs={NORMAL_FORM}, breaks={LEGALIZED, NO_OPERATORS, SHAPES_LOWERED})
def BindParams(mod: IRModule, func_name: str, params: Mapping[Any, Any]) -> IRModule:
    """Bind parameters of one function to values; see the module's docstring."""
    problems = DiagnosticContext()
    func = entry(mod, func_name, "BindParams", problems)
    values = {} if func is None else bound_values(func, func_name, params, problems)
    fits, shapes, _ = fit_all(map(info_of, values.values()), map(info_of, values))
    for (param, value), fit in zip(values.items(), fits, strict=True):
        if fit.verdict is Verdict.NO:
            problems.emit(misfit(func_name, param, value, fit))
    if values:
        check_unused(mod, func_name, problems)
    problems.finish()
    if func is None or not values:
        return mod
    unproved = [p for p, fit in zip(values, fits, strict=True) if fit.verdict is Verdict.POSSIBLY]
    checks = [MatchCast(param, values.pop(param), info_of(param), span=param.span) for param in unproved]
    rest = tuple(param for param in func.params if param not in values and param not in unproved)
    body = SeqExpr([BindingBlock(checks)], func.body, span=func.body.span) if checks else func.body
    rewriter = Rewriter(mod.with_function(func_name, func.replace(params=rest, body=body)))
    rewriter.variables.update(values)
    rewriter.shape_vars.update(shapes)
    bound = rewriter.module()
    return bound.with_function(func_name, refined(cast(Function, bound[func_name]), bound))


def bind_function_params(func: Function, binding_map: Mapping[Any, Any]) -> Function:
    """``func.bind_params({name or Var: value})``: one function, by itself."""
    return on_one_function(func, lambda mod, name: BindParams(name, binding_map)(mod))


def on_one_function(func: Function, rewrite: Callable[[IRModule, str], IRModule]) -> Function:
    """A function rewritten as the only one of a module."""
    name = func.attrs.get("global_symbol", "main")
    result = rewrite(IRModule({name: func}), name)[name]
    assert isinstance(result, Function)
    return result


def info_of(expr: RelaxExpr) -> StructInfo:
    """The struct info of an expression."""
    return expr.struct_info_ or ObjectStructInfo()


def entry(mod: IRModule, name: str, who: str, problems: DiagnosticContext) -> Function | None:
    """Return the Relax function of a name; report an error and return None if there is none."""
    func = mod.get(name)
    if isinstance(func, Function):
        return func
    names = [g.name_hint for g, f in mod.functions.items() if isinstance(f, Function)]
    problem = "is not a Relax function" if func is not None else "is not in the module"
    notes = (f"the module's functions: {', '.join(names) or 'none'}",)
    problems.emit(Diagnostic("E4003", f"{who}: {name!r} {problem}", notes=notes, hint=_close(name, names)))
    return None


def _close(name: Any, names: list[str]) -> str:
    close = difflib.get_close_matches(str(name), names, 1)
    return f"did you mean {close[0]!r}?" if close else ""


def bound_values(
    func: Function, name: str, params: Mapping[Any, Any], problems: DiagnosticContext
) -> dict[Var, RelaxExpr]:
    """The value of each bound parameter."""
    values: dict[Var, RelaxExpr] = {}
    for key, given in params.items():
        matches = [p for p in func.params if p is key or (isinstance(key, str) and p.name_hint == key)]
        shown = getattr(key, "name_hint", key)
        if len(matches) != 1:
            names = [p.name_hint for p in func.params]
            why = "several parameters are" if matches else "no parameter is"
            notes = (f"the parameters of {name}: {', '.join(names) or 'none'}",)
            hint = "bind it by its Var" if matches else _close(shown, names)
            problems.emit(Diagnostic("E4003", f"BindParams: {why} called {shown!r}", None, "", notes, hint))
            continue
        if matches[0] in values:
            problems.emit(Diagnostic("E4003", f"BindParams: {shown!r} is bound twice"))
        try:
            value = convert(given)
        except (TypeError, ValueError) as error:
            problems.emit(Diagnostic("E4003", f"BindParams: {shown!r} cannot be bound: {error}"))
            continue
        if isinstance(value, StringImm | DataTypeImm) and not isinstance(info_of(matches[0]), ObjectStructInfo):
            declared = f"declared {struct_info_text(info_of(matches[0]))}"
            message = f"BindParams: the value of {shown} does not fit: it is {given!r}"
            problems.emit(Diagnostic("E4003", message, matches[0].span, f"in {name}", (declared,)))
        else:
            values[matches[0]] = value
    return values


def misfit(name: str, param: Var, value: RelaxExpr, fit: Fit) -> Diagnostic:
    """Return the diagnostic for a value that does not fit a parameter."""
    notes = (f"declared {struct_info_text(info_of(param))}", f"given    {struct_info_text(info_of(value))}")
    message = f"BindParams: the value of {param.name_hint} does not fit: {fit.reason}"
    return Diagnostic("E4003", message, param.span, f"in {name}", notes)


def check_unused(mod: IRModule, name: str, problems: DiagnosticContext) -> None:
    """Report functions that refer to a function whose signature changes."""
    users = [g.name_hint for g, f in mod.functions.items() if isinstance(f, Function) and name in global_vars_in(f)]
    if users:
        hint = f"bind the parameters of {users[0]} instead" if users != [name] else ""
        message = f"BindParams: {name} is called by {', '.join(users)}, which pass all its parameters"
        problems.emit(Diagnostic("E4003", message, hint=hint))


register_operator_hooks({"bind_params": bind_function_params})
