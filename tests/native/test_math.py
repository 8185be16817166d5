"""Elementary functions: accuracy in units in the last place, and the special values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from relax import codegen
from relax.codegen import resolve
from relax.prim import intrin
from relax.script import from_source
from relax.script import tir as T


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


REFERENCES = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "tanh": np.tanh, "sigmoid": _sigmoid,
    "erf": np.vectorize(math.erf, [np.float64]), "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "fabs": np.abs,
}  # fmt: skip
SPECIAL = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, 0.5, 2.5, 1e-45, -1e-45, 1.1754944e-38, 3.4e38, -3.4e38,
           88.7, 88.73, -87.4, -103.9, -104, 127.99, 128, -149, -150, 38.5, 38.6, -45, 0.625, 0.92, 4]  # fmt: skip


def samples(dtype):
    rng = np.random.default_rng(0)
    spread = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view("float32")
    parts = [spread, *(rng.uniform(-r, r, 10_000) for r in (1, 5, 110)), 1 + rng.normal(size=5_000) * 1e-2]
    with np.errstate(all="ignore"):
        return np.concatenate([*(p.astype(dtype) for p in parts), np.array(SPECIAL, dtype)])


def ulps(found, exact):
    """How far results are from the exact ones, in units in the last place of their dtype."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
    assert np.array_equal(np.isnan(found), np.isnan(rounded))
    infinite = np.isinf(found) | np.isinf(rounded)
    np.testing.assert_array_equal(found[infinite], rounded[infinite])
    zeros = (found == 0) & (rounded == 0)
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(rounded[zeros]))
    info = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        step = np.maximum(np.spacing(np.abs(rounded)), info.smallest_subnormal).astype("float64")
        error = np.abs(found.astype("float64") - exact.astype("float64")) / step
    return np.where(np.isfinite(rounded) & np.isfinite(found), error, 0)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_function_is_accurate_and_right_at_the_edges(kernels, dtype, target):
    if "x86" in target and not resolve("llvm").triple.startswith("x86_64"):
        pytest.skip("another architecture")
    funcs = {name: kernels.elementwise(getattr(intrin, name), [dtype], dtype) for name in REFERENCES}
    module = codegen.build_module(funcs, target)
    x = samples(dtype)
    for name, reference in REFERENCES.items():
        found = np.empty_like(x)
        module[name](x, found)
        with np.errstate(all="ignore"):
            exact = (
                reference(x.astype("float64" if dtype == "float32" else "longdouble"))
                if (name != "erf")
                else reference(x.astype("float64"))
            )
        assert ulps(found, np.asarray(exact)).max() < 4, name


PAIRS = {"atan2": np.arctan2, "hypot": np.hypot, "pow": np.power}


def pairs():
    """Operands of two: every pair of special values, of all bits, of powers of every exponent, of whole exponents."""
    rng = np.random.default_rng(1)
    special = np.array([*SPECIAL, 3, 7, 1e-39, 8388609.5, 16777217, 33554432, 1 + 2**-23, 1 - 2**-24], "float32")
    special = np.concatenate([special, -special])
    bits = rng.integers(0, 2**32, (2, 40_000), dtype=np.uint32).view("float32")
    bases = np.concatenate([np.exp(rng.uniform(-87, 88, 20_000)), 1 + rng.uniform(1e-6, 1e-3, 20_000)]).astype(
        "float32"
    )
    exponents = rng.uniform(-152, 129, bases.size) / np.log2(bases.astype("float64"))
    whole = rng.uniform(-20, 20, 20_000), rng.integers(-30, 30, 20_000)
    parts = [np.meshgrid(special, special), bits, (bases, exponents), whole, rng.normal(size=(2, 20_000))]
    with np.errstate(all="ignore"):
        return [np.concatenate([np.ravel(part[i]) for part in parts]).astype("float32") for i in (0, 1)]


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two_are_accurate_and_right_at_the_edges(kernels, name, target):
    if "x86" in target and not resolve("llvm").triple.startswith("x86_64"):
        pytest.skip("another architecture")
    module = codegen.build_module({"f": kernels.elementwise(getattr(intrin, name), ["float32"] * 2, "float32")}, target)
    x, y = pairs()
    found = np.empty_like(x)
    module["f"](x, y, found)
    with np.errstate(all="ignore"):
        exact = PAIRS[name](x.astype("float64"), y.astype("float64"))
    assert ulps(found, exact).max() < {"atan2": 2, "hypot": 0.51, "pow": 0.51}[name]


