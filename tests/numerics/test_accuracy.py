"""The bounds of docs/numerics.md, against arithmetic of 200 binary digits."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

import relax
from relax import te
from relax.codegen import build_module, resolve
from relax.ir import DataType, Op
from relax.op import operator_of
from relax.op.operator import public_function
from relax.prim import intrin
from relax.struct_info import TensorStructInfo

PAGE = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text()
TABLE = {name: float(bound) for name, bound in re.findall(r"^\| `(relax\.[\w.]+)` \| ([\d.]+) \|", PAGE, re.M)}

DIGITS = {"float32": 24, "float64": 53}
LEAST = {"float32": -149, "float64": -1074}
TARGETS = ["llvm", "llvm -mcpu=x86-64"]


def erfc(x):
    return mp.erfc(x) if abs(x) < 1000 else mpf(0 if x > 0 else 2)  # mpmath takes no greater ones


def gelu_tanh(x):
    return x / (1 + mp.exp(-mp.sqrt(8 / mp.pi) * (x + mpf(44715) / 10**6 * x**3)))


EXACT = {
    "exp": mp.exp, "log": mp.log, "sqrt": mp.sqrt, "rsqrt": lambda x: 1 / mp.sqrt(x), "erf": mp.erf, "sin": mp.sin,
    "cos": mp.cos, "tan": mp.tan, "asin": mp.asin, "acos": mp.acos, "atan": mp.atan, "sinh": mp.sinh, "cosh": mp.cosh,
    "tanh": mp.tanh, "asinh": mp.asinh, "acosh": mp.acosh, "atanh": mp.atanh, "power": mp.power,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)), "nn.silu": lambda x: x / (1 + mp.exp(-x)),
    "nn.gelu": lambda x: x / 2 * erfc(-x / mp.sqrt(2)), "nn.gelu_tanh": gelu_tanh,
    "exp2": lambda x: mpf(2) ** x, "exp10": lambda x: mpf(10) ** x, "log2": lambda x: mp.log(x, 2), "log10": mp.log10,
    "log1p": mp.log1p, "erfc": erfc, "atan2": mp.atan2, "hypot": mp.hypot, "pow": mp.power,
}  # fmt: skip

#: Where a function is neither 0 nor infinite in float32, and in float64.
TAILS = {
    "exp": (104, 746), "exp2": (150, 1076), "exp10": (46, 324), "sinh": (90, 711), "cosh": (90, 711), "sigmoid": (104, 746),
    "tanh": (10, 20), "erf": (4, 6), "erfc": (10.2, 27.3), "nn.silu": (109, 753), "nn.gelu": (14.5, 38.7),
    "nn.gelu_tanh": (9.5, 21.5),
}  # fmt: skip
POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt")
WITHIN_ONE = ("asin", "acos", "atanh")


def operands(name, dtype):
    """Operands over the whole domain of a function: its tails, near 0, near 1, and of every magnitude."""
    rng = np.random.default_rng(7)
    info = np.finfo(dtype)
    wide = [-1, 1] * np.exp(rng.uniform(np.log(info.smallest_subnormal), np.log(info.max), (150, 2)))
    tiny = [-1, 1] * np.exp(rng.uniform(-30, 0, (60, 2)))
    parts = [wide, tiny, rng.uniform(-1, 1, 150), rng.uniform(-12, 12, 150), [0.5, -0.5, 1, -1, 2, 0.625, 0.92]]
    if name in TAILS:
        edge = TAILS[name][dtype == "float64"]
        parts += [rng.uniform(-edge, edge, 400), rng.uniform(-edge, -0.8 * edge, 100)]
    if name in ("sin", "cos", "tan"):
        parts += [rng.integers(-(10**5), 10**5, 100) * (np.pi / 2), rng.uniform(-1e5, 1e5, 150)]
    if name in ("log", "log2", "log10", "acosh"):
        parts += [1 + [-1, 1] * np.exp(rng.uniform(-30, -1, (60, 2))), [info.max]]
    if name in WITHIN_ONE:
        parts += [[-1, 1] * (1 - np.exp(rng.uniform(-30, -1, (60, 2))))]
    if name == "log1p":
        parts += [np.exp(rng.uniform(-30, 0, 60)) - 1]
    x = np.concatenate([np.ravel(part) for part in parts]).astype(dtype)
    if name in POSITIVE:
        x = np.abs(x)
    if name == "acosh":
        x = np.abs(x)[np.abs(x) >= 1]
    if name in WITHIN_ONE:
        x = x[np.abs(x) <= 1]
    return [x[x > -1] if name == "log1p" else x[x != 0]]


def powers(dtype):
    rng = np.random.default_rng(8)
    edge = 126 if dtype == "float32" else 1022
    a = np.concatenate([rng.uniform(0, 3, 300), np.exp(rng.uniform(-80, 80, 300)), 1 + rng.uniform(-1e-4, 1e-4, 100)])
    # Results of every magnitude: b = log r / log a.
    with np.errstate(all="ignore"):
        b = rng.uniform(-edge, edge, a.size) * np.log(2) / np.log(a)
    whole = rng.integers(-9, 9, 200)
    return [np.concatenate([a, rng.uniform(-9, 9, 200)]).astype(dtype), np.concatenate([b, whole]).astype(dtype)]


def points(dtype):
    """Points of the plane: in every quadrant, beside the axes and the diagonals, and of every magnitude."""
    rng = np.random.default_rng(10)
    info = np.finfo(dtype)
    scale = np.exp(rng.uniform(np.log(info.smallest_subnormal), np.log(info.max) - 1, (600, 2)))
    angle = rng.integers(0, 8, 300) * (np.pi / 4) + rng.normal(size=300) * np.exp(rng.uniform(-20, 0, 300))
    circle = np.stack([np.cos(angle), np.sin(angle)], 1)
    every = np.concatenate([scale * rng.choice([-1, 1], scale.shape), circle, rng.normal(size=(600, 2))])
    return list(np.ascontiguousarray(every.T.astype(dtype)))


def errors(found, exact, dtype):
    """How far results are from the exact ones, in units in the last place."""
    largest, least = float(np.finfo(dtype).max), mpf(2) ** LEAST[dtype]
    result = np.zeros(len(exact))
    for i, (value, wanted) in enumerate(zip(found.tolist(), exact)):
        if abs(wanted) > largest:
            assert abs(value) >= largest * (1 - 1e-6)
            continue
        step = least
        if wanted:
            step = max(step, mpf(2) ** (mpmath.frexp(wanted)[1] - DIGITS[dtype]))
        result[i] = abs(mpf(value) - wanted) / step
    return result


def exact_values(name, arrays):
    with mp.workprec(200):
        values = [EXACT[name](*map(mpf, row)) for row in zip(*(a.tolist() for a in arrays))]
        return [value.real if isinstance(value, mpmath.mpc) else value for value in values]


def check(name, arrays, results, bound):
    """Each of several results, against the exact values, which are computed once."""
    dtype = arrays[0].dtype.name
    exact = exact_values(name, arrays)
    for label, found in results.items():
        assert np.isfinite(found[[abs(e) < 1e30 for e in exact]]).all(), label
        with mp.workprec(200):
            wrong = errors(found, exact, dtype)
        if name == "nn.gelu":  # see the table
            small = [abs(e) < 32 * float(np.finfo(dtype).tiny) for e in exact]
            with mp.workprec(200):
                steps = np.array([float(abs(mpf(float(f)) - e) / mpf(2) ** LEAST[dtype]) for f, e in zip(found, exact)])
            wrong[small] = np.minimum(wrong[small], steps[small] * bound / 16)
        worst = int(wrong.argmax())
        assert wrong.max() <= bound, f"{name} {label}: {[float(a[worst]) for a in arrays]}: {wrong.max()} ULP"


def kernel(name, dtype, count=1):
    """An operator's formula over one dimension."""
    size = relax.tir.Var("n", "int64")
    inputs = [te.placeholder((size,), dtype, f"x{i}") for i in range(count)]
    infos = [relax.Var(f"x{i}", TensorStructInfo((size,), dtype)) for i in range(count)]
    call = public_function(f"relax.{name}")(*infos)
    return te.create_prim_func([*inputs, operator_of(call).checked_formula(call, inputs)])


