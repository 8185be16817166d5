"""Formulas used directly, as `BlockBuilder.emit_te` does: names, numbers among the operands, composition."""

from __future__ import annotations

import numpy as np
import pytest

from relax import te, tir, topi
from relax.prim import SizeVar
from relax.tir.interpret import interpret


def run(result: te.Tensor, inputs: list[te.Tensor], *arrays: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(shape, result.dtype.numpy())
    interpret(te.create_prim_func([*inputs, result]), *arrays, out)
    return out


n, m = SizeVar("n", "int64"), SizeVar("m", "int64")


def test_every_public_name_is_there():
    for name in topi.__all__:
        assert getattr(topi, name) is not None


def test_whole_tensors_have_operators():
    a, b = te.placeholder((n, 3), "float32", "a"), te.placeholder((3,), "float32", "b")
    x, y = np.arange(6, dtype="float32").reshape(2, 3), np.array([1, 2, 4], "float32")
    np.testing.assert_array_equal(run((a + b) * 2 - b / 2, [a, b], x, y, shape=(2, 3)), (x + y) * 2 - y / 2)


def test_numbers_and_scalars_among_the_operands():
    a = te.placeholder((n,), "int64", "a")
    x = np.array([1, 2, 3])
    np.testing.assert_array_equal(run(topi.subtract(10, a), [a], x, shape=(3,)), 10 - x)
    np.testing.assert_array_equal(run(topi.multiply(a, n), [a], x, shape=(3,)), 3 * x)
    np.testing.assert_array_equal(run(topi.power(a, 3), [a], x, shape=(3,)), x**3)


@pytest.mark.parametrize("left, right", [(3, 3), (1, 3), (3, 1), (1, 1), (0, 1), (1, 0)])
def test_sizes_that_are_compared_when_the_kernel_runs(left, right):
    a, b = te.placeholder((n,), "float32", "a"), te.placeholder((m,), "float32", "b")
    x, y = np.arange(left, dtype="float32") + 1, np.arange(right, dtype="float32") + 5
    expected = x + y
    np.testing.assert_array_equal(run(topi.add(a, b), [a, b], x, y, shape=expected.shape), expected)


def test_upsampling_by_a_kernel_as_long_as_its_stride_is_a_product():
    """Each element of the data makes a block of its own: no tap needs to be asked if it meets one."""
    data, weight = te.placeholder((1, 3, n, m), "float32", "a"), te.placeholder((3, 4, 2, 2), "float32", "w")
    schedule = tir.Schedule(te.create_prim_func([data, weight, topi.nn.conv_transpose(data, weight, strides=2)]))
    sums = schedule.get(schedule.get_block("conv2d_transpose"))
    assert str(sums.body.value).endswith("a[v_i0, v_rc, v_i4, v_i5] * w[v_rc, v_i1, v_i2, v_i3]")
    padded = te.create_prim_func([data, weight, topi.nn.conv_transpose(data, weight, strides=2, padding=1)])
    assert "T.if_then_else" in padded.script()


def test_composition():
    """A formula of formulas: what a fused kernel computes."""
    a, w = te.placeholder((n, 4), "float32", "a"), te.placeholder((2, 4), "float32", "w")
    h = topi.matmul(a, topi.transpose(w))
    result = topi.where(topi.greater(h, 0), h, topi.exp(h))
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    y = np.linspace(1, -2, 8, dtype="float32").reshape(2, 4)
    expected = x @ y.T
    expected = np.where(expected > 0, expected, np.exp(expected))
    np.testing.assert_allclose(run(result, [a, w], x, y, shape=(3, 2)), expected, rtol=1e-5)


def test_matmul_is_one_block_named_so():
    """Schedules find the reduction by its shape and name."""
    a, b = te.placeholder((n, 4)), te.placeholder((4, m))
    func = te.create_prim_func([a, b, topi.matmul(a, b)])
    assert "matmul" in repr(func)


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda a: topi.transpose(a, [0, 2]), "axis 2 is out of range for 2 dimensions"),
        (lambda a: topi.expand_dims(a, [0, 0]), "an axis is given twice"),
        (lambda a: topi.split(a, 0), "the number of sections must be positive, found 0"),
        (lambda a: topi.arange(0, 5, 0), "the step must not be 0"),
        (lambda a: topi.strided_slice(a, [0], [1], [0]), "the stride of a slice must not be 0"),
    ],
)
def test_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build(te.placeholder((n, 4)))
