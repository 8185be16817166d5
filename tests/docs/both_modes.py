"""One call, made by the interpreter and by the compiled program: both must say the same.

What is compared: the result, what was printed, what became of the arguments, and the error with its message.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import relax


class DisagreementError(AssertionError):
    """The interpreter and the compiled program did not do the same."""


@dataclass
class Outcome:
    """How a call ended."""

    value: Any
    error: Exception | None
    printed: str
    args: tuple[Any, ...]


class Both:
    """The `run` of a document, which also interprets the program and compares."""

    def __init__(self, compiled: Callable[..., Any]) -> None:
        self.compiled = compiled

    def __call__(self, mod: Any, *args: Any, function: str = "main") -> Any:
        copies = copied(args, {})
        whole = relax.IRModule.from_expr(mod) if isinstance(mod, relax.Function) else mod
        outcome = outcome_of(lambda: self.compiled(mod, *args, function=function), args)
        compare(outcome, outcome_of(lambda: relax.interpret(whole, function, *copies), copies))
        print(outcome.printed, end="")
        if outcome.error is not None:
            raise outcome.error
        return outcome.value


def outcome_of(call: Callable[[], Any], args: tuple[Any, ...]) -> Outcome:
    """Make a call, and keep whatever comes of it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            return Outcome(call(), None, printed.getvalue(), args)
        except Exception as error:  # noqa: BLE001  (whatever a program raises is its outcome)
            return Outcome(None, error, printed.getvalue(), args)


def compare(compiled: Outcome, interpreted: Outcome) -> None:
    """Raise DisagreementError, with both sides, where two outcomes differ."""
    if describe(compiled.error) != describe(interpreted.error):
        message = f"compiled: {describe(compiled.error)}\ninterpreted: {describe(interpreted.error)}"
        raise DisagreementError(message) from interpreted.error or compiled.error
    for what, a, b in (
        ("printed", compiled.printed, interpreted.printed),
        ("the arguments afterwards", compiled.args, interpreted.args),
        ("the result", compiled.value, interpreted.value),
    ):
        if not same(a, b):
            raise DisagreementError(f"{what}: compiled {a!r}, interpreted {b!r}")


def describe(error: Exception | None) -> str:
    """An error as its type and message. (Before Python 3.11, where it happened is said in the message, from line 2 on.)"""
    if error is None:
        return "no error"
    message = str(error) if sys.version_info >= (3, 11) else (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {message}"


def copied(value: Any, memo: dict[int, Any]) -> Any:
    """Arguments with tensors of their own; what was one tensor stays one."""
    if type(value) in (tuple, list):
        return type(value)(copied(item, memo) for item in value)
    if isinstance(value, np.ndarray):
        return memo.setdefault(id(value), value.copy())
    if isinstance(value, relax.NDArray):
        return memo.setdefault(id(value), relax.nd.array(value.numpy().copy()))
    return value


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same as far as can be seen from outside."""
    if isinstance(a, (relax.NDArray, np.ndarray)):
        return isinstance(b, type(a)) and same_tensor(np.asarray(a), np.asarray(b))
    if isinstance(a, (tuple, list)):
        return isinstance(b, type(a)) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, str):  # tvm-ffi's strings are strings
        return isinstance(b, str) and a == b
    if callable(a):
        return callable(b)
    return type(a) is type(b) and bool(a == b)


def same_tensor(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    return bool(np.allclose(a.astype("float64"), b.astype("float64"), rtol=1e-5, atol=1e-6, equal_nan=True))
