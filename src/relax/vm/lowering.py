"""Compilation of a module by all passes, for a program that is not in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ..codegen.archives import compile_texts
from ..codegen.support_objects import expect_kernels
from ..expr import Call, Constant, Function, Var, VarBinding
from ..extern_modules import extern_modules
from ..farm.host import executes
from ..farm.objects import machine_of
from ..farm.recall import NOTHING, KernelMemory, Recall, Recalled, joined_kernels
from ..farm.tuning_records import current_database
from ..farm.versions import compiler_files, usual_passes
from ..farm.worker import Errands
from ..farm.worker_processes import NO_ERRANDS, TEXTS_PER_HELPER, Compilers
from ..ir import DiagnosticError, IRModule, StoredArray, exact_digest
from ..ir.deep import nested_too_deeply
from ..ir.stored import read_beside
from ..ir.transform import Pass, PassContext, Sequential, module_pass
from ..library import FORM, Library, now_pipeline, shipped_target
from ..rewrite import bindings_in
from ..runtime import ExecBuilder, Executable
from ..runtime.debug_info import KernelInfo
from ..runtime.rooms import ModuleWhenUsed
from ..target import Target
from ..tir import PrimFunc, written_params
from ..transform.bind_params import BindParams
from ..transform.fold_constant import EVALUATE
from ..transform.runtime_dispatch import COMPILE, Signature
from ..transform.vm_builtin_lower import VMBuiltinLower
from ..transform.vm_shape_lower import VMShapeLower
from .codegen import generate
from .kernel_info import kernel_infos

if TYPE_CHECKING:
    from .. import optimize, schedules
    from ..codegen import build as codegen
    from ..codegen import evaluate, out_of_process
    from ..codegen.module import LaterFunctions, Lowering
    from ..optimize import pipeline as pipelines
    from ..schedules import ScheduleRule, cpu
    from ..tir import transform as tir_transform
    from . import compiled as compiled_functions
    from . import tuned
else:  # a program of kernels that the cache has needs none of them
    optimize, schedules = ModuleWhenUsed("relax.optimize"), ModuleWhenUsed("relax.schedules")
    codegen = ModuleWhenUsed("relax.codegen.build")
    evaluate = ModuleWhenUsed("relax.codegen.evaluate")
    out_of_process = ModuleWhenUsed("relax.codegen.out_of_process")
    pipelines = ModuleWhenUsed("relax.optimize.pipeline")
    cpu = ModuleWhenUsed("relax.schedules.cpu")
    tir_transform = ModuleWhenUsed("relax.tir.transform")
    compiled_functions = ModuleWhenUsed("relax.vm.compiled")
    tuned = ModuleWhenUsed("relax.vm.tuned")

_operator_kernels: Final = ModuleWhenUsed("relax.vm.operator_kernels")
"""It builds programs itself."""

ERRANDS: Final = Errands(
    "relax.codegen.out_of_process", str(Path(__file__).parent.with_name("codegen") / "out_of_process.py")
)
"""The module that worker processes lower and write kernels with."""

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
    kernels = _Evaluator(where) if executes(where) else None
    try:
        # Helpers read the compiler's files, which must be those that this process runs.
        errands = ERRANDS if usual_passes() and compiler_files() is not None else NO_ERRANDS
        with where, Compilers(machine_of(where), errands=errands) as compilers:
            if library is None:
                expected = min(_call_count(module) // CALLS_PER_KERNEL, TEXTS_PER_HELPER)
                expect_kernels(compilers, expected, where)
            # FoldConstant folds as the program would compute.
            with PassContext.configured(EVALUATE, kernels), PassContext.configured(COMPILE, _compiled_beforehand):
                module = _chosen(pipeline)(module)
                infos = kernel_infos(module)
                machine = _ToMachine(where, compilers, library)
                ready = machine(module)
            kernels = _kernels(ready)
            builder, functions = _program(machine.scheduled, exec_mode == "compiled", infos)
            native = _native(kernels, functions, machine)
            features = [word[1:] for word in where.features.split(",") if word.startswith("+")]
            return builder.get(native, where.triple, features, extern_modules(ready))
    except RecursionError:
        raise DiagnosticError(nested_too_deeply("the program", "compiled", module.span)) from None


def _native(kernels: dict[str, PrimFunc], later: LaterFunctions | None, machine: _ToMachine) -> bytes:
    """Archive of the kernels of a program, and of the functions that are compiled `later`."""
    compiles_later = later is not None and bool(later.names)
    if not compiles_later and kernels.keys() <= machine.recall.recalled.keys():
        if not kernels:
            return b""
        return compile_texts((), machine.target, machine.compilers, [*kernels], machine.recall)
    return codegen.compile_module(
        kernels,
        machine.target,
        remembered=machine.recall,
        compilers=machine.compilers,
        later=later or codegen.NONE_LATER,
        lowering=machine.lowering,
        elsewhere=machine.apart,
    )


def unscheduled(
    module: IRModule, where: Target, pipeline: str | Pass | Callable[[IRModule], IRModule] | None = "default"
) -> IRModule:
    """Module after all passes of `built` that come before kernels are scheduled, for a resolved target."""
    kernels = _Evaluator(where) if executes(where) else None
    with where, PassContext.configured(EVALUATE, kernels), PassContext.configured(COMPILE, _compiled_beforehand):
        return Sequential([VMBuiltinLower(), VMShapeLower()])(_chosen(pipeline)(module))


class _Evaluator:
    """Kernels compiled and run at compile time (`relax.codegen.evaluate`), which few programs need."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __call__(self, func: PrimFunc, args: Sequence[Any]) -> bool:
        return self._compiled(func, args)

    @cached_property
    def _compiled(self) -> evaluate.CompiledKernels:
        return evaluate.CompiledKernels(self._target)


