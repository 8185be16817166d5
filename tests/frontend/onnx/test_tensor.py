"""Moving, joining, cutting and converting tensors: equal to ONNX Runtime at several sizes from one build."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

import relax
from relax.frontend.onnx import from_onnx
from support import PLAIN_LOOPS


def x(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def test_joining_and_cutting(agrees):
    agrees(
        """
    agraph (float[N, 4] x, float[M, 4] y) => (float[S, 4] a, float[N, 1] b, float[N, 3] c, float[N, 2] d,
                                             float[N, 2] e, float[N, 3] f, float[N, 1] h) {
      parts = Constant<value_ints = [1, 3]>()
      a = Concat<axis = -2>(x, y, x)
      b, c = Split<axis = 1>(x, parts)
      d, e = Split<axis = -1, num_outputs = 2>(x)
      f, h = Split<axis = 1, num_outputs = 2>(z)
      z = Identity(x)
    }""".replace("      z = Identity(x)\n", "").replace("Split<axis = 1, num_outputs = 2>(z)", "Split<axis = 1>(x, other)")
        .replace("a = Concat", "other = Constant<value_ints = [3, 1]>()\n a = Concat"),
        *((x(n, 4), x(m, 4)) for n, m in ((1, 1), (0, 2), (3, 0))),
    )  # fmt: skip


def test_uneven_parts(agrees):
    """Since opset 18 the last part is smaller; before 13 the sizes are an attribute."""
    text = "agraph (float[N, 7] x) => (float[N, 3] a, float[N, 3] b, float[N, 1] c) { a, b, c = Split<%s>(x) }"
    agrees(text % "axis = 1, num_outputs = 3", x(2, 7), x(0, 7))
    agrees(text % "axis = 1, split = [3, 3, 1]", x(2, 7), x(1, 7), opset=11)


def test_parts_of_sizes_that_are_computed(agrees):
    agrees(
        """
    agraph (float[N, 2] x, float[M, 2] y) => (float[N, 2] a, float[M, 2] b) {
      zero = Constant<value_ints = [0]>()
      one = Constant<value_ints = [1]>()
      s = Shape(x)
      t = Shape(y)
      n = Slice(s, zero, one)
      m = Slice(t, zero, one)
      sizes = Concat<axis = 0>(n, m)
      both = Concat<axis = 0>(x, y)
      a, b = Split<axis = 0>(both, sizes)
    }""",
        *((x(n, 2), x(m, 2)) for n, m in ((1, 1), (0, 2), (3, 0), (2, 5))),
    )


@pytest.mark.parametrize("opset", [9, 18])
def test_slices_with_constant_bounds(agrees, opset):
    cuts = {"a": ([1], [-1], [0]), "b": ([0, -2], [2**31 - 1, 3], [0, 1])}
    nodes = [
        f"{y} = Slice<starts = {s}, ends = {e}, axes = {a}>(x)"
        if opset < 10
        else f"s{y} = Constant<value_ints = {s}>()\n e{y} = Constant<value_ints = {e}>()\n"
        f"a{y} = Constant<value_ints = {a}>()\n {y} = Slice(x, s{y}, e{y}, a{y})"
        for y, (s, e, a) in cuts.items()
    ]
    agrees(
        f"agraph (float[N, 4] x) => (float[A, 4] a, float[N, B] b) {{ {' '.join(nodes)} }}",
        *(x(n, 4) for n in (0, 1, 2, 5)),
        opset=opset,
    )


def test_reordering(agrees):
    agrees(
        """
    agraph (float[N, 4, H, 6] x, int64[N] lengths) => (
        float[N, H, 4, 6] a, float[6, H, 4, N] b, float[N, 1, P, 12] c, float[N, 1, P, 12] d,
        float[N, 16, H, 3] e, float[N, 4, H, 6] f, float[4, N, H, 6] h) {
      a = Transpose<perm = [0, 2, 1, 3]>(x)
      b = Transpose(x)
      c = DepthToSpace<blocksize = 2>(x)
      d = DepthToSpace<blocksize = 2, mode = "CRD">(x)
      e = SpaceToDepth<blocksize = 2>(wide)
      f = ReverseSequence<batch_axis = 0, time_axis = 1>(x, lengths)
      h = ReverseSequence<batch_axis = 1, time_axis = 0>(turned, lengths)
    }""".replace("a = Transpose<", "wide = Concat<axis = 2>(x, x)\n turned = Transpose<perm = [1, 0, 2, 3]>(x)\n a = Transpose<"),
        *((x(n, 4, h, 6), np.arange(n) % 4 + 1) for n, h in ((1, 1), (2, 3), (5, 2))),
    )  # fmt: skip


def test_new_shapes(agrees):
    agrees(
        """
    agraph (float[N, 1, M] x) => (float[N, M] a, float[1, N, 1, M, 1] b, float[N, M] c, float[1, P] d,
                                  float[N, P, M] e, float[A, 1, B] f) {
      one = Constant<value_ints = [1]>()
      ends = Constant<value_ints = [0, -1]>()
      a = Squeeze(x, one)
      b = Unsqueeze(x, ends)
      c = Flatten<axis = 2>(x)
      d = Flatten<axis = 0>(x)
      wide = Constant<value_ints = [3, 1]>()
      e = Expand(x, wide)
      times = Constant<value_ints = [2, 1, 3]>()
      f = Tile(x, times)
    }""",
        *(x(n, 1, m) for n, m in ((1, 1), (2, 3), (0, 2), (2, 0))),
    )


def test_flattening_a_scalar(agrees):
    agrees("agraph (float x) => (float[1, 1] y) { y = Flatten<axis = 0>(x) }", np.array(2.5, "float32"))


def test_expanding_to_sizes_of_another_tensor(agrees):
    """Either of two sizes may turn out to be 1."""
    agrees(
        """
    agraph (float[N, M] x, float[K, L] y) => (float[P, Q] z) {
      shape = Shape(y)
      z = Expand(x, shape)
    }""",
        *((x(n, m), x(k, l)) for n, m, k, l in ((1, 3, 2, 1), (2, 1, 1, 4), (1, 1, 0, 2), (2, 3, 2, 3))),
    )


def test_triangles_and_choices(agrees):
    agrees(
        """
    agraph (float[N, M] x, int64 k, bool[N, 1] c, float[M] y) => (
        float[N, M] a, float[N, M] b, float[N, M] d, float[N, M] e) {
      a = Trilu(x)
      b = Trilu<upper = 0>(x, k)
      d = Trilu(x, k)
      e = Where(c, x, y)
    }""",
        *(
            (x(n, m), np.array(k), np.arange(n)[:, None] % 2 == 0, x(m))
            for n, m, k in ((1, 1, 0), (3, 4, 1), (3, 4, -2), (0, 2, 1))
        ),
    )


def test_conversions(agrees):
    agrees(
        """
    agraph (float[N] x, int8[1] i) => (int32[N] a, bool[N] b, float16[N] c, int8[N] d, int64[N] e) {
      a = Cast<to = 6>(x)
      b = Cast<to = 9>(x)
      c = Cast<to = 10>(x)
      d = CastLike(x, i)
      e = Cast<to = 7>(b)
    }""",
        (np.array([-2.7, -0.5, 0, 0.5, 3.99], "float32"), np.zeros(1, "int8")),
        (np.array([], "float32"), np.zeros(1, "int8")),
    )


@pytest.mark.parametrize("saturate", [0, 1])
def test_conversion_to_narrow_floats(saturate):
    """Beyond its range a float8 saturates, or is NaN."""
    dtype = onnx.TensorProto.FLOAT8E4M3FN
    mod = from_onnx(
        onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 19]>
        agraph (float[N] x) => (float8e4m3fn[N] y) {{ y = Cast<to = {dtype}, saturate = {saturate}>(x) }}""")
    )
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    y = vm["main"](relax.nd.array(np.array([1.06, 1000, -np.inf, np.nan], "float32"))).numpy()
    limit = 448 if saturate else np.nan
    np.testing.assert_array_equal(y.astype("float32"), [1.0, limit, -limit, np.nan])
    assert y.dtype == ml_dtypes.float8_e4m3fn


