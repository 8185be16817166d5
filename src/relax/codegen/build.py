"""From PrimFuncs to something that runs: the entry points of code generation."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import tvm_ffi

from ..ir import BaseFunc, Diagnostic, DiagnosticError, IRModule
from ..runtime.native import NativeLibrary, load_object
from ..runtime.tensor import tensor_of_numpy
from ..target import Target
from ..tir import PrimFunc, lower
from . import cache
from .host import resolve
from .module import module_text
from .object import compiler_version, emit_assembly, emit_object, optimised
from .wrapper import symbol_name


@dataclass
class CompileStatistics:
    """What was compiled since the process began (or `reset`)."""

    modules: int = 0
    """Modules that became an object, compiled or from the cache."""
    functions: int = 0
    llvm_runs: int = 0
    """Modules that LLVM compiled, since the cache did not have them."""
    seconds: float = 0.0

    def reset(self) -> None:
        """Start counting anew."""
        self.__init__()


statistics: Final = CompileStatistics()
_lock = threading.Lock()


def compile_count() -> int:
    """How many modules of kernels were compiled or taken from the cache so far. Running compiled code adds none."""
    return statistics.modules


def compile_module(funcs: Mapping[str, PrimFunc], target: Target | str | None = None) -> bytes:
    """A relocatable ELF object of lowered PrimFuncs (`tir.lower`), each a packed function ``symbol_name(name)``.

    Raises DiagnosticError with everything in the functions that there is no code for.
    """
    chosen = resolve(target)
    return _compile(module_text(funcs, chosen), funcs, chosen)


def _compile(text: str, funcs: Mapping[str, PrimFunc], target: Target) -> bytes:
    start = time.perf_counter()
    key = cache.key_of(
        text, target.triple, target.mcpu, target.features, str(target.opt_level), compiler_version()
    )
    data = cache.load(key, ", ".join(list(funcs)[:4]) + (", …" if len(funcs) > 4 else ""))
    compiled = data is None
    if data is None:
        data = emit_object(text, target)
        cache.store(key, data)
    with _lock:
        statistics.modules += 1
        statistics.functions += len(funcs)
        statistics.llvm_runs += compiled
        statistics.seconds += time.perf_counter() - start
    return data


class CompiledFunction:
    """A compiled PrimFunc, called with arrays (written in place), tensors and numbers."""

    def __init__(self, name: str, packed: tvm_ffi.Function) -> None:
        self.name = name
        self.packed = packed

    def __call__(self, *args: Any) -> None:
        self.packed(*(_argument(self.name, i, arg) for i, arg in enumerate(args)))

    def __repr__(self) -> str:
        return f"<compiled PrimFunc {self.name}>"


def _argument(function: str, position: int, arg: Any) -> Any:
    """An argument as the packed function takes it; arrays share their memory, so that results arrive."""
    if isinstance(arg, np.ndarray):
        array = cast("np.ndarray[Any, Any]", arg)
        if not array.flags.writeable:
            raise ValueError(f"{function}: argument {position} is a read-only array; pass a copy")
        if array.flags.c_contiguous and array.flags.aligned:
            return tensor_of_numpy(array)
        return tvm_ffi.from_dlpack(array)
    value = cast(Any, arg).item() if isinstance(arg, np.generic) else arg
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{function}: argument {position} is an int that does not fit into 64 bits")
    return value


class CompiledModule:
    """Loaded machine code of several PrimFuncs: ``module["name"](a, b, n)``."""

    def __init__(self, data: bytes, names: tuple[str, ...], text: str, target: Target) -> None:
        self.data = data
        """The object file."""
        self.target = target
        self.library: NativeLibrary = load_object(data, ", ".join(names[:4]) or "module")
        self._names = names
        self._text = text

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

    def get_source(self, kind: str = "ll") -> str:
        """The code as text: ``ll``, LLVM IR as it was written; ``opt``, optimised; ``asm``, the assembly."""
        if kind == "ll":
            return self._text
        if kind == "opt":
            return str(optimised(self._text, self.target))
        if kind in ("asm", "s"):
            return emit_assembly(self._text, self.target)
        raise ValueError(f"unknown kind of source {kind!r}; there are 'll', 'opt' and 'asm'")


def build_module(
    mod: IRModule | PrimFunc | Mapping[str, PrimFunc], target: Target | str | None = None
) -> CompiledModule:
    """Compile PrimFuncs and load them. A lone PrimFunc is called by its global_symbol, or main."""
    if isinstance(mod, PrimFunc):
        mod = IRModule.from_expr(mod)
    pairs: Mapping[str, BaseFunc] = (
        {g.name_hint: f for g, f in mod.items()} if isinstance(mod, IRModule) else mod
    )
    funcs = {name: func for name, func in pairs.items() if isinstance(func, PrimFunc)}
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
    text = module_text(kernels, chosen)
    return CompiledModule(_compile(text, kernels, chosen), tuple(funcs), text, chosen)