def built_now(module: IRModule, where: Target) -> Executable:
    """Executable of a module for a resolved target, of kernels of the library, as bytecode.

    For this machine it is compiled for a level of CPUs if the package carries kernels for it (`library.shipped`).
    A thread reads constants in files meanwhile: no pass needs the elements of weights, but the program does.
    """
    read_beside(_stored_operands(module))
    where = shipped_target(where)
    library = Library(where)
    return built(module, where, now_pipeline(library), "bytecode", library)


def _stored_operands(mod: IRModule) -> Iterator[StoredArray]:
    """Elements of constants in files that are operands of calls together with variables: those are not folded."""
    for func in mod.functions.values():
        for binding in bindings_in(func) if isinstance(func, Function) else ():
            value = binding.value if isinstance(binding, VarBinding) else None
            if isinstance(value, Call) and any(isinstance(arg, Var) for arg in value.args):
                for arg in value.args:
                    if isinstance(arg, Constant) and isinstance(arg.content, StoredArray):
                        yield arg.content


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
    return pipelines.get_pipeline(pipeline) if isinstance(pipeline, str) else pipeline


class _ToMachine(Sequential):
    """Passes between the pipeline and code generation: the VM's and the kernels' own.

    Code generation lowers kernels one after another, so that one is compiled while the next is lowered; worker
    processes lower some as soon as they are scheduled. Kernels are lowered here only if the context has other than the
    default passes, or instruments that observe passes.
    """

    def __init__(self, target: Target, compilers: Compilers, library: Library | None = None) -> None:
        super().__init__([VMBuiltinLower(), VMShapeLower()], name="to_machine")
        self.target, self.compilers, self.library = target, compilers, library
        self.scheduled = IRModule()
        """The module before kernels were lowered."""
        self.recall = NOTHING
        """The kernels that were compiled before."""
        self.lowering: Lowering | None = None
        """Function that lowers the kernels of the result; None if they are lowered."""
        self.apart: out_of_process.KernelsApart | None = None
        """The kernels that helpers may lower."""
        self._memory = KernelMemory(target)
        self._known: set[str] = set()
        self._count = 0

    def _schedule(self) -> Pass:
        """Passes that schedule kernels, and pack their constants."""
        target, rules = self.target, cpu.rules_for(self.target)
        if self.library is None and (database := current_database()) is not None:
            records = partial(tuned.with_records, target=target, rules=rules, database=database)
            apply = module_pass(records, name="ApplyTuningRecords")()
            return Sequential([apply, self._by_rules(rules)], name="schedule")
        return self._by_rules(rules)

    def _by_rules(self, rules: tuple[ScheduleRule, ...]) -> Pass:
        target = self.target
        kernels: tuple[Pass, ...] = (schedules.ApplyDefaultSchedule(*rules, target=target, scheduled=self._offer),)
        if rules is not cpu.RULES:
            kernels = (schedules.ApplyDefaultSchedule(*rules, target=target),)
        elif self.library is None:
            kernels = (optimize.PackConstants(*rules, target=target, scheduled=self._offer), *kernels)
        return Sequential(kernels, name="schedule")

    def transform(self, mod: IRModule) -> IRModule:
        mod = super().transform(mod)
        forms = {} if self.library is None else _forms(mod)
        stored = NOTHING if self.library is None else Recall(_stored(forms, self.library), {})
        kernels = {g: f for g, f in mod.functions.items() if g.name_hint in stored.recalled}
        self._count = len(_kernels(mod)) - len(kernels)
        if kernels and not self._count:
            self.scheduled, self.recall = mod, stored
            return mod
        self.apart = out_of_process.KernelsApart(self.target, self.compilers) if usual_passes() else None
        others = {
            g: f.without_attr(FORM) if isinstance(f, PrimFunc) else f
            for g, f in mod.functions.items()
            if g not in kernels
        }
        scheduled = self._schedule()(mod.with_functions(others))
        if self.library is not None:
            self._keep(forms, scheduled, self.library)
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
            return tir_transform.LowerTIR(self.target)(self.scheduled)
        for name, func in new.items():
            self.apart.offer(name, func)
        self.apart.keep(new.keys())
        self.lowering = _Lowering(scheduled, self.target)
        return self.scheduled

    def _keep(self, forms: Mapping[str, str], scheduled: IRModule, library: Library) -> None:
        """Note what the cache will call the kernels that are compiled now."""
        for name, func in _kernels(scheduled).items():
            form = forms.get(name)
            nameless = None if form is None else self._memory.nameless(name, func)
            if form is not None and nameless is not None:
                library.keep(form, nameless)
        library.save_notes()

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


