"""Images that torch resizes and samples."""

from __future__ import annotations

import pytest

from relax.frontend.torch import from_exported_program
from relax.ir import DiagnosticError

torch = pytest.importorskip("torch")
from torch_programs import exported  # noqa: E402

F = torch.nn.functional

X = torch.randn(2, 3, 6, 8)
OTHERS = [(torch.randn(1, 3, 5, 9),), (torch.randn(3, 3, 7, 3),)]


@pytest.mark.parametrize("options", [
    {"mode": "nearest"}, {"mode": "nearest-exact"}, {"mode": "bilinear"}, {"mode": "bilinear", "align_corners": True}, {"mode": "bicubic"},
], ids=str)  # fmt: skip
def test_interpolation(agrees, options):
    def resized(x):
        return (
            F.interpolate(x, scale_factor=2, **options),
            F.interpolate(x, size=(5, 11), **options),
            F.interpolate(x, scale_factor=(1.5, 0.5), **options),
        )

    agrees(resized, X, dynamic=[[0, 2, 3]], others=OTHERS, tolerance=2e-5)


def test_interpolation_that_widens_its_filter(agrees):
    agrees(lambda x: F.interpolate(x, size=(3, 5), mode="bilinear", antialias=True), X, tolerance=2e-5)


def test_interpolation_of_sequences(agrees):
    agrees(
        lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=7, mode="linear")),
        torch.randn(2, 3, 5),
        tolerance=2e-5,
    )


def test_interpolation_to_the_size_of_another_tensor(agrees):
    def like(x, y):
        return F.interpolate(x, size=y.shape[-2:], mode="bilinear") + y

    agrees(
        like,
        X,
        torch.randn(2, 3, 12, 9),
        dynamic=[[0], [0, 2, 3]],
        others=[(X[:1], torch.randn(1, 3, 4, 30))],
        tolerance=2e-5,
    )


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_sampling(agrees, mode):
    def sampled(x, g):
        return [
            F.grid_sample(x, g, mode=mode, padding_mode=p, align_corners=a)
            for p in ("zeros", "border", "reflection")
            for a in (False, True)
        ]

    agrees(sampled, X, torch.rand(2, 4, 5, 2) * 2.2 - 1.1, tolerance=1e-4)


def test_sampling_along_an_affine_grid(agrees):
    def turned(x, theta):
        return F.grid_sample(x, F.affine_grid(theta, [2, 3, 4, 5], align_corners=False), align_corners=False)

    agrees(turned, X, torch.randn(2, 2, 3) / 2, tolerance=1e-4)


def test_antialias_with_align_corners_is_refused():
    with pytest.raises(DiagnosticError, match="antialias with align_corners is not supported"):
        from_exported_program(exported(
            lambda x: F.interpolate(x, (3, 3), mode="bilinear", antialias=True, align_corners=True), [torch.ones(1, 1, 5, 5)]))  # fmt: skip
