"""Programs that torch or a converter cannot digest: a diagnostic with code, node and hint, never a raw exception."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from relax.frontend.torch import from_exported_program, from_fx  # noqa: E402
from relax.ir import DiagnosticError  # noqa: E402
from torch_programs import exported  # noqa: E402


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


def test_a_graph_module_that_torch_does_not_export():
    graph = torch.fx.Graph()
    graph.output(graph.call_function(torch.softmax, (graph.placeholder("x"), "last")))
    with pytest.raises(DiagnosticError, match=r"E6002.*torch rejects it: TypeError: softmax\(\)") as caught:
        from_fx(torch.fx.GraphModule({}, graph), [((2, 3), "float32")])
    assert isinstance(caught.value.__cause__, TypeError)
