"""compute_inline and reverse_compute_inline: elements are computed where they are read, or where they are made."""

from __future__ import annotations

import pytest


def inline(block="P"):
    return lambda sch: sch.compute_inline(sch.get_block(block))


def reverse(block="B"):
    return lambda sch: sch.reverse_compute_inline(sch.get_block(block))


def program(store="P[vi] = A[vi] * T.float32(2)", value="P[vi] + T.float32(1)", size="n", where="", **more):
    """A producer P and a consumer B of n elements each; the texts are the producer's store and the consumer's value."""
    domain, shape = more.get("domain", "n"), more.get("shape", "n,")
    return f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, ({size},), "float32")
    B = T.match_buffer(b, (n,), "float32")
    P = T.alloc_buffer(({shape}), "float32")
    for i in range({domain}):
        with T.block("P"):
            vi = T.axis.spatial({domain}, i)
            {where}
            {store}
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = {value}
"""


SIMPLE = program()
TWO = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8, 6), "float32")):
    P = T.alloc_buffer((8, 6), "float32")
    for i, j in T.grid(8, 6):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = A[vi, vj] * T.float32(2)
    for i, k in T.grid(8, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + P[vi, vk] * P[7 - vi, vk]
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = P[vi, vj] + P[vi, 0]
"""


# ------------------------------------------------------------------------------------------ into consumers


def test_a_producer_is_computed_where_it_is_read(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] * T.float32(2) + T.float32(1)
""")
    check(parse(SIMPLE), inline(), expected)


def test_several_consumers_and_loads(parse, check):
    after = check(parse(TWO), inline())
    assert "alloc_buffer" not in after.script()
    assert 'T.block("P")' not in after.script()


@pytest.mark.parametrize(
    "text",
    [
        program("P[vi + 3] = A[vi]", "P[vi + 3]", shape="n + 3,"),
        program("P[n - 1 - vi] = A[vi]", "P[vi]"),
        program("P[0, vi] = A[vi]", "P[0, vi]", shape="1, n"),
        program("P[vi * 2 + 1] = A[vi]", "P[vi * 2 + 1]", shape="n * 2,"),
        program("P[vi // 4, vi % 4] = A[vi]", "P[vi // 4, vi % 4]", shape="(n + 3) // 4, 4"),
        program("P[vi] = A[vi + 1]", "P[vi] + P[vi + 1]", "n + 2", domain="n + 1", shape="n + 1,"),
        program("P[vi] = A[vi]", "T.if_then_else(vi > 0, P[vi - 1], T.float32(0))"),
        program("P[vi] = T.cast(vi, 'float32')", "P[n - 1 - vi] + A[vi]"),
    ],
)
def test_indices_with_an_inverse(parse, check, text):
    check(parse(text), inline())


def test_several_variables_in_one_index(parse, check):
    func = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n * 4,), "float32")
    P = T.alloc_buffer((n * 4,), "float32")
    for i, j in T.grid(n, T.int64(4)):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi * 4 + vj] = A[vi, vj] * T.float32(2)
    for i in range(n * 4):
        with T.block("B"):
            vi = T.axis.spatial(n * 4, i)
            B[vi] = P[n * 4 - 1 - vi]
""")
    check(func, inline())


def test_loads_in_nested_blocks(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    P = T.alloc_buffer((4, 8), "float32")
    for i, j in T.grid(4, 8):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = A[vi, vj] - T.float32(1)
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            for j in range(8):
                with T.block("B"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = P[vi, 7 - vj]
""")
    after = check(func, inline())
    assert "T.reads(A[vi, 0:8])" in after.script()


def test_a_chain(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    C = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[7 - vi] + T.float32(1)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi] * C[vi]
""")
    for order in ("BC", "CB"):

        def steps(sch, order=order):
            for name in order:
                sch.compute_inline(sch.get_block(name))

        check(func, steps)


def test_reads_by_data(parse, check):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[T.max(I[vi], 0)]
""")
    check(func, inline())


def test_refusals(parse, refuse):
    assert "block B is an output block" in refuse(parse(SIMPLE), inline("B"))
    text = refuse(parse(program("P[vi * 2] = A[vi]", "P[vi]", shape="n * 2,")), inline())
    assert "block B may read elements of buffer P that block P does not write" in text
    text = refuse(parse(program("P[vi] = A[vi]", "P[vi]", domain="n - 1")), inline())
    assert "block B may read elements of buffer P that block P does not write" in text
    text = refuse(parse(program("P[vi] = A[vi]\n            A[vi] = T.float32(0)")), inline())
    assert "block P is not complete: it reads buffer A, which it also writes" in text
    text = refuse(parse(program("P[vi] = A[vi]\n            P[vi] = A[vi] + P[vi]")), inline())
    assert "block P is not complete" in text
    text = refuse(parse(program("if vi > 0:\n                P[vi] = A[vi]")), inline())
    assert "block P does not consist of one store" in text
    text = refuse(parse(SIMPLE.replace("P[vi] + T", "A[vi] + T")), inline())
    assert "block P has no consumers" in text


def test_reductions_are_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i, k in T.grid(8, 4):
        with T.block("P"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = T.float32(0)
            P[vi] = P[vi] + A[vi, vk]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi]
""")
    assert "block P is not complete: its variable vk is a reduction" in refuse(func, inline())
    text = refuse(func, reverse())
    assert "block P is a reduction block: its elements are not finished when they are written" in text
    assert "reverse_compute_at moves the consumer into the reduction's loops" in text


