"""build: compile a module to an executable.

ex = relax.build(mod, "llvm")
y = relax.VirtualMachine(ex, relax.cpu())["main"](x)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from ..analysis.well_formed import assert_well_formed
from ..expr import Function
from ..farm.host import resolve
from ..ir import Diagnostic, DiagnosticError, IRModule
from ..ir.transform import Pass, PassContext
from ..runtime.collection import rarely_collected
from ..runtime.executable import Executable
from ..runtime.rooms import ModuleWhenUsed
from ..runtime.upgrade import Upgrade
from ..target import Target
from ..tir.renew import renew_doubtful_sizes
from ..tir.stmt import PrimFunc
from .recall import NOW, ProgramMemory, recall_program

if TYPE_CHECKING:
    from ..codegen import build as kernels
    from ..codegen.build import CompiledModule
    from . import full_build, lowering
else:  # a program that the cache has needs none of the passes
    kernels = ModuleWhenUsed("relax.codegen.build")
    lowering = ModuleWhenUsed("relax.vm.lowering")
    full_build = ModuleWhenUsed("relax.vm.full_build")

EXEC_MODES: Final = ("bytecode", "compiled")
"""Execution modes."""

TIERS: Final = ("full", "now", "auto")
"""Tiers of programs; "auto" is the second at first, then the first."""

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
    tier: str = "full",
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
    tier
        How much work goes into the program: ``"full"`` fuses and packs for its sizes; ``"now"`` calls kernels that
        serve all sizes (`relax.library`), most of which are in the cache, and runs as bytecode; ``"auto"`` returns that
        program at once, while another process builds the full one, which takes over between two calls
        (`VirtualMachine.tier`, `VirtualMachine.wait_full`).

    Returns
    -------
    Executable
        The compiled program, to run with `relax.VirtualMachine` or to save.

    Raises
    ------
    DiagnosticError
        For an error in the program; it holds all errors of one stage.
    ValueError
        If `exec_mode` or `tier` is none of those, another tier than ``"full"`` is asked for with another pipeline than
        the default one, or `params` names a parameter that no function has.
    TypeError
        If `mod` is no module and no function.
    """
    if exec_mode not in EXEC_MODES:
        raise ValueError(f"exec_mode {exec_mode!r} is not known; there is: {', '.join(EXEC_MODES)}")
    if tier not in TIERS:
        raise ValueError(f"tier {tier!r} is not known; there is: {', '.join(TIERS)}")
    if tier != "full" and pipeline != "default":
        raise ValueError(f'tier {tier!r} has a pipeline of its own: pass tier="full" with another one')
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
        if tier == "full":
            memory = recall_program(module, where, pipeline, exec_mode)
            return built_or_recalled(module, where, pipeline, exec_mode, memory)
        if tier == "now":
            return _built_now(module, where)
        return _built_in_steps(module, where, exec_mode)


def built_or_recalled(
    module: IRModule,
    where: Target,
    pipeline: str | Pass | Callable[[IRModule], IRModule] | None,
    exec_mode: str,
    memory: ProgramMemory | None,
) -> Executable:
    """Executable of a module that `build` has checked, from the cache if `memory` finds it there."""
    executable = None if memory is None else memory.load()
    if executable is None:
        with nullcontext() if memory is None else memory.consulted.collecting():
            executable = _built(module, where, pipeline, exec_mode)
        if memory is not None:
            memory.keep(executable)
    return executable


def _built_now(module: IRModule, where: Target) -> Executable:
    """Executable of tier "now"."""
    memory = recall_program(module, where, "default", NOW)
    executable = None if memory is None else memory.load()
    if executable is None:
        executable = lowering.built_now(module, where)
        if memory is not None:
            memory.keep(executable)
    executable.tier = "now"
    return executable


def _built_in_steps(module: IRModule, where: Target, exec_mode: str) -> Executable:
    """Executable of tier "now" whose full build is under way in another process; the full one if the cache has it.

    A program that the cache cannot hold is built in full here: another process could not hand it over.
    """
    memory = recall_program(module, where, "default", exec_mode)
    full = None if memory is None else memory.load()
    if memory is None or full is not None:
        return full or _built(module, where, "default", exec_mode)
    executable = _built_now(module, where)
    request = full_build.Request(module, where, exec_mode, full_build.context_of(PassContext.current()))
    executable.upgrade = Upgrade(full_build.FullBuild(request, memory))
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