@pytest.mark.parametrize("exponent", [0, 0.5, -0.5, 1, -1, 2, -2, 3, 4])
def test_powers_whose_exponent_is_a_constant_take_no_logarithm(kernels, exponent):
    func = kernels.elementwise(lambda x: intrin.pow(x, T.float32(exponent)), ["float32"], "float32")
    module = codegen.build_module({"f": func})
    assert "relax.pow" not in module.get_source()
    x = samples("float32")
    found = np.empty_like(x)
    module["f"](x, found)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype("float64"), np.full(x.shape, float(exponent)))  # of a scalar ½ it takes the root
    assert ulps(found, exact).max() < 3


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_an_angle_has_one_result_whatever_its_neighbours_are(name):
    """Great angles are reduced in another way than those near 0, which share vectors with them here."""
    func = from_source(f"""
@T.prim_func
def f(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    for i in range(4):
        b[T.Ramp(16 * i, 1, 16)] = T.{name}(a[T.Ramp(16 * i, 1, 16)])
""")
    module = codegen.build_module({"f": func})
    alone = np.random.default_rng(2).uniform(-60_000, 60_000, 64).astype("float32")
    alone[:8] = np.round(alone[:8]) * np.float32(np.pi / 2)
    mixed = alone.copy()
    mixed[1::3] = [3.4e38, -1e10, np.inf, np.nan, 65536, -65536, 1e6] * 3
    results = [np.empty_like(alone) for _ in range(2)]
    for x, found in zip((alone, mixed), results, strict=True):
        module["f"](x, found)
        with np.errstate(all="ignore"):
            assert ulps(found, getattr(np, name)(x.astype("longdouble"))).max() < 4
    same = alone == mixed
    np.testing.assert_array_equal(results[0][same], results[1][same])


def test_exponentials_of_vectors():
    @T.prim_func
    def main(X: T.Buffer((16384,), "float32"), Y: T.Buffer((16384,), "float32")):
        for i in range(1024):
            for lane in T.vectorized(16):
                Y[i * 16 + lane] = T.exp(X[i * 16 + lane])

    module = codegen.build_module(main)
    x = samples("float32")[-16384:]
    found = np.empty_like(x)
    module["main"](x, found)
    with np.errstate(all="ignore"):
        assert ulps(found, np.exp(x.astype("float64"))).max() < 2
    resolved = resolve("llvm")
    has_scale = resolved.triple.startswith("x86_64") and resolved.vector_bits >= 512
    assert ("vscalefps" in module.get_source("asm")) == has_scale


@pytest.mark.parametrize("lanes", [2, 8, 15, 24, 32, 80])
def test_vectors_of_other_lengths_give_what_those_of_16_do(lanes):
    """Where vectors of 16 have instructions of their own, others are made of such."""
    names = ["exp", "exp2", "log", "log1p", "tanh", "sigmoid", "erf", "erfc", "sin", "tan"]
    count = 480  # a multiple of all lengths

    def func_of(name, length):
        return from_source(f"""
@T.prim_func
def main(X: T.Buffer((16, {count}), "float32"), Y: T.Buffer((16, {count}), "float32")):
    for i, j in T.grid(16, {count // length}):
        for lane in T.vectorized({length}):
            Y[i, j * {length} + lane] = T.{name}(X[i, j * {length} + lane])
""")

    funcs = {f"{name}_{length}": func_of(name, length) for name in names for length in (lanes, 16)}
    module = codegen.build_module(funcs)
    x = samples("float32")[-16 * count :].reshape(16, count)
    for name in names:
        found, expected = np.empty_like(x), np.empty_like(x)
        module[f"{name}_{lanes}"](x, found)
        module[f"{name}_16"](x, expected)
        if resolve("llvm").vector_bits >= 512:
            np.testing.assert_array_equal(found, expected, name)
        assert ulps(found, expected.astype("float64")).max() < 4, name


def test_erf_of_vectors_is_that_of_elements():
    """By pieces, from a table, where the machine looks up 16 elements at once."""

    @T.prim_func
    def main(X: T.Buffer((16384,), "float32"), Y: T.Buffer((16384,), "float32")):
        for i in range(1024):
            for lane in T.vectorized(16):
                Y[i * 16 + lane] = T.erf(X[i * 16 + lane])

    @T.prim_func
    def single(x: T.float32, Y: T.Buffer((1,), "float32")):
        Y[0] = T.erf(x)

    module = codegen.build_module({"main": main, "single": single})
    bounds = np.arange(32) / np.float32(3.9375) / 2  # between pieces, and in their middles
    given = np.concatenate([bounds, np.nextafter(bounds, -1), np.nextafter(bounds, 9), [np.nan, np.inf, -np.inf, -0.0]])
    x = np.concatenate([given.astype("float32"), np.linspace(-4.5, 4.5, 16384 - given.size, dtype="float32")])
    found = np.empty_like(x)
    module["main"](x, found)
    assert ulps(found, REFERENCES["erf"](x.astype("float64"))).max() < 4
    assert np.abs(found[np.isfinite(x)]).max() == 1
    np.testing.assert_array_equal(found[np.isinf(x)], [1, -1])
    assert np.isnan(found[np.isnan(x)]).all()
    assert np.signbit(found[given.size - 1])
    for i in range(0, 16384, 41):
        alone = np.empty(1, "float32")
        module["single"](float(x[i]), alone)
        np.testing.assert_array_equal(alone, found[i : i + 1])


