"""Shape arithmetic becomes shape expressions: the chains of operators that exporters write, at several sizes from one build."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.frontend.onnx.values import Elements
from relax.prim import Sub


def x(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def operators(mod: relax.IRModule) -> list[str]:
    """The operators that the imported function calls, in order."""
    bindings = [b for block in mod["main"].body.blocks for b in block.bindings]
    return [b.value.op.name for b in bindings if isinstance(getattr(b, "value", None), relax.Call)]


def test_view_of_two_dimensions_as_one(agrees):
    """x.view(x.shape[0], -1, 4)"""
    mod = agrees(
        """
    agraph (float[B, S, H] x) => (float[B, P, 4] y) {
      i0 = Constant<value_int = 0>()
      axes = Constant<value_ints = [0]>()
      minus = Constant<value_ints = [-1]>()
      four = Constant<value_ints = [4]>()
      shape = Shape(x)
      b = Gather(shape, i0)
      b1 = Unsqueeze(b, axes)
      to = Concat<axis = 0>(b1, minus, four)
      y = Reshape(x, to)
    }""",
        *(x(b, s, 8) for b, s in ((1, 1), (2, 3), (5, 2))),
    )
    assert operators(mod) == ["relax.reshape"]


def test_heads_of_an_attention(agrees):
    """x.view(b, s, heads, h // heads).transpose(1, 2), with the head size divided from the shape."""
    mod = agrees(
        """
    agraph (float[B, S, 12] x) => (float[B, 3, S, P] y) {
      axes = Constant<value_ints = [0]>()
      heads = Constant<value_ints = [3]>()
      three = Constant<value_int = 3>()
      b0 = Constant<value_ints = [0]>()
      b2 = Constant<value_ints = [2]>()
      last = Constant<value_ints = [1000]>()
      shape = Shape(x)
      bs = Slice(shape, b0, b2, axes)
      h = Slice(shape, b2, last, axes)
      size = Div(h, three)
      to = Concat<axis = 0>(bs, heads, size)
      split = Reshape(x, to)
      y = Transpose<perm = [0, 2, 1, 3]>(split)
    }""",
        *(x(b, s, 12) for b, s in ((1, 1), (2, 3), (0, 2), (3, 0))),
    )
    assert operators(mod) == ["relax.reshape", "relax.permute_dims"]


def test_mask_expanded_to_a_shape(agrees):
    """mask.expand(b, 1, s, s): -1 in a constant shape stands for the size itself."""
    mod = agrees(
        """
    agraph (float[B, S] x) => (float[B, 1, S, S] y) {
      axes = Constant<value_ints = [1, 2]>()
      first = Constant<value_ints = [0]>()
      one = Constant<value_ints = [1]>()
      two = Constant<value_ints = [2]>()
      mask = Unsqueeze(x, axes)
      shape = Shape(x)
      b = Slice(shape, first, one, first)
      s = Slice(shape, one, two, first)
      wish = Concat<axis = 0>(b, one, s, s)
      rank = Shape(wish)
      ones = ConstantOfShape<value = int64[1] {1}>(rank)
      minus = Constant<value_int = -1>()
      negative = Mul(ones, minus)
      open = Equal(wish, negative)
      to = Where(open, ones, wish)
      y = Expand(mask, to)
    }""",
        *(x(b, s) for b, s in ((1, 1), (2, 3), (0, 2), (3, 0))),
    )
    assert operators(mod) == ["relax.expand_dims", "relax.broadcast_to"]


def test_size_scaled_by_a_float(agrees):
    """floor(float(n) * 1.5) as sizes, as exporters of interpolate write it."""
    mod = agrees(
        """
    agraph (float[1, N] x) => (float[P, N] y) {
      i1 = Constant<value_int = 1>()
      factor = Constant<value_float = 1.5>()
      axes = Constant<value_ints = [0]>()
      one = Constant<value_ints = [1]>()
      shape = Shape(x)
      n = Gather(shape, i1)
      wide = Cast<to = 1>(n)
      scaled = Mul(wide, factor)
      whole = Floor(scaled)
      size = Cast<to = 7>(whole)
      rows = Unsqueeze(size, axes)
      to = Concat<axis = 0>(rows, one)
      y = Expand(x, to)
    }""",
        *(x(1, n) for n in (0, 1, 2, 5, 8)),
    )
    assert operators(mod) == ["relax.broadcast_to"]
    assert "(N * 3 // 2, N)" in mod.script()


def test_size_scaled_by_a_float_that_is_no_fraction(agrees):
    agrees(
        """
    agraph (float[1, N] x) => (float[P, N] y) {
      factor = Constant<value_float = 0.3>()
      one = Constant<value_ints = [1]>()
      i1 = Constant<value_ints = [1]>()
      shape = Shape(x)
      n = Gather(shape, i1)
      wide = Cast<to = 1>(n)
      scaled = Mul(wide, factor)
      whole = Ceil(scaled)
      size = Cast<to = 7>(whole)
      to = Concat<axis = 0>(size, one)
      y = Expand(x, to)
    }""",
        *(x(1, n) for n in (0, 1, 2, 10, 20)),
    )


def test_size_that_floats_round(agrees):
    """n / 3 · 3 and n / 10 · 10 are computed as floats are, though fractions would cancel."""
    agrees(
        """
    agraph (float[N] x) => (int64[1] y, int64[1] z) {
      three = Constant<value_float = 3.0>()
      ten = Constant<value_float = 10.0>()
      n = Shape(x)
      wide = Cast<to = 1>(n)
      a = Div(wide, three)
      b = Mul(a, three)
      c = Floor(b)
      y = Cast<to = 7>(c)
      d = Div(wide, ten)
      e = Ceil(d)
      z = Cast<to = 7>(e)
    }""",
        *(x(n) for n in (0, 1, 5, 10, 11, 41, 82, 110, 1000)),
    )


def test_positions_along_a_symbolic_size(agrees):
    mod = agrees(
        """
    agraph (int64[B, S] ids, int64[P] past) => (int64[T] positions, float[T] floats, int64[S] even) {
      zero = Constant<value_int = 0>()
      one = Constant<value_int = 1>()
      two = Constant<value_int = 2>()
      shape = Shape(ids)
      s = Gather(shape, one)
      p = Size(past)
      end = Add(p, s)
      positions = Range(p, end, one)
      floats = Cast<to = 1>(positions)
      twice = Mul(s, two)
      even = Range(zero, twice, two)
    }""",
        *((np.zeros((1, s), "int64"), np.zeros(p, "int64")) for s, p in ((0, 0), (1, 4), (5, 0), (3, 2))),
    )
    assert operators(mod) == ["relax.arange", "relax.astype", "relax.arange"]


def test_positions_as_indices_of_ones(agrees):
    """ConstantOfShape, NonZero: as older exporters write arange."""
    mod = agrees(
        """
    agraph (float[B, S] x) => (float[B, S] y) {
      one = Constant<value_ints = [1]>()
      shape = Shape(x)
      s = Gather(shape, one)
      ones = ConstantOfShape<value = int64[1] {1}>(s)
      places = NonZero(ones)
      turned = Transpose(places)
      flat = Squeeze(turned, one)
      floats = Cast<to = 1>(flat)
      y = Add(x, floats)
    }""",
        *(x(b, s) for b, s in ((1, 1), (2, 3), (0, 2), (3, 0))),
    )
    assert "relax.nonzero" not in operators(mod)
    assert mod["main"].ret_struct_info == mod["main"].params[0].struct_info


def test_arithmetic_on_sizes(agrees):
    """Every operation that shapes are computed with gives an expression; the tensor is made where it is an output."""
    mod = agrees(
        """
    agraph (float[N, M] x) => (int64[4] a, int64 b, bool c, int64[2] d, int64[1] e, int32[2] f, int64 h, bool i) {
      two = Constant<value_int = 2>()
      zero = Constant<value_ints = [0]>()
      shape = Shape(x)
      halves, rest = Split<axis = 0, num_outputs = 2>(shape)
      more = Add(halves, two)
      less = Sub(rest, two)
      most = Max(more, less)
      least = Min(more, less)
      remainder = Mod(rest, two)
      a = Concat<axis = 0>(most, least, remainder, less)
      b0 = ReduceProd(shape, zero)
      b = Squeeze(b0, zero)
      last = Constant<value_int = -1>()
      c0 = Gather(shape, last)
      c = Greater(c0, two)
      distance = Abs(less)
      sign = Neg(distance)
      d = Concat<axis = 0>(distance, sign)
      part = Size(x)
      most_allowed = Constant<value_int = 6>()
      part2 = Clip(part, two, most_allowed)
      one = Constant<value_ints = [1]>()
      e = Reshape(part, one)
      f = Cast<to = 6>(shape)
      h = Identity(part2)
      few = Less(c0, most_allowed)
      i = And(c, few)
    }""",
        *(x(n, m) for n, m in ((0, 0), (1, 1), (3, 5), (2, 0))),
    )
    assert set(operators(mod)) <= {"relax.shape_to_tensor", "relax.astype", "relax.full", "relax.concat"}


def test_sizes_beside_data(agrees):
    """A size that data are computed with is a scalar of the program."""
    agrees(
        """
    agraph (float[N, 4] x) => (float[N, 4] y, int64[N, 4] z) {
      zero = Constant<value_int = 0>()
      shape = Shape(x)
      n = Gather(shape, zero)
      count = Cast<to = 1>(n)
      y = Div(x, count)
      whole = Cast<to = 7>(x)
      z = Mul(whole, n)
    }""",
        *(x(n, 4) for n in (1, 2, 7)),
    )


def test_sizes_computed_from_data(agrees):
    """What only the data tell is read when it runs; a size of -1 and 0 mean there what they mean in a constant."""
    agrees(
        """
    agraph (float[N, M] x, int64[2] shape, int64[1] count) => (float[P, Q] y, float[C] z, float[A, B] t) {
      y = Reshape(x, shape)
      z = ConstantOfShape<value = float[1] {2.5}>(count)
      two = Concat<axis = 0>(count, count)
      t = Tile(x, two)
    }""",
        (x(2, 6), np.array([3, 4]), np.array([0])),
        (x(2, 6), np.array([-1, 4]), np.array([1])),
        (x(2, 6), np.array([0, -1]), np.array([2])),
        (x(4, 3), np.array([-1, 0]), np.array([3])),
        (x(0, 3), np.array([0, 3]), np.array([3])),
    )


def test_slices_by_sizes_and_by_data(agrees):
    mod = agrees(
        """
    agraph (float[N, M] x, int64[1] start, int64[1] end) => (float[P, M] a, float[Q, M] b, float[R, M] c) {
      one = Constant<value_ints = [1]>()
      zero = Constant<value_ints = [0]>()
      shape = Shape(x)
      n = Slice(shape, zero, one)
      before = Sub(n, one)
      a = Slice(x, zero, before, zero)
      b = Slice(x, start, end, zero)
      back = Constant<value_ints = [-1]>()
      far = Constant<value_ints = [-9223372036854775807]>()
      c = Slice(x, back, far, zero, back)
    }""",
        *(
            (x(n, 2), np.array([start]), np.array([end]))
            for n, start, end in ((1, 0, 1), (5, -3, -1), (5, 1, 2**63 - 1), (4, -100, 3), (3, 2, 1))
        ),
    )
    assert "relax.dynamic_strided_slice" not in operators(mod)


@pytest.mark.parametrize("far", [10**9, 2**31 - 1, 2**63 - 1])
def test_slice_to_a_far_end_keeps_the_dimension(agrees, far):
    """Exporters write such numbers for the end of a dimension they do not know: no ``min(1000000000, N)``."""
    mod = agrees(
        f"""
    agraph (float[N, 8] x) => (float[N, 3] y, float[M, 8] z) {{
      b = Constant<value_ints = [0, 2]>()
      e = Constant<value_ints = [{far}, 5]>()
      y = Slice(x, b, e)
      one = Constant<value_ints = [1]>()
      end = Constant<value_ints = [{far}]>()
      axis = Constant<value_ints = [0]>()
      z = Slice(x, one, end, axis)
    }}""",
        *(x(n, 8) for n in (0, 1, 4)),
    )
    y, z = mod["main"].ret_struct_info.fields
    assert str(y) == 'R.Tensor((N, 3), dtype="float32")'
    assert str(z) == 'R.Tensor((T.max(1, N) - 1, 8), dtype="float32")'


def test_axes_steps_and_counts_from_data(agrees):
    """Axes that are inputs of the model: the shapes of the results are choices made when it runs."""
    agrees(
        """
    agraph (float[N, 3] x, int64[1] axis, int64[1] step) => (
        float[A, B] sums, float[C] most, float[D, E, F] lifted, float[G, H] running, float[I, J] strides) {
      sums = ReduceSum(x, axis)
      most = ReduceMean<keepdims = 0>(x, axis)
      lifted = Unsqueeze(x, axis)
      scalar = Squeeze(axis)
      running = CumSum(x, scalar)
      zero = Constant<value_ints = [0]>()
      end = Constant<value_ints = [100]>()
      strides = Slice(x, zero, end, axis, step)
    }""",
        *(
            (x(n, 3), np.array([axis]), np.array([step]))
            for n, axis, step in ((2, 0, 1), (2, 1, 2), (1, -1, 1), (4, -2, 3))
        ),
    )


@pytest.mark.parametrize(
    ("sizes", "nodes", "message"),
    [
        ("N, M, P, Q, R", "y = Squeeze(x)", "without axes, it must be known whether the size N is 1"),
        ("N, 3", "y = Slice(x, s, s, s)", "the number of elements of starts must be known"),
    ],
)
def test_what_cannot_be_known(imported, sizes, nodes, message):
    with pytest.raises(relax.DiagnosticError, match=message) as caught:
        imported(f"agraph (float[{sizes}] x, int64[K] s) => (float[A] y) {{ {nodes} }}")
    assert caught.value.diagnostics[0].code == "E6005"


def test_equal_elements_are_one_object():
    """Masks that models compute from constants have thousands of elements, of a few values; 0.0 is not -0.0."""
    values = np.array([0.0, -0.0, 1.5, np.nan, 1.5, 0.0, np.inf, np.inf], "float32")
    elements = Elements.of(values, "float32")
    np.testing.assert_array_equal(np.signbit(elements.numbers()), np.signbit(values))
    np.testing.assert_array_equal(elements.numbers(), values)
    assert elements.flat[2] is elements.flat[4]
    assert elements.flat[0] is elements.flat[5]
    assert elements.flat[0] is not elements.flat[1]
    assert Elements.of([True, 1], "int64").ints() == (1, 1)


def test_a_mask_of_few_values_is_quick_to_import(monkeypatch, imported):
    """The mask of shifted windows, regions[:, None] - regions[None, :]: the same difference is computed once."""
    counted = []
    plain = Sub.__post_init__
    monkeypatch.setattr(Sub, "__post_init__", lambda self: (counted.append(self), plain(self))[1])
    regions = ", ".join(str(region) for region in np.arange(31) // 8)
    mod = imported(
        f"""
    agraph (float[N, 4] x) => (float[32, 32] y) {{
      zero = Constant<value_ints = [0]>()
      one = Constant<value_ints = [1]>()
      two = Constant<value_ints = [2]>()
      shape = Shape(x)
      last = Slice(shape, one, two, zero)
      first = Constant<value_ints = [{regions}]>()
      whole = Concat<axis = 0>(first, last)
      regions = Cast<to = 1>(whole)
      rows = Unsqueeze(regions, one)
      columns = Unsqueeze(regions, zero)
      y = Sub(rows, columns)
    }}"""
    )
    mask = mod["main"].body.body
    distances = np.append(np.arange(31) // 8, 4)
    np.testing.assert_array_equal(mask.data, np.subtract.outer(distances, distances))
    assert 0 < len(counted) <= 25
