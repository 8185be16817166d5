"""Entry points of code generation: compile PrimFuncs and load them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import tvm_ffi

from ..farm import worker
from ..farm.host import resolve
from ..farm.kernel_text import KernelText, symbol_name
from ..farm.objects import machine_of
from ..farm.recall import NOTHING, Recall
from ..farm.worker_processes import Compilers
from ..ir import BaseFunc, Diagnostic, DiagnosticError, IRModule
from ..runtime.dtypes import dtype_of_numpy, stride_unit
from ..runtime.native import NativeLibrary, load_object
from ..runtime.tensor import shared_tensor, tensor_of_numpy
from ..runtime.timing import BenchmarkResult, measure
from ..target import Target
from ..tir import PrimFunc, lower, renew_doubtful_sizes
from .archives import CompileStatistics as CompileStatistics
from .archives import compile_count as compile_count
from .archives import compile_texts
from .archives import statistics as statistics
from .module import NONE_LATER, Elsewhere, LaterFunctions, Lowering, kernel_texts, written_kernels


def compile_module(
    funcs: Mapping[str, PrimFunc],
    target: Target | str | None = None,
    jobs: int | None = None,
    remembered: Recall = NOTHING,
    compilers: Compilers | None = None,
    later: LaterFunctions = NONE_LATER,
    lowering: Lowering | None = None,
    elsewhere: Elsewhere | None = None,
) -> bytes:
    """Return an archive of objects for `relax.runtime`, with a packed function per lowered PrimFunc (`tir.lower`).

    Kernels that do not call each other are compiled and cached individually, small Relax functions in batches, in
    `jobs` parallel processes (default: RELAX_JOBS, or one per processor) or by the existing `compilers`. Objects of
    kernels in `remembered` are reused without a comparison. The `later` functions are appended, and created while
    others are compiled. With `lowering`, functions are lowered first, a few at a time, except those lowered and written
    `elsewhere`. Raises DiagnosticError with all errors in the functions.
    """
    chosen = resolve(target)
    new = {name: func for name, func in funcs.items() if name not in remembered.recalled}
    nameless = {name: remembered.func(name, func) for name, func in new.items()}
    texts = written_kernels(nameless, chosen, later=later, lowering=lowering, elsewhere=elsewhere)
    order = [*funcs, *later.names]
    try:
        if compilers is not None:
            return compile_texts(texts, chosen, compilers, order, remembered)
        with Compilers(machine_of(chosen), jobs) as own:
            return compile_texts(texts, chosen, own, order, remembered)
    except DiagnosticError:
        if any(nameless[name] is not func for name, func in new.items()):
            for _ in written_kernels(new, chosen, lowering=lowering):  # raises the errors again, with names
                pass
        raise


class CompiledFunction:
    """A compiled PrimFunc, callable with arrays (written in place), tensors and numbers."""

    def __init__(self, name: str, packed: tvm_ffi.Function) -> None:
        self.name = name
        self.packed = packed

    def __call__(self, *args: Any) -> None:
        self.packed(*(_argument(self.name, i, arg) for i, arg in enumerate(args)))

    def __repr__(self) -> str:
        return f"<compiled PrimFunc {self.name}>"


def _argument(function: str, position: int, arg: Any) -> Any:
    """Convert an argument for the packed function; arrays share their memory, so results are written in place."""
    if isinstance(arg, np.ndarray):
        array = cast("np.ndarray[Any, Any]", arg)
        if not array.flags.writeable:
            raise ValueError(f"{function}: argument {position} is a read-only array; pass a copy")
        if not array.dtype.isnative:  # what a kernel writes would go to a converted copy
            raise ValueError(f"{function}: argument {position} is an array in another byte order; convert it first")
        if array.flags.c_contiguous and array.flags.aligned:
            return tensor_of_numpy(array)
        dtype = dtype_of_numpy(array.dtype)
        if stride_unit(dtype) > 1:
            raise ValueError(
                f"{function}: argument {position} is an array of {dtype} with strides; pass a compact copy"
            )
        return shared_tensor(array, dtype)
    value = cast(Any, arg).item() if isinstance(arg, np.generic) else arg
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{function}: argument {position} is an int that does not fit into 64 bits")
    return value


class CompiledModule:
    """Loaded machine code of several PrimFuncs: ``module["name"](a, b, n)``."""

    def __init__(self, kernels: Sequence[KernelText], target: Target) -> None:
        names = tuple(name for kernel in kernels for name in kernel.names)
        with Compilers(machine_of(target)) as compilers:
            self.data = compile_texts(kernels, target, compilers)
        """The archive of objects."""
        self.target = target
        self.library: NativeLibrary = load_object(self.data, ", ".join(names[:4]) or "module")
        self._names = names
        self._kernels = kernels

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the functions."""
        return self._names

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> CompiledFunction:
        if name not in self._names:
            known = ", ".join(self._names) or "none"
            raise KeyError(f"the module has no function {name!r} (it has: {known})")
        return CompiledFunction(name, self.library.get_function(symbol_name(name)))

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """Return a function that runs `func_name` with its arguments `repeat` times `number` times.

        The conversion of the arguments is not measured.
        """
        del dev, f_preproc
        function = self[func_name]

        def evaluate(*args: Any) -> BenchmarkResult:
            values = [_argument(func_name, i, arg) for i, arg in enumerate(args)]
            return measure(
                lambda: function.packed(*values),
                number, repeat, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown,
            )  # fmt: skip

        return evaluate

    def get_source(self, kind: str = "ll") -> str:
        """Source code as text: ``ll`` (LLVM IR as generated), ``opt`` (optimised LLVM IR) or ``asm`` (assembly).

        Raises ValueError for another kind.
        """
        machine = machine_of(self.target)
        emit: dict[str, Callable[[str], str]] = {
            "ll": str,
            "opt": lambda text: str(worker.optimised(text, machine)),
            "asm": lambda text: worker.emit_assembly(text, machine),
        }
        chosen = emit.get("asm" if kind == "s" else kind)
        if chosen is None:
            raise ValueError(f"unknown kind of source {kind!r}; there are 'll', 'opt' and 'asm'")
        return "\n".join(kernel.shown(chosen(kernel.text)) for kernel in self._kernels)


def build_module(
    mod: IRModule | PrimFunc | Mapping[str, PrimFunc], target: Target | str | None = None
) -> CompiledModule:
    """Compile PrimFuncs and load them. A lone PrimFunc is called by its global_symbol, or main.

    Raises DiagnosticError if the module holds other kinds of functions, or for an error in one of the PrimFuncs.
    """
    if isinstance(mod, PrimFunc):
        mod = IRModule.from_expr(mod)
    pairs: Mapping[str, BaseFunc] = {g.name_hint: f for g, f in mod.items()} if isinstance(mod, IRModule) else mod
    funcs = {n: renew_doubtful_sizes(func) for n, func in pairs.items() if isinstance(func, PrimFunc)}
    others = [name for name in pairs if name not in funcs]
    if others:
        raise DiagnosticError(
            Diagnostic(
                "E5908",
                f"{', '.join(others)}: only PrimFuncs can be compiled here",
                hint="relax.build compiles a whole program",
            )
        )
    chosen = resolve(target)
    lowered = lower(IRModule(funcs), chosen).functions.items()
    kernels = {g.name_hint: func for g, func in lowered if isinstance(func, PrimFunc)}
    return CompiledModule(kernel_texts(kernels, chosen), chosen)
