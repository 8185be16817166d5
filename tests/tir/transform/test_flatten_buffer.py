"""FlattenBuffer: one dimension where the access is proven to be inside, the old buffer elsewhere."""

from __future__ import annotations

from relax import tir
from relax.tir.transform import FlattenBuffer

HEAD = """
@T.prim_func
def f(A: T.Buffer(("n", 16), "int32"), B: T.Buffer((4, 16), "int32"), C: T.Buffer((64,), "int32"), m: T.int32):
    n = T.int64()
"""
RUNS = [{"n": n, "m": m} for n in (0, 1, 4) for m in (0, 3, 16)]


def test_parameters_and_storage(check):
    before = """
    with T.allocate((4, 16), "int32") as t:
        for i, j in T.grid(4, 16):
            t[i, j] = B[i, j] + m
        for i, j in T.grid(n, T.int64(16)):
            A[i, j] = t[i % 4, j] + C[j]
"""
    after = """
    A1 = T.decl_buffer((n * 16,), "int32", data=A.data)
    B1 = T.decl_buffer((64,), "int32", data=B.data)
    with T.allocate((64,), "int32") as t:
        for i, j in T.grid(4, 16):
            t[i * 16 + j] = B1[i * 16 + j] + m
        for i, j in T.grid(n, T.int64(16)):
            A1[i * 16 + j] = t[j + i % 4 * 16] + C[j]
"""
    check(FlattenBuffer, HEAD + before, HEAD + after, *RUNS)


def test_axis_separators_divide_the_dimensions(check):
    before = """
    with T.allocate((4, 2, 8), "int32", axis_separators=[1]) as t:
        for i, j, k in T.grid(4, 2, 8):
            t[i, j, k] = B[i, j * 8 + k]
        for i, j, k in T.grid(4, 2, 8):
            B[i, j * 8 + k] = t[i, 1 - j, k] + m
"""
    after = """
    B1 = T.decl_buffer((64,), "int32", data=B.data)
    with T.allocate((4, 16), "int32", axis_separators=[1]) as t:
        for i, j, k in T.grid(4, 2, 8):
            t[i, j * 8 + k] = B1[i * 16 + j * 8 + k]
        for i, j, k in T.grid(4, 2, 8):
            B1[i * 16 + j * 8 + k] = t[i, k - j * 8 + 8] + m
"""
    check(FlattenBuffer, HEAD + before, HEAD + after, *RUNS)


def test_accesses_that_may_be_outside_keep_their_shape(check):
    before = """
    with T.allocate((4, 16), "int32") as t:
        for i, j in T.grid(4, 16):
            t[i, j] = B[i, j]
        B[0, 1] = t[0, m] + T.if_then_else(m < 16 and m >= 0, B[1, m], 0)
        B[3, m] = 1
"""
    after = """
    B1 = T.decl_buffer((64,), "int32", data=B.data)
    with T.allocate((64,), "int32") as t1:
        t = T.decl_buffer((4, 16), "int32", data=t1.data)
        for i, j in T.grid(4, 16):
            t1[i * 16 + j] = B1[i * 16 + j]
        B1[1] = t[0, m] + T.if_then_else(m < 16 and m >= 0, B1[m + 16], 0)
        B[3, m] = 1
"""
    outcomes = check(FlattenBuffer, HEAD + before, HEAD + after, *RUNS)
    assert [o[0] for o in outcomes if len(o) > 3] == ["IndexError"] * 3


def test_a_load_guarded_in_one_place_only(check, parse):
    """One object, at one place where it is inside and at one where it may not be."""
    func = parse(HEAD + "    B[0, 0] = T.if_then_else(m < 16 and m >= 0, B[1, m], 0)")
    choice = func.body.value
    body = func.body.replace(value=choice + choice.args[1])
    after = """
    B1 = T.decl_buffer((64,), "int32", data=B.data)
    B1[0] = T.if_then_else(m < 16 and m >= 0, B1[m + 16], 0) + B[1, m]
"""
    assert isinstance(body, tir.BufferStore)
    check(FlattenBuffer, func.replace(body=body), HEAD + after, *RUNS)


