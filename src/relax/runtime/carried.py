"""Python functions as tvm-ffi's, and the errors on their way out of them.

An error crosses the C ABI as the name of its kind, its message and a backtrace, all in UTF-8. Where tvm-ffi cannot
write them (a file's name with undecodable bytes in the message, a ``__str__`` that fails), it reports an error that is
not there, and the process ends. So every Python function that others call is made one of tvm-ffi's by `ffi_function`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import tvm_ffi
from tvm_ffi.core import ERROR_TYPE_TO_NAME

# Kinds that keep their Python class on the way, besides those that tvm-ffi knows itself. An interrupt is no error: it
# ends what the user has interrupted.
for _kind in (
    ZeroDivisionError, OverflowError, NotImplementedError, RecursionError, FloatingPointError, KeyboardInterrupt,
):  # fmt: skip
    tvm_ffi.register_error(_kind.__name__, _kind)


_Error = TypeVar("_Error", bound=BaseException)


def ffi_function(function: Callable[..., Any]) -> tvm_ffi.Function:
    """The function of tvm-ffi that calls a Python one."""

    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except BaseException as error:
            sent = carried(error)
            if sent is error:
                raise
            raise sent from None

    return tvm_ffi.convert_func(call)


def carried(error: _Error) -> _Error | RuntimeError:
    """The error itself if tvm-ffi can carry it; else one of its kind that says as much of it as can be written."""
    try:
        text = str(error)
    except Exception as why:  # noqa: BLE001 (it is the user's method)
        text = (
            f"{type(error).__name__}, whose message is not to be had: its __str__ raises {type(why).__name__}"
        )
    else:
        if is_written(text) and all(map(is_written, _places_of(error))):
            return error
    text = text.encode(errors="backslashreplace").decode()
    return type(error)(text) if type(error) in ERROR_TYPE_TO_NAME else RuntimeError(text)


def _places_of(error: BaseException) -> Iterator[str]:
    """The names of files that the error has passed, which are part of its backtrace."""
    at = error.__traceback__
    while at is not None:
        yield at.tb_frame.f_code.co_filename
        at = at.tb_next


def is_written(text: str) -> bool:
    """True if UTF-8 can have a text: there are no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
