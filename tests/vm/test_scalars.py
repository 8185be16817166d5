"""Scalars that functions name: variables of any dtype, which closures capture, and in which function types are written."""

from __future__ import annotations

import functools
import itertools
import math
import re

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError, assert_structural_equal
from relax.script import from_source
from support import plain_machine

VALUES = {
    "bool": [True, False],
    "int8": [-128, 3, 127],
    "uint8": [0, 255],
    "int32": [-(2**31), 5],
    "int64": [-7, 0, 2**61],
    "uint64": [2**63 + 5, 1],
    "float16": [1.5, 0.1],
    "bfloat16": [1.5],
    "float32": [0.1, -0.0, math.inf],
    "float64": [0.1, 1e300],
}
CASES = [(dtype, value) for dtype, values in VALUES.items() for value in values]


@functools.cache
def in_both_modes(mod):
    """What main does in the interpreter, and compiled."""
    return [relax.interpreter.Interpreter(mod)["main"], plain_machine(mod)["main"]]


def rounded(dtype, value):
    """A Python number as one that `dtype` holds."""
    if "float" not in dtype:
        return value
    kind = relax.DataType(dtype).numpy().type
    with np.errstate(all="ignore"):
        return float(kind(value))


@functools.cache
def read(text):
    """The module, which prints as what it is."""
    mod = from_source(text)
    assert_structural_equal(from_source(mod.script(show_meta=True)), mod)
    return mod


@pytest.mark.parametrize("dtype, value", CASES)
def test_a_captured_scalar(dtype, value):
    positive = "q" if dtype == "bool" else f"T.max(q, T.{dtype}(0)) == q"
    mod = read(
        f"""
        @I.ir_module
        class Module:
            @R.function
            def main(a: R.Prim("{dtype}", value="q")) -> R.Tuple(R.Prim("{dtype}"), R.Prim("{dtype}"), R.Prim("bool")):
                q = T.{dtype}()
                @R.function
                def f() -> R.Prim("{dtype}", value=q):
                    return R.prim_value(q)
                @R.function
                def positive() -> R.Prim("bool"):
                    return R.prim_value({positive})
                return (f(), R.prim_value(q), positive())
        """
    )
    value = rounded(dtype, value)
    for main in in_both_modes(mod):
        assert main(value) == (value, value, value >= 0 if dtype != "bool" else value)


def test_a_nan_is_a_nan():
    """As a parameter, as what a match_cast names again, and in what a closure asks for."""
    mod = read(
        """
        @I.ir_module
        class Module:
            @R.function
            def main(a: R.Prim("float32", value="q"), b: R.Prim("float32", value="q")) -> R.Prim("float32"):
                q = T.float32()
                @R.function
                def f(x: R.Prim("float32", value=q + q)) -> R.Prim("float32"):
                    return x
                return cls.call(f, R.prim_value(q + q))

            @R.function(private=True)
            def call(f: R.Object, v: R.Prim("float32", value="w")) -> R.Prim("float32"):
                w = T.float32()
                g = R.match_cast(f, R.Callable((R.Prim("float32", value=w),), R.Prim("float32")))
                u = R.match_cast(v, R.Prim("float32", value=w))
                return g(u)
        """
    )
    for main in in_both_modes(mod):
        assert math.isnan(main(math.nan, math.nan))
        assert main(1.5, 1.5) == 3
        for a, b in ((math.nan, 1.5), (1.5, math.nan)):
            with pytest.raises(ValueError, match=f"main: parameter b: the value is {b}, expected q = {a}"):
                main(a, b)


@pytest.mark.parametrize(
    "form", ['R.Prim("int8", "q")', 'R.Prim(value="q", dtype="int8")', 'R.Prim("int8", value="q")']
)
def test_a_quoted_scalar_has_the_dtype_that_is_stated(form):
    mod = read(
        f"""
        @I.ir_module
        class Module:
            @R.function
            def main(x: R.Tensor(("n",), "int8"), t: R.Tuple({form}), u: R.Prim("int8", value="q + T.int8(1)")) -> R.Object:
                q = T.int8()
                return R.prim_value(q * q)
        """
    )
    for main in in_both_modes(mod):
        assert main(np.zeros(1, "int8"), (16,), 17) == 0
        with pytest.raises(ValueError, match="parameter u: the value is 16, expected q . 1 = 17"):
            main(np.zeros(1, "int8"), (16,), 16)


@pytest.mark.parametrize(
    "dtype, message",
    [("int9", "[E1005]: unknown dtype 'int9'"), ("int64x2", "[E2020]: rule 20: the dtype int64x2 has 2 lanes")],
)
def test_a_scalar_of_no_such_dtype(dtype, message):
    with pytest.raises(DiagnosticError) as caught:
        from_source(
            f"""
            @R.function
            def main(a: R.Prim("{dtype}", value="q"), b: R.Prim("{dtype}", value="r")) -> R.Object:
                c = R.match_cast(b, R.Prim("{dtype}", value="s"))
                return a
            """
        )
    assert message in str(caught.value)