def test_vectors_scalars_and_views(check):
    before = """
    with T.allocate((), "int32") as s:
        s[()] = m
        V = T.decl_buffer((2, 4, 4), "int32", data=C.data)
        for i in range(4):
            B[i, T.Ramp(0, 4, 4)] = T.Broadcast(s[()], 4)
            V[1, i, 0] = B[i, 3]
"""
    after = """
    B1 = T.decl_buffer((64,), "int32", data=B.data)
    with T.allocate((1,), "int32") as s:
        s[T.int64(0)] = m
        V = T.decl_buffer((32,), "int32", data=C.data)
        for i in range(4):
            B1[T.Ramp(i * 16, 4, 4)] = T.Broadcast(s[T.int64(0)], 4)
            V[i * 4 + 16] = B1[i * 16 + 3]
"""
    check(FlattenBuffer, HEAD + before, HEAD + after, *RUNS)


def test_vectors_in_several_dimensions(check):
    """Ramps add up to a ramp; the access by another vector is not proven to be inside, and stays."""
    before = """
    for i in range(4):
        B[T.Ramp(0, 1, 4), T.Ramp(i, 2, 4)] = T.Broadcast(m, 4)
        B[i, T.Ramp(0, 1, 4) // T.Broadcast(2, 4)] = T.Broadcast(m, 4)
"""
    after = """
    B1 = T.decl_buffer((64,), "int32", data=B.data)
    for i in range(4):
        B1[T.Ramp(i, 18, 4)] = T.Broadcast(m, 4)
        B[i, T.Ramp(0, 1, 4) // T.Broadcast(2, 4)] = T.Broadcast(m, 4)
"""
    check(FlattenBuffer, HEAD + before, HEAD + after, *RUNS)


def test_strides_and_sizes_that_may_be_wrong(check):
    body = """
    with T.allocate((T.Cast("int64", m) - 2, 4), "int32") as t:
        t[0, 0] = 1
    V = T.decl_buffer((2, 4), "int32", data=C.data, strides=(8, 1))
    V[1, 1] = m
"""
    check(FlattenBuffer, HEAD + body, None, *RUNS)


def test_blocks_are_left_alone(check):
    body = """
    for i, j in T.grid(4, 16):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = m
"""
    check(FlattenBuffer, HEAD + body, None, *RUNS)


def test_predicates_stay(check):
    before = """
    for i in range(4):
        B.vstore(
            [i, T.Ramp(0, 1, 8)],
            B.vload([i, T.Ramp(8, 1, 8)], predicate=T.Ramp(0, 1, 8) < T.Broadcast(B[i, 3], 8)),
            predicate=T.Ramp(0, 1, 8) < T.Broadcast(m, 8),
        )
"""
    after = """
    B1 = T.decl_buffer((64,), "int32", data=B.data)
    for i in range(4):
        B1.vstore(
            [T.Ramp(i * 16, 1, 8)],
            B1.vload([T.Ramp(i * 16 + 8, 1, 8)], predicate=T.Ramp(0, 1, 8) < T.Broadcast(B1[i * 16 + 3], 8)),
            predicate=T.Ramp(0, 1, 8) < T.Broadcast(m, 8),
        )
"""
    check(FlattenBuffer, HEAD + before, HEAD + after, *RUNS)


def test_an_index_that_is_a_constant_call_is_proven_to_be_inside(check):
    """Simplifying the outer index folds the inner one: a second run of the pass changes nothing."""
    before = """
    for i in range(4):
        C[T.min(T.max(B[T.min(T.reinterpret("int32", T.uint32(127)), 3), 2], 0), 63)] = B[i, 1]
"""
    after = """
    B1 = T.decl_buffer((64,), "int32", data=B.data)
    for i in range(4):
        C[T.min(T.max(B1[50], 0), 63)] = B1[i * 16 + 1]
"""
    check(FlattenBuffer, HEAD + before, HEAD + after, *RUNS)
    check(FlattenBuffer, HEAD + after, None, *RUNS)
