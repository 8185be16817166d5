"""Element types that operators accept: the table `Operator.takes`, and each pair of it that NumPy accepts too.

NumPy accepts a pair if it returns values of the kind of the operands, or truth values or indices: what it converts to
another kind first (`np.exp` of integers) is written with `R.astype`.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from op_harness import all_cases, variant

import relax
from relax.expr import Tuple, Var
from relax.ir import DiagnosticError, Op
from relax.op import infer_call
from relax.struct_info import TensorStructInfo
from support import module, plain_machine, values

FAMILIES = {
    "float": ("float32", "float8_e4m3fn"),
    "int": ("int8", "int64"),
    "uint": ("uint8", "uint64"),
    "bool": ("bool",),
}

CASES: dict[str, list] = {}
for _case in all_cases():
    CASES.setdefault(_case.op, []).append(_case)


# ---------------------------------------------------------------------------------------- the table


def variables(arg):
    return [v for field in (arg.fields if isinstance(arg, Tuple) else [arg]) for v in [field] if isinstance(v, Var)]


def accepts(call, dtype):
    """True if inference accepts a call whose first tensor, and those of its dtype, have another one."""
    tensors = [v for arg in call.args for v in variables(arg)]
    replaced = tensors[0].struct_info_.dtype

    def changed(arg):
        if isinstance(arg, Tuple):
            return Tuple([changed(field) for field in arg.fields])
        info = arg.struct_info_ if isinstance(arg, Var) else None
        return Var("x", TensorStructInfo(info.shape, dtype)) if info is not None and info.dtype == replaced else arg

    try:
        infer_call(call.replace(args=[changed(arg) for arg in call.args]))
    except DiagnosticError:
        return False
    return True


@pytest.mark.parametrize("name", CASES)
def test_takes_is_what_inference_accepts(name):
    operator = Op.get(name).get_attr("operator_class")
    calls = [variant(case, False).call for case in CASES[name]]
    calls = [call for call in calls if any(variables(arg) for arg in call.args)]
    if calls:
        found = {f for f, dtypes in FAMILIES.items() if any(accepts(call, d) for call in calls for d in dtypes)}
        assert found == set(operator.takes)


# ------------------------------------------------------------------------------------ beside NumPy


def added(x, y):
    result = x.copy()
    np.add.at(result, [0, 0], y)
    return result


ROWS = {
    "abs(x)": np.abs,
    "negative(x)": np.negative,
    "sign(x)": np.sign,
    "square(x)": np.square,
    "floor(x)": np.floor,
    "ceil(x)": np.ceil,
    "trunc(x)": np.trunc,
    "round(x)": np.rint,
    "isnan(x)": np.isnan,
    "isinf(x)": np.isinf,
    "isfinite(x)": np.isfinite,
    "logical_not(x)": np.logical_not,
    "bitwise_not(x)": np.invert,
    "clip(x, 0, 1)": lambda x: np.clip(x, x.dtype.type(0), x.dtype.type(1)),
    "add(x, y)": np.add,
    "subtract(x, y)": np.subtract,
    "multiply(x, y)": np.multiply,
    "divide(x, y)": np.divide,
    "floor_divide(x, y)": np.floor_divide,
    "mod(x, y)": np.fmod,
    "floor_mod(x, y)": np.mod,
    "power(x, y)": np.power,
    "maximum(x, y)": np.maximum,
    "minimum(x, y)": np.minimum,
    "logical_and(x, y)": np.logical_and,
    "logical_or(x, y)": np.logical_or,
    "logical_xor(x, y)": np.logical_xor,
    "bitwise_and(x, y)": np.bitwise_and,
    "bitwise_or(x, y)": np.bitwise_or,
    "bitwise_xor(x, y)": np.bitwise_xor,
    "left_shift(x, y)": np.left_shift,
    "right_shift(x, y)": np.right_shift,
    "equal(x, y)": np.equal,
    "not_equal(x, y)": np.not_equal,
    "less(x, y)": np.less,
    "less_equal(x, y)": np.less_equal,
    "greater(x, y)": np.greater,
    "greater_equal(x, y)": np.greater_equal,
    "sum(x, axis=1)": lambda x: np.sum(x, 1),
    "prod(x, axis=1)": lambda x: np.prod(x, 1),
    "max(x, axis=1)": lambda x: np.max(x, 1),
    "min(x, axis=1)": lambda x: np.min(x, 1),
    "mean(x, axis=1)": lambda x: np.mean(x, 1),
    "argmax(x, axis=1)": lambda x: np.argmax(x, 1),
    "argmin(x, axis=1)": lambda x: np.argmin(x, 1),
    "cumsum(x, axis=1)": lambda x: np.cumsum(x, 1),
    "cumprod(x, axis=1)": lambda x: np.cumprod(x, 1),
    "sort(x)": np.sort,
    "argsort(x)": lambda x: np.argsort(x, kind="stable"),
    'topk(x, 2, ret_type="values")': lambda x: np.flip(np.sort(x), 1)[:, :2],
    "unique(x)": np.unique,
    "nonzero(x)": lambda x: np.stack(np.nonzero(x)),
    "tril(x)": np.tril,
    "matmul(x, R.permute_dims(y))": lambda x, y: x @ y.T,
    "outer(R.reshape(x, (6,)), R.reshape(y, (6,)))": np.outer,
    'einsum((x, y), "ij,kj->ik")': lambda x, y: np.einsum("ij,kj->ik", x, y),
    "bucketize(x, R.sort(R.reshape(y, (6,))))": lambda x, y: np.searchsorted(np.sort(np.ravel(y)), x),
    "where(x, R.const(1), R.const(0))": lambda x: np.where(x, 1, 0),
    "index_put(x, (R.const([0, 0]),), y, accumulate=True)": added,
}
"""A call, and the same in NumPy."""

DTYPES = ("int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
ONLY_TORCH = {"sign(x)"}
"""Calls on booleans that torch accepts and NumPy does not."""
X = np.array([[0, 3, 1], [2, 0, 2]])
Y = np.array([[1, 2, 1], [3, 1, 1]])


def numpy_result(function, operands):
    """NumPy's result, None if it refuses the operands."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*operands))
    except TypeError:
        return None


