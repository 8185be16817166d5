"""Constants, ranges, windows, random tensors and Dropout."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import relax
from support import PLAIN_LOOPS


def test_constants_in_every_form(agrees):
    agrees(
        """
    agraph (float[N] x) => (float a, float[2] b, int64 c, int64[3] d, float[2, 1] e) {
      a = Constant<value_float = 0.5>()
      b = Constant<value_floats = [0.5, 1.5]>()
      c = Constant<value_int = -7>()
      d = Constant<value_ints = [1, 2, 3]>()
      e = Constant<value = float[2, 1] {1.5, 2.5}>()
    }""",
        np.zeros(1, "float32"),
    )


def test_sparse_constants():
    values = onnx.helper.make_tensor("v", onnx.TensorProto.FLOAT, [2], [1.5, 2.5])
    places = onnx.helper.make_tensor("i", onnx.TensorProto.INT64, [2], [1, 3])
    node = onnx.helper.make_node(
        "Constant", [], ["y"], sparse_value=onnx.helper.make_sparse_tensor(values, places, [2, 2])
    )
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 2])
    mod = relax.frontend.onnx.from_onnx(onnx.helper.make_model(onnx.helper.make_graph([node], "sparse", [], [y])))
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    assert vm["main"]().numpy().tolist() == [[0, 1.5], [0, 2.5]]


def test_filled_shapes_and_diagonals(agrees):
    agrees(
        """
    agraph (int64[2] shape, int32[N, M] x) => (float[A, B] a, int64[A, B] b, int32[N, M] c, float[N, M] d) {
      a = ConstantOfShape(shape)
      b = ConstantOfShape<value = int64[1] {3}>(shape)
      c = EyeLike(x)
      d = EyeLike<dtype = 1, k = -1>(x)
    }""",
        *((np.array(s), np.zeros(s, "int32")) for s in ((1, 1), (2, 3), (0, 2))),
    )


def test_ranges_of_inputs(agrees):
    """The number of elements is known only when it runs."""
    agrees(
        """
    agraph (int64 a, int64 b, int64 c, float d, float e, float f) => (int64[N] i, float[M] x) {
      i = Range(a, b, c)
      x = Range(d, e, f)
    }""",
        *(
            (*map(np.array, (a, b, c)), *(np.array(v, "float32") for v in (d, e, f)))
            for a, b, c, d, e, f in ((0, 5, 2, 0, 1, 0.3), (5, -2, -3, 1, -1, -0.5), (3, 3, 1, 2, 1, 1))
        ),
    )


def test_ranges_of_narrow_floats_are_rounded_once(imported):
    mod = imported(
        "agraph (float16 a, float16 b, float16 c) => (float16[N] y) { y = Range<stash_type = 1>(a, b, c) }", opset=27
    )
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    bounds = [np.array(v, "float16") for v in (0, 100, 0.1)]
    expected = np.arange(*(float(bound) for bound in bounds)).astype("float16")
    np.testing.assert_array_equal(vm["main"](*map(relax.nd.array, bounds)).numpy(), expected)


def test_windows(agrees):
    windows = ["HannWindow", "HammingWindow", "BlackmanWindow"]
    outputs = ", ".join(f"float[N] {kind}{i}" for i in range(3) for kind in "ab")
    nodes = "\n".join(f"a{i} = {name}(n)\n b{i} = {name}<periodic = 0>(n)" for i, name in enumerate(windows))
    agrees(f"agraph (int64 n) => ({outputs}) {{ {nodes} }}", np.array(8), np.array(5), rtol=1e-4)


def test_random_tensors(imported):
    """With a seed always the same numbers, else others at each call; mean and range are those asked for."""
    mod = imported("""
    agraph (float[N, 3] x) => (float[1000] a, float[1000] b, float[N, 3] c, float[N, 3] d, float[N, 3] e, int32[N, 50] f) {
      a = RandomUniform<low = 2.0, high = 4.0, seed = 1.0, shape = [1000]>()
      b = RandomNormal<mean = 5.0, scale = 0.5, shape = [1000]>()
      c = RandomUniformLike(x)
      d = RandomNormalLike<seed = 2.0>(x)
      e = Bernoulli(x)
      f = Multinomial<sample_size = 50>(x)
    }""")
    assert not mod["main"].is_pure
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    x = np.array([[0, 1, 0], [1, 0, 1]], "float32")
    a, b, c, d, e, f = (y.numpy() for y in vm["main"](relax.nd.array(x)))
    again = [y.numpy() for y in vm["main"](relax.nd.array(x))]
    np.testing.assert_allclose([a.min(), a.max(), b.mean(), b.std()], [2, 4, 5, 0.5], atol=0.1)
    assert (a >= 2).all()
    assert (a < 4).all()
    assert c.shape == d.shape == (2, 3)
    assert (e == x).all()  # probabilities of 0 and 1
    assert set(f.ravel()) == {0, 1, 2}
    assert [(y == z).all() for y, z in zip((a, b, c, d), again, strict=False)] == [True, False, False, True]


@pytest.mark.parametrize("opset", [7, 12])
def test_dropout_keeps_everything(agrees, opset):
    agrees(
        "agraph (float[N] x) => (float[N] y) { y = Dropout(x) }",
        np.ones(3, "float32"),
        np.ones(0, "float32"),
        opset=opset,
    )
    agrees(
        """
    agraph (float[N] x) => (float[N] y, bool[N] m) {
      share = Constant<value = float {0.75}>()
      y, m = Dropout(x, share)
    }""",
        np.ones(3, "float32"),
    )


def test_dropout_in_training(imported):
    """With a seed, about the ratio of the elements becomes 0, and the others are larger; without one it is refused."""
    text = """
    agraph (float[N] x, bool training) => (float[N] y, bool[N] m) {
      share = Constant<value = float {0.75}>()
      y, m = Dropout%s(x, share, training)
    }"""
    vm = relax.VirtualMachine(relax.build(imported(text % "<seed = 3>"), "llvm"), relax.cpu())
    x = relax.nd.array(np.ones(1000, "float32"))
    y, mask = (out.numpy() for out in vm["main"](x, relax.nd.array(np.array(True))))
    assert 150 < mask.sum() < 350
    assert (y == np.where(mask, 4, 0)).all()
    y, mask = (out.numpy() for out in vm["main"](x, relax.nd.array(np.array(False))))
    assert (y == 1).all()
    assert mask.all()
    with pytest.raises(relax.DiagnosticError, match="training mode without a seed is not supported"):
        imported(text % "")
