"""Name every public function after its global symbol.

Before   @R.function(private=True)                After   @R.function(private=True)
         def f(x): ...                                    def f1(x): ...
         @R.function                                      @R.function
         def main(x):           # global_symbol = "f"     def f(x):              # global_symbol = "f"
             y = cls.f(x)                                     y = cls.f1(x)
             return y                                         return y

A private function that has the name already gets another one, with a number behind it. Calls follow. Refused (E2013):
two functions with one global symbol.
"""

from __future__ import annotations

from ..derive.normalize import normalize_module
from ..expr import Var
from ..ir import BaseFunc, Diagnostic, DiagnosticError, GlobalVar, IRModule, Node, StructInfo, map_children
from .decorators import module_pass


@module_pass(breaks=())
def NormalizeGlobalVar(mod: IRModule) -> IRModule:
    """Rename functions to their global symbols; see the module's docstring."""
    names = _new_names(mod)
    if all(var.name_hint == name for var, name in names.items()):
        return mod
    table = {var.name_hint: GlobalVar(name) for var, name in names.items() if var.name_hint != name}

    def renamed(node: Node) -> Node:
        if isinstance(node, GlobalVar):
            return table.get(node.name_hint, node)
        return node if isinstance(node, (Var, StructInfo)) else map_children(node, renamed)

    functions: dict[GlobalVar, BaseFunc] = {}
    for var, function in mod.functions.items():
        new = renamed(function)
        assert isinstance(new, BaseFunc)
        functions[table.get(var.name_hint, var)] = new
    return normalize_module(mod.with_functions(functions))


def _new_names(mod: IRModule) -> dict[GlobalVar, str]:
    """The name of each function: its global symbol, or its own name as far as that is free."""
    symbols: dict[str, GlobalVar] = {}
    for var, function in mod.functions.items():
        symbol = function.attrs.get("global_symbol")
        if symbol is None:
            continue
        if symbol in symbols:
            message = f"NormalizeGlobalVar: {symbols[symbol].name_hint} and {var.name_hint} both have the global symbol"
            raise DiagnosticError(Diagnostic("E2013", f"{message} {symbol!r}", function.span))
        symbols[symbol] = var
    names = {var: symbol for symbol, var in symbols.items()}
    taken = set(symbols)
    for var in mod.functions:
        if var in names:
            continue
        name, count = var.name_hint, 0
        other_names = {other.name_hint for other in mod.functions if other is not var}
        while name in taken or (count and name in other_names):
            count += 1
            name = f"{var.name_hint}{count}"
        names[var] = name
        taken.add(name)
    return names