def intrinsic_kernel(name, dtype):
    size = relax.tir.Var("n", "int64")
    inputs = [te.placeholder((size,), dtype, f"x{i}") for i in range(2 if name in PAIRS else 1)]
    result = te.compute((size,), lambda i: getattr(intrin, name)(*(x(i) for x in inputs)), "y")
    return te.create_prim_func([*inputs, result])


def evaluated(name, arrays):
    """The reference of an operator."""
    infos = [relax.Var("x", TensorStructInfo(a.shape, a.dtype.name)) for a in arrays]
    with np.errstate(all="ignore"):
        return operator_of(public_function(f"relax.{name}")(*infos)).evaluate(*arrays)


NAMES = [name.removeprefix("relax.") for name in TABLE]


@pytest.fixture(scope="module", params=TARGETS)
def kernels(request):
    if "x86" in request.param and not resolve("llvm").triple.startswith("x86_64"):
        pytest.skip("another architecture")
    funcs = {f"{n} {d}": kernel(n, d, 2 if n == "power" else 1) for n in NAMES for d in DIGITS}
    return build_module(funcs, request.param)


def run(module, name, *arrays):
    found = np.empty_like(arrays[0])
    module[name](*arrays, found)
    return found


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("name", NAMES)
def test_operators_keep_their_bounds(kernels, name, dtype):
    arrays = powers(dtype) if name == "power" else operands(name, dtype)
    results = {"compiled": run(kernels, f"{name} {dtype}", *arrays), "reference": evaluated(name, arrays)}
    check(name, arrays, results, TABLE[f"relax.{name}"])


INTRINSICS = re.findall(r"`T\.(\w+)`", PAGE)
PAIRS = {"atan2": points, "hypot": points, "pow": powers}


