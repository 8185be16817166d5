"""Compiled modules: parameters and effects are passed by the object, tensors come in the form asked for."""

from __future__ import annotations

import numpy as np
import pytest

from relax import nd
from relax.frontend import nn
from relax.frontend.nn import Tensor, op, spec


class Counter(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(2, 2, bias=False)
        self.cache = nn.KVCache(1, [2])

    def forward(self, x: Tensor, total):
        self.cache.append(self.fc(x))
        return self.cache.view(total), (x, op.sum(x))

    def plain(self, pair):
        x, n = pair
        return op.reshape(x, (n,))


def compiled(mode="plain", out_format="numpy", **options):
    model = Counter()
    model.fc.weight.data = lambda: np.array([[1, 2], [3, 4]], "float32")
    given = {
        "forward": {
            "x": spec.Tensor([1, 2], "float32"), "total": int, "$": {"param_mode": mode, "effect_mode": mode},
        },
        "plain": {
            "pair": (spec.Tensor([1, "n"], "float32"), int), "$": {"param_mode": "none", "effect_mode": "none"},
        },
    }  # fmt: skip
    return model.jit(given, out_format=out_format, **options)


@pytest.mark.parametrize("mode", ["plain", "packed"])
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("constants", [False, True])
def test_state_is_kept_between_calls(mode, debug, constants):
    model = compiled(mode, debug=debug, constants=constants)
    assert len(model.params) == (0 if constants else 1)
    x = np.array([[1, 1]], "float32")
    rows, (same, total) = model["forward"](x, 1)
    np.testing.assert_array_equal(rows, [[3, 7]])
    np.testing.assert_array_equal(same, x)
    assert total == 2
    assert model.forward(2 * x, total=2)[0].tolist() == [[3, 7], [6, 14]]
    model.reset()
    assert model(x, 1)[0].tolist() == [[3, 7]]


@pytest.mark.parametrize("constants", [False, True])
def test_parameters_of_open_sizes(constants):
    class Table(nn.Module):
        def __init__(self):
            self.embed = nn.Embedding("vocab_size", 2)

        def forward(self, ids: Tensor):
            return self.embed(ids), op.sum(self.embed.weight, axis=0)

    model = Table()
    model.embed.weight.data = np.arange(8, dtype="float32").reshape(4, 2)
    compiled = model.jit({"forward": {"ids": spec.Tensor(["n"], "int32")}}, out_format="numpy", constants=constants)
    rows, total = compiled(np.array([3, 0], "int32"))
    assert (rows.tolist(), total.tolist()) == ([[6, 7], [0, 1]], [12, 16])


def test_an_argument_with_the_name_of_a_parameter():
    class Scale(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter((2,))

        def forward(self, weight: Tensor):
            return weight * self.weight

    model = Scale()
    model.weight.data = np.array([2, 3], "float32")
    compiled = model.jit({"forward": {"weight": spec.Tensor([2], "float32")}}, out_format="numpy")
    assert compiled(np.array([1, 10], "float32")).tolist() == [2, 30]


def test_methods_without_effects():
    assert compiled().plain((np.ones((1, 3), "float32"), 3)).tolist() == [1, 1, 1]


def test_tensors_of_relax_and_of_other_libraries():
    model = compiled(out_format="relax", exec_mode="bytecode")
    result = model["plain"]((nd.array(np.ones((1, 3), "float32")), 3))
    assert isinstance(result, nd.NDArray)


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    result = compiled(out_format="torch")["plain"]((torch.ones((1, 3)), 3))
    assert torch.equal(result, torch.ones(3))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((), TypeError, r"plain\(pair: \(Tensor\(\[1, n\], 'float32'\), int\)\) takes these arguments, each once"),
        (((1, 2),), TypeError, r"pair\[0\]: expected a tensor, found int"),
        (((np.ones((1, 1), "float32"), 1.0),), TypeError, r"pair\[1\]: expected an int, found float"),
        ((5,), TypeError, "pair: expected 2 values, found 5"),
    ],
)
def test_arguments_that_do_not_fit(arguments, error, message):
    with pytest.raises(error, match=message):
        compiled()["plain"](*arguments)


def test_methods_that_were_not_compiled():
    with pytest.raises(KeyError, match="no method 'other' was compiled; there is forward, plain"):
        compiled()["other"]
    with pytest.raises(AttributeError, match="the compiled module has no method 'other'"):
        compiled().other


def test_parameters_without_data():
    given = {"plain": {"pair": (spec.Tensor([1, "n"], "float32"), int)}}
    with pytest.raises(ValueError, match=r"these parameters have no data: fc\.weight"):
        Counter().jit(given)
    model = Counter()
    model.fc.weight.data = lambda: np.zeros((2, 3), "float32")
    with pytest.raises(ValueError, match=r"fc\.weight: .* cannot have data of shape \[2, 3\]"):
        model.jit(given)
    with pytest.raises(ValueError, match="out_format must be one of 'torch', 'numpy', 'relax', found 'jax'"):
        compiled(out_format="jax")
