"""Running a function and writing down all that can be seen of it: result, error, effects, mutation, sharing.

The packed functions that generated programs call:

    fuzz.record(*values)    appends a copy of its arguments to a log
    fuzz.increment(t)       adds 1 to every element in place, and returns the tensor
    fuzz.add_to(a, b)       adds b to a in place, and returns a
    fuzz.identity(v)        its argument
    fuzz.pair(a, b)         a tuple of its arguments
    fuzz.double(t)          a new tensor, t + t
    fuzz.sum(*values)       the sum of all that is finite in its arguments, an int64 tensor of rank 0
    fuzz.shape(t)           the shape of t
    fuzz.rank(t)            the number of its dimensions
    fuzz.kind(v)            a number that tells what sort of value v is, an int64 tensor of rank 0
    fuzz.apply(f, *args)    what f gives
    fuzz.fail(t)            fails if t has a dimension of 2, else t + t
    fuzz.double_dps(t, o)   writes t + t to o
    fuzz.both_dps(t, o, p)  writes t to o, and t + t to p
"""

from __future__ import annotations

import contextlib
import io
import re
import reprlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm_ffi

import relax
from relax.ir import RelaxWarning
from relax.runtime import PackedFunc, nd, register_func
from relax.runtime.closure import Closure
from relax.runtime.info import TensorInfo

LOG: list[Any] = []
"""What has been recorded since the run began."""

ELISION = "…"
"""What the text of a struct info has in the place of what takes too many places; such a text is not read back."""


# ------------------------------------------------------------------------------------ packed functions


def _record(*values: Any) -> tuple[()]:
    LOG.append(tuple(map(snapshot, values)))
    return ()


def _increment(tensor: nd.NDArray) -> nd.NDArray:
    array = tensor.numpy()
    return tensor.copyfrom(array + np.ones((), array.dtype))


def _add_to(a: nd.NDArray, b: nd.NDArray) -> nd.NDArray:
    return a.copyfrom(a.numpy() + b.numpy())


def _twice(tensor: nd.NDArray) -> Any:
    array = tensor.numpy()
    with np.errstate(all="ignore"):
        return np.asarray(array + array)


def _sum(*values: Any) -> Any:
    total = 0
    for value in values:
        array = np.asarray(value.numpy() if isinstance(value, nd.NDArray) else value, "float64")
        total += int(np.where(np.isfinite(array), array, 0).sum())
    return np.array(total, "int64")


def _kind(value: Any) -> Any:
    names = ("NDArray", "Shape", "tuple", "str", "bool", "int", "float", "dtype", "NoneType", "PackedFunc", "Closure")
    name = type(value).__name__
    return np.array(names.index(name) if name in names else len(names), "int64")


def _fail(tensor: nd.NDArray) -> Any:
    if 2 in tensor.shape:
        raise ValueError(f"fuzz.fail: a dimension of 2 in {tensor.shape}")
    return _twice(tensor)


def _double(tensor: nd.NDArray, out: nd.NDArray) -> None:
    out.copyfrom(_twice(tensor))


def _both(tensor: nd.NDArray, first: nd.NDArray, second: nd.NDArray) -> None:
    first.copyfrom(tensor)
    second.copyfrom(_twice(tensor))


PACKED: dict[str, Callable[..., Any]] = {
    "fuzz.record": _record,
    "fuzz.increment": _increment,
    "fuzz.add_to": _add_to,
    "fuzz.identity": lambda value: value,
    "fuzz.pair": lambda a, b: (a, b),
    "fuzz.double": _twice,
    "fuzz.sum": _sum,
    "fuzz.shape": lambda tensor: relax.ShapeTuple(tensor.shape),
    "fuzz.make_shape": lambda *dims: relax.ShapeTuple(dims),
    "fuzz.rank": lambda tensor: tensor.ndim,
    "fuzz.kind": _kind,
    "fuzz.apply": lambda function, *args: function(*args),
    "fuzz.fail": _fail,
    "fuzz.double_dps": _double,
    "fuzz.both_dps": _both,
}

for _name, _function in PACKED.items():
    register_func(_name, _function, override=True)


# ------------------------------------------------------------------------------------------ what is seen


@dataclass(frozen=True)
class Array:
    """The contents of a tensor at some time."""

    dtype: str
    shape: tuple[int, ...]
    data: Any = field(compare=False)

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)} {np.array2string(self.data, separator=', ')}"


def snapshot(value: Any) -> Any:
    """A value as it is now. A tuple that is in several places is one object in several places of the result too."""
    return _rebuilt(value, _contents)


