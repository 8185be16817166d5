"""TVMScript's TIR: every construct, parsed and run by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from relax import te, tir
from relax.ir import DiagnosticError, assert_structural_equal
from relax.script import from_source
from relax.script import ir as I
from relax.script import tir as T
from relax.tir import ForKind, interpret
from relax.tir.transform import lower
from support import agree, nodes, numbers

HEADER = "from relax.script import tir as T\n"


def parse(text, **variables):
    return reparsed(from_source(HEADER + text, variables, allow_extern=True))


def reparsed(func):
    """The function, whose printed form must mean the same."""
    assert_structural_equal(from_source(func.script(show_meta=True), allow_extern=True), func)
    return func


def run(func, *args):
    """Interpret the function and its lowered form, which must agree; return the arguments after it."""
    reparsed(lower(func))
    return agree(func, *args, levels=())


def test_match_buffer_with_declared_sizes():
    @T.prim_func
    def matmul(x: T.handle, y: T.handle, z: T.handle) -> None:
        m = T.int64()
        n = T.int64()
        k = T.var("int64")
        A = T.match_buffer(x, (m, k))
        B = T.match_buffer(y, (k, n))
        C = T.match_buffer(z, (m, n))
        for i, j, l in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, l])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += A[vi, vk] * B[vk, vj]

    for m, n, k in ((3, 4, 5), (1, 1, 1), (0, 2, 3), (2, 3, 0)):
        a, b = numbers(m, k), numbers(k, n)
        np.testing.assert_allclose(run(matmul, a, b, np.empty((m, n), "float32"))[2], a @ b, rtol=1e-6)
    assert matmul.attrs == {"global_symbol": "matmul"}


def test_script_equals_tensor_expression():
    @T.prim_func
    def main(A: T.Buffer(("n", 6), "float32"), C: T.Buffer(("n",), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        n = T.int64()
        B = T.alloc_buffer((n,))
        for i, k in T.grid(n, T.int64(6)):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        for i in range(n):
            with T.block("C"):
                vi = T.axis.spatial(n, i)
                C[vi] = T.exp(B[vi])

    # The size has the name that the annotations gave it first.
    n = te.var("n", "int64")
    a = te.placeholder((n, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), "B")
    assert_structural_equal(main, te.create_prim_func([a, te.compute((n,), lambda i: te.exp(b[i]), "C")]))


def test_undeclared_sizes_are_bound_by_first_use():
    func = parse(
        """
@T.prim_func
def f(x: T.handle, y: T.handle):
    X = T.match_buffer(x, (n,), "float32")
    Y = T.match_buffer(y, (n,), "float32")
    with T.grid(n) as i:
        Y[i] = T.exp(X[i])
"""
    )
    a = numbers(5)
    np.testing.assert_allclose(run(func, a, np.zeros_like(a))[1], np.exp(a), rtol=1e-6)
    assert func.buffer_map[func.params[0]].shape[0] is func.buffer_map[func.params[1]].shape[0]


def test_quoted_sizes_and_expressions_over_them():
    func = parse(
        """
@T.prim_func
def f(x: T.Buffer(("n", "m"), "float32"), y: T.Buffer(("n * m",), "float32")):
    n = T.int64()
    for i, j in T.grid(n, 3):
        y[i * 3 + j] = x[i, j]
"""
    )
    a = numbers(2, 3)
    np.testing.assert_array_equal(run(func, a, np.zeros(6, "float32"))[1], a.reshape(-1))
    with pytest.raises(ValueError, match=r"argument y: dimension 0 is 5, expected n \* m = 6"):
        interpret(func, a, np.zeros(5, "float32"))


def test_older_buffer_annotation_and_axis_spelling():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer[(8,), "int32"], B: T.Buffer[8, "int32"]):
    for i in T.serial(0, 8):
        with T.block():
            vi = T.axis.S(8, i)
            B[vi] = A[vi] * 2
"""
    )
    np.testing.assert_array_equal(run(func, np.arange(8, dtype="int32"), np.zeros(8, "int32"))[1], np.arange(8) * 2)


