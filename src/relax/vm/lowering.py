"""Compilation of a module by all passes, for a program that is not in the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from ..codegen.build import compile_module
from ..codegen.evaluate import CompiledKernels
from ..codegen.module import NONE_LATER, LaterFunctions, Lowering
from ..codegen.out_of_process import ERRANDS, KernelsApart
from ..codegen.support_objects import expect_kernels
from ..expr import Call, Function
from ..extern_modules import extern_modules
from ..farm.host import executes
from ..farm.objects import machine_of
from ..farm.recall import NOTHING, KernelMemory, Recall, Recalled
from ..farm.versions import compiler_files, usual_passes
from ..farm.worker_processes import NO_ERRANDS, TEXTS_PER_HELPER, Compilers
from ..ir import BaseFunc, DiagnosticError, IRModule
from ..ir.deep import nested_too_deeply
from ..ir.transform import Pass, PassContext, Sequential
from ..library import FORM, Library, now_pipeline
from ..optimize import PACKED_KERNELS, PackConstants
from ..optimize.pipeline import get_pipeline
from ..rewrite import bindings_in
from ..runtime import ExecBuilder, Executable
from ..runtime.debug_info import KernelInfo
from ..runtime.rooms import ModuleWhenUsed
from ..schedules import ApplyDefaultSchedule, cpu
from ..target import Target
from ..tir import PrimFunc, written_params
from ..tir.transform import LowerTIR
from ..transform.bind_params import BindParams
from ..transform.fold_constant import EVALUATE
from ..transform.runtime_dispatch import COMPILE, Signature
from ..transform.vm_builtin_lower import VMBuiltinLower
from ..transform.vm_shape_lower import VMShapeLower
from .codegen import generate
from .compiled import compile_functions
from .kernel_info import kernel_infos

_operator_kernels: Final = ModuleWhenUsed("relax.vm.operator_kernels")
"""It builds programs itself."""

CALLS_PER_KERNEL: Final = 8
"""Estimated operator calls per distinct kernel.

The estimate is used before kernels are known: it starts a worker process in time for the first scheduled one.
"""


def built(
    module: IRModule,
    where: Target,
    pipeline: str | Pass | Callable[[IRModule], IRModule] | None,
    exec_mode: str,
    library: Library | None = None,
) -> Executable:
    """Executable of a module for a resolved target, built by all passes.

    Kernels of a `library`, which the pipeline has called, are compiled only if their machine code is not in the cache.
    """
    kernels = CompiledKernels(where) if executes(where) else None
    try:
        # Helpers read the compiler's files, which must be those that this process runs.
        errands = ERRANDS if usual_passes() and compiler_files() is not None else NO_ERRANDS
        with where, Compilers(machine_of(where), errands=errands) as compilers:
            expect_kernels(compilers, min(_call_count(module) // CALLS_PER_KERNEL, TEXTS_PER_HELPER), where)
            # FoldConstant folds as the program would compute.
            with PassContext.configured(EVALUATE, kernels), PassContext.configured(COMPILE, _compiled_beforehand):
                module = _chosen(pipeline)(module)
                infos = kernel_infos(module)
                machine = _ToMachine(where, compilers, library)
                ready = machine(module)
            kernels = _kernels(ready)
            builder, functions = _program(machine.scheduled, exec_mode == "compiled", infos)
            native = (
                compile_module(
                    kernels,
                    where,
                    remembered=machine.recall,
                    compilers=compilers,
                    later=functions,
                    lowering=machine.lowering,
                    elsewhere=machine.apart,
                )
                if kernels or functions.names
                else b""
            )
            features = [word[1:] for word in where.features.split(",") if word.startswith("+")]
            return builder.get(native, where.triple, features, extern_modules(ready))
    except RecursionError:
        raise DiagnosticError(nested_too_deeply("the program", "compiled", module.span)) from None


def built_now(module: IRModule, where: Target) -> Executable:
    """Executable of a module for a resolved target, of kernels of the library, as bytecode."""
    library = Library(where)
    return built(module, where, now_pipeline(library), "bytecode", library)


def _compiled_beforehand(spec: str, signatures: Sequence[Signature]) -> bytes:
    """Return a serialised executable of an operator's kernels for tensors of these signatures."""
    return cast(bytes, _operator_kernels.compiled_beforehand(spec, signatures))


def bind(mod: IRModule, params: Mapping[str, Any]) -> IRModule:
    """Bind parameters in every entry point that has one of that name; raise ValueError for a name that none has."""
    bound: set[str] = set()
    for global_var, function in mod.functions.items():
        if isinstance(function, Function) and "global_symbol" in function.attrs:
            names = {param.name_hint for param in function.params}
            mine = {name: value for name, value in params.items() if name in names}
            bound |= mine.keys()
            if mine:
                mod = BindParams(global_var.name_hint, mine)(mod)
    unknown = [name for name in params if name not in bound]
    if unknown:
        raise ValueError(f"build: no function has a parameter {', '.join(map(repr, unknown))}")
    return mod


def _call_count(mod: IRModule) -> int:
    """Number of calls bound to variables."""
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    return sum(isinstance(getattr(b, "value", None), Call) for f in functions for b in bindings_in(f))


def _chosen(pipeline: str | Pass | Callable[[IRModule], IRModule] | None) -> Callable[[IRModule], IRModule]:
    """Passes of a pipeline."""
    if pipeline is None:
        return lambda mod: mod
    return get_pipeline(pipeline) if isinstance(pipeline, str) else pipeline


