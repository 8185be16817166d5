"""Profile of a program: each kernel's part of the time, and the sizes that it is called with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tvm_ffi

from ..expr import Function, Var
from ..ir import Diagnostic, DiagnosticError, IRModule
from ..prim import IntImm, free_vars
from ..prim import Var as SizeVar
from ..prim.evaluate import evaluate
from ..runtime import VirtualMachine
from ..runtime.records import dataclass
from ..runtime.tensor import tensor_of_numpy
from ..runtime.timing import TracedCall
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from ..target import Target
from ..tir import PrimFunc
from ..vm import build
from .kernels import CANNOT, SEVERAL, Sizes, check_sizes

_RUNS: Final = 3


@dataclass
class Profile:
    """Times and argument shapes of kernels, by their names before constants were packed."""

    seconds: Mapping[str, float]
    shapes: Mapping[str, Sequence[tuple[tuple[int, ...] | int, ...]]]
    """Shapes of tensor arguments, and integers, of the different calls."""

    def share(self, name: str) -> float:
        """Part of the kernels' time that a kernel takes."""
        total = sum(self.seconds.values())
        return self.seconds.get(name, 0.0) / total if total else 0.0

    def sizes_of(self, name: str, func: PrimFunc, most: int = 4) -> list[Sizes]:
        """Return the sizes of the calls of a kernel, up to `most` different ones."""
        found: list[Sizes] = []
        for shapes in self.shapes.get(name, ()):
            sizes = _bound(func, shapes)
            if sizes not in found:
                found.append(sizes)
        return found[:most]


def profiled(
    mod: IRModule,
    target: Target,
    kernels: Collection[str],
    sizes: Sequence[Sizes],
    inputs: Sequence[Sequence[Any]],
    entry: str | None,
    seed: int,
) -> Profile:
    """Run a program at some sizes, or on `inputs`, and return the profile of `kernels`, given by name.

    Raises DiagnosticError (E4112) if there is no entry point, or random arguments cannot be made for it.
    """
    name, func = _entry(mod, entry)
    arguments = [list(one) for one in inputs] or _random_inputs(name, func, sizes, seed)
    seconds: dict[str, float] = {}
    shapes: dict[str, dict[tuple[tuple[int, ...] | int, ...], None]] = {}
    machine = VirtualMachine(build(mod, target, exec_mode="bytecode"))  # whose calls can be watched

    def record(call: TracedCall) -> None:
        kernel = origin_of(call.name, kernels)
        if kernel in kernels:
            seconds[kernel] = seconds.get(kernel, 0.0) + call.seconds
            shapes.setdefault(kernel, {})[_shapes(call.args)] = None

    for values in arguments:
        machine[name](*values)
        machine.set_tracer(record)
        for _ in range(_RUNS):
            machine[name](*values)
        machine.set_tracer(None)
    return Profile(seconds, {kernel: [*several] for kernel, several in shapes.items()})


def origin_of(name: str, kernels: Collection[str]) -> str:
    """Return the kernel of which `name` is the form for packed constants (`PackConstants`), else `name` itself."""
    original = name.rstrip("_").removesuffix("_packed")
    return original if name not in kernels and original in kernels else name


def _shapes(args: Sequence[Any]) -> tuple[tuple[int, ...] | int, ...]:
    values: list[tuple[int, ...] | int] = []
    for arg in args:
        if isinstance(arg, tvm_ffi.Tensor):
            values.append(tuple(int(size) for size in arg.shape))
        elif isinstance(arg, int):
            values.append(arg)
        else:
            values.append(-1)
    return tuple(values)


def _bound(func: PrimFunc, shapes: Sequence[tuple[int, ...] | int]) -> dict[str, int]:
    """Return the values of a function's symbolic sizes for arguments of some shapes."""
    values: dict[str, int] = {}
    for param, shape in zip(func.params, shapes, strict=False):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            if isinstance(shape, int) and param.dtype.is_integer:
                values[param.name] = shape
        elif isinstance(shape, tuple) and len(shape) == len(buffer.shape):
            for size, value in zip(buffer.shape, shape, strict=True):
                if isinstance(size, SizeVar):
                    values.setdefault(size.name, value)
    return values


# -------------------------------------------------------------------------------------- arguments


def _entry(mod: IRModule, entry: str | None) -> tuple[str, Function]:
    public = {
        global_var.name_hint: func
        for global_var, func in mod.functions.items()
        if isinstance(func, Function) and "global_symbol" in func.attrs
    }
    name = entry or ("main" if "main" in public or len(public) != 1 else next(iter(public)))
    if name not in public:
        message = f"there is no entry point {name!r} to run"
        raise DiagnosticError(Diagnostic(CANNOT, message, hint=f"there is: {', '.join(public) or 'none'}"))
    return name, public[name]


def _random_inputs(name: str, func: Function, sizes: Sequence[Sizes], seed: int) -> list[list[Any]]:
    """Return arguments of an entry point for each of `sizes`; sizes without a value take two of relax's own."""
    names = _size_names(func)
    check_sizes(sizes, names, name)
    chosen: list[dict[str, int]] = []
    for given in sizes or ({},):
        missing = [size for size in names if size not in given]
        chosen += [{**given, **dict.fromkeys(missing, value)} for value in (SEVERAL if missing else SEVERAL[:1])]
    return [[_argument(param, values, seed + i) for i, param in enumerate(func.params)] for values in chosen]


def _size_names(func: Function) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for param in func.params:
        info = param.struct_info
        for size in _dims(info):
            if isinstance(size, SizeVar):
                names[size.name] = None
        if isinstance(info, PrimStructInfo) and isinstance(info.value, SizeVar):
            names[info.value.name] = None
    return tuple(names)


def _dims(info: object) -> Sequence[Any]:
    if isinstance(info, ShapeStructInfo):
        return info.values or ()
    shape = getattr(info, "shape", None) if isinstance(info, TensorStructInfo) else None
    return getattr(shape, "values", ()) if shape is not None else ()


def _argument(param: Var, sizes: Sizes, seed: int) -> Any:
    """Return a random argument. Raises DiagnosticError for a parameter that is no tensor of known rank."""
    info = param.struct_info
    generator = np.random.default_rng(seed)
    if isinstance(info, TensorStructInfo) and info.ndim >= 0 and info.dtype and len(_dims(info)) == info.ndim:
        shape = tuple(_size(size, sizes) for size in _dims(info))
        return tensor_of_numpy(_random(shape, str(info.dtype), generator))
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        return tvm_ffi.Shape(tuple(_size(size, sizes) for size in info.values))
    if isinstance(info, PrimStructInfo) and isinstance(info.value, SizeVar):
        return sizes[info.value.name]
    message = f"there are no random arguments for the parameter {param.name_hint}: {info}"
    raise DiagnosticError(Diagnostic(CANNOT, message, param.span, hint="give arguments: inputs=[[…]]"))


def _size(size: Any, sizes: Sizes) -> int:
    if isinstance(size, IntImm):
        return size.value
    return int(evaluate(size, {var: sizes[var.name] for var in free_vars(size)}))


def _random(shape: tuple[int, ...], dtype: str, generator: np.random.Generator) -> Any:
    if dtype.startswith(("float", "bfloat")):
        return generator.standard_normal(shape).astype(dtype)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype("bool")
    if dtype in ("int8", "uint8"):
        return generator.integers(0, 100, shape).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)
