"""Readers of programs, selected by file suffix.

model.onnx     an ONNX model, if the package onnx is installed
model.pt2      a program of torch.export, if the package torch is installed
model.py       TVMScript; the text is interpreted, never executed as Python
model.json     what `relax.ir.save_json` writes
model.relax    an executable, what `relax compile` writes
"""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from errno import ENOENT
from pathlib import Path
from typing import Any, Final, cast

from ..analysis import check_well_formed
from ..analysis.inplace import check_reuse
from ..analysis.well_formed import check_normalized
from ..derive.normalize import normalize_module
from ..expr import Function, ShapeExpr, Var
from ..frontend.given import array_of, did_you_mean
from ..info.runtime import InfoMaker
from ..info.text import prim_text
from ..ir import DiagnosticContext, DiagnosticError, IRModule
from ..ir.serialize import load_json
from ..prim import IntImm
from ..prim import Var as ShapeVar
from ..runtime import Executable
from ..runtime.executable import ExecutableError
from ..runtime.info import Info
from ..runtime.records import dataclass
from ..script import from_source
from ..struct_info import ShapeStructInfo, TensorStructInfo
from ..transform.bind_params import BindParams
from ..transform.bind_symbolic_vars import BindSymbolicVars
from ..vm import build
from .arguments import once
from .failures import UNREADABLE, UNSUITABLE, failure
from .onnx_models import read_onnx
from .progress import BuildProgress, progress
from .targets import target_of
from .torch_programs import read_torch

_JOBS: Final = "RELAX_JOBS"
_MISSING: Final = "No such file or directory"
_NEAR: Final = 0.75
"""Least similarity (`difflib`) of a name that is proposed for a missing file: modle.py and model.py have 0.875."""
_EXPORTED: Final = "save a program: torch.export.save(torch.export.export(module, args), 'model.pt2')"
_EXPORTED_FIRST: Final[Mapping[str, str]] = dict.fromkeys((".pt", ".pth"), _EXPORTED)
"""Hints for files of PyTorch that hold weights or pickled modules, by suffix."""

Shapes = Mapping[str, Sequence["int | str"]]
"""Dimensions of inputs by name; a single dimension represents itself: ``{"n": (4,)}``."""
Values = Mapping[str, Any]
"""Values of inputs by name, as numbers and lists."""


@dataclass(frozen=True)
class Reading:
    """Options with which a model is read."""

    shapes: Shapes = field(default_factory=dict[str, Sequence["int | str"]])
    entry: str | None = None
    values: Values = field(default_factory=dict[str, Any])
    fallback: str | None = None
    """Library that runs the nodes of an ONNX model that are not supported."""
    check_sizes: bool = True
    """True if a program of torch checks its sizes when it is called."""


@dataclass(frozen=True)
class ModelSignature:
    """Entry point of a program: its parameters, each with its run-time struct info."""

    name: str
    params: tuple[tuple[str, Info], ...]
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values that the model has for parameters: buffers that a module of torch changes."""


# ------------------------------------------------------------------------------------------ reading


def read_module(
    path: Path,
    shapes: Shapes | None = None,
    entry: str | None = None,
    values: Values | None = None,
    fallback: str | None = None,
    *,
    check_sizes: bool = True,
) -> IRModule:
    """Read the program in a file; inputs with values become constants, `fallback` runs nodes that are not supported.

    `check_sizes` False leaves out the checks that a program of torch.export makes of its sizes.

    Raises DiagnosticError for an unreadable file or an executable.
    """
    if path.suffix == ".relax":
        raise failure(
            UNSUITABLE,
            f"{path} is an executable, which holds machine code and no program",
            hint="give the model it was compiled from",
        )
    reader = READERS.get(path.suffix)
    if reader is None:
        raise _unknown_kind(path) if path.exists() else _unreadable(path, FileNotFoundError(ENOENT, _MISSING))
    if fallback is not None and reader is not _read_onnx:
        message = f"--fallback {fallback}: {path} is no ONNX model"
        raise failure(UNSUITABLE, message, hint="leave the option out: only nodes of ONNX may be unsupported")
    with progress(f"reading {path.name}"):
        return reader(path, Reading(shapes or {}, entry, values or {}, fallback, check_sizes))


def read_program(path: Path, options: argparse.Namespace, *, check_sizes: bool = True) -> IRModule:
    """Read the program in a file with the options of `add_reading`; see `read_module`."""
    shapes, values = once(options.shape, "--shape"), once(options.value, "--value")
    return read_module(path, shapes, options.entry, values, options.fallback, check_sizes=check_sizes)


def read_executable(path: Path) -> Executable:
    """Read the executable in a file."""
    try:
        return Executable.load(path)
    except ExecutableError as error:
        hint = "compile the model again on this machine, with this version: relax compile"
        raise failure(UNREADABLE, str(error), hint=hint) from None
    except OSError as error:
        raise _unreadable(path, error) from None


def read_bytes(path: Path) -> bytes:
    """Read a file's contents. Raises DiagnosticError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> DiagnosticError:
    near = _near_name(path)
    hint = f"did you mean {path.with_name(near)}?" if near else ""
    return failure(UNREADABLE, f"cannot read {path}: {(error.strerror or str(error)).lower()}", hint=hint)


