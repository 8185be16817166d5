"""Integers of machines wrap around: values and indices at the ends of 64 bits, compared with the interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest

from relax import codegen, te, tir, topi
from relax.ir import DataType, DiagnosticError
from relax.prim import intrin
from relax.script import from_source
from relax.script import tir as T
from relax.tir import interpret

LEAST, MOST = -(2**63), 2**63 - 1


def outcome(run, *args):
    """The last argument after a run, or the kind of error it ended with."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    try:
        run(*copies)
    except (IndexError, ZeroDivisionError, OverflowError) as error:
        return type(error)
    return copies[-1].tolist()


def same(func, *args):
    """What compiled code and the interpreter both give."""
    found = outcome(codegen.build_module({"f": func})["f"], *args)
    assert found == outcome(lambda *a: interpret(func, *a), *args)
    return found


def i64(*values):
    return np.array(values, "int64")


@T.prim_func
def cast_of_uint64(V: T.Buffer((1,), "uint64"), B: T.Buffer((10,), "int64")):
    for i in range(1):
        B[T.min(T.Cast("int64", V[i]), T.int64(9))] = T.int64(1)


@T.prim_func
def product_of_data(W: T.Buffer((1,), "int64"), A: T.Buffer((10,), "int64"), B: T.Buffer((1,), "int64")):
    for i in range(1):
        B[i] = A[T.min(T.max(W[i], T.int64(0)) * T.int64(3), T.int64(9))]


@T.prim_func
def guarded_by_its_cast(v: T.uint64, A: T.Buffer((10,), "int64"), B: T.Buffer((1,), "int64")):
    if T.Cast("int64", v) < T.int64(10):
        B[0] = A[v]


@T.prim_func
def steps_of_a_vector(W: T.Buffer((2,), "int64"), B: T.Buffer((4,), "int64")):
    B[T.Ramp(W[0], W[1], 5)] = T.Broadcast(T.int64(7), 5)


@T.prim_func
def loop_between_data(W: T.Buffer((2,), "int64"), B: T.Buffer((4,), "int64")):
    for i in T.serial(W[0], W[1]):
        B[i] = i


def test_a_cast_from_uint64_may_be_negative():
    assert same(cast_of_uint64, np.array([2**64 - 4], "uint64"), np.zeros(10, "int64")) is IndexError
    assert same(cast_of_uint64, np.array([4], "uint64"), np.zeros(10, "int64"))[4] == 1
    with pytest.raises(IndexError, match="buffer B: index -4 is out of bounds for dimension 0 of size 10"):
        codegen.build_module({"f": cast_of_uint64})["f"](np.array([2**64 - 4], "uint64"), np.zeros(10, "int64"))
    build = codegen.build_module({"f": guarded_by_its_cast})["f"]
    for value in (2**63 - 1, 10, 3):
        build(value, np.arange(10), np.zeros(1, "int64"))


@pytest.mark.parametrize("value", [2**62, MOST, 2, -3, LEAST])
def test_products_of_data_wrap_around(value):
    found = same(product_of_data, i64(value), np.arange(10), i64(0))
    assert found == ([0] if value < 0 else [6] if value == 2 else IndexError if value == 2**62 else [9])


@pytest.mark.parametrize("value", [2**64 - 4, 2**63, 2**63 - 1, 5])
def test_divisions_and_shifts_of_a_cast(value):
    ten, eight = tir.const(10, "int64"), tir.const(8, "int64")
    for operation in (
        lambda x: x // ten,
        lambda x: x % ten,
        lambda x: tir.Div(x, ten),
        lambda x: tir.Mod(x, ten),
        lambda x: x // eight,
        lambda x: x % eight,
        lambda x: (x * ten) // ten,
        lambda x: intrin.shift_right(x, tir.const(1, "int64")),
        lambda x: x + ten < x,
    ):
        i = tir.Var("i", "int64")
        source, result = tir.decl_buffer((1,), "uint64", "V"), tir.decl_buffer((1,), "int64", "B")
        value_of = tir.Cast("int64", operation(tir.Cast("int64", source[i])))
        loop = tir.For(i, 0, 1, "serial", tir.BufferStore(result, value_of, [i]))
        v, b = tir.Var("v", "handle"), tir.Var("b", "handle")
        same(tir.PrimFunc((v, b), loop, buffer_map={v: source, b: result}), np.array([value], "uint64"), i64(0))


def test_the_ends_of_a_vector_say_nothing_where_its_steps_wrap_around():
    assert same(steps_of_a_vector, i64(0, 2**62), np.zeros(4, "int64")) is IndexError
    assert same(steps_of_a_vector, i64(2, 0), np.zeros(4, "int64")) == [0, 0, 7, 0]


