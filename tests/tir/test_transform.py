"""The lowering passes one by one: text before, text after."""

from __future__ import annotations

import numpy as np
import pytest

from relax import tir
from relax.ir import DiagnosticError, IRModule, assert_structural_equal
from relax.tir import transform

CASES = {}


def case(pass_name, before, expected=None):
    """A pass makes `expected` of `before`; without it, `before` stays as it is."""
    CASES[f"{pass_name}-{len(CASES)}"] = pass_name, before, expected or before


case(
    "LowerInitBlock",
    """
@T.prim_func
def f(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("n",), "float32")):
    n, m = T.int64(), T.int64()
    for i, k in T.grid(n, m):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
""",
    """
@T.prim_func
def f(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("n",), "float32")):
    n, m = T.int64(), T.int64()
    for i in range(n):
        B[i] = T.float32(0)
        for k in range(m):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(B[vi])
                B[vi] = B[vi] + A[vi, vk]
""",
)
case(  # the loop that reduces is the outer one: the init has its own loops over the rest
    "LowerInitBlock",
    """
@T.prim_func
def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for k in range(8):
        for i in T.parallel(4):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(i < 3)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
""",
    """
@T.prim_func
def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.parallel(4):
        if i < 3:
            B[i] = T.float32(0)
    for k in range(8):
        for i in T.parallel(4):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(i < 3)
                T.reads(A[vi, vk])
                T.writes(B[vi])
                B[vi] = B[vi] + A[vi, vk]
""",
)
case(  # a buffer of one iteration does not keep the init inside: a reduction over nothing still starts
    "LowerInitBlock",
    """
@T.prim_func
def f(A: T.Buffer(("m",), "float32"), B: T.Buffer((1,), "float32")):
    m = T.int64()
    for k in range(m):
        t = T.allocate((1,), "float32", "local")
        t[0] = A[k]
        with T.block("B"):
            vk = T.axis.reduce(m, k)
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] + t[0]
""",
    """
@T.prim_func
def f(A: T.Buffer(("m",), "float32"), B: T.Buffer((1,), "float32")):
    m = T.int64()
    B[0] = T.float32(0)
    for k in range(m):
        t = T.allocate((1,), "float32", "local")
        t[0] = A[k]
        with T.block("B"):
            vk = T.axis.reduce(m, k)
            T.reads(t[0])
            T.writes(B[0])
            B[0] = B[0] + t[0]
""",
)
case(  # what is reduced into is read in the same loop: the init must stay with the block
    "LowerInitBlock",
    """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32"), C: T.Buffer((8,), "float32")):
    for k in range(8):
        with T.block("B"):
            vk = T.axis.reduce(8, k)
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] + A[vk]
        with T.block("C"):
            vk = T.axis.spatial(8, k)
            C[vk] = B[0]
""",
    """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32"), C: T.Buffer((8,), "float32")):
    for k in range(8):
        with T.block("B"):
            vk = T.axis.reduce(8, k)
            T.reads(A[vk])
            T.writes(B[0])
            if vk == 0:
                B[0] = T.float32(0)
            B[0] = B[0] + A[vk]
        with T.block("C"):
            vk = T.axis.spatial(8, k)
            C[vk] = B[0]
""",
)
case(
    "LowerMatchBuffer",
    """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            S = T.match_buffer(A[vi, 2:6], (4,), strides=("s",), offset_factor=1)
            for j in range(4):
                S[j] = T.Cast("float32", j + S.strides[0])
""",
    """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            for j in range(4):
                A[vi, 2 + j] = T.Cast("float32", j + T.int64(1))
""",
)
case(
    "ConvertBlocksToOpaque",
    """
@T.prim_func
def f(A: T.Buffer((16,), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(16, i * 4 + j)
            T.where(i * 4 + j < 15)
            A[vi] = A[vi] + T.float32(1)
""",
    """
@T.prim_func
def f(A: T.Buffer((16,), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            T.where(i * 4 + j < 15)
            T.reads(A[i * 4 + j])
            T.writes(A[i * 4 + j])
            A[i * 4 + j] = A[i * 4 + j] + T.float32(1)
""",
)
case(
    "LowerOpaqueBlock",
    """
@T.prim_func
def f(A: T.Buffer((16,), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            T.where(i * 4 + j < 15)
            t = T.alloc_buffer((1,))
            t[0] = A[i * 4 + j]
            A[i * 4 + j] = t[0] + T.float32(1)
""",
    """
@T.prim_func
def f(A: T.Buffer((16,), "float32")):
    for i, j in T.grid(4, 4):
        if i * 4 + j < 15:
            with T.allocate((1,)) as t:
                t[0] = A[i * 4 + j]
                A[i * 4 + j] = t[0] + T.float32(1)
""",
)
case(
    "PlanAndUpdateBufferAllocationLocation",
    """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), n: T.int32):
    unused = T.allocate((4,))
    t = T.allocate((4,))
    u = T.allocate((4,))
    A[0] = T.float32(1)
    if n > 0:
        t[0] = A[0]
        A[1] = t[0]
    for i in range(4):
        u[i] = A[i]
    A[2] = T.float32(2)
""",
    """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), n: T.int32):
    A[0] = T.float32(1)
    if n > 0:
        with T.allocate((4,)) as t:
            t[0] = A[0]
            A[1] = t[0]
    with T.allocate((4,)) as u:
        for i in range(4):
            u[i] = A[i]
    A[2] = T.float32(2)
""",
)
case(  # storage that every iteration of a parallel loop needs for itself moves inside
    "PlanAndUpdateBufferAllocationLocation",
    """
@T.prim_func
def f(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    acc = T.allocate((1,))
    row = T.allocate((8,))
    mine = T.allocate((8,), scope="local")
    for r in range(2):
        for i in T.parallel(4):
            acc[0] = A[r * 4 + i, 0]
            row[i] = acc[0]
            mine[i] = row[i]
            B[r * 4 + i] = mine[i]
""",
    """
@T.prim_func
def f(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    with T.allocate((8,)) as row:
        for r in range(2):
            for i in T.parallel(4):
                with T.allocate((1,)) as acc:
                    acc[0] = A[r * 4 + i, 0]
                    row[i] = acc[0]
                with T.allocate((8,), scope="local") as mine:
                    mine[i] = row[i]
                    B[r * 4 + i] = mine[i]
""",
)
case(  # views that are of other places in each iteration, or around the loop, are of storage around the loop
    "PlanAndUpdateBufferAllocationLocation",
    """
@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    with T.allocate((4,)) as t:
        for i in T.parallel(4):
            part = T.decl_buffer((1,), data=t.data, elem_offset=i)
            part[0] = A[i]
            B[i] = part[0]
    with T.allocate((4,)) as u:
        whole = T.decl_buffer((4,), data=u.data)
        for i in T.parallel(4):
            whole[0] = A[i]
            B[i] = whole[0]
""",
)
case(
    "Simplify",
    """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(4):
        for j in range(1):
            if i < 4:
                A[i + j] = A[i + 0] + T.float32(0) * T.float32(0)
        for k in range(0):
            A[k] = T.float32(1)
    if n < 3:
        if n < 5:
            A[n - n] = T.float32(1)
        else:
            A[1] = T.float32(1)
    for i in range(n):
        T.evaluate(0)
    assert 3 < 4, "always"
    while 1 > n - n + 2 and A[0] < T.float32(0):
        A[0] = T.float32(0)
""",
    """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(4):
        A[i] = A[i] + T.float32(0)
    if n < 3:
        A[0] = T.float32(1)
""",
)
case(  # a loop that never runs still reads where it would begin, which may be outside
    "Simplify",
    """
@T.prim_func
def f(A: T.Buffer(("m",), "int32"), i: T.int64):
    m = T.int64()
    for k in range(A[i], A[i] + 0):
        A[0] = A[0] + k
    for k in range(i, i + T.int64(0)):
        A[0] = 1
""",
    """
@T.prim_func
def f(A: T.Buffer(("m",), "int32"), i: T.int64):
    m = T.int64()
    for k in range(A[i], A[i] + 0):
        pass
""",
)
case(  # what is asserted is known below
    "Simplify",
    """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), n: T.int32):
    with T.Assert(n < 3, "small"):
        if n < 5:
            A[0] = T.float32(1)
""",
    """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), n: T.int32):
    with T.Assert(n < 3, "small"):
        A[0] = T.float32(1)
""",
)
case(  # what a condition says of memory holds only until the memory is written
    "Simplify",
    """
@T.prim_func
def f(A: T.Buffer((16,), "int32")):
    if A[0] > 3:
        A[0] = 0
        if A[0] > 3:
            A[1] = 1
""",
)
case(
    "VectorizeLoop",
    """
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), x: T.float32, n: T.int32):
    for i in T.vectorized(4):
        B[i * 2 + n] = T.max(A[i + 4], x) * T.Cast("float32", n)
    for i in T.vectorized(n):
        B[i] = A[i]
    for i in T.vectorized(4):
        for j in range(3):
            if j < n:
                B[j * 4 + i] = T.Select(A[i] > x, T.exp(A[i]), x)
    if n > 3:
        A[0] = T.float32(2)
        for i in T.vectorized(0):
            A[i] = T.float32(3)
""",
    """
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), x: T.float32, n: T.int32):
    B[T.Ramp(0 * 2 + n, 1 * 2, 4)] = T.Max(A[T.Ramp(0 + 4, 1, 4)], T.Broadcast(x, 4)) * T.Broadcast(T.Cast("float32", n), 4)
    for i in range(n // 16):
        B[T.Ramp(i * 16, 1, 16)] = A[T.Ramp(i * 16, 1, 16)]
    if n > 0 and n % 16 > 0:
        B.vstore(
            [T.Ramp(n // 16 * 16, 1, 16)],
            A.vload([T.Ramp(n // 16 * 16, 1, 16)], predicate=T.Ramp(n // 16 * 16, 1, 16) < T.Broadcast(n, 16)),
            predicate=T.Ramp(n // 16 * 16, 1, 16) < T.Broadcast(n, 16),
        )
    for j in range(3):
        if j < n:
            B[T.Ramp(j * 4 + 0, 1, 4)] = T.Select(
                A[T.Ramp(0, 1, 4)] > T.Broadcast(x, 4),
                T.exp(A.vload([T.Ramp(0, 1, 4)], predicate=A[T.Ramp(0, 1, 4)] > T.Broadcast(x, 4))),
                T.Broadcast(x, 4),
            )
    if n > 3:
        A[0] = T.float32(2)
""",
)
case(
    "UnrollLoop",
    """
@T.prim_func
def f(A: T.Buffer((64,), "float32"), n: T.int32):
    for i in T.unroll(2, 4):
        for j in range(n):
            A[i * n + j] = T.float32(0)
    for i in T.unroll(n):
        A[i] = T.float32(1)
    if n > 3:
        A[0] = T.float32(2)
        for i in T.unroll(0):
            A[i] = T.float32(3)
""",
    """
@T.prim_func
def f(A: T.Buffer((64,), "float32"), n: T.int32):
    for j in range(n):
        A[2 * n + j] = T.float32(0)
    for j in range(n):
        A[3 * n + j] = T.float32(0)
    for i in T.unroll(n):
        A[i] = T.float32(1)
    if n > 3:
        A[0] = T.float32(2)
""",
)


