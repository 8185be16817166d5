"""ForwardFoldScaleAxis and BackwardFoldScaleAxis: scales of channels in the weights."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_values, check, module, run

from relax.relay.transform import BackwardFoldScaleAxis, ForwardFoldScaleAxis

RNG = np.random.default_rng(0)
DENSE = "%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]"
CONV = "%x: Tensor[(1, 3, 6, 6), float32], %w: Tensor[(4, 3, 3, 3), float32], %b: Tensor[(4), float32]"


def arrays(text):
    shapes = {"dense": [(2, 3), (4, 3)], "conv": [(1, 3, 6, 6), (4, 3, 3, 3), (4,)]}[text]
    return [RNG.standard_normal(shape).astype("float32") for shape in shapes]


def test_forward():
    check(
        ForwardFoldScaleAxis(),
        f"fn({DENSE}, %s: Tensor[(3), float32]) {{ nn.dense(%x * %s, %w) }}",
        f"fn({DENSE}, %s: Tensor[(3), float32]) {{ nn.dense(%x, %w * reshape(%s, newshape=[-1])) }}",
        *arrays("dense"), np.array([1, -2, 3], "float32"),
        rtol=1e-5,
    )  # fmt: skip


def test_backward():
    check(
        BackwardFoldScaleAxis(),
        f"fn({DENSE}, %s: Tensor[(4), float32]) {{ %s * nn.dense(%x, %w) }}",
        f"""fn({DENSE}, %s: Tensor[(4), float32]) {{
  nn.dense(%x, %w * expand_dims(reshape(%s, newshape=[-1]), axis=1))
}}""",
        *arrays("dense"), np.array([1, -2, 3, 4], "float32"),
        rtol=1e-5,
    )  # fmt: skip


SCALE3, SCALE4 = "Constant(2, (3, 1, 1), float32)", "Constant(2, (1, 4, 1, 1), float32)"


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (ForwardFoldScaleAxis, f"nn.conv2d(nn.relu(%x * {SCALE3}), %w)"),
        (ForwardFoldScaleAxis, f"nn.conv2d(nn.max_pool2d(%x * {SCALE3}, pool_size=[2, 2]), %w)"),
        (ForwardFoldScaleAxis, "nn.conv2d(%x * 2f, %w)"),
        (BackwardFoldScaleAxis, f"nn.relu(nn.conv2d(%x, %w)) * {SCALE4}"),
        (BackwardFoldScaleAxis, f"nn.relu(nn.bias_add(nn.conv2d(%x, %w), %b)) * {SCALE4}"),
        (BackwardFoldScaleAxis, f"(nn.conv2d(%x, %w) + Constant(3, (4, 1, 1), float32)) * {SCALE4}"),
        (BackwardFoldScaleAxis, f"nn.avg_pool2d(nn.conv2d(%x, %w), pool_size=[2, 2]) * {SCALE4}"),
    ],
)
def test_operators_between(step, text):
    mod = module(f"fn({CONV}) {{ {text} }}")
    result = run(step(), mod)
    assert result is not mod
    assert_same_values(mod, result, arrays("conv"), rtol=1e-4)
    assert run(step(), result) is result


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (ForwardFoldScaleAxis, "nn.conv2d(nn.relu(%x * -2f), %w)"),  # negative, over relu
        (ForwardFoldScaleAxis, "%1 = %x * 2f; (nn.conv2d(%1, %w), %1)"),  # used elsewhere
        (ForwardFoldScaleAxis, "nn.conv2d(%x * Constant(2, (6), float32), %w)"),  # along another axis
        (BackwardFoldScaleAxis, "%1 = nn.conv2d(%x, %w); (%1 * 2f, %1)"),
        (BackwardFoldScaleAxis, "nn.conv2d(%x, %w) * Constant(2, (2, 1, 1, 1), float32)"),  # a larger result
        (BackwardFoldScaleAxis, "(nn.conv2d(%x, %w) + Constant(2, (1, 4, 4, 4), float32)) * 2f"),
        (BackwardFoldScaleAxis, "nn.relu(nn.conv2d(%x, %w)) * -2f"),
    ],
)
def test_what_is_declined(step, text):
    mod = module(f"fn({CONV}) {{ {text} }}")
    assert run(step(), mod) is mod


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (ForwardFoldScaleAxis, f'nn.conv2d(%x * {SCALE3}, %w, out_layout="NCHW2c")'),
        (BackwardFoldScaleAxis, f'nn.conv2d(%x, %w, out_layout="NHWC") * {SCALE4}'),
        (BackwardFoldScaleAxis, 'nn.conv2d(%x, %w, out_layout="NCHW2c") * Constant(2, (2, 1, 1, 1), float32)'),
        (BackwardFoldScaleAxis, f'nn.conv2d(%x, %p, kernel_layout="OIHW2o") * {SCALE4}'),
    ],
)
def test_packed_layouts_keep_their_scales(step, text):
    """Channels that are split, or somewhere else in the result, are not the weight's dimension O."""
    mod = module(f"fn({CONV}, %p: Tensor[(2, 3, 3, 3, 2), float32]) {{ {text} }}")
    assert run(step(), mod) is mod