@pytest.mark.parametrize("start, extent", [(0, 3), (MOST - 5, 100), (LEAST, LEAST), (LEAST, 4), (3, -1), (1, MOST)])
def test_loops_at_the_ends_of_64_bits(start, extent):
    same(loop_between_data, i64(start, extent), np.zeros(4, "int64"))


def test_arithmetic_of_sizes_that_may_overflow_is_checked_as_an_index():
    """n·m·k of any three sizes may wrap around; n·4 cannot, and n·m of one buffer cannot."""
    n, m, k = (tir.SizeVar(name, "int64") for name in "nmk")
    a, b, c = (te.placeholder((size,), "float32", name) for size, name in ((n, "a"), (m, "b"), (k, "c")))
    seven = tir.const(7, "int64")

    def text(index, *inputs):
        out = te.compute((8,), lambda i: inputs[0][index] + i.astype("float32"), "out")
        return codegen.build_module(te.create_prim_func([*inputs, out])).get_source()

    x, whole = te.placeholder((8,), "float32", "x"), te.placeholder((n, m), "float32", "y")
    assert "out of bounds" in text(tir.Min(n * m * k, seven), x, a, b, c)
    assert "out of bounds" not in text(tir.Min(n * 4, seven), x, a)
    assert "out of bounds" not in text(tir.Min(n * m, seven), x, whole)
    flat = te.create_prim_func([whole, topi.flatten(whole)])
    assert "out of bounds" not in codegen.build_module(flat).get_source()


def test_a_product_of_dimensions_is_checked():
    n, m, p = tir.Var("n", "int64"), tir.Var("m", "int64"), tir.Var("p", "handle")
    buffer = tir.decl_buffer((n, m, 0), "int8", "A")
    built = codegen.build_module(tir.PrimFunc((p,), tir.Evaluate(0), buffer_map={p: buffer}))["main"]
    built(np.zeros((2**20, 2**20, 0), "int8"))
    with pytest.raises(ValueError, match=r"A: its dimensions that are not 0 make more than 2\*\*62 bytes"):
        built(np.zeros((2**31, 2**31 + 1, 0), "int8"))


@pytest.mark.parametrize("operator", ["//", "%"])
def test_a_division_by_a_difference_that_vanishes(operator):
    func = from_source(
        '@T.prim_func\ndef f(A: T.Buffer((1,), "int32"), B: T.Buffer((1,), "int32")):\n'
        f"    B[0] = A[0] {operator} (A[0] - A[0])\n"
    )
    assert same(func, np.zeros(1, "int32"), np.zeros(1, "int32")) is ZeroDivisionError


@pytest.mark.parametrize(
    "index",
    [
        "((T.int64(4611686018427387903) * i) + m), ((T.int64(9223372036854775807) % m) - n)",
        "(i * n) % (T.int64(3) + n), T.int64(9223372036854775807) + T.min(n, T.int64(4611686018427387904))",
        "m - T.int64(1) - j, T.int64(4611686018427387903) % n",
    ],
)
def test_large_numbers_in_an_index_do_not_end_the_process(index):
    func = from_source(f"""@T.prim_func
def f(a: T.handle, b: T.handle):
    m, n = T.int64(), T.int64()
    A = T.match_buffer(a, (8, n), "int8")
    B = T.match_buffer(b, (m, n), "int8")
    for i, j in T.grid(4, 7):
        B[i, j] = B[i, j] + A[{index}]
""")
    same(func, np.ones((8, 9), "int8"), np.ones((6, 9), "int8"))


@pytest.mark.parametrize(
    "body, message",
    [
        ("B[T.Ramp(0, 1, 5000)] = T.Broadcast(T.int8(1), 5000)", "vectors of 5000 lanes"),
        ("B[T.Broadcast(0, 2147483647)] = T.Broadcast(T.int8(1), 2147483647)", "vectors of 2147483647 lanes"),
    ],
)  # fmt: skip
def test_what_is_too_large_for_llvm_is_refused(body, message):
    func = from_source(f'@T.prim_func\ndef f(B: T.Buffer((8,), "int8")):\n    {body}\n')
    with pytest.raises(DiagnosticError, match=message) as caught:
        codegen.build_module(func)
    assert {d.code for d in caught.value.diagnostics} == {"E5901"}


# ------------------------------------------------------------------------------------- at random

DTYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


