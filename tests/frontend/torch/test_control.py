"""torch.cond and while_loop, in both modes of execution."""

from __future__ import annotations

import pytest

import relax
from relax.frontend.torch import from_exported_program
from support import PLAIN_LOOPS

torch = pytest.importorskip("torch")
nn = torch.nn

from torch_programs import Function, close, exported  # noqa: E402


class Gate(nn.Module):
    """Two branches, of which one reads a parameter and a size."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(3, 3)

    def forward(self, x, y):
        def then(a, b):
            return self.dense(a).sin(), b + a.shape[0]

        def otherwise(a, b):
            return a.clone(), b * 2

        return torch.cond(x.sum() > 0, then, otherwise, (x, y))


def doubled(x, n):
    """n times x · 2 + n, and the number of times."""

    def proceeds(i, a):
        return i < n.sum()

    def body(i, a):
        return i + 1, a * 2 + n

    return torch._higher_order_ops.while_loop(proceeds, body, (torch.tensor(0), x))


@pytest.fixture(params=["bytecode", "compiled"])
def mode(request):
    return request.param


def agree(mode, module, inputs, dynamic, others):
    mod = from_exported_program(exported(module, inputs, dynamic))
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS, exec_mode=mode), relax.cpu())
    for values in (inputs, *others):
        with torch.no_grad():
            expected = module(*values)
        found = vm["main"](*values)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            close(a, b, 2e-6)


def test_cond(mode):
    others = [(-torch.ones(4, 3), torch.randn(1, 3)), (torch.full((1, 3), torch.nan), torch.randn(5, 3))]
    agree(mode, Gate(), (torch.ones(4, 3), torch.randn(2, 3)), [[0], [0]], others)


def test_cond_on_a_size(mode):
    def chosen(x):
        return (torch.cond(x.shape[0] > 3, lambda a: a + 1, lambda a: a - 1, (x,)),)

    agree(mode, chosen, (torch.ones(4, 3),), [[0]], [(torch.ones(2, 3),), (torch.ones(1, 3),)])


def test_while_loop(mode):
    others = [(torch.ones(1, 3), torch.tensor(0)), (torch.ones(7, 3), torch.tensor(5))]
    agree(mode, doubled, (torch.ones(4, 3), torch.tensor(3)), [[0], []], others)


def running(start, x):
    """Sums of the rows before and with each, and the last one; the rows are read from the last to the first."""
    scan = torch._higher_order_ops.scan
    last, sums = scan(lambda total, row: (total + row, total * row.sum()), start, x)
    back, firsts = scan(lambda total, row: (total * 0.5 + row, [row[:1] + 1, total * 2]), start, x, reverse=True)
    return last, sums, back, *firsts


def test_scan(mode):
    others = [(torch.ones(3), torch.randn(1, 3)), (torch.randn(3), torch.randn(9, 3))]
    agree(mode, running, (torch.zeros(3), torch.randn(4, 3)), [[], [0]], others)


def mapped(x, y):
    return torch._higher_order_ops.map(lambda row, other: ((row * other).sin(), row.sum()), x, y)


def test_map(mode):
    others = [(torch.randn(1, 3), torch.randn(3)), (torch.randn(6, 3), torch.randn(3))]
    agree(mode, mapped, (torch.randn(4, 3), torch.randn(3)), [[0], []], others)


def test_an_associative_scan():
    """Torch writes it as a tree of slices, for the length of the example."""
    from torch._higher_order_ops.associative_scan import associative_scan

    def products(x):
        return (associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic"),)

    agree("compiled", products, (torch.randn(5, 3),), None, [])


def test_graphs_that_dynamo_traces():
    """Strict export records the same operators."""
    program = torch.export.export(Function(running), (torch.zeros(3), torch.randn(4, 3)), strict=True)
    names = {str(node.target) for node in program.graph.nodes}
    assert "scan" in names
    main = relax.VirtualMachine(relax.build(from_exported_program(program), PLAIN_LOOPS), relax.cpu())["main"]
    inputs = torch.ones(3), torch.randn(4, 3)
    for a, b in zip(main(*inputs), running(*inputs), strict=True):
        close(a, b, 2e-6)


def test_results_that_share_memory(mode):
    """An input returned twice, a view of it, and a view of what was computed."""

    def views(x):
        y = x + 1
        return x, x, x.view(-1), y, y.reshape(-1)[1:], y.unsqueeze(0)

    agree(mode, views, (torch.randn(4, 3),), [[0]], [(torch.randn(1, 3),), (torch.randn(9, 3),)])
