"""build: compile a module to an executable.

ex = relax.build(mod, "llvm")
y = relax.VirtualMachine(ex, relax.cpu())["main"](x)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..analysis.well_formed import assert_well_formed
from ..expr import Function
from ..farm.host import resolve
from ..ir import Diagnostic, DiagnosticError, IRModule
from ..ir.transform import Pass
from ..runtime.collection import rarely_collected
from ..runtime.executable import Executable
from ..runtime.rooms import ModuleWhenUsed
from ..target import Target
from ..tir.renew import renew_doubtful_sizes
from ..tir.stmt import PrimFunc
from .recall import recall_program

if TYPE_CHECKING:
    from ..codegen import build as kernels
    from ..codegen.build import CompiledModule
    from . import lowering
else:  # a program that the cache has needs none of the passes
    kernels = ModuleWhenUsed("relax.codegen.build")
    lowering = ModuleWhenUsed("relax.vm.lowering")

EXEC_MODES: Final = ("bytecode", "compiled")
"""Execution modes."""

NO_ENTRY = "E4103"
"""Error code: a module without a public Relax function."""


def compile(
    mod: IRModule | Function | PrimFunc,
    target: str | Target | Mapping[str, Any] | None = None,
    *,
    relax_pipeline: str | Pass | Callable[[IRModule], IRModule] | None = "default",
    tir_pipeline: str = "default",
) -> Executable | CompiledModule:
    """Compile a module of Relax functions, PrimFuncs, or both.

    A module with Relax functions becomes an Executable, as by `build`, whose `pipeline` is the `relax_pipeline`. One of
    PrimFuncs alone becomes a CompiledModule, as by `relax.codegen.build_module`: ``compile(mod)["f"](a, b)`` calls one.
    Kernels have one pipeline, ``"default"``; raises ValueError for another.
    """
    if tir_pipeline != "default":
        raise ValueError(
            f"tir_pipeline {tir_pipeline!r} is not known: kernels are lowered by relax.tir.lower; "
            "run passes of your own on the module before it is compiled"
        )
    module = IRModule.from_expr(mod) if isinstance(mod, Function | PrimFunc) else mod
    functions = list(module.functions.values()) if isinstance(module, IRModule) else []  # pyright: ignore[reportUnnecessaryIsInstance]
    if functions and all(isinstance(function, PrimFunc) for function in functions):
        return kernels.build_module(module, Target(target) if isinstance(target, Mapping) else target)
    return build(module, target, pipeline=relax_pipeline)


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

    Returns
    -------
    Executable
        The compiled program, to run with `relax.VirtualMachine` or to save.

    Raises
    ------
    DiagnosticError
        For an error in the program; it holds all errors of one stage.
    ValueError
        If `exec_mode` is none of the two, or `params` names a parameter that no function has.
    TypeError
        If `mod` is no module and no function.
    """
    if exec_mode not in EXEC_MODES:
        raise ValueError(f"exec_mode {exec_mode!r} is not known; there is: {', '.join(EXEC_MODES)}")
    module = IRModule.from_expr(mod) if isinstance(mod, Function | PrimFunc) else mod
    if not isinstance(module, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"build: expected an IRModule, found {type(module).__name__}")
    where = resolve(Target(target) if isinstance(target, Mapping) else target)
    with rarely_collected():
        assert_well_formed(module, check_struct_info=False)
        _check_entry_points(module)
        module = module.with_functions(
            {g: renew_doubtful_sizes(f) if isinstance(f, PrimFunc) else f for g, f in module.functions.items()}
        )
        if params:
            module = lowering.bind(module, params)
        memory = recall_program(module, where, pipeline, exec_mode)
        executable = None if memory is None else memory.load()
        if executable is None:
            executable = _built(module, where, pipeline, exec_mode)
            if memory is not None:
                memory.keep(executable)
        return executable


def _built(
    module: IRModule, where: Target, pipeline: str | Pass | Callable[[IRModule], IRModule] | None, exec_mode: str
) -> Executable:
    """Executable of a module for a resolved target, built by all passes."""
    return lowering.built(module, where, pipeline, exec_mode)


def _check_entry_points(mod: IRModule) -> None:
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    if not any("global_symbol" in f.attrs for f in functions):
        hint = "relax.codegen.build_module compiles PrimFuncs by themselves"
        raise DiagnosticError(
            Diagnostic(NO_ENTRY, "the module has no Relax function to call from outside", mod.span, hint=hint)
        )
