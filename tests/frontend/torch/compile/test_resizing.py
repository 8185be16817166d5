"""torch.compile(backend="relax"): resizing is one operator, with and without gradients; pools compute what is read."""

from __future__ import annotations

import warnings

import pytest

import relax.frontend.torch  # which makes the backend known

torch = pytest.importorskip("torch")
functional = torch.nn.functional

FORMS = {
    "a scale": ({"mode": "bilinear", "scale_factor": 2.0}, True),
    "corners": ({"mode": "bilinear", "scale_factor": 2.0, "align_corners": True}, True),
    "cubes": ({"mode": "bicubic", "size": (7, 11)}, True),
    "nearest": ({"mode": "nearest", "scale_factor": (2.0, 3.0)}, True),
    "exact": ({"mode": "nearest-exact", "size": (10, 4)}, True),
    "no whole scale": ({"mode": "bilinear", "scale_factor": 1.7}, False),
}


class Resized(torch.nn.Module):
    def __init__(self, options):
        super().__init__()
        self.options = options

    def forward(self, x):
        return functional.interpolate(x, **self.options)


@pytest.fixture(autouse=True)
def _no_fallback():
    with warnings.catch_warnings():
        warnings.simplefilter("error", relax.frontend.torch.FallbackWarning)
        yield


@pytest.mark.parametrize("name", FORMS)
def test_resizing(twins, builds, name):
    options, is_kept = FORMS[name]
    module, compiled, _ = twins(Resized(options))
    for size in ((2, 3, 6, 5), (1, 3, 8, 9)):
        x = torch.randn(size, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        expected, found = module(x), compiled(y)
        torch.testing.assert_close(found, expected)
        weights = torch.randn_like(expected)
        (expected * weights).sum().backward()
        (found * weights).sum().backward()
        torch.testing.assert_close(y.grad, x.grad)
    assert ("R.image.resize" in builds[0].script()) is is_kept


def test_torch_takes_resizing_apart_as_before_afterwards(twins):
    """What is kept whole for a trace is no property of torch."""
    vec = torch.ops.aten.upsample_bilinear2d.vec
    before = dict(vec.py_kernels)
    module, compiled, _ = twins(Resized({"mode": "bilinear", "scale_factor": 2.0}))
    x = torch.randn(2, 3, 6, 5)
    torch.testing.assert_close(compiled(x), module(x))
    assert vec.py_kernels == before


@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 6, 8), (3, 5, 4)])
def test_a_pool_computes_indices_for_gradients_only(twins, builds, is_trained, size):
    module, compiled, _ = twins(torch.nn.MaxPool2d(2))
    with torch.set_grad_enabled(is_trained):
        x = torch.randn(size, requires_grad=is_trained)
        torch.testing.assert_close(compiled(x), module(x))
    assert ("R.nn.max_pool2d_with_indices(" in builds[0].script()) is is_trained


def test_sizes_of_intermediate_results_end_no_piece(twins, builds):
    """The group norm takes a size of the pool's result, which is computed from those of the input."""
    module, compiled, _ = twins(torch.nn.Sequential(torch.nn.MaxPool2d(3, 2), torch.nn.GroupNorm(2, 4)))
    with torch.no_grad():
        for size in ((2, 4, 9, 8), (5, 4, 13, 16), (3, 4, 5, 7)):
            x = torch.randn(size)
            torch.testing.assert_close(compiled(x), module(x))
    assert len(builds) == 1
