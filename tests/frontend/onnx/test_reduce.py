"""Reductions, indices of extremes and running results: equal to ONNX Runtime at several sizes from one build."""

from __future__ import annotations

import numpy as np
import pytest

NAMES = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


def x(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).random(shape, "float32") + 0.5


@pytest.mark.parametrize(("axes", "keepdims"), [((1,), 1), ((0, -1), 0), ((), 0)])
def test_reductions(agrees, axes, keepdims):
    """Along constant axes, which are an input since opset 18."""
    rank = 3 if keepdims else 3 - len(axes or (0, 1, 2))
    shape = ", ".join("NABC"[i] for i in range(rank))
    outputs = ", ".join(f"float[{shape}] y{i}" for i in range(len(NAMES)))
    nodes = "\n".join(
        f"y{i} = Reduce{name}<keepdims = {keepdims}>(x{', axes' if axes else ''})" for i, name in enumerate(NAMES)
    )
    given = f"axes = Constant<value_ints = {list(axes)}>()" if axes else ""
    agrees(
        f"agraph (float[N, 3, M] x) => ({outputs}) {{ {given}\n {nodes} }}",
        *(x(n, 3, m) for n, m in ((1, 1), (2, 4), (3, 2))),
    )


def test_axes_as_attributes_before_opset_13(agrees):
    agrees(
        """
    agraph (float[N, 3, M] x) => (float[N, M] a, float[N, 3, 1] b) {
      a = ReduceSum<axes = [1], keepdims = 0>(x)
      b = ReduceMax<axes = [-1]>(x)
    }""",
        *(x(n, 3, m) for n, m in ((1, 1), (2, 4), (3, 2))),
        opset=11,
    )


def test_no_axes_fold_everything_or_nothing(agrees):
    agrees(
        """
    agraph (float[N, M] x) => (float[A, B] a, float[A, B] b, float[A, B] c) {
      none = Constant<value = int64[0] {}>()
      a = ReduceSum<noop_with_empty_axes = 1>(x, none)
      b = ReduceSum<noop_with_empty_axes = 1>(x)
      c = ReduceSum<noop_with_empty_axes = 0>(x, none)
    }""",
        *(x(n, m) for n, m in ((1, 1), (2, 3), (0, 2))),
    )


def test_the_only_axis_that_a_scalar_might_have(agrees):
    """ONNX Runtime and NumPy take it for none, where the rank is not known before the model runs."""
    agrees(
        """
    agraph (float[N] x, bool c) => (float[A] a, float[B] b) {
      first = Constant<value = int64[1] {0}>()
      h = If (c) <then_branch = g1 () => (float[N] p) { p = Exp(x) },
                  else_branch = g2 () => (float q) { q = ReduceSum<keepdims = 0>(x) }>
      s = ReduceMax<keepdims = 0>(h, first)
      a = Unsqueeze(s, first)
      t = ReduceSum<keepdims = 0>(h, first)
      b = Unsqueeze(t, first)
    }""",
        (np.arange(3, dtype="float32"), np.array(True)),
        (np.arange(3, dtype="float32"), np.array(False)),
    )


def test_reductions_of_nothing(agrees):
    """Sums are 0, products 1, extremes infinite; integers have their extremes."""
    agrees(
        """
    agraph (float[N, 2] x) => (float[1, 2] a, float[1, 2] b, float[1, 2] c, float[1, 2] d, float[1, 2] e) {
      axes = Constant<value_ints = [0]>()
      a = ReduceSum(x, axes)
      b = ReduceProd(x, axes)
      c = ReduceMax(x, axes)
      d = ReduceMin(x, axes)
      e = ReduceLogSum(x, axes)
    }""",
        x(0, 2),
        x(1, 2),
        x(3, 2),
    )


def test_integers(agrees):
    """The mean of integers is truncated."""
    agrees(
        """
    agraph (int32[N, 2] x) => (int32[2] a, int32[2] b, int32[2] c) {
      axes = Constant<value_ints = [0]>()
      a = ReduceMean<keepdims = 0>(x, axes)
      b = ReduceMax<keepdims = 0>(x, axes)
      c = ReduceL2<keepdims = 0>(x, axes)
    }""",
        np.array([[-3, 4]], "int32"),
        np.array([[-3, 4], [-4, 1]], "int32"),
    )


def test_logarithms_of_sums_of_infinities(agrees):
    inf = np.inf
    agrees(
        """
    agraph (float[N] x) => (float a) {
      a = ReduceLogSumExp<keepdims = 0>(x)
    }""",
        *(np.array(v, "float32") for v in ([-inf, -inf], [inf, 1], [1000, 1000], [-inf, 3])),
    )


def test_indices_of_extremes(agrees):
    agrees(
        """
    agraph (float[N, M] x) => (int64[A, M] a, int64[N] b, int64[A, M] c, int64[N] d) {
      a = ArgMax(x)
      b = ArgMin<axis = -1, keepdims = 0>(x)
      c = ArgMax<select_last_index = 1>(x)
      d = ArgMin<axis = 1, keepdims = 0, select_last_index = 1>(x)
    }""",
        np.array([[2, 1, 1], [2, 3, 0], [0, 3, 0]], "float32"),
        np.zeros((1, 1), "float32"),
        np.zeros((3, 2), "float32"),
    )


def test_running_sums(agrees):
    agrees(
        """
    agraph (float[N, M] x) => (float[N, M] a, float[N, M] b, float[N, M] c, float[N, M] d) {
      rows = Constant<value_int = 0>()
      last = Constant<value_int = -1>()
      a = CumSum(x, rows)
      b = CumSum<exclusive = 1>(x, last)
      c = CumSum<reverse = 1>(x, rows)
      d = CumSum<exclusive = 1, reverse = 1>(x, last)
    }""",
        *(x(n, m) for n, m in ((1, 1), (3, 4), (0, 2), (2, 0))),
    )
