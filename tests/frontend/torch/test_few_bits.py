"""Weights of 8 and 4 bits in torch's own operators: integers times scales, and what torch packs for its kernels."""

from __future__ import annotations

import pytest
from narrow_weights import stays_narrow

import relax

torch = pytest.importorskip("torch")

ROWS, DEPTH, GROUP = 640, 512, 32
"""Sizes of weights of which no floats are kept."""

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-7}


class Layer(torch.nn.Module):
    """A layer of weights that a function multiplies by."""

    def __init__(self, multiply, dtype, **buffers):
        super().__init__()
        self.multiply = multiply
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer.to(dtype) if buffer.is_floating_point() else buffer)

    def forward(self, x):
        return self.multiply(x, **dict(self.named_buffers()))


def exported(layer, x):
    with torch.no_grad():
        return torch.export.export(layer.eval(), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))


def integers(*size, low=-128, high=128, dtype=torch.int8):
    return torch.randint(low, high, size, dtype=dtype)


def scaled_behind(x, q, s):
    return torch.mm(x, q.t().to(x.dtype)) * s


def scaled(x, q, s):
    return torch.nn.functional.linear(x, q.to(x.dtype) * s[:, None])


def grouped(x, q, s):
    wide = q.reshape(ROWS, -1, GROUP).to(x.dtype) - 3
    return x @ (wide * s[:, None, None]).reshape(ROWS, DEPTH).t()


def packed_in_8_bits(x, q, s):
    return torch.ops.aten._weight_int8pack_mm(x, q, s)


def decomposed(x, q, s):
    ops = torch.ops.quantized_decomposed
    weights = ops.dequantize_per_channel_group(q, s.float(), None, -8, 7, torch.int8, GROUP, torch.float32)
    return torch.nn.functional.linear(x, weights.to(x.dtype))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("multiply", [scaled_behind, scaled, grouped, packed_in_8_bits])
def test_integers_times_scales(multiply, dtype):
    layer = Layer(multiply, dtype, q=integers(ROWS, DEPTH), s=torch.rand(ROWS) / 100)
    x = torch.randn(3, DEPTH).to(dtype)
    stays_narrow(exported(layer, x), layer, x, weights=ROWS * DEPTH, tolerance=TOLERANCE[dtype])


def test_groups_of_channels():
    pytest.importorskip("torch.ao.quantization.fx._decomposed")
    layer = Layer(
        decomposed, torch.float32, q=integers(ROWS, DEPTH, low=-8, high=8), s=torch.rand(ROWS, DEPTH // GROUP) / 100
    )
    x = torch.randn(3, DEPTH)
    program = torch.export.export(layer, (x,))
    stays_narrow(program, layer, x, weights=ROWS * DEPTH, tolerance=1e-5, bits=4)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("rows", [ROWS, 656])
def test_weights_that_torch_packs_in_4_bits(dtype, rows):
    """In the order that this processor's kernels read, also where the last block of rows is not whole."""

    def multiply(x, q, zeros):
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x, q, GROUP, zeros)

    numbers = integers(rows, DEPTH, low=0, high=16, dtype=torch.int32)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 1)
    layer = Layer(multiply, dtype, q=packed, zeros=torch.randn(DEPTH // GROUP, rows, 2) / 100)
    x = torch.randn(3, DEPTH).to(dtype)
    stays_narrow(exported(layer, x), layer, x, weights=rows * DEPTH, tolerance=TOLERANCE[dtype], bits=4)


def test_packed_weights_that_are_parameters_are_refused():
    def multiply(x, q, zeros):
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x, q, GROUP, zeros)

    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(integers(32, 64, low=0, high=16, dtype=torch.int32), 1)
    layer = Layer(multiply, torch.float32, q=packed, zeros=torch.rand(2, 32, 2))
    program = exported(layer, torch.randn(3, 64))
    with pytest.raises(relax.DiagnosticError, match="must be constants"):
        relax.frontend.torch.from_exported_program(program, keep_params_as_input=True)


def test_products_of_bytes_whose_sums_are_constants():
    """The sums of weights by which zero points are multiplied are computed when the program is built."""

    def multiply(x, q, s):
        scale = x.abs().amax(-1, keepdim=True) / 127
        shifted = (torch.round(x / scale).to(torch.int32) + 128).to(torch.uint8)
        total = torch._int_mm(shifted, q.t()) - 128 * q.t().sum(0, dtype=torch.int32)
        return total.float() * scale * s

    layer = Layer(multiply, torch.float32, q=integers(ROWS, DEPTH), s=torch.rand(ROWS) / 100)
    x = torch.randn(32, DEPTH)
    program = torch.export.export(layer, (x,))
    stays_narrow(program, layer, x, weights=ROWS * DEPTH, tolerance=1e-6)
