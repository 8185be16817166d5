"""int4, uint4, int2, uint2: every value and every pair of values, compiled and interpreted."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from relax import codegen, tir
from relax.ir import DataType, DiagnosticError
from relax.prim import Var, evaluate, intrin
from relax.runtime import nd
from relax.runtime.rounding import convert_array
from relax.script import from_source
from relax.tir.interpret import interpret

SMALL = ["int4", "uint4", "int2", "uint2"]
OPERATIONS = {
    "add": tir.Add, "sub": tir.Sub, "mul": tir.Mul, "div": tir.Div, "mod": tir.Mod, "floordiv": tir.FloorDiv,
    "floormod": tir.FloorMod, "min": tir.Min, "max": tir.Max, "lt": tir.LT, "le": tir.LE, "eq": tir.EQ,
    "and": intrin.bitwise_and, "or": intrin.bitwise_or, "xor": intrin.bitwise_xor, "shl": intrin.shift_left,
    "shr": intrin.shift_right,
}  # fmt: skip
UNARY = {"not": intrin.bitwise_not, "popcount": intrin.popcount, "clz": intrin.clz, "neg": lambda x: -x}
DIVISIONS = ("div", "mod", "floordiv", "floormod")
WIDE = (
    "bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32",
    "float64", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
)  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def values_of(dtype):
    """All values of a dtype of up to eight bits; of a wider one, those around the ends of narrow ones."""
    kind = DataType(dtype)
    if kind.is_bool:
        return np.array([False, True])
    if kind.bits <= 8:
        return np.arange(1 << kind.bits, dtype=np.uint8).view(kind.numpy())
    if kind.is_float:
        steps = np.arange(-20, 20, 0.25)
        beyond = [np.nan, -np.nan, np.inf, -np.inf, 1e4, -1e4, 1e-7, -0.0, 6.9999, -8.9999, 0.99999, -1.00001]
        return np.concatenate([steps, beyond]).astype(kind.numpy())
    ends = [kind.min_value, kind.min_value + 1, kind.max_value, kind.max_value - 1]
    return np.array([*range(-20 if kind.is_int else 0, 300), *ends], kind.numpy())


def result_dtype(name, dtype):
    return "bool" if name in ("lt", "le", "eq") else "int32" if name == "clz" else dtype


@pytest.fixture(scope="module")
def functions(kernels):
    made = {}
    for dtype in SMALL:
        for name, formula in OPERATIONS.items():
            made[dtype, name] = kernels.elementwise(formula, [dtype, dtype], result_dtype(name, dtype))
        for name, formula in UNARY.items():
            made[dtype, name] = kernels.elementwise(formula, [dtype], result_dtype(name, dtype))
        for other in (*SMALL, *WIDE):
            made[dtype, other] = kernels.elementwise(lambda x, to=dtype: tir.Cast(to, x), [other], dtype)
            made[other, dtype] = kernels.elementwise(lambda x, to=other: tir.Cast(to, x), [dtype], other)
    return made


@pytest.fixture(scope="module")
def module(functions):
    return codegen.build_module({" ".join(key): func for key, func in functions.items()})


def run_both(functions, module, key, *arrays):
    """What the kernel gives; the interpreter gives the same bits."""
    kind = DataType(result_dtype(key[1], key[0])).numpy()
    compiled, interpreted = (np.full(len(arrays[0]), 1, kind) for _ in range(2))
    module[" ".join(key)](*arrays, compiled)
    interpret(functions[key], *arrays, interpreted)
    nan = np.isnan(interpreted.astype(np.float64)) & np.isnan(compiled.astype(np.float64))
    different = (bits(compiled) != bits(interpreted)) & ~nan
    assert not different.any(), f"{compiled[different]}, not {interpreted[different]}"
    return compiled


def bits(array):
    return array.view(f"u{array.dtype.itemsize}")


@pytest.mark.parametrize("dtype, name", list(itertools.product(SMALL, OPERATIONS)))
def test_operations_on_every_pair(functions, module, dtype, name):
    values = values_of(dtype)
    a, b = (grid.ravel().copy() for grid in np.meshgrid(values, values))
    if name in DIVISIONS:
        a, b = a[b.astype(int) != 0], b[b.astype(int) != 0]
    found = run_both(functions, module, (dtype, name), a, b)
    x, y = a.astype(int).tolist(), b.astype(int).tolist()
    exact = [EXACT[name](p, q, DataType(dtype).bits) for p, q in zip(x, y, strict=True)]
    assert found.astype(int).tolist() == [wrapped(value, result_dtype(name, dtype)) for value in exact]


def quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


EXACT = {
    "add": lambda a, b, _: a + b, "sub": lambda a, b, _: a - b, "mul": lambda a, b, _: a * b,
    "div": lambda a, b, _: quotient(a, b), "mod": lambda a, b, _: a - b * quotient(a, b),
    "floordiv": lambda a, b, _: a // b, "floormod": lambda a, b, _: a % b,
    "min": lambda a, b, _: min(a, b), "max": lambda a, b, _: max(a, b), "lt": lambda a, b, _: a < b,
    "le": lambda a, b, _: a <= b, "eq": lambda a, b, _: a == b, "and": lambda a, b, _: a & b,
    "or": lambda a, b, _: a | b, "xor": lambda a, b, _: a ^ b,
    "shl": lambda a, b, width: a << b if 0 <= b < width else 0,
    "shr": lambda a, b, width: a >> b if 0 <= b < width else -(a < 0),
}  # fmt: skip


def wrapped(value, dtype):
    kind = DataType(dtype)
    if kind.is_bool:
        return int(value != 0)
    low = kind.min_value
    return (value - low) % (1 << kind.bits) + low


@pytest.mark.parametrize("dtype, name", list(itertools.product(SMALL, UNARY)))
def test_functions_of_every_value(functions, module, dtype, name):
    width = DataType(dtype).bits
    values = values_of(dtype)
    found = run_both(functions, module, (dtype, name), values).astype(int).tolist()
    for value, result in zip(values.astype(int).tolist(), found, strict=True):
        unsigned = value % (1 << width)
        exact = {"not": ~value, "neg": -value, "popcount": unsigned.bit_count(), "clz": width - unsigned.bit_length()}
        assert result == wrapped(exact[name], result_dtype(name, dtype))


@pytest.mark.parametrize("dtype, other", list(itertools.product(SMALL, (*SMALL, *WIDE))))
def test_conversions(functions, module, dtype, other):
    source = values_of(other)
    found = run_both(functions, module, (dtype, other), source).astype(int).tolist()
    kind = DataType(dtype)
    for value, result in zip(source.tolist(), found, strict=True):
        if not DataType(other).is_float:
            assert result == wrapped(value, dtype)
        elif value != value:
            assert result == 0
        else:  # truncated, and the nearest there is
            assert result == int(min(max(value, kind.min_value), kind.max_value))
    back = run_both(functions, module, (other, dtype), values_of(dtype))
    if DataType(other).is_float:
        expected = convert_array(values_of(dtype), other).astype(float).tolist()
    else:
        expected = [wrapped(value, other) for value in values_of(dtype).tolist()]
    assert str(back.astype(float).tolist()) == str([float(value) for value in expected])


VECTORS = """
@I.ir_module
class Module:
    @T.prim_func
    def vectors(a: T.Buffer((64,), "{t}"), b: T.Buffer((64,), "{t}"), c: T.Buffer((64,), "int8")):
        T.func_attr({{"global_symbol": "vectors"}})
        for i in T.serial(4):
            for j in T.vectorized(16):
                b[i * 16 + j] = a[i * 16 + j] * a[63 - i * 16 - j] - T.{t}(1)
        for i in range(64):
            c[i] = T.cast(a[i], "int8")

    @T.prim_func
    def scalar(b: T.Buffer((2,), "int32"), x: T.{t}):
        T.func_attr({{"global_symbol": "scalar"}})
        b[0] = T.cast(x, "int32")
        b[1] = T.cast(T.reinterpret("{other}", x), "int32")

    @T.prim_func
    def scratch(a: T.Buffer((64,), "{t}"), b: T.Buffer((64,), "{t}")):
        T.func_attr({{"global_symbol": "scratch"}})
        s = T.alloc_buffer((64,), "{t}")
        for i in range(64):
            s[63 - i] = a[i]
        for i in range(64):
            b[i] = s[i]

    @T.prim_func
    def strided(a: T.handle, b: T.Buffer((3,), "{t}")):
        T.func_attr({{"global_symbol": "strided"}})
        n, s = T.int64(), T.int64()
        A = T.match_buffer(a, (n,), "{t}", strides=[s])
        for i in range(3):
            b[i] = A[i]