def takes_two(call):
    return re.search(r"\by\b", call) is not None


def function_text(name, call, dtype):
    params = f'x: R.Tensor((2, 3), "{dtype}")' + f', y: R.Tensor((2, 3), "{dtype}")' * takes_two(call)
    return f"@R.function\ndef {name}({params}):\n    return R.{call}\n"


def refusal(text):
    """The diagnostic of a function that is refused, None for one that is accepted."""
    try:
        module(text)
    except DiagnosticError as error:
        return error.diagnostics[0]
    return None


def check_refused(error, call, dtype, wanted):
    """NumPy refuses the pair as well, or converts the operands to another kind."""
    assert error.code == "E3103"
    assert f"found {dtype}" in error.message
    assert wanted is None or wanted.dtype.kind not in (np.dtype(dtype).kind, "b"), call


def check_beside_numpy(dtype):
    texts, expected = [], {}
    for number, (call, function) in enumerate(ROWS.items()):
        operands = [a.astype(dtype) for a in ((X, Y) if takes_two(call) else (X,))]
        wanted = numpy_result(function, operands)
        text = function_text(f"f{number}", call, dtype)
        error = refusal(text)
        if error is not None:
            check_refused(error, call, dtype, wanted)
            continue
        assert wanted is not None or dtype != "bool" or call in ONLY_TORCH
        texts.append(text)
        expected[f"f{number}"] = call, operands, wanted
    mod = module(*texts)
    machine = plain_machine(mod)
    for name, (call, operands, wanted) in expected.items():
        found = values(machine[name](*operands))
        np.testing.assert_array_equal(found, values(relax.interpret(mod, name, *operands)), call)
        if wanted is not None and found.dtype.kind == wanted.dtype.kind:
            np.testing.assert_allclose(found, wanted.astype(found.dtype), rtol=1e-3, err_msg=call)


@pytest.mark.parametrize("dtype", ["bool", "uint8"])
def test_some_dtypes_beside_numpy(dtype):
    check_beside_numpy(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_dtypes_beside_numpy(dtype):
    check_beside_numpy(dtype)


def test_out_dtype_does_not_admit_booleans():
    text = """
        @R.function
        def main(x: R.Tensor((1, 1, 3), "bool"), w: R.Tensor((1, 1, 2), "float32")):
            return R.nn.conv1d(x, w, out_dtype="float32")
    """
    assert refusal(text).message == (
        "nn.conv1d: data must be a tensor of floating point or signed integers or unsigned integers, found bool"
    )


def test_refused_pair():
    assert refusal(function_text("f", "subtract(x, y)", "bool")).message == (
        "subtract: x1 must be a tensor of floating point or signed integers or unsigned integers, found bool"
    )