def _near_name(path: Path) -> str:
    """Name of a model in the same directory: one that differs in its suffix only or by a typing error, "" if none."""
    names = sorted(os.listdir(path.parent)) if path.parent.is_dir() else []
    models = [name for name in names if Path(name).suffix in (*READERS, ".relax") and name != path.name]
    same = [name for name in models if Path(name).stem == path.stem]
    return next(iter([*same, *difflib.get_close_matches(path.name, models, 1, _NEAR)]), "")


def _unknown_kind(path: Path) -> DiagnosticError:
    kinds = ", ".join([*READERS, ".relax"])
    subject = f"files called *{path.suffix}" if path.suffix else "files without a suffix"
    hint = _EXPORTED_FIRST.get(path.suffix, f"a model's suffix is one of {kinds}")
    return failure(UNREADABLE, f"cannot read {path}: {subject} are no models", hint=hint)


def _text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise failure(UNREADABLE, f"cannot read {path}: it is not UTF-8 text ({error.reason})") from None


def _read_script(path: Path, reading: Reading) -> IRModule:
    program = from_source(_text(path), name=str(path))
    mod = program if isinstance(program, IRModule) else IRModule.from_expr(program)
    return _with_inputs(mod, reading)


def _read_json(path: Path, reading: Reading) -> IRModule:
    try:
        program = load_json(_text(path))
    except ValueError as error:
        if isinstance(error, DiagnosticError):
            raise
        raise failure(UNREADABLE, f"cannot read {path}: {error}") from None
    if isinstance(program, Function):
        program = IRModule.from_expr(program)
    if not isinstance(program, IRModule):
        raise failure(UNREADABLE, f"cannot read {path}: it holds a {type(program).__name__}, expected an IRModule")
    return _with_inputs(program, reading)


def _read_onnx(path: Path, reading: Reading) -> IRModule:
    """Import an ONNX model: the importer sets shapes of inputs; sizes of dimensions are set afterwards."""
    sizes = {key: dims for key, dims in reading.shapes.items() if len(dims) == 1 and isinstance(dims[0], int)}
    shapes = {key: dims for key, dims in reading.shapes.items() if key not in sizes}
    try:
        mod = read_onnx(path, shapes, reading.values, reading.fallback)
    except OSError as error:
        raise _unreadable(path, error) from None
    return with_shapes(mod, sizes, reading.entry)


def _read_torch(path: Path, reading: Reading) -> IRModule:
    """Import a program of torch.export: `shapes` name its dynamic dimensions, or set them."""
    params = {key: dims for key, dims in reading.shapes.items() if len(dims) > 1 or isinstance(dims[0], str)}
    try:
        mod = read_torch(path, params, check_sizes=reading.check_sizes)
    except OSError as error:
        raise _unreadable(path, error) from None
    return _with_inputs(mod, reading)


