"""tensorize: a block that does what a tensor intrinsic describes is done by its implementation."""

from __future__ import annotations

import numpy as np
import pytest

from relax import nd, tir
from relax.codegen import build_module
from relax.ir import DiagnosticError
from relax.prim import const
from relax.tir import Broadcast, Schedule, TensorIntrin
from relax.tir.functor import StmtExprMutator

DOT = """
@T.prim_func
def desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), "float32", offset_factor=1)
    B = T.match_buffer(b, (4,), "float32", offset_factor=1)
    C = T.match_buffer(c, (1,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        for i in range(4):
            with T.block("update"):
                vi = T.axis.reduce(4, i)
                C[0] = C[0] + A[vi] * B[vi]
"""
DOT_VECTOR = """
@T.prim_func
def impl(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), "float32", offset_factor=1)
    B = T.match_buffer(b, (4,), "float32", offset_factor=1)
    C = T.match_buffer(c, (1,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        products = T.alloc_buffer((4,), scope="local")
        products[0:4] = A[0:4] * B[0:4]
        C[0] = C[0] + (products[0] + products[1]) + (products[2] + products[3])
"""
DOT_CALL = """
@T.prim_func
def impl(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), "float32", offset_factor=1)
    B = T.match_buffer(b, (4,), "float32", offset_factor=1)
    C = T.match_buffer(c, (1,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        T.evaluate(T.call_extern("int32", "dot4", C.access_ptr("rw"), A.access_ptr("r"), B.access_ptr("r")))
"""
MATMUL_T = """
@T.prim_func
def main(A: T.Buffer((3, 8), "float32"), B: T.Buffer((5, 8), "float32"), C: T.Buffer((3, 5), "float32")):
    for i, j, k in T.grid(3, 5, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""


def registered(parse, desc, impl, name="test.intrin"):
    """Register an intrinsic of two texts; its name."""
    TensorIntrin.register(name, parse(desc), parse(impl), override=True)
    return name


def dot4(c, a, b):
    c[0] += np.dot(a[:4], b[:4])
    return 0


def tensorized(intrin, block="C", factors=(None, 4)):
    """Split the innermost loop of a block, and have its inner part done by an intrinsic."""

    def steps(sch):
        _, inner = sch.split(sch.get_loops(sch.get_block(block))[-1], list(factors))
        sch.tensorize(inner, intrin)

    return steps


def run(func, *arrays, **options):
    copies = [array.copy() for array in arrays]
    tir.interpret(func, *copies, **options)
    return copies[-1]


def test_a_vector_product(parse, check):
    intrin = registered(parse, DOT, DOT_VECTOR)
    expected = parse("""
@T.prim_func
def main(A: T.Buffer((3, 8), "float32"), B: T.Buffer((5, 8), "float32"), C: T.Buffer((3, 5), "float32")):
    for i, j, k_0 in T.grid(3, 5, 2):
        with T.block("C_o"):
            vi, vj, vk_o = T.axis.remap("SSR", [i, j, k_0])
            T.reads(A[vi, vk_o * 4 : vk_o * 4 + 4], B[vj, vk_o * 4 : vk_o * 4 + 4])
            T.writes(C[vi, vj])
            products = T.alloc_buffer((4,), scope="local")
            A_1 = T.match_buffer(A[vi, vk_o * 4 : vk_o * 4 + 4], (4,), offset_factor=1)
            B_1 = T.match_buffer(B[vj, vk_o * 4 : vk_o * 4 + 4], (4,), offset_factor=1)
            C_1 = T.match_buffer(C[vi, vj], (1,), offset_factor=1)
            with T.init():
                with T.block("C_init"):
                    C[vi, vj] = T.float32(0)
            products[T.Ramp(0, 1, 4)] = A_1[T.Ramp(0, 1, 4)] * B_1[T.Ramp(0, 1, 4)]
            C_1[0] = C_1[0] + (products[0] + products[1]) + (products[2] + products[3])
