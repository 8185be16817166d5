"""set_scope, unsafe_set_dtype, storage_align, and what blocks say of their accesses."""

from __future__ import annotations

import numpy as np
import pytest
from schedule_programs import on

from relax import codegen, tir
from relax.ir import DiagnosticError
from relax.tir import Schedule

TWO = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 2), "float32")
    C = T.match_buffer(c, (n, 2), "float32")
    B = T.alloc_buffer((n, 2), "float32"{scope})
    for i, j in T.grid(n, 2):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(n, 2):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""


def text(scope=""):
    return TWO.format(scope=scope)


def test_a_scope(parse, check):
    for buffer in (0, "B"):
        check(parse(text()), on("B", "set_scope", buffer, "local"), parse(text(', scope="local"')))


def test_a_scope_of_another_machine_is_kept_and_refused_by_the_compiler(parse, check):
    after = check(parse(text()), on("B", "set_scope", 0, "shared"))
    assert 'B = T.alloc_buffer((n, 2), scope="shared")' in after.script()
    with pytest.raises(DiagnosticError, match="buffer B is allocated in scope 'shared', which a CPU does not"):
        codegen.build_module({"main": tir.lower(after)})


def test_a_scope_that_is_the_same_changes_nothing(parse):
    sch = Schedule(parse(text()))
    before = sch.mod
    on("B", "set_scope", 0, "global")(sch)
    assert sch.mod is before


def test_views_follow_the_scope(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            V = T.match_buffer(B[vi * 2:vi * 2 + 2], (2,), offset_factor=1)
            for j in range(2):
                V[j] = A[vi * 2 + j]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
""")
    after = check(func, on("B", "set_scope", 0, "local"))
    assert after.script().count('scope="local"') == 2


def test_another_dtype_casts_loads_and_stores(parse, check):
    expected = parse(
        text()
        .replace('(n, 2), "float32")\n    for', '(n, 2), "float16")\n    for')
        .replace("= A[vi, vj] * T.float32(2)", '= T.Cast("float16", A[vi, vj] * T.float32(2))')
        .replace("= B[vi, vj] +", '= T.Cast("float32", B[vi, vj]) +')
    )
    check(parse(text()), on("B", "unsafe_set_dtype", 0, "float16"), expected)


def test_alignments(parse, check):
    def steps(sch):
        on("B", "storage_align", 0, 0, 16, 1)(sch)
        on("B", "storage_align", 0, -2, 32, 1)(sch)
        on("B", "storage_align", "B", 1, 2, 0)(sch)
        assert sch.get(sch.get_block("B")).annotations == {"buffer_dim_align": ((0, 0, 32, 1), (0, 1, 2, 0))}

    after = check(parse(text()), steps)
    assert '"buffer_dim_align": [[0, 0, 32, 1], [0, 1, 2, 0]]' in after.script()


@pytest.mark.parametrize(
    "steps, message",
    [
        (on("C", "set_scope", 0, "local"), "set_scope: buffer C is a parameter: it must be allocated in a block"),
        (on("C", "unsafe_set_dtype", 0, "float16"), "buffer C is a parameter"),
        (on("B", "unsafe_set_dtype", 0, "float99"), "dtype must be that of a scalar, found 'float99'"),
        (on("B", "unsafe_set_dtype", 0, "float32x4"), "dtype must be that of a scalar, found 'float32x4'"),
        (on("C", "storage_align", 0, 0, 16, 1), "buffer C is a parameter"),
        (on("B", "storage_align", 0, 2, 16, 1), "axis must be at least -2 and less than 2, found 2"),
        (on("B", "storage_align", 0, 0, 0, 1), "factor must be 1 or more, found 0"),
        (on("B", "storage_align", 1, 0, 16, 1), "block B writes no buffer of index 1"),
        (on("B", "unsafe_hide_buffer_access", "read", [1]), "block B has 1 reads, there is none of index 1"),
        (on("B", "unsafe_hide_buffer_access", "both", [0]), 'buf_type must be "read" or "write" or "opaque"'),
        (on("B", "annotate_buffer_access", 0, "opaque", lambda i, j: (i, j)), 'buf_type must be "read" or "write"'),
        (on("B", "annotate_buffer_access", 0, "read", lambda i, j: i), "gen_new_ranges gives 1 ranges"),
        (
            on("B", "annotate_buffer_access", 0, "read", lambda i, j: ((i, i, i), j)),
            "gen_new_ranges gives 3 values for a range, which has a begin and an end",
        ),
        (
            on("B", "annotate_buffer_access", 0, "read", lambda i, j: ((i, i + 1),) * 4),
            "gen_new_ranges gives 4 ranges, buffer A has 2 dimensions",
        ),
        (
            on("B", "annotate_buffer_access", 0, "read", lambda i, j: (i, (0, 1))),
            "block B reads indices vj to vj of dimension 1 of A, which are not known to be in the region",
        ),
    ],
)
def test_refusals(parse, refuse, steps, message):
    assert message in refuse(parse(text()), steps)


def test_regions_that_blocks_name(parse, check):
    after = check(parse(text()), on("B", "annotate_buffer_access", 0, "read", lambda i, j: (i, (0, 2))))
    assert "T.reads(A[vi, 0:2])" in after.script()
    assert 'T.block_attr({"explicit_read_region": 0})' in after.script()
    after = check(parse(text()), on("B", "annotate_buffer_access", 0, "write", lambda i, j: ((i, i + 1), (0, 2))))
    assert "T.writes(B[vi, 0:2])" in after.script()


def test_regions_as_an_index_map(parse, check):
    index_map = tir.IndexMap.from_func(lambda i, j: (i, i + 1, 0, 2))
    after = check(parse(text()), on("B", "annotate_buffer_access", 0, "read", index_map))
    assert "T.reads(A[vi, T.int64(0):T.int64(2)])" in after.script()


def test_regions_that_blocks_hide(parse, check):
    after = check(parse(text()), on("C", "unsafe_hide_buffer_access", "opaque", [0]))
    assert after.script().count("T.reads()") == 1
    assert after.script().count("T.writes()") == 1


def test_unsafe_set_dtype_keeps_predicates(parse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32"), k: T.int32):
    B = T.alloc_buffer((4, 8), "float32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            B[vi, T.Ramp(0, 1, 8)] = T.Broadcast(T.float32(7), 8)
            B.vstore([vi, T.Ramp(0, 1, 8)], A[vi, T.Ramp(0, 1, 8)], predicate=T.Ramp(0, 1, 8) < T.Broadcast(k, 8))
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            T.reads(B[vi, 0:8])
            T.writes(C[vi, 0:8])
            C[vi, T.Ramp(0, 1, 8)] = B.vload([vi, T.Ramp(0, 1, 8)], predicate=T.Ramp(0, 1, 8) < T.Broadcast(k + 2, 8))
""")
    sch = Schedule(func)
    sch.unsafe_set_dtype(sch.get_block("B"), 0, "float64")
    a = np.arange(32, dtype="float32").reshape(4, 8)
    for k in (0, 3, 8):
        c = np.zeros((4, 8), "float32")
        tir.interpret(sch.mod["main"], a, c, k)
        places = np.arange(8)
        expected = np.where(places < k, a, np.where(places < k + 2, np.float32(7), np.float32(0)))
        np.testing.assert_array_equal(c, expected)
