"""What torch.compile(backend="relax") leaves to eager torch, and what it says of it."""

from __future__ import annotations

import re
import warnings

import pytest

import relax.frontend.torch
from relax.frontend.torch import FallbackWarning
from relax.frontend.torch.compile import backend, piece
from support import PLAIN_LOOPS

torch = pytest.importorskip("torch")
nn = torch.nn

FAST = {"options": {"tier": "now", "target": PLAIN_LOOPS}}


@torch.library.custom_op("relax_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


doubled.register_fake(torch.empty_like)


def test_an_operator_without_a_converter_runs_in_torch_between_two_pieces(builds):
    def function(x):
        return doubled(x.exp() + 1).sin() + x

    compiled = torch.compile(function, backend="relax", dynamic=True, **FAST)
    with pytest.warns(FallbackWarning) as said:
        found = compiled(torch.ones(2, 3))
    torch.testing.assert_close(found, function(torch.ones(2, 3)))
    assert len(builds) == 2
    (message,) = [str(warning.message) for warning in said if warning.category is FallbackWarning]
    assert message.startswith('torch.compile(backend="relax"): runs in eager torch:\n  relax_tests.doubled.default: ')
    assert re.search(r'at File ".*test_fallback.py", line \d+, in function return doubled', message)


def test_a_node_that_the_importer_refuses_runs_in_torch(without):
    from relax.frontend.torch import converter

    @converter("aten.sin.default")
    def sin(g, x):
        g.unsupported("a sine in this test")

    function = torch.compile(lambda x: x.exp().sin() + 1, backend="relax", **FAST)
    x = torch.randn(5)
    with pytest.warns(FallbackWarning, match="a sine in this test is not supported"):
        torch.testing.assert_close(function(x), x.exp().sin() + 1)


def test_a_build_that_fails_runs_in_torch(monkeypatch):
    def broken(*args, **kwargs):
        raise OSError("no space")

    monkeypatch.setattr(piece, "build", broken)
    function = torch.compile(lambda x: x.exp() + 1, backend="relax", **FAST)
    with pytest.warns(
        FallbackWarning, match=r"its build failed: OSError: no space \(aten.exp.default, aten.add.Tensor"
    ):
        found = function(torch.ones(3))
    torch.testing.assert_close(found, torch.ones(3).exp() + 1)
    torch.testing.assert_close(function(torch.zeros(3)), torch.full((3,), 2.0))


NOT_COMPILED = r"""(?s)relax_tests.doubled.default 'doubled': it has no converter
  --> graph: doubled.*test_fallback.py", line \d+, in <lambda>.*or leave out the option fallback=False"""


def test_without_fallback_it_is_an_error():
    function = torch.compile(lambda x: doubled(x) + 1, backend="relax", options={"fallback": False})
    with pytest.raises(Exception, match=NOT_COMPILED):
        function(torch.ones(2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"options": {"teir": "now"}}, "there is no option 'teir'; did you mean 'tier'", id="option"),
        pytest.param({"options": {"tier": "slow"}}, "there is no tier 'slow'; tiers are full, now, auto", id="tier"),
        pytest.param({"options": {"fallback": 1}}, "the option fallback is True or False, found 1", id="fallback"),
    ],
)
def test_an_option_that_is_wrong_is_an_error(arguments, message):
    with pytest.raises(Exception, match=re.escape(message)):
        torch.compile(lambda x: x + 1, backend="relax", **arguments)(torch.ones(2))


def test_a_mode_that_there_is_not():
    with pytest.raises(ValueError, match="there is no mode 'fast'; modes are default, reduce-overhead, max-autotune"):
        relax.frontend.torch.relax_backend(None, (), mode="fast")


def test_graph_breaks_and_exceptions_of_the_function():
    def function(x):
        y = x.exp()
        torch._dynamo.graph_break()
        if y.sum() > 100:
            raise KeyError("too large")
        return y + 1

    compiled = torch.compile(function, backend="relax", **FAST)
    torch.testing.assert_close(compiled(torch.zeros(3)), torch.full((3,), 2.0))
    with pytest.raises(KeyError, match="too large"):
        compiled(torch.full((3,), 9.0))


def test_shapes_that_do_not_fit_are_errors_of_torch():
    compiled = torch.compile(lambda x, y: x @ y, backend="relax", **FAST)
    with pytest.raises(Exception, match="a and b must have same reduction dim"):
        compiled(torch.ones(2, 3), torch.ones(4, 5))


def test_a_subclass_of_tensors_keeps_its_class():
    class Marked(torch.Tensor):
        pass

    x = torch.ones(3).as_subclass(Marked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        found = torch.compile(lambda x: x + 1, backend="relax", **FAST)(x)
    assert isinstance(found, Marked)
    torch.testing.assert_close(found.as_subclass(torch.Tensor), torch.full((3,), 2.0))


def test_operators_that_are_registered_later_are_taken_apart():
    x = torch.ones(2)
    torch.testing.assert_close(torch.compile(lambda x: x + 2, backend="relax", **FAST)(x), x + 2)
    library = torch.library.Library("relax_tests_later", "DEF")
    library.define("plus(Tensor x) -> Tensor")
    library.impl("plus", lambda x: x + 1, "CompositeImplicitAutograd")
    plus = torch.ops.relax_tests_later.plus
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        torch.testing.assert_close(torch.compile(lambda x: plus(x) * 3, backend="relax", **FAST)(x), 3 * (x + 1))
    assert plus.default in backend._decompositions()