def _is_tuple(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and not isinstance(value, relax.ShapeTuple)


def _rebuilt(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A value with something in the place of each part that is no tuple; each tuple is rebuilt once."""
    rebuilt: dict[int, tuple[Any, ...]] = {}

    def of(part: Any) -> Any:
        if not _is_tuple(part):
            return leaf(part)
        if id(part) not in rebuilt:
            rebuilt[id(part)] = tuple(map(of, part))
        return rebuilt[id(part)]

    return of(value)


def _contents(value: Any) -> Any:
    if isinstance(value, nd.NDArray):
        return Array(value.dtype, tuple(value.shape), value.numpy())
    if isinstance(value, relax.ShapeTuple):
        return ("shape", *value)
    if isinstance(value, Closure):
        return "a Relax function"
    if isinstance(value, (PackedFunc, tvm_ffi.Function)):
        return "a packed function"
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return type(value).__name__, str(value)


@dataclass
class Outcome:
    """All that can be seen of a run."""

    result: Any = None
    error: tuple[str, str] | None = None
    """The type and the message."""
    log: list[Any] = field(default_factory=list)
    printed: str = ""
    args: list[Any] = field(default_factory=list)
    """The arguments afterwards."""
    sharing: Any = ()
    """Arguments and result, with a number for its memory in the place of each tensor; None where that is empty."""
    called: list[Outcome] = field(default_factory=list)
    """Of functions among the results: what calling them gives."""
    optional: bool = False
    """Whether the error came out of a dataflow block, where an optimiser may make it vanish (language.md §7.2)."""


def run(function: Callable[..., Any], args: Sequence[Any], depth: int = 1) -> Outcome:
    """Call a function with copies of arguments."""
    copies: dict[int, nd.NDArray] = {}
    given = [_copy(arg, copies) for arg in args]
    outcome = Outcome()
    LOG.clear()
    value: Any = None
    with contextlib.redirect_stdout(io.StringIO()) as printed, np.errstate(all="ignore"), quiet():
        try:
            value = function(*given)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is to be the same elsewhere)
            outcome.error = type(error).__name__, normalised(_first_line(error))
            machine = getattr(function, "machine", None)
            outcome.optional = getattr(machine, "failed_in_dataflow", False)
    outcome.log, outcome.printed = list(LOG), printed.getvalue()
    outcome.result, outcome.args = snapshot(value), [snapshot(arg) for arg in given]
    outcome.sharing = _sharing((tuple(given), value))
    if depth:
        outcome.called = [
            run(found, arguments, depth - 1)
            for found in _closures(value)
            if (arguments := _arguments(found)) is not None
        ]
    return outcome


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else ""


WORDS: tuple[tuple[str, str], ...] = (
    # A group of operators is a function or a kernel of its own.
    (r"^fused_\w+: ", "main: "),
    (r"\bfused_\w+: (?=.*(\bindex\b|is outside of shape))", "take: "),
    # Kernels end a failed check of sizes in the values of its variables; which ones depends on what was simplified.
    (r" \(\w+ = -?\d+(, \w+ = -?\d+)*\)$", ""),
    # Names the compiler makes: a second kernel of one operator has a number.
    (r"(?<=[a-z])_?\d+(?=: )", ""),
    # Kernels are named as operators without their namespace.
    (r"\b(nn|image|vision|grad)\.(?=\w+: )", ""),
    # Expressions are told as they are after simplification; operators tell none.
    (r"(a size does not fit into 64 bits): .*$", r"\1"),
    (r"(integer )?division by zero( in .*)?$", "division by zero"),
    # Kernels check every access to a buffer, references every index.
    (r"take: .*(\bindex\b|is outside of shape).*", "take: an index is out of range"),
    # Kernels tell which sizes do not fit as they were written; the interpreter only that they do not.
    (r"\b(differ|be broadcast)(: .* and .*| \(.*\))$", r"\1"),
    # One value has several names; which one is told is not said.
    (r"match_cast of \w+", "match_cast of a value"),
    # How an expected size is explained depends on what has been simplified; what it is does not.
    (r"\b(is -?\d+, expected) (.* = )?(-?\d+)( \(.*\))?$", r"\1 \3"),
    # How an argument of a kernel is spoken of.
    (r"parameter (\w+): dimension", r"argument \1: dimension"),
)  # fmt: skip
"""What is said in other words by compiled code, and what is compared instead of either."""


def normalised(message: str) -> str:
    """A message without what is particular to the interpreter or to compiled code."""
    for pattern, words in WORDS:
        message = re.sub(pattern, words, message)
    return message


def _copy(value: Any, copies: dict[int, nd.NDArray]) -> Any:
    """A copy with tensors of its own; one array that is given twice is one tensor that is given twice."""
    if isinstance(value, np.ndarray) and not value.size and max(value.shape) >= 2**48:
        return value  # which is no tensor
    if isinstance(value, np.ndarray):
        return copies.setdefault(id(value), nd.array(value))
    if isinstance(value, tuple) and not isinstance(value, relax.ShapeTuple):
        return tuple(_copy(item, copies) for item in value)
    return value


def _sharing(value: Any) -> Any:
    places: dict[int, int] = {}

    def place(part: Any) -> int | None:
        if not isinstance(part, nd.NDArray) or not part.size:
            return None
        return places.setdefault(part.data_ptr(), len(places))

    return _rebuilt(value, place)


def _closures(value: Any) -> list[Closure]:
    found: list[Closure] = []
    _rebuilt(value, lambda part: found.append(part) if isinstance(part, Closure) else None)
    return found


def _arguments(closure: Closure) -> list[Any] | None:
    """Arguments for a function that came back, if its information says which."""
    if closure.info is None or closure.info.params is None:
        return None
    found: list[Any] = []
    for param in closure.info.params:
        if not isinstance(param, TensorInfo) or param.dims is None or not all(isinstance(d, int) for d in param.dims):
            return None
        found.append(np.ones(tuple(param.dims), param.dtype or "float32"))
    return found


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings: generated programs leave much to run-time checks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RelaxWarning)
        yield


# ---------------------------------------------------------------------------------------- comparing

TOLERANCE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-8}
"""Relative and absolute, where functions of the reals took part; else everything is compared exactly."""


EXACT, UNSIGNED, ABOUT = "exact", "unsigned", "about"
"""How numbers are compared: bit for bit (one NaN is like another); but for the sign of zeros; up to a tolerance."""

EXTREMES = re.compile(r"\b(maximum|minimum|clip|relu|max|min|max_pool2d)\(")
"""What gives a zero of any sign, of zeros of both."""


def precision(text: str, exact: bool) -> str:
    """How the results of a program are compared."""
    return ABOUT if not exact else UNSIGNED if EXTREMES.search(text) else EXACT


def difference(expected: Outcome, found: Outcome, exact: str = EXACT) -> str | None:
    """What `found` does that `expected` does not allow, in words; None if all is well."""
    if expected.error is not None and expected.optional:
        # The error may vanish, and the program go on; what was to be seen before it is still seen, in that order.
        seen = found.log[: len(expected.log)]
        return _difference(expected.log, seen, exact, "the effects before the error") or (
            None
            if found.printed.startswith(expected.printed)
            else f"printed {found.printed!r}, expected {expected.printed!r}"
        )
    if expected.error != found.error:
        return f"error: expected {_error_text(expected)}, found {_error_text(found)}"
    pairs = (
        (tuple(expected.log), tuple(found.log), "the effects"),
        (expected.printed, found.printed, "what was printed"),
        (expected.result, found.result, "the result"),
        (tuple(expected.args), tuple(found.args), "the arguments afterwards"),
        (expected.sharing, found.sharing, "which tensors of arguments and results share memory"),
    )
    for wanted, got, what in pairs:
        if (text := _difference(wanted, got, exact, what)) is not None:
            return text
    if len(expected.called) != len(found.called):
        return "functions among the results: their information says different things of their parameters"
    for wanted, got in zip(expected.called, found.called):
        if (text := difference(wanted, got, exact)) is not None:
            return f"calling a function among the results: {text}"
    return None


def _error_text(outcome: Outcome) -> str:
    return "none" if outcome.error is None else f"{outcome.error[0]}: {outcome.error[1]}"


def _difference(expected: Any, found: Any, exact: str, where: str) -> str | None:
    same: set[tuple[int, int]] = set()
    """Pairs of tuples that do not differ: a tuple may be in many places."""

    def of(expected: Any, found: Any, where: str) -> str | None:
        if not (isinstance(expected, (tuple, list)) and isinstance(found, (tuple, list))):
            return None if _same(expected, found, exact) else f"{where}: expected {expected!r}, found {found!r}"
        if (id(expected), id(found)) in same:
            return None
        if len(expected) != len(found):
            return f"{where}: expected {_shown(expected)}, found {_shown(found)}"
        for index, (wanted, got) in enumerate(zip(expected, found)):
            if (text := of(wanted, got, f"{where}[{index}]")) is not None:
                return text
        same.add((id(expected), id(found)))
        return None

    return of(expected, found, where)


def _shown(value: Any) -> str:
    """A tuple in words, of bounded length."""
    return reprlib.repr(value)


def _same(expected: Any, found: Any, exact: str) -> bool:
    if isinstance(expected, Array) and isinstance(found, Array):
        return expected == found and _equal(expected.data, found.data, exact)
    if isinstance(expected, float) and isinstance(found, float):
        return _equal(np.asarray(expected), np.asarray(found), UNSIGNED if exact == ABOUT else exact)
    return expected == found and type(expected) is type(found)


def _equal(expected: Any, found: Any, exact: str) -> bool:
    if expected.dtype.name not in TOLERANCE:
        return bool(np.array_equal(expected, found))
    if exact != ABOUT:
        same = np.array_equal(expected, found, equal_nan=True)
        numbers = ~np.isnan(expected)
        signs = np.array_equal(np.signbit(expected[numbers]), np.signbit(found[numbers]))
        return bool(same and (signs or exact == UNSIGNED))
    tolerance = TOLERANCE[expected.dtype.name]
    return bool(np.allclose(found, expected, tolerance, tolerance, equal_nan=True))
