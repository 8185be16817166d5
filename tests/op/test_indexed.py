"""Operators that index, sort and contract: what is inferred of symbolic shapes, what is refused, and run-time checks."""

from __future__ import annotations

import numpy as np
import pytest

import relax
import relax.op as op
from relax.expr import PrimValue, Var
from relax.info.text import struct_info_text
from relax.ir import DiagnosticError
from relax.prim import SizeVar
from relax.prim import Var as PrimVar
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.struct_info import PrimStructInfo, TensorStructInfo
from support import PLAIN_LOOPS, numbers

n, m, k = (SizeVar(name, "int64") for name in "nmk")


def tensor(*dims, dtype: str = "float32", name: str = "x") -> Var:
    return Var(name, TensorStructInfo(dims, dtype))


def index(*dims) -> Var:
    return tensor(*dims, dtype="int64", name="i")


unknown = Var("u", TensorStructInfo(None, "float32"))


def shown(call) -> str:
    return struct_info_text(op.infer_call(call))


@pytest.mark.parametrize(
    "build, expected",
    [
        (lambda: op.gather_elements(tensor(n, 4), index(m, 3)), "(m, 3)"),
        (lambda: op.gather_nd(tensor(n, m, 4), index(k, 2)), "(k, 4)"),
        (lambda: op.gather_nd(tensor(n, m, 4), index(n, k, 1), batch_dims=1), "(n, k, 4)"),
        (lambda: op.index_tensor(tensor(n, m, 4), [index(k, 1), index(3)]), "(k, 3, 4)"),
        (lambda: op.scatter_elements(tensor(n, 4), index(m, 4), tensor(m, 4)), "(n, 4)"),
        (lambda: op.scatter_nd(tensor(n, 4), index(m, 1), tensor(m, 4)), "(n, 4)"),
        (lambda: op.index_put(tensor(n, 4), [index(m)], tensor(4)), "(n, 4)"),
        (lambda: op.slice_scatter(tensor(n, 4), tensor(n, 2), 1, 3, 1, axis=1), "(n, 4)"),
        (lambda: op.one_hot(index(n), 1.0, 0.0, 5).replace(), '(n, 5), "float64"'),
        (lambda: op.one_hot(index(n, m), PrimValue(T.float32(1)), PrimValue(T.float32(0)), k, axis=1), "(n, k, m)"),
        (lambda: op.sort(tensor(n, m), axis=0, descending=True), "(n, m)"),
        (lambda: op.topk(tensor(n, m), k, ret_type="values"), "(n, k)"),
        (lambda: op.topk(tensor(n, m), k=-1, ret_type="values"), "(n, m)"),
        (lambda: op.argsort(tensor(n, m)), '(n, m), "int32"'),
        (lambda: op.einsum([tensor(n, m), tensor(m, k)], "ij,jk->ki"), "(k, n)"),
        (lambda: op.einsum([tensor(n, m, 3)], "i...->..."), "(m, 3)"),
        (lambda: op.outer(tensor(n), tensor(m)), "(n, m)"),
        (lambda: op.collapse_sum_to(tensor(n, m), (1, m)), "(1, m)"),
        (lambda: op.collapse_sum_like(tensor(n, m), tensor(m, name="y")), "(m,)"),
        (lambda: op.repeat(tensor(n, m), k, axis=0), "(n * k, m)"),
        (lambda: op.tile(tensor(n), (m, k)), "(m, n * k)"),
        (lambda: op.layout_transform(tensor(n, m), lambda i, j: (j // 4, i, j % 4)), "((m + 3) // 4, n, 4)"),
        (lambda: op.strided_slice(tensor(n), [0], [0], [n], [k + 1]), "(0 - (0 - n) // (k + 1),)"),
        (lambda: op.dynamic_strided_slice(tensor(n, m), index(2), index(2), index(2)), 'dtype="float32", ndim=2'),
        (lambda: op.gather_nd(tensor(n, m), index(2, k)), 'dtype="float32"'),
        (lambda: op.einsum([unknown, tensor(n)], "ij,j->i"), 'dtype="float32"'),
        (lambda: op.einsum([tensor(n, m), tensor(k, 2)], "ij,kj->ij"), "(n, 2)"),
        (lambda: op.einsum([tensor(n, m), tensor(k, m)], "ij,ij->ij"), 'dtype="float32", ndim=2'),
    ],
)  # fmt: skip
def test_symbolic_shapes(build, expected):
    text = expected if '"' in expected else f'{expected}, "float32"'
    assert shown(build()) == f"R.Tensor({text})"


def test_topk_gives_both():
    assert shown(op.topk(tensor(n, 4), 2, dtype="int64")) == (
        'R.Tuple(R.Tensor((n, 2), "float32"), R.Tensor((n, 2), "int64"))'
    )


@pytest.mark.parametrize(
    "build, expected",
    [
        (
            lambda: op.gather_elements(tensor(2, 3), index(2)),
            "gather_elements: data and indices must have one number of dimensions, found 2 and 1",
        ),
        (
            lambda: op.gather_elements(tensor(2, 3), index(2, 4)),
            "gather_elements: dimension 1 of indices is 4, greater than 3 of data",
        ),
        (
            lambda: op.gather_elements(tensor(2), tensor(2)),
            "gather_elements: indices must be a tensor of signed integers or unsigned integers, found float32",
        ),
        (lambda: op.gather_elements(tensor(2), index(2), axis=1), "gather_elements: axis 1 is out of range"),
        (
            lambda: op.gather_nd(tensor(2), index(3, 2)),
            "gather_nd: the last size of indices is 2, but data has 1 dimensions to index",
        ),
        (lambda: op.gather_nd(tensor(2), index()), "gather_nd: indices must have at least one dimension"),
        (
            lambda: op.gather_nd(tensor(2, 3), index(4, 1), batch_dims=1),
            "gather_nd: dimension 0 of indices is 4, and of data 2",
        ),
        (
            lambda: op.gather_nd(tensor(2, 3), index(2, 1), batch_dims=2),
            "[E3102]: gather_nd: the last size of indices is 1, but data has 0 dimensions",
        ),
        (lambda: op.index_tensor(tensor(2), []), "index_tensor: indices must hold at least one tensor"),
        (
            lambda: op.index_tensor(tensor(2), [index(2), index(2)]),
            "index_tensor: indices holds 2 tensors, but data has 1 dimensions",
        ),
        (
            lambda: op.index_tensor(tensor(2), [tensor(2)]),
            "index_tensor: indices[0] must be a tensor of integers, found float32",
        ),
        (
            lambda: op.scatter_elements(tensor(4), index(2), tensor(3)),
            "scatter_elements: dimension 0 of updates is 3, and of indices 2",
        ),
        (
            lambda: op.scatter_elements(tensor(4), index(2), tensor(2), reduction="sum"),
            "scatter_elements: reduction: expected one of 'update', 'add', 'mul', 'mean', 'min', 'max', found 'sum'",
        ),
        (
            lambda: op.scatter_elements(tensor(4, dtype="bool"), index(2), tensor(2, dtype="bool"), reduction="mean"),
            "scatter_elements: booleans have no mean",
        ),
        (
            lambda: op.scatter_nd(tensor(4, 3), index(2, 1), tensor(2)),
            "scatter_nd: updates must have 2 dimensions, found 1",
        ),
        (
            lambda: op.scatter_nd(tensor(4, 3), index(2, 1), tensor(2, 4)),
            "scatter_nd: dimension 1 of updates is 4, and of what is indexed 3",
        ),
        (
            lambda: op.index_put(tensor(4), [index(2)], tensor(3)),
            "index_put: dimension 0 of values is 3, which does not broadcast to 2",
        ),
        (
            lambda: op.index_put(tensor(4), [index(2)], tensor(1, 2)),
            "index_put: values must have at most 1 dimensions, found 2",
        ),
        (
            lambda: op.slice_scatter(tensor(4), tensor(3), 0, 2, 1),
            "slice_scatter: dimension 0 of src is 3, and of the slice 2",
        ),
        (
            lambda: op.slice_scatter(tensor(4), tensor(3), 0, 2, -1),
            "slice_scatter: step must be a constant of 1 or more",
        ),
        (
            lambda: op.one_hot(index(2), 1, 0.5, 3),
            "one_hot: on_value and off_value must have one dtype, found int64 and float64",
        ),
        (lambda: op.one_hot(index(2), 1, 0, -3), "one_hot: depth must be 0 or more, found -3"),
        (
            lambda: op.reverse_sequence(tensor(2, 3), index(3)),
            "reverse_sequence: seq_lengths has 3 elements, and dimension 0 of data is 2",
        ),
        (
            lambda: op.reverse_sequence(tensor(2, 3), index(2), 0, 0),
            "reverse_sequence: seq_axis must be another axis than batch_axis, found 0",
        ),
        (lambda: op.topk(tensor(2, 3), 4), "topk: k is 4, more than the 3 elements along axis 1"),
        (lambda: op.topk(tensor(3), 2.0), "topk: k must be an integer, found float64"),
        (lambda: op.argsort(tensor(3), dtype="float32"), "argsort: dtype must be an integer dtype, found float32"),
        (lambda: op.sort(tensor(3), axis=1), "sort: axis 1 is out of range"),
        (
            lambda: op.einsum([tensor(2, 3), tensor(4, 2)], "ij,jk->ik"),
            "einsum: dimension 0 of operands[1] is 4, and dimension 1 of operands[0] is 3",
        ),
        (
            lambda: op.einsum([tensor(1, 3)], "ii->i"),
            "einsum: dimension 1 of operands[0] is 3, and dimension 0 of operands[0] is 1",
        ),
        (lambda: op.einsum([tensor(2, 3)], "ij,jk"), "einsum: subscripts 'ij,jk' name 2 operands, found 1"),
        (lambda: op.einsum([tensor(2, 3)], "i->i"), "einsum: subscripts 'i' name 1 dimensions, but operand 0 has 2"),
        (
            lambda: op.einsum([tensor(2, 3)], "ij->ik"),
            "einsum: subscripts 'ij->ik': no operand has the dimension 'k' of the result",
        ),
        (lambda: op.einsum([tensor(2, 3)], "ij->ii"), "einsum: subscripts 'ij->ii' name a dimension of the result"),
        (lambda: op.einsum([tensor(2, 3)], "i1"), "einsum: subscripts 'i1': dimensions are letters"),
        (lambda: op.outer(tensor(2, 3), tensor(2)), "outer: x1 must be a tensor of one dimension, found 2"),
        (
            lambda: op.collapse_sum_to(tensor(2, 3), (2, 2)),
            "collapse_sum_to: dimension 1 of shape is 2, to which 3 does not collapse",
        ),
        (
            lambda: op.collapse_sum_like(tensor(3), tensor(1, 3)),
            "collapse_sum_like: collapse_target has 2 dimensions, more than the 1 of data",
        ),
        (
            lambda: op.layout_transform(tensor(2, 3), lambda i: (i,)),
            "layout_transform: index_map takes 1 indices, but x has 2 dimensions",
        ),
        (
            lambda: op.layout_transform(tensor(4), lambda i: (i, i)),
            "layout_transform: the index map moves two elements to one place, or splits i unevenly",
        ),
        (
            lambda: op.layout_transform(tensor(4), lambda i: (i % 2,)),
            "layout_transform: the index map does not tell elements apart by the whole of index i",
        ),
        (
            lambda: op.layout_transform(tensor(4, 3), lambda i, j: (i * 2 + j,)),
            "layout_transform: the index i * 2 + j may be the same for two elements",
        ),
        (
            lambda: op.layout_transform(tensor(4, 3), lambda i, j: (i * j,)),
            "layout_transform: the index i * j is not a sum of indices, of their quotients",
        ),
        (lambda: op.layout_transform(tensor(4), 3), "index_map: expected an index map or a function, found int"),
        (
            lambda: op.layout_transform(tensor(4, dtype="int8"), lambda i: (i,), pad_value=300),
            "pad_value is the number 300, which x's dtype int8 does not hold",
        ),
        (
            lambda: op.layout_transform(tensor(4), lambda i: (i,), axis_separators=[1]),
            "layout_transform: axis_separators must be empty, found (1,)",
        ),
        (lambda: op.meshgrid([tensor(2, 3)]), "meshgrid: tensors[0] must have one dimension, found 2"),
        (
            lambda: op.dynamic_strided_slice(tensor(2, 3), index(1), index(2), index(2)),
            "dynamic_strided_slice: begin must have one element for each of 2 dimensions, found 1",
        ),
        (
            lambda: op.strided_slice(tensor(4), [0], [0], [4], [PrimVar("s", "int64")]),
            "strided_slice: strides must be constants",
        ),
    ],
)
def test_refused(build, expected):
    with pytest.raises(DiagnosticError) as error:
        op.infer_call(build())
    assert expected in str(error.value)


def test_kernels_of_index_tuples_of_a_dynamic_depth():
    """The formula needs the depth: there is a kernel for each that the program meets."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 3), "float32"), i: R.Tensor(("n", "d"), "int64")):
            return R.gather_nd(x, i)

    x = numbers(4, 3)
    run = relax.VirtualMachine(relax.build(Module, PLAIN_LOOPS))["main"]
    np.testing.assert_array_equal(run(x, np.array([[1], [3]])).numpy(), x[[1, 3]])
    np.testing.assert_array_equal(run(x, np.array([[1, 2]])).numpy(), x[[1], [2]])
    with relax.transform.PassContext(config={"relax.LegalizeOps.dispatch": False}):
        with pytest.raises(DiagnosticError, match="cannot legalize relax.gather_nd"):
            relax.transform.LegalizeOps()(Module)


# --------------------------------------------------------------------------------------------- at run time


def outcomes(module, *args):
    """The result of a program by the machine and by the interpreter: arrays, or the error."""
    machine = relax.VirtualMachine(relax.build(module, PLAIN_LOOPS), relax.cpu())
    for run in (machine["main"], lambda *values: relax.interpret(module, "main", *values)):
        try:
            result = run(*args)
        except (AssertionError, IndexError, ValueError, ZeroDivisionError) as error:
            yield error
        else:
            yield [part.numpy() for part in result] if isinstance(result, (list, tuple)) else result.numpy()


def test_duplicates_are_written_in_order():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), i: R.Tensor(("k",), "int64"), u: R.Tensor(("k",), "float32")):
            a = R.scatter_elements(x, i, u, axis=0, reduction="update")
            b = R.index_put(x, [i], u, accumulate=True)
            return a, b

    x, i, u = np.zeros(3, "float32"), np.array([1, 2, -2, 1]), np.array([1, 2, 3, 4], "float32")
    for last, total in outcomes(Module, x, i, u):
        np.testing.assert_array_equal(last, [0, 4, 2])
        np.testing.assert_array_equal(total, [0, 8, 2])
    for error in outcomes(Module, x, np.array([0, 1, 2, 3]), u):
        assert isinstance(error, IndexError)


def test_more_than_there_are():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), like: R.Tensor(("k",), "float32")):
            k = T.int64()
            return R.topk(x, k, ret_type="values")

    x = np.array([1, 3, 2], "float32")
    for result in outcomes(Module, x, x[:2]):
        np.testing.assert_array_equal(result, [3, 2])
    for error in outcomes(Module, x[:1], x[:2]):
        assert "elements along axis 0" in str(error)


def test_dynamic_slices():
    @I.ir_module
    class Module:
        @R.function
        def main(
            x: R.Tensor(("n", "m"), "float32"),
            begin: R.Tensor((2,), "int64"),
            end: R.Tensor((2,), "int64"),
            strides: R.Tensor((2,), "int64"),
        ):
            p, q = T.int64(), T.int64()
            y = R.dynamic_strided_slice(x, begin, end, strides)
            z = R.match_cast(y, R.Tensor((p, q), "float32"))
            return R.add(z, R.ones((p, q), "float32"))

    x = np.arange(20, dtype="float32").reshape(5, 4)
    bounds = np.array([-1, 0]), np.array([-9, 9]), np.array([-2, 3])
    for result in outcomes(Module, x, *bounds):
        np.testing.assert_array_equal(result, x[-1:-9:-2, 0:9:3] + 1)
    for error in outcomes(Module, x, *bounds[:2], np.array([0, 1])):
        assert isinstance(error, ValueError)
        assert "a stride must not be 0" in str(error)


def test_collapsing_to_sizes_that_only_the_run_time_knows():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), like: R.Tensor(("k", "l"), "float32")):
            return R.collapse_sum_like(x, like)

    x = np.arange(6, dtype="float32").reshape(2, 3)
    for shape in ((2, 3), (1, 3), (2, 1), (1, 1)):
        axes = tuple(d for d in range(2) if shape[d] == 1)
        for result in outcomes(Module, x, np.zeros(shape, "float32")):
            np.testing.assert_array_equal(result, x.sum(axes, keepdims=True))
    for error in outcomes(Module, x, np.zeros((2, 2), "float32")):
        assert "to which" in str(error)


def test_tiles_of_counts_that_the_data_tell():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32"), counts: R.Tensor((2,), "int64")):
            p, q = T.int64(), T.int64()
            y = R.tile(x, R.tensor_to_shape(counts))
            return R.match_cast(y, R.Tensor((p, q), "float32"))

    x = np.arange(6, dtype="float32").reshape(3, 2)
    for counts in ((2, 3), (1, 1), (0, 2)):
        for result in outcomes(Module, x, np.array(counts)):
            np.testing.assert_array_equal(result, np.tile(x, counts))


def test_symbolic_strides():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), like: R.Tensor(("k",), "float32")):
            n, k = T.int64(), T.int64()
            return R.strided_slice(x, [0], [1], [n], [k])

    x = np.arange(9, dtype="float32")
    for stride in (1, 2, 4, 20):
        for result in outcomes(Module, x, np.zeros(stride, "float32")):
            np.testing.assert_array_equal(result, x[1::stride])
    for error in outcomes(Module, x, x[:0]):
        assert isinstance(error, (AssertionError, ZeroDivisionError))


def test_scalars_keep_their_dtype():
    @I.ir_module
    class Module:
        @R.function
        def main(i: R.Tensor(("n",), "int64")):
            on, off = R.prim_value(T.float32(2)), R.prim_value(T.float32(-1))
            return R.one_hot(i, on, off, depth=2, axis=0)

    for result in outcomes(Module, np.array([1, -1, 0])):
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, [[-1, -1, 2], [2, -1, -1]])


def test_scalars_of_unknown_value():
    count = Var("c", PrimStructInfo("int64"))
    assert shown(op.repeat(tensor(n, 2), count, axis=0)) == 'R.Tensor(dtype="float32", ndim=2)'
    assert shown(op.topk(tensor(n, 2), count, ret_type="values")) == 'R.Tensor(dtype="float32", ndim=2)'