def test_what_a_block_reads_must_not_change(parse, refuse):
    between = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("Q"):
            vi = T.axis.spatial(8, i)
            {}
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi] + T.float32(1)
"""
    text = refuse(parse(between.format("A[vi] = T.float32(0)")), inline())
    assert "block B would move past block Q, which writes what it reads" in text
    text = refuse(parse(between.format("A[vi] = B[vi]")), reverse())
    assert "block Q reads buffer B before block B writes it" in text
    text = refuse(parse(SIMPLE.replace("B[vi] =", "A[vi] =")), inline())
    assert "block B writes what block P reads" in text


def test_pointers_are_refused(parse, refuse):
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = A[vi]
    with T.block("B"):
        T.reads(P[0:8])
        T.writes(B[0:8])
        T.evaluate(T.call_extern("int32", "copy", P.data, B.data))
""")
    assert "buffer P is used in another way than by loads of elements" in refuse(func, inline())


# ------------------------------------------------------------------------------------------ into producers


def test_a_consumer_is_computed_where_its_producer_writes(parse, check):
    expected = parse("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("P"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] * T.float32(2) + T.float32(1)
""")
    check(parse(SIMPLE), reverse(), expected)


@pytest.mark.parametrize(
    "text",
    [
        program("P[vi + 3] = A[vi]", "P[vi + 3]", shape="n + 3,"),
        program("P[n - 1 - vi] = A[vi]", "P[vi] * P[vi]"),
        program("P[0, vi] = A[vi]", "P[0, vi]", shape="1, n"),
        program("P[vi * 2 + 1] = A[vi]", "P[vi * 2 + 1]", shape="n * 2,"),
        program("P[vi // 4, vi % 4] = A[vi]", "P[vi // 4, vi % 4]", shape="(n + 3) // 4, 4"),
        program("P[vi] = A[vi + 1]", "P[vi + 1] + A[vi]", "n + 2", domain="n + 1", shape="n + 1,"),
        program("P[vi] = A[vi]", "P[vi] * T.cast(vi, 'float32')"),
    ],
)
def test_consumers_with_an_inverse(parse, check, text):
    check(parse(text), reverse())


def test_a_part_that_is_read_gives_a_condition(parse, check):
    text = program("P[vi] = A[vi]", "P[vi + 1]", "n + 3", domain="n + 3", shape="n + 3,")
    after = check(parse(text), reverse())
    assert "T.where(i >= 1 and i <= n)" in after.script()
    text = program("P[vi] = A[vi]", "P[vi * 2]", "n * 2", domain="n * 2", shape="n * 2,")
    after = check(parse(text), reverse())
    assert "T.where(" in after.script()


def test_split_loops_on_both_sides(parse, check):
    def steps(sch):
        sch.split(*sch.get_loops(sch.get_block("P")), [None, 4])
        sch.split(*sch.get_loops(sch.get_block("B")), [None, 3])
        sch.reverse_compute_inline(sch.get_block("B"))

    check(parse(SIMPLE), steps)


def test_reverse_refusals(parse, refuse):
    text = refuse(parse(SIMPLE), reverse("P"))
    assert "block P has no producer" in text
    text = refuse(parse(program(value="P[vi] + P[n - 1 - vi]")), reverse())
    assert "block B reads buffer P at several places" in text
    text = refuse(parse(program(value="P[vi // 2]")), reverse())
    assert "the indices at which block B reads buffer P do not decide the values of its variables" in text
    text = refuse(parse(TWO), reverse("C"))
    assert "block B reads what block P writes, too" in text
    text = refuse(parse(TWO), reverse("B"))
    assert "block B is not complete" in text
    text = refuse(
        parse(SIMPLE.replace("            B[vi] =", "            T.where(vi != 2)\n            B[vi] =")), reverse()
    )
    assert "block B may not run for just the values in its variables' domains" in text


def test_other_inputs_must_be_there(parse, check, refuse):
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,), "float32")
    Q = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("{0}"):
            vi = T.axis.spatial(8, i)
            {0}[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("{1}"):
            vi = T.axis.spatial(8, i)
            {1}[vi] = A[7 - vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi] + Q[7 - vi]
"""
    after = check(parse(text.format("P", "Q")), reverse())
    assert 'T.block("Q")' in after.script()
    assert "P = T.alloc_buffer" in after.script()
