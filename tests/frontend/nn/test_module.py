"""Modules: parameters by name, states, dtypes, containers, mutators."""

from __future__ import annotations

import numpy as np
import pytest

from relax.frontend import nn
from relax.frontend.nn import Tensor, op, spec


class Block(nn.Module):
    def __init__(self, size):
        self.proj = nn.Linear(size, size, bias=False)
        self.norm = nn.RMSNorm(size, -1, bias=False)

    def forward(self, x: Tensor):
        return self.proj(self.norm(x))


class Model(nn.Module):
    def __init__(self):
        self.layers = nn.ModuleList([Block(4), Block(4)])
        self.heads = nn.ModuleDict({"first": nn.Linear(4, 2), "second": nn.Linear(4, 3, bias=False)})
        self.scales = nn.ParameterList([nn.Parameter((4,))])
        self.offsets = nn.ParameterDict({"x": nn.Parameter((4,), "float16")})
        self.dtype = "float32"

    def forward(self, x: Tensor):
        for layer in self.layers:
            x = layer(x)
        return self.heads["first"](x * self.scales[0]), self.heads["second"](x)


NAMES = [
    "layers.0.proj.weight", "layers.0.norm.weight", "layers.1.proj.weight", "layers.1.norm.weight",
    "heads.first.weight", "heads.first.bias", "heads.second.weight", "scales.0", "offsets.x",
]  # fmt: skip


def state():
    """Data of each parameter, its position in `NAMES`."""
    return {
        name: np.full(param.shape, NAMES.index(name), param.dtype) for name, param in Model().named_parameters()
    }  # fmt: skip


def test_names_are_paths():
    model = Model()
    assert [name for name, _ in model.named_parameters()] == NAMES
    assert [name for name, _ in model.named_parameters(prefix="model")] == [f"model.{name}" for name in NAMES]
    assert [*model.parameters()] == [param for _, param in model.named_parameters()]
    assert model.state_dict() == dict(model.named_parameters())
    assert list(model.state_dict(prefix="m", destination={"a": model.scales[0]}))[:2] == ["a", f"m.{NAMES[0]}"]
    modules = ["", "layers", "layers.0", "layers.0.proj", "layers.0.norm"]
    assert [name for name, _ in model.named_modules()][:5] == modules


def test_states_are_loaded_by_name():
    model = Model()
    assert model.load_state_dict(state()) == ([], [])
    for index, param in enumerate(model.parameters()):
        np.testing.assert_array_equal(param.data.numpy(), np.full(param.shape, index))
    other = Model()
    other.load_state_dict(model.state_dict())
    assert other.scales[0].data.same_as(model.scales[0].data)


def test_missing_and_unexpected_names():
    given = {**state(), "extra": np.zeros(1)}
    del given["scales.0"]
    with pytest.raises(KeyError, match=r"does not fit Model; missing: 'scales\.0'; unexpected: 'extra'"):
        Model().load_state_dict(given)
    model = Model()
    assert model.load_state_dict(given, strict=False) == (["scales.0"], ["extra"])
    assert not model.scales[0].has_data


def test_a_wrong_shape_is_told_with_its_name():
    given = {**state(), "heads.first.bias": np.zeros(3, "float32")}
    with pytest.raises(ValueError, match=r"heads\.first\.bias: Tensor\(\[2\], \"float32\"\) cannot have data of shape"):
        Model().load_state_dict(given)


def test_a_shared_parameter_needs_one_of_its_names():
    class Tied(nn.Module):
        def __init__(self):
            self.embed = nn.Embedding(3, 2)
            self.head = nn.Linear(2, 3, bias=False)
            self.head.weight = self.embed.weight

    model = Tied()
    assert [name for name, _ in model.named_parameters()] == ["embed.weight"]
    assert list(model.state_dict()) == ["embed.weight", "head.weight"]
    assert model.load_state_dict({"embed.weight": np.ones((3, 2), "float32")}) == ([], [])


def test_dtypes_of_all_parameters():
    model = Model()
    model.to("float16")
    assert {param.dtype for param in model.parameters()} == {"float16"}
    assert model.dtype == "float16"
    model.to(None)
    assert model.dtype == "float16"


def test_a_dtype_of_products_keeps_the_bias():
    layer = nn.Linear(2, 3, dtype="float16", out_dtype="float32")
    layer.to("bfloat16")
    assert (layer.weight.dtype, layer.bias.dtype) == ("bfloat16", "float32")


def test_lists():
    blocks = nn.ModuleList([Block(2)])
    blocks.append(nn.Identity())
    blocks.extend([nn.ReLU()])
    blocks[0] = nn.SiLU()
    assert [type(block).__name__ for block in blocks] == ["SiLU", "Identity", "ReLU"]
    assert (len(blocks), blocks[-1], blocks.modules[1]) == (3, blocks[2], blocks[1])
    assert len(nn.ParameterList()) == 0


def test_dictionaries():
    layers = nn.ModuleDict({"a": nn.ReLU()})
    layers["b"] = nn.SiLU()
    layers.update({"c": nn.GELU()})
    assert [*layers] == [*layers.keys()] == ["a", "b", "c"]
    assert ("b" in layers, "x" in layers, layers.get("x"), len(layers)) == (True, False, None, 3)
    assert layers.pop("b") not in [*layers.values()]
    del layers["a"]
    assert [key for key, _ in layers.items()] == ["c"]
    layers.clear()
    assert not len(layers)
    assert nn.ParameterDict({"w": nn.Parameter((1,))}).params["w"].shape == [1]


