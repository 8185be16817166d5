"""The outcome of a run: its result or error, its effects, and its arguments afterwards.

Two outcomes are compared as language.md §7.2 says: what an optimiser may change is no difference.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

import numpy as np
import tvm_ffi

from ..expr import Call, ExternFunc, Function, as_array
from ..ir import IRModule, Node, walk
from ..runtime.closure import Closure
from ..runtime.dtypes import is_float
from ..runtime.nd import NDArray
from ..runtime.records import dataclass
from ..runtime.registry import get_global_func, register_func, remove_global_func
from ..runtime.values import PackedFunc
from .evaluator import Interpreter

Run = Callable[..., Any]

TOLERANCES: Mapping[str, float] = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-4, "float64": 1e-9}
"""Relative and absolute: kernels may sum in another order than the reference. 8-bit floats: 0.3."""


@dataclass
class Outcome:
    """Observable behaviour of one run."""

    result: Any = None
    error: Exception | None = None
    optional: bool = False
    """True if the error was raised in a dataflow block, where an optimiser may remove it."""
    effects: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    """Impure calls of packed functions: (name, arguments as they were, …)."""
    printed: str = ""
    args: tuple[Any, ...] = ()
    """The arguments afterwards."""

    def difference(self, other: Outcome, tolerance: float | None = None) -> str | None:
        """The first way in which `other` departs from this outcome of the program; None if it is allowed.

        `tolerance` of floats is relative and absolute; by default that of their dtype in `TOLERANCES`.
        """
        if self.error is not None and self.optional:
            return None
        if type(self.error) is not type(other.error):
            return f"expected {_error_text(self.error)}, found {_error_text(other.error)}"
        return (
            difference_of(tuple(self.effects), tuple(other.effects), "effects", tolerance)
            or difference_of(self.printed, other.printed, "what is printed")
            or difference_of(self.result, other.result, "result", tolerance)
            or difference_of(self.args, other.args, "arguments afterwards", tolerance)
        )


def interpreted(mod: IRModule, func_name: str, args: Sequence[Any], watched: Sequence[str] = ()) -> Outcome:
    """The outcome of interpreting a function on copies of arguments."""
    interpreter = Interpreter(mod)
    outcome = observed(interpreter[func_name], args, watched)
    outcome.optional = outcome.error is not None and interpreter.failed_in_dataflow
    return outcome


def observed(function: Run, args: Sequence[Any], watched: Sequence[str] = ()) -> Outcome:
    """The outcome of a call on copies of arguments; calls of the packed functions `watched` are effects."""
    outcome = Outcome()
    given = [_copy(arg) for arg in args]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), _watching(watched, outcome.effects):
        try:
            outcome.result = snapshot(function(*given))
        except Exception as error:  # noqa: BLE001 (it is what is compared)
            outcome.error = error
    outcome.printed = printed.getvalue()
    outcome.args = tuple(map(snapshot, given))
    return outcome


def impure_symbols(mod: IRModule) -> tuple[str, ...]:
    """Return the packed functions that a module calls impurely; pure calls are not observable."""
    impure: set[str] = set()
    passed: set[str] = set()

    def visit(item: Node) -> None:
        if isinstance(item, Call):
            if isinstance(item.op, ExternFunc):
                impure.add(item.op.global_symbol)
            passed.update(arg.global_symbol for arg in item.args if isinstance(arg, ExternFunc))

    for function in mod.functions.values():
        if isinstance(function, Function):
            walk(function, visit)
    return tuple(sorted(impure - passed))


@contextlib.contextmanager
def _watching(names: Sequence[str], effects: list[tuple[Any, ...]]) -> Generator[None]:
    """Have calls of packed functions written down before they are made."""
    replaced: dict[str, PackedFunc] = {}
    try:
        for name in names:
            function = tvm_ffi.get_global_func(name, allow_missing=True)
            if function is not None:
                replaced[name] = original = get_global_func(name)
                register_func(name, _recorder(name, original, effects), override=True)
        yield
    finally:
        for name, original in replaced.items():
            remove_global_func(name)
            register_func(name, original, override=True)


def _recorder(name: str, function: PackedFunc, effects: list[tuple[Any, ...]]) -> Run:
    def call(*args: Any) -> Any:
        effects.append((name, *map(snapshot, args)))
        return function(*args)

    return call


# --------------------------------------------------------------------------------------------- values


def _copy(value: Any) -> Any:
    if isinstance(value, NDArray):
        return value.copyto(value.device)
    if isinstance(value, np.ndarray):
        return np.array(cast(Any, value))
    if isinstance(value, tuple | list) and not isinstance(value, tvm_ffi.Shape):
        return tuple(_copy(item) for item in cast("Sequence[Any]", value))
    return value


def snapshot(value: Any) -> Any:
    """Copy a value's current state; functions are reduced to their kind."""
    if isinstance(value, NDArray | np.ndarray):
        return np.array(as_array(cast(Any, value)))
    if isinstance(value, tvm_ffi.Shape):
        return ("shape", *cast("tuple[int, ...]", value))
    if isinstance(value, tuple | list):
        return tuple(snapshot(item) for item in cast("Sequence[Any]", value))
    if isinstance(value, Closure):
        return "a Relax function"
    return "a packed function" if isinstance(value, PackedFunc) else value


def difference_of(expected: Any, actual: Any, where: str, tolerance: float | None = None) -> str | None:
    """The first difference of two snapshots, in words."""
    if _are_both(expected, actual, np.ndarray):
        return _array_difference(expected, actual, where, tolerance)
    if _are_both(expected, actual, tuple):
        if len(expected) != len(actual):
            return f"{where}: expected {len(expected)}, found {len(actual)}"
        pairs = enumerate(zip(expected, actual, strict=True))
        differences = (difference_of(a, b, f"{where}[{i}]", tolerance) for i, (a, b) in pairs)
        return next(filter(None, differences), None)
    same = type(expected) is type(actual) and (expected == actual or (expected != expected and actual != actual))
    return None if same else f"{where}: expected {expected!r}, found {actual!r}"


def _are_both(a: Any, b: Any, kind: type) -> bool:
    return isinstance(a, kind) and isinstance(b, kind)


def _array_difference(
    expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any], where: str, tolerance: float | None
) -> str | None:
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return f"{where}: expected {expected.dtype}{list(expected.shape)}, found {actual.dtype}{list(actual.shape)}"
    if not is_float(expected.dtype.name):
        close: Any = expected == actual
    else:
        tolerance = TOLERANCES.get(expected.dtype.name, 0.3) if tolerance is None else tolerance
        wide = (array.astype(np.float64) for array in (actual, expected))
        close = np.isclose(*wide, rtol=tolerance, atol=tolerance, equal_nan=True)
    wrong = np.argwhere(~np.asarray(close))
    if not len(wrong):
        return None
    first = tuple(int(i) for i in wrong[0])
    at = f"[{', '.join(map(str, first))}]" if first else ""
    more = f" ({len(wrong)} of {expected.size} elements differ)" if len(wrong) > 1 else ""
    return f"{where}: expected {expected[first]} at {at or 'the scalar'}, found {actual[first]}{more}"


def _error_text(error: Exception | None) -> str:
    if error is None:
        return "no error"
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"