""")
    check(parse(MATMUL_T), tensorized(intrin), expected)


def test_a_call_of_the_machine(parse):
    intrin = registered(parse, DOT, DOT_CALL)
    func = parse(MATMUL_T)
    sch = Schedule(func, debug_mask="all")
    tensorized(intrin)(sch)
    generator = np.random.default_rng(0)
    arrays = [generator.integers(-4, 5, shape).astype("float32") for shape in ((3, 8), (5, 8), (3, 5))]
    expected = run(func, *arrays)
    for after in (sch.mod["main"], tir.lower(sch.mod["main"])):
        np.testing.assert_array_equal(run(after, *arrays, externs={"dot4": dot4}), expected)


def test_registered_by_name(parse, check):
    TensorIntrin.register("test.dot", parse(DOT), parse(DOT_VECTOR), override=True)
    check(parse(MATMUL_T), tensorized("test.dot"))
    with pytest.raises(DiagnosticError, match=r"tensor intrinsic test\.dot: the name is registered already"):
        TensorIntrin.register("test.dot", parse(DOT), parse(DOT_VECTOR))
    with pytest.raises(DiagnosticError, match=r"no intrinsic of this name(.|\n)*did you mean 'test.dot'"):
        TensorIntrin.get("test.dots")
    assert TensorIntrin.get("no such thing at all", allow_missing=True) is None
    registered = TensorIntrin.get("test.dot")
    assert registered is not None
    assert registered.name == "test.dot"


def test_an_init_is_tensorized_by_itself(parse, check):
    fill = """
@T.prim_func
def NAME(c: T.handle):
    s = T.int64()
    C = T.match_buffer(c, (1, 5), "float32", strides=[s, 1], offset_factor=1)
    with T.block("root"):
        T.reads()
        T.writes(C[0, 0:5])
        BODY
