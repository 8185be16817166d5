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
