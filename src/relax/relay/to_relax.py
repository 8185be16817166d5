"""Translation of Relay to Relax.

    relax_mod = relay.to_relax(mod)

Polymorphic functions are instantiated first (`monomorphic`). Types and values are then translated as follows:

    Tensor[(n, ?), float32]   R.Tensor((n, d), "float32")   each `Any` of a parameter is a size of its own;
                                                            match_cast names those that Relax does not derive
    (T, U)                    R.Tuple(T, U)
    fn(T) -> U                R.Callable((T,), U)           impure in a module with references
    List[T]                   R.Object                      a tuple of the constructor's name and its fields:
                                                            ("Cons", x, rest); `runtime.tagged`
    ref(T)                    R.Object                      `runtime.references`

Functions become functions, `let` and graph bindings become bindings in their evaluation scope; an operator call becomes
its meaning (`ops`); a `match` becomes nested `if`s on tags. Pure bindings are finally grouped into dataflow blocks, for
the passes over these.

Not supported (E9050): programs that remain polymorphic (`monomorphic`), and expressions without a value.
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
    """Translate a Relay module to Relax; `params` are constants for parameters of `entry`.

    `entry` is the only externally callable function; without it, all functions are. Types are inferred first. Raises
    DiagnosticError for errors and for constructs without translation (E9050).
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
    for name in callees_first(mod):  # callers use the result info that Relax derives
        translation = Translation(builder, names, effects)
        translated = translation.function(name, functions[name], derives=name not in recursive)
        set_global_struct_info(names[name], translated.struct_info)
        public = name == entry or entry not in functions
        result[name] = translated.with_attr("global_symbol", name) if public else translated
    ordered: Any = {names[name]: result[name] for name in functions}
    relax_mod = ConvertToDataflow()(IRModule(ordered))
    return BindParams(entry, dict(params))(relax_mod) if params else relax_mod
