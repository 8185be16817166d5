"""Wrap Python functions as tvm-ffi functions, and carry their errors across the C ABI.

An error crosses the C ABI as the name of its kind, its message and a backtrace, all in UTF-8. Where tvm-ffi cannot
write them (a file's name with undecodable bytes in the message, a ``__str__`` that fails), it reports an error that is
not there, and the process ends. So every Python function that others call is made one of tvm-ffi's by `ffi_function`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import tvm_ffi
from tvm_ffi.core import ERROR_TYPE_TO_NAME

# Kinds that keep their Python class on the way, besides those that tvm-ffi knows itself. An interrupt is no error: it
# ends what the user has interrupted. Nor is an exit (`_Exit`).
for _kind in (
    ZeroDivisionError, OverflowError, NotImplementedError, RecursionError, FloatingPointError, KeyboardInterrupt,
):  # fmt: skip
    tvm_ffi.register_error(_kind.__name__, _kind)


class _Exit(SystemExit):
    """SystemExit as it crosses the C ABI: its message is the literal of its code, which is an int, a str or None."""

    def __init__(self, literal: str) -> None:
        try:
            code: Any = ast.literal_eval(literal)
        except (SyntaxError, ValueError):  # raised by a packed function in another language
            code = literal
        super().__init__(code)
        self._literal = literal

    def __str__(self) -> str:
        return self._literal


tvm_ffi.register_error("SystemExit", _Exit)

_Error = TypeVar("_Error", bound=BaseException)


def ffi_function(function: Callable[..., Any]) -> tvm_ffi.Function:
    """The function of tvm-ffi that calls a Python one."""

    def call(*args: Any) -> Any:
        try:
            return _in_arrays(function(*args))
        except BaseException as error:
            sent = carried(error)
            if sent is error:
                raise
            raise sent from None

    return tvm_ffi.convert_func(call)


def _in_arrays(value: Any) -> Any:
    """A value; tuples of tuples as arrays of arrays. tvm-ffi would copy a tuple for each way that leads to it."""
    if type(value) is not tuple or not any(map(_is_tuple, cast("Any", value))):
        return cast("Any", value)
    arrays: dict[int, Any] = {}
    pending: list[Any] = [value]
    while pending:
        fields = pending[-1]
        inner = [field for field in fields if _is_tuple(field) and id(field) not in arrays]
        if inner:
            pending += inner
            continue
        if id(fields) not in arrays:
            arrays[id(fields)] = tvm_ffi.Array([arrays[id(f)] if _is_tuple(f) else f for f in fields])
        pending.pop()
    return arrays[id(cast("Any", value))]


def _is_tuple(value: Any) -> bool:
    return type(value) is tuple


def carried(error: _Error) -> _Error | RuntimeError:
    """Return the error if tvm-ffi can encode it, else one of the same kind with the encodable part of its message."""
    if isinstance(error, SystemExit) and not isinstance(error, _Exit):
        code = error.code if error.code is None or isinstance(error.code, int) else str(error.code)
        return cast(_Error, _Exit(ascii(code)))
    try:
        text = str(error)
    except Exception as why:  # noqa: BLE001 (it is the user's method)
        text = f"{type(error).__name__}, whose message is not to be had: its __str__ raises {type(why).__name__}"
    else:
        if is_written(text) and all(map(is_written, _places_of(error))):
            return error
    text = text.encode(errors="backslashreplace").decode()
    return type(error)(text) if type(error) in ERROR_TYPE_TO_NAME else RuntimeError(text)


def _places_of(error: BaseException) -> Iterator[str]:
    """Return the file names in an error's traceback."""
    at = error.__traceback__
    while at is not None:
        yield at.tb_frame.f_code.co_filename
        at = at.tb_next


def is_written(text: str) -> bool:
    """True if a text can be encoded in UTF-8 (it has no lone surrogates)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
