"""What is checked of every operator, given a call of it on sample values.

    Case("relax.add", [rng.array((2, 3), "float32"), rng.array((3,), "float32")])

For each case: what `infer` says of static, symbolic and partly unknown operands agrees with what the reference
returns; the formula, as a PrimFunc over static and over symbolic sizes, computes what the reference does; the
public function takes back what the call shows. Case tables are the files ``cases_*.py`` next to this one, each with a
list `CASES`: an operator without a case fails `test_every_operator_has_a_case`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from totality import dangers, derived

import relax.op
from relax import te
from relax.analysis.totality import never_fails
from relax.expr import Call, PrimValue, ShapeExpr, Tuple, Var
from relax.ir import DataType, structural_equal
from relax.op import Operator, infer_call, operator_of
from relax.op.operands import is_absent
from relax.op.operator import public_function
from relax.op.padded import wrapped_result
from relax.prim import Var as PrimVar
from relax.prim import evaluate, mark_nonnegative
from relax.struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo, TupleStructInfo
from relax.tir.interpret import interpret

FLOATS = ("float16", "bfloat16", "float32", "float64")
FLOATS8 = ("float8_e4m3fn", "float8_e5m2")
PADDED = ("int4", "uint4", "int2", "uint2", "float4_e2m1fn")
"""Elements of 2 and 4 bits."""
INTS = ("int8", "int16", "int32", "int64")
UINTS = ("uint8", "uint16", "uint32", "uint64")
NUMBERS = (*FLOATS, *INTS, *UINTS)

TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}


@dataclass(frozen=True)
class Sizes:
    """A shape as an operand."""

    values: tuple[int, ...]


@dataclass
class Case:
    """A call of an operator on values: arrays, Sizes, numbers, lists of these, None for one left out."""

    op: str
    operands: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    raises: tuple[type[Exception], str] | None = None
    """What running it raises, reference and kernel alike."""
    tolerance: float | None = None
    tails: bool = False
    """Small results are compared as exactly as others: relatively, but for the steps of the smallest."""
    fixed: tuple[int, ...] = ()
    """Sizes that are constants in the symbolic variant too, as the operator needs to know them."""

    def __str__(self) -> str:
        shown = ", ".join(map(_show, self.operands))
        attrs = "".join(f", {k}={_show(v)}" for k, v in self.attrs.items())
        return f"{self.op.removeprefix('relax.')}({shown}{attrs})"


def _show(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_show, value)) + "]"
    if callable(value):
        return f"lambda {', '.join(inspect.signature(value).parameters)}"
    return str(list(value.values)) if isinstance(value, Sizes) else str(value)


class Random:
    """Sample arrays; the same in every run."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def array(self, shape: tuple[int, ...], dtype: str, low: float = -4, high: float = 4) -> np.ndarray:
        """Values between low and high (for unsigned types from 0)."""
        kind = DataType(dtype)
        if kind.is_bool:
            return np.asarray(self.rng.random(shape) < 0.5)
        if kind.is_float:
            return np.asarray(self.rng.uniform(low, high, shape)).astype(kind.numpy())
        return np.asarray(self.rng.integers(max(int(low), kind.min_value), int(high) + 1, shape)).astype(kind.numpy())


def special(dtype: str) -> np.ndarray:
    """The values where things go wrong: zeros, halves, limits, infinities, NaN."""
    kind = DataType(dtype)
    if kind.is_integer:
        signed = [-1, -3] if kind.is_int else [3]
        values = [0, 1, 2, *signed, kind.max_value, kind.min_value, kind.min_value + 1]
        return np.array([v for v in values if kind.min_value <= v <= kind.max_value], kind.numpy())
    info = ml_dtypes.finfo(kind.numpy())
    values = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -2.5, 1.0, -1.0, float(info.max), float(info.min), float(info.tiny)]
    return np.array([*values, np.inf, -np.inf, np.nan]).astype(kind.numpy())


# ---------------------------------------------------------------------------------------------- variants


@dataclass
class Variant:
    """A case with its sizes written as numbers, or as shape variables."""

    case: Case
    symbolic: bool
    call: Call
    operator: Operator
    env: dict[PrimVar, int]
    arrays: list[np.ndarray]


