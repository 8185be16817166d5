"""Functions of a library in destination-passing style: their names, results and errors."""

from __future__ import annotations

import re

import pytest

import relax
from relax.runtime import LinkError, names, registry
from relax.script import from_source
from support import MODES, main, numbers, same, values


@pytest.fixture
def library(monkeypatch):
    """A library in the place of torch: two functions that return their results."""
    monkeypatch.setattr(registry, "_resolvers", {})
    functions = {
        "torch.twice": lambda x: x.numpy() * 2,
        "torch.both": lambda x: (-x.numpy(), x.numpy() > 0),
        "torch.count": lambda x: len(x.numpy()),
    }
    registry.register_resolver("torch.", functions.get)


def program(call):
    return main(f"n = T.int64()\ny = R.call_dps_packed({call})\nreturn y", pure=False)


def ways(mod):
    """The interpreter, and the VM in each mode."""
    yield lambda *args: relax.interpret(mod, "main", *args)
    for mode in MODES:
        yield relax.VirtualMachine(relax.build(mod, exec_mode=mode))["main"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('"torch.twice", (x,), R.Tensor((n,), "float32")', lambda x: x * 2),
        ('"torch.both", (x,), [R.Tensor((n,), "float32"), R.Tensor((n,), "bool")]', lambda x: (-x, x > 0)),
    ],
)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_results_are_written_to_outputs(library, call, expected, n):
    x = numbers(n)
    for run in ways(program(call)):
        same(values(run(x)), expected(x))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('"torch.both", (x,), R.Tensor((n,), "float32")',
         "torch.both: expected 1 tensor, found 2 results, 2 of them tensors"),
        ('"torch.count", (x,), R.Tensor((), "int64")',
         "torch.count: expected 1 tensor, found 1 results, 0 of them tensors"),
        ('"torch.twice", (x,), R.Tensor((2 * n,), "float32")',
         "torch.twice: result 0: expected shape (6,) and dtype float32, found shape (3,) and dtype float32"),
        ('"torch.both", (x,), [R.Tensor((n,), "float32"), R.Tensor((n,), "int32")]',
         "torch.both: result 1: expected shape (3,) and dtype int32, found shape (3,) and dtype bool"),
    ],
)  # fmt: skip
def test_results_that_do_not_fit(library, call, message):
    for run in ways(program(call)):
        with pytest.raises(ValueError, match=re.escape(message)):
            run(numbers(3))


TWICE = '"torch.twice", (x,), R.Tensor((n,), "float32")'


def test_a_registered_function_writes_its_outputs_itself(library):
    relax.register_func("torch.twice", lambda x, y: y.copyfrom(-x.numpy()), override=True)
    try:
        x = numbers(3)
        for run in ways(program(TWICE)):
            same(values(run(x)), -x)
    finally:
        relax.runtime.remove_global_func("torch.twice")


def test_a_symbol_of_the_module_that_names_a_function_of_the_library(library):
    mod = from_source("""
from relax.script import ir as I, relax as R
@I.ir_module
class M:
    twice = R.ExternFunc("torch.twice")

    @R.function
    def main(x: R.Tensor((3,), "float32")):
        y = R.call_dps_packed(M.twice, (x,), R.Tensor((3,), "float32"))
        return y
""")
    x = numbers(3)
    for run in ways(mod):
        same(values(run(x)), x * 2)


def test_a_function_that_is_missing_has_its_own_name_in_the_error(library):
    mod = program(TWICE.replace("twice", "thrice"))
    with pytest.raises(LinkError, match=r"packed function torch\.thrice\. Packed functions are made known by relax\."):
        relax.VirtualMachine(relax.build(mod))
    with pytest.raises(ValueError, match=r"the packed function 'torch\.thrice' is neither in the module nor"):
        relax.interpret(mod, "main", numbers(3))


def test_names_with_a_number_of_outputs():
    assert names.with_outputs("torch.topk", 2) == "torch.topk:2"
    assert names.with_outputs("custom.topk", 2) == "custom.topk"
    assert names.split("torch.topk:2") == ("torch.topk", 2)
    assert [names.split(name)[1] for name in ("torch.topk", "a:2", "torch:2", "torch.a:b")] == [None] * 4