@pytest.mark.parametrize("dtype", DIGITS)
def test_intrinsics_keep_their_bound(dtype):
    assert len(INTRINSICS) == 25
    module = build_module({name: intrinsic_kernel(name, dtype) for name in INTRINSICS})
    for name in INTRINSICS:
        arrays = PAIRS[name](dtype) if name in PAIRS else operands(name, dtype)
        reference = Op.get(f"tir.{name}").get_attr("numpy")
        with np.errstate(all="ignore"):
            evaluated = reference(*(a.astype("float64") for a in arrays)).astype(dtype)
        check(name, arrays, {"compiled": run(module, name, *arrays), "evaluated": evaluated}, 4)


def test_the_table_is_what_the_operators_state():
    stated = {
        name: cls.accuracy
        for name in Op.list_op_names()
        if (cls := Op.get(name).get_attr("operator_class")) is not None and cls.accuracy is not None
    }
    assert stated == TABLE


# -------------------------------------------------------------------------------------- narrow floats


def every_value(dtype):
    kind = DataType(dtype).numpy()
    values = np.arange(1 << (8 * kind.itemsize)).astype(f"u{kind.itemsize}").view(kind)
    return values[np.isfinite(values.astype("float32"))]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats_are_within_one_unit(dtype):
    """Every value, against the reference in float64, whose own error does not show."""
    names = [name for name in NAMES if name != "power"]
    module = build_module({name: kernel(name, dtype) for name in names})
    x = every_value(dtype)
    info = ml_dtypes.finfo(x.dtype)
    least = float(info.smallest_subnormal)
    for name in names:
        found = run(module, name, x).astype("float64")
        exact = evaluated(name, [x.astype("float64")])
        assert (np.isnan(found) | np.isfinite(exact) | np.isinf(found)).all()
        np.testing.assert_array_equal(np.isnan(found[np.isnan(exact)]), True)
        inside = np.isfinite(exact) & (np.abs(exact) <= float(info.max))
        assert np.isfinite(found[inside]).all()
        found, exact = found[inside], exact[inside]
        step = np.maximum(np.ldexp(1.0, np.frexp(exact)[1] - int(info.nmant) - 1), least)
        assert (np.abs(found - exact) / step).max() <= 1, name


# ------------------------------------------------------------------------------------------- softmax


def softmaxes(dtype):
    rng = np.random.default_rng(9)
    rows = [rng.uniform(-r, r, (4, 16)) for r in (1e-3, 1, 30, 90)]
    shifted = [rng.uniform(-5, 5, (4, 16)) + offset for offset in (-1e4, 1e4)]
    alone = rng.uniform(-1, 1, (8, 16))
    alone[np.arange(8), np.arange(8)] += np.linspace(3, 90, 8)
    ties = np.repeat(rng.uniform(-60, 0, (4, 4)), 4, axis=1)
    return np.concatenate([*rows, *shifted, alone, ties]).astype(dtype)


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmaxes_keep_their_bounds(name, dtype):
    x = softmaxes(dtype)
    made = te.placeholder((relax.tir.Var("n", "int64"), 16), dtype, "x")
    func = te.create_prim_func([made, getattr(relax.topi.nn, name)(made)])
    compiled = run(build_module({name: func}), name, x)
    for row, found in [*zip(x, compiled), *zip(x, evaluated(f"nn.{name}", [x]))]:
        with mp.workprec(200):
            values = [mpf(v) for v in row.tolist()]
            top = max(values)
            total = sum(mp.exp(v - top) for v in values)
            logs = [v - top - mp.log(total) for v in values]
            exact = [mp.exp(v) for v in logs] if name == "softmax" else logs
            wrong = errors(found, exact, dtype)
        differences = np.sort(row.max() - row).astype("float64")
        away = (row.max() - row).astype("float64") if name == "softmax" else differences[1]
        assert (wrong <= 6 + 16 / 2 + away).all(), (name, row, wrong.max())


def test_one_element_much_greater_than_the_others():
    x = np.array([[0, 30, 0]], "float32")
    made = te.placeholder((1, 3), "float32", "x")
    found = run(build_module({"f": te.create_prim_func([made, relax.topi.nn.log_softmax(made)])}), "f", x)
    np.testing.assert_allclose(found[0, 1], -2 * np.exp(-30.0), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", ["nn.gelu", "nn.gelu_tanh", "nn.silu"])
def test_limits_of_activations(name, dtype):
    x = np.array([-np.inf, np.inf, np.nan, -0.0, 0.0, -3e4]).astype(DataType(dtype).numpy())
    compiled = run(build_module({"f": kernel(name, dtype)}), "f", x)
    for found in (compiled, evaluated(name, [x])):
        wide = found.astype("float64")
        np.testing.assert_array_equal(wide, [0, np.inf, np.nan, 0, 0, 0])
        np.testing.assert_array_equal(np.signbit(wide[[0, 3, 4, 5]]), [True, True, False, True])
