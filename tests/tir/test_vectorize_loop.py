"""Vectorised loops: masks for branches and tails, gathers, what stays serial and why."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from relax import codegen, tir
from relax.ir import IRModule, assert_structural_equal, walk
from relax.script import from_source
from relax.script import tir as T
from relax.tir import interpret
from relax.tir.transform import NOT_VECTORIZED, VectorizeLoop
from relax.tir.transform.simplify import simplify_again, simplify_func
from support import PLAIN_LOOPS, compiled, interpreted, nodes, same


def vectorized(func):
    return VectorizeLoop()(IRModule({"main": func}))["main"]


def reasons(func):
    """The reasons why loops stayed serial."""
    found = [loop.annotations.get(NOT_VECTORIZED) for loop in nodes(func.body, tir.For)]
    return [reason for reason in found if reason is not None]


def check(func, *args, serial=False):
    """The function as it is written, lowered, and compiled compute the same; returns the lowered one."""
    lowered = tir.lower(func)
    assert bool(reasons(lowered)) == serial, reasons(lowered)
    assert_structural_equal(from_source(lowered.script(), {"T": T}), lowered)
    tir.analysis.verify_well_formed(lowered)
    expected = interpreted(func, *args)
    same(interpreted(lowered, *args), expected, rtol=1e-6)
    same(compiled(func, *args, target=PLAIN_LOOPS), expected, rtol=1e-6)
    return lowered


def data(n, dtype="float32"):
    return np.random.default_rng(n).integers(-50, 50, n).astype(dtype)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 48, 100])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_a_loop_of_unknown_length(n, dtype):
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), dtype)
        B = T.match_buffer(b, (n,), dtype)
        for i in T.vectorized(n):
            B[i] = A[i] + A[i]

    check(f, data(n, dtype), np.zeros(n, dtype))
    assert "out of bounds" not in codegen.build_module(f, PLAIN_LOOPS).get_source()


def test_the_form_of_a_loop_of_unknown_length():
    @T.prim_func
    def before(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in T.vectorized(n):
            B[i] = A[i]

    @T.prim_func
    def after(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n // T.int64(16)):
            B[T.Ramp(i * T.int64(16), T.int64(1), 16)] = A[T.Ramp(i * T.int64(16), T.int64(1), 16)]
        if n > T.int64(0) and n % T.int64(16) > T.int64(0):
            B.vstore(
                [T.Ramp(n // T.int64(16) * T.int64(16), T.int64(1), 16)],
                A.vload(
                    [T.Ramp(n // T.int64(16) * T.int64(16), T.int64(1), 16)],
                    predicate=T.Ramp(n // T.int64(16) * T.int64(16), T.int64(1), 16) < T.Broadcast(n, 16),
                ),
                predicate=T.Ramp(n // T.int64(16) * T.int64(16), T.int64(1), 16) < T.Broadcast(n, 16),
            )

    assert_structural_equal(vectorized(before.without_attr("global_symbol")), after.without_attr("global_symbol"))


@pytest.mark.parametrize("n", [-5, -1, 0, 3, 20, 64])
def test_a_length_that_may_be_negative(n):
    @T.prim_func
    def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
        for i in T.vectorized(n):
            B[i] = A[i] + T.float32(1)

    check(f, data(64), np.zeros(64, "float32"), n)


@pytest.mark.parametrize("extent", [1, 7, 16, 17, 100, 128, 129, 300])
def test_constant_lengths(extent):
    @T.prim_func
    def f(A: T.Buffer((310,), "float32"), B: T.Buffer((310,), "float32")):
        for i in T.vectorized(extent):
            B[i + 3] = A[i + 10] * T.float32(2)

    check(f, data(310), np.zeros(310, "float32"))


@pytest.mark.parametrize("n", [0, 1, 16, 31, 33])
def test_the_guard_of_a_split_loop_is_a_mask(n):
    """What sch.split makes of a loop that its factor does not divide."""

    @T.prim_func
    def f(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for o in range((n + T.int64(15)) // T.int64(16)):
            for i in T.vectorized(16):
                if o * T.int64(16) + T.Cast("int64", i) < n:
                    B[o * T.int64(16) + T.Cast("int64", i)] = T.exp(A[o * T.int64(16) + T.Cast("int64", i)])

    lowered = check(f, data(n), np.zeros(n, "float32"))
    assert "out of bounds" not in codegen.build_module(f, PLAIN_LOOPS).get_source()  # the mask proves the indices
    stores = []
    walk(lowered.body, lambda x: stores.append(x) if isinstance(x, tir.BufferStore) else None)
    assert all(store.predicate is not None for store in stores)


def bodies():
    """Functions over A and B of 40 elements, with a vectorised loop that has a vector form."""

    @T.prim_func
    def two_arms(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(32):
            if A[i] > T.float32(0):
                B[i] = A[i]
                A[i] = T.float32(-1)
            else:
                B[i] = A[i] * T.float32(2)

    @T.prim_func
    def nested(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(32):
            if i > 3 and A[i - 4] > T.float32(0):
                if i < 30:
                    for k in range(3):
                        B[i] = B[i] + A[i + k]
                else:
                    B[i] = T.float32(7)

    @T.prim_func
    def padding(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(32):
            B[i] = T.if_then_else(i >= 5 and i < 20, A[i - 5], T.float32(1)) + T.Select(i < 2, A[i + 38], A[i - 2])

    @T.prim_func
    def gather(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(32):
            B[(i * 3) % 40] = A[39 - i] + A[T.Cast("int32", A[i] * T.float32(0)) + i // 2]

    @T.prim_func
    def division(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(32):
            if i > 3:
                B[i] = T.Cast("float32", 100 // (i - 3)) + T.Cast("float32", 77 % (i - 3))

    @T.prim_func
    def uniform(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for o in range(3):
            for i in T.vectorized(16):
                if o * 16 + i < 40:
                    B[o * 16 + i] = A[o * 16 + i] * A[o]

    @T.prim_func
    def bound(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(32):
            x: T.float32 = A[i] * T.float32(2)
            if x > T.float32(5):
                B[i] = x

    @T.prim_func
    def disjunction(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(40):
            if i == 0 or A[i - 1] > A[i]:
                B[i] = T.float32(1)

    return [two_arms, nested, padding, gather, division, uniform, bound, disjunction]


@pytest.mark.parametrize("func", bodies(), ids=lambda func: func.attrs["global_symbol"])
def test_masks(func):
    check(func, data(40), data(40) * 3)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="runs code for x86")
@pytest.mark.parametrize("mcpu", ["x86-64", "x86-64-v3"])
@pytest.mark.parametrize("func", bodies(), ids=lambda func: func.attrs["global_symbol"])
def test_masks_on_machines_without_mask_registers(func, mcpu):
    arrays = data(40), data(40) * 3
    found = compiled(func, *arrays, target=f"llvm -mcpu={mcpu}")
    same(found, interpreted(func, *arrays), rtol=1e-6)


def test_the_uniform_parts_of_an_arm_that_no_iteration_takes_are_not_evaluated():
    @T.prim_func
    def f(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32"), n: T.int32, k: T.int32):
        for i in T.vectorized(16):
            if i < n:
                B[i] = A[k] + T.if_then_else(i < n - 1, A[k + 1], T.float32(0))

    for n, k in ((5, 3), (0, 1000), (1, 39), (-3, -1)):
        check(f, data(40), np.zeros(40, "float32"), n, k)
    with pytest.raises(IndexError, match="index 1000 is out of bounds"):
        codegen.build_module(f)["f"](data(40), data(40), 1, 1000)


def test_an_index_out_of_bounds_under_a_mask_is_an_error():
    @T.prim_func
    def f(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32"), n: T.int32):
        for i in T.vectorized(16):
            if i < n:
                B[i] = A[i + 30]

    check(f, data(40), np.zeros(40, "float32"), 10)
    lowered = tir.lower(f)
    for run in (codegen.build_module(f)["f"], lambda *a: interpret(lowered, *a)):
        with pytest.raises(IndexError, match="40"):
            run(data(40), np.zeros(40, "float32"), 11)


def test_the_first_index_may_vary():
    @T.prim_func
    def f(A: T.Buffer((20, 30), "float32"), B: T.Buffer((30, 20), "float32")):
        for i in range(20):
            for j in T.vectorized(30):
                B[j, i] = A[i, j]

    @T.prim_func
    def diagonal(A: T.Buffer((20, 30), "float32"), B: T.Buffer((30, 20), "float32")):
        for i in T.vectorized(20):
            B[i + 1, i] = A[i, i] + A[3, 2]

    for func in (f, diagonal):
        check(func, data(600).reshape(20, 30), np.zeros((30, 20), "float32"))


@pytest.mark.parametrize("n, start", [(0, 3), (5, 0), (16, 2), (37, 1)])
def test_bounds_that_the_body_changes_are_read_once(n, start):
    @T.prim_func
    def f(A: T.Buffer((40,), "int32"), B: T.Buffer((40,), "int32")):
        for i in T.vectorized(A[1], A[1] + A[0]):
            A[i] = A[i] * 0 + i
            B[i] = A[i] + i
        for i in T.vectorized(A[39], A[39] + 4):
            A[i] = 100
            B[i] = B[i] + i

    a = data(40, "int32")
    a[[0, 1, 39]] = n, start, 36
    check(f, a, np.zeros(40, "int32"))


def test_bits_and_names_are_of_vectors():
    """A name for a value is one of a vector, which a choice uses twice; its bits are lanes of as many bits."""

    @T.prim_func
    def f(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(16):
            if i < 13:
                B[i] = T.Cast("float32", T.reinterpret("int32", A[i]))
                with T.LetStmt(A[i] * T.float32(2)) as x:
                    B[i] = B[i] + T.Select(x > T.float32(0), x, A[i + 16])

    check(f, data(40), np.zeros(40, "float32"))

    x = tir.Var("x", "float32")
    load = f.buffer_map[f.params[0]]
    i = tir.Var("i", "int32")
    choice = tir.Let(x, load[i] * load[i], tir.Select(x > 1.0, x, tir.const(1.0, "float32")))
    store = tir.BufferStore(f.buffer_map[f.params[1]], choice, (i,))
    lowered = check(f.replace(body=tir.For(i, 0, 16, "vectorized", store)), data(40), np.zeros(40, "float32"))
    assert lowered.script().count("A[T.Ramp(0, 1, 16)] * A[T.Ramp(0, 1, 16)]") == 1


def serial_bodies():
    @T.prim_func
    def one_place(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(16):
            B[0] = B[0] + A[i]

    @T.prim_func
    def triangle(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(16):
            for j in range(i):
                B[i] = B[i] + A[j]

    @T.prim_func
    def private(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(16):
            C = T.alloc_buffer((2,), "float32")
            C[0] = A[i]
            C[1] = C[0] + C[0]
            B[i] = C[1]

    @T.prim_func
    def same(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for _ in T.vectorized(300):
            B[3] = A[4]

    @T.prim_func
    def masked_place(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(16):
            if A[i] > T.float32(0):
                B[0] = A[i]

    @T.prim_func
    def squares(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        for i in T.vectorized(4):
            for j in T.vectorized(4):
                B[i * 4 + j] = A[i * 8 + j]

    @T.prim_func
    def squares_of_rows(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        C = T.decl_buffer((10, 4), data=B.data)
        for i in T.vectorized(4):
            for j in T.vectorized(4):
                C[i, j] = A[j] + T.float32(1)

    return [
        (one_place, "all iterations store to one element of B"),
        (squares, "there are vectors in the loop already"),
        (squares_of_rows, "there are vectors in the loop already"),
        (triangle, "the bounds of loop j differ between the iterations"),
        (private, "buffer C is declared in the loop"),
        (same, "the statement is the same in all iterations"),
        (masked_place, "all iterations store to one element of B"),
    ]


@pytest.mark.parametrize("func, reason", serial_bodies(), ids=lambda x: getattr(x, "attrs", {}).get("global_symbol"))
def test_what_stays_serial_says_why(func, reason):
    lowered = check(func, data(40), np.zeros(40, "float32"), serial=True)
    assert reasons(lowered) == [reason]


READ = "an iteration may read an element of {} that another one stores"
STORE = "iterations may store to one element of {} in another order"
SAME = "all iterations store to one element of {}"


@pytest.mark.parametrize(
    "body, reason",
    [
        ("B[I[i]] = B[I[i]] + A[i]", READ.format("B")),
        ("B[i + 1] = B[i]", READ.format("B")),
        ("B[i] = B[2] + A[i]", READ.format("B")),
        ("B[i] = A[i]; D[i] = B[15 - i]", READ.format("B")),
        ("B[i + 3] = A[i]; B[i + 4] = D[i]", STORE.format("B")),
        ("for k in range(3): B[i + k] = A[i] + T.Cast('float32', k)", STORE.format("B")),
        ("B[i] = B[i] + B[I[i]]", READ.format("B")),
        ("B[T.int64(2)] = A[i]; B[n] = A[i]; D[i] = A[i]", SAME.format("B")),
        ("for k in range(3): B[k] = A[i]", SAME.format("B")),
        ("if B[i] > T.float32(0): B[i + 1] = A[i]", READ.format("B")),
        ("I[i] = I[i] // 2; D[I[i]] = A[i]; D[I[i + 1]] = D[i]", READ.format("I")),
        ("B[i // 2] = B[i // 2] + A[i]", READ.format("B")),
        # Vectors make these accesses in an order with the same result.
        ("B[i] = B[i + 1] + A[i]", None),
        ("B[I[i]] = A[i]", None),
        ("B[i // 2] = A[i]", None),
        ("B[i] = A[i]; D[15 - i] = B[i] + A[15 - i]", None),
        ("for k in range(2): B[i * 2 + k] = B[i * 2 + k] + A[i]", None),
        ("for k in range(2): B[k * 16 + i] = B[k * 16 + i] + A[i + k]", None),
        ("D[i] = B[i + 4]; B[i + 4] = A[i]; B[i + 3] = D[i]", None),
        ("x: T.int32 = i * 2; B[x] = B[x] + A[i]", None),
    ],
)
@pytest.mark.parametrize("extent", ["16", "(n + 13)"])
def test_vectors_compute_what_the_serial_loop_does(parse, body, reason, extent):
    lines = body.replace("; ", "\n        ")
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32"), D: T.Buffer((40,), "float32"),
      I: T.Buffer((40,), "int32"), n: T.int32):
    for i in T.vectorized({extent}):
        {lines}
""")
    for indices in (np.arange(40) // 3, np.arange(40)[::-1], np.zeros(40)):
        lowered = check(func, data(40), data(40) * 3, data(40) * 5, indices.astype("int32"), 3, serial=bool(reason))
        assert set(reasons(lowered)) == ({reason} if reason else set())


@pytest.mark.parametrize("body", ["B[i] = B[20] + A[i]", "B[i // 4 * 8 + i % 4] = B[i // 4 * 8 + i % 4] + A[i]"])
def test_the_bounds_of_a_loop_keep_iterations_apart(parse, body):
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
    for i in T.vectorized(16):
        {body}
""")
    check(func, data(40), data(40) * 3)


def test_statements_that_keep_their_order_leave_others_in_vectors(parse):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32"), D: T.Buffer((40,), "float32")):
    for i in T.vectorized(16):
        D[i] = A[i] * T.float32(2)
        for k in range(3):
            B[i + k] = B[i + k] * A[i]
        D[i] = D[i] + T.float32(1)
""")
    lowered = check(func, data(40), data(40) * 3, data(40), serial=True)
    assert reasons(lowered) == [READ.format("B")]
    assert len([store for store in nodes(lowered, tir.BufferStore) if store.indices[-1].dtype.lanes == 16]) == 2


