"""Graphs inside of graphs in torch.compile: torch.cond, while_loop, scan and map; and what eager torch runs of them."""

from __future__ import annotations

import warnings

import pytest

from relax.frontend.torch import FallbackWarning
from support import PLAIN_LOOPS

torch = pytest.importorskip("torch")

FAST = {"options": {"tier": "now", "target": PLAIN_LOOPS}}
loops = torch._higher_order_ops


def chosen(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin() + 1, lambda a: a.cos(), (x.exp(),))


def repeated(x):
    return torch._higher_order_ops.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x.exp())
    )


def running(x):
    return torch._higher_order_ops.scan(lambda total, row: (total + row, total * 2), torch.zeros(3), x.exp())


def mapped(x):
    return torch._higher_order_ops.map(lambda row: row.sin(), x)


@pytest.mark.parametrize("function", [chosen, repeated, running, mapped])
def test_graphs_are_compiled_in_one_piece(function, builds):
    compiled = torch.compile(function, backend="relax", dynamic=True, **FAST)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for x in (torch.ones(4, 3), -torch.ones(5, 3), torch.randn(2, 3)):
            torch.testing.assert_close(compiled(x), function(x))
    assert len(builds) == 1


def test_gradients_through_a_choice():
    compiled = torch.compile(chosen, backend="relax", dynamic=True, **FAST)
    for start in (torch.ones(2, 3), -torch.ones(2, 3)):
        x, y = start.clone().requires_grad_(), start.clone().requires_grad_()
        compiled(x).sum().backward()
        chosen(y).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


@torch.library.custom_op("relax_tests::checked", mutates_args=())
def checked(x: torch.Tensor) -> torch.Tensor:
    if not bool((x >= 0).all()):
        raise ValueError("a negative number")
    return x * 2


checked.register_fake(torch.empty_like)


def test_a_graph_with_an_operator_of_torch_runs_in_torch(builds):
    def function(x):
        return torch.cond(x.sum() > 0, lambda a: checked(a) + 1, lambda a: a * 3, (x.exp(),))

    compiled = torch.compile(function, backend="relax", **FAST)
    with pytest.warns(FallbackWarning, match="a graph among its operands has nodes that are not compiled"):
        found = compiled(torch.ones(3))
    torch.testing.assert_close(found, function(torch.ones(3)))


def test_a_whole_graph_in_eager_torch(builds):
    compiled = torch.compile(lambda x: checked(checked(x)), backend="relax", **FAST)
    with pytest.warns(FallbackWarning, match="relax_tests.checked.default"):
        torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 4.0))
    assert builds == []


def test_an_exception_of_an_operator_between_two_pieces():
    """It is the operator's own, and the next call is as before."""
    compiled = torch.compile(lambda x: checked(x + 1).exp(), backend="relax", **FAST)
    with pytest.warns(FallbackWarning):
        compiled(torch.ones(3))
    with pytest.raises(ValueError, match="a negative number"):
        compiled(torch.full((3,), -5.0))
    torch.testing.assert_close(compiled(torch.zeros(3)), torch.full((3,), 2.0).exp())


def test_an_index_out_of_range_is_an_exception():
    """Indices of data are checked when a kernel reads them."""
    compiled = torch.compile(lambda x, i: torch.nn.functional.embedding(i, x).exp(), backend="relax", **FAST)
    table = torch.randn(4, 2)
    torch.testing.assert_close(compiled(table, torch.tensor([0, 3])), table[[0, 3]].exp())
    with pytest.raises(Exception, match=r"(?i)index|out of"):
        compiled(table, torch.tensor([0, 9]))