def variant(case: Case, symbolic: bool) -> Variant:
    names: dict[int, PrimVar] = {}
    arrays: list[np.ndarray] = []

    def size(value: int) -> Any:
        if not symbolic or value == 1 or value in case.fixed:
            return value
        if value not in names:
            names[value] = PrimVar(f"n{value}", "int64")
            mark_nonnegative(names[value])
        return names[value]

    def operand(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            info = TensorStructInfo([size(d) for d in value.shape], value.dtype.name)
            return Var(f"x{len(arrays)}", info)
        if isinstance(value, Sizes):
            return ShapeExpr([size(d) for d in value.values])
        if isinstance(value, list):
            return Tuple([operand(item) for item in value])
        return value if value is None else PrimValue(value)

    operands = [operand(value) for value in case.operands]
    call = public_function(case.op)(*operands, **case.attrs)
    assert isinstance(call, Call)
    env = {var: value for value, var in names.items()}
    return Variant(case, symbolic, call, operator_of(call), env, arrays)


def reference(case: Case, operator: Operator) -> list[np.ndarray]:
    """What the operator's reference returns."""

    def plain(value: Any) -> Any:
        if isinstance(value, Sizes):
            return value.values
        return [plain(item) for item in value] if isinstance(value, list) else value

    prepared = list(case.operands)
    while prepared and prepared[-1] is None:
        prepared.pop()
    with np.errstate(all="ignore"):
        result = operator.evaluate(*map(plain, prepared))
    if any(isinstance(value, np.ndarray) and value.dtype.name in PADDED for value in case.operands):
        result = wrapped_result(result, infer_call(variant(case, False).call))
    return list(result) if isinstance(result, (tuple, list)) else [result]


# ------------------------------------------------------------------------------------------------ checks


@dataclass
class Seen:
    """What the cases of an operator showed."""

    exact: int = 0
    """Kernels that gave the bits of the reference, where the operator says so."""
    harmless: int = 0
    """Kernels that cannot fail, where the operator says so."""


def check(case: Case, seen: Seen) -> None:
    """Everything that is checked of a case."""
    static, symbolic = variant(case, False), variant(case, True)
    expected = None if case.raises else reference(case, static.operator)
    check_inference(static, symbolic, expected)
    check_function(static)
    if static.operator.compute is None:
        return
    exact = expected is not None and static.operator.exactness.holds_for(dtypes(case.operands))
    for made in (static, symbolic):
        code = kernel(made)
        check_kernel(code, case, expected)
        if exact:
            assert list(map(bits, code.outputs)) == list(map(bits, expected or ()))
            seen.exact += 1
        # Where sizes are not known to fit, the kernel asserts that they do: the call is not said to be harmless.
        if made.operator.total and never_fails(derived(made.call)):
            assert not dangers(code.func)
            assert not case.raises
            seen.harmless += 1


def dtypes(values: list[Any]) -> Iterator[DataType]:
    """The dtypes of the arrays among operands."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield DataType(value.dtype.name)
        elif isinstance(value, list):
            yield from dtypes(value)


def bits(array: np.ndarray) -> bytes:
    """The bytes of an array, in which every NaN is like another."""
    array = np.array(array)
    if DataType(array.dtype.name).is_float:
        array[np.isnan(array.astype(np.float64))] = np.nan
    return array.tobytes()


def check_inference(static: Variant, symbolic: Variant, expected: list[np.ndarray] | None) -> None:
    """Static and symbolic inference against the reference, and inference of what is partly unknown."""
    for made in (static, symbolic):
        # Where the data say how large the result is, its shape is rightly unknown.
        whole = not made.symbolic and made.operator.compute is not None
        _compare_info(infer_call(made.call), expected, made.env, whole=whole)
    for weaken in (_without_dims, _without_all, _without_kind):
        args = [_weakened(arg, weaken) for arg in static.call.args]
        _compare_info(infer_call(static.call.replace(args=args)), expected, {}, whole=False)


def _without_dims(info: TensorStructInfo) -> Any:
    return TensorStructInfo(None, info.dtype, None, info.ndim)


def _without_all(info: TensorStructInfo) -> Any:
    return TensorStructInfo(None, "")


def _without_kind(info: TensorStructInfo) -> Any:
    return ObjectStructInfo()


def _weakened(arg: Any, weaken: Any) -> Any:
    if isinstance(arg, Tuple):
        return Tuple([_weakened(item, weaken) for item in arg.fields])
    info = arg.struct_info_ if isinstance(arg, Var) else None
    return Var(arg.name_hint, weaken(info)) if isinstance(info, TensorStructInfo) else arg


def _compare_info(info: Any, expected: list[np.ndarray] | None, env: dict[PrimVar, int], whole: bool) -> None:
    if isinstance(info, ObjectStructInfo):
        assert not whole
        return
    if isinstance(info, PrimStructInfo):
        for scalar in expected or []:
            assert info.dtype == scalar.dtype.name
            assert info.value is None or evaluate(info.value, env) == scalar.item()
        assert not whole or info.value is not None
        return
    infos = list(info.fields) if isinstance(info, TupleStructInfo) else [info]
    for one, array in zip(infos, expected or [None] * len(infos), strict=True):
        assert isinstance(one, TensorStructInfo)
        if whole:
            assert one.dims is not None
            assert not one.dtype.is_void
        if array is None:
            continue
        assert one.dtype in ("", array.dtype.name)
        assert one.ndim in (-1, array.ndim)
        for size, found in zip(one.dims or (), array.shape, strict=False):
            free = [var for var in relax.prim.free_vars(size) if var not in env]
            assert free or evaluate(size, env) == found, f"inferred {one}, found {array.shape}"


def check_function(made: Variant) -> None:
    """The public function makes the same call of the call's own arguments and attributes."""
    call = made.call
    attrs = {name: getattr(call.attrs, name) for name in call.attrs.attribute_names}
    again = public_function(made.case.op)(*call.args, **attrs)
    assert structural_equal(call, again)


@dataclass
class Kernel:
    """A case as a PrimFunc and its arguments; the results are in `outputs` when it has run."""

    func: Any
    arguments: list[Any]
    outputs: list[np.ndarray]


def kernel(made: Variant) -> Kernel:
    """The formula of a case as a PrimFunc."""
    inputs: list[te.Tensor] = []
    data = list(made.arrays)

    def value(arg: Any) -> Any:
        if isinstance(arg, Var):
            info = arg.struct_info
            inputs.append(te.placeholder(info.dims, info.dtype, arg.name_hint))
            return inputs[-1]
        if isinstance(arg, Tuple):
            return [value(item) for item in arg.fields]
        if isinstance(arg, relax.expr.Constant):
            data.append(arg.data)
            inputs.append(te.placeholder(arg.data.shape, arg.dtype, "constant"))
            return inputs[-1]
        return list(arg.values) if isinstance(arg, ShapeExpr) else arg.value

    pairs = made.operator.arguments(made.call)
    values = [None if operand.optional and is_absent(arg) else value(arg) for operand, arg in pairs]
    result = made.operator.checked_formula(made.call, values)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    func = te.create_prim_func([*inputs, *results])
    shapes = [tuple(evaluate(size, made.env) for size in tensor.shape) for tensor in results]
    outputs = [np.zeros(s, t.dtype.numpy()) for s, t in zip(shapes, results, strict=True)]
    scalars = [made.env[param] for param in func.params if param not in func.buffer_map]
    arrays = [array.copy(order="C") for array in data]
    return Kernel(func, [*arrays, *scalars, *outputs], outputs)


def check_kernel(code: Kernel, case: Case, expected: list[np.ndarray] | None) -> None:
    """The formula, run by the reference interpreter of TIR, against the reference."""
    if case.raises:
        error, message = case.raises
        try:
            interpret(code.func, *code.arguments)
        except error as found:
            assert message in str(found)  # noqa: PT017 (the message is checked beside the type)
        else:
            raise AssertionError(f"expected {error.__name__}")
        return
    interpret(code.func, *code.arguments)
    for found, wanted in zip(code.outputs, expected, strict=True):
        assert_close(found, wanted, case.tolerance, case.tails)


def assert_close(found: np.ndarray, wanted: np.ndarray, tolerance: float | None = None, tails: bool = False) -> None:
    """Equal dtype and shape, and values equal up to the precision of the dtype."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if not DataType(found.dtype.name).is_float:
        np.testing.assert_array_equal(found, wanted)
        return
    rtol = tolerance if tolerance is not None else TOLERANCE.get(found.dtype.name, 0.2)
    wide = found.astype(np.float64), wanted.astype(np.float64)
    atol = 20 * float(ml_dtypes.finfo(found.dtype).smallest_subnormal) if tails else rtol * 0.1
    np.testing.assert_allclose(*wide, rtol=rtol, atol=atol, equal_nan=True)


def all_cases() -> Iterator[Case]:
    """The cases of every table beside this file."""
    import importlib
    from pathlib import Path

    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        yield from importlib.import_module(path.stem).CASES
