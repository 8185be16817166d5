"""Whole PrimFuncs: loops, branches, storage, calls; compared with the reference interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from relax import codegen, te, tir, topi
from relax.script import ir as I
from relax.script import tir as T
from support import interpreted, same


def check(func, *args, rtol=1e-6, module=None):
    """Run compiled code and the interpreter on copies of the arguments; compare all arrays."""
    compiled = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    built = codegen.build_module(func if module is None else module)
    name = built.functions[0] if module is None else func.attrs["global_symbol"]
    built[name](*compiled)
    same(compiled, interpreted(func, *args, module=module), rtol, rtol)
    return compiled


def rand(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


SMALL = [(3, 4, 5), (1, 1, 1), (0, 4, 5), (3, 0, 5), (3, 4, 0)]


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize(
    "dtype, sizes",
    [("float32", (17, 33, 65)), *((d, s) for d in ("float32", "float64", "int32", "float16") for s in SMALL)],
)
def test_matmul(dtype, sizes, symbolic):
    n, m, k = [te.var(name, "int64") for name in "nmk"] if symbolic else sizes
    a, b = te.placeholder((n, k), dtype, "A"), te.placeholder((k, m), dtype, "B")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), "C")
    rows, columns, depth = sizes
    x, y = (rand(rows, depth) * 3).astype(dtype), (rand(depth, columns) * 3).astype(dtype)
    check(te.create_prim_func([a, b, c]), x, y, np.ones((rows, columns), dtype), rtol=1e-4)


@pytest.mark.parametrize("n", [0, 1, 7, 100])
def test_softmax(n):
    rows, columns = te.var("r", "int64"), te.var("c", "int64")
    x = te.placeholder((rows, columns), "float32", "X")
    k, k2 = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "k2")
    top = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), "top")
    e = te.compute((rows, columns), lambda i, j: te.exp(x[i, j] - top[i]), "e")
    total = te.compute((rows,), lambda i: te.sum(e[i, k2], axis=k2), "total")
    out = te.compute((rows, columns), lambda i, j: e[i, j] / total[i], "out")
    check(te.create_prim_func([x, out]), rand(3, n), np.zeros((3, n), "float32"))


def test_padding_reads_only_inside():
    """The condition of an if_then_else guards what it chooses, so no index is out of bounds."""

    @T.prim_func
    def pad(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n + 3,), "float32")
        for i in range(n + 3):
            B[i] = T.if_then_else(1 <= i and i < n + 1, A[i - 1], T.float32(-1))

    for n in (0, 1, 40):
        check(pad, rand(n), np.zeros(n + 3, "float32"))
    # Proven: the code has no way to fail.
    assert "IndexError" not in codegen.build_module(pad).get_source()


def test_branches_and_early_values():
    @T.prim_func
    def clamp(a: T.handle, b: T.handle, low: T.float32):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "int32")
        for i in range(n):
            if A[i] < low:
                B[i] = -1
            elif A[i] > T.float32(1):
                B[i] = 1
            else:
                B[i] = 0

    check(clamp, rand(50), np.zeros(50, "int32"), -0.5)


def test_while():
    @T.prim_func
    def collatz(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "int64")
        B = T.match_buffer(b, (n,), "int64")
        for i in range(n):
            B[i] = T.int64(0)
            while A[i] != T.int64(1):
                A[i] = T.if_then_else(
                    A[i] % T.int64(2) == T.int64(0), A[i] // T.int64(2), A[i] * T.int64(3) + T.int64(1)
                )
                B[i] = B[i] + T.int64(1)

    found = check(collatz, np.arange(1, 30), np.zeros(29, "int64"))
    assert found[1][26] == 111


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("start, extent", [(0, 5), (3, 4), (-2, 5), (5, 0), (5, -3), (7, 1)])
def test_loops_of_every_start_and_length(dtype, start, extent):
    """Bounds known when compiling, and only when running."""
    for known in (True, False):
        low, count = tir.Var("low", dtype), tir.Var("count", dtype)
        i = tir.Var("i", dtype)
        out = tir.decl_buffer((16,), "int64", "B")
        store = tir.BufferStore(out, tir.Cast("int64", i) * 10 + 1, [i + 2])
        loop = tir.For(i, tir.const(start, dtype) if known else low, tir.const(extent, dtype) if known else count,
                       "serial", store)  # fmt: skip
        p = tir.Var("p", "handle")
        func = tir.PrimFunc((p, low, count), loop, buffer_map={p: out})
        check(func, np.zeros(16, "int64"), start, extent)


@pytest.mark.parametrize("kind", ["serial", "parallel", "vectorized", "unroll"])
@pytest.mark.parametrize("n", [4, 16, 200])
def test_kinds_of_loops(kind, n):
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    a, b = tir.decl_buffer((8, n), "float32", "A"), tir.decl_buffer((8, n), "float32", "B")
    kind = "unrolled" if kind == "unroll" else kind
    store = tir.BufferStore(b, tir.exp(a[i, j]) + tir.Cast("float32", i * j), [i, j])
    body = tir.For(i, 0, 8, "serial", tir.For(j, 0, n, kind, store))
    p, q = tir.Var("p", "handle"), tir.Var("q", "handle")
    func = tir.PrimFunc((p, q), body, buffer_map={p: a, q: b})
    check(func, rand(8, n), np.zeros((8, n), "float32"))


def test_storage_small_and_large_known_and_not():
    @T.prim_func
    def stages(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 8), "float32")
        B = T.match_buffer(b, (n, 8), "float32")
        small = T.alloc_buffer((8,), "float32")
        large = T.alloc_buffer((100, 1000), "float32")
        sized = T.alloc_buffer((n, 8), "float64")
        for i, j in T.grid(n, 8):
            sized[i, j] = T.cast(A[i, j], "float64") * T.float64(2)
        for i in range(n):
            for j in range(8):
                small[j] = T.cast(sized[i, j], "float32")
            for j in range(8):
                large[i % 100, j * 142] = small[7 - j]
                B[i, j] = large[i % 100, j * 142]

    for n in (0, 1, 50):
        check(stages, rand(n, 8), np.zeros((n, 8), "float32"))
    source = codegen.build_module(stages).get_source()
    assert source.count("call noalias align 64 ptr @relax.reserve") == 2
    assert "alloca [8 x float], align 64" in source


def test_views_of_the_same_storage():
    n = tir.Var("n", "int64")
    a, b = tir.decl_buffer((n, 4), "float32", "A"), tir.decl_buffer((n, 4), "float32", "B")
    flat = tir.decl_buffer((n * 4,), "float32", "flat", data=a.data)
    row = tir.decl_buffer((n, 2), "float32", "row", data=b.data, strides=(4, 2), elem_offset=1)
    i, j = tir.Var("i", "int64"), tir.Var("j", "int64")
    body = tir.DeclBuffer(flat, tir.DeclBuffer(row, tir.For(i, 0, n, "serial", tir.For(j, 0, 2, "serial",
        tir.BufferStore(row, flat[i * 4 + j], [i, j])))))  # fmt: skip
    p, q = tir.Var("p", "handle"), tir.Var("q", "handle")
    check(tir.PrimFunc((p, q), body, buffer_map={p: a, q: b}), rand(5, 4), np.zeros((5, 4), "float32"))


def test_rank_zero_and_one_element():
    @T.prim_func
    def total(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (), "float32")
        B[()] = T.float32(0)
        for i in range(n):
            B[()] = B[()] + A[i]

    for n in (0, 1, 33):
        check(total, rand(n), np.array(7, "float32"), rtol=1e-5)


def test_let():
    @T.prim_func
    def let(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (10,), "int32")
        B = T.match_buffer(b, (10,), "int32")
        for i in range(10):
            x = T.let("int32", A[i] * 2) if False else A[i] * 2
            B[i] = x + x

    check(let, np.arange(10, dtype="int32"), np.zeros(10, "int32"))


def test_a_let_keeps_its_value_when_memory_changes():
    a = tir.decl_buffer((2,), "int32", "A")
    x = tir.Var("x", "int32")
    body = tir.LetStmt(x, a[0], tir.SeqStmt((tir.BufferStore(a, a[0] + 1, [0]), tir.BufferStore(a, x, [1]))))
    p = tir.Var("p", "handle")
    found = check(tir.PrimFunc((p,), body, buffer_map={p: a}), np.array([5, 0], "int32"))
    assert found[0].tolist() == [6, 5]


def test_functions_call_each_other():
    @I.ir_module
    class Module:
        @T.prim_func
        def add_one(a: T.handle, b: T.handle):
            T.func_attr({"global_symbol": "add_one"})
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            for i in range(n):
                B[i] = A[i] + T.float32(1)

        @T.prim_func
        def twice(a: T.handle, b: T.handle):
            T.func_attr({"global_symbol": "twice"})
            m = T.int64()
            A = T.match_buffer(a, (m,), "float32")
            B = T.match_buffer(b, (m,), "float32")
            t = T.alloc_buffer((m,), "float32")
            Module.add_one(A.data, t.data)
            Module.add_one(t.data, B.data)

    built = codegen.build_module(Module)
    x, y = rand(9), np.zeros(9, "float32")
    built["twice"](x, y)
    np.testing.assert_array_equal(y, x + 1 + 1)


def test_recursion():
    """fib(n) in place, by a function that calls itself."""
    out, n = tir.decl_buffer((1,), "int64", "B"), tir.Var("n", "int64")
    from relax.ir import GlobalVar

    me, p = GlobalVar("fib"), tir.Var("p", "handle")
    call = lambda k: tir.Evaluate(tir.Call("int32", me, (out.data, k)))  # noqa: E731
    body = tir.IfThenElse(n < 2, tir.BufferStore(out, out[0] + n, [0]), tir.SeqStmt((call(n - 1), call(n - 2))))
    built = codegen.build_module({"fib": tir.PrimFunc((p, n), body, buffer_map={p: out})})
    result = np.zeros(1, "int64")
    built["fib"](result, 15)
    assert result[0] == 610


def test_functions_of_the_c_library():
    @T.prim_func
    def extern(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (5,), "float64")
        B = T.match_buffer(b, (5,), "float64")
        for i in range(5):
            B[i] = T.call_extern("float64", "cbrt", A[i])
        T.evaluate(T.call_extern("void", "memset", B.data, T.int32(0), T.uint64(8)))

    x, y = np.array([1.0, 8, 27, 64, 125]), np.zeros(5)
    codegen.build_module(extern)["main" if "global_symbol" not in extern.attrs else "extern"](x, y)
    np.testing.assert_allclose(y, [0, 2, 3, 4, 5])


def test_unaligned_vectors():
    """Vector loads assume no more than the element's alignment."""
    i = tir.Var("i", "int32")
    a, b = tir.decl_buffer((33,), "float32", "A"), tir.decl_buffer((33,), "float32", "B")
    body = tir.For(i, 0, 4, "serial", tir.BufferStore(
        b, a[tir.Ramp(i * 8 + 1, 1, 8)] * tir.Broadcast(tir.const(2.0, "float32"), 8), [tir.Ramp(i * 8 + 1, 1, 8)]))  # fmt: skip
    p, q = tir.Var("p", "handle"), tir.Var("q", "handle")
    memory, out = rand(40), np.zeros(40, "float32")
    built = codegen.build_module(tir.PrimFunc((p, q), body, buffer_map={p: a, q: b}))["main"]
    for shift in range(4):
        built(memory[shift : shift + 33], out[shift : shift + 33])
        np.testing.assert_array_equal(out[shift + 1 : shift + 33], memory[shift + 1 : shift + 33] * 2)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool", "bfloat16", "float8_e4m3fn"])
