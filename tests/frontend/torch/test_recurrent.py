"""Recurrent layers of torch; torch.export takes the length of the sequence for a constant."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn


@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}, {"batch_first": True}], ids=str
)
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN], ids=lambda layer: layer.__name__)
def test_layers(agrees, layer, options):
    agrees(layer(4, 5, **options), torch.randn(6, 3, 4), tolerance=1e-5)


def test_layer_with_states(agrees):
    def stepped(x, h, c):
        return module(x, (h, c))

    module = nn.LSTM(4, 5, 2)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    agrees(stepped, torch.randn(6, 3, 4), torch.randn(2, 3, 5), torch.randn(2, 3, 5), tolerance=1e-5)


def test_layer_without_a_batch(agrees):
    agrees(nn.GRU(4, 5), torch.randn(6, 4), tolerance=1e-5)


def test_cells(agrees):
    agrees(nn.LSTMCell(4, 5), torch.randn(3, 4), tolerance=1e-5)
    agrees(nn.GRUCell(4, 5), torch.randn(3, 4), tolerance=1e-5)
