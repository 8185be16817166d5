"""The text by which calls of one general form are recognised."""

from __future__ import annotations

import pytest

from relax.expr import Call
from relax.library.general import CallSizes
from relax.op import operator_of
from relax.prim import IntImm
from relax.rewrite import bindings_in
from relax.transform import Normalize
from support import main


def sizes(expression, params):
    mod = Normalize()(main(f"y = {expression}\nreturn y", params))
    (call,) = [b.value for b in bindings_in(mod["main"]) if isinstance(b.value, Call)]
    return CallSizes.of(call, operator_of(call))


def tensor(*dims, dtype="float32"):
    return f'x: R.Tensor({dims!r}, "{dtype}")'


def test_other_sizes_have_the_same_key():
    assert sizes("R.nn.relu(x)", tensor(3, 4)).key == sizes("R.nn.relu(x)", tensor(7, 9)).key
    assert sizes("R.nn.relu(x)", tensor(3, 4)).key == sizes("R.nn.relu(x)", tensor("n", "m")).key


@pytest.mark.parametrize(
    ("expression", "params"),
    [
        ("R.nn.relu(x)", tensor(3, 3)),
        ("R.nn.relu(x)", tensor(3, 1)),
        ("R.nn.relu(x)", tensor(3, 0)),
        ("R.nn.relu(x)", tensor(3, 4, 5)),
        ("R.nn.relu(x)", tensor(3, 4, dtype="float64")),
        ("R.nn.gelu(x)", tensor(3, 4)),
        ("R.nn.softmax(x, axis=0)", tensor(3, 4)),
    ],
)
def test_what_differs_in_more_has_another_key(expression, params):
    assert sizes(expression, params).key != sizes("R.nn.relu(x)", tensor(3, 4)).key


def test_constant_numbers_belong_to_the_key_and_sizes_of_slices_do_not():
    assert sizes("R.clip(x, 0, 6)", tensor(3, 4)).key != sizes("R.clip(x, 0, 5)", tensor(3, 4)).key
    first, second = (sizes(f"R.strided_slice(x, [0], [2], [{end}])", tensor(30, 4)) for end in (7, 8))
    assert first.key == second.key
    assert first.key != sizes("R.strided_slice(x, [0], [-2], [7])", tensor(30, 4)).key


def test_values_are_those_of_the_call():
    operands = sizes("R.nn.relu(x)", tensor(3, 4))
    assert [size.value for size in operands.arguments(operands.classes) if isinstance(size, IntImm)] == [3, 4]


def test_scalars_that_may_be_negative_are_signed():
    assert not sizes("R.full(R.shape([n]), R.prim_value(n + 1), 'int64')", tensor("n")).signed
    assert sizes("R.full(R.shape([n]), R.prim_value(n - 2), 'int64')", tensor("n")).signed
