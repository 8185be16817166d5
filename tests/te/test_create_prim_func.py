"""Tensor expressions become PrimFuncs of blocks."""

from __future__ import annotations

import pytest

from relax import te, tir
from relax.ir import DiagnosticError, structural_equal
from relax.script import from_source
from relax.tir import Block, For, PrimFunc
from support import nodes


def blocks_of(func: PrimFunc) -> dict[str, Block]:
    return {block.name_hint: block for block in nodes(func, Block)}


def matmul(n, m, k, dtype="float32"):
    a = te.placeholder((n, k), dtype, "A")
    b = te.placeholder((k, m), dtype, "B")
    r = te.reduce_axis((0, k), "k")
    return a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), "C")


def test_elementwise():
    a = te.placeholder((4, 5), name="A")
    func = te.create_prim_func([a, te.compute((4, 5), lambda i, j: a[i, j] + 1.0, "B")])
    assert func.attrs == {"global_symbol": "main", "tir.noalias": True}
    assert [p.name for p in func.params] == ["var_A", "var_B"]
    block = blocks_of(func)["B"]
    assert [v.iter_type for v in block.iter_vars] == ["spatial", "spatial"]
    assert [r.buffer.name for r in block.reads] == ["A"]
    assert [r.buffer.name for r in block.writes] == ["B"]


def test_reduction_has_init_and_does_not_read_its_output():
    func = te.create_prim_func(list(matmul(4, 5, 6)))
    block = blocks_of(func)["C"]
    assert [v.iter_type for v in block.iter_vars] == ["spatial", "spatial", "reduce"]
    assert block.init is not None
    assert [r.buffer.name for r in block.reads] == ["A", "B"]


def test_equal_formulas_give_equal_functions():
    assert structural_equal(te.create_prim_func(list(matmul(4, 5, 6))), te.create_prim_func(list(matmul(4, 5, 6))))
    assert not structural_equal(te.create_prim_func(list(matmul(4, 5, 6))), te.create_prim_func(list(matmul(4, 6, 5))))


def test_intermediate_is_allocated_in_the_root_block():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] * 2.0, "B")
    c = te.compute((4,), lambda i: b[i] + 1.0, "C")
    found = blocks_of(te.create_prim_func([a, c]))
    assert [b.name for b in found["root"].alloc_buffers] == ["B"]
    assert list(found) == ["B", "C", "root"]


def test_symbolic_size_is_bound_by_the_buffer_of_a_parameter():
    n = te.var("n", "int64")
    a = te.placeholder((n,), name="A")
    func = te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0, "B")])
    assert len(func.params) == 2
    assert n.nonnegative
    assert not tir.undefined_vars(func)


def test_unbound_variable_becomes_a_parameter_before_the_outputs():
    n = te.var("n", "int64")
    a = te.placeholder((2 * n,), name="A")
    func = te.create_prim_func([a, te.compute((2 * n,), lambda i: a[i] + 1.0, "B")])
    assert [p.name for p in func.params] == ["var_A", "n", "var_B"]


def test_scalar_argument_stands_where_it_is_given():
    n = te.var("n", "int64")
    a = te.placeholder((4,), name="A")
    func = te.create_prim_func([n, a, te.compute((4,), lambda i: a[i] + n.astype("float32"), "B")])
    assert [p.name for p in func.params] == ["n", "var_A", "var_B"]


def test_equal_names_give_distinct_blocks():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] * 2.0, "T")
    c = te.compute((4,), lambda i: b[i] + 1.0, "T")
    assert {"T", "T_1"} <= set(blocks_of(te.create_prim_func([a, c])))


def test_several_outputs():
    a = te.placeholder((4,), name="A")
    b, c = te.compute((4,), lambda i: (a[i] + 1.0, a[i] > 0.0), "BC")
    assert (b.dtype, c.dtype) == ("float32", "bool")
    assert len(te.create_prim_func([a, b, c]).params) == 3