"""


@pytest.mark.parametrize("dtype, other", [("int4", "uint4"), ("uint4", "int4"), ("int2", "uint2"), ("uint2", "int2")])
def test_kernels(dtype, other):
    mod = from_source(VECTORS.format(t=dtype, other=other))
    module = codegen.build_module(mod)
    kind = DataType(dtype).numpy()
    a = np.arange(64).astype(kind)
    whole = a.astype(int)
    b, c = np.zeros(64, kind), np.zeros(64, "int8")
    module["vectors"](a, b, c)
    assert b.astype(int).tolist() == [wrapped(v, dtype) for v in (whole * whole[::-1] - 1).tolist()]
    assert c.tolist() == whole.tolist()
    for value in set(whole.tolist()):
        found = np.zeros(2, "int32")
        module["scalar"](found, value)
        assert found.tolist() == [value, wrapped(value, other)]
    too_large = DataType(dtype).max_value + 1
    with pytest.raises(ValueError, match=f"scalar: argument x: {too_large} does not fit {dtype}"):
        module["scalar"](np.zeros(2, "int32"), too_large)
    module["scratch"](a, b)
    assert b.astype(int).tolist() == whole[::-1].tolist()
    strided = nd.from_dlpack(a).tensor
    found = np.zeros(3, kind)
    module["strided"](strided, found)
    assert found.astype(int).tolist() == whole[:3].tolist()


@pytest.mark.parametrize("dtype", [*SMALL, "float4_e2m1fn"])
def test_upper_bits_are_not_read_and_written_as_0(dtype):
    zero = "0.0" if "float" in dtype else "0"
    mod = from_source(f"""
