"""torch.compile(backend="relax") with gradients: they are those of eager torch."""

from __future__ import annotations

import pytest

import relax.frontend.torch  # noqa: F401  (which makes the backend known)
from support import PLAIN_LOOPS

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


def test_perceptron_at_two_sizes(twins, trains, builds):
    pair = twins(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)))
    for batch in (3, 5):
        trains(pair, torch.randn(batch, 8))
    assert len(builds) == 2  # forward and backward


def test_convolutions_and_batch_norm(twins, trains):
    """The running statistics move as they do in torch."""
    pair = twins(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                               nn.LazyLinear(4)).eval())  # fmt: skip
    pair[0](torch.zeros(1, 3, 10, 10))
    pair = twins(pair[0].train())
    for batch in (3, 4):
        trains(pair, torch.randn(batch, 3, 10, 10))


def test_group_norm(twins, trains):
    trains(twins(nn.Sequential(nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4), nn.SiLU())), torch.randn(3, 2, 9))


@pytest.mark.parametrize("causal", [False, True])
def test_attention(twins, trains, causal):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.into = nn.Linear(16, 48)

        def forward(self, x):
            q, k, v = self.into(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)

    pair = twins(Attention())
    for length in (3, 6):
        trains(pair, torch.randn(2, length, 16))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", ["det", "slogdet", "solve"])
def test_matrices_factored_once_for_the_gradient(name, transposed):
    """The factors are those of the transposed matrix for some operators and strides."""
    functions = {
        "det": lambda x: torch.linalg.det(x),
        "slogdet": lambda x: torch.linalg.slogdet(x)[1],
        "solve": lambda x: torch.linalg.solve(x, x[..., :2] + 1),
    }
    function = functions[name]
    compiled = torch.compile(function, backend="relax", options={"target": PLAIN_LOOPS})
    x = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0)) + 3 * torch.eye(3)
    x = x.mT if transposed else x
    results = []
    for each in (compiled, function):
        leaf = x.detach().requires_grad_()
        value = each(leaf)
        results.append((value, *torch.autograd.grad(value.sum(), leaf)))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_embedding(twins, trains):
    pair = twins(nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 4), nn.Tanh()))
    trains(pair, torch.tensor([[1, 2, 2], [9, 0, 1]]))


def test_checkpoint(twins, trains):
    class Saving(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            y = torch.utils.checkpoint.checkpoint(lambda x: self.first(x).tanh(), x, use_reentrant=False)
            return self.second(y)

    trains(twins(Saving()), torch.randn(3, 8))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_steps_of_an_optimizer(twins, optimizer):
    module, compiled, other = twins(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
    ours, eager = optimizer(other.parameters(), lr=0.1), optimizer(module.parameters(), lr=0.1)
    for _ in range(3):
        x, target = torch.randn(6, 4), torch.randint(0, 3, (6,))
        for model, steps in ((module, eager), (compiled, ours)):
            steps.zero_grad()
            functional.cross_entropy(model(x), target).backward()
            steps.step()
    for p, q in zip(module.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(q, p)


def test_dropout_draws_the_numbers_of_torch(twins):
    module, compiled, _ = twins(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU()))
    x = torch.randn(4, 8)
    torch.manual_seed(3)
    expected = module(x)
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(x), expected)


def test_gradients_by_inputs_and_through_views():
    def function(x):
        return (x.view(-1)[::2].sin() * x.mean()).sum()

    x = torch.randn(4, 6, requires_grad=True)
    (expected,) = torch.autograd.grad(function(x), x)
    (found,) = torch.autograd.grad(torch.compile(function, backend="relax", dynamic=True)(x), x)
    torch.testing.assert_close(found, expected)


def test_mixed_precision(twins, trains):
    with torch.autocast("cpu", torch.bfloat16):
        trains(twins(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))), torch.randn(3, 8), tolerance=3e-2)


@pytest.mark.filterwarnings("error::relax.frontend.torch.compile.FallbackWarning")
@pytest.mark.parametrize("sizes", [(2, 3, 5), (5, 3), (0, 3, 5)])
def test_factors_of_matrices_of_open_sizes(sizes):
    """The number of exchanges is the lesser of two open sizes; that errors are checked for is left to torch unsaid."""

    def factors(x):
        return torch.linalg.lu_factor(x)[0]

    x = torch.randn(*sizes)
    compiled = torch.compile(factors, backend="relax", dynamic=True, options={"target": PLAIN_LOOPS})
    results = []
    for function in (compiled, factors):
        leaf = x.detach().requires_grad_()
        value = function(leaf)
        results.append((value, *torch.autograd.grad(value.sum(), leaf)))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("error::relax.frontend.torch.compile.FallbackWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(4, 3, 5), (4, 3, 5, 6), (2, 3, 4, 5, 6)])
def test_norms_of_a_batch(twins, trains, sizes, dtype):
    """Of an instance and of a batch, with and without running statistics, which move as they do in torch."""
    rank, tolerance = len(sizes) - 2, 4e-2 if dtype == torch.bfloat16 else 1e-4
    for kind in ("InstanceNorm", "BatchNorm"):
        for tracked in (False, True):
            norm = getattr(nn, f"{kind}{rank}d")(3, affine=True, track_running_stats=tracked).to(dtype)
            trains(twins(norm, target=PLAIN_LOOPS), torch.randn(*sizes).to(dtype), tolerance=tolerance)


@pytest.mark.filterwarnings("error::relax.frontend.torch.compile.FallbackWarning")
def test_gradients_of_adaptive_pools(twins, trains):
    """Windows that overlap, and means to sizes that are open."""

    class Pools(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(2, 2, 1)

        def forward(self, x):
            y = self.first(x)
            means = functional.adaptive_avg_pool2d(y, (3, None))
            return functional.adaptive_max_pool2d(y, (4, 3)).sum((2, 3)) + means.square().sum((2, 3))

    pair = twins(Pools(), target=PLAIN_LOOPS)
    for sizes in ((2, 2, 7, 5), (3, 2, 6, 8)):
        trains(pair, torch.randn(*sizes))


@pytest.mark.filterwarnings("error::relax.frontend.torch.compile.FallbackWarning")
def test_gradients_that_are_zero():
    """Torch makes those of functions of steps without memory."""
    x = torch.randn(4, requires_grad=True)
    compiled = torch.compile(lambda x: torch.sgn(x) * 2, backend="relax", options={"target": PLAIN_LOOPS})
    value = compiled(x)
    torch.testing.assert_close(value, torch.sgn(x) * 2)
    torch.testing.assert_close(torch.autograd.grad(value.sum(), x)[0], torch.zeros(4))
