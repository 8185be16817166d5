"""Which sizes of a call become variables of its kernel, and which stay."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.codegen import resolve
from relax.expr import Call
from relax.library import FORM, CallLibrary, Library
from relax.library.general import CallSizes
from relax.library.kernels import most_general
from relax.op import operator_of
from relax.rewrite import bindings_in
from relax.tir import PrimFunc
from relax.transform import Normalize
from support import main, same

LIBRARY = Library(resolve("llvm"))


def the_call(mod):
    """The one call of `main`, with its operator and its sizes."""
    (call,) = [b.value for b in bindings_in(Normalize()(mod)["main"]) if isinstance(b.value, Call)]
    operator = operator_of(call)
    return call, operator, CallSizes.of(call, operator)


def partition(expression, params):
    """The partition of a call: equal numbers are one variable, and -1 stays."""
    return most_general(*the_call(main(f"y = {expression}\nreturn y", params)))


CONV = 'x: R.Tensor((1, 64, 56, 56), "float32"), w: R.Tensor((128, 64, 3, 3), "float32")'


def test_channels_that_must_be_equal_share_a_variable_and_sizes_that_happen_to_be_do_not():
    n, c, h, w, k, c_again, *window = partition("R.nn.conv2d(x, w, padding=1)", CONV)
    assert c == c_again
    assert len({n, c, h, w, k}) == 5
    assert window == [-1, -1]


@pytest.mark.parametrize(
    ("expression", "params", "expected"),
    [
        ("R.nn.relu(x)", 'x: R.Tensor((56, 56), "float32")', (0, 1)),
        ("R.nn.relu(x)", 'x: R.Tensor((1, 4), "float32")', (0, 1)),
        ("R.nn.relu(x)", 'x: R.Tensor((0, 4), "float32")', (-1, 0)),
        ("R.add(x, y)", 'x: R.Tensor((4, 5), "float32"), y: R.Tensor((4, 5), "float32")', (0, 1, 0, 1)),
        ("R.add(x, y)", 'x: R.Tensor((4, 4), "float32"), y: R.Tensor((1, 4), "float32")', (0, 1, -1, 1)),
        ("R.matmul(x, y)", 'x: R.Tensor((4, 4), "float32"), y: R.Tensor((4, 4), "float32")', (0, 1, 1, 2)),
        ("R.matmul(x, y)", 'x: R.Tensor((1, 4), "float32"), y: R.Tensor((4, 4), "float32")', (-1, 0, 0, 1)),
        ("R.add(x, y)", 'x: R.Tensor((4, 4), "float32"), y: R.Tensor((4, 4), "float32")', (0, 1, 0, 1)),
        ("R.add(x, y)", 'x: R.Tensor((4, 4, 4), "float32"), y: R.Tensor((4, 4), "float32")', (0, 1, 2, 1, 2)),
        ("R.matmul(x, y)", 'x: R.Tensor((4, 4, 4), "float32"), y: R.Tensor((4, 4, 4), "float32")', (0, 1, 2, 0, 2, 3)),
        (
            "R.concat((x, x, y), axis=1)",
            'x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")',
            (0, 1, 0, 2, 0, 3),
        ),
        ("R.concat((x, y), axis=0)", 'x: R.Tensor((2, 2), "float32"), y: R.Tensor((2, 2), "float32")', (0, 1, 2, 1)),
        ("R.strided_slice(x, [0], [2], [3], assume_inbound=True)", 'x: R.Tensor((5, 4), "float32")', (0, 1, 2, 3)),
    ],
)
def test_partition(expression, params, expected):
    assert partition(expression, params) == expected


def test_a_reshape_checks_the_number_of_elements_no_more_often_than_the_call():
    assert partition("R.reshape(x, (3, 8))", 'x: R.Tensor((4, 6), "float32")') == (0, 1, 2, 3)
    mod = main("y = R.reshape(x, (n * 6,))\nreturn y", 'x: R.Tensor(("n", 6), "float32")')
    x = np.arange(12, dtype="float32").reshape(2, 6)
    same(relax.interpret(CallLibrary(LIBRARY)(Normalize()(mod)), "main", x), x.reshape(12))


def test_a_squeeze_has_no_general_form_where_its_rank_depends_on_sizes():
    assert LIBRARY.entry(*the_call(main("y = R.squeeze(x)\nreturn y", 'x: R.Tensor((1, 4), "float32")'))) is None


@pytest.mark.parametrize("params", ['x: R.Tensor("float32", ndim=2)', 'x: R.Tensor(("n", 2))'])
def test_operands_of_unknown_shape_or_dtype_have_no_sizes(params):
    assert the_call(main("y = R.nn.relu(x)\nreturn y", params))[2] is None


def test_depthwise_convolutions_of_any_number_of_channels_share_a_kernel():
    keys = set()
    for channels in (8, 96):
        mod = main(
            f"y = R.nn.conv2d(x, w, padding=1, groups={channels})\nreturn y",
            f'x: R.Tensor((2, {channels}, 9, 7), "float32"), w: R.Tensor(({channels}, 1, 3, 3), "float32")',
        )
        called = CallLibrary(LIBRARY)(Normalize()(mod))
        keys |= {func.attrs[FORM] for func in called.functions.values() if isinstance(func, PrimFunc)}
    assert len(keys) == 1


X = np.arange(12, dtype="float32").reshape(3, 4)


@pytest.mark.parametrize(
    "expression",
    [
        "R.strided_slice(x, [1], [-3], [-1])",
        "R.strided_slice(x, [1], [-1], [-5], [-1])",
        "R.strided_slice(x, [1], [-1], [-m - 1], [-1])",
        "R.strided_slice(x, [1], [m - 3], [m - 6 + T.int64(4)])",
        "R.strided_slice(x, [0], [1], [9223372036854775807])",
        "R.take(x, R.prim_value(n - m), axis=0)",
        "R.full(R.shape([n]), R.prim_value(n - m), 'int64')",
        "R.maximum(R.astype(x, 'int64'), R.prim_value(n - m - n))",
        "R.abs(R.full(R.shape([n]), R.prim_value(n - m), 'int64'))",
        "R.clip(x, R.prim_value(T.Cast('float32', m - n)), R.prim_value(T.float32(3)))",
    ],
)
def test_scalars_may_be_negative(expression):
    mod = main(f"y = {expression}\nreturn y", 'x: R.Tensor(("n", "m"), "float32")')
    program = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1", tier="now"))
    same(program["main"](X), relax.interpret(mod, "main", X))