def _stored(forms: Mapping[str, str], library: Library) -> dict[str, Recalled]:
    """Kernels whose machine code is in the cache, by name."""
    codes = {name: library.code(name, form) for name, form in forms.items()}
    return {name: code for name, code in codes.items() if code is not None}


def _forms(mod: IRModule) -> dict[str, str]:
    """Digests under which the library knows the code of kernels, by name: of the general form, or of the kernel itself.

    A kernel that depends on other functions has none.
    """
    kernels = _kernels(mod)
    joined = joined_kernels(kernels)
    forms: dict[str, str] = {}
    for name, func in kernels.items():
        form = func.attrs.get(FORM)
        if form is not None:
            forms[name] = str(form)
        elif name not in joined:
            forms[name] = f"kernel {exact_digest(func).hex()}"
    return forms


def _kernels(mod: IRModule) -> dict[str, PrimFunc]:
    return {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}


class _Lowering:
    """Lowers selected functions of a module."""

    def __init__(self, mod: IRModule, target: Target) -> None:
        self._mod = mod
        self._vars = {g.name_hint: g for g, f in mod.functions.items() if isinstance(f, PrimFunc)}
        self._lower = tir_transform.LowerTIR(target)

    def __call__(self, group: dict[str, PrimFunc]) -> dict[str, PrimFunc]:
        mod = self._mod.with_functions({self._vars[name]: func for name, func in group.items()})
        return _kernels(self._lower(mod))


def _program(
    mod: IRModule, compiled: bool, infos: Mapping[str, KernelInfo]
) -> tuple[ExecBuilder, LaterFunctions | None]:
    """Functions of a module with kernels not yet lowered, and compiled forms of functions that have one."""
    builder = ExecBuilder()
    origins = cast(Mapping[str, str], mod.attrs.get(optimize.PACKED_KERNELS, {}) if mod.attrs else {})
    for global_var, func in mod.functions.items():
        name = global_var.name_hint
        info = infos.get(origins.get(name, name))
        if isinstance(func, PrimFunc) and info is not None:
            builder.describe_kernel(name, replace(info, written=tuple(sorted(written_params(func)))))
    constants = generate(builder, mod)
    return builder, compiled_functions.compile_functions(builder, mod, constants) if compiled else None