def test_python_variables_around_are_visible():
    size, dtype = 4, "int32"
    steps = [1, 2, 3]

    @T.prim_func
    def f(A: T.Buffer((size, len(steps)), dtype)):
        for i, j in T.grid(size, len(steps)):
            A[i, j] = T.cast(i, dtype) + steps[1]

    np.testing.assert_array_equal(run(f, np.zeros((4, 3), "int32"))[0], np.arange(4)[:, None] + 2 + np.zeros((4, 3)))


def test_loop_kinds_and_annotations():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((4, 4, 4, 4, 4), "float32")):
    for a in T.serial(4, annotations={"note": "slow"}):
        for b in T.parallel(4):
            for c in T.vectorized(0, 4):
                for d in T.unroll(4):
                    for e in T.thread_binding(4, thread="threadIdx.x"):
                        A[a, b, e, d, c] = 1.0
"""
    )
    kinds = [loop.kind for loop in nodes(func, tir.For)][::-1]
    assert kinds == [ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.UNROLLED, ForKind.THREAD_BINDING]
    assert nodes(func, tir.For)[-1].annotations == {"note": "slow"}
    assert nodes(func, tir.For)[0].thread_binding == "threadIdx.x"


def test_ranges():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((20,), "int32"), n: T.int32):
    for i in range(n):
        A[i] = A[i] + 1
    for i in range(2, n):
        A[i] = A[i] + 10
    for i in range(1, 20, 4):
        A[i] = A[i] + 100
    for i in T.serial(n - 3, n):
        A[i] = A[i] + 1000
    for ij in T.grid(2, 3):
        A[ij[0] * 3 + ij[1]] = A[ij[0] * 3 + ij[1]] + 10000
    for i, j in T.grid((1, 3), 2):
        A[i * 2 + j] = A[i * 2 + j] + 100000
"""
    )
    expected = np.zeros(20, "int32")
    expected[:9] += 1
    expected[2:9] += 10
    expected[1:20:4] += 100
    expected[6:9] += 1000
    expected[:6] += 10000
    expected[2:6] += 100000
    np.testing.assert_array_equal(run(func, np.zeros(20, "int32"), 9)[0], expected)


def test_branches_while_and_locals():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((10,), "int32"), n: T.int32):
    s = T.alloc_buffer((1,), "int32", scope="local")
    for i in range(10):
        with T.block("b"):
            vi = T.axis.spatial(10, i)
            s[0] = 0
            while s[0] * s[0] < n:
                s[0] += 1
            x = vi * vi
            y: T.int32 = x + s[0]
            if vi < 3 and n > 0:
                A[vi] = x
            elif vi == 5 or not (vi != 7):
                A[vi] = y
            else:
                pass
"""
    )
    expected = np.array([0, 1, 4, 0, 0, 30, 0, 54, 0, 0], "int32")
    np.testing.assert_array_equal(run(func, np.zeros(10, "int32"), 20)[0], expected)
    assert len(nodes(func, tir.LetStmt)) == 2


def test_expressions():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), B: T.Buffer((4,), "int64"), n: T.int32):
    A[0] = T.Select(n > 3, T.float32(1), T.float32(2))
    A[1] = T.if_then_else(n > 3, A[0], A[100])
    A[2] = T.max(T.min(A[0], 5.0), 3.0)
    A[3] = T.Cast("float32", n) / 2.0
    A[4] = T.sqrt(T.float32(16)) + T.pow(T.float32(2), T.float32(3))
    A[5] = T.float32("-inf")
    A[6] = T.abs(-A[3])
    A[7] = 1.0 if n == 7 else 0.0
    A[8] = T.sigmoid(T.float32(0))
    A[9] = A[0] if n < 3 else A[3]
    B[0] = T.truncdiv(-7, n - 5)
    B[1] = T.floordiv(-7, n - 5)
    B[2] = T.truncmod(-7, n - 5) * 10 + T.floormod(-7, n - 5)
    B[3] = T.int64(1) << T.int64(40) | T.int64(5)
"""
    )
    a, b = run(func, np.zeros(16, "float32"), np.zeros(4, "int64"), 7)[:2]
    np.testing.assert_array_equal(a[:10], np.array([1, 1, 3, 3.5, 12, -np.inf, 3.5, 1, 0.5, 3.5], "float32"))
    np.testing.assert_array_equal(b, [-3, -4, -9, 2**40 + 5])