class Integers:
    """Makes integer expressions over one element of a buffer of each dtype, by a seed."""

    def __init__(self, seed):
        self.pick = random.Random(seed)
        self.i, self.n = tir.Var("i", "int64"), tir.Var("n", "int64")
        self.buffers = {dtype: tir.decl_buffer((self.n,), dtype, f"V_{dtype}") for dtype in DTYPES}

    def extreme(self, dtype):
        """A number at an end of a dtype, at a power of two, or a small one."""
        low, high = int(DataType(dtype).min_value), int(DataType(dtype).max_value)
        power = 2 ** self.pick.randrange(DataType(dtype).bits)
        value = self.pick.choice([low, low + 1, high, high - 1, power, power - 1, -power, 0, 1, 2, 3, 7, 10, -1])
        return min(max(value, low), high)

    def expr(self, dtype, depth):
        pick, kind = self.pick, self.pick.random()
        if depth == 0 or kind < 0.1:
            choices = [self.buffers[dtype][self.i], self.buffers[dtype][self.i], tir.const(self.extreme(dtype), dtype)]
            return pick.choice([*choices, self.i, self.n] if dtype == "int64" else choices)
        if kind < 0.3:
            return tir.Cast(dtype, self.expr(pick.choice(DTYPES), depth - 1))
        a, b = self.expr(dtype, depth - 1), self.expr(dtype, depth - 1)
        nonzero = tir.const(self.extreme(dtype) or 3, dtype)
        divide = pick.choice([tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod])
        compare = pick.choice([tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ, tir.NE])
        return pick.choice([
            lambda: a + b, lambda: a - b, lambda: a * b, lambda: a * tir.const(self.extreme(dtype), dtype),
            lambda: tir.Min(a, b), lambda: tir.Max(a, b), lambda: divide(a, nonzero), lambda: divide(a, nonzero),
            lambda: divide(a, b), lambda: intrin.shift_left(a, b), lambda: intrin.shift_right(a, b),
            lambda: intrin.shift_right(a, tir.const(self.pick.randrange(8), dtype)),
            lambda: tir.Select(compare(a, b), a, b), lambda: tir.if_then_else(compare(a, b), b, a),
        ])()  # fmt: skip

    def index(self, depth):
        """An index of 10 elements, clamped to them on one side, on both or on none."""
        value, nine, zero = self.expr("int64", depth), tir.const(9, "int64"), tir.const(0, "int64")
        return self.pick.choice([
            lambda: tir.Min(value, nine), lambda: tir.Max(tir.Min(value, nine), zero), lambda: value,
            lambda: tir.Min(tir.Max(value, zero) * tir.const(3, "int64"), nine), lambda: value % tir.const(10, "int64"),
            lambda: tir.Min(tir.Max(value, zero), nine) % tir.const(self.extreme("int64") or 1, "int64"),
        ])()  # fmt: skip

    def function(self):
        """B[i] = A[index] or a value, C[index] = i, for i in range(n)."""
        dtype = self.pick.choice(DTYPES)
        result = tir.decl_buffer((self.n,), dtype, "B")
        table, places = tir.decl_buffer((10,), dtype, "A"), tir.decl_buffer((10,), "int64", "C")
        value = self.expr(dtype, 3) if self.pick.random() < 0.5 else table[self.index(3)]
        stores = [tir.BufferStore(result, value, [self.i])]
        if self.pick.random() < 0.5:
            stores.append(tir.BufferStore(places, self.i, [self.index(2)]))
        loop = tir.For(self.i, 0, self.n, "serial", tir.SeqStmt(tuple(stores)))
        buffers = [*self.buffers.values(), table, places, result]
        params = [tir.Var(f"p{k}", "handle") for k in range(len(buffers))]
        return tir.PrimFunc(tuple(params), loop, buffer_map=dict(zip(params, buffers)))

    def arguments(self, func, n):
        sizes = [n] * len(DTYPES) + [10, 10, n]
        dtypes = [str(func.buffer_map[param].dtype) for param in func.params]
        return [
            np.array([self.extreme(dtype) for _ in range(size)], dtype)
            for size, dtype in zip(sizes, dtypes, strict=True)
        ]


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_random_integers_are_those_of_the_interpreter(first):
    programs = {f"f{seed}": Integers(seed) for seed in range(first, first + 40)}
    funcs = {name: program.function() for name, program in programs.items()}
    built = codegen.build_module(funcs)
    for name, program in programs.items():
        for n in (1, 1, 1, 2, 5):
            arguments, func = program.arguments(funcs[name], n), funcs[name]
            found = outcome(built[name], *arguments)
            expected = outcome(lambda *args: interpret(func, *args), *arguments)  # noqa: B023
            assert found == expected, f"seed {name}, size {n}"
