"""build_exported: programs that are called with the arguments of the module, and return what it returns."""

from __future__ import annotations

import dataclasses
from collections import namedtuple

import pytest

from relax.frontend.torch import build_exported, from_exported_program

torch = pytest.importorskip("torch")
nn = torch.nn
DYNAMIC = torch.export.Dim.DYNAMIC


@dataclasses.dataclass
class Scored:
    logits: torch.Tensor
    best: torch.Tensor


torch.export.register_dataclass(Scored, serialized_type_name="relax_tests.Scored")
Pair = namedtuple("Pair", "first second")


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(4, 3)

    def forward(self, x, named, *, scale=2, more=None):
        y = self.dense(x["x"]) * scale
        return Scored(y, y.argmax(-1)), {
            "pair": Pair(named.first + named.second, None),
            "rows": x["x"].shape[0],
            "scale": scale,
        }


def arguments(rows):
    return ({"x": torch.randn(rows, 4)}, Pair(torch.ones(rows), torch.ones(())))


@pytest.fixture(scope="module")
def nested():
    module = Nested().eval()
    shapes = {"x": {"x": {0: DYNAMIC}}, "named": Pair({0: DYNAMIC}, {}), "scale": None}
    program = torch.export.export(module, arguments(3), {"scale": 2}, dynamic_shapes=shapes, strict=False)
    return module, program, build_exported(program, tier="now")


def test_the_structure_of_the_module(nested):
    module, _, run = nested
    for rows in (3, 1, 5):
        x, named = arguments(rows)
        scored, rest = run(x, named, scale=2)
        expected, others = module(x, named)
        assert isinstance(scored, Scored)
        torch.testing.assert_close(scored.logits, expected.logits)
        torch.testing.assert_close(scored.best, expected.best)
        torch.testing.assert_close(rest["pair"].first, others["pair"].first)
        assert rest["pair"].second is None
        assert (rest["rows"], rest["scale"]) == (rows, 2)


def test_arguments_by_name_and_constants_left_out(nested):
    module, _, run = nested
    x, named = arguments(2)
    torch.testing.assert_close(run(named=named, x=x)[0].logits, module(x, named)[0].logits)


def test_names_of_outputs(nested):
    _, program, _ = nested
    assert list(from_exported_program(program)["main"].attrs["output_names"]) == [
        "0.logits", "0.best", "1.pair.first", "1.rows", "1.scale",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change, error, message",
    [
        (lambda x, n: ((x, n), {"scale": 3}), ValueError, "the argument scale is 2 in the exported program, found 3"),
        (lambda x, n: ((x,), {}), TypeError, "the argument named is missing"),
        (lambda x, n: ((x, n), {"x": x}), TypeError, "the argument x is passed twice"),
        (
            lambda x, n: ((x, n), {"size": 1}),
            TypeError,
            "the argument size is none of the program's, which are x, named",
        ),
        (lambda x, n: ((x, n, 1), {}), TypeError, "the program takes 2 positional arguments, found 3"),
        (lambda x, n: (([x["x"]], n), {}), TypeError, "x is list of 1, the program was exported with dict of x"),
        (
            lambda x, n: ((x, n.first), {}),
            TypeError,
            "is a tensor or a number, the program was exported with Pair of first",
        ),
    ],
    ids=["constant", "missing", "twice", "unknown", "too many", "list", "tensor"],
)
def test_arguments_that_do_not_fit(nested, change, error, message):
    args, kwargs = change(*arguments(2))
    with pytest.raises(error, match=message):
        nested[2](*args, **kwargs)


class Total(nn.Module):
    """Adds to a buffer, and to an input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x, log):
        self.total.add_(x)
        log.add_(1)
        return [self.total * 2, log]


def test_buffers_and_inputs_that_change(tmp_path):
    program = torch.export.export(Total(), (torch.ones(2), torch.zeros(2)), strict=False)
    torch.export.save(program, tmp_path / "total.pt2")
    run, module = build_exported(tmp_path / "total.pt2", tier="now"), Total()
    log, expected = torch.zeros(2), torch.zeros(2)
    for x in (torch.ones(2), torch.full((2,), 3.0)):
        for found, right in zip(run(x, log), module(x, expected), strict=True):
            torch.testing.assert_close(found, right)
        torch.testing.assert_close(log, expected)
    assert [value.tolist() for value in run.state.values()] == [[4.0, 4.0]]


def test_complex_leaves():
    class Turned(nn.Module):
        def forward(self, x):
            return {"z": x * 1j, "real": x.real}

    x = torch.complex(torch.randn(3), torch.randn(3))
    run = build_exported(torch.export.export(Turned(), (x,), strict=False), tier="now")
    torch.testing.assert_close(run(x), {"z": x * 1j, "real": x.real})


def test_a_view_with_a_negative_bit():
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    run = build_exported(torch.export.export(Double(), (torch.ones(3),)), tier="now")
    torch.testing.assert_close(run(torch._neg_view(torch.arange(3.0))), torch.tensor([-0.0, -2.0, -4.0]))


def test_a_cache_of_transformers():
    transformers = pytest.importorskip("transformers")
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    register_dynamic_cache_export_support()
    from transformers.modeling_outputs import CausalLMOutputWithPast

    class Step(nn.Module):
        def forward(self, x, cache):
            keys, values = cache.update(x, x * 2, 0)
            return CausalLMOutputWithPast(logits=(keys + values).sum(2), past_key_values=cache)

    def cache_of(length):
        cache = transformers.DynamicCache()
        cache.update(torch.arange(2.0 * length).reshape(1, 1, length, 2), torch.ones(1, 1, length, 2), 0)
        return cache

    length = {2: DYNAMIC}
    x = torch.ones(1, 1, 1, 2)
    program = torch.export.export(Step(), (x, cache_of(3)), dynamic_shapes=({}, [[length], [length]]), strict=False)
    run = build_exported(program, tier="now")
    for past in (3, 7):
        found, expected = run(x, cache_of(past)), Step()(x, cache_of(past))
        assert isinstance(found, CausalLMOutputWithPast)
        assert isinstance(found.past_key_values, transformers.DynamicCache)
        torch.testing.assert_close(found.logits, expected.logits)
        assert found.past_key_values.get_seq_length() == past + 1