def test_vectors():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    B[T.Ramp(0, 1, 4)] = A[T.Ramp(0, 2, 4)] + T.Broadcast(T.float32(1), 4)
    B[T.Ramp(4, 1, 4)] = T.float32(3)
"""
    )
    a = np.arange(16, dtype="float32")
    b = run(func, a, np.zeros(16, "float32"))[1]
    np.testing.assert_array_equal(b[:8], [1, 3, 5, 7, 3, 3, 3, 3])


def test_blocks_say_what_they_touch():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(16, i * 4)
            vj = T.axis.spatial((0, 16), j * 4)
            T.where(i * 4 < 15)
            T.reads(A[vi, 0:16], B[vi:vi + 4, vj])
            T.writes([B[vi:vi + 4, vj]])
            T.block_attr({"key": 1})
            B[vi, vj] = A[vi, vj]
"""
    )
    block = nodes(func, tir.Block)[0]
    assert [r.buffer.name for r in block.reads] == ["A", "B"]
    assert [int(r.extent) for r in block.reads[1].region] == [4, 1]
    assert [int(r.extent) for r in block.reads[0].region] == [1, 16]
    assert block.annotations == {"key": 1}
    assert not isinstance(nodes(func, tir.BlockRealize)[0].predicate, tir.IntImm)


def test_regions_are_inferred():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((34,), "float32"), B: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
    for i in range(8):
        with T.block("b"):
            vi = T.axis.spatial(8, i)
            for j in range(4):
                B[vi * 4 + j] = A[vi * 4 + j] + A[vi * 4 + j + 2] + A[A.shape[0] - 1 - C.ndim]
    for i in range(32):
        with T.block("c"):
            vi = T.axis.spatial(32, i)
            C[vi] = C[vi] + B[vi // 4 * 4]
"""
    )
    b, c = nodes(func, tir.Block)[:2]
    assert [int(r.region[0].extent) for r in b.writes] == [4]
    assert int(b.reads[0].region[0].extent) == 34  # the union with a constant index is the whole dimension
    assert [r.buffer.name for r in c.reads] == ["C", "B"]


def test_opaque_and_nested_blocks_and_region_views():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(2):
        with T.block("outer"):
            vi = T.axis.opaque(2, i)
            S = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:8], (4, 8), strides=("s", 1), offset_factor=1)
            D = T.match_buffer(B[vi * 4:vi * 4 + 4, 0:8], (4, 8))
            tmp = T.alloc_buffer((4, 8))
            for j, k in T.grid(4, 8):
                with T.block("inner"):
                    vj, vk = T.axis.remap("SS", [j, k])
                    tmp[vj, vk] = S[vj, vk] + 1.0
            for j, k in T.grid(4, 8):
                with T.block("copy"):
                    vj, vk = T.axis.remap("SS", [j, k])
                    D[vj, vk] = tmp[vj, vk]
"""
    )
    a = numbers(8, 8)
    np.testing.assert_array_equal(run(func, a, np.zeros_like(a))[1], a + 1)
    outer = next(b for b in nodes(func, tir.Block) if b.name_hint == "outer")
    assert [r.buffer.name for r in outer.reads] == ["A"]
    assert [r.buffer.name for r in outer.writes] == ["B"]


def test_strided_parameter():
    func = parse(
        """
@T.prim_func
def f(a: T.handle, b: T.handle):
    A = T.match_buffer(a, ("n", "m"), "float32", strides=["s0", "s1"])
    B = T.match_buffer(b, ("n", "m"), "float32")
    n = T.int64()
    m = T.int64()
    for i, j in T.grid(n, m):
        B[i, j] = A[i, j]
"""
    )
    data = np.arange(24, dtype="float32").reshape(4, 6)
    out = np.zeros((3, 2), "float32")
    interpret(lower(func), data[1:, ::3], out)
    np.testing.assert_array_equal(out, data[1:, ::3])


