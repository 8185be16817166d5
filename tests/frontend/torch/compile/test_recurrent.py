"""Recurrent layers in torch.compile, inside of open_lengths."""

from __future__ import annotations

import warnings

import pytest

from relax.frontend.torch import FallbackWarning, open_lengths

torch = pytest.importorskip("torch")
nn = torch.nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x):
        return self.out(self.layer(x)[0].relu())


def test_one_build_serves_every_length(twins, builds):
    module, compiled, _ = twins(Tagger().eval())
    with open_lengths(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for length in (6, 3, 9):
            x = torch.randn(2, length, 4)
            torch.testing.assert_close(compiled(x), module(x), atol=1e-5, rtol=1e-5)
    assert len(builds) == 1


def test_a_layer_that_is_trained(twins, trains):
    with open_lengths(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        trains(twins(Tagger(), dynamic=False), torch.randn(2, 5, 4))
