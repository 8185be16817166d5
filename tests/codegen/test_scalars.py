"""Integer and floating-point operations, casts and logic: what `prim.evaluate` defines, for every dtype."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from relax import codegen, tir
from relax.ir import DataType
from relax.prim import evaluate, intrin
from relax.script import from_source
from relax.script import tir as T
from support import numbers

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
ARITHMETIC = (tir.Add, tir.Sub, tir.Mul, tir.Div, tir.Mod, tir.FloorDiv, tir.FloorMod, tir.Min, tir.Max)
COMPARISONS = (tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE)
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")


def operands(dtype):
    """Pairs of values with the edges among them."""
    kind = DataType(dtype)
    rng = np.random.default_rng(0)
    if kind.is_float:
        edges = [0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 3.0, -7.25]
        more = rng.normal(size=40) * 9
    else:
        low, high = int(kind.min_value), int(kind.max_value)
        edges = [low, low + 1, 0, 1, 2, 3, 7, high - 1, high, *([-1, -2, -7] if low else [])]
        more = [int(v) for v in rng.integers(max(low, -100), min(high, 100), 20)]
    values = np.array([*edges, *more], dtype)
    a, b = np.meshgrid(values, values)
    return a.ravel().copy(), b.ravel().copy()


def expected(expr_of, a, b, output):
    """The definition's values, one by one."""
    kind = DataType(a.dtype.name)
    x, y = tir.Var("x", kind), tir.Var("y", kind)
    expr = expr_of(x, y)
    values = [evaluate(expr, {x: p, y: q}) for p, q in zip(a.tolist(), b.tolist())]
    return np.array(values, DataType(output).numpy())


def check_all(kernels, formulas, arrays, dtype, outputs):
    """Compile formulas together, run each, and compare with the definition."""
    inputs = [dtype] * len(arrays)
    module = codegen.build_module({name: kernels.elementwise(f, inputs, outputs[name]) for name, f in formulas.items()})
    for name, formula in formulas.items():
        found = np.empty(len(arrays[0]), outputs[name])
        module[name](*arrays, found)
        exact = expected(formula, arrays[0], arrays[-1], outputs[name])
        np.testing.assert_array_equal(found, exact, err_msg=name)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_arithmetic(kernels, dtype):
    a, b = operands(dtype)
    divisible = b != 0 if DataType(dtype).is_integer else np.ones(len(b), bool)
    funcs = {op.__name__: kernels.elementwise(op, [dtype, dtype], dtype) for op in ARITHMETIC}
    module = codegen.build_module(funcs)
    for op in ARITHMETIC:
        division = op in (tir.Div, tir.Mod, tir.FloorDiv, tir.FloorMod)
        x, y = (a[divisible], b[divisible]) if division else (a, b)
        found = np.empty_like(x)
        module[op.__name__](x, y, found)
        exact = expected(op, x, y, dtype)
        np.testing.assert_array_equal(found, exact, err_msg=op.__name__)
        if DataType(dtype).is_float and not op.__name__.startswith("M"):  # max(0, -0) may be either
            zero = found == 0
            np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(exact[zero]), op.__name__)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
def test_division_by_a_constant(kernels, dtype):
    a, _ = operands(dtype)
    divisors = [1, 2, 3, 7, 8, 64] if dtype == "uint16" else [1, 2, 3, 7, 8, 64, -1, -2, -3]
    by = {
        f"{op.__name__} {d}": lambda x, y=None, op=op, d=d: op(x, tir.const(d, dtype))
        for op in (tir.Div, tir.Mod, tir.FloorDiv, tir.FloorMod)
        for d in divisors
    }
    check_all(kernels, by, [a], dtype, dict.fromkeys(by, dtype))


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_comparisons(kernels, dtype):
    ops = {op.__name__: op for op in COMPARISONS}
    check_all(kernels, ops, operands(dtype), dtype, dict.fromkeys(ops, "bool"))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(kernels, dtype):
    a, b = operands(dtype)
    ops = {n: lambda x, y, n=n: tir.Call(x.dtype, f"tir.{n}", (x, y)) for n in BITS}
    check_all(kernels, ops, [a, b], dtype, dict.fromkeys(ops, dtype))
    outputs = {"popcount": dtype, "clz": "int32", "bitwise_not": dtype, "abs": dtype}
    ops = {n: lambda x, y=None, n=n: getattr(intrin, n)(x) for n in outputs}
    check_all(kernels, ops, [a], dtype, outputs)


def test_logic(kernels):
    a = np.array([False, False, True, True])
    b = np.array([False, True, False, True])
    for op in (tir.And, tir.Or, tir.EQ, tir.NE, tir.LT, tir.Min, tir.Max, tir.Add, tir.Mul, tir.Sub):
        np.testing.assert_array_equal(kernels.compute(op, a, b, output="bool"), expected(op, a, b, "bool"))
    np.testing.assert_array_equal(kernels.compute(tir.Not, a, output="bool"), ~a)


