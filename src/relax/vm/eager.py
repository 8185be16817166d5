"""eager: call an operator on arrays at once, as a function of arrays.

    y = relax.eager(relax.op.nn.softmax)(x, axis=-1)

The first call with operands of some dtypes and shapes builds a program of tier "now"; its kernels serve all sizes.
Later calls find the program: by dtypes and shapes, or by the general form of the call (`relax.library`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, cast

import numpy as np
import tvm_ffi

from ..block_builder import BlockBuilder
from ..expr import Call, Function, Var, VarBinding
from ..ir import IRModule, Node, RelaxExpr
from ..ir.transform import PassContext
from ..library.general import CallSizes, GeneralCall
from ..op import operator_of
from ..op.intrinsic import Intrinsic
from ..rewrite import bindings_in
from ..runtime import VirtualMachine
from ..runtime.nd import NDArray, array
from ..runtime.values import is_tuple
from ..struct_info import TensorStructInfo
from ..target import Target
from .driver import build

MOST_PROGRAMS: Final = 1024
"""Programs that are kept, those made last."""


class _Program(NamedTuple):
    """An entry point, and the sizes that it takes before the arrays."""

    run: Callable[..., Any]
    sizes: tuple[int, ...]


_programs: Final[dict[Any, _Program]] = {}
"""By function, operands and attributes."""
_general: Final[dict[tuple[Any, ...], Callable[..., Any]]] = {}
"""Entry points by the context and the text of a call's form (`CallSizes.key`)."""


def eager(op: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays that computes what a function of expressions describes.

    Parameters
    ----------
    op
        A function that returns an expression: of `relax.op`, or one that puts several of those together.

    Returns
    -------
    Callable
        Takes the arguments of `op`, with arrays (NumPy, `relax.nd`, DLPack) or lists of them in place of expressions,
        and returns what a `VirtualMachine` returns: an array, or a tuple of arrays. It raises what `op` raises for
        operands that do not fit (DiagnosticError), and what the program raises.
    """

    @wraps(op)
    def call(*args: Any, **attributes: Any) -> Any:
        arrays: list[NDArray] = []
        given = [_collected(arg, arrays) for arg in args]
        named = {name: _collected(value, arrays) for name, value in attributes.items()}
        key = op, _context(), _signature(given), _signature(named), tuple(_kind(value) for value in arrays)
        program = _programs.get(key)
        if program is None:
            program = _program(op, given, named, arrays)
            _keep(_programs, key, program)
        return program.run(*program.sizes, *arrays)

    return call


def _keep(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Add an entry to a table, and remove the oldest ones above the limit."""
    table[key] = value
    while len(table) > MOST_PROGRAMS:
        table.pop(next(iter(table)), None)


def _context() -> tuple[str, str]:
    """Text of everything else that a build depends on: the target, and the configuration of the PassContext."""
    context = PassContext.current()
    options = context.opt_level, context.required_pass, context.disabled_pass, sorted(context.config.items())
    return str(Target.current()), repr(options)


class _ArrayAt(NamedTuple):
    """The number of an array among the arguments."""

    number: int


def _collected(value: Any, arrays: list[NDArray]) -> Any:
    """An argument with places instead of arrays, which are appended to `arrays`."""
    if isinstance(value, (list, tuple)) or is_tuple(value):
        items = [_collected(item, arrays) for item in cast("list[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, (np.ndarray, NDArray, tvm_ffi.Tensor)) or hasattr(value, "__dlpack__"):
        arrays.append(value if isinstance(value, NDArray) else array(cast(Any, value)))
        return _ArrayAt(len(arrays) - 1)
    return value


def _kind(value: NDArray) -> tuple[str, tuple[int, ...]]:
    return str(value.dtype), tuple(value.shape)


def _signature(value: Any) -> Any:
    """A key of an argument: two that are equal describe the same call."""
    if isinstance(value, dict):
        return tuple((name, _signature(item)) for name, item in cast("dict[str, Any]", value).items())
    if isinstance(value, list | tuple) and not isinstance(value, _ArrayAt):
        return isinstance(value, list), tuple(_signature(item) for item in cast("list[Any]", value))
    if isinstance(value, float):
        return type(value), repr(value)  # 0.0 and -0.0 are equal
    # An expression is equal to itself only: its text may leave elements out.
    return type(value), value if isinstance(value, _ArrayAt | int | str | bool | Node | None) else str(value)


def _program(op: Callable[..., Any], args: Any, attributes: Any, arrays: Sequence[NDArray]) -> _Program:
    params = [Var(f"x{i}", TensorStructInfo(value.shape, str(value.dtype))) for i, value in enumerate(arrays)]
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            given = [_expression(arg, params) for arg in args]
            named = {name: _expression(value, params) for name, value in attributes.items()}
            result = builder.emit_output(op(*given, **named))
        builder.emit_func_output(result)
    module = builder.get()
    general = _general_program(cast(Function, module["main"]), params)
    return general or _Program(VirtualMachine(build(module, tier="now"))["main"], ())


def _expression(value: Any, params: Sequence[Var]) -> Any:
    if isinstance(value, _ArrayAt):
        return params[value.number]
    if isinstance(value, (list, tuple)):
        items = [_expression(item, params) for item in cast("list[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    return value


def _general_program(function: Function, params: Sequence[Var]) -> _Program | None:
    """The program of a call's form over variable sizes; None for a function of several calls."""
    bindings = list(bindings_in(function))
    call = bindings[0].value if bindings and isinstance(bindings[0], VarBinding) else None
    operator = operator_of(call) if isinstance(call, Call) else None
    if operator is None or isinstance(operator, Intrinsic) or len(bindings) > 1 or operator.rank_depends_on_sizes:
        return None
    assert isinstance(call, Call)
    operands = CallSizes.of(call, operator)
    if operands is None or [*operands.tensors] != [*params]:
        return None
    key = _context(), operands.key
    run = _general.get(key)
    if run is None:
        form = GeneralCall.of(call, operator, operands, operands.classes).function
        run = VirtualMachine(build(_as_module(form), tier="now"))["main"]
        _keep(_general, key, run)
    sizes = [cast(Any, size).value for size in operands.arguments(operands.classes)]
    return _Program(run, tuple(sizes))


def _as_module(form: Function) -> IRModule:
    builder = BlockBuilder()
    with builder.function("main", form.params):
        with builder.dataflow():
            result: RelaxExpr = builder.emit_output(form.body)
        builder.emit_func_output(result)
    return builder.get()
