"""``dyn`` operators: types of unknown dimensions, values equal to those of the static forms, interpreted and compiled."""

from __future__ import annotations

import numpy as np
import pytest
from relay_programs import f32

from relax import DiagnosticError, relay
from relax.ir import Op
from relax.relay.ops.dynamic import static_form


def ints(*values):
    return np.array(values, "int64")


X = f32(2, 3, 4)
SPECIAL = np.array([[np.nan, np.inf, -0.0], [-np.inf, 1, 2]], "float32")
CASES = {
    "reshape": ("dyn.reshape", (X, ints(4, -1)), {}, X.reshape(4, 6)),
    "reshape, copied dimensions": ("dyn.reshape", (X, ints(0, -1, 2)), {}, X.reshape(2, 6, 2)),
    "reshape of int32": ("dyn.reshape", (X, np.array([24], "int32")), {}, X.reshape(24)),
    "reshape of nothing": ("dyn.reshape", (f32(0, 3), ints(3, 0)), {"allowzero": True}, np.zeros((3, 0), "float32")),
    "reshape to a scalar": ("dyn.reshape", (f32(1, 1)[:] * 0, ints()), {}, np.zeros((), "float32")),
    "reshape of a scalar": ("dyn.reshape", (np.float32(2), ints(1, -1)), {}, np.full((1, 1), 2, "float32")),
    "broadcast_to": ("dyn.broadcast_to", (SPECIAL, ints(2, 2, 3)), {}, np.broadcast_to(SPECIAL, (2, 2, 3))),
    "broadcast_to nothing": ("dyn.broadcast_to", (f32(1), ints(0, 1)), {}, np.zeros((0, 1), "float32")),
    "tile": ("dyn.tile", (SPECIAL, ints(2, 1, 3)), {}, np.tile(SPECIAL, (2, 1, 3))),
    "tile none": ("dyn.tile", (SPECIAL, ints(0, 1)), {}, np.zeros((0, 3), "float32")),
    "squeeze": ("dyn.squeeze", (X[:1, :, :1], ints(0, -1)), {}, X[0, :, 0]),
    "squeeze everything": ("dyn.squeeze", (X[:1, :1, 0], ints(1, 0)), {}, X[0, 0, 0]),
    "squeeze nothing": ("dyn.squeeze", (X, ints()), {}, X),
    "expand_dims": ("dyn.expand_dims", (X, np.array(1, "int32")), {"num_newaxis": 2}, X[:, None, None]),
    "expand_dims behind": ("dyn.expand_dims", (X, np.array(-1)), {}, X[..., None]),
    "strided_slice": ("dyn.strided_slice", (X, ints(0, 2), ints(2, 0), ints(1, -1)), {}, X[0:2, 2:0:-1]),
    "strided_slice beyond": ("dyn.strided_slice", (X, ints(-9), ints(99), ints(2)), {}, X[::2]),
    "strided_slice to nothing": ("dyn.strided_slice", (X, ints(2), ints(1), ints(1)), {}, X[2:1]),
    "strided_slice of sizes": (
        "dyn.strided_slice",
        (X, ints(0, 1, 2), ints(1, -1, 2), ints(1)),
        {"slice_mode": "size"},
        X[0:1, 1:, 2:4],
    ),
    "strided_slice of axes": (
        "dyn.strided_slice",
        (X, ints(1, 0), ints(4, 1), ints(2, 1)),
        {"axes": [-1, 0]},
        X[0:1, :, 1:4:2],
    ),
    "topk": ("dyn.topk", (X, ints(2)), {"ret_type": "values"}, -np.sort(-X, 2)[..., :2]),
    "topk of all": ("dyn.topk", (X, np.array(0)), {"ret_type": "indices", "axis": 1}, (-X).argsort(1).astype("int32")),
    "topk of the least": (
        "dyn.topk",
        (X, np.array(1, "int32")),
        {"ret_type": "values", "is_ascend": True, "axis": 0},
        np.sort(X, 0)[:1],
    ),
    "one_hot": (
        "dyn.one_hot",
        (ints(2, 0, 9), np.float32(5), np.float32(-1), np.array(3)),
        {},
        np.array([[-1, -1, 5], [5, -1, -1], [-1, -1, -1]], "float32"),
    ),
    "one_hot before": (
        "dyn.one_hot",
        (ints(1, 0), np.int32(1), np.int32(0), ints(2)),
        {"axis": 0, "dtype": "int8"},
        np.array([[0, 1], [1, 0]], "int8"),
    ),
    "full": ("dyn.full", (np.float32(np.nan), ints(2, 0)), {}, np.zeros((2, 0), "float32")),
    "full of a dtype": ("dyn.full", (np.float32(3), ints(2, 1)), {"dtype": "int8"}, np.full((2, 1), 3, "int8")),
    "zeros": ("dyn.zeros", (ints(1, 2),), {"dtype": "int32"}, np.zeros((1, 2), "int32")),
    "ones": ("dyn.ones", (ints(3),), {}, np.ones(3, "float32")),
    "sparse_to_dense of places": (
        "dyn.sparse_to_dense",
        (np.array([[0, 1], [1, 2]], "int32"), ints(2, 3), f32(2) * 0 + np.float32(7), np.float32(np.inf)),
        {},
        np.array([[np.inf, 7, np.inf], [np.inf, np.inf, 7]], "float32"),
    ),
    "sparse_to_dense of one value": (
        "dyn.sparse_to_dense",
        (ints(3, 0), ints(4), np.float32(2), np.float32(0)),
        {},
        np.array([2, 0, 0, 2], "float32"),
    ),
    "sparse_to_dense of one place": (
        "dyn.sparse_to_dense",
        (np.array(1), ints(3), np.float32(2), np.float32(0)),
        {},
        np.array([0, 2, 0], "float32"),
    ),
    "nn.pad": (
        "dyn.nn.pad",
        (SPECIAL, np.array([[0, 1], [2, 0]]), np.float32(7)),
        {},
        np.pad(SPECIAL, ((0, 1), (2, 0)), constant_values=7),
    ),
    "nn.pad of nothing": (
        "dyn.nn.pad",
        (f32(0, 2), np.array([[1, 1], [0, 0]]), np.float32(7)),
        {},
        np.full((2, 2), 7, "float32"),
    ),
    "nn.pad by the edge": (
        "dyn.nn.pad",
        (X, np.array([[1, 0], [0, 2], [0, 0]], "int32"), np.float32(0)),
        {"pad_mode": "edge"},
        np.pad(X, ((1, 0), (0, 2), (0, 0)), "edge"),
    ),
    "nn.pad by reflection": (
        "dyn.nn.pad",
        (X, np.array([[1, 1], [2, 1], [3, 3]]), np.float32(0)),
        {"pad_mode": "reflect"},
        np.pad(X, ((1, 1), (2, 1), (3, 3)), "reflect"),
    ),
    "nn.upsampling": (
        "dyn.nn.upsampling",
        (f32(0, 1, 2, 2), np.float64(2), np.float32(3)),
        {},
        np.zeros((0, 1, 4, 6), "float32"),
    ),
    "nn.upsampling of rows": (
        "dyn.nn.upsampling",
        (X[None], np.float64(2), np.float64(1)),
        {},
        X[None].repeat(2, 2),
    ),
    "nn.upsampling3d": (
        "dyn.nn.upsampling3d",
        (X[None, None], np.float32(2), np.float32(1), np.float32(3)),
        {"coordinate_transformation_mode": "asymmetric"},
        X[None, None].repeat(2, 2).repeat(3, 4),
    ),
    "image.resize2d": (
        "dyn.image.resize2d",
        (X[None], np.array([6, 2], "int32"), np.zeros(4, "float32")),
        {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"},
        X[None].repeat(2, 2)[..., ::2],
    ),
}  # fmt: skip


def module(name, operands, attrs):
    params = [relay.var(f"x{i}", shape=np.shape(x), dtype=np.asarray(x).dtype.name) for i, x in enumerate(operands)]
    return relay.transform.InferType()(
        relay.IRModule.from_expr(relay.Function(params, relay.call_operator(name, *params, **attrs)))
    )


@pytest.mark.parametrize("case", CASES)
def test_values_evaluated_and_compiled(case):
    name, operands, attrs, expected = CASES[case]
    mod = module(name, operands, attrs)
    type_ = mod["main"].checked_type.ret_type
    assert (len(type_.shape), type_.dtype) == (expected.ndim, expected.dtype.name)
    assert all(isinstance(dim, relay.Any) for dim in type_.shape) or case == "squeeze nothing"
    for kind in ("debug", "vm"):
        value = relay.create_executor(kind, mod).evaluate()(*operands).numpy()
        assert value.dtype == expected.dtype
        np.testing.assert_array_equal(value, expected)


def test_every_static_form_is_one_of_the_operator():
    names = [name for name in relay.list_operators() if name.startswith("dyn.")]
    assert len(names) == 16
    for name in names:
        form, spec = static_form(Op.get(name)), relay.operator_spec(name)
        static = relay.operator_spec(form.name)
        assert name == f"dyn.{form.name}"
        assert static.num_inputs == spec.num_inputs - len(form.attrs)
        assert {field.name for field in static.attrs} >= {*form.attrs, *(field.name for field in spec.attrs)}
    assert static_form(Op.get("reshape")) is None


def test_one_program_takes_every_size():
    mod = relay.transform.InferType()(relay.parse("""
def @main(%x: Tensor[(n, ?), float32], %y: Tensor[(?, ?, ?), float32]) {
  let %shape = shape_of(%y, dtype="int64");
  (dyn.reshape(%x, %shape, allowzero=True), dyn.topk(%x, take(%shape, 2), ret_type="values"), dyn.ones(%shape))
}"""))  # fmt: skip
    text = "Tensor[(?, ?, ?), float32]"
    assert str(mod["main"].checked_type.ret_type) == f"({text}, Tensor[(?, ?), float32], {text})"
    main = {kind: relay.create_executor(kind, mod).evaluate() for kind in ("debug", "vm")}
    for shape, other in [((2, 6), (3, 2, 2)), ((1, 1), (1, 1, 1)), ((0, 4), (5, 0, 3))]:
        x = f32(*shape)
        expected = x.reshape(other), -np.sort(-x, 1)[:, : other[2]], np.ones(other, "float32")
        for function in main.values():
            for value, right in zip(function(x, f32(*other)), expected, strict=True):
                np.testing.assert_array_equal(value.numpy(), right)


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("dyn.reshape", (X, ints(5, -1))),
        ("dyn.reshape", (X, ints(-1, -1))),
        ("dyn.reshape", (X, ints(-2, 24))),
        ("dyn.reshape", (f32(0, 3), ints(0, -1))),
        ("dyn.reshape", (f32(3), ints(3, 0))),
        ("dyn.broadcast_to", (X, ints(2, 3, 5))),
        ("dyn.tile", (X, ints(-1, 1, 1))),
        ("dyn.squeeze", (X[:1], ints(1))),
        ("dyn.squeeze", (f32(0, 2), ints(1))),
        ("dyn.squeeze", (f32(1, 1), ints(0, -2))),
        ("dyn.squeeze", (f32(1, 1), ints(2))),
        ("dyn.squeeze", (f32(2), ints(0))),
        ("dyn.expand_dims", (X, np.array(4))),
        ("dyn.topk", (X, ints(5))),
        ("dyn.full", (np.float32(0), ints(2, -1))),
        ("dyn.one_hot", (ints(0), np.float32(1), np.float32(0), np.array(-1))),
        ("dyn.nn.pad", (X, np.array([[0, 0], [0, 0], [-1, 1]]), np.float32(0))),
        ("dyn.sparse_to_dense", (ints(4), ints(4), np.float32(1), np.float32(0))),
    ],
)
def test_values_that_are_wrong_are_errors_when_it_runs(name, operands):
    mod = module(name, operands, {})
    for kind in ("debug", "vm"):
        main = relay.create_executor(kind, mod).evaluate()
        with pytest.raises((ValueError, IndexError, AssertionError, RuntimeError, DiagnosticError)):
            main(*operands)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fn(%x: float32, %s: Tensor[(?), int64]) { dyn.full(%x, %s) }", "shape must be a vector of a known number"),
        ("fn(%s: Tensor[(2), float32]) { dyn.ones(%s) }", "dyn.ones: shape must be integers, found float32"),
        ("fn(%x: Tensor[(2), int32], %k: Tensor[(2), int32]) { dyn.topk(%x, %k) }", "k must be a scalar"),
        (
            "fn(%x: Tensor[(2), int32], %w: Tensor[(2, 2), int32]) { dyn.nn.pad(%x, %w, 0) }",
            r"pad_width must be of shape \(1, 2\)",
        ),
        (
            "fn(%x: Tensor[(2), int32], %b: Tensor[(2), int32]) { dyn.strided_slice(%x, %b, %b, %b) }",
            "begin has 2 elements for 2 of 1 dimensions",
        ),
        ("fn(%x: int32, %a: Tensor[(2), int32]) { dyn.squeeze(%x, %a) }", "axis names 2 of 0 dimensions"),
    ],
)
def test_types_that_are_wrong_are_refused(text, message):
    with pytest.raises(DiagnosticError, match=f"E9013.*{message}") as error:
        relay.infer_type(relay.parse_expr(text))
    assert error.value.diagnostics[0].span is not None


def test_python_functions_take_expressions_for_shapes():
    x, shape = relay.var("x", shape=(2, 3)), relay.var("s", shape=(2,), dtype="int64")
    count = relay.var("k", shape=(), dtype="int32")
    assert relay.reshape(x, shape).op.name == "dyn.reshape"
    assert relay.zeros(shape, dtype="int8").attrs.dtype == "int8"
    assert relay.full(relay.const(1.0), shape).args[1] is shape
    values, _ = relay.topk(x, count)
    assert values.tuple_value.op.name == "dyn.topk"
    sliced = relay.strided_slice(x, begin=shape, end=[2, 2])
    assert [getattr(arg, "data", arg) is not arg for arg in sliced.args] == [False, False, True, True]
    relay.infer_type(relay.Function([x, shape], sliced))
    resized = relay.image.resize2d(relay.var("i", shape=(1, 3, 4, 4)), shape, method="cubic")
    assert (resized.op.name, resized.attrs.method) == ("dyn.image.resize2d", "cubic")
    constant = relay.reshape(x, relay.const(ints(3, 2)))
    assert (constant.op.name, constant.attrs.newshape) == ("reshape", (3, 2))
    assert relay.dyn.tile(x, reps=shape).args == (x, shape)