@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS, "bool"])
def test_casts(kernels, source):
    a, _ = operands(source) if source != "bool" else (np.array([False, True]), None)
    if DataType(source).is_float:
        a = np.concatenate([a, np.array([127.9, -128.9, 255.5, 3e9, -3e9, 1e19, 2e19, -1e19, 1e30], source)])
    targets = [*INTEGERS, *FLOATS, "bool"]
    casts = {target: lambda x, y=None, target=target: tir.Cast(target, x) for target in targets}
    module = codegen.build_module({t: kernels.elementwise(casts[t], [source], t) for t in targets})
    for target in targets:
        found = np.empty(len(a), target)
        module[target](a, found)
        if DataType(source).is_integer and target == "float32":
            np.testing.assert_array_equal(found, a.astype("float32"))
        else:
            np.testing.assert_array_equal(found, expected(casts[target], a, a, target))


def test_any_byte_but_zero_reads_as_true(kernels):
    a = np.array([0, 1, 2, 255], "uint8").view("bool")
    found = kernels.compute(lambda x: tir.Cast("int32", x), a, output="int32")
    np.testing.assert_array_equal(found, [0, 1, 1, 1])


def test_reinterpret(kernels):
    x = np.array([1.0, -2.5, np.inf], "float32")
    bits = kernels.compute(lambda v: intrin.reinterpret("int32", v), x, output="int32")
    np.testing.assert_array_equal(bits, x.view("int32"))
    back = kernels.compute(lambda v: intrin.reinterpret("float32", v), bits, output="float32")
    np.testing.assert_array_equal(back, x)
    half = x.astype("float16")
    found = kernels.compute(lambda v: intrin.reinterpret("uint16", v), half, output="uint16")
    np.testing.assert_array_equal(found, half.view("uint16"))


def test_an_expression_shared_many_times_is_computed_once(kernels):
    def formula(x):
        for _ in range(12):  # 2^12 nodes as a tree
            x = x * x
        return x

    module = codegen.build_module({"f": kernels.elementwise(formula, ["float32"], "float32")})
    assert module.get_source().count("fmul float") == 12


def test_let(kernels):
    def formula(x):
        t = tir.Var("t", "float32")
        return tir.Let(t, x * 2.0, t * t)

    x = np.array([1.0, 3.0], "float32")
    np.testing.assert_array_equal(kernels.compute(formula, x, output="float32"), 4 * x * x)


def test_vectors(kernels):
    """Ramps, broadcasts, consecutive, strided and reversed accesses."""
    a, b = tir.decl_buffer((64,), "float32", "A"), tir.decl_buffer((64,), "float32", "B")
    c = tir.decl_buffer((3,), "float32", "C")
    r = lambda base, stride, lanes: tir.Ramp(tir.const(base, "int32"), tir.const(stride, "int32"), lanes)  # noqa: E731
    body = tir.SeqStmt((
        tir.BufferStore(b, a[r(0, 1, 8)] + a[r(63, -1, 8)], [r(0, 1, 8)]),
        tir.BufferStore(b, tir.exp(a[r(8, 2, 8)]), [r(8, 1, 8)]),
        tir.BufferStore(b, tir.Broadcast(c[1], 4), [r(16, 3, 4)]),
        tir.BufferStore(
            b,
            tir.Select(tir.LT(a[r(0, 1, 4)], tir.Broadcast(tir.const(0.5, "float32"), 4)),
                       tir.Cast("float32x4", r(5, 2, 4)), tir.Broadcast(tir.const(-1.0, "float32"), 4)),
            [r(32, 1, 4)],
        ),
    ))  # fmt: skip
    x, y, z = numbers(64, low=0, high=1), np.zeros(64, "f4"), np.array([1, 2, 3], "f4")
    codegen.build_module({"f": kernels.over(body, a, b, c)})["f"](x, y, z)
    np.testing.assert_array_equal(y[:8], x[:8] + x[63:55:-1])
    np.testing.assert_allclose(y[8:16], np.exp(x[8:24:2]), rtol=1e-6)
    np.testing.assert_array_equal(y[16:28:3], 2)
    np.testing.assert_array_equal(y[32:36], np.where(x[:4] < 0.5, [5, 7, 9, 11], -1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_vectors_of_floats_saturate_as_scalars_do(dtype, target):
    bounds = [127, 255, 32767, 65535, 2147483647, 4294967295, -128, -32768, -2147483648, 0]
    steps = [b + d for b in bounds for d in (-1.5, -0.5, 0, 0.5, 1, 1.5)] + [1e30, -1e30, np.inf, np.nan]
    values = np.array(steps, dtype)
    text = f"""
    @T.prim_func
    def f(A: T.Buffer((64,), "{dtype}"), B: T.Buffer((64,), "{target}")):
        for i in T.vectorized(64):
            B[i] = T.Cast("{target}", A[i])
    """
    func = from_source(textwrap.dedent(text), {"T": T})
    expected, found = np.zeros((2, 64), target)
    tir.interpret(func, values, expected)
    codegen.build_module({"main": func})["main"](values, found)
    np.testing.assert_array_equal(found, expected)
