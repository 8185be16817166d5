"""Give shape variables of a signature values: one more specific program.

Before   def main(x: R.Tensor(("n", 4))) -> R.Tensor(("n * 4",)): …            BindSymbolicVars({"n": 16})
After    def main(x: R.Tensor((16, 4))) -> R.Tensor((64,)): …

A variable is named by its name or is itself the key; its value is a number or an expression. It is replaced in the
whole function: annotations, shape expressions, match_casts. With `func_name` only in that function, whose
signature must have it; otherwise in every function whose signature has it, which must be one at least.

A value may use the variables that the signature still binds. A name that no signature has or that means two
variables of one, a variable given twice, a value in other variables, and a negative size are reported (E4004). So is a
size in the function that a value makes negative, even if it is in a branch that would never be taken.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..analysis.properties import NORMAL_FORM
from ..derive.normalize import normalize_module
from ..derive.substitution import substitute
from ..expr import Function, If, register_operator_hooks
from ..info.mapping import bound_in, fields_in
from ..info.text import prim_text
from ..ir import BaseFunc, Diagnostic, DiagnosticContext, GlobalVar, IRModule
from ..prim import IntImm, PrimExpr, convert, free_vars
from ..prim import Var as ShapeVar
from ..prim import cast as prim_cast
from ..rewrite.rewriter import bindings_in
from ..struct_info import TensorStructInfo
from .bind_params import entry, on_one_function
from .decorators import module_pass


@module_pass(needs={NORMAL_FORM}, breaks=())
def BindSymbolicVars(mod: IRModule, binding_map: Mapping[Any, Any], func_name: str | None = None) -> IRModule:
    """Bind shape variables to values; see the module's docstring."""
    problems = DiagnosticContext()
    values = {key: size for key, given in binding_map.items() if (size := _size(key, given, problems)) is not None}
    if func_name is not None:
        entry(mod, func_name, "BindSymbolicVars", problems)
    tables: dict[GlobalVar, dict[ShapeVar, PrimExpr]] = {}
    for global_var, func in mod.functions.items():
        if isinstance(func, Function) and func_name in (None, global_var.name_hint):
            tables[global_var] = _table(func, global_var.name_hint, values, problems)
    variables = {var for table in tables.values() for var in table}
    for key in values:
        if not any(_means(key, var) for var in variables):
            where = f"{func_name} has" if func_name is not None else "the signatures of the module have"
            names = sorted({v.name for f in mod.functions.values() if isinstance(f, Function) for v in own(f)})
            message = f"BindSymbolicVars: {where} no shape variable {_name(key)!r}"
            notes = (f"there are: {', '.join(names) or 'none'}",)
            close = difflib.get_close_matches(_name(key), names, 1)
            hint = f"did you mean {close[0]!r}?" if close else "bind a shape variable that a signature names"
            problems.emit(Diagnostic("E4004", message, notes=notes, hint=hint))
    problems.finish()
    if not variables:
        return mod
    functions: dict[GlobalVar, BaseFunc] = {
        g: substitute(f, tables[g]) if tables.get(g) else f for g, f in mod.functions.items()
    }
    bound = normalize_module(mod.with_functions(functions))
    for global_var, table in tables.items():
        func = bound[global_var.name_hint]
        if table and isinstance(func, Function):
            _refuse_negative_sizes(global_var.name_hint, func, table, problems)
    problems.finish()
    return bound


def _refuse_negative_sizes(
    name: str, func: Function, table: Mapping[ShapeVar, PrimExpr], problems: DiagnosticContext
) -> None:
    """Report the first tensor of a function of which the values have made a size negative."""
    given = ", ".join(f"{var.name} = {prim_text(value)}" for var, value in table.items())
    bindings = sorted(bindings_in(func), key=lambda binding: isinstance(binding.value, If))  # branches tell more
    definitions = [(param, param.span) for param in func.params]
    definitions += [(binding.var, binding.value.span or binding.span) for binding in bindings]
    for var, span in definitions:
        for info in fields_in(var.struct_info_) if var.struct_info_ is not None else ():
            sizes = info.dims or () if isinstance(info, TensorStructInfo) else ()
            for axis, size in enumerate(sizes):
                if isinstance(size, IntImm) and size.value < 0:
                    problem = f"dimension {axis} of {var.name_hint} in {name} is {size.value}"
                    hint = "bind numbers for which no size is negative, or leave the variable to run time"
                    message = f"BindSymbolicVars: with {given}, {problem}"
                    problems.emit(Diagnostic("E4004", message, span, hint=hint))
                    return


def bind_function_symbolic_vars(func: Function, binding_map: Mapping[Any, Any]) -> Function:
    """``func.bind_symbolic_vars({name or variable: size})``: one function, by itself."""
    return on_one_function(func, lambda mod, name: BindSymbolicVars(binding_map, name)(mod))


def own(func: Function) -> dict[ShapeVar, None]:
    """The shape variables a function's signature binds."""
    return bound_in(*(param.struct_info_ for param in func.params if param.struct_info_ is not None))


def _name(key: Any) -> str:
    return str(getattr(key, "name", key))


def _means(key: Any, var: ShapeVar) -> bool:
    return key is var or (isinstance(key, str) and key == var.name)


def _size(key: Any, given: Any, problems: DiagnosticContext) -> PrimExpr | None:
    """Convert a value to a size. Reports a diagnostic and returns None if it is no integer expression or negative."""
    if isinstance(given, (int, np.integer, PrimExpr)) and not isinstance(given, bool):
        value = convert(given)
        if value.dtype.is_integer and not (isinstance(value, IntImm) and value.value < 0):
            return value
    message = f"BindSymbolicVars: {_name(key)!r} cannot be {given!r}"
    problems.emit(Diagnostic("E4004", message, hint="a size is an integer, zero or more"))
    return None


def _table(
    func: Function, name: str, values: Mapping[Any, PrimExpr], problems: DiagnosticContext
) -> dict[ShapeVar, PrimExpr]:
    """The values of the shape variables of one function."""
    table: dict[ShapeVar, PrimExpr] = {}
    variables = own(func)
    for key, value in values.items():
        meant = [var for var in variables if _means(key, var)]
        if len(meant) > 1:
            message = f"BindSymbolicVars: {name} has {len(meant)} shape variables called {_name(key)!r}"
            problems.emit(Diagnostic("E4004", message, hint="give the variable itself, not its name"))
        elif meant and meant[0] in table:
            message = f"BindSymbolicVars: {_name(key)!r} of {name} is bound twice, by its name and by itself"
            problems.emit(Diagnostic("E4004", message, hint="give one value for each variable"))
        elif meant:
            table[meant[0]] = prim_cast(meant[0].dtype, value)
    unbound = [var for var in variables if var not in table]
    for var, value in table.items():
        undefined = [used.name for used in free_vars(value) if used not in unbound]
        if undefined:
            message = f"BindSymbolicVars: the value {value} of {var.name!r} uses {', '.join(undefined)}"
            note = f"what {name} still binds: {', '.join(v.name for v in unbound) or 'nothing'}"
            hint = "use numbers, and variables of the signature that keep a dimension of their own"
            problems.emit(Diagnostic("E4004", message, notes=(note,), hint=hint))
    return table


register_operator_hooks({"bind_symbolic_vars": bind_function_symbolic_vars})
