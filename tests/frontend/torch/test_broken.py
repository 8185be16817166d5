"""Programs that torch or a converter cannot digest: a diagnostic with code, node and hint, never a raw exception."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch_programs import exported  # noqa: E402

from relax.frontend.torch import from_exported_program, from_fx  # noqa: E402
from relax.interpreter import Interpreter  # noqa: E402
from relax.ir import DiagnosticError  # noqa: E402


def refusal(program):
    """Import a program, which must raise one diagnostic; the error and its text."""
    with pytest.raises(DiagnosticError) as caught:
        from_exported_program(program)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    return caught.value, str(caught.value)


class Last(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1)


class Applied(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def changed(module, *inputs, place, value):
    """The program of a module in whose first node one argument is replaced after the export."""
    program = exported(module, inputs)
    node = next(node for node in program.graph.nodes if node.op == "call_function")
    node.update_arg(place, value)
    return program


# ------------------------------------------------------------------------------------- mistakes of converters


def shrunk_in_a_branch():
    def chosen(x, c):
        return torch.cond(c, lambda x: torch.special.ndtr(x), lambda x: x + 1, (x,))

    return exported(chosen, (torch.ones(3), torch.tensor(True)))


def test_an_unexpected_exception_is_a_diagnostic_for_users(without, monkeypatch):
    without["aten.special_ndtr.default"] = lambda g, x: 1 / (g.ndim(x) - 1)
    monkeypatch.delenv("RELAX_RAISE_UNEXPECTED")
    error, text = refusal(shrunk_in_a_branch())
    assert (
        "error[E6007]: aten.special_ndtr.default 'special_ndtr': its conversion failed: ZeroDivisionError: division by zero"
        in text
    )
    assert "special_ndtr = aten.special_ndtr.default(" in text
    assert "help: look for unusual attributes of this node" in text
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_an_unexpected_exception_fails_tests(without):
    without["aten.special_ndtr.default"] = lambda g, x: 1 / (g.ndim(x) - 1)
    with pytest.raises(ZeroDivisionError):
        from_exported_program(shrunk_in_a_branch())


# ------------------------------------------------------------------------------------- nodes that torch rejects


@pytest.mark.parametrize(
    "value, reason",
    [
        (float("nan"), "RuntimeError: aten::softmax() Expected a value of type 'int' for argument 'dim'"),
        ("last", "RuntimeError: aten::softmax() Expected a value of type 'int' for argument 'dim'"),
        ([], "RuntimeError: aten::softmax() Expected a value of type 'int' for argument 'dim'"),
    ],
    ids=["NaN", "text", "list"],
)
def test_an_argument_of_another_type(value, reason):
    error, text = refusal(changed(Last(), torch.ones(2, 3), place=1, value=value))
    assert f"error[E6002]: aten.softmax.int 'softmax': torch rejects it: {reason}" in text
    assert "softmax = aten.softmax.int(" in text
    assert "test_broken.py" in text
    assert "return torch.softmax(x, 1)" in text
    assert "help: correct the node, or export the module again" in text
    assert isinstance(error.__cause__, RuntimeError)


def test_a_size_that_does_not_fit():
    _, text = refusal(changed(lambda x: x.reshape(3, 2), torch.ones(2, 3), place=1, value=[4, 5]))
    assert "torch rejects it: RuntimeError: shape '[4, 5]' is invalid for input of size 6" in text


def test_none_instead_of_a_tensor():
    """Torch itself would crash."""
    _, text = refusal(changed(Last(), torch.ones(2, 3), place=0, value=None))
    assert "error[E6002]: aten.softmax.int 'softmax': the argument self is None, expected a tensor" in text


def test_a_number_instead_of_a_memory_format():
    program = exported(Applied(lambda x: x.clone(memory_format=torch.contiguous_format)), (torch.ones(2, 3),))
    next(node for node in program.graph.nodes if node.op == "call_function").update_kwarg("memory_format", -1)
    _, text = refusal(program)
    assert "the argument memory_format is -1, expected a torch.memory_format" in text


def test_a_graph_module_that_torch_does_not_export():
    graph = torch.fx.Graph()
    graph.output(graph.call_function(torch.softmax, (graph.placeholder("x"), "last")))
    with pytest.raises(DiagnosticError, match=r"E6002.*torch rejects it: TypeError: softmax\(\)") as caught:
        from_fx(torch.fx.GraphModule({}, graph), [((2, 3), "float32")])
    assert isinstance(caught.value.__cause__, TypeError)


# ------------------------------------------------------------------------------------- arguments that torch accepts

IMAGE = torch.ones(1, 2, 6, 6)


@pytest.mark.parametrize(
    "function, inputs, place, value, message, hint",
    [
        (
            lambda x: torch.softmax(x, 1), [torch.ones(2, 3)], 1, 2**32,
            "E6004]: aten.softmax.int 'softmax': the axis 4294967296 is out of range for a tensor of 2 dimensions",
            "axes are integers from -2 to 1",
        ),
        (
            lambda x: torch.celu(x, 2.0), [torch.ones(2, 3)], 1, 0.0,
            "E6004]: aten.celu.default 'celu': alpha is 0, by which the input is divided", "pass another alpha, or use relu",
        ),
        (
            lambda x: torch.tril_indices(3, 4) + x, [torch.ones(2, 1)], 0, 2**32,
            "E6001]: aten.tril_indices.default 'tril_indices': the indices of a triangle of 4294967296 x 4 elements",
            "at most 4194304 are a constant",
        ),
        (
            lambda x, y: torch.ops.aten.grid_sampler_2d(x, y, 0, 0, False), [IMAGE, torch.ones(1, 3, 3, 2)], 2, 7,
            "E6004]: aten.grid_sampler_2d.default 'grid_sampler_2d': there is no interpolation mode 7",
            "pass one of 0 (bilinear), 1 (nearest), 2 (bicubic)",
        ),
        (
            lambda x: torch.histc(x, 4, -1, 1), [torch.ones(2, 3)], 2, float("-inf"),
            "E6004]: aten.histc.default 'histc': 4 bins from -inf to 1", "pass finite limits, the lower one first",
        ),
        (
            lambda x: torch.nn.functional.interpolate(x, (4, 8)), [IMAGE], 2, [1.5, 2.0],
            "E6004]: aten.upsample_nearest2d.vec 'upsample_nearest2d': both a size and scales are passed", "pass one of them",
        ),
        (
            lambda x: x.diff(2), [torch.ones(2, 3)], 1, -1,
            "E6004]: aten.diff.default 'diff': differences of the order -1", "pass an order from 0 to 256",
        ),
    ],
    ids=["axis", "divisor", "size", "mode", "limit", "scales", "order"],
)  # fmt: skip
def test_arguments_that_are_out_of_range(function, inputs, place, value, message, hint):
    _, text = refusal(changed(Applied(function), *inputs, place=place, value=value))
    assert f"error[{message}" in text or "torch rejects it" in text
    assert f"= help: {hint}" in text or "torch rejects it" in text


def test_a_result_that_is_not_computed():
    def weights(x):
        parts = torch.ones(12, 4), torch.ones(12), torch.ones(4, 4), torch.ones(4)
        return torch.ops.aten._native_multi_head_attention(x, x, x, 4, 2, *parts, need_weights=False)[1]

    _, text = refusal(exported(Applied(weights), (torch.ones(1, 3, 4),)))
    assert "the result 1 of aten._native_multi_head_attention.default '_native_multi_head_attention' is not sup" in text
    assert "help: use the other results of the operator only" in text


# ------------------------------------------------------------------------------------- right results


def test_unusual_numbers(agrees):
    def unusual(x, m):
        aten = torch.ops.aten
        nowhere = float("nan")
        return (
            aten.threshold(x, 0.0, 5.0), aten.threshold(x, nowhere, 5.0), aten.celu(x, 2.0**32), aten.var(x, [1], correction=nowhere),
            aten.any.dims(m, [], True), aten.all.dims(m, [], False), aten._pdist_forward(x[:, :3].contiguous(), float("-inf")),
            aten.diff(x, 9, 1), aten.squeeze.dim(x[0, 0], 0), aten.tril(x, -(2**63)), *aten.native_dropout(x, 0.5, False),
            aten.add.Tensor(m, m, alpha=0), aten.slice_scatter(x, x[:, :2], 1, 0, 2), x + aten._efficientzerotensor([2, 4]),
        )  # fmt: skip

    x = torch.tensor([[1.0, -2.0, 3.0, float("nan")], [0.5, 0.25, -0.125, 4.0]])
    agrees(unusual, x, x > 0)


def test_masks_of_other_shapes_and_dtypes(agrees):
    def masked(x, row, m, byte, flag):
        written = torch.ops.aten.index_put(x, [byte, torch.tensor([0, 2])], torch.tensor([7.0, 8.0]))
        return x.masked_select(row), x[:1].masked_select(m), written, flag.nonzero(as_tuple=True)[0]

    x = torch.arange(6.0).reshape(2, 3)
    m = x > 2
    agrees(masked, x, m[1:], m, torch.tensor([0, 1], dtype=torch.uint8), torch.tensor(True))


def test_interpolated_bytes_are_rounded():
    """Torch has weights of 15 bits: a byte may differ by 1."""
    x = torch.arange(72, dtype=torch.uint8).reshape(1, 2, 6, 6)
    for mode in ("bilinear", "bicubic"):
        module = Applied(lambda x, mode=mode: torch.nn.functional.interpolate(x, (4, 9), mode=mode))
        mod = from_exported_program(exported(module, (x,)))
        found = Interpreter(mod)["main"](x.numpy())[0].numpy()
        assert found.dtype == "uint8"
        assert abs(found.astype(int) - module(x).numpy().astype(int)).max() <= 1
