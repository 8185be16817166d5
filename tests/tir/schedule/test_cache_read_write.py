"""cache_read, cache_write: blocks work on copies of buffers, which stand where they hold what the buffers hold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from schedule_programs import PRODUCT

from relax import codegen, tir
from relax.tir import Schedule

ELEMENTWISE = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
SCOPES = """
@T.prim_func
def main(B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    T.func_attr({"tir.noalias": True})
    A = T.alloc_buffer((8, 8))
    for i0, j0 in T.grid(4, 4):
        with T.block("scope"):
            i, j = T.axis.remap("SS", [i0, j0])
            for x, y in T.grid(2, 2):
                with T.block("A"):
                    vi = T.axis.spatial(8, i * 2 + x)
                    vj = T.axis.spatial(8, j * 2 + y)
                    A[vi, vj] = T.Cast("float32", vi * 2 + vj)
            for x, y in T.grid(2, 2):
                with T.block("B"):
                    vi = T.axis.spatial(8, i * 2 + x)
                    vj = T.axis.spatial(8, j * 2 + y)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2)
"""
FUSED = """
@T.prim_func
def main(a: T.handle, c: T.handle, d: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    C = T.match_buffer(c, (n, 4), "float32")
    D = T.match_buffer(d, (n, 4), "float32")
    B = T.alloc_buffer((n, 4))
    for i in range(n):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * T.float32(2)
    for i, j in T.grid(n, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj]
"""
STENCIL = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = T.if_then_else(vi >= 1, A[vi - 1], T.float32(0)) + T.if_then_else(vi + 1 < n, A[vi + 1], T.float32(0))
"""


def read(name, buffer, scope="local", **options):
    return lambda sch: sch.cache_read(sch.get_block(name), buffer, scope, **options)


def write(name, buffer, scope="local", **options):
    return lambda sch: sch.cache_write(sch.get_block(name), buffer, scope, **options)


def test_a_parameter_is_copied_before_it_is_read(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    A_local = T.alloc_buffer((n, 4), scope="local")
    for ax0, ax1 in T.grid(n, 4):
        with T.block("A_local"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_local[v0, v1] = A[v0, v1]
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A_local[vi, vj] * T.float32(2)
""")
    for buffer in (0, "A"):
        check(parse(ELEMENTWISE), read("B", buffer), expected)
    func = parse(ELEMENTWISE)
    check(func, read("B", func.buffer_map[func.params[0]]), expected)


def test_what_is_written_is_copied_behind(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    B_local = T.alloc_buffer((n, 4), scope="local")
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B_local[vi, vj] = A[vi, vj] * T.float32(2)
    for ax0, ax1 in T.grid(n, 4):
        with T.block("B_local"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            B[v0, v1] = B_local[v0, v1]
""")
    check(parse(ELEMENTWISE), write("B", 0), expected)


def test_names_of_copies_are_new(parse, check):
    def steps(sch):
        names = [read("B", 0)(sch).name, read("B", 0)(sch).name, write("B", 0)(sch).name]
        assert names == ["A_local", "A_local_local", "B_local"]
        assert read("A_local", 0)(sch).name == "A_local_1"

    check(parse(ELEMENTWISE), steps)


def test_parameters_are_apart_only_where_copies_need_it(parse):
    func = parse(FUSED.replace('    T.func_attr({"tir.noalias": True})\n', ""))
    sch = Schedule(func)
    for steps in (read("D", "B"), write("B", "B"), write("D", "D")):
        steps(sch)  # B is the function's own, and no other parameter is used while D_local is filled
    assert "tir.noalias" not in sch.mod["main"].attrs
    for steps in (read("B", "A"), write("C", "C")):
        sch = Schedule(func)
        steps(sch)  # C is written while A_local is in use; A is read while C_local is filled
        assert sch.mod["main"].attrs["tir.noalias"]


@pytest.mark.parametrize("steps", [read("B", "A"), read("C", "B"), write("B", "B"), write("C", "C"), write("D", "D")])
def test_arguments_that_overlap_are_refused_or_mean_what_they_meant(parse, steps):
    func = parse(FUSED.replace('    T.func_attr({"tir.noalias": True})\n', ""))
    sch = Schedule(func)
    steps(sch)
    for places in itertools.permutations((0, 2, 5)):
        before, after = np.arange(40, dtype="float32"), np.arange(40, dtype="float32")
        tir.interpret(func, *(before[place : place + 12].reshape(3, 4) for place in places))
        try:
            tir.interpret(sch.mod["main"], *(after[place : place + 12].reshape(3, 4) for place in places))
        except ValueError:
            assert sch.mod["main"].attrs["tir.noalias"]
        else:
            np.testing.assert_array_equal(after, before)


def test_arguments_that_overlap_are_refused_by_what_was_scheduled(parse):
    func, memory = parse(ELEMENTWISE), np.arange(20, dtype="float32")
    sch = Schedule(func)
    read("B", "A")(sch)
    tir.interpret(func, memory[:16].reshape(4, 4), memory[4:].reshape(4, 4))
    with pytest.raises(ValueError, match="argument A overlaps argument B, which is written"):
        tir.interpret(sch.mod["main"], memory[:16].reshape(4, 4), memory[4:].reshape(4, 4))


@pytest.mark.parametrize("loops", [0, 1, 2, 3])
def test_a_reduction_and_its_operands(parse, check, loops):
    def steps(sch):
        for buffer in ("A", "B"):
            sch.cache_read(sch.get_block("C"), buffer, "global")
        i, _, k = sch.get_loops(sch.get_block("C"))
        if loops > 0:
            sch.split(k, [None, 3])
        if loops > 1:
            sch.split(i, [None, 3])
        sch.cache_write(sch.get_block("C"), 0, "local")
        if loops > 2:
            sch.cache_write(sch.get_block("C_local"), 0, "global")

    check(parse(PRODUCT), steps, sizes=(0, 1, 4))


def test_scopes(parse, check):
    expected = parse("""
@T.prim_func
def main(B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    T.func_attr({"tir.noalias": True})
    A = T.alloc_buffer((8, 8))
    A_global = T.alloc_buffer((8, 8))
    for i0, j0 in T.grid(4, 4):
        with T.block("scope"):
            i, j = T.axis.remap("SS", [i0, j0])
            A_local = T.alloc_buffer((8, 8), scope="local")
            B_local = T.alloc_buffer((8, 8), scope="local")
            for x, y in T.grid(2, 2):
                with T.block("A"):
                    vi = T.axis.spatial(8, i * 2 + x)
                    vj = T.axis.spatial(8, j * 2 + y)
                    A[vi, vj] = T.Cast("float32", vi * 2 + vj)
            for x, y in T.grid(2, 2):
                with T.block("A_local"):
                    vi = T.axis.spatial(8, i * 2 + x)
                    vj = T.axis.spatial(8, j * 2 + y)
                    A_local[vi, vj] = A[vi, vj]
            for x, y in T.grid(2, 2):
                with T.block("B"):
                    vi = T.axis.spatial(8, i * 2 + x)
                    vj = T.axis.spatial(8, j * 2 + y)
                    B_local[vi, vj] = A_local[vi, vj] + T.float32(1)
            for x, y in T.grid(2, 2):
                with T.block("B_local"):
                    vi = T.axis.spatial(8, i * 2 + x)
                    vj = T.axis.spatial(8, j * 2 + y)
                    B[vi, vj] = B_local[vi, vj]
    for x, y in T.grid(8, 8):
        with T.block("A_global"):
            vi, vj = T.axis.remap("SS", [x, y])
            A_global[vi, vj] = A[vi, vj]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A_global[vi, vj] * T.float32(2)
""")

    def steps(sch):
        read("B", "A")(sch)
        read("C", "A", "global")(sch)
        write("B", "B")(sch)

    check(parse(SCOPES), steps, expected)


def test_the_copy_stands_in_the_loops_of_writer_and_reader(parse, check):
    after = check(parse(FUSED), read("C", "B"))
    assert after.script().count("B_local[v0, v1] = B[v0, v1]") == 1
    assert "D[vi, vj] = B_local[vi, vj]" in after.script()
    after = check(parse(FUSED), read("C", "B", consumer_blocks=["C"]))
    assert "D[vi, vj] = B[vi, vj]" in after.script()
    after = check(parse(FUSED), read("D", "B", consumer_blocks=["D"]))
    assert "C[vi, vj] = B[vi, vj]" in after.script()
    after = check(parse(FUSED), write("B", "B"))
    assert "v0 = T.axis.spatial(n, i + ax0)" in after.script()
    after = check(parse(FUSED), write("B", "B", consumer_blocks=["D"]))
    assert "C[vi, vj] = B[vi, vj]" in after.script()
    assert "D[vi, vj] = B_local[vi, vj]" in after.script()


def test_what_may_lie_outside_is_not_copied(parse, check):
    after = check(parse(STENCIL), read("B", "A"))
    assert "for ax0 in range(n)" in after.script()

    def split_first(sch):
        sch.split(*sch.get_loops(sch.get_block("B")), [None, 4])
        write("B", "B")(sch)
        read("B", "A")(sch)

    check(parse(STENCIL), split_first)


def test_parts_of_buffers(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi + 2, vj] = A[vi, vj + 1] + A[vi, vj + 3]
""")
    after = check(func, lambda sch: (read("B", 0)(sch), write("B", 0)(sch)))
    assert "v1 = T.axis.spatial(16, 1 + ax1)" in after.script()
    assert "v0 = T.axis.spatial(16, 2 + ax0)" in after.script()
    assert "T.grid(4, 10)" in after.script()
    assert "T.grid(4, 8)" in after.script()


def test_scalars(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((), "float32"), B: T.Buffer((), "float32")):
    for i in range(1):
        with T.block("B"):
            B[()] = A[()] + T.float32(1)
""")
    check(func, lambda sch: (read("B", 0)(sch), write("B", 0)(sch)))


def test_parallel_loops_stay_right(parse, check):
    def steps(sch):
        i, _ = sch.get_loops(sch.get_block("B"))
        sch.parallel(i)
        write("B", "B")(sch)
        read("C", "B")(sch)

    check(parse(FUSED), steps)


def test_refused_arguments(parse, refuse):
    func = parse(ELEMENTWISE)
    assert "block B reads no buffer of index 1" in refuse(func, read("B", 1))
    text = refuse(func, read("B", "B"))
    assert "block B reads no buffer called B" in text
    assert "it reads A" in text
    assert "read_buffer_index must be an index, a name or a Buffer, found 1.5" in refuse(func, read("B", 1.5))
    assert "storage_scope must be a string, found 3" in refuse(func, read("B", 0, 3))
    assert "storage_scope must be the name of a scope, found ''" in refuse(func, read("B", 0, ""))
    text = refuse(parse(FUSED), read("C", "B", consumer_blocks=["B"]))
    assert "block B does not read buffer B in the scope of block C" in text
    assert "C, D reads it there" in text


def test_refused_writes(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi * 2] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = C[vi] + T.float32(1)
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = C[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
""")
    text = refuse(func, write("B", 0))
    assert "block B is not known to write all elements of B that would be copied" in text
    text = refuse(func, write("C", 0))
    assert "block C is neither complete nor a reduction block" in text
    text = refuse(func, read("C", "C"))
    assert "block C reads and writes buffer C: it would not see what it writes" in text
    text = refuse(func, read("B", "A"))
    assert "block A writes buffer A between the copy and a block that would read it" in text


def test_refused_pointers(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
    with T.block("call"):
        T.reads(C[0:8])
        T.writes(C[0:8])
        T.evaluate(T.call_extern("int32", "f", C.data))
    for i in range(8):
        with T.block("view"):
            vi = T.axis.spatial(8, i)
            V = T.match_buffer(A[vi:vi + 1], (1,), offset_factor=1)
            B[vi] = V[0]
""")
    assert "the memory of buffer C is also used through a view, or a call that gets its pointer" in refuse(
        func, write("B", 0)
    )
    assert "the memory of buffer A is also used through a view" in refuse(func, read("B", 0))


def test_indices_that_are_digits_of_one_loop(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
    for f in range(48):
        with T.block("B"):
            vi = T.axis.spatial(6, f // 8)
            vj = T.axis.spatial(8, f % 8)
            B[vi, vj] = A[vi, vj]
""")
    check(func, write("B", 0))


@pytest.mark.parametrize("n, m", [(0, 0), (1, 4), (5, 3)])
def test_compiled(parse, n, m):
    func = parse(PRODUCT)
    sch = Schedule(func)
    sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 2])
    for steps in (read("C", "A"), write("C", 0)):
        steps(sch)
    module = codegen.build_module({"main": tir.lower(sch.mod["main"])})
    a, b = np.ones((n, m), "float32"), np.arange(m * 5, dtype="float32").reshape(m, 5)
    c = np.full((n, 5), 7, "float32")
    module["main"](a, b, c)
    np.testing.assert_array_equal(c, a @ b)