@pytest.mark.parametrize("name", CASES)
def test_pass(parse, name):
    pass_name, before, expected = CASES[name]
    run = getattr(transform, pass_name)()
    module = run(IRModule.from_expr(parse(before)))
    result, wanted = module["f"], parse(expected)
    if pass_name in ("VectorizeLoop", "UnrollLoop"):  # which fold what the parser would not
        result, wanted = (transform.Simplify()(IRModule({"f": func}))["f"] for func in (result, wanted))
    assert_structural_equal(result, wanted)
    tir.verify_well_formed(module)
    assert run(module) is module  # nothing is left to do, and the module is the same object


@pytest.mark.parametrize(
    "condition", [lambda i, first: i < 5, lambda i, first: i - first < 3, lambda i, first: i > first + 10]
)
def test_a_loop_up_to_the_last_number_of_its_dtype(condition):
    """The end of its range is no int32; taken for one, it would be below the start."""
    a, p = tir.decl_buffer((16,), "int32", name="A"), tir.Var("a", "handle")
    i, first = tir.Var("i", "int32"), 2**31 - 16
    branch = tir.IfThenElse(condition(i, first), tir.BufferStore(a, 1, (i - first,)))
    func = tir.PrimFunc((p,), tir.For(i, first, 16, "serial", branch), buffer_map={p: a})
    arrays = [np.zeros(16, "int32"), np.zeros(16, "int32")]
    tir.interpret(func, arrays[0])
    tir.interpret(transform.Simplify()(IRModule({"f": func}))["f"], arrays[1])
    np.testing.assert_array_equal(*arrays)


