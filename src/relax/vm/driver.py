"""build: a module becomes an executable.

ex = relax.build(mod, "llvm")
y = relax.VirtualMachine(ex, relax.cpu())["main"](x)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..analysis import assert_well_formed
from ..codegen import CompiledKernels, compile_module, executes, resolve
from ..expr import Function
from ..ir import Diagnostic, DiagnosticError, IRModule
from ..ir.deep import nested_too_deeply
from ..ir.transform import Pass, PassContext, Sequential
from ..runtime import ExecBuilder, Executable
from ..schedules import ApplyDefaultSchedule, PackConstants, cpu
from ..target import Target
from ..tir import PrimFunc
from ..tir.transform import LowerTIR
from ..transform.bind_params import BindParams
from ..transform.fold_constant import EVALUATE
from ..transform.pipeline import get_pipeline
from ..transform.vm_builtin_lower import VMBuiltinLower
from ..transform.vm_shape_lower import VMShapeLower
from .codegen import generate
from .compiled import compile_functions

EXEC_MODES: Final = ("bytecode", "compiled")
"""The execution modes."""

SCHEDULED: Final = 2
"""The optimisation level of a target from which on kernels' loops are arranged for it."""

NO_ENTRY = "E4103"
"""A module without a Relax function that can be called from outside."""


def build(
    mod: IRModule | Function | PrimFunc,
    target: str | Target | Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    pipeline: str | Pass | Callable[[IRModule], IRModule] | None = "default",
    exec_mode: str = "compiled",
) -> Executable:
    """Compile a module.

    Parameters
    ----------
    mod
        The module, or a single function.
    target
        The machine to compile for: ``"llvm"`` is this one. The target of an enclosing ``with`` by default.
    params
        Values for parameters, by name, that become constants of the program (the weights of a model).
    pipeline
        What lowers the module: a registered name, a pass, or any function from module to module. None: it is
        lowered already, as far as the machine's own passes (VMBuiltinLower, VMShapeLower) do not do it.
    exec_mode
        How Relax functions run: ``"compiled"``, as machine code where they can (`relax.vm.compilable`), or
        ``"bytecode"``, by the machine's interpreter.

    Raises DiagnosticError for an error in the program.
    """
    if exec_mode not in EXEC_MODES:
        raise ValueError(f"exec_mode {exec_mode!r} is not known; there is: {', '.join(EXEC_MODES)}")
    module = IRModule.from_expr(mod) if isinstance(mod, Function | PrimFunc) else mod
    if not isinstance(module, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"build: expected an IRModule, found {type(module).__name__}")
    where = resolve(Target(target) if isinstance(target, Mapping) else target)
    assert_well_formed(module, check_struct_info=False)
    _check_entry_points(module)
    if params:
        module = _bind(module, params)
    kernels = CompiledKernels(where) if executes(where) else None
    try:
        with where:
            with PassContext.configured(EVALUATE, kernels):  # FoldConstant folds as the program would compute
                module = _lowering(pipeline, where)(module)
            return _compile(module, where, exec_mode == "compiled")
    except RecursionError:
        raise DiagnosticError(nested_too_deeply("the program", "compiled", module.span)) from None


def _check_entry_points(mod: IRModule) -> None:
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    if not any("global_symbol" in f.attrs for f in functions):
        hint = "relax.codegen.build_module compiles PrimFuncs by themselves"
        raise DiagnosticError(
            Diagnostic(NO_ENTRY, "the module has no Relax function to call from outside", mod.span, hint=hint)
        )


def _bind(mod: IRModule, params: Mapping[str, Any]) -> IRModule:
    """Bind parameters in every entry point that has one of that name; a name that none has is an error."""
    known: set[str] = set()
    for global_var, function in mod.functions.items():
        if isinstance(function, Function) and "global_symbol" in function.attrs:
            names = {param.name_hint for param in function.params}
            mine = {name: value for name, value in params.items() if name in names}
            known |= mine.keys()
            if mine:
                mod = BindParams(global_var.name_hint, mine)(mod)
    unknown = [name for name in params if name not in known]
    if unknown:
        raise ValueError(f"build: no function has a parameter {', '.join(map(repr, unknown))}")
    return mod


def _lowering(
    pipeline: str | Pass | Callable[[IRModule], IRModule] | None, target: Target
) -> Callable[[IRModule], IRModule]:
    """The passes before bytecode and machine code: those of the pipeline, then the machine's own and the kernels'."""
    if pipeline is None:
        first: Callable[[IRModule], IRModule] = lambda mod: mod  # noqa: E731
    else:
        first = get_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    kernels: tuple[Pass, ...] = ()
    if target.opt_level >= SCHEDULED:
        kernels = (PackConstants(*cpu.RULES, target=target), ApplyDefaultSchedule(*cpu.RULES, target=target))
    own = Sequential([VMBuiltinLower(), VMShapeLower(), *kernels, LowerTIR(target)], name="to_machine")
    return lambda mod: own(first(mod))


def _compile(mod: IRModule, target: Target, compiled: bool) -> Executable:
    builder = ExecBuilder()
    kernels = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}
    constants = generate(builder, mod)
    if compiled:
        kernels |= compile_functions(builder, mod, constants).prim_funcs
    native = compile_module(kernels, target) if kernels else b""
    features = [word[1:] for word in target.features.split(",") if word.startswith("+")]
    return builder.get(native, target.triple, features)
