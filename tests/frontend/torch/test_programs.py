"""Whole programs of torch.export: inputs, parameters, outputs, symbols, and what is not imported."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.frontend import detach_params
from relax.frontend.torch import converter, from_exported_program
from relax.ir import structural_equal

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

from torch_programs import Function, exported  # noqa: E402


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.hidden(x).relu())


def run(mod, *inputs):
    return relax.VirtualMachine(relax.build(mod), relax.cpu())["main"](*inputs)


def test_main_takes_the_inputs_and_returns_a_tuple():
    mod = from_exported_program(exported(Mlp(), [torch.randn(2, 4)], dynamic=[[0]]))
    (x,) = mod["main"].params
    assert x.name_hint == "x"
    assert mod["main"].attrs["num_input"] == 1
    assert isinstance(mod["main"].ret_struct_info, relax.TupleStructInfo)
    batch, width = x.struct_info.shape.values
    assert width.value == 4
    assert structural_equal(mod["main"].ret_struct_info.fields[0].shape.values[0], batch)


def test_one_output_without_a_tuple():
    mod = from_exported_program(exported(Mlp(), [torch.randn(2, 4)]), unwrap_unit_return_tuple=True)
    assert isinstance(mod["main"].ret_struct_info, relax.TensorStructInfo)
    assert run(mod, torch.ones(2, 4)).shape == (2, 3)


def test_parameters_as_inputs():
    module = Mlp()
    mod = from_exported_program(exported(module, [torch.randn(2, 4)], dynamic=[[0]]), keep_params_as_input=True)
    mod, params = detach_params(mod)
    assert [p.name_hint for p in mod["main"].params] == [
        "x",
        "p_hidden_weight",
        "p_hidden_bias",
        "p_out_weight",
        "p_out_bias",
    ]
    x = torch.randn(5, 4)
    np.testing.assert_allclose(run(mod, x, *params["main"])[0].numpy(), module(x).detach().numpy(), atol=1e-6)


def test_parameters_are_copied():
    """What becomes of the module later does not show."""
    module, x = Mlp(), torch.ones(1, 4)
    before = module(x).detach().numpy()
    mod = from_exported_program(exported(module, [x]))
    with torch.no_grad():
        module.out.weight.zero_()
    np.testing.assert_allclose(run(mod, x)[0].numpy(), before, atol=1e-6)


def test_tied_parameters_are_one_constant():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, i):
            return self.head(self.embed(i))

    text = from_exported_program(exported(Tied(), [torch.tensor([1, 2])]))["main"]
    constants = set()
    relax.analysis.post_order_visit(text, lambda e: constants.add(e) if isinstance(e, relax.Constant) else None)
    assert len(constants) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_modules_of_other_dtypes(agrees, dtype):
    agrees(
        Mlp().to(dtype),
        torch.randn(3, 4).to(dtype),
        dynamic=[[0]],
        others=[(torch.randn(1, 4).to(dtype),)],
        tolerance=2e-2,
    )


def test_inputs_in_containers_and_constants(agrees):
    class Nested(nn.Module):
        def forward(self, pair, named, flag=None):
            return {"sum": pair[0] + pair[1], "more": [named["z"] * 2, pair[0]]}

    program = torch.export.export(Nested(), ((torch.ones(2), torch.ones(2)), {"z": torch.ones(3)}, None))
    found = run(from_exported_program(program), np.ones(2, "float32"), np.ones(2, "float32"), np.ones(3, "float32"))
    assert [part.numpy().tolist() for part in found] == [[2, 2], [2, 2, 2], [1, 1]]


def test_sizes_that_are_computed(agrees):
    def pooled(x):
        n, c, h, w = x.shape
        small = F.avg_pool2d(x, 3, 2, 1)
        rows = small.flatten(2).transpose(1, 2)
        back = rows.transpose(1, 2).reshape(n, c, (h + 1) // 2, (w + 1) // 2)
        return back + small, rows * (h * w), torch.arange(h // 2), F.interpolate(small, size=(h, w))

    agrees(pooled, torch.randn(2, 3, 7, 8), dynamic=[[0, 2, 3]], others=[(torch.randn(1, 3, 12, 5),)])


def test_sizes_shared_by_inputs(agrees):
    """Torch has found that the two sizes are one; others are refused."""
    mod = agrees(
        lambda x, y: x + y,
        torch.randn(3, 2),
        torch.randn(3, 2),
        dynamic=[[0], [0]],
        others=[(torch.randn(1, 2), torch.randn(1, 2))],
    )
    with pytest.raises(ValueError, match="dimension 0 is 5, expected"):
        run(mod, torch.randn(4, 2), torch.randn(5, 2))


def test_step_of_decoding_with_a_cache(agrees):
    """Keys and values of the past come in, and go out longer, at any length."""

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

        def forward(self, x, keys, values):
            q, k, v = (p.unflatten(-1, (2, 8)).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
            keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            y = F.scaled_dot_product_attention(q, keys, values)
            return self.out(y.transpose(1, 2).flatten(2)), keys, values

    def inputs(batch, past):
        return torch.randn(batch, 1, 16), torch.randn(batch, 2, past, 8), torch.randn(batch, 2, past, 8)

    others = [inputs(1, 1), inputs(3, 30), inputs(2, 0)]
    agrees(Step(), *inputs(2, 5), dynamic=[[0], [0, 2], [0, 2]], others=others, tolerance=1e-5)


# ------------------------------------------------------------------------------------- what is not imported


def test_what_has_no_converter_is_listed():
    def odd(x):
        return torch.special.modified_bessel_k0(x), torch.special.airy_ai(x), torch.special.modified_bessel_k0(x + 1)

    with pytest.raises(relax.DiagnosticError) as raised:
        from_exported_program(exported(odd, [torch.ones(2)]))
    text = str(raised.value)
    assert "error[E6001]: the operator aten.special_modified_bessel_k0.default is not supported" in text
    assert "nodes: special_modified_bessel_k0, special_modified_bessel_k0_1" in text
    assert "error[E6001]: the operator aten.special_airy_ai.default is not supported" in text
    assert "help: register a converter: relax.frontend.torch.converter('aten.special_airy_ai.default')" in text


def test_converter_of_ones_own(without, agrees):
    @converter("aten.special_modified_bessel_k0.default")
    def bessel(g, x):
        return relax.op.cos(x)

    mod = from_exported_program(exported(torch.special.modified_bessel_k0, [torch.ones(2)]))
    np.testing.assert_allclose(run(mod, torch.ones(2))[0].numpy(), np.cos(np.ones(2)), rtol=1e-6)


def test_operator_that_torch_takes_apart(without, agrees):
    """Without a converter of its own, an operator is what torch's decomposition makes of it."""
    del without["aten.softplus"], without["aten.layer_norm.default"]
    agrees(nn.Sequential(nn.Softplus(), nn.LayerNorm(4)), torch.randn(3, 4), dynamic=[[0]], tolerance=1e-5)


def test_operator_in_a_form_that_is_not_imported():
    with pytest.raises(relax.DiagnosticError) as raised:
        from_exported_program(exported(lambda x: torch.linalg.pinv(x, rtol=torch.tensor(0.1)), [torch.ones(2, 2)]))
    text = str(raised.value)
    assert (
        "error[E6001]: aten.linalg_pinv.atol_rtol_tensor 'linalg_pinv': a tolerance that is a tensor is not supported"
        in text
    )
    assert "--> program: linalg_pinv:" in text
    assert "torch_programs.py" in text or "test_programs.py" in text  # the line of the module


def test_something_else_than_a_program():
    with pytest.raises(
        TypeError, match="expected an ExportedProgram, as torch.export.export returns it, found Function"
    ):
        from_exported_program(Function(torch.exp))