READERS: Final[Mapping[str, Callable[[Path, Reading], IRModule]]] = {
    ".onnx": _read_onnx,
    ".pt2": _read_torch,
    ".py": _read_script,
    ".json": _read_json,
}


def check_program(mod: IRModule) -> None:
    """Raise DiagnosticError with all errors of a program: of its rules, then of its normal form."""
    wrong = check_well_formed(mod)
    if not wrong:
        normal = normalize_module(mod)
        wrong = check_normalized(normal)
        if not wrong:
            check_reuse(normal)
    if wrong:
        raise DiagnosticError(wrong)


# ------------------------------------------------------------------------------------- entry, shapes


def entry_points(mod: IRModule) -> list[str]:
    """Public functions of a program."""
    return [
        global_var.name_hint
        for global_var, function in mod.functions.items()
        if isinstance(function, Function) and "global_symbol" in function.attrs
    ]


def chosen_entry(names: Sequence[str], chosen: str | None) -> str:
    """Name of the requested entry point; by default main, or the only one. Raises DiagnosticError."""
    listed = ", ".join(names) or "none"
    if chosen is not None:
        if chosen in names:
            return chosen
        raise failure(UNSUITABLE, f"there is no entry point {chosen!r}", hint=f"the entry points are: {listed}")
    if "main" in names:
        return "main"
    if len(names) == 1:
        return names[0]
    problem = "has no entry point" if not names else f"has {len(names)} entry points, and none is called main"
    hint = f"choose one of {listed} with --entry" if names else "a function of Relax that is not private is one"
    raise failure(UNSUITABLE, f"the model {problem}", hint=hint)


def entry_function(mod: IRModule, entry: str | None) -> tuple[str, Function]:
    """Return (name, function) of a program's entry point."""
    name = chosen_entry(entry_points(mod), entry)
    function = mod[name]
    assert isinstance(function, Function)
    return name, function


def signature_of(program: IRModule | Executable, entry: str | None) -> ModelSignature:
    """Signature of the entry point of a program, or of an executable."""
    if isinstance(program, Executable):
        name = chosen_entry(program.entry_points, entry)
        code = program.functions[name]
        return ModelSignature(name, tuple(zip(code.params, code.param_infos, strict=True)))
    name, function = entry_function(program, entry)
    infos = InfoMaker()
    names = [param.name_hint for param in function.params]
    values: Sequence[Any] = function.attrs.get("params", ())
    held = dict(zip(names[len(names) - len(values) :], values, strict=True))
    return ModelSignature(name, tuple((p.name_hint, infos.info(p.struct_info_)) for p in function.params), held)


def with_shapes(mod: IRModule, shapes: Shapes, entry: str | None) -> IRModule:
    """Fix dimensions of a program's entry point. Raises DiagnosticError for sizes that do not fit."""
    if not shapes:
        return mod
    name, function = entry_function(mod, entry)
    params = {param.name_hint: param for param in function.params}
    sizes: dict[str, int] = {}
    problems = DiagnosticContext()
    for key, dims in shapes.items():
        with problems.collect():
            if key in params:
                sizes.update(_sizes_of(params[key], dims))
            elif len(dims) == 1 and isinstance(dims[0], int):
                sizes[key] = dims[0]  # a shape variable; one that is not there is BindSymbolicVars's complaint
            else:
                listed = ", ".join(params) or "none"
                raise failure(UNSUITABLE, f"--shape {key}: {name} has no parameter {key!r}", f"parameters: {listed}")
    problems.finish()
    return BindSymbolicVars(sizes, name)(normalize_module(mod)) if sizes else mod


def with_values(mod: IRModule, values: Values, entry: str | None) -> IRModule:
    """Bind parameters of a program's entry point to values. Raises DiagnosticError for values that do not fit."""
    if not values:
        return mod
    name, function = entry_function(mod, entry)
    params = {param.name_hint: param for param in function.params}
    bound: dict[str, Any] = {}
    problems = DiagnosticContext()
    for key, value in values.items():
        with problems.collect():
            if key not in params:
                hint = did_you_mean(key, params, "parameters")
                raise failure(UNSUITABLE, f"--value {key}: {name} has no parameter {key!r}", hint=hint)
            bound[key] = _bindable(params[key], value)
    problems.finish()
    return BindParams(name, bound)(normalize_module(mod))


