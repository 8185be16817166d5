"""relax.tir as programs for TVM use it: ranges, buffers, iteration variables, passes, the analyzer."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import tir
from relax.ir import DiagnosticError, assert_structural_equal, structural_equal, structural_hash
from relax.script import from_source
from relax.script import tir as T
from support import compiled


@T.prim_func
def scale(a: T.handle, n: T.int64, factor: T.float32):
    A = T.match_buffer(a, (n + 1 - 1,), "float32")
    for i in range(n):
        if i < n:
            A[i] = A[i] * factor


# ------------------------------------------------------------------ buffers keep their identity


def test_simplify_leaves_the_buffers_of_parameters():
    mod = tir.transform.Simplify()(relax.IRModule({"scale": scale}))
    func = mod["scale"]
    tir.verify_well_formed(func)
    (buffer,) = func.buffer_map.values()
    assert buffer is next(iter(scale.buffer_map.values()))
    assert "if" not in func.body.script()
    x = np.arange(4, dtype="float32")
    tir.interpret(func, x, 4, 2.0)
    np.testing.assert_array_equal(x, [0, 2, 4, 6])


def test_simplify_of_a_body_uses_what_holds_where_a_buffer_is_defined():
    source = """
    @T.prim_func
    def main(n: T.int64, o: T.Buffer((1,), "int64")):
        T.func_attr({"tir.noalias": True})
        A = T.allocate((T.max(n, T.int64(4)) + 1 - 1,), "int64")
        if n > 4:
            A[n - 1] = n
            o[0] = A[n - 1]
        else:
            A[3] = n
            o[0] = A[3]
    """
    func = tir.transform.Simplify()(relax.IRModule({"main": from_source(source)}))["main"]
    tir.verify_well_formed(func)
    for n in (2, 9):
        out = np.zeros(1, "int64")
        tir.interpret(func, n, out)
        assert out[0] == n


def test_every_mutator_rewrites_a_buffer_where_it_is_defined():
    """A rewrite of the body alone leaves the parameters' buffers alone; a rewrite of the function follows them."""
    n, m = scale.params[1], tir.Var("m", "int64")

    class Renaming(tir.StmtExprMutator):
        def visit_Var(self, node):
            return m if node is n else node

    body = Renaming().visit(scale.body)
    (buffer,) = scale.buffer_map.values()
    assert tir.undefined_buffers(body) == [buffer]
    func = Renaming().visit(scale)
    tir.verify_well_formed(func)
    assert func.params[1] is m
    assert_structural_equal(func, scale)


def test_ir_transform_of_constants_keeps_the_buffer():
    def double(imm):
        return tir.IntImm(imm.dtype, imm.value * 2)

    A = tir.decl_buffer((4,), "int32", "A")
    body = tir.BufferStore(A, tir.IntImm("int32", 3), [1])
    made = tir.stmt_functor.ir_transform(body, None, double, ["tir.IntImm"])
    assert made.buffer is A
    assert made.value.value == 6


def test_renew_defs_renews_the_parameters():
    made = tir.stmt_functor.renew_defs(scale)
    assert_structural_equal(made, scale)
    assert not {*made.params} & {*scale.params}
    (old,), (new,) = scale.buffer_map.values(), made.buffer_map.values()
    assert new is not old
    assert new.data is not old.data
    tir.verify_well_formed(made)
    assert made.params[1].name == "n"


def test_renew_defs_renews_the_sizes_that_buffers_bind_and_shared_memory_once():
    n, p, q, data = (tir.Var("n", "int64"), tir.Var("p", "handle"), tir.Var("q", "handle"), tir.Var("d", "handle"))
    A, B = (tir.decl_buffer((n,), "float32", name, data=data) for name in "AB")
    func = tir.PrimFunc((p, q), tir.BufferStore(A, B[0], [0]), buffer_map={p: A, q: B})
    made = tir.stmt_functor.renew_defs(func)
    first, second = made.buffer_map.values()
    assert first.data is second.data is not data
    assert first.shape[0] is second.shape[0] is not n
    assert first.shape[0].nonnegative
    assert_structural_equal(made, func)


# ------------------------------------------------------------------ Range, IterVar, Let, const