def test_a_declaration_of_another_dtype_says_where_it_is_bound():
    with pytest.raises(DiagnosticError) as caught:
        from_source(
            """
            @R.function
            def main(a: R.Prim(value="q")) -> R.Object:
                q = T.float32()
                return a
            """
        )
    assert "[E1005]: `q` is a shape variable of dtype int64 already" in str(caught.value)
    assert 'help: where it is bound, write R.Prim("float32", value="q")' in str(caught.value)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_a_size_converted_from_a_float_is_truncated(dtype):
    """Also in what a closure says of itself, and before it is multiplied."""
    size = f'T.Cast("int64", T.Cast("{dtype}", q) * T.{dtype}(2))'
    mod = read(
        f"""
        @I.ir_module
        class Module:
            @R.function
            def main(a: R.Prim("float32", value="q"), n: R.Prim("int64")) -> R.Prim("int64"):
                q = T.float32()
                @R.function
                def f(x: R.Prim("int64", value={size})) -> R.Prim("int64"):
                    return x
                return cls.call(f, n)

            @R.function(private=True)
            def call(f: R.Object, n: R.Prim("int64")) -> R.Prim("int64"):
                k = T.int64()
                m = R.match_cast(n, R.Prim("int64", value=k))
                g = R.match_cast(f, R.Callable((R.Prim("int64", value=k),), R.Prim("int64")))
                return g(m)
        """
    )
    for main in in_both_modes(mod):
        assert main(1.75, 2) == 2
        assert main(-1.75, -2) == -2
        with pytest.raises(TypeError, match="call: match_cast of f: the function .*f does not fit"):
            main(1.75, 3)


@pytest.mark.parametrize("dtype, value", CASES)
def test_a_function_type_that_mentions_a_scalar(dtype, value):
    """The closure says `twice` of what it captured, rounded or wrapped around as the program does."""
    mod = read(
        f"""
        @I.ir_module
        class Module:
            @R.function
            def main(a: R.Prim("{dtype}", value="q"), b: R.Prim("{dtype}")) -> R.Prim("{dtype}"):
                q = T.{dtype}()
                @R.function
                def f(x: R.Prim("{dtype}", value=q + q)) -> R.Prim("{dtype}"):
                    return x
                return cls.call(R.prim_value(q + q), f, b)

            @R.function(private=True)
            def call(v: R.Prim("{dtype}"), f: R.Object, b: R.Prim("{dtype}")) -> R.Prim("{dtype}"):
                w = T.{dtype}()
                z = R.match_cast(v, R.Prim("{dtype}", value=w))
                g = R.match_cast(f, R.Callable((R.Prim("{dtype}", value=w),), R.Prim("{dtype}")))
                c = R.match_cast(b, R.Prim("{dtype}", value=w))
                return g(c)
        """
    )
    value = rounded(dtype, value)
    kind = relax.DataType(dtype).numpy().type
    with np.errstate(all="ignore"):
        twice = rounded(dtype, (kind(value) + kind(value)).item())
    other = rounded(dtype, not twice if dtype == "bool" else 1 if twice != 1 else 2)
    for main in in_both_modes(mod):
        assert main(value, twice) == twice
        with pytest.raises(ValueError, match=re.escape(f"the value is {other}, expected w = {twice}")):
            main(value, other)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8"])