def test_bits_of_another_dtype():
    mod = from_onnx(
        onnx.helper.make_model(
            onnx.helper.make_graph(
                [onnx.helper.make_node("BitCast", ["x"], ["y"], to=onnx.TensorProto.INT32)],
                "bits",
                [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N"])],
                [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, ["N"])],
            )
        )
    )
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    for x in (np.array([1.5, -0.0, np.nan], "float32"), np.zeros(0, "float32")):
        assert (vm["main"](relax.nd.array(x)).numpy() == x.view("int32")).all()


@pytest.mark.parametrize(
    ("node", "code", "message"),
    [
        ("y = CastLike(x, t)", "E6001", "a tensor of strings as target is not supported"),
        ("y, z = Split(x, sizes)", "E6002", "it has 2 outputs for 3 parts"),
        ("y = Split<axis = 1>(x, sizes)", "E6002", "it has 1 outputs for 3 parts"),
        ("y, z = Split<axis = 1>(x, pair)", "E6003", "the parts have 5 elements together, the dimension has 4"),
        ("y = Slice(x, sizes, pair)", "E6003", "starts, ends, axes and steps differ in length"),
        ("y = Expand(x, sizes)", "E6003", "the sizes 4 and 9 do not broadcast"),
        ("y = Squeeze(x, pair)", "E6003", "axis 5 is out of range for a tensor of 2 dimensions"),
        ("y = Reshape(x, minus)", "E6003", "more than one size is -1"),
        ("y = DepthToSpace<blocksize = 2>(x)", "E6003", "expected 4 dimensions, found 2"),
        ("s = Size(x)\n y = Flatten(s)", "E6003", "axis 1 is out of range for a tensor of 0 dimensions"),
        ("s = ReduceSum<keepdims = 0>(x)\n y = Flatten(s)", "E6003", "axis 1 is out of range for a tensor of 0 dimensions"),
        ("s = Size(x)\n y = Flatten<axis = -1>(s)", "E6003", "axis -1 is out of range for a tensor of 0 dimensions"),
        ("y = Trilu(x, pair)", "E6003", "k must have one element, found 2"),
    ],
)  # fmt: skip
def test_what_is_refused(imported, node, code, message):
    with pytest.raises(relax.DiagnosticError) as caught:
        imported(f"""
    agraph (float[N, 4] x) => (float[A] y) {{
      sizes = Constant<value_ints = [9, 9, 9]>()
      pair = Constant<value_ints = [0, 5]>()
      minus = Constant<value_ints = [-1, -1]>()
      t = Constant<value_strings = ["a"]>()
      {node}
    }}""")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    assert diagnostic.message.endswith(f'"y": {message}')