def test_a_module_without_forward():
    with pytest.raises(NotImplementedError, match="Model2 has no method forward, which calling the module calls"):
        type("Model2", (nn.Module,), {})()(1)


# ------------------------------------------------------------------------------------ subroutines


class Shared(Block):
    define_subroutine = True


def lines_of(model, given, **config):
    mod, _ = model.export_tvm({"forward": given}, **config)
    return {var.name_hint: mod[var].script() for var in mod.functions}, mod


def test_equal_modules_share_a_function():
    class Stack(nn.Module):
        def __init__(self):
            self.layers = nn.ModuleList([Shared(4), Shared(4)])

        def forward(self, x: Tensor):
            return self.layers(x)

    functions, mod = lines_of(Stack(), {"x": spec.Tensor(["n", 4], "float32")})
    assert list(functions) == ["shared", "forward"]
    assert "shared_output" in functions["forward"]
    assert mod.script().count("cls.shared(") == 2
    assert "global_symbol" not in mod["shared"].attrs
    assert [param.name_hint for param in mod["shared"].params] == ["x", "proj.weight", "norm.weight"]


def test_modules_that_differ_do_not():
    class Power(nn.Module):
        define_subroutine = True

        def __init__(self, exponent):
            self.exponent = exponent

        def forward(self, x: Tensor):
            return x**self.exponent

    class Two(nn.Module):
        def __init__(self):
            self.two, self.three = Power(2), Power(3)

        def forward(self, x: Tensor):
            return self.two(x) + self.three(x)

    functions, _ = lines_of(Two(), {"x": spec.Tensor(["n"], "float32")})
    assert list(functions) == ["power", "power1", "forward"]


def test_arguments_of_all_kinds():
    from nn_programs import results

    class Odd(nn.Module):
        define_subroutine = True

        def forward(self, pair, n, scale=1.0, *, flag=False):
            x, y = pair
            assert flag
            return [x.reshape(n, 2) * scale, (y,)]

    class Outer(nn.Module):
        def __init__(self):
            self.inner = Odd()

        def forward(self, x: Tensor):
            n = x.shape[0]
            doubled = op.concat([x, x], dim=0)
            first, (second,) = self.inner((doubled, x), n, scale=2.0, flag=True)
            assert isinstance(first, Tensor)
            return first, second

    _, mod = lines_of(Outer(), {"x": spec.Tensor(["n"], "float32")})
    x = np.arange(3, dtype="float32")
    first, second = results(mod, x)
    np.testing.assert_array_equal(first, 2 * np.concatenate([x, x]).reshape(3, 2))
    np.testing.assert_array_equal(second, x)


def test_effects_pass_through_subroutines(capsys):
    import relax

    class Step(nn.Module):
        define_subroutine = True

        def __init__(self):
            self.cache = nn.KVCache(1, [2])

        def forward(self, x: Tensor, total):
            self.cache.append(x)
            op.print_(x)
            return self.cache.view(total)

    class Outer(nn.Module):
        def __init__(self):
            self.step = Step()

        def forward(self, x: Tensor, total):
            return self.step(x, total) + 1

    mod, _ = Outer().export_tvm({"forward": {"x": spec.Tensor([1, 2], "float32"), "total": int}}, debug=True)
    vm = relax.VirtualMachine(relax.build(mod), relax.cpu())
    effects = vm["_initialize_effect"]()
    for count in (1, 2):
        rows, effects = vm["forward"](np.full((1, 2), count, "float32"), relax.ShapeTuple((count,)), *effects)
    np.testing.assert_array_equal(rows.numpy(), [[2, 2], [3, 3]])
    assert capsys.readouterr().out.count("shape = (1, 2)") == 2


# ------------------------------------------------------------------------------------ mutators


class Renamed(nn.Mutator):
    """Records the names it visits, and replaces SiLU by ReLU and the parameters of lists."""

    def __init__(self):
        self.seen = []

    def visit_module(self, name, node):
        self.seen.append(name)
        return nn.ReLU() if isinstance(node, nn.SiLU) else super().visit_module(name, node)

    def visit_param(self, name, node):
        self.seen.append(name)
        return nn.Parameter((1,)) if name.endswith("scales.0") else node

    def visit_effect(self, name, node):
        self.seen.append(name)
        return nn.KVCache(8, node.unit_shape)


def test_mutators_replace_what_they_visit():
    model = Model()
    model.layers.append(nn.SiLU())
    model.cache = nn.KVCache(1, [2])
    mutator = Renamed()
    assert mutator.visit("", model) is model
    assert type(model.layers[2]) is nn.ReLU
    assert model.scales[0].shape == [1]
    assert (model.cache.init_seq_len, model.cache.unit_shape) == (8, [2])
    assert mutator.seen[:5] == ["", "layers.0", "layers.0.proj", "layers.0.proj.weight", "layers.0.norm"]
    assert {"heads.second.weight", "offsets.x", "cache"} <= set(mutator.seen)
    assert type(Renamed().visit("x", nn.SiLU())) is nn.ReLU