@pytest.mark.parametrize("operation", ["+", "*", "-"])
def test_an_int64_that_overflows_is_an_error_and_others_wrap_around(dtype, operation):
    """Sizes are int64."""
    mod = read(
        f"""
        @I.ir_module
        class Module:
            @R.function
            def main(a: R.Prim("{dtype}", value="q"), b: R.Prim("{dtype}", value="r")) -> R.Prim("{dtype}"):
                q = T.{dtype}()
                r = T.{dtype}()
                return R.prim_value(q {operation} r)
        """
    )
    limits = np.iinfo(dtype)
    for main in in_both_modes(mod):
        for a, b in itertools.product([limits.min, limits.max, limits.max // 2 + 1, 3, 0], repeat=2):
            exact = {"+": a + b, "*": a * b, "-": a - b}[operation]
            if dtype == "int64" and not limits.min <= exact <= limits.max:
                with pytest.raises(OverflowError, match="a size does not fit into 64 bits"):
                    main(a, b)
            else:
                assert main(a, b) == (exact - limits.min) % 2**limits.bits + limits.min


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_a_function_type_is_compared_with_the_scalars_captured():
    mod = read(
        """
        @I.ir_module
        class Module:
            @R.function
            def main(a: R.Prim("float32", value="q"), b: R.Prim("float32", value="r"), s: R.Shape(["n"])) -> R.Object:
                q = T.float32()
                r = T.float32()
                n = T.int64()
                @R.function
                def f(x: R.Prim("bool", value=q < r), y: R.Prim("float32", value=q * T.Cast("float32", n))) -> R.Object:
                    return x
                return cls.check(f, R.prim_value(q), R.prim_value(r), R.prim_value(n))

            @R.function(private=True)
            def check(f: R.Object, a: R.Prim("float32", value="q"), b: R.Prim("float32", value="r"), c: R.Prim(value="n")):
                q = T.float32()
                r = T.float32()
                n = T.int64()
                g = R.match_cast(
                    f,
                    R.Callable((R.Prim("bool", value=r > q), R.Prim("float32", value=T.Cast("float32", n) * q)), R.Object),
                )
                return g(R.prim_value(q < r), R.prim_value(q * T.Cast("float32", n)))
        """
    )
    for main in in_both_modes(mod):
        for a, b, n in ((0.25, 3.0, 3), (3.0, 0.25, 0), (0.1, 0.1, 7)):
            a, b = rounded("float32", a), rounded("float32", b)
            assert main(a, b, relax.ShapeTuple([n])) is (a < b)


PAIRS = {
    "bool": (True, False),
    "int8": (-128, 3),
    "uint8": (255, 2),
    "int32": (-7, 2**31 - 1),
    "int64": (-(2**63), 5),
    "uint64": (2**63 - 1, 5),
    "float16": (1.5, -0.25),
    "float32": (0.1, math.inf),
    "float64": (-0.1, math.nan),
}
OPERATIONS = {
    'R.full((n,), a, "{dtype}")': lambda x, a, b: np.full_like(x, a),
    'R.full((n,), R.prim_value(q + r), "{dtype}")': lambda x, a, b: np.full_like(x, a + b),
    "R.where(R.equal(x, a), b, x)": lambda x, a, b: np.where(x == a, b, x),
    "R.less_equal(x, R.prim_value(T.max(q, r)))": lambda x, a, b: x <= np.maximum(a, b),
    "R.maximum(b, x)": lambda x, a, b: np.maximum(b, x),
    "R.add(x, R.prim_value(q))": lambda x, a, b: x + a,
}
WHERE_BOOLS_GO = [text for text in OPERATIONS if text.startswith(("R.full", "R.where"))]


@pytest.mark.parametrize(
    "dtype, operation", [(d, text) for d in PAIRS for text in (WHERE_BOOLS_GO if d == "bool" else OPERATIONS)]
)
def test_a_named_scalar_is_an_operand_of_tensor_operators(dtype, operation):
    """In the kernel it is an argument: only sizes can be told by shapes."""
    mod = read(
        f"""
        @I.ir_module
        class Module:
            @R.function
            def main(
                a: R.Prim("{dtype}", value="q"), b: R.Prim("{dtype}", value="r"), x: R.Tensor(("n",), "{dtype}")
            ) -> R.Object:
                n = T.int64()
                q = T.{dtype}()
                r = T.{dtype}()
                return {operation.format(dtype=dtype)}
        """
    )
    a, b = (rounded(dtype, value) for value in PAIRS[dtype])
    scalars = [np.array(value, dtype) for value in (a, b)]
    for main in in_both_modes(mod):
        for size in (0, 1, 4):
            x = np.array([a, b, 0, 1], dtype)[:size]
            with np.errstate(all="ignore"):
                wanted = OPERATIONS[operation](x, *scalars)
            np.testing.assert_array_equal(main(a, b, x).numpy(), wanted, strict=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_an_argument_is_rounded_to_the_dtype_of_its_parameter(dtype):
    mod = read(
        f"""
        @I.ir_module
        class Module:
            @R.function
            def main(a: R.Prim("{dtype}", value="q"), t: R.Tuple(R.Prim("{dtype}"))) -> R.Object:
                q = T.{dtype}()
                return (a, t[0], R.prim_value(q * q), R.prim_value(q == T.{dtype}(0.1)), R.full((), a, "{dtype}"))
        """
    )
    tenth = rounded(dtype, 0.1)
    for main in in_both_modes(mod):
        a, b, square, same, tensor = main(0.1, (0.1,))
        assert (a, b, square, same) == (tenth, tenth, rounded(dtype, tenth * tenth), True)
        assert float(tensor.numpy()) == tenth


def test_numpy_scalars_are_scalars_or_tensors_of_rank_0():
    mod = read(
        """
        @I.ir_module
        class Module:
            @R.function
            def main(a: R.Prim("float32"), t: R.Tensor((), "float64"), i: R.Prim("int8"), o: R.Object) -> R.Object:
                return (a, t, i, o)
        """
    )
    for main in in_both_modes(mod):
        a, t, i, o = main(np.float64(0.1), np.float64(0.1), np.int8(-1), np.float16(0.5))
        assert (type(a), a) == (float, float(np.float32(0.1)))
        assert t.numpy() == np.array(0.1)
        assert (type(i), i, type(o), o) == (int, -1, float, 0.5)
