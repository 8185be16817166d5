"""Views of inputs and of intermediate tensors that a compiled function returns hold the elements that they should."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from relax.frontend.torch.compile import relax_backend  # noqa: E402
from relax.frontend.torch.compile.piece import _inside, _memory  # noqa: E402
from support import PLAIN_LOOPS  # noqa: E402


@pytest.fixture(autouse=True)
def _forget():
    yield
    torch._dynamo.reset()


def views(x, y):
    return (
        *x.split(2, 1), *x.chunk(3, 2), x.unbind(1)[1], x.diagonal(0, 0, 1), x.unfold(2, 2, 1), x.narrow(1, 1, 2),
        *y.split(2, 1), y.unbind(2)[0], y.diagonal(0, 1, 2), y.unfold(1, 2, 2), y[:, 1:3].transpose(0, 2),
    )  # fmt: skip


def test_views_of_inputs_and_of_results():
    def function(x):
        return views(x, x * 2)

    compiled = torch.compile(function, backend=relax_backend, dynamic=True, options={"target": PLAIN_LOOPS})
    for shape in [(3, 4, 5), (2, 6, 7)]:
        x = torch.randn(shape)
        results = compiled(x)
        torch.testing.assert_close(results, function(x))
        for view in results[:9]:
            assert view._base is x or view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_a_returned_part_of_an_input_is_that_part():
    def first(x):
        return x.chunk(2, 1)[0], x + 1

    compiled = torch.compile(first, backend=relax_backend, dynamic=True, options={"target": PLAIN_LOOPS})
    x = torch.randn(2, 6, 3)
    compiled(x)[0].zero_()
    assert not x[:, :3].any()
    assert x[:, 3:].all()


def test_memory_of_inputs_that_overlap():
    """A part of the whole begins before the address, and ends before it."""
    whole = torch.zeros(100)
    memory = _memory([whole[10:20], whole, whole[:5]])
    assert all(_inside(whole[place:].data_ptr(), *memory) for place in (0, 7, 15, 50, 99))
    assert not _inside(whole.data_ptr() - 4, *memory)
    assert not _inside(whole.data_ptr() + 400, *memory)