class _ToMachine(Sequential):
    """Passes between the pipeline and code generation: the VM's and the kernels' own.

    Code generation lowers kernels one after another, so that one is compiled while the next is lowered; worker
    processes lower some as soon as they are scheduled. Kernels are lowered here only if the context has other than the
    default passes, or instruments that observe passes.
    """

    def __init__(self, target: Target, compilers: Compilers, library: Library | None = None) -> None:
        rules = cpu.rules_for(target)
        kernels: tuple[Pass, ...] = (ApplyDefaultSchedule(*rules, target=target, scheduled=self._offer),)
        if rules is not cpu.RULES:
            kernels = (ApplyDefaultSchedule(*rules, target=target),)
        elif library is None:
            kernels = (PackConstants(*rules, target=target, scheduled=self._offer), *kernels)
        super().__init__([VMBuiltinLower(), VMShapeLower()], name="to_machine")
        self.target, self.compilers, self.library = target, compilers, library
        self.scheduled = IRModule()
        """The module before kernels were lowered."""
        self.recall = NOTHING
        """The kernels that were compiled before."""
        self.lowering: Lowering | None = None
        """Function that lowers the kernels of the result; None if they are lowered."""
        self.apart: KernelsApart | None = None
        """The kernels that helpers may lower."""
        self._schedule = Sequential(kernels, name="schedule")
        self._memory = KernelMemory(target)
        self._known: set[str] = set()
        self._count = 0

    def transform(self, mod: IRModule) -> IRModule:
        mod = super().transform(mod)
        stored = NOTHING if self.library is None else Recall(_stored(mod, self.library), {})
        kernels = {g: f for g, f in mod.functions.items() if g.name_hint in stored.recalled}
        self._count = len(_kernels(mod)) - len(kernels)
        self.apart = KernelsApart(self.target, self.compilers) if usual_passes() else None
        others = {
            g: f.without_attr(FORM) if isinstance(f, PrimFunc) else f
            for g, f in mod.functions.items()
            if g not in kernels
        }
        scheduled = self._schedule(mod.with_functions(others))
        if self.library is not None:
            self._keep(mod, scheduled, self.library)
        self.recall = self._memory.recall(scheduled)
        self.scheduled = scheduled.with_functions({**scheduled.functions, **kernels})
        new = {
            name: self.recall.func(name, f)
            for name, f in _kernels(scheduled).items()
            if name not in self.recall.recalled
        }
        self.recall = Recall({**self.recall.recalled, **stored.recalled}, self.recall.nameless)
        expect_kernels(self.compilers, len(new), self.target)
        if self.apart is None:
            return LowerTIR(self.target)(self.scheduled)
        for name, func in new.items():
            self.apart.offer(name, func)
        self.apart.keep(new.keys())
        self.lowering = _Lowering(scheduled, self.target)
        return self.scheduled

    def _keep(self, mod: IRModule, scheduled: IRModule, library: Library) -> None:
        """Note what the cache will call the kernels of the library that are compiled now."""
        for name, func in _kernels(scheduled).items():
            form = _form(mod.get(name))
            nameless = None if form is None else self._memory.nameless(name, func)
            if form is not None and nameless is not None:
                library.keep(form, nameless)

    def _offer(self, name: str, func: PrimFunc) -> None:
        """Offer a scheduled kernel to worker processes unless it is cached; the first offer starts them."""
        if self.apart is None:
            return
        if self._memory.knows(name, func):
            self._known.add(name)
        elif self.apart.offer(name, self._memory.func(name, func)) and self._count:
            expected = self._count // (len(self._known) + 1)  # if of the others as many are known
            expect_kernels(self.compilers, expected, self.target)
            self._count = 0


def _stored(mod: IRModule, library: Library) -> dict[str, Recalled]:
    """Kernels of a library whose machine code is in the cache, by name."""
    forms = {name: _form(func) for name, func in _kernels(mod).items()}
    codes = {name: library.code(name, form) for name, form in forms.items() if form is not None}
    return {name: code for name, code in codes.items() if code is not None}


def _form(func: BaseFunc | None) -> str | None:
    """Digest of the general form of a kernel of the library; None for another kernel."""
    form = func.attrs.get(FORM) if isinstance(func, PrimFunc) else None
    return None if form is None else str(form)


def _kernels(mod: IRModule) -> dict[str, PrimFunc]:
    return {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}


class _Lowering:
    """Lowers selected functions of a module."""

    def __init__(self, mod: IRModule, target: Target) -> None:
        self._mod = mod
        self._vars = {g.name_hint: g for g, f in mod.functions.items() if isinstance(f, PrimFunc)}
        self._lower = LowerTIR(target)

    def __call__(self, group: dict[str, PrimFunc]) -> dict[str, PrimFunc]:
        mod = self._mod.with_functions({self._vars[name]: func for name, func in group.items()})
        return _kernels(self._lower(mod))


def _program(mod: IRModule, compiled: bool, infos: Mapping[str, KernelInfo]) -> tuple[ExecBuilder, LaterFunctions]:
    """Functions of a module with kernels not yet lowered, and compiled forms of functions that have one."""
    builder = ExecBuilder()
    origins = cast(Mapping[str, str], mod.attrs.get(PACKED_KERNELS, {}))
    for global_var, func in mod.functions.items():
        name = global_var.name_hint
        info = infos.get(origins.get(name, name))
        if isinstance(func, PrimFunc) and info is not None:
            builder.describe_kernel(name, replace(info, written=tuple(sorted(written_params(func)))))
    constants = generate(builder, mod)
    return builder, compile_functions(builder, mod, constants) if compiled else NONE_LATER
