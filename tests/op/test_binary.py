"""Binary operators: literals, broadcasting of symbolic shapes, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import relax.op as op
from relax.expr import Constant, PrimValue, Var
from relax.ir import DiagnosticError
from relax.prim import Var as PrimVar
from relax.prim import evaluate, mark_nonnegative
from relax.prim.intrin import min as minimum
from relax.struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo


def size(name: str) -> PrimVar:
    var = PrimVar(name, "int64")
    mark_nonnegative(var)
    return var


n, m = size("n"), size("m")


def tensor(name: str, dims, dtype: str = "float32", **kw) -> Var:
    return Var(name, TensorStructInfo(dims, dtype, **kw))


x = tensor("x", (n, 4))


def shown(call) -> str:
    return relax_text(op.infer_call(call))


def relax_text(info) -> str:
    from relax.info.text import struct_info_text

    return struct_info_text(info)


# ------------------------------------------------------------------------------------------------ literals


@pytest.mark.parametrize(
    "dtype, value", [("float32", 2), ("float16", 0.5), ("int8", -128), ("uint8", 255), ("int64", 2**40)]
)
def test_a_number_takes_the_dtype_beside_it(dtype, value):
    call = op.add(tensor("x", (3,), dtype), value)
    literal = call.args[1]
    assert isinstance(literal, Constant)
    assert literal.dtype == dtype
    assert literal.data.shape == ()
    assert literal.data.item() == value
    assert op.infer_call(call).dtype == dtype


def test_numbers_on_the_left_and_through_nested_calls():
    call = 1 - (x * 2 + 1) / 4
    assert call.args[0].dtype == "float32"
    assert shown(call) == 'R.Tensor((n, 4), "float32")'


def test_python_operators():
    i = tensor("i", (n,), "int32")
    calls = {
        "add": x + 1,
        "subtract": x - 1,
        "multiply": x * 2,
        "divide": x / 2,
        "floor_divide": i // 2,
        "mod": i % 2,
        "power": x**2,
        "less": x < 0,
        "less_equal": x <= 0,
        "greater": x > 0,
        "greater_equal": x >= 0,
        "negative": -x,
        "astype": x.astype("int8"),
        "matmul": x @ tensor("w", (4, 2)),
    }
    for name, call in calls.items():
        assert call.op.name == f"relax.{name}"
    assert shown(calls["less"]) == 'R.Tensor((n, 4), "bool")'
    assert shown(calls["astype"]) == 'R.Tensor((n, 4), "int8")'
    assert shown(calls["matmul"]) == 'R.Tensor((n, 2), "float32")'


def test_numpy_scalars_and_arrays_keep_their_dtype():
    assert op.add(tensor("x", (3,), "float64"), np.float64(1)).args[1].dtype == "float64"
    with pytest.raises(DiagnosticError, match="x1 and x2 must have one dtype, found float32 and float64"):
        op.infer_call(op.add(x, np.float64(1)))


def test_scalars_of_the_program():
    i = tensor("i", (n,), "int64")
    assert shown(op.multiply(i, n)) == 'R.Tensor((n,), "int64")'
    assert isinstance(op.multiply(i, n).args[1], PrimValue)
    assert shown(op.multiply(i, Var("p", PrimStructInfo("int64")))) == 'R.Tensor((n,), "int64")'


@pytest.mark.parametrize(
    "build, expected",
    [
        (lambda: op.add(1, 2), "error[E3101]: add: one operand must be a tensor"),
        (lambda: tensor("i", (2,), "int8") + 200, "x2 is the number 200, which x1's dtype int8 does not hold"),
        (lambda: tensor("i", (2,), "int32") * 0.5, "x2 is the number 0.5, which x1's dtype int32 does not hold"),
        (
            lambda: tensor("h", (2,), "float16") + 1e6,
            "x2 is the number 1000000.0, which x1's dtype float16 does not hold",
        ),
        (lambda: tensor("b", (2,), "bool") + 1, "which x1's dtype bool does not hold"),
        (lambda: tensor("u", None, "") + 1, "x2 is the number 1, and the dtype of x1 is not known"),
        (lambda: Var("v", ObjectStructInfo()) + 1, "write relax.const(1, dtype), or match_cast x1"),
        (lambda: op.add(x, "1"), "add: x2 must be a tensor or a scalar, found str '1'"),
    ],
)
def test_bad_literals(build, expected):
    with pytest.raises(DiagnosticError) as error:
        op.infer_call(build())
    assert expected in str(error.value)


# -------------------------------------------------------------------------------------------- broadcasting


@pytest.mark.parametrize(
    "a, b, expected",
    [
        ((n, 4), (4,), "(n, 4)"),
        ((n, 1), (1, m), "(n, m)"),
        ((n + 1,), (1 + n,), "(n + 1,)"),
        ((2 * n, 3), (n + n, 1), "(2 * n, 3)"),
        ((n,), (), "(n,)"),
        ((4,), (n,), "(4,)"),
        ((n + 2,), (m,), "(n + 2,)"),
        ((0,), (1,), "(0,)"),
    ],
)
def test_symbolic_shapes(a, b, expected):
    assert shown(op.add(tensor("a", a), tensor("b", b))) == f'R.Tensor({expected}, "float32")'


cut = minimum(m + n, 64)


@pytest.mark.parametrize(
    "a, b, expected",
    [
        ((n,), (minimum(n, 64),), "(n,)"),  # a table of 64 rows, cut to n: where n is 1, so is the cut
        ((minimum(m + n, 64),), (m + n,), "(m + n,)"),
        ((n + 1,), (minimum(n, 8) + 1,), "(n + 1,)"),
        # The rows m to m + n of a table of 64: they are n if the columns fit.
        ((cut - minimum(m, 64), cut), (n, m + n), "(n, m + n)"),
    ],
)
def test_a_size_that_the_other_is_cut_from(a, b, expected):
    for left, right in ((a, b), (b, a)):
        assert shown(op.add(tensor("a", left), tensor("b", right))) == f'R.Tensor({expected}, "float32")'


@pytest.mark.parametrize(
    "a, b",
    [
        ((n,), (minimum(n, 1),)),  # n may be 1 or not, min(n, 1) is 1 or 0
        ((n,), (minimum(m, n),)),  # where n is 1 and m is 0, the result is empty
        ((cut - minimum(m, 64),), (n,)),  # nothing says that the rows fit
    ],
)
def test_a_size_that_may_be_stretched(a, b):
    known = op.infer_call(op.add(tensor("a", a), tensor("b", b))).dims
    for values in ({n: 0, m: 0}, {n: 1, m: 0}, {n: 1, m: 70}, {n: 3, m: 1}, {n: 1, m: 1}):
        sizes = [evaluate(dims[0], values) for dims in (a, b)]
        if sizes[0] == sizes[1] or 1 in sizes:
            (right,) = np.broadcast_shapes(*((size,) for size in sizes))
            assert known is None or evaluate(known[0], values) == right


def test_a_shape_that_cannot_be_known_keeps_its_rank():
    assert shown(op.add(tensor("a", (n, 4)), tensor("b", (m, 4)))) == 'R.Tensor(dtype="float32", ndim=2)'
    assert shown(op.add(x, tensor("b", None, ndim=3))) == 'R.Tensor(dtype="float32", ndim=3)'
    assert shown(op.add(x, tensor("b", None))) == 'R.Tensor(dtype="float32")'


def test_a_shape_variable_is_kept():
    from relax.struct_info import ShapeStructInfo

    shape = Var("s", ShapeStructInfo(ndim=2))
    a, b = (Var(name, TensorStructInfo(shape, "float32")) for name in "ab")
    assert op.infer_call(a + b).shape is shape
    assert op.infer_call(a + 1).shape is shape
    assert op.infer_call(op.exp(a)).shape is shape


def test_dtype_of_one_operand_is_enough():
    assert op.infer_call(op.add(x, tensor("u", (4,), ""))).dtype == "float32"
    assert op.infer_call(op.equal(tensor("u", (4,), ""), tensor("v", (4,), ""))).dtype == "bool"


def test_shapes_that_differ():
    with pytest.raises(DiagnosticError) as error:
        op.infer_call(op.add(x, tensor("b", (n, 3))))
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.span.source.name == __file__  # where the user called the operator
    assert dataclasses.replace(diagnostic, span=None).render() == (
        "error[E3102]: add: the shapes cannot be broadcast\n"
        '  = x: R.Tensor((n, 4), "float32")    last dimension 4\n'
        '  = b: R.Tensor((n, 3), "float32")    last dimension 3\n'
        "  = help: sizes must be equal, or one of them 1; expand_dims or reshape an operand, "
        "or match_cast it if its shape is only known at run time"
    )


@pytest.mark.parametrize(
    "call, expected",
    [
        (lambda: op.add(x, tensor("b", (n + 1, 1))), None),
        (lambda: op.add(tensor("a", (n + 2,)), tensor("b", (n + 3,))), "last dimension n + 2"),
        (lambda: op.add(tensor("a", (2, 4)), tensor("b", (3, 1))), "dimension 2 from the end 2"),
        (lambda: op.add(x, tensor("b", (4,), "float16")), 'cast one of them: R.astype(b, "float32")'),
        (lambda: op.concat([x, tensor("b", (4,), "int8")]), 'cast one of them: R.astype(b, "float32")'),
        (lambda: op.bitwise_and(x, x), "a tensor of signed integers or unsigned integers or bool, found float32"),
        (lambda: op.left_shift(x, x), "left_shift: x1 must be a tensor of signed integers or unsigned"),
        (lambda: op.mod(tensor("b", (2,), "bool"), tensor("c", (2,), "bool")), "mod: x1 must be a tensor of"),
        (lambda: op.add(x, Var("s", relax_shape())), "add: x2 must be a tensor or a scalar, found a shape"),
    ],
)
def test_refused(call, expected):
    if expected is None:  # n + 1 may be equal to n only if one of them is 1: not decided
        op.infer_call(call())
        return
    with pytest.raises(DiagnosticError) as error:
        op.infer_call(call())
    assert expected in str(error.value)


def relax_shape():
    from relax.struct_info import ShapeStructInfo

    return ShapeStructInfo((1,))
