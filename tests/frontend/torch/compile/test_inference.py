"""torch.compile(backend="relax") without gradients: sizes, layouts, aliases, structures of results."""

from __future__ import annotations

import dataclasses
import warnings

import pytest

import relax.frontend.torch  # which makes the backend known

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def _no_fallback():
    """Nothing here may run in eager torch."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", relax.frontend.torch.FallbackWarning)
        yield


def test_one_build_serves_all_sizes(twins, builds):
    module, compiled, _ = twins(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)))
    with torch.no_grad():
        for batch in (2, 3, 17):
            x = torch.randn(batch, 5, 8)
            torch.testing.assert_close(compiled(x), module(x))
    assert len(builds) == 1


def test_automatic_dynamic_builds_twice(twins, builds):
    """Torch takes the first size for a constant, and the second for an open one."""
    module, compiled, _ = twins(nn.Linear(8, 4), dynamic=None)
    with torch.no_grad():
        for batch in (2, 3, 4, 17):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(compiled(x), module(x))
    assert len(builds) == 2


def test_results_have_the_structure_and_strides_of_the_function():
    @dataclasses.dataclass
    class Pair:
        left: torch.Tensor
        right: list

    def function(x):
        y = x.relu() + 1
        return {"pair": Pair(y.t(), [y.exp(), None, 3]), "rows": x.shape[0]}

    x = torch.randn(3, 5)
    compiled = torch.compile(function, backend="relax", dynamic=True)
    found, expected = compiled(x), function(x)
    assert found["rows"] == 3
    assert found["pair"].right[1:] == [None, 3]
    torch.testing.assert_close(found["pair"].right[0], expected["pair"].right[0])
    torch.testing.assert_close(found["pair"].left, expected["pair"].left)
    assert found["pair"].left.stride() == expected["pair"].left.stride()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda x: x.t(), id="transposed"),
        pytest.param(lambda x: x[:, ::2], id="every other column"),
        pytest.param(lambda x: x[1:], id="an offset"),
        pytest.param(lambda x: x[:1].expand(4, 6), id="expanded"),
    ],
)
def test_inputs_of_any_strides(make):
    def function(x):
        return x.exp().sum(0), x * 2

    x = make(torch.randn(4, 6))
    torch.testing.assert_close(torch.compile(function, backend="relax")(x), function(x))


def test_images_in_channels_last(twins):
    module, compiled, _ = twins(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval())
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x))


def test_results_share_memory_where_they_do_in_torch():
    x = torch.ones(2, 3)
    compiled = torch.compile(lambda x: (x.view(6), x.clone(), x + 1, (x + 1).view(6)), backend="relax")
    view, clone, moved, flat = compiled(x)
    x.zero_()
    moved.zero_()
    assert view.sum() == 0
    assert clone.sum() == 6
    assert flat.sum() == 12


def test_inputs_and_buffers_are_changed_in_place(twins):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x):
            self.count += x.sum(0)
            x.mul_(2)
            return x + self.count

    module, compiled, other = twins(Counter())
    with torch.no_grad():
        for batch in (2, 4):
            x = torch.randn(batch, 3)
            own = x.clone()
            torch.testing.assert_close(compiled(own), module(x))
            torch.testing.assert_close(own, x)
            torch.testing.assert_close(other.count, module.count)


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_attention_without_gradients(twins, guard):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

        def forward(self, x):
            q, k, v = self.into(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).flatten(2))

    module, compiled, _ = twins(Attention())
    with guard():
        for batch, length in ((2, 3), (3, 7)):
            x = torch.randn(batch, length, 16)
            torch.testing.assert_close(compiled(x), module(x))


def test_autocast(twins):
    module, compiled, _ = twins(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
    x = torch.randn(3, 8)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found, expected = compiled(x), module(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


def test_sizes_as_numbers():
    def function(x, scale):
        return x * scale + x.shape[0] / x.shape[1]

    compiled = torch.compile(function, backend="relax", dynamic=True)
    for rows, scale in ((2, 3), (5, 7), (6, 2.5)):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x, scale), function(x, scale))


def test_weights_are_shared_and_not_copied(twins):
    """A weight that is written between two calls counts, without another build."""
    module, compiled, other = twins(nn.Linear(4, 4))
    x = torch.randn(2, 4)
    with torch.no_grad():
        compiled(x)
        for p in (*module.parameters(), *other.parameters()):
            p.fill_(0.5)
        torch.testing.assert_close(compiled(x), module(x))
