"""float16, bfloat16 and the floats of 8 and 4 bits: bit for bit what NumPy and ml_dtypes give, where those round once.

What rounding once gives is in tests/numerics: `convert_array` is held to exact arithmetic there.
"""

from __future__ import annotations

import itertools

import ml_dtypes  # noqa: F401  (NumPy learns the types)
import numpy as np
import pytest

import relax
from relax import codegen, tir
from relax.codegen import resolve
from relax.ir import DataType
from relax.runtime.rounding import convert_array
from relax.script import tir as T

SMALL = [
    "float16", "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
]  # fmt: skip
OPERATIONS = {"add": tir.Add, "sub": tir.Sub, "mul": tir.Mul, "div": tir.Div}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def cast_to(dtype):
    return lambda x: tir.Cast(dtype, x)


@pytest.fixture(scope="module", params=["llvm", "llvm -mcpu=x86-64"])
def module(kernels, request):
    """All kernels at once; on the plainest x86-64, float16 is converted without instructions for it."""
    if "x86" in request.param and not resolve("llvm").triple.startswith("x86_64"):
        pytest.skip("another architecture")
    funcs = {}
    for t in SMALL:
        funcs[f"{t} decode"] = kernels.elementwise(cast_to("float32"), [t], "float32")
        funcs[f"{t} copy"] = kernels.elementwise(lambda x: x, [t], t)
        for source in ("float32", "float64", "int64", "uint8"):
            funcs[f"{t} {source}"] = kernels.elementwise(cast_to(t), [source], t)
        for name, op in OPERATIONS.items():
            funcs[f"{t} {name}"] = kernels.elementwise(op, [t, t], t)
    return codegen.build_module(funcs, request.param)


def every_value(dtype):
    kind = DataType(dtype).numpy()
    return np.arange(1 << DataType(dtype).bits).astype(f"u{kind.itemsize}").view(kind)


def interesting(dtype):
    """Every value, halfway between neighbours, and just beside that."""
    values = every_value(dtype).astype("float32")
    values = np.sort(values[np.isfinite(values)]).astype("float64")
    middles = ((values[1:] + values[:-1]) / 2).astype("float32")
    anything = np.random.default_rng(3).integers(0, 2**32, 50_000, dtype=np.uint32).view("float32")
    edges = [0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 465, 57344, 61440, 61441, 65519, 65520, 1e-45, 3.39e38]
    return np.concatenate(
        [values.astype("f4"), middles, np.nextafter(middles, np.float32(9e9)),
         np.nextafter(middles, np.float32(-9e9)), anything, np.array(edges, "f4")]
    )  # fmt: skip


@pytest.mark.parametrize("dtype", SMALL)
def test_decoding_and_copying(module, kernels, dtype):
    values = every_value(dtype)
    found = np.empty(len(values), "float32")
    module[f"{dtype} decode"](values, found)
    kernels.same_bits(found, values.astype("float32"))
    copied = np.empty_like(values)
    module[f"{dtype} copy"](values, copied)
    assert copied.tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", SMALL)
def test_rounding(module, kernels, dtype):
    x = interesting(dtype)
    nearly = [x.astype("f8") * f for f in (1, 1 + 2.0**-40, 1 - 2.0**-40)]
    rng = np.random.default_rng(4)
    whole = np.concatenate([np.arange(-600, 600), rng.integers(-(2**62), 2**62, 500)])
    for source in (x, np.concatenate(nearly), whole, np.arange(256, dtype="uint8")):
        found = np.empty(len(source), DataType(dtype).numpy())
        module[f"{dtype} {source.dtype.name}"](source, found)
        kernels.same_bits(found, convert_array(source, dtype))