def _with_inputs(mod: IRModule, reading: Reading) -> IRModule:
    """Bind a program's inputs to the values, then fix its dimensions."""
    return with_shapes(with_values(mod, reading.values, reading.entry), reading.shapes, reading.entry)


def _bindable(param: Var, value: Any) -> Any:
    """Convert a value to the kind of a parameter."""
    info = param.struct_info_
    if isinstance(info, ShapeStructInfo):
        return ShapeExpr(cast("list[int]", value if isinstance(value, list) else [value]))
    if isinstance(info, TensorStructInfo) and not info.dtype.is_void:
        try:
            return array_of(value, str(info.dtype))
        except ValueError as error:
            raise failure(UNSUITABLE, f"--value {param.name_hint}: {error}") from None
    return value


def _sizes_of(param: Var, dims: Sequence[int | str]) -> dict[str, int]:
    """Values of shape variables from the dimensions of a parameter."""
    info = param.struct_info_
    declared = info.dims if isinstance(info, TensorStructInfo) else None
    if isinstance(info, ShapeStructInfo):
        declared = info.values
    where = f"--shape {param.name_hint}"
    if declared is None or len(declared) != len(dims):
        message = f"{where}: {len(dims)} dimensions do not fit {info}"
        raise failure(UNSUITABLE, message, hint="give as many dimensions as the parameter declares")
    sizes: dict[str, int] = {}
    for index, (own, dim) in enumerate(zip(declared, dims, strict=True)):
        if isinstance(dim, str):
            if not isinstance(own, ShapeVar) or own.name != dim:
                raise failure(UNSUITABLE, f"{where}: dimension {index} is {prim_text(own)}, not {dim}")
        elif isinstance(own, ShapeVar):
            if sizes.setdefault(own.name, dim) != dim:
                raise failure(UNSUITABLE, f"{where}: {own.name} cannot be both {sizes[own.name]} and {dim}")
        elif not isinstance(own, IntImm) or own.value != dim:
            raise failure(UNSUITABLE, f"{where}: dimension {index} is {prim_text(own)}, not {dim}")
    return sizes


# ----------------------------------------------------------------------------------------- compiling


def compile_program(mod: IRModule, options: argparse.Namespace) -> Executable:
    """Compile a program with the options of `add_building`, showing progress."""
    tier: str = getattr(options, "tier", "full")
    with jobs(options.jobs), BuildProgress():
        return build(mod, target_of(options.target), pipeline=options.pipeline, tier=tier)


@contextmanager
def jobs(count: int | None) -> Generator[None]:
    """Context manager: compile with `count` processes; without a count, as many as the environment says."""
    before = os.environ.get(_JOBS)
    if count is not None:
        os.environ[_JOBS] = str(count)
    try:
        yield
    finally:
        if count is not None:
            os.environ.pop(_JOBS)
            os.environ.update({} if before is None else {_JOBS: before})


def read_model(path: Path, options: argparse.Namespace) -> IRModule | Executable:
    """Read a model of any kind without compiling it, so that inputs are checked first."""
    if path.suffix != ".relax":
        return read_program(path, options)
    for option, kind in (("shape", "shapes were"), ("value", "values were"), ("fallback", "fallback was")):
        if getattr(options, option):
            noun, verb = kind.split()
            hint = f"give --{option} when the model is compiled"
            raise failure(UNSUITABLE, f"the {noun} of {path} {verb} fixed when it was compiled", hint=hint)
    return read_executable(path)


def executable_of(program: IRModule | Executable, options: argparse.Namespace) -> Executable:
    """Return an executable unchanged; compile a program."""
    return program if isinstance(program, Executable) else compile_program(program, options)


def output_names(program: IRModule | Executable, entry: str) -> tuple[str, ...]:
    """Names of a function's outputs if the model has them (ONNX)."""
    names: Any = () if isinstance(program, Executable) else program[entry].attrs.get("output_names", ())
    return tuple(map(str, names))
