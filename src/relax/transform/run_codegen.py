"""Pass functions to external code generators, and call the generated modules.

Before   def main(x):                                   # registered: "relax.ext.lib"
             y = cls.f(x)
             return y

         @R.function
         def f(a):
             R.func_attr({"Codegen": "lib"})
             …
After    def main(x):
             y = R.call_dps_packed("f", (x,), out_sinfo=R.Tensor((2, 3), "float32"))
             return y

For each value of the attribute "Codegen" that functions have (`FuseOpsByPattern(annotate_codegen=True)` and
`MergeCompositeFunctions` give it), the code generator of that name is called once: one of `GENERATORS`, or the packed
function ``relax.ext.<value>``. It gets the sequence of these functions, the options for it, and the names of the
constants in the functions, and returns modules (`relax.runtime.modules.Module`), which become part of the executable.
Each has functions under the names of those given, which take the arguments and the outputs to be written. A generator
that returns None sees to it that packed functions of these names are registered when the program runs.

A function stays if it is used otherwise than by calls in Relax. Functions that only the ones handed over used go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final, overload

from ..analysis.properties import NORMAL_FORM, STORAGE_EXPLICIT
from ..derive.call_graph import global_vars_in
from ..expr import Call, Constant, ExternFunc, Function, MatchCast, SeqExpr, Tuple, VarBinding
from ..extern_modules import with_extern_modules
from ..ir import Diagnostic, DiagnosticContext, DiagnosticError, GlobalVar, IRModule, Node, RelaxExpr, StructInfo, walk
from ..op import call_dps_packed
from ..rewrite import Rewriter
from ..runtime.modules import Module
from ..runtime.registry import get_global_func
from ..struct_info import TensorStructInfo, TupleStructInfo
from .decorators import module_pass
from .fusion.fuse_ops_by_pattern import CODEGEN
from .remove_unused_functions import without_unreachable

NO_CODEGEN: Final = "E4014"
"""A code generator that is not registered, or a function that it cannot be given."""


@module_pass(needs={NORMAL_FORM}, breaks={STORAGE_EXPLICIT})
def RunCodegen(
    mod: IRModule,
    target_options: Mapping[str, Mapping[str, Any]] | None = None,
    entry_functions: Sequence[str] | None = None,
) -> IRModule:
    """Run the outside code generators of functions with the attribute "Codegen"; see the module's docstring.

    Parameters
    ----------
    target_options
        The options of each code generator, by its name.
    entry_functions
        Functions that stay besides the public ones, whether they are used or not; main by default.
    """
    outside = {g: f for g, f in mod.functions.items() if isinstance(f, Function) and f.attrs.get(CODEGEN) is not None}
    if not outside:
        return mod
    rewriter = _Calls(mod, {name.name_hint for name in outside})
    handed = {name: f for name, f in outside.items() if name.name_hint in rewriter.names}
    if not handed:
        return mod
    modules = _generate(handed, dict(target_options or {}))
    changed = with_extern_modules(rewriter.module(), modules)
    rest = changed.with_functions({g: f for g, f in changed.functions.items() if g not in handed})
    return without_unreachable(rest, _entries(rest, entry_functions or ("main",)))


def _entries(mod: IRModule, names: Sequence[str]) -> set[str]:
    """The public functions of a module, and those of these names."""
    public = {g.name_hint for g, f in mod.functions.items() if "global_symbol" in f.attrs}
    return public | {g.name_hint for g in mod.functions}.intersection(names)


class Functions(Sequence[Function]):
    """The functions that a code generator is given. (A list would give it packed functions: Functions are callable.)"""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = tuple(functions)

    @overload
    def __getitem__(self, index: int) -> Function: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Function]: ...
    def __getitem__(self, index: int | slice) -> Function | Sequence[Function]:
        return self._functions[index]

    def __len__(self) -> int:
        return len(self._functions)


@final
class ConstantNames(Mapping[Constant, str]):
    """The names of constants in functions that a code generator is given: ``f_const_0``, as in TVM."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._names: dict[Constant, str] = {}
        for function in functions:
            self._note(function)

    def _note(self, function: Function) -> None:
        symbol = function.attrs.get("global_symbol", "main")
        count = 0

        def visit(item: Node) -> None:
            nonlocal count
            if isinstance(item, Constant) and item not in self._names:
                self._names[item] = f"{symbol}_const_{count}"
                count += 1

        walk(function, visit)

    def __getitem__(self, constant: Constant) -> str:
        return self._names[constant]

    def __iter__(self) -> Iterator[Constant]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