def test_allocate_declare_assert_attr_let():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), n: T.int32):
    assert n > 0, "n must be positive"
    with T.allocate([8], "float32", "global") as t:
        flat = T.decl_buffer((2, 4), "float32", data=t.data)
        for i in range(8):
            t[i] = A[i] * 2.0
        T.attr(0, "note", 1)
        with T.LetStmt(n + 1) as k:
            for i, j in T.grid(2, 4):
                A[i * 4 + j] = flat[i, j] + T.Cast("float32", k)
    u = T.allocate([1], "int32", "local")
    u[0] = n
    A[0] = T.Cast("float32", u[0])
    T.evaluate(0)
"""
    )
    data = np.arange(8, dtype="float32")
    expected = data * 2 + 6
    expected[0] = 5
    np.testing.assert_array_equal(run(func, data, 5)[0], expected)
    with pytest.raises(AssertionError, match="n must be positive"):
        interpret(func, data, 0)


def test_calls():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    T.evaluate(T.call_extern("int32", "twice", A.data, 4))
    T.call_packed("note", 3)
    A[0] = T.call_pure_extern("float32", "half", A[0])
"""
    )

    def twice(pointer, count):
        pointer[:count] *= 2

    seen = []
    for candidate in (func, lower(func)):
        data = np.ones(4, "float32")
        interpret(candidate, data, externs={"twice": twice, "note": seen.append, "half": lambda x: x / 2})
        np.testing.assert_array_equal(data, [1, 2, 2, 2])
    assert seen == [3, 3]


def test_modules():
    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            Module.add(A.data, T.float32(1))
            add(A.data, T.float32(2))

        @T.prim_func(private=True)
        def add(a: T.handle, x: T.float32):
            A = T.match_buffer(a, (4,), "float32")
            for i in range(4):
                A[i] = A[i] + x

    assert "global_symbol" not in Module["add"].attrs
    data = np.zeros(4, "float32")
    interpret(Module["main"], data, module=Module)
    np.testing.assert_array_equal(data, [3, 3, 3, 3])


def test_meta_programming():
    unroll = True
    offsets = (0, 2)

    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        if unroll:
            A[1] = sum([o * 10 for o in offsets])
        else:
            A[2] = 1
        x = T.meta_var(offsets[1])
        A[x] = x
        n = 3
        A[n] = n

    np.testing.assert_array_equal(run(f, np.zeros(4, "int32"))[0], [0, 20, 2, 3])
    assert not nodes(f, tir.IfThenElse)
    assert not nodes(f, tir.LetStmt)


def test_explicit_root_block():
    text = """
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    {root}for i in range(4):
    {pad}    with T.block("b"):
    {pad}        vi = T.axis.spatial(4, i)
    {pad}        A[vi] = 0.0
"""
    explicit = parse(text.format(root='with T.block("root"):\n        ', pad="    "))
    assert_structural_equal(explicit, parse(text.format(root="", pad="")))