def test_steps_out_of_order_are_refused(parse):
    func = parse(CASES["LowerInitBlock-0"][1])
    with pytest.raises(DiagnosticError, match="E5011.*block B still has an init"):
        transform.ConvertBlocksToOpaque()(IRModule.from_expr(func))
    with pytest.raises(DiagnosticError, match="E5012.*block B still has variables"):
        transform.LowerOpaqueBlock()(IRModule.from_expr(func))


def test_what_is_refused_is_pointed_at():
    from relax.script import from_source

    func = from_source(
        """
@T.prim_func
def f(a: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("whole"):
            view = T.match_buffer(a[0:4], (4,), "float32")
            T.evaluate(T.call_extern("int32", "consume", view.data))
""",
        allow_extern=True,
    )
    with pytest.raises(DiagnosticError) as caught:
        transform.LowerMatchBuffer()(IRModule.from_expr(func))
    assert [(d.code, d.span.line) for d in caught.value.diagnostics] == [("E5010", 7)]
    with pytest.raises(DiagnosticError) as caught:
        transform.LowerOpaqueBlock()(IRModule.from_expr(func))
    assert [(d.code, d.span.line) for d in caught.value.diagnostics] == [("E5012", 5)]


def test_a_view_handed_on_is_refused(parse):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "float32")):
    with T.block("B"):
        S = T.match_buffer(A[0, 0:4], (4,))
        T.evaluate(T.call_extern("int32", "g", S.data))
""")
    with pytest.raises(DiagnosticError, match="E5010.*the pointer of the view S is handed on"):
        transform.lower(func)


def test_the_pointer_of_a_view_with_an_offset_is_that_of_the_buffer_behind(parse):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), k: T.int64):
    with T.block("B"):
        S = T.match_buffer(A[k, 2:6], (4,), offset_factor=1)
        T.evaluate(T.call_extern("int32", "fill", S.access_ptr("w", offset=1)))
""")
    lowered = transform.lower(func)
    assert "T.match_buffer(A[" not in lowered.script()

    def fill(memory):
        memory[:2] = 7
        return 0

    for program in (func, lowered):
        array = np.zeros((8, 8), "float32")
        tir.interpret(program, array, 5, externs={"fill": fill})
        assert np.argwhere(array == 7).tolist() == [[5, 3], [5, 4]]


def test_lowering_is_shared_work():
    """A function already lowered comes back as the same object."""
    a = tir.decl_buffer((4,), name="A")
    p, i = tir.Var("a", "handle"), tir.Var("i", "int64")
    func = tir.PrimFunc((p,), tir.For(i, 0, 4, "serial", tir.BufferStore(a, 1.0, (i,))), buffer_map={p: a})
    assert transform.lower(func) is func