def test_argmax_keeps_all_results_of_one_step_together():
    a = te.placeholder((3, 7), name="A")

    def combine(x, y):
        keep = te.any(x[1] > y[1], te.all(x[1].equal(y[1]), x[0] < y[0]))
        return te.Select(keep, x[0], y[0]), te.Select(keep, x[1], y[1])

    argmax = te.comm_reducer(combine, lambda i, v: (te.const(-1, i), te.min_value(v)), "argmax")
    k = te.reduce_axis((0, 7), "k")
    index, value = te.compute((3,), lambda i: argmax((k.asobject(), a[i, k]), axis=k), "argmax")
    block = blocks_of(te.create_prim_func([a, index, value]))["argmax"]
    assert isinstance(block.body, tir.LetStmt)
    assert [r.buffer.name for r in block.writes] == ["argmax_v0", "argmax_v1"]


def test_tensor_without_dimensions():
    a = te.placeholder((), name="A")
    b = te.compute((), lambda: a() + 1.0, "B")
    c = te.compute((4,), lambda i: te.exp(b), "C")  # a scalar tensor stands for its element
    func = te.create_prim_func([a, c])
    assert len(blocks_of(func)["B"].iter_vars) == 1


def test_zero_sizes():
    func = te.create_prim_func(list(matmul(0, 5, 0)))
    assert [int(loop.extent) for loop in nodes(func, For)] == [0, 5, 0]
    with pytest.raises(ValueError, match="a dimension must be ≥ 0, found -1"):
        te.placeholder((-1,))


def test_index_dtype_override():
    n = te.var("n")
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] + (i * 4 + j).astype("float32"), "B")
    func = te.create_prim_func([a, b], index_dtype_override="int64")
    assert {loop.loop_var.dtype for loop in nodes(func, For)} == {"int64"}
    assert func.buffer_map[func.params[0]].shape[0].dtype == "int64"


def test_extern():
    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], lambda ins, outs: tir.call_extern("int32", "f", ins[0].data, outs[0].data), "B")
    block = blocks_of(te.create_prim_func([a, b]))["B"]
    assert [r.buffer.name for r in block.reads] == ["A"]
    assert not tir.undefined_vars(te.create_prim_func([a, b]))


def test_a_list_of_one_statement():
    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], lambda ins, outs: [tir.BufferStore(outs[0], ins[0][0], [0])], "B")
    func = te.create_prim_func([a, b])
    assert structural_equal(from_source(func.script()), func)


def test_slices_and_axes_are_scalars():
    a = te.placeholder((4, 5), name="A")
    assert structural_equal(a[1][2], a[1, 2])
    k = te.reduce_axis((1, 5), "k")
    assert (k + 1).dtype == "int64"
    assert isinstance(k == 1, tir.EQ)
    assert isinstance(te.var("i", "int64") == k, tir.EQ)
    assert isinstance(2 * k, tir.Mul)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda a, k: te.compute((4,), lambda i: a[i, 0], "B"), "has 1 dimensions, found 2 indices"),
        (lambda a, k: te.compute((4,), lambda i, j: a[i], "B"), "fcompute takes 2 indices, but the shape has 1"),
        (lambda a, k: te.compute((), lambda: te.sum(a[k], axis=k) + 1.0, "B"), "inside a larger expression"),
        (lambda a, k: te.sum(a[k], axis=te.var("i")), "axis must be made by te.reduce_axis"),
        (lambda a, k: te.compute((4,), lambda i: a[1.5], "B"), "has dtype float32, expected an integer"),
        (lambda a, k: te.exp(a), "is no scalar"),
    ],
)
def test_bad_formulas(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(te.placeholder((4,), name="A"), te.reduce_axis((0, 4), "k"))


def test_missing_input():
    a = te.placeholder((4,), name="A")
    with pytest.raises(DiagnosticError, match="E5001.*the input A is read, but is not among the arguments"):
        te.create_prim_func([te.compute((4,), lambda i: a[i], "B")])
