"""From Relay to Relax, the whole language.

    relax_mod = relay.to_relax(mod)

Polymorphic functions are instantiated first (`monomorphic`). What then becomes of types and values:

    Tensor[(n, ?), float32]   R.Tensor((n, d), "float32")   each `Any` of a parameter is a size of its own;
                                                            match_cast names those that Relax does not derive
    (T, U)                    R.Tuple(T, U)
    fn(T) -> U                R.Callable((T,), U)           impure in a module with references
    List[T]                   R.Object                      a tuple of the constructor's name and its fields:
                                                            ("Cons", x, rest); `runtime.tagged`
    ref(T)                    R.Object                      `runtime.references`

Functions become functions, `let` and graph bindings become bindings, in the scope where Relay evaluates them; an
operator's call becomes what it means (`ops`); a `match` becomes nested `if`s over tags. Pure bindings are gathered in
dataflow blocks at the end, so that passes over these see them.

Refused (E9050): what stays polymorphic (`monomorphic`), and expressions that have no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..block_builder import BlockBuilder
from ..derive.context import set_global_struct_info
from ..ir import BaseFunc, GlobalVar, IRModule
from ..transform import BindParams, ConvertToDataflow
from .call_order import callees_first, recursive_functions
from .effects import effects_in
from .expr import Function
from .infer import instances_in
from .monomorphic import monomorphic
from .translation import Translation


def to_relax(mod: IRModule, params: Mapping[str, Any] | None = None, *, entry: str = "main") -> IRModule:
    """The Relax module that computes what a Relay module does; `params` are constants for parameters of `entry`.

    That function can be called from outside; in a module without it, every function can. Types are inferred first.
    Raises DiagnosticError for what is wrong, or has no translation (E9050).
    """
    mod = monomorphic(mod, instances_in(mod), entry)
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function)}
    effects = effects_in(mod)
    builder = BlockBuilder(warn=False)
    names = {name: GlobalVar(name) for name in functions}
    recursive = recursive_functions(mod)
    for name in recursive:
        signature = Translation(builder, names, effects).signature(name, functions[name])
        set_global_struct_info(names[name], signature)
    result: dict[str, BaseFunc] = {}
    for name in callees_first(mod):  # what Relax derives of a result is known to the callers
        translation = Translation(builder, names, effects)
        translated = translation.function(name, functions[name], derives=name not in recursive)
        set_global_struct_info(names[name], translated.struct_info)
        public = name == entry or entry not in functions
        result[name] = translated.with_attr("global_symbol", name) if public else translated
    ordered: Any = {names[name]: result[name] for name in functions}
    relax_mod = ConvertToDataflow()(IRModule(ordered))
    return BindParams(entry, dict(params))(relax_mod) if params else relax_mod


__all__ = ["to_relax"]
