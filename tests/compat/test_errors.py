"""Errors as a user of TVM catches them."""

from __future__ import annotations

import pytest

import relax
from relax.script import relax as R

X = relax.Var("x", R.Tensor((1, 4, 8, 8), "float32"))
W = relax.Var("w", R.Tensor((4, 4, 3, 3), "float32"))
I32 = relax.Var("i", R.Tensor((1, 4, 8, 8), "int32"))
WRONG = {
    "groups": lambda: relax.op.nn.conv2d(X, W, groups=0),
    "shapes": lambda: relax.op.matmul(X, W),
    "dtypes": lambda: relax.op.add(X, I32),
    "kind": lambda: relax.op.exp(relax.ShapeExpr([2])),
    "nested": lambda: relax.op.exp(relax.op.nn.conv2d(X, W, groups=0)),
    "axis": lambda: relax.op.sum(X, axis=7),
    "operator": lambda: X + I32,
    "elements": lambda: relax.op.reshape(X, (7,)),
    "broadcast": lambda: relax.op.broadcast_to(X, (5,)),
    "collapse": lambda: relax.op.collapse_sum_to(X, (7,)),
    "size": lambda: relax.op.zeros((-1,), "float32"),
    "after a reshape": lambda: relax.op.matmul(relax.op.reshape(X, (16, 16)), relax.op.ones((3, 3), "float32")),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("kind", [TypeError, ValueError, relax.TVMError, relax.DiagnosticError])
def test_a_wrong_call_is_refused_where_it_is_made(what, kind):
    with pytest.raises(kind, match="error\\[E310"):
        WRONG[what]()


def test_the_error_is_the_one_of_the_builder():
    with pytest.raises(relax.DiagnosticError) as at_once:
        relax.op.nn.conv2d(X, W, groups=0)
    [found] = at_once.value.diagnostics
    assert found.message.startswith("nn.conv2d: groups must be")
    assert found.notes[0].startswith("x: R.Tensor((1, 4, 8, 8)")


def test_a_call_of_what_is_not_known_yet_waits():
    y = relax.Var("y")
    call = relax.op.nn.conv2d(y, W, groups=0)
    bb = relax.BlockBuilder()
    with bb.testing_scope(), pytest.raises(relax.TVMError, match="E3105"):
        bb.emit(relax.Call(call.op, [X, W], call.attrs))


def test_a_script_reports_all_its_errors():
    text = """
from relax.script import relax as R

@R.function
def main(x: R.Tensor((2, 3), "float32")):
    y = R.matmul(x, x)
    z = R.sum(x, axis=3)
    return x
"""
    with pytest.raises(relax.TVMError) as caught:
        relax.script.from_source(text)
    assert [d.code for d in caught.value.diagnostics] == ["E3102", "E3104"]