def test_transposes_of_every_width(dtype):
    from relax.ir import DataType

    n, m = te.var("n", "int64"), te.var("m", "int64")
    a = te.placeholder((n, m), dtype, "A")
    func = te.create_prim_func([a, te.compute((m, n), lambda i, j: a[j, i], "B")])
    kind = DataType(dtype).numpy()
    x = (np.arange(7 * 20) % 2 if dtype == "bool" else np.arange(7 * 20) % 50).astype(kind).reshape(7, 20)
    y = np.zeros((20, 7), kind)
    codegen.build_module(func)["main"](x, y)
    assert y.tobytes() == x.T.tobytes()


def test_flattened_symbolic_sizes_need_no_bounds_checks():
    """The prover decides them: nothing is left in the code that could say an index is out of bounds."""
    b, h, w = (tir.SizeVar(name, "int64") for name in "bhw")
    rows, columns = (h + 1) // 4, (w + 1) // 4
    x = te.placeholder((b, 8, rows, columns), "float32", "x")
    for out in (topi.flatten(x), topi.reshape(x, (b * 8, rows * columns)), topi.split(x, 2, axis=0)[0]):
        func = te.create_prim_func([x, out])
        assert "out of bounds" not in codegen.build_module(func).get_source()
    load = te.compute((b,), lambda i: x[i + 1, 0, 0, 0])
    assert "out of bounds" in codegen.build_module(te.create_prim_func([x, load])).get_source()


@T.prim_func
def blocks(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for q in range((n + 63) // 64):
        inside: T.int64 = T.min(T.int64(64), n - q * 64)
        C = T.allocate((64,))
        for v in range(inside // 16):
            for i in range(T.int64(16)):
                C[v * 16 + i] = A[q * 64 + (v * 16 + i)]
        for i in range(inside % 16):
            C[inside // 16 * 16 + i] = A[q * 64 + (inside // 16 * 16 + i)]
        for i in range(inside):
            B[q * 64 + i] = C[i]


@pytest.mark.parametrize("n", [0, 1, 15, 16, 63, 64, 65, 200])
def test_what_is_left_for_the_last_block(n):
    (_, found) = check(blocks, rand(n), np.zeros(n, "float32"))
    np.testing.assert_array_equal(found, rand(n))


def test_what_is_left_for_a_block_needs_no_checks():
    assert "out of bounds" not in codegen.build_module(blocks).get_source()