@pytest.mark.parametrize(
    "body, message, line",
    [
        ("A[0, 0] = 1.0", "has 1 dimensions, found 2 indices", 1),
        ("A[0.5] = 1.0", "has dtype float32, expected an integer", 1),
        ("A[0] = B[0]", "`B` is not defined", 1),
        ("A[n] = n < 3", "A holds float32, the value is bool", 0),
        ("for i in A:\n        pass", "a Buffer is no loop", 1),
        ("for i, j in T.grid(3):\n        pass", "found 2 loop variables for 1 loops", 1),
        ("vi = T.axis.spatial(3, n)", "belongs inside a block", 1),
        ("T.reads(A[0])", "T.reads belongs inside a block", 1),
        ("with T.block('b'):\n        v = T.axis.remap('S', [n])", "variables of enclosing loops", 2),
        ("with T.block('b'):\n        T.reads()\n        T.reads()", "says twice what it reads", 3),
        ("x = 1.0 + n\n    for i in range(3):\n        x = x + 1.0", "would not change there", 3),
        ("return A[0]", "a PrimFunc returns nothing", 1),
        ("A[0] = n / 2", "write a // b (floor) or T.truncdiv(a, b)", 1),
        ("A[0] = T.expp(A[0])", "`T` has no member `expp`", 1),
        ("T.match_buffer(n, (3,))", "parameter `n` is a int32, expected T.handle", 1),
        ("A[0:n] = 1.0", "a vector of buffer A has a constant number of elements, found n", 1),
        ("if A[0]:\n        pass", "a condition has dtype float32, expected bool", 1),
        ("for i in range(3):\n        pass\n    A[i] = 0.0", "`i` is not defined", 3),
        ("x: T.int32 = 1.5", "1.5 is not an integer", 1),
        ("for i in range(A[0]):\n        pass", "the bounds of a loop are integers, found float32", 1),
        ("del A", "del cannot be used here", 1),
        ("T.allocate([3], 'float32', condition=n > 3)", "an allocation under a condition", 1),
    ],
)
def test_errors(body, message, line):
    program = f'@T.prim_func\ndef f(A: T.Buffer((4,), "float32"), n: T.int32):\n    {body}\n'
    if message.startswith("A holds float32"):
        func = from_source(HEADER + program)  # a bool becomes a number
        assert isinstance(func, tir.PrimFunc)
        return
    with pytest.raises(DiagnosticError) as caught:
        from_source(HEADER + program)
    assert message in str(caught.value)
    assert len(caught.value.diagnostics) == 1
    assert caught.value.diagnostics[0].span.line == line + 3


@pytest.mark.parametrize(
    "signature, message",
    [
        ("A", "parameter `A` has no annotation"),
        ("A: 3", "this is no type of a PrimFunc's parameter"),
        ("A: T.Buffer()", "T.Buffer needs a shape"),
        ("A: T.Buffer((3,), colour=1)", "T.Buffer has no argument `colour`"),
        ("A: T.Buffer((3,), 'floot')", "unknown dtype 'floot'"),
        ("*A", "plain parameters without defaults"),
        ("A: T.Buffer((1.5,))", "a dimension must be an integer"),
    ],
)
def test_errors_in_signatures(signature, message):
    with pytest.raises(DiagnosticError) as caught:
        from_source(HEADER + f"@T.prim_func\ndef f({signature}):\n    pass\n")
    assert message in str(caught.value)


def test_all_errors_are_reported():
    with pytest.raises(DiagnosticError) as caught:
        parse(
            """
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    A[0] = undefined_a
    for i in range(4):
        A[i, i] = 1.0
    x = undefined_b
    A[1] = x
"""
        )
    assert [d.span.line for d in caught.value.diagnostics] == [5, 7, 8]


def test_predicate_over_block_variables():
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((6, 4), "float32"), B: T.Buffer((6,), "float32")):
    for i, k in T.grid(8, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(vi < 6 and vk < 4)
            with T.init():
                B[vi] = 0.0
            B[vi] += A[vi, vk]
"""
    )
    data = numbers(6, 4)
    np.testing.assert_allclose(run(func, data, np.zeros(6, "float32"))[1], data.sum(1), rtol=1e-6)


def test_storage_of_a_loop_is_its_own():
    """A buffer allocated inside a loop belongs to the iteration; one of the block belongs to the block."""
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        acc = T.alloc_buffer((1,), "float32", scope="local")
        acc[0] = 0.0
        for k in range(4):
            acc[0] += A[i, k]
        B[i] = acc[0]
"""
    )
    assert isinstance(func.body, tir.For)
    assert isinstance(func.body.body, tir.AllocBuffer)
    data = numbers(8, 4)
    np.testing.assert_allclose(run(func, data, np.zeros(8, "float32"))[1], data.sum(1), rtol=1e-6)