@T.prim_func
def f(a: T.Buffer((4,), "{dtype}"), b: T.Buffer((4,), "{dtype}")):
    for i in range(4):
        b[i] = a[i] + T.{dtype}({zero})
""")
    unclean = np.array([0xF1, 0x82, 0x43, 0x10], np.uint8)
    found = np.full(4, 0xFF, np.uint8)
    kind = DataType(dtype)
    codegen.build_module({"f": mod})["f"](unclean.view(kind.numpy()), found.view(kind.numpy()))
    assert found.tolist() == (unclean & ((1 << kind.bits) - 1)).tolist()


def test_packed_arguments_are_refused(packed_tensor):
    mod = from_source(VECTORS.format(t="int4", other="uint4"))
    module = codegen.build_module(mod)
    packed = packed_tensor(bytes(32), "int4", (64,))
    found = np.zeros(64, DataType("int4").numpy())
    message = "scratch: argument a: is not compact: the stride of dimension 0 is 1, expected 2"
    with pytest.raises(ValueError, match=message):
        module["scratch"](packed, found)
    message = "argument A: the stride of dimension 0 is 1, expected a multiple of 2: its elements are packed"
    with pytest.raises(ValueError, match=message):
        module["strided"](packed, found[:3])


def test_what_has_no_code(kernels):
    double = kernels.elementwise(lambda x: tir.Call("int4", "tir.call_extern", ("abs", x)), ["int4"], "int4")
    with pytest.raises(DiagnosticError, match="a C function cannot take or return a int4") as caught:
        codegen.build_module({"f": double})
    assert caught.value.diagnostics[0].hint == "cast it to int32"


@pytest.mark.parametrize("dtype", SMALL)
def test_evaluation_is_that_of_the_interpreter(dtype):
    kind = DataType(dtype)
    x, y = Var("x", dtype), Var("y", dtype)
    for name in ("shl", "shr", "and", "xor"):
        expr = OPERATIONS[name](x, y)
        for a, b in itertools.product(range(kind.min_value, kind.max_value + 1), repeat=2):
            assert evaluate(expr, {x: a, y: b}) == wrapped(EXACT[name](a, b, kind.bits), dtype)
