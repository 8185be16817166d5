"""Reading and writing at indices, choosing and sorting: equal to ONNX Runtime at several sizes from one build."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from support import PLAIN_LOOPS


def x(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def test_gathering(agrees):
    """Negative indices count from the end."""
    agrees(
        """
    agraph (float[N, 3] x, int64[K] i, int32[N, 2] j, int64[L, 2] k) => (
        float[K, 3] a, float[N, 3] b, float[N, 2] c, float[L] d) {
      a = Gather(x, i)
      first = Constant<value_ints = [2, 0, -1]>()
      b = Gather<axis = -1>(x, first)
      c = GatherElements<axis = 1>(x, j)
      d = GatherND(x, k)
    }""",
        *(
            (x(n, 3), np.resize([0, -1], k), np.resize(np.array([2, -3], "int32"), (n, 2)), np.resize([0, -1], (l, 2)))
            for n, k, l in ((1, 0, 1), (2, 3, 0), (4, 1, 2))
        ),
    )  # fmt: skip


def test_gathering_with_batch_dimensions(agrees):
    agrees(
        """
    agraph (float[B, N, 3] x, int64[B, K, 1] i) => (float[B, K, 3] y) {
      y = GatherND<batch_dims = 1>(x, i)
    }""",
        *((x(b, n, 3), np.resize([0, -1], (b, k, 1))) for b, n, k in ((1, 1, 1), (2, 3, 2), (3, 2, 0))),
    )


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scattering(agrees, reduction):
    agrees(
        f"""
    agraph (float[N, 3] x, int64[K, 3] i, float[K, 3] u, int64[L, 1] j, float[L, 3] v) => (
        float[N, 3] a, float[N, 3] b) {{
      a = ScatterElements<reduction = "{reduction}">(x, i, u)
      b = ScatterND<reduction = "{reduction}">(x, j, v)
    }}""",
        *(
            (x(n, 3), np.resize(np.arange(k)[:, None] - n, (k, 3)), x(k, 3) - 4, np.arange(l)[:, None], 2 * x(l, 3))
            for n, k, l in ((1, 1, 0), (4, 2, 3), (3, 0, 1))
        ),
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "dtype"), [("int64", "int64"), ("float", "float32")])
def test_one_hot(agrees, kind, dtype):
    """Of a depth that is an input; both may be floats. Negative indices count from the end."""
    mod = agrees(
        f"""
    agraph ({kind}[N] i, {kind} depth, float[2] values) => (float[N, D] a, float[D, N] b) {{
      a = OneHot(i, depth, values)
      b = OneHot<axis = 0>(i, depth, values)
    }}""",
        *(
            (np.resize(np.array([0, -1, 2, 7], dtype), n), np.array(depth, dtype), np.array([-1, 2], "float32"))
            for n, depth in ((4, 3), (1, 1))
        ),
    )
    # Older versions of ONNX Runtime end the process where there are no indices.
    none = np.empty(0, dtype), np.array(3, dtype), np.array([-1, 2], "float32")
    results = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"](*none)
    assert [result.shape for result in results] == [(0, 3), (3, 0)]


def test_choosing(agrees):
    agrees(
        """
    agraph (float[N, 3] x, bool[M] c) => (int64[2, P] a, float[Q, 3] b, float[R] d) {
      a = NonZero(x)
      b = Compress<axis = 0>(x, c)
      d = Compress(x, c)
    }""",
        *(
            (x(n, 3), np.array(c, bool))
            for n, c in ((1, [True]), (3, [False, True, True]), (3, [True]), (2, [False, False]))
        ),
    )


def test_elements_where_a_mask_is_true(agrees):
    """x[mask]: how many there are only the data tell, the depth of an index is the rank of the mask."""
    mod = agrees(
        """
    agraph (float[N, 3] x, float[N] low) => (float[K] all, float[M, 3] rows, float[N, 3] without) {
      zero = Constant<value_float = 0.0>()
      positive = Greater(x, zero)
      all_at = NonZero(positive)
      all_places = Transpose<perm = [1, 0]>(all_at)
      all = GatherND(x, all_places)
      chosen = Less(low, zero)
      rows_at = NonZero(chosen)
      rows_places = Transpose<perm = [1, 0]>(rows_at)
      rows = GatherND(x, rows_places)
      without_values = Neg(rows)
      without = ScatterND(x, rows_places, without_values)
    }""",
        *(
            (np.array(values, "float32").reshape(-1, 3), np.array(low, "float32"))
            for values, low in (
                ([1, -1, 2], [-1]),
                ([1, -1, 2, np.inf, np.nan, -np.inf], [1, -np.inf]),
                ([-1, -1, -1], [np.nan]),
                ([], []),
            )
        ),
    )
    assert [output.ndim for output in mod["main"].ret_struct_info.fields] == [1, 2, 2]


def test_distinct_elements(agrees):
    values = np.array([[2, 1, 1], [2, 1, 1], [0, 3, 2]], "float32")
    agrees(
        """
    agraph (float[N, 3] x) => (float[A] a, int64[A] b, int64[B] c, int64[A] d, float[C] e, float[D, 3] f) {
      a, b, c, d = Unique(x)
      e = Unique<sorted = 0>(x)
      f = Unique<axis = 0>(x)
    }""",
        values,
        values[:1],
        values[1:],
    )


def test_largest_and_least(agrees):
    agrees(
        """
    agraph (float[N, M] x, int64[1] k) => (float[N, K] a, int64[N, K] b, float[K, M] c, int64[K, M] d) {
      a, b = TopK(x, k)
      c, d = TopK<axis = 0, largest = 0>(x, k)
    }""",
        *(
            (np.random.default_rng(n).random((n, m), "float32"), np.array([k]))
            for n, m, k in ((1, 1, 1), (3, 5, 2), (4, 4, 0), (3, 3, 3))
        ),
    )
    agrees(
        "agraph (float[N, 4] x) => (float[N, 2] a, int64[N, 2] b) { a, b = TopK<k = 2>(x) }",
        np.random.default_rng(0).random((3, 4), "float32"),
        opset=9,
    )
