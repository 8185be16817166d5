"""Gradients of convolutions by their input: taken apart from those by their weights, and equal to eager torch's."""

from __future__ import annotations

import itertools

import pytest

from relax import tir
from relax.frontend.torch.compile.convolutions import input_gradients_apart
from relax.optimize.pipeline import get_pipeline
from support import PLAIN_LOOPS

torch = pytest.importorskip("torch")
make_fx = pytest.importorskip("torch.fx.experimental.proxy_tensor").make_fx
nn = torch.nn
ATEN = torch.ops.aten

FORMS = {
    "3x3": ((5, 3, 3, 3), {}),
    "without margin": ((5, 3, 3, 3), {"padding": [0, 0]}),
    "wide margin": ((5, 3, 3, 3), {"padding": [2, 2]}),
    "uneven": ((4, 3, 3, 5), {"padding": [0, 2]}),
    "even kernel": ((4, 3, 2, 4), {"padding": [1, 3]}),
    "pointwise": ((5, 3, 1, 1), {"padding": [0, 0]}),
    "dilated": ((5, 3, 3, 3), {"dilation": [2, 3], "padding": [4, 1]}),
    "depthwise": ((6, 1, 3, 3), {"groups": 6}),
}
KEPT = {
    "strided": ((5, 3, 3, 3), {"stride": [2, 1]}),
    "grouped": ((6, 2, 3, 3), {"groups": 3}),
    "several outputs of a channel": ((6, 1, 3, 3), {"groups": 3}),
    "margin beyond the kernel": ((5, 3, 1, 1), {"padding": [1, 1]}),
    "transposed": ((3, 5, 3, 3), {"is_transposed": True}),
    "one dimension": ((5, 3, 3), {"stride": [1], "padding": [1], "dilation": [1]}),
    "many weights": ((300, 300, 3, 3), {}),
    "double": ((5, 3, 3, 3), {"dtype": torch.float64}),
    "not wanted": ((5, 3, 3, 3), {"mask": [False, True, True]}),
}

BOTH = [(True, False)] * 2


def traced(shape, *, stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1, is_transposed=False,
           mask=(True, True, True), dtype=torch.float32):  # fmt: skip
    """The graph of a gradient, and its inputs."""
    torch.manual_seed(0)
    weight = torch.randn(shape, dtype=dtype)
    inputs = shape[0] if is_transposed else shape[1] * groups
    x = torch.randn(2, inputs, *(9, 11)[: len(shape) - 2], dtype=dtype)
    rest = (list(stride), list(padding), list(dilation), is_transposed, [0] * len(stride), groups)
    dy = torch.randn_like(ATEN.convolution(x, weight, None, *rest))

    def gradient(dy, x, weight):
        found = ATEN.convolution_backward(dy, x, weight, [dy.shape[1]], *rest, list(mask))
        return [value for value in found if value is not None]

    return make_fx(gradient, tracing_mode="symbolic")(dy, x, weight), (dy, x, weight)


def masks(graph_module):
    return [list(n.args[-1]) for n in graph_module.graph.nodes if n.target is ATEN.convolution_backward.default]


@pytest.mark.parametrize(
    ("form", "mask"),
    [*((form, (True, True, True)) for form in FORMS), *(("3x3", mask) for mask in itertools.product([True], *BOTH))],
)
def test_it_is_a_convolution(form, mask):
    shape, options = FORMS[form]
    graph_module, inputs = traced(shape, mask=mask, **options)
    fixed_weights(graph_module, shape)
    expected = graph_module(*inputs)
    input_gradients_apart(graph_module)
    graph_module.graph.lint()
    graph_module.recompile()
    assert masks(graph_module) == ([[False, *mask[1:]]] if any(mask[1:]) else [])
    for found, value in zip(graph_module(*inputs), expected, strict=True):
        torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-4)
    before = graph_module.code
    input_gradients_apart(graph_module)
    assert graph_module.code == before


def fixed_weights(graph_module, shape):
    """Weights have numbers for sizes in graphs of torch.compile."""
    (weight,) = [node for node in graph_module.graph.nodes if node.op == "placeholder"][2:]
    mode = weight.meta["val"].fake_mode
    weight.meta["val"] = mode.from_tensor(torch.empty(shape, dtype=weight.meta["val"].dtype), static_shapes=True)


@pytest.mark.parametrize("form", KEPT)
def test_torch_computes_the_others(form):
    shape, options = KEPT[form]
    graph_module, _ = traced(shape, **options)
    fixed_weights(graph_module, shape)
    before = graph_module.code
    input_gradients_apart(graph_module)
    graph_module.recompile()
    assert graph_module.code == before


def test_weights_of_open_size_are_kept():
    graph_module, _ = traced((5, 3, 3, 3))
    input_gradients_apart(graph_module)
    assert masks(graph_module) == [[True, True, True]]


def test_training(twins, builds):
    """All that relax computes of a step backward is one program: torch's gradients by weights come after it."""
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.SiLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.SiLU(),
              nn.Conv2d(8, 4, 1), nn.SiLU(), nn.Conv2d(4, 4, 3, padding=1)]  # fmt: skip
    layers[2].requires_grad_(False)
    module, compiled, other = twins(nn.Sequential(*layers), target=PLAIN_LOOPS)
    for size in ((2, 3, 8, 9), (3, 3, 12, 7)):
        x = torch.randn(size)
        results = []
        for called, owner in ((compiled, other), (module, module)):
            owner.zero_grad()
            leaf = x.clone().requires_grad_()
            called(leaf).square().mean().backward()
            results.append([leaf.grad, *(p.grad for p in owner.parameters() if p.requires_grad)])
        for found, expected in zip(*results, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert len(builds) == 2


def test_open_sizes_of_a_piece_are_shapes(builds):
    """Sizes computed of a scalar might overflow, and what has them would not be fused."""

    def function(x, weight):
        return torch.nn.functional.conv2d(x, weight, stride=2, padding=1).sin() * 2

    compiled = torch.compile(function, backend="relax", dynamic=True, options={"target": PLAIN_LOOPS})
    weight = torch.randn(4, 3, 3, 3).requires_grad_()
    for size in ((1, 3, 8, 9), (1, 3, 11, 6)):
        x = torch.randn(size)
        (expected,) = torch.autograd.grad(function(x, weight).sum(), weight)
        (found,) = torch.autograd.grad(compiled(x, weight).sum(), weight)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    _, backward = builds
    kinds = [type(param.struct_info).__name__ for param in backward["main"].params]
    assert "ShapeStructInfo" in kinds
    assert "PrimStructInfo" not in kinds
    kernels = [g.name_hint for g, f in get_pipeline()(backward).functions.items() if isinstance(f, tir.PrimFunc)]
    assert len([name for name in kernels if "shape_func" not in name]) == 1
