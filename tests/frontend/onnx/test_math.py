"""Arithmetic, logic, limits and products: equal to ONNX Runtime at several sizes from one build."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from support import PLAIN_LOOPS

SPECIAL = np.array([-np.inf, -2.5, -1.0, -0.0, 0.0, 0.5, 1.5, 2.5, 3e38, np.inf, np.nan], "float32")


def test_elementwise_functions(agrees):
    """Rounding, tests and signs at the numbers where they are easily wrong."""
    agrees(
        """
    agraph (float[N] x) => (float[N] a, float[N] b, float[N] c, float[N] d, float[N] e, float[N] f,
                            bool[N] g, bool[N] h, bool[N] i, bool[N] j) {
      a = Round(x)
      b = Floor(x)
      c = Ceil(x)
      d = Sign(x)
      e = Reciprocal(x)
      f = Neg(x)
      g = IsNaN(x)
      h = IsInf(x)
      i = IsInf<detect_negative = 0>(x)
      j = IsInf<detect_positive = 0>(x)
    }""",
        SPECIAL,
        SPECIAL[:0],
        SPECIAL[:1],
    )


def test_integer_division_truncates_and_remainders_have_two_signs(agrees):
    a = np.array([7, -7, 7, -7, 0], "int64")
    b = np.array([2, 2, -2, -2, 5], "int64")
    agrees(
        """
    agraph (int64[N] a, int64[N] b) => (int64[N] q, int64[N] r, int64[N] s) {
      q = Div(a, b)
      r = Mod(a, b)
      s = Mod<fmod = 1>(a, b)
    }""",
        (a, b),
        (a[:1], b[:1]),
        (a[:0], b[:0]),
    )


def test_powers_of_mixed_dtypes(agrees):
    x = np.array([[-3, -1, 0.5, 2, 4]], "float32")
    agrees(
        """
    agraph (float[N, 5] x, int64[5] k, int32[5] i) => (float[N, 5] a, float[N, 5] b, float[N, 5] c, int32[5] d,
                                                      int32[5] e) {
      two = Constant<value_int = 2>()
      half = Constant<value_float = 0.5>()
      a = Pow(x, two)
      b = Pow(x, k)
      c = Pow(x, half)
      d = Pow(i, k)
      e = Pow(i, half)
    }""",
        *((np.repeat(x, n, 0), np.arange(5), np.arange(5, dtype="int32")) for n in (0, 1, 3)),
    )


def test_any_number_of_operands_that_broadcast(agrees):
    agrees(
        """
    agraph (float[N, 1] x, float[3] y, float z) => (float[N, 3] a, float[N, 3] b, float[N, 3] c, float[N, 3] d,
                                                     float[N, 1] e) {
      a = Max(x, y, z)
      b = Min(x, y, z)
      c = Sum(x, y, z)
      d = Mean(x, y, z)
      e = Mean(x)
    }""",
        *(
            (np.linspace(-1, 1, n, dtype="float32")[:, None], np.array([0, 1, np.nan], "float32"), np.array(0.25, "float32"))
            for n in (0, 1, 4)
        ),
    )  # fmt: skip


@pytest.mark.parametrize("opset", [10, 18])
def test_clip_by_attributes_and_by_constants(agrees, opset):
    nodes = {
        10: "a = Clip<min = -1.0, max = 2.0>(x)\n b = Clip(x)\n c = Clip<max = 1.5>(x)",
        18: """low = Constant<value_float = -1.0>()
               high = Constant<value_float = 2.0>()
               top = Constant<value_floats = [1.5]>()
               a = Clip(x, low, high)
               b = Clip(x)
               t = Squeeze(top)
               c = Clip(x, , t)""",
    }[opset]
    text = f"agraph (float[N] x) => (float[N] a, float[N] b, float[N] c) {{ {nodes} }}"
    agrees(text, SPECIAL, SPECIAL[:0], opset=opset)


def test_clip_by_tensors(agrees):
    """Of integers too; where the least exceeds the greatest, the greatest is the result."""
    x = np.arange(-4, 5, dtype="int32")
    agrees(
        """
    agraph (int32[N] x, int32 low, int32 high) => (int32[N] a, int32[N] b, int32[N] c) {
      a = Clip(x, low, high)
      b = Clip(x, low)
      c = Clip(x, , high)
    }""",
        *((x, np.array(low, "int32"), np.array(high, "int32")) for low, high in ((-2, 3), (2, -1))),
    )


def test_shifts(agrees):
    agrees(
        """
    agraph (uint8[N] x, uint8[N] y) => (uint8[N] a, uint8[N] b) {
      a = BitShift<direction = "LEFT">(x, y)
      b = BitShift<direction = "RIGHT">(x, y)
    }""",
        (np.array([1, 200, 255], "uint8"), np.array([0, 1, 7], "uint8")),
    )


def test_gemm(agrees):
    def a(*shape: int) -> np.ndarray:
        return np.linspace(-1, 1, int(np.prod(shape)), dtype="float32").reshape(shape)

    agrees(
        """
    agraph (float[K, M] x, float[4, K] w, float[4] c, float[M, 1] d) => (float[M, 4] y, float[M, 4] z, float[M, 4] u) {
      y = Gemm<transA = 1, transB = 1, alpha = 0.5, beta = 2.0>(x, w, c)
      z = Gemm<transA = 1, transB = 1>(x, w)
      u = Gemm<transA = 1, transB = 1, beta = -1.0>(x, w, d)
    }""",
        *((a(k, m), a(4, k), a(4), a(m, 1)) for k, m in ((1, 1), (3, 5), (2, 0))),
    )


def test_einsum_and_determinant(agrees):
    rng = np.random.default_rng(0)
    agrees(
        """
    agraph (float[B, 3, 3] x, float[B, 3, N] y) => (float[B, 3, N] a, float[B, 3] b, float[B] d) {
      a = Einsum<equation = "bij, bjk -> bik">(x, y)
      b = Einsum<equation = "...ii->...i">(x)
      d = Det(x)
    }""",
        *((rng.random((b, 3, 3), "float32"), rng.random((b, 3, n), "float32")) for b, n in ((1, 1), (2, 4), (3, 0))),
    )


def test_einsum_broadcasts_sizes_known_and_open(agrees):
    rng = np.random.default_rng(0)
    calls = [
        (rng.random(x, "float32"), rng.random(y, "float32"))
        for x, y in (((3, 1), (3, 2)), ((3, 2), (3, 1)), ((1, 2), (3, 2)), ((3, 2), (3, 2)), ((3, 1), (3, 0)))
    ]
    text = """
    agraph (float[A, B] x, float[C, D] y) => (float[N] a, float[N, M] b, float[N] c) {
      a = Einsum<equation = "ij,ij->i">(x, y)
      b = Einsum<equation = "...ij,...ij->...ij">(x, y)
      c = Einsum<equation = "ij,ij,ij->j">(x, y, x)
    }"""
    agrees(text, *calls)
    for x, y in calls:
        agrees(text.replace("A, B", str(x.shape)[1:-1]).replace("C, D", str(y.shape)[1:-1]), (x, y))


def test_operands_aligned_by_an_axis_before_opset_7(imported):
    """ONNX Runtime does not take them."""
    mod = imported(
        """
    agraph (float[2, 3, 4, 5] x, float[3, 4] y) => (float[2, 3, 4, 5] z) {
      z = Add<broadcast = 1, axis = 1>(x, y)
    }""",
        opset=6,
    )
    x, y = np.ones((2, 3, 4, 5), "float32"), np.arange(12, dtype="float32").reshape(3, 4)
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    assert (vm["main"](relax.nd.array(x), relax.nd.array(y)).numpy() == x + y[:, :, None]).all()


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("y = Less(s, s)", 'Less "y": a tensor of strings as a is not supported'),
        ("d = Det(x)", 'Det "d": the determinant of matrices larger than 3 × 3 is not supported'),
    ],
)
def test_what_is_refused(imported, nodes, message):
    with pytest.raises(relax.DiagnosticError) as caught:
        imported(f"agraph (float[N, M] x, string[N] s) => (float[N] y) {{ {nodes} }}")
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("E6001", message)


def test_a_cube_is_a_product(agrees):
    """x ** 3, as gelu by tanh has it: also of what is not finite, and of what is too large or small for a cube."""
    mod = agrees(
        """
    agraph (float[N] x) => (float[N] y) {
      three = Constant<value_float = 3.0>()
      y = Pow(x, three)
    }""",
        np.array([1.5, -2.5, 0.0, -0.0, np.nan, np.inf, -np.inf, 1e20, -1e20, 1e-20, -3e-14], "float32"),
        np.array([], "float32"),
        np.array([7.0], "float32"),
    )
    assert "R.power(" not in mod["main"].script()