Generator: TypeAlias = "Callable[[Sequence[Function], dict[str, Any], ConstantNames], Module | Sequence[Module] | None]"
"""A code generator: functions, options and names of constants to modules."""

GENERATORS: Final[dict[str, Generator]] = {}
"""Code generators by name (`relax.register_codegen`)."""


def _generate(functions: Mapping[GlobalVar, Function], options: Mapping[str, Any]) -> list[Module]:
    """Call each code generator with its functions, and return the modules.

    Raises DiagnosticError (E4014) for generators that are not registered, and for results that are no modules.
    """
    groups: dict[str, list[Function]] = {}
    for function in functions.values():
        groups.setdefault(str(function.attrs[CODEGEN]), []).append(function)
    generators = {name: GENERATORS.get(name) or get_global_func(f"relax.ext.{name}", True) for name in groups}
    problems = DiagnosticContext()
    for name, generator in generators.items():
        if generator is None:
            message = f'RunCodegen: no code generator is registered as "relax.ext.{name}"'
            hint = f'register one: relax.register_codegen("{name}", …) or @relax.register_func("relax.ext.{name}")'
            problems.emit(Diagnostic(NO_CODEGEN, message, groups[name][0].span, hint=hint))
    problems.finish()
    modules: list[Module] = []
    for name, generator in generators.items():
        if generator is not None:
            group = groups[name]
            result: Any = generator(Functions(group), dict(options.get(name, {})), ConstantNames(group))
            modules += _modules(name, group[0], result)
    return modules


def _modules(name: str, function: Function, result: Any) -> list[Module]:
    """Return what a code generator made. Raises DiagnosticError (E4014) for what is no module."""
    items = list(cast("Sequence[Any]", result)) if isinstance(result, list | tuple) else [result]
    items = [item for item in items if item is not None]
    for item in items:
        if not isinstance(item, Module):
            message = f"RunCodegen: the code generator {name} returned a {type(item).__name__}, which is no module"
            hint = "return relax.runtime.modules.Module(kind, data, symbols, constants), a list of them, or None"
            raise DiagnosticError(Diagnostic(NO_CODEGEN, message, function.span, hint=hint))
    return items


class _Calls(Rewriter):
    """Replaces the calls of functions by calls of packed ones of the same names."""

    def __init__(self, mod: IRModule, names: set[str]) -> None:
        super().__init__(mod)
        self.names = names.difference(*map(_values_in, mod.functions.values()))

    def concerns(self, function: Function) -> bool:
        return not self.names.isdisjoint(global_vars_in(function))

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not isinstance(call.op, GlobalVar) or call.op.name_hint not in self.names:
            return call
        info = self._outputs(call)
        return call_dps_packed(ExternFunc(call.op.name_hint), Tuple(call.args), info)

    def _outputs(self, call: Call) -> StructInfo:
        """The struct info of the outputs. Raises DiagnosticError (E4014) if their shapes or dtypes are not known."""
        info = call.struct_info_
        infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
        for output in infos:
            if not isinstance(output, TensorStructInfo) or output.dims is None or output.dtype.is_void:
                name = cast(GlobalVar, call.op).name_hint
                message = f"RunCodegen: the outputs of {name} must be tensors of known shapes and dtypes"
                raise self.builder.error(
                    NO_CODEGEN, message, call.span, hint="give the function a return annotation of such tensors"
                )
        return cast(StructInfo, info)


def _values_in(function: Node) -> set[str]:
    """The global functions that a function mentions otherwise than to call them."""
    names: set[str] = set()

    def note(*items: object) -> None:
        names.update(item.name_hint for item in items if isinstance(item, GlobalVar))

    def visit(item: Node) -> None:
        match item:
            case Call():
                note(*item.args)
            case Tuple():
                note(*item.fields)
            case VarBinding() | MatchCast():
                note(item.value)
            case SeqExpr():
                note(item.body)
            case _:
                pass

    walk(function, visit)
    return names