@pytest.mark.parametrize(("name", "bound", "least", "most"), [("tanh", 3, -9.5, 9.5), ("erfc", 3.5, -4.5, 10.4)])
def test_functions_by_pieces(name, bound, least, most):
    """Vectors and single elements of a function that is looked up by pieces: between them, in them, and far out."""
    source = """
from relax.script import ir as I, tir as T

@I.ir_module
class Functions:
    @T.prim_func
    def vectors(X: T.Buffer((65536,), "float32"), Y: T.Buffer((65536,), "float32")):
        for i in range(4096):
            for lane in T.vectorized(16):
                Y[i * 16 + lane] = T.NAME(X[i * 16 + lane])

    @T.prim_func
    def single(x: T.float32, Y: T.Buffer((1,), "float32")):
        Y[0] = T.NAME(x)
"""
    module = codegen.build_module(from_source(source.replace("NAME", name)))
    scale = {"tanh": 15 / 9.03, "erfc": 15 / 10.15}[name]
    ends = ((2.0 ** np.arange(4)[:, None] * (1 + np.arange(4) / 4)).ravel() - 1) / scale
    near = (ends[:, None] * (1 + np.arange(-8, 9) * 2.0**-24)).ravel()
    edges = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-38, -3e38]
    given = np.concatenate([edges, near, -near, 10.0 ** np.linspace(-44, 1, 1000)])
    x = np.concatenate([given, np.linspace(least, most, 65536 - given.size)]).astype("float32")
    found = np.empty_like(x)
    module["vectors"](x, found)
    numbers = np.isfinite(x)
    reference = {"tanh": np.tanh, "erfc": np.vectorize(math.erfc, [np.float64])}[name]
    assert ulps(found[numbers], reference(x[numbers].astype("float64"))).max() < bound
    np.testing.assert_array_equal(found[:3], {"tanh": [np.nan, 1, -1], "erfc": [np.nan, 0, 2]}[name])
    assert np.abs(found[numbers]).max() == {"tanh": 1, "erfc": 2}[name]
    if name == "tanh":
        np.testing.assert_array_equal(np.signbit(found[3:5]), [False, True])
    for i in [*range(9), *range(9, x.size, 331)]:
        alone = np.empty(1, "float32")
        module["single"](float(x[i]), alone)
        np.testing.assert_array_equal(alone, found[i : i + 1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2"])
def test_small_floats_compute_in_float32_and_round_once(kernels, dtype):
    from relax.ir import DataType

    kind = DataType(dtype).numpy()
    x = np.random.default_rng(1).normal(size=300).astype("float32").astype(kind)
    funcs = {n: kernels.elementwise(getattr(intrin, n), [dtype], dtype) for n in ("exp", "tanh", "erf", "sin")}
    module = codegen.build_module(funcs)
    for name in funcs:
        found = np.empty_like(x)
        module[name](x, found)
        exact = REFERENCES[name](x.astype("float64")).astype("float32").astype(kind)
        error = np.abs(found.astype("float64") - exact.astype("float64"))
        assert (error <= np.abs(exact.astype("float64")) * 2.0 ** -int(_digits(dtype))).all(), name


def _digits(dtype):
    return {"float16": 10, "bfloat16": 7, "float8_e5m2": 2}[dtype]


@pytest.mark.parametrize("name", ["atan2", "pow", "fmod", "copysign", "hypot"])
def test_functions_of_two(kernels, name):
    rng = np.random.default_rng(2)
    a = np.concatenate([rng.normal(size=1000) * 5, np.repeat(SPECIAL, len(SPECIAL))]).astype("float64")
    b = np.concatenate([rng.normal(size=1000) * 5, np.tile(SPECIAL, len(SPECIAL))]).astype("float64")
    found = kernels.compute(getattr(intrin, name), a, b, output="float64")
    reference = {"atan2": np.arctan2, "pow": np.power, "fmod": np.fmod, "copysign": np.copysign, "hypot": np.hypot}
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, reference[name](a, b), rtol=1e-14)


def test_classification(kernels):
    x = np.array(SPECIAL, "float32")
    for name in ("isnan", "isinf", "isfinite"):
        np.testing.assert_array_equal(kernels.compute(getattr(intrin, name), x, output="bool"), getattr(np, name)(x))
