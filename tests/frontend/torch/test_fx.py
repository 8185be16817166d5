"""Graph modules of torch.fx: from_fx, and the backend of torch.compile."""

from __future__ import annotations

import pytest

import relax
from relax.frontend.torch import from_fx, relax_dynamo

torch = pytest.importorskip("torch")
nn = torch.nn


class Counting(nn.Module):
    """A module with weights, a buffer that it changes, an input that it changes, and numbers."""

    def __init__(self):
        super().__init__()
        self.dense, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x, factor=2):
        self.count += 1
        y = self.norm(self.dense(x)).relu() + self.count
        before = x.clone()
        x.mul_(2)
        return {"scaled": y * factor, "pair": (x, None), "before": before, "rows": y.reshape(-1).shape[0]}


@pytest.fixture
def twins():
    """A module, and one like it that is compiled."""
    module, other = Counting().eval(), Counting().eval()
    other.load_state_dict(module.state_dict())
    torch.compiler.reset()
    return module, torch.compile(other, backend=relax_dynamo()), other


def same(twins, x, *rest):
    module, compiled, inner = twins
    own = x.clone()
    with torch.no_grad():
        found, expected = compiled(own, *rest), module(x, *rest)
    for name in ("scaled", "before"):
        torch.testing.assert_close(found[name], expected[name])
    assert found["pair"][0] is own
    assert found["pair"][1] is None
    assert found["rows"] == expected["rows"]
    torch.testing.assert_close(own, x)
    torch.testing.assert_close(inner.count, module.count)


def test_a_compiled_module_computes_what_the_module_does(twins):
    """Buffers and inputs are changed; the second size makes both the batch and the factor dynamic."""
    for batch, factor in ((2, 2), (2, 2), (4, 3), (7, 5)):
        same(twins, torch.randn(batch, 3), factor)


def test_weights_that_are_loaded_later_count(twins):
    same(twins, torch.randn(2, 3))
    for module in (twins[0], twins[2]):
        module.dense.load_state_dict({"weight": torch.ones(3, 3), "bias": torch.ones(3)})
    same(twins, torch.randn(2, 3))


@pytest.mark.parametrize("norm_first, activation, masked", [
    (False, "relu", None), (True, "gelu", None), (False, "gelu", "pairs"), (True, "relu", "keys"), (False, "relu", "both"),
])  # fmt: skip
def test_layers_of_an_encoder(norm_first, activation, masked):
    """In eval mode torch.compile meets a layer as one operator."""
    torch.compiler.reset()
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(24, 4, 40, activation=activation, norm_first=norm_first, batch_first=True).eval()
    compiled = torch.compile(layer, backend=relax_dynamo())
    for batch, length in ((2, 5), (3, 7), (1, 1)):
        x = torch.randn(batch, length, 24)
        pairs = torch.ones(length, length).triu(1).bool() if masked in ("pairs", "both") else None
        keys = torch.arange(length).expand(batch, length) > 3 if masked in ("keys", "both") else None
        with torch.no_grad():
            expected = layer(x, src_mask=pairs, src_key_padding_mask=keys)
            found = compiled(x, src_mask=pairs, src_key_padding_mask=keys)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"average_attn_weights": False}, {"need_weights": False}])
def test_attention_with_its_projections(options):
    torch.compiler.reset()
    torch.manual_seed(0)
    module = nn.MultiheadAttention(24, 4, batch_first=True).eval()
    compiled = torch.compile(module, backend=relax_dynamo())
    for batch, length in ((2, 5), (3, 7), (1, 1)):
        x = torch.randn(batch, length, 24)
        with torch.no_grad():
            expected, found = module(x, x, x, **options), compiled(x, x, x, **options)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_gradients_are_refused():
    torch.compiler.reset()
    compiled = torch.compile(nn.Linear(3, 3), backend=relax_dynamo())
    with pytest.raises(Exception, match="relax_dynamo gives no gradients") as raised:
        compiled(torch.ones(2, 3))
    assert "help: call the module inside of torch.no_grad()" in str(raised.value)


def test_a_pipeline_is_applied():
    seen = []

    @relax.transform.module_pass(opt_level=0)
    def note(mod, context):
        seen.append(mod)
        return mod

    torch.compiler.reset()
    compiled = torch.compile(torch.exp, backend=relax_dynamo(note))
    torch.testing.assert_close(compiled(torch.ones(3)), torch.ones(3).exp())
    assert len(seen) == 1


def test_from_fx():
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
    mod = from_fx(torch.fx.symbolic_trace(module), [((2, 4), "float32")])
    assert isinstance(mod["main"].ret_struct_info, relax.TensorStructInfo)
    x = torch.randn(2, 4)
    found = relax.VirtualMachine(relax.build(mod), relax.cpu())["main"](x)
    torch.testing.assert_close(torch.from_dlpack(found), module(x).detach())


def test_something_else_than_a_graph_module():
    with pytest.raises(TypeError, match="from_fx: expected a torch.fx.GraphModule, found str"):
        from_fx("model", [])
