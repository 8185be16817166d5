"""Quantised programs, as pt2e writes them: quantize and dequantize around the operators."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")
q = torch.ops.quantized_decomposed

TENSOR = 0.05, 3, -128, 127, torch.int8
SCALES, ZEROS = torch.tensor([0.02, 0.1, 0.03]), torch.tensor([0, 0, 0])


class Linear(torch.nn.Module):
    """A linear layer with int8 weights of a scale per channel and an int8 input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (3, 8), dtype=torch.int8))

    def forward(self, x):
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, *TENSOR), *TENSOR)
        weight = q.dequantize_per_channel(self.weight, SCALES, ZEROS, 0, -127, 127, torch.int8)
        y = torch.nn.functional.linear(x, weight)
        return q.dequantize_per_tensor(
            q.quantize_per_tensor(y, 0.5, 0, -128, 127, torch.int8), 0.5, 0, -128, 127, torch.int8
        )


def test_a_linear_layer(agrees):
    agrees(Linear(), torch.randn(4, 8), dynamic=[[0]], others=[(torch.randn(1, 8) * 9,)], tolerance=1e-5)


def test_limits_dtypes_and_axes(agrees):
    def all_(x):
        narrow = q.quantize_per_tensor(x, 0.1, 0, -7, 7, torch.int8)
        byte = q.quantize_per_tensor(x, 0.1, 128, 0, 255, torch.uint8)
        channels = q.quantize_per_channel(x, SCALES, ZEROS, 1, -127, 127, torch.int8)
        back = q.dequantize_per_channel(channels, SCALES, ZEROS, 1, -127, 127, torch.int8)
        return narrow, byte, channels, back

    agrees(all_, torch.linspace(-20, 20, 12).reshape(4, 3) + 0.013, dynamic=[[0]], others=[(torch.randn(2, 3),)])


def test_scales_of_tensors(agrees):
    def all_(x):
        return (
            *q.choose_qparams.tensor(x, 0, 255, 1e-5, torch.uint8),
            *q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8),
            *q.choose_qparams_symmetric.tensor(x, -128, 127, 1e-5, torch.int8),
            *q.choose_qparams_symmetric.tensor(x, 0, 255, 1e-5, torch.uint8),
        )

    others = [(torch.rand(3, 5) + 3,), (torch.zeros(2, 5),), (-torch.rand(7, 5),)]
    agrees(all_, torch.randn(4, 5), dynamic=[[0]], others=others)


def test_scales_of_tokens(agrees):
    def all_(x):
        scales, zeros = q.choose_qparams_per_token_asymmetric(x, torch.int8)
        tokens = q.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
        back = q.dequantize_per_token(tokens, scales, zeros, -128, 127, torch.int8, torch.float32)
        own, none = q.choose_qparams_per_token(x, torch.int8)
        return scales, zeros, back, q.quantize_per_token(x, own, none, -127, 127, torch.int8)

    agrees(all_, torch.randn(4, 16), dynamic=[[0]], others=[(torch.rand(2, 16) - 3,)], tolerance=1e-6)


@pytest.mark.parametrize("zeros", [True, False])
def test_groups_of_channels(agrees, zeros):
    scales = torch.rand(3, 4) / 10 + 0.01
    points = torch.randint(-4, 4, (3, 4)) if zeros else torch.zeros(3, 4, dtype=torch.int64)

    def all_(x):
        groups = q.quantize_per_channel_group(x, scales, points, -8, 7, torch.int8, 8)
        given = points if zeros else None
        return groups, q.dequantize_per_channel_group(groups, scales, given, -8, 7, torch.int8, 8, torch.float32)

    agrees(all_, torch.randn(3, 32), tolerance=1e-6)


def test_data_that_are_quantised_by_their_own_scale(agrees):
    weight = torch.randint(-127, 128, (3, 8), dtype=torch.int8)

    def linear(x):
        scale, zero = q.choose_qparams.tensor(x, 0, 255, 1e-5, torch.uint8)
        x = q.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
        x = q.dequantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
        own = q.dequantize_per_channel(weight, SCALES, ZEROS, 0, -127, 127, torch.int8)
        return torch.nn.functional.linear(x, own)

    agrees(linear, torch.randn(4, 8), dynamic=[[0]], others=[(torch.randn(1, 8) * 9,)], tolerance=1e-5)
