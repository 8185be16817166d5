"""Programs that are imported as torch.export made them, without torch's decomposition, and what is not taken so."""

from __future__ import annotations

import pytest

from relax.frontend.torch import from_exported_program
from relax.frontend.torch.effects import functional_name, is_direct

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

from torch_programs import exported  # noqa: E402


@pytest.fixture
def undecomposed(monkeypatch):
    """Torch's decomposition is not called in this test."""

    def called(*_, **__):
        raise AssertionError("the program was decomposed")

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", called)


class Residual(nn.Module):
    """A block of a network of images, whose activations are written in place."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(inplace=True)
        self.norm.running_mean.copy_(torch.randn(3))

    def forward(self, x):
        y = self.relu(self.norm(self.conv(x)))
        y = self.norm(self.conv(y))
        y += x
        return self.relu(y)


def test_a_network_with_activations_in_place(undecomposed, agrees):
    agrees(Residual(), torch.randn(2, 3, 5, 6), dynamic=[[0, 2]], others=[(torch.randn(1, 3, 9, 6),)], tolerance=1e-5)


def test_a_transformer(undecomposed, agrees):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    agrees(module, torch.randn(2, 5, 8), dynamic=[[0, 1]], others=[(torch.randn(1, 3, 8),)], tolerance=1e-5)


def test_a_value_and_the_one_that_is_written_into_it(undecomposed, agrees):
    """Readers before the write see the old value, readers of each name see the new one afterwards."""

    def written(x):
        y = x.exp()
        before = y + 1
        z = y.mul_(2)
        between = y + 1
        y.add_(torch.ones((), dtype=torch.float64))
        return before, between, y * 3, z * 5

    agrees(written, torch.randn(3, 2), dynamic=[[0]])


VIEWS = {
    "a view before the write": lambda x: (lambda y: (y.view(-1), y.add_(1), y)[0] * 1)(x.exp()),
    "a view of the result of a write": lambda x: (lambda y: (y.relu_().t(), y.add_(1))[0] * 1)(x.exp()),
    "a transposed view is written": lambda x: (lambda y: (y.t().mul_(2), y)[1])(x.exp()),
    "an input": lambda x: x.clone() + x.add_(1),
    "a dropout that does nothing": lambda x: (lambda y: (F.dropout(y, training=False).add_(1), y)[1])(x.exp()),
    "an operand of a transposing einsum": lambda x: (lambda y: (torch.einsum("ij->ji", y).add_(1), y)[1])(x.exp()),
    "an operand of a grid": lambda x: (lambda y: (torch.meshgrid(y[0], y[1], indexing="ij"), y.add_(1))[0])(x.exp()),
    "a part of a split": lambda x: (lambda parts: (parts[0].add_(1), *parts))(x.exp().split([1, 2])),
}


@pytest.mark.parametrize("name", VIEWS)
def test_writes_that_others_see(name, agrees):
    function = VIEWS[name]
    x = torch.randn(3, 2)
    assert not is_direct(exported(function, [x.clone()]).graph_module)
    if name != "an input":
        agrees(function, x)


def test_a_graph_that_was_edited_is_derived_anew():
    """What the notes of the nodes say is the shape before the edit."""
    program = exported(lambda x: x.sum(1) * 2, [torch.ones(2, 3)])
    next(node for node in program.graph.nodes if node.op == "call_function").update_arg(1, [0])
    assert is_direct(program.graph_module)
    (result,) = from_exported_program(program)["main"].ret_struct_info.fields
    assert [int(dim) for dim in result.shape.values] == [3]


def test_names_of_operators_that_write():
    aten = torch.ops.aten
    assert functional_name(aten.add_.Tensor) == "aten.add.Tensor"
    assert functional_name(aten.add.Tensor) is None
    assert functional_name(aten.add.out) == ""