def test_two_views_of_one_memory_keep_their_order(parse):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((40,), "float32"), B: T.Buffer((4, 10), "float32")):
    C = T.decl_buffer((40,), data=B.data)
    for i in T.vectorized(10):
        B[1, i] = A[i]
        C[9 + i] = B[1, i] + A[i]
""")
    assert reasons(check(func, data(40), data(40).reshape(4, 10), serial=True)) == [STORE.format("B")]


def test_strides_that_share_elements_keep_their_order(parse):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
    C = T.decl_buffer((8, 5), data=B.data, strides=[4, 1])
    for i in T.vectorized(8):
        for k in range(5):
            C[i, k] = C[i, k] + A[i]
""")
    assert len(reasons(check(func, data(40), data(40), serial=True))) == 1


def test_calls_with_effects_keep_their_order(parse):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    for i in T.vectorized(4):
        T.evaluate(T.call_extern("int32", "first", i))
        T.evaluate(T.call_extern("int32", "second", i))
""")
    lowered, seen = tir.lower(func), []
    externs = {name: lambda i, name=name: seen.append((name, i)) or 0 for name in ("first", "second")}
    interpret(lowered, np.zeros(4, "int32"), externs=externs)
    assert seen == [(name, i) for i in range(4) for name in ("first", "second")]
    assert reasons(lowered) == ["calls with effects keep their order"]


def test_a_long_loop_is_a_vector_loop_or_serial_as_a_whole():
    @T.prim_func
    def f(A: T.Buffer((300,), "float32"), B: T.Buffer((300,), "float32")):
        for i in T.vectorized(300):
            B[i] = A[i]
            B[0] = B[0] + A[i]

    lowered = check(f, data(300), np.zeros(300, "float32"), serial=True)
    assert reasons(lowered) == ["all iterations store to one element of B"]
    assert len(lowered.body.body.seq) == 2


@pytest.mark.parametrize("base", [120, 250])
def test_narrow_indices_wrap_around(base):
    """Indices of uint8 in a vector under a mask: lanes that wrap around are far from the others."""

    @T.prim_func
    def f(A: T.Buffer((300,), "float32"), B: T.Buffer((300,), "float32"), base: T.uint8, n: T.uint8):
        for i in T.vectorized(T.uint8(16)):
            if i < n:
                B[base + i] = A[base + i] + T.float32(1)

    for n in (0, 3, 16):
        check(f, data(300), np.zeros(300, "float32"), base, n)


class Random:
    """A random function with a vectorised loop. It reads A, B and C, and mostly iteration i writes to B[i] and D[i]."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.a, self.b, self.d = (tir.decl_buffer((40,), "float32", name) for name in "ABD")
        self.c = tir.decl_buffer((40,), "int32", "C")
        self.i, self.j, self.n = tir.Var("i", "int32"), tir.Var("j", "int32"), tir.Var("n", "int32")
        self.lets = []

    def pick(self, *makers):
        return makers[self.rng.integers(len(makers))]()

    def index(self):
        """An integer that is within the buffers, or near to that."""
        i, j, n = self.i, self.j, self.n
        return self.pick(
            lambda: i, lambda: i + 4, lambda: i - 3, lambda: j, lambda: n, lambda: (i * 5 + j) % 40, lambda: i // 2,
            lambda: self.c[i], lambda: 30 - i, lambda: tir.const(7, "int32"),
        )  # fmt: skip

    def place(self):
        """An element that most often belongs to the iteration, and sometimes to another one too."""
        return self.index() if self.rng.integers(4) == 0 else self.i

    def value(self, depth=2):
        leaves = [lambda: self.a[self.index()], lambda: self.b[self.place()], lambda: tir.const(1.5, "float32")]
        if self.lets:
            leaves.append(lambda: self.lets[self.rng.integers(len(self.lets))])
        if depth == 0:
            return self.pick(*leaves)
        x, y = (lambda: self.value(depth - 1) for _ in range(2))

        def named():
            var, value = tir.Var("v", "float32"), x()
            self.lets.append(var)
            body = y()
            self.lets.pop()
            return tir.Let(var, value, body)

        return self.pick(
            *leaves, lambda: x() + y(), lambda: x() * y(), lambda: tir.max(x(), y()), named,
            lambda: tir.reinterpret("float32", tir.reinterpret("int32", x()) + 1),
            lambda: tir.Select(self.condition(depth - 1), x(), y()),
            lambda: tir.if_then_else(self.condition(depth - 1), x(), y()),
            lambda: (60 // self.index()).astype("float32"),
        )  # fmt: skip

    def condition(self, depth=2):
        plain = [lambda: self.index() < self.index(), lambda: self.i < self.n, lambda: self.i >= 3]
        if depth == 0:
            return self.pick(*plain)
        x, y = (lambda: self.condition(depth - 1) for _ in range(2))
        return self.pick(
            *plain, lambda: tir.all(x(), y()), lambda: tir.any(x(), y()), lambda: tir.Not(x()),
            lambda: self.value(0) > self.value(0),
        )  # fmt: skip

    def stmt(self, depth=3):
        def store():
            return tir.BufferStore(self.pick(lambda: self.b, lambda: self.d), self.value(), (self.place(),))

        def let():
            var = tir.Var("x", "float32")
            value = self.value()
            self.lets.append(var)
            body = self.stmt(depth - 1)
            self.lets.pop()
            return tir.LetStmt(var, value, body)

        if depth == 0:
            return store()
        return self.pick(
            store,
            lambda: tir.SeqStmt([self.stmt(depth - 1), self.stmt(depth - 1)]),
            lambda: tir.IfThenElse(self.condition(), self.stmt(depth - 1)),
            lambda: tir.IfThenElse(self.condition(), self.stmt(depth - 1), self.stmt(depth - 1)),
            let,
        )

    def func(self):
        extent = self.pick(lambda: tir.const(8, "int32"), lambda: tir.const(21, "int32"), lambda: self.n)
        loop = tir.For(self.i, 0, extent, "vectorized", self.stmt())
        buffers = [self.a, self.b, self.c, self.d]
        params = [tir.Var(buffer.name.lower(), "handle") for buffer in buffers]
        return tir.PrimFunc(
            (*params, self.n), tir.For(self.j, 0, 2, "serial", loop), buffer_map=dict(zip(params, buffers))
        )


def outcome(run, args):
    """The arrays after a run, or the kind of its error."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    try:
        run(*copies)
    except (IndexError, ZeroDivisionError):
        return None
    return copies


@pytest.mark.parametrize("seed", range(25))
def test_random_bodies(seed):
    func = Random(seed).func()
    lowered, compiled = tir.lower(func), codegen.build_module({"main": func}, PLAIN_LOOPS)["main"]
    for n in (0, 5, 19, 33):
        args = (data(40), data(40) * 2, np.arange(40, dtype="int32") % 11 + 1, data(40), n)
        expected = outcome(lambda *a: interpret(func, *a), args)
        for run in (lambda *a: interpret(lowered, *a), compiled):
            found = outcome(run, args)
            assert (found is None) == (expected is None), f"n = {n}"
            for a, b in zip(found or [], expected or []):
                np.testing.assert_allclose(a, b, rtol=1e-5)


def test_uniform_parts_that_cannot_fail_need_no_guard():
    """A tile of a matrix multiply at the edge of the matrix: one masked multiply-add, and no branch."""

    @T.prim_func
    def f(a: T.handle, b: T.handle, c: T.handle):
        n, k = T.int64(), T.int64()
        A = T.match_buffer(a, (n, k), "float32")
        B = T.match_buffer(b, (k, n), "float32")
        C = T.match_buffer(c, (n, n), "float32")
        for i, jo, p in T.grid(n, (n + T.int64(15)) // T.int64(16), k):
            for ji in T.vectorized(T.int64(16)):
                if jo * T.int64(16) + ji < n:
                    C[i, jo * T.int64(16) + ji] = C[i, jo * T.int64(16) + ji] + A[i, p] * B[p, jo * T.int64(16) + ji]

    for n in (1, 5, 16, 20):
        lowered = check(f, data(n * 3).reshape(n, 3), data(n * 3).reshape(3, n), np.zeros((n, n), "float32"))
        assert not nodes(lowered, tir.IfThenElse)
    assert "out of bounds" not in codegen.build_module(f, PLAIN_LOOPS).get_source()


def test_what_vectorising_left_alone_is_not_simplified_again():
    """Only expressions that the simplified function did not have."""

    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[i] = T.max(A[i], T.min(i, 7))

    stays = simplify_again(before, before)
    assert stays is before
    simple = simplify_again(before, simplify_func(before))
    assert_structural_equal(simple, simplify_func(before))
    assert "min" not in simple.script()
