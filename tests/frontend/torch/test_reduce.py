"""Reductions, norms and running sums of torch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

X = torch.randn(3, 4, 5)
OTHERS = [(torch.randn(1, 4, 5),), (torch.randn(7, 4, 1),)]


def test_sums_and_means(agrees):
    """Of numbers above 0: where summands cancel, the error of a sum is no share of it."""

    def sums(x):
        return (
            x.sum(),
            x.sum(1),
            x.sum((0, 2), keepdim=True),
            x.mean(),
            x.mean(-1, keepdim=True),
            x.int().sum(1),
            (x > 1).sum(0),
            x.prod(1),
        )

    agrees(sums, X.exp(), dynamic=[[0, 2]], others=[(x.exp(),) for (x,) in OTHERS])


def test_sums_of_nothing(agrees):
    agrees(
        lambda x: (x.sum(0), x.sum(1), x.prod(0), (x > 0).any(0), (x > 0).all(0)),
        torch.randn(2, 3),
        dynamic=[[0]],
        others=[(torch.randn(0, 3),)],
    )


def test_extremes_and_their_places(agrees):
    """The place of a maximum is that of the first one."""

    def extremes(x):
        return (
            x.amax(1),
            x.amin((0, 2)),
            x.max(),
            *x.max(1),
            *x.min(-1, keepdim=True),
            x.argmax(),
            x.argmax(1),
            x.argmin(0, keepdim=True),
        )

    others = [*OTHERS, (torch.tensor([[[1.0, 2.0, 2.0, float("-inf")]] * 4]),)]
    agrees(extremes, X, dynamic=[[0, 2]], others=others)


def test_any_and_all(agrees):
    def quantified(x):
        p = x > 0
        return p.any(), p.all(), p.any(1), p.all(-1, keepdim=True), x.any(0)

    agrees(quantified, X, dynamic=[[0]], others=[(torch.zeros(1, 4, 5),), (torch.ones(2, 4, 5),)])


def test_variances(agrees):
    def variances(x):
        return (
            x.var(1),
            x.var(1, unbiased=False),
            x.std(-1),
            x.var((0, 1), keepdim=True),
            *torch.var_mean(x, 1),
            x.std(),
            x.var(2, correction=0),
        )

    agrees(variances, X, dynamic=[[0, 2]], others=[(torch.randn(2, 4, 9),)], tolerance=1e-5)


@pytest.mark.parametrize("correction", [0.5, 3, 4, 7.5, True])
def test_variances_with_any_correction(agrees, correction):
    """Also a fraction, and one of as many as there are elements, or more."""

    def variances(x):
        return (
            x.var(1, correction=correction),
            x.std(1, correction=correction),
            *torch.var_mean(x, 1, correction=correction),
        )

    agrees(variances, X, dynamic=[[0, 1]], others=[(torch.randn(2, 9, 5),)], tolerance=1e-5)


def test_the_variance_of_more_elements_than_a_narrow_float_counts(agrees):
    agrees(lambda x: x.var(), torch.randn(70_000).half(), tolerance=2e-3)


def test_norms(agrees):
    def norms(x):
        orders = [torch.linalg.vector_norm(x, ord, 1) for ord in (0, 1, 2, 3, float("inf"))]
        return (
            *orders,
            x.norm(),
            x.norm(dim=-1, keepdim=True),
            torch.nn.functional.normalize(x, dim=1),
            torch.cosine_similarity(x, x + 1, 2),
        )

    agrees(norms, X, dynamic=[[0, 2]], others=OTHERS, tolerance=1e-5)


def test_logsumexp(agrees):
    agrees(
        lambda x: (x.logsumexp(1), x.logsumexp((0, 1), keepdim=True)),
        X,
        dynamic=[[0]],
        others=[(torch.full((2, 4, 5), float("-inf")),)],
    )


def test_running_sums(agrees):
    agrees(lambda x: (x.cumsum(1), x.int().cumsum(0), x.cumprod(-1)), X, dynamic=[[0, 2]], others=OTHERS)