"""
    loops = """for j in range(5):
            with T.block("init"):
                vj = T.axis.spatial(5, j)
                C[0, vj] = T.float32(0)"""
    vector = "C[0, 0:5] = T.Broadcast(T.float32(0), 5)"
    intrin = registered(
        parse, fill.replace("NAME", "desc").replace("BODY", loops), fill.replace("NAME", "impl").replace("BODY", vector)
    )

    def steps(sch):
        block = sch.get_block("C")
        _, j, _ = sch.get_loops(block)
        init = sch.decompose_reduction(block, j)
        sch.tensorize(sch.get_loops(init)[1], intrin)

    after = check(parse(MATMUL_T), steps)
    assert "C_1[0, T.Ramp(0, 1, 5)] = T.Broadcast(T.float32(0.0), 5)" in after.script()


MICRO = """
@T.prim_func
def NAME(a: T.handle, b: T.handle, c: T.handle):
    sa = T.int64()
    sb = T.int64()
    sc = T.int64()
    A = T.match_buffer(a, (4, 4), "float32", strides=[sa, 1], offset_factor=1)
    B = T.match_buffer(b, (4, 4), "float32", strides=[sb, 1], offset_factor=1)
    C = T.match_buffer(c, (4, 4), "float32", strides=[sc, 1], offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4, 0:4], B[0:4, 0:4], C[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        BODY
"""
MICRO_LOOPS = """for i, j, k in T.grid(4, 4, 4):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"""
MICRO_VECTORS = """for i, k in T.grid(4, 4):
            with T.block("row"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi, 0:4] = C[vi, 0:4] + T.Broadcast(A[vi, vk], 4) * B[vk, 0:4]"""
MICRO_CALL = """T.evaluate(T.call_extern("int32", "gemm4", C.access_ptr("rw"), A.access_ptr("r"), B.access_ptr("r"),
            sc, sa, sb))"""
MATMUL = """
@T.prim_func
def main(A: T.Buffer((8, 12), "float32"), B: T.Buffer((12, 4), "float32"), C: T.Buffer((8, 4), "float32")):
    for i_0, j_0, k_0, i_1, j_1, k_1 in T.grid(2, 1, 3, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(4, j_0 * 4 + j_1)
            vk = T.axis.reduce(12, k_0 * 4 + k_1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def micro(parse, body):
    """A product of two matrices of 4 x 4, done by a body."""
    return registered(
        parse,
        MICRO.replace("NAME", "desc").replace("BODY", MICRO_LOOPS),
        MICRO.replace("NAME", "impl").replace("BODY", body),
    )


def gemm4(c, a, b, sc, sa, sb):
    for i in range(4):
        for j in range(4):
            for k in range(4):
                c[i * sc + j] += a[i * sa + k] * b[k * sb + j]
    return 0


@pytest.mark.parametrize("preserve", [True, False])
def test_a_micro_kernel(parse, check, preserve):
    def steps(sch):
        block = sch.get_block("C")
        loops = sch.get_loops(block)
        sch.decompose_reduction(block, loops[2])
        sch.tensorize(loops[3], micro(parse, MICRO_VECTORS), preserve)

    after = check(parse(MATMUL), steps)
    assert 'T.block("row")' in after.script()


def test_a_micro_kernel_of_the_machine_gets_strides(parse):
    func = parse(MATMUL)
    sch = Schedule(func, debug_mask="all")
    sch.tensorize(sch.get_loops(sch.get_block("C"))[3], micro(parse, MICRO_CALL))
    generator = np.random.default_rng(0)
    arrays = [generator.integers(-4, 5, shape).astype("float32") for shape in ((8, 12), (12, 4), (8, 4))]
    expected = run(func, *arrays)
    for after in (sch.mod["main"], tir.lower(sch.mod["main"])):
        np.testing.assert_array_equal(run(after, *arrays, externs={"gemm4": gemm4}), expected)


def test_compiled(parse):
    sch = Schedule(parse(MATMUL))
    sch.tensorize(sch.get_loops(sch.get_block("C"))[3], micro(parse, MICRO_VECTORS))
    generator = np.random.default_rng(0)
    arrays = [generator.integers(-4, 5, shape).astype("float32") for shape in ((8, 12), (12, 4), (8, 4))]
    tensors = [nd.array(array) for array in arrays]
    build_module(sch.mod["main"])["main"](*tensors)
    np.testing.assert_array_equal(tensors[2].numpy(), arrays[0] @ arrays[1])


def test_a_block_that_was_made_before(parse, check):
    def steps(sch):
        outer = sch.blockize(sch.get_loops(sch.get_block("C"))[3])
        sch.tensorize(outer, micro(parse, MICRO_VECTORS))

    check(parse(MATMUL), steps)


def test_operands_in_another_order(parse, check):
    func = MATMUL_T.replace("C[vi, vj] + A[vi, vk] * B[vj, vk]", "B[vj, vk] * A[vi, vk] + C[vi, vj]")
    check(parse(func), tensorized(registered(parse, DOT, DOT_VECTOR)))


SYMBOLIC = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle, e: T.handle):
    n, m, d = T.int64(), T.int64(), T.int64()
    E = T.match_buffer(e, (d,), "float32")
    A = T.match_buffer(a, (n, d * 4), "float32")
    B = T.match_buffer(b, (m, d * 4), "float32")
    C = T.match_buffer(c, (n, m), "float32")
    for i, j, k in T.grid(n, m, d * 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""


def test_symbolic_sizes_around(parse):
    after = Schedule(parse(SYMBOLIC), debug_mask="all")
    tensorized(registered(parse, DOT, DOT_VECTOR))(after)
    generator = np.random.default_rng(0)
    for n, m, d in ((2, 3, 2), (1, 1, 1), (0, 2, 1)):
        arrays = [generator.integers(-4, 5, shape).astype("float32") for shape in ((n, 4 * d), (m, 4 * d), (n, m))]
        tir.interpret(after.mod["main"], *arrays, np.zeros(d, "float32"))
        np.testing.assert_array_equal(arrays[2], arrays[0] @ arrays[1].T)


# ------------------------------------------------------------------------------------------ refusals


def dot_refused(parse, refuse, desc=DOT, impl=DOT_VECTOR, func=MATMUL_T, factors=(None, 4)):
    intrin = registered(parse, desc, impl)
    return last_refused(parse, refuse, intrin, func, factors)


def last_refused(parse, refuse, intrin, func, factors, preserve=True):
    """The error of tensorizing the inner part of the innermost loop."""

    def split(sch):
        sch.split(sch.get_loops(sch.get_block("C"))[-1], list(factors))

    return refuse(
        parse(func), split, lambda sch: sch.tensorize(sch.get_loops(sch.get_block("C"))[-1], intrin, preserve)
    )


def test_the_first_difference_is_shown(parse, refuse):
    text = dot_refused(parse, refuse, factors=(None, 2))
    assert "error[E8106]: tensorize: block C_o does not do what the intrinsic test.intrin describes: " in text
    assert "loop k_1 has extent 2, loop i of the description 4" in text
    text = dot_refused(parse, refuse, desc=DOT.replace("A[vi] * B[vi]", "A[vi] * B[3 - vi]"))
    assert "moves otherwise than B[3 - i] of the description" in text
    text = dot_refused(parse, refuse, desc=DOT.replace("A[vi] * B[vi]", "A[vi] - B[vi]"))

    assert "in the description C[0] + A[i] - B[i]" in text
    text = dot_refused(parse, refuse, func=MATMUL_T.replace("float32", "float64"))
    assert "holds float64 in global, C of the description float32 in global" in text


def test_a_buffer_that_the_description_leaves_alone(parse, refuse):
    head = "def {}(a: T.handle, b: T.handle, c: T.handle):\n"
    more = '    D = T.match_buffer(d, (4,), "float32", offset_factor=1)\n'
    desc, impl = (
        text.replace(head.format(name), head.format(name).replace("c: T.handle)", "c: T.handle, d: T.handle)") + more)
        for text, name in ((DOT, "desc"), (DOT_VECTOR, "impl"))
    )
    text = dot_refused(parse, refuse, desc=desc, impl=impl)
    assert "the description does not use its buffer D" in text


LANES = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4,), "float32", offset_factor=1)
    C = T.match_buffer(b, (4,), "float32", offset_factor=1)
    with T.block("C"):
        C[0:4] = A[0:4]
"""


def test_stores_of_some_lanes_are_differences(parse, refuse):
    """Masks come from vectorised loops that are cut off; a description says what is done to all elements."""

    class Masked(StmtExprMutator):
        def visit_BufferStore(self, node):
            return node.replace(predicate=Broadcast(const(1, "bool"), 4))

    func, intrin = parse(LANES), registered(parse, LANES, LANES)
    text = refuse(func.replace(body=Masked().visit(func.body)), lambda sch: sch.tensorize(sch.get_block("C"), intrin))
    assert "is of some lanes only" in text


def test_an_init_inside_is_a_difference(parse, refuse):
    intrin = registered(parse, DOT, DOT_VECTOR)
    text = last_refused(parse, refuse, intrin, MATMUL_T.replace("8", "4"), (4,), preserve=False)
    assert "there is a sequence of 2 statements where the description has a store into C[0]" in text


def test_one_buffer_for_two_is_refused(parse, refuse):
    func = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = C[vi] + A[vi]
"""
    both = """
@T.prim_func
def NAME(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), "float32", offset_factor=1)
    B = T.match_buffer(b, (4,), "float32", offset_factor=1)
    C = T.match_buffer(c, (4,), "float32", offset_factor=1)
    with T.block("root"):
        for i in range(4):
            with T.block("update"):
                vi = T.axis.spatial(4, i)
                C[vi] = A[vi] + B[vi]
"""
    intrin = registered(parse, both.replace("NAME", "desc"), both.replace("NAME", "impl"))
    text = last_refused(parse, refuse, intrin, func, (None, 4))
    assert "buffers C, which the description writes, and A would both be C" in text


def test_pointers_need_offsets_and_strides(parse, refuse):
    text = dot_refused(parse, refuse, impl=DOT_CALL.replace(", offset_factor=1", ""))
    assert "hands on the pointer of buffer A, which has no variable for its offset" in text
    across = MATMUL_T.replace("B: T.Buffer((5, 8)", "B: T.Buffer((8, 5)").replace("B[vj, vk]", "B[vk, vj]")
    wide = (
        DOT.replace("B = T.match_buffer(b, (4,)", "B = T.match_buffer(b, (4, 1)")
        .replace("B[vi]", "B[vi, 0]")
        .replace("B[0:4]", "B[0:4, 0]")
    )
    call = DOT_CALL.replace("B = T.match_buffer(b, (4,)", "B = T.match_buffer(b, (4, 1)").replace("B[0:4]", "B[0:4, 0]")
    text = dot_refused(parse, refuse, desc=wide, impl=call, func=across)
    assert "dimension 0 of buffer B of the intrinsic test.intrin has stride 1, of the region of B 5" in text
    assert "say strides=[...] with variables" in text


def test_offsets_must_be_multiples_of_the_factor(parse, refuse):
    impl = DOT_VECTOR.replace(
        'A = T.match_buffer(a, (4,), "float32", offset_factor=1)',
        'A = T.match_buffer(a, (4,), "float32", offset_factor=16)',
    )
    text = dot_refused(parse, refuse, impl=impl)
    assert "buffer A of the intrinsic test.intrin must start at a multiple of 16 elements" in text


def test_a_region_must_be_inside(parse, refuse):
    """The description has 6 elements of A, of which it uses 4."""
    wide = [text.replace("A = T.match_buffer(a, (4,)", "A = T.match_buffer(a, (6,)") for text in (DOT, DOT_VECTOR)]
    text = dot_refused(parse, refuse, *wide)
    assert "the region [vk_o * 4, vk_o * 4 + 6) of dimension 1 of A, for buffer A of the intrinsic" in text
    assert "may be outside of its 8 elements" in text


def test_strides_that_are_said_must_be_those_of_the_region(parse, refuse):
    impl = DOT_VECTOR.replace(
        'B = T.match_buffer(b, (4,), "float32"', 'B = T.match_buffer(b, (4,), "float32", strides=[2]'
    )
    text = dot_refused(parse, refuse, impl=impl)
    assert "dimension 0 of buffer B of the intrinsic test.intrin has stride 2, of the region of B 1" in text


def test_conditions_are_differences(parse, refuse):
    text = dot_refused(parse, refuse, func=MATMUL_T.replace("8", "6"))
    assert "condition" in text
    assert "where the description has a store into C[0]" in text


def test_a_name_that_is_not_registered(parse, refuse):
    func = parse(MATMUL_T)
    text = refuse(func, lambda sch: sch.tensorize(sch.get_loops(sch.get_block("C"))[2], "no.such"))
    assert "tensorize: tensor intrinsic no.such: no intrinsic of this name is registered" in text
    text = refuse(func, lambda sch: sch.tensorize(sch.get_loops(sch.get_block("C"))[2], func))
    assert "tensor_intrin must be a TensorIntrin or the name of a registered one, found PrimFunc" in text


def test_intrinsic_that_is_not_registered(parse, check):
    """The trace holds its functions."""
    intrin = TensorIntrin(parse(DOT), parse(DOT_VECTOR), "nowhere")
    expected = check(parse(MATMUL_T), tensorized(registered(parse, DOT, DOT_VECTOR)))
    check(parse(MATMUL_T), tensorized(intrin), expected)


def test_what_cannot_be_an_intrinsic(parse):
    with pytest.raises(DiagnosticError, match="the description has 3 parameters, the implementation 1"):
        TensorIntrin(
            parse(DOT),
            parse("""
@T.prim_func
def impl(a: T.handle):
    A = T.match_buffer(a, (4,), "float32")
    A[0] = T.float32(0)
"""),
        )
    with pytest.raises(DiagnosticError, match=r"buffer A of the description is \(4\) of float32"):
        TensorIntrin(parse(DOT), parse(DOT_VECTOR.replace("A = T.match_buffer(a, (4,)", "A = T.match_buffer(a, (8,)")))