def test_range_is_begin_and_end():
    r = tir.Range(64, 128)
    assert (r.min, r.extent) == (tir.IntImm("int32", 64), tir.IntImm("int32", 64))
    assert (int(tir.Range(5).min), int(tir.Range(5).extent)) == (0, 5)
    assert int(tir.Range.from_min_extent(64, 128).extent) == 128
    n = tir.Var("n", "int64")
    assert tir.Range(n, n + 4).extent.value == 4
    assert tir.Range(0, n).extent is n
    assert tir.Range(0, n).min.dtype == "int64"
    assert tir.Range(min=2, extent=n).extent is n
    assert structural_equal(tir.Range(2, 6), tir.Range.from_min_extent(2, 4))
    assert structural_equal(tir.Range(2, 6).replace(extent=tir.IntImm("int32", 1)), tir.Range(2, 3))
    assert_structural_equal(relax.ir.load_json(relax.ir.save_json(r)), r)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: tir.Range(), "Range needs its end"),
        (lambda: tir.Range(1, extent=4), "either begin and end, or min= and extent="),
        (lambda: tir.Range(0.5), "bounds of a Range are integers, found float32"),
        (lambda: tir.IterVar((0, 1, 2), "i"), "is a Range or \\(begin, end\\)"),
        (lambda: tir.IterVar((0, 8), "i", "Tensorized"), "spatial, reduce, scan, opaque or thread, found 'Tensorized'"),
        (lambda: tir.Let(tir.Var("x", "int32"), [1], 2), "expected a scalar expression, found list"),
        (lambda: tir.Let(3, 1, 2), "Let binds a Var, found int"),
        (lambda: tir.Let(tir.Var("x", "int32"), 1.5, 2), "Let: 1.5 is no int32, the dtype of x"),
        (lambda: tir.const(65505.0, "float16"), "65505.0 does not fit float16"),
        (lambda: tir.const(1e39, "float32"), "does not fit float32"),
        (lambda: tir.decl_buffer((4,)).access_ptr("x"), '"r", "w" or "rw"'),
        (lambda: tir.address_of(tir.Var("x", "int32")), "expected an element of a buffer"),
        (lambda: tir.decl_buffer((4,)).offset_of([1, 2]), "has 1 dimensions, found 2 indices"),
    ],
)
def test_clear_errors(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_iter_var_as_tvm_builds_it():
    i = tir.IterVar((0, 8), "i", 0)
    assert (i.var.name, i.var.dtype, i.iter_type, int(i.dom.extent)) == ("i", "int32", "spatial", 8)
    assert i.iter_type == tir.IterVar.DataPar
    assert tir.IterVar((2, 8), "k", 2).iter_type == tir.IterVar.CommReduce == "reduce"
    thread = tir.IterVar(None, "tx", "ThreadIndex", "threadIdx.x")
    assert (thread.iter_type, thread.thread_tag, thread.dom) == ("thread", "threadIdx.x", None)
    assert tir.IterVar(tir.Range(0, 4), tir.Var("j", "int64"), tir.IterVar.Ordered).dom.extent.dtype == "int64"


def test_let_takes_numbers():
    x, y = tir.Var("x", "int64"), tir.Var("y", "float32")
    let = tir.Let(x, 1, x + 1)
    assert structural_equal(let.value, tir.IntImm("int64", 1))
    assert let.dtype == "int64"
    assert tir.LetStmt(y, 2, tir.Evaluate(y)).value.dtype == "float32"
    assert tir.Let(x, 1, 5).body.dtype == "int32"


def test_const_keeps_the_dtype_of_a_numpy_scalar():
    for value, dtype in [
        (np.int64(1), "int64"), (np.int8(1), "int8"), (np.float64(1), "float64"), (np.float16(1), "float16"),
        (np.bool_(True), "bool"), (1, "int32"), (2**40, "int64"), (1.5, "float32"), (1e300, "float64"), (True, "bool"),
        (float("inf"), "float32"), (tir.IntImm("int16", 3), "int16"),
    ]:  # fmt: skip
        assert tir.const(value).dtype == dtype
    assert tir.const(65504.0, "float16").value == 65504
    assert tir.const(np.array(1, "int64")).dtype == "int64"  # an array without dimensions is a scalar
    # Beside an expression a number takes its dtype, as before.
    assert (tir.Var("x", "float32") + np.float64(1)).dtype == "float32"


# ------------------------------------------------------------------ buffers


def test_a_buffer_without_offset_equals_one_with_zero():
    def func(offset):
        p = tir.Var("p", "handle")
        buffer = tir.decl_buffer((4,), "float32", "A", elem_offset=offset)
        return tir.PrimFunc((p,), tir.BufferStore(buffer, 1.0, [0]), buffer_map={p: buffer})

    assert_structural_equal(func(None), func(0))
    assert structural_hash(func(None)) == structural_hash(func(tir.IntImm("int64", 0)))
    assert not structural_equal(func(None), func(1))


def test_buffer_methods():
    A = tir.decl_buffer((4, 8), "float32", "A")
    assert int(A.offset_of([1, 2])[0]) == 10
    assert [int(s) for s in A.get_flattened_buffer().shape] == [32]
    flat = tir.decl_buffer((4,))
    assert flat.get_flattened_buffer() is flat
    strided = tir.decl_buffer((4, 8), strides=(16, 1), elem_offset=4)
    assert int(strided.offset_of([1, 2])[0]) == 22
    assert [int(s) for s in strided.get_flattened_buffer().shape] == [64]
    ptr = A.access_ptr("rw", offset=8)
    assert (ptr.op.name, int(ptr.args[2]), int(ptr.args[3]), int(ptr.args[4])) == ("tir.tvm_access_ptr", 8, 24, 3)
    vectors = strided.access_ptr(1, content_lanes=4, offset=8)
    assert (str(vectors.args[0].dtype), int(vectors.args[2]), int(vectors.args[3])) == ("float32x4", 3, 14)
    assert A.vload([0, 4], "float32x4").dtype == "float32x4"
    assert A[1, 0:8:2].dtype == "float32x4"


def test_access_ptr_and_address_of_run():
    A = tir.decl_buffer((8,), "float64", "A")
    p = tir.Var("p", "handle")
    for pointer in (A.access_ptr("r", offset=2), tir.address_of(A[2])):
        call = tir.call_extern("float64", "first", pointer)
        func = tir.PrimFunc((p,), tir.BufferStore(A, call, [0]), buffer_map={p: A})
        x = np.arange(8, dtype="float64")
        tir.interpret(func, x, externs={"first": lambda memory: float(memory[0])})
        assert x[0] == 2
    # frexp(x, int*) of the C library writes through the pointer it is given.
    E = tir.decl_buffer((4,), "int32", "E")
    q = tir.Var("q", "handle")
    call = tir.call_extern("float64", "frexp", A[4], E.access_ptr("w", offset=3))
    func = tir.PrimFunc((p, q), tir.BufferStore(A, call, [0]), buffer_map={p: A, q: E})
    x, e = np.arange(8, dtype="float64"), np.zeros(4, "int32")
    x, e = compiled(func, x, e)
    assert (x[0], e.tolist()) == (0.5, [0, 0, 0, 3])
    outside = tir.call_extern("float64", "first", A.access_ptr("r", offset=9))
    with pytest.raises(IndexError, match="outside of memory"):
        tir.interpret(tir.PrimFunc((p,), tir.Evaluate(outside), buffer_map={p: A}), x, externs={"first": float})


def test_a_view_of_a_computed_pointer_is_refused_by_the_compiler():
    source = """
    @T.prim_func
    def main(A: T.Buffer((16,), "float32")):
        p: T.handle = T.tvm_access_ptr("float32", A.data, 0, 16, 1)
        B = T.decl_buffer((1000000,), data=p)
        A[0] = B[999999]
    """
    with pytest.raises(DiagnosticError, match="E5905.*buffer B views a computed pointer, p"):
        compiled(from_source(source), np.zeros(16, "float32"))
    with pytest.raises(ValueError, match="buffer B, a view of p, needs 4000000 bytes, but there are 64"):
        tir.interpret(from_source(source), np.zeros(16, "float32"))


# ------------------------------------------------------------------ functions, kinds of loops, the analyzer


def test_specialize_is_a_method():
    made = scale.specialize({scale.params[1]: 4})
    assert len(made.params) == 2
    assert "4" in made.script()
    assert_structural_equal(made, tir.specialize(scale, {scale.params[1]: 4}))


def test_for_kind_is_a_number():
    i = tir.Var("i", "int32")
    assert tir.ForKind.SERIAL == 0
    assert tir.ForKind.VECTORIZED == 2
    assert tir.For(i, 0, 4, 2, tir.Evaluate(0)).kind is tir.ForKind.VECTORIZED
    assert tir.For(i, 0, 4, "parallel", tir.Evaluate(0)).kind is tir.ForKind.PARALLEL
    loop = tir.For(i, 0, 4, tir.ForKind.UNROLLED, tir.Evaluate(0))
    assert_structural_equal(relax.ir.load_json(relax.ir.save_json(loop)), loop)
    for bad in ("fast", 9):
        with pytest.raises(ValueError, match="is not a valid ForKind"):
            tir.For(i, 0, 4, bad, tir.Evaluate(0))


def test_analyzer():
    analyzer = relax.prim.Analyzer()
    i, x = tir.Var("i", "int64"), tir.Var("x", "int32")
    analyzer.bind(i, tir.Range(0, 100))
    found = analyzer.modular_set(i * 6 + 10)
    assert (found.coeff, found.base) == (6, 4)
    constant = analyzer.modular_set(tir.IntImm("int32", 7))
    assert (constant.coeff, constant.base) == (0, 7)
    wrapping = analyzer.modular_set(x * 12 + 5)  # x * 12 may wrap around modulo 2**32
    assert (wrapping.coeff, wrapping.base) == (4, 1)
    anything = analyzer.modular_set(tir.Var("f", "float32"))
    assert (anything.coeff, anything.base) == (1, 0)
    assert analyzer.can_prove(i < 100, 1)
    assert analyzer.can_prove(i >= 0, strength=0)