@pytest.mark.parametrize("dtype, name", list(itertools.product(SMALL, OPERATIONS)))
def test_arithmetic_is_rounded_after_each_operation(module, kernels, dtype, name):
    values = every_value(dtype)
    if len(values) <= 256:
        a, b = (grid.ravel().copy() for grid in np.meshgrid(values, values))
    else:
        rng = np.random.default_rng(5)
        a, b = rng.choice(values, 50_000), rng.choice(values, 50_000)
    found = np.empty_like(a)
    module[f"{dtype} {name}"](a, b, found)
    reference = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    if DataType(dtype).saturates:  # ml_dtypes has a sign for NaN in it
        kernels.same_bits(found, convert_array(reference(a.astype("f4"), b.astype("f4")), dtype))
    else:
        kernels.same_bits(found, reference(a, b))


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_bfloat16_are_not_rounded_again(kernels, name):
    op, reference = {"max": (tir.Max, np.maximum), "min": (tir.Min, np.minimum)}[name]
    kernel = codegen.build_module(kernels.elementwise(op, ["bfloat16", "bfloat16"], "bfloat16"))
    source = kernel.get_source()
    assert "cvtneps2bf16" not in source
    assert "32767" not in source
    values, rng = every_value("bfloat16"), np.random.default_rng(5)
    a, b = np.concatenate([values, values]), np.concatenate([values[::-1], rng.permutation(values)])
    found = np.empty_like(a)
    kernel["main"](a, b, found)
    np.testing.assert_array_equal(found.astype("float32"), reference(a, b).astype("float32"))


# ------------------------------------------------------------------------------------- vectors


def vectors(lanes, dtype="bfloat16"):
    """Rounds vectors, and rounds the sums of vectors of the small floats with themselves, read and written again."""

    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        x = T.match_buffer(a, (n, lanes))
        y = T.match_buffer(b, (n, lanes), dtype)
        z = T.match_buffer(c, (n, lanes), dtype)
        for i in range(n):
            for j in T.vectorized(lanes):
                y[i, j] = T.Cast(dtype, x[i, j])
            for j in T.vectorized(lanes):
                z[i, j] = y[i, j] + y[i, j]

    return main


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("lanes", [3, 8, 16, 32])
def test_vectors_are_rounded_to_bfloat16_as_numbers_are(kernels, target, lanes):
    """Some machines have an instruction, which takes numbers below the normal ones for zero: they go another way."""
    if "x86" in target and not resolve("llvm").triple.startswith("x86_64"):
        pytest.skip("another architecture")
    x = interesting("bfloat16")
    x = np.concatenate([x, np.random.default_rng(6).permutation(x)])
    x = x[: len(x) // lanes * lanes].reshape(-1, lanes).copy()
    rounded, doubled = np.empty(x.shape, "bfloat16"), np.empty(x.shape, "bfloat16")
    codegen.build_module(vectors(lanes), target)["main"](x, rounded, doubled)
    expected = convert_array(x, "bfloat16")
    assert (np.abs(x) < 2.0**-126).any()
    kernels.same_bits(rounded, expected)
    kernels.same_bits(doubled, expected + expected)


@pytest.mark.parametrize("lanes", [16, 32, 64, 128])
def test_halves_of_vectors_that_are_read_and_negated(lanes):
    """Lanes that are not read are constant, which LLVM sees late."""

    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n = T.int64()
        x = T.match_buffer(a, (n, lanes), "bfloat16")
        y = T.match_buffer(b, (n, lanes), "bfloat16")
        for i in range(n):
            for j in T.vectorized(lanes):
                y[i, j] = T.if_then_else(j < lanes // 2, T.bfloat16(0) - x[i, j + lanes // 2], x[i, j - lanes // 2])

    kernel = codegen.build_module(main)
    values = every_value("bfloat16")
    values = values[np.isfinite(values.astype("float32"))]
    x = values[: len(values) // lanes * lanes].reshape(-1, lanes).copy()
    found = np.empty_like(x)
    kernel["main"](x, found)
    low, high = np.split(x, 2, axis=1)
    np.testing.assert_array_equal(found.astype("float32"), np.concatenate([-high, low], axis=1).astype("float32"))


@pytest.mark.parametrize("size", [2, 16, 62, 64, 66, 128])
def test_a_rotation_of_halves(size):
    x = relax.Var("x", relax.TensorStructInfo((tir.SizeVar("n", "int64"), size), "bfloat16"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            low = relax.op.strided_slice(x, [1], [0], [size // 2])
            high = relax.op.strided_slice(x, [1], [size // 2], [size])
            gv = bb.emit_output(relax.op.concat((relax.op.negative(high), low), axis=1))
        bb.emit_func_output(gv)
    run = relax.VirtualMachine(relax.build(bb.get(), "llvm"), relax.cpu())["main"]
    for n in (0, 1, 3):
        data = np.random.default_rng(n).standard_normal((n, size)).astype(DataType("bfloat16").numpy())
        expected = np.concatenate([-data[:, size // 2 :], data[:, : size // 2]], axis=1)
        np.testing.assert_array_equal(run(data).numpy().astype("float32"), expected.astype("float32"))
