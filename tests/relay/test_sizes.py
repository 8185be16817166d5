"""Symbolic sizes of other dtypes than int64: types inferred, their text, and the translation to Relax."""

from __future__ import annotations

import pytest

from relax import IRModule, relay, tir

N, M = tir.Var("n", "int32"), tir.Var("m", "int64")
X = relay.var("x", shape=(N, 3))

CALLS = {
    "exp": (relay.exp(X), (N, 3)),
    "sum": (relay.sum(X, axis=1), (N,)),
    "concatenate": (relay.concatenate([X, X], 0), (N * 2, 3)),
    "reshape": (relay.reshape(X, (-1,)), (N * 3,)),
    "reshape to a size": (relay.reshape(X, (3, N)), (3, N)),
    "zeros": (relay.zeros((N, 3)), (N, 3)),
    "broadcast_to": (relay.broadcast_to(relay.const(1.0), (N, 2)), (N, 2)),
    "nn.dense": (relay.nn.dense(X, relay.var("w"), units=4), (N, 4)),
    "nn.prelu": (relay.nn.prelu(relay.var("y", shape=(2, N, 4)), relay.var("alpha")), (2, N, 4)),
    "nn.max_pool2d": (relay.nn.max_pool2d(relay.var("i", shape=(N, 3, 4, 4)), 2, 2), (N, 3, 2, 2)),
    "of two dtypes": (relay.concatenate([X, relay.var("y", shape=(M, 3))], 0), (N.astype("int64") + M, 3)),
    "computed": (relay.exp(relay.var("y", shape=(2, N * 2 + 1, N + M))), (2, N * 2 + 1, N + M)),
    "int8": (relay.exp(relay.var("y", shape=(tir.Var("k", "int8"), 2))), None),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_result_is_in_the_sizes_of_its_operands(name):
    call, shape = CALLS[name]
    expected = call.args[0].type_annotation if shape is None else relay.TensorType(shape)
    assert relay.infer_type(call).checked_type == expected


@pytest.mark.parametrize("name", CALLS)
def test_inferred_types_have_text(name):
    call, _ = CALLS[name]
    type_ = relay.infer_type(call).checked_type
    again = relay.parse_type(str(type_))
    assert str(again) == str(type_)
    assert [dim.dtype for dim in again.shape] == [dim.dtype for dim in type_.shape]


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((N * 2, 1 + N), "(n.int32 * 2, 1 + n.int32)"),
        ((N.astype("int64"), M.astype("int32")), "(int64(n.int32), int32(m))"),
        ((N + M,), "(int64(n.int32) + m)"),
        ((tir.max(N, 5), tir.floordiv(N, 2)), "(max(n.int32, 5), floordiv(n.int32, 2))"),
    ],
)
def test_numbers_and_casts_keep_the_dtype(shape, text):
    type_ = relay.TensorType(shape)
    assert str(type_) == f"Tensor[{text}, float32]"
    again = relay.parse_type(str(type_))
    assert str(again) == str(type_)
    assert [dim.dtype for dim in again.shape] == [dim.dtype for dim in type_.shape]


def test_sizes_of_two_parameters_are_one_size_in_relax():
    y = relay.var("y", shape=(N, 3))
    mod = relay.to_relax(IRModule.from_expr(relay.reshape(X + y, (3, N))))
    assert mod["main"].script(show_meta=False).split("def main")[1].splitlines()[0] == (
        '(x: R.Tensor(("n", 3), dtype="float32"), y: R.Tensor(("n", 3), dtype="float32"))'
        ' -> R.Tensor((3, "n"), dtype="float32"):'
    )


def test_dimensions_are_not_negative():
    b = tir.Var("b", "int64")
    x, image = relay.var("x", shape=(b, 3)), relay.var("i", shape=(1, 1, tir.Var("h", "int64"), tir.Var("w", "int32")))
    assert str(relay.infer_type(relay.strided_slice(x, [0], [2])).checked_type) == "Tensor[(min(2, b), 3), float32]"
    halves = relay.infer_type(relay.split(x, 2, 0).astuple()).checked_type
    assert [str(half.shape[0]) for half in halves.fields] == ["(b + 1) // 2", "b - (b + 1) // 2"]
    pooled = relay.infer_type(relay.nn.max_pool2d(image, 2, 2, ceil_mode=True)).checked_type
    assert [str(dim) for dim in pooled.shape[2:]] == ["(h + 1) // 2", "(w + 1) // 2"]
