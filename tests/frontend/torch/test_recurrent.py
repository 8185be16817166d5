"""Recurrent layers of torch; torch.export takes the length of the sequence for a constant."""

from __future__ import annotations

import pytest

from relax.frontend.torch import build_exported, open_lengths

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


@pytest.mark.parametrize(
    "kind, options, strict",
    [
        ("LSTM", {"batch_first": True}, False),
        ("LSTM", {"num_layers": 2, "bidirectional": True}, True),
        ("GRU", {"num_layers": 2}, False),
        ("RNN", {"bidirectional": True}, False),
    ],
)
def test_open_lengths(kind, options, strict):
    """One program serves every length and batch."""
    module = getattr(nn, kind)(4, 3, **options).eval()
    both = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with open_lengths():
        program = torch.export.export(module, (torch.randn(5, 2, 4),), dynamic_shapes=(both,), strict=strict)
    run = build_exported(program, tier="now")
    for first, second in ((5, 2), (1, 7), (6, 1)):
        x = torch.randn(first, second, 4)
        with torch.no_grad():
            torch.testing.assert_close(run(x), module(x), atol=1e-5, rtol=1e-5)


def test_open_lengths_in_a_file(tmp_path):
    module = nn.GRU(4, 3).eval()
    with open_lengths():
        program = torch.export.export(module, (torch.randn(5, 2, 4),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, tmp_path / "gru.pt2")
    run = build_exported(tmp_path / "gru.pt2", tier="now")
    x = torch.randn(9, 2, 4)
    torch.testing.assert_close(run(x), tuple(value.detach() for value in module(x)), atol=1e-5, rtol=1e-5)


def test_layers_outside_of_the_context():
    """Packed sequences and what is called later are torch's own."""
    from torch.nn.utils.rnn import pack_sequence

    module = nn.GRU(4, 3)
    packed = pack_sequence([torch.ones(3, 4), torch.ones(2, 4)])
    with open_lengths():
        inside = module(packed)[1]
    torch.testing.assert_close(inside, module(packed)[1])
    assert torch.nn.modules.rnn._VF is torch._VF
