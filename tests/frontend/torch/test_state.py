"""Programs that change buffers or inputs: new values are returned after the outputs."""

from __future__ import annotations

import pytest

import relax
from relax.frontend import detach_params
from relax.frontend.torch import from_exported_program

torch = pytest.importorskip("torch")
nn = torch.nn

from torch_programs import close, exported  # noqa: E402


class Cache(nn.Module):
    """Keys of a decoder, written at a place, and a count of the calls."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("keys", torch.zeros(2, 8, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x, place):
        self.keys[:, place] = x * self.scale
        self.count.add_(1)
        return self.keys.sum(1) + self.count


@pytest.mark.parametrize("keep", [False, True], ids=["constants", "kept"])
def test_buffers_go_in_and_come_out(keep):
    module = Cache().eval()
    example = torch.randn(2, 1, 4), torch.tensor([3])
    mod = from_exported_program(exported(module, example), keep_params_as_input=keep)
    assert mod["main"].attrs["num_input"] == 2
    assert list(mod["main"].attrs["mutated"]) == ["b_keys", "b_count"]
    names = [param.name_hint for param in mod["main"].params[2:]]
    assert names == ([*["p_scale"] * keep, "b_keys", "b_count"])
    mod, params = detach_params(mod)
    *weights, keys, count = params["main"]
    vm = relax.VirtualMachine(relax.build(mod), relax.cpu())
    for place in (0, 7, 3, 3):
        x = torch.randn(2, 1, 4)
        y, keys, count = vm["main"](x, torch.tensor([place]), *weights, keys, count)
        with torch.no_grad():
            close(y, module(x, torch.tensor([place])), 2e-6)
        close(keys, module.keys, 2e-6)
        close(count, module.count, 0)


def test_input_that_is_changed():
    def written(x, y):
        x.mul_(2)
        return x + y

    mod = from_exported_program(exported(written, [torch.ones(3), torch.ones(3)], [[0], [0]]))
    (name,) = mod["main"].attrs["mutated"]
    assert name == mod["main"].params[0].name_hint
    vm = relax.VirtualMachine(relax.build(mod), relax.cpu())
    x = torch.arange(5.0)
    total, doubled = vm["main"](x, torch.ones(5))
    assert total.numpy().tolist() == [1, 3, 5, 7, 9]
    assert doubled.numpy().tolist() == [0, 2, 4, 6, 8]
    assert x.tolist() == [0, 1, 2, 3, 4]


def test_outputs_that_are_none_are_left_out():
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)

    class Attended(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x):
            return None, *self.attention(x, x, x, need_weights=False), 7

    mod = from_exported_program(exported(Attended(), [x]))
    y, seven = relax.VirtualMachine(relax.build(mod), relax.cpu())["main"](x)
    with torch.no_grad():
        close(y, attention(x, x, x)[0], 5e-6)
    assert seven.numpy() == 7
