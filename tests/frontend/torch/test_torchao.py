"""Modules that torchao quantised: products keep weights of 8 and 4 bits as they are, and compute what torch does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from narrow_weights import stays_narrow

import relax
from relax.frontend.torch import from_exported_program

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")

from torchao import quantization as ao  # noqa: E402
from torchao.prototype.quantization.int4 import inference_workflow as int4  # noqa: E402
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e  # noqa: E402
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86  # noqa: E402

SIZES = 512, 640
"""Sizes of weights of which no floats are kept."""
COUNT = 2 * SIZES[0] * SIZES[1]


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(*SIZES), torch.nn.Linear(*SIZES[::-1], bias=False)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


CONFIGS = {
    "int8": (lambda: ao.Int8WeightOnlyConfig(), 8),
    "int8 in groups": (lambda: ao.Int8WeightOnlyConfig(granularity=ao.PerGroup(64)), 8),
    "int8 activations": (lambda: ao.Int8DynamicActivationInt8WeightConfig(), 8),
    "int8 activations with zero points": (
        lambda: ao.Int8DynamicActivationInt8WeightConfig(act_mapping_type=ao.MappingType.ASYMMETRIC), 8,
    ),
    "int8 activations with a scale for all": (
        lambda: ao.Int8StaticActivationInt8WeightConfig(torch.tensor([[0.03]]), granularity=ao.PerTensor()), 8,
    ),
    "int8 by row": (lambda: ao.IntxWeightOnlyConfig(torch.int8, ao.PerAxis(0)), 8),
    "int4 in groups": (lambda: ao.IntxWeightOnlyConfig(torch.int4, ao.PerGroup(64)), 4),
    "int4, activations as rounded to int8": (
        lambda: ao.Int8DynamicActivationIntxWeightConfig(torch.int4, ao.PerGroup(64)), 4,
    ),
}  # fmt: skip


def quantised(config, dtype=torch.float32):
    module = Layers().eval().to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ao.quantize_(module, config)
    return module


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_quantised_linear_layers(name, dtype):
    make, bits = CONFIGS[name]
    module, x = quantised(make(), dtype), torch.randn(3, SIZES[0]).to(dtype)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    tolerance = 1e-5 if dtype == torch.float32 else 2**-6
    stays_narrow(program, module, x, weights=COUNT, tolerance=tolerance, bits=bits)


def test_a_program_that_was_saved_or_decomposed(tmp_path):
    module, x = quantised(ao.IntxWeightOnlyConfig(torch.int4, ao.PerGroup(64))), torch.randn(3, SIZES[0])
    program = torch.export.export(module, (x,))
    torch.export.save(program, tmp_path / "layers.pt2")
    for same in (torch.export.load(tmp_path / "layers.pt2"), program.run_decompositions()):
        stays_narrow(same, module, x, weights=COUNT, tolerance=1e-5, bits=4)


def test_weights_packed_in_4_bits_for_processors():
    config = int4.PrototypeInt4WeightOnlyConfig(group_size=64)
    module, x = quantised(config), torch.randn(3, SIZES[0])
    stays_narrow(torch.export.export(module, (x,)), module, x, weights=COUNT, tolerance=1e-5, bits=4)


def converted(module, x):
    """A module whose activations and weights the quantizer of X86 rounds, with scales from a few inputs."""
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(torch.export.export(module.eval(), (x,)).module(), quantizer)
        for _ in range(3):
            prepared(torch.randn_like(x))
        return convert_pt2e(prepared)


def test_linear_layers_of_pt2e():
    x = torch.randn(3, SIZES[0])
    module = converted(Layers(), x)
    # Torch multiplies by the reciprocal of a scale: numbers between two integers may be rounded to the other one.
    stays_narrow(torch.export.export(module, (x,)), module, x, weights=COUNT, tolerance=2e-3)


def test_convolutions_of_pt2e():
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3, stride=2), torch.nn.ReLU()
    )
    x = torch.randn(2, 3, 16, 16)
    module = converted(layers, x)
    mod = from_exported_program(torch.export.export(module, (x,)), unwrap_unit_return_tuple=True)
    integers = relax.transform.FakeQuantizationToInteger()(mod).script()
    assert integers.count("R.nn.conv2d") == integers.count('out_dtype="int32"') == 2
    found = relax.VirtualMachine(relax.build(mod), relax.cpu())["main"](x).numpy()
    np.testing.assert_allclose(found, module(x).detach().numpy(), 0, 5e-3)
