"""Ranges and guards of torch.export, as checks of main and facts for the prover."""

from __future__ import annotations

import pytest

import relax
from relax.frontend.torch import from_exported_program
from relax.script import relax as R
from relax.script import tir as T

torch = pytest.importorskip("torch")

from torch_programs import Function, close  # noqa: E402

from relax.ir import assert_structural_equal  # noqa: E402
from support import PLAIN_LOOPS  # noqa: E402

AUTO, Dim = torch.export.Dim.AUTO, torch.export.Dim


def program_of(function, *inputs, shapes):
    """A function of tensors as a program; `shapes` gives the dynamic dimensions of each input."""
    return torch.export.export(Function(function), inputs, dynamic_shapes=(shapes,), strict=False)


def entry(program, mode="compiled", **options):
    mod = from_exported_program(program, **options)
    return relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS, exec_mode=mode), relax.cpu())["main"]


RANGES = [
    pytest.param(
        {"min": 3, "max": 9}, [2, 10], r"dimension 0 of inputs_0 \(s\d+\) is (2|10), expected 3 to 9", id="both"
    ),
    pytest.param({"max": 9}, [10], r"is 10, expected at most 9", id="upper"),
    pytest.param({"min": 5}, [4, 0], r"is (4|0), expected at least 5", id="lower"),
]


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("limits, refused, message", RANGES)
def test_ranges(mode, limits, refused, message):
    main = entry(program_of(lambda x: x * 2, torch.ones(6, 2), shapes=({0: Dim("n", **limits)},)), mode)
    (y,) = main(torch.ones(8, 2))
    close(y, torch.full((8, 2), 2.0), 0)
    for size in refused:
        with pytest.raises(AssertionError, match=message):
            main(torch.ones(size, 2))


def test_a_lower_limit_of_two_is_none():
    """Torch has it for every dynamic dimension, and does not check it."""
    program = program_of(lambda x: x * 2, torch.ones(6, 2), shapes=({0: Dim("n", min=2)},))
    assert from_exported_program(program)["main"].is_pure
    assert program.module()(torch.ones(1, 2)).shape == entry(program)(torch.ones(1, 2))[0].shape == (1, 2)


def test_a_guard_is_checked_and_known():
    """Eight rows are one: that the sizes fit is proved, so no cast is in the program."""
    program = program_of(lambda x: x.reshape(-1, 8) + 1, torch.ones(24), shapes=({0: 8 * Dim("n", max=16)},))

    @R.function(pure=False)
    def main(inputs_0: R.Tensor(("inputs_0_0",), "float32")):
        inputs_0_0 = T.int64()
        _ = R.assert_op(
            R.prim_value(inputs_0_0 % 8 == 0),
            R.prim_value(inputs_0_0),
            format="dimension 0 of inputs_0 is {}, expected 8*S for an integer S",
        )
        _1 = R.assert_op(
            R.prim_value(inputs_0_0 <= 128),
            R.prim_value(inputs_0_0),
            format="dimension 0 of inputs_0 (inputs_0_0) is {}, expected at most 128",
        )
        with R.dataflow():
            rows = R.reshape(inputs_0, R.shape([inputs_0_0 // 8, 8]))
            result = R.add(rows, R.const(1.0, "float32"))
            whole = (result,)
            R.output(whole)
        return whole

    found = from_exported_program(program)["main"]
    symbol = next(str(symbol) for symbol in program.range_constraints if str(symbol).startswith("s"))
    text = found.script().replace(symbol, "S")
    assert_structural_equal(relax.script.from_source(text), main.with_attrs({"num_input": 1, "output_names": ["add"]}))


def test_a_guard_of_the_modules_own_code():
    def halves(x, y):
        if x.shape[0] % 2 == 0 and x.shape[0] + 1 < y.shape[0]:
            return x.reshape(2, -1), y
        return x, y

    program = program_of(halves, torch.ones(6), torch.ones(9), shapes=({0: AUTO}, {0: AUTO}))
    main = entry(program)
    first, second = main(torch.arange(4.0), torch.ones(6))
    close(first, torch.arange(4.0).reshape(2, 2), 0)
    assert second.shape == (6,)
    with pytest.raises(
        AssertionError, match=r"inputs with \(inputs_0.shape\[0\] % 2\) == 0; found inputs_0.shape\[0\] = 5"
    ):
        main(torch.ones(5), torch.ones(9))
    with pytest.raises(AssertionError, match=r"found inputs_0.shape\[0\] = 8, inputs_1.shape\[0\] = 9"):
        main(torch.ones(8), torch.ones(9))
    unchecked = entry(program, check_sizes=False)
    assert unchecked(torch.ones(8), torch.ones(9))[0].shape == (2, 4)


def branches(x, y):
    n, m = x.shape[0], y.shape[0]
    if n % m == 0 and n / m > 1.5 and round(n / 3) < 9:
        return x * 2, y
    return x, y


BRANCHES = {
    "a remainder": (13, 4, r"with \(inputs_0.shape\[0\] % inputs_1.shape\[0\]\) == 0; found .* = 13, .* = 4"),
    "a divisor of 0": (12, 0, r"% inputs_1.shape\[0\]\) == 0; found .* = 12, .* = 0"),
    "a quotient": (6, 6, r"> 1.5; found"),
    "a rounded number": (28, 4, r"round\(inputs_0.shape\[0\] / 3\) < 9; found .* = 28"),
}


@pytest.fixture(scope="module")
def branching():
    return entry(program_of(branches, torch.ones(12), torch.ones(4), shapes=({0: AUTO}, {0: AUTO})), "bytecode")


def test_sizes_that_take_the_same_branch(branching):
    close(branching(torch.ones(16), torch.ones(2))[0], torch.full((16,), 2.0), 0)


@pytest.mark.parametrize("name", BRANCHES)
def test_sizes_that_take_another_branch(branching, name):
    n, m, message = BRANCHES[name]
    with pytest.raises(AssertionError, match=message):
        branching(torch.ones(n), torch.ones(m))


def test_guards_of_several_comparisons(monkeypatch):
    program = program_of(lambda x: x * 2, torch.ones(6), shapes=({0: AUTO},))
    size = "L['inputs'][0].size()[0]"
    monkeypatch.setattr(program, "_guards_code", [f"2 < {size} < 9", f"not ({size} == 4 or {size} == 5)"])
    main = entry(program, "bytecode")
    assert main(torch.ones(6))[0].shape == (6,)
    for refused in (2, 9, 4, 5):
        with pytest.raises(AssertionError, match=rf"found inputs_0.shape\[0\] = {refused}"):
            main(torch.ones(refused))


def test_a_guard_that_names_inputs_by_their_places():
    """Of a program of dynamo (strict); None and numbers have places, too."""

    class Power(torch.nn.Module):
        def forward(self, n, nothing, x):
            return x + 1 if x.shape[0] % 3 == 2 else x * n

    program = torch.export.export(
        Power(), (2, None, torch.ones(8)), dynamic_shapes=(None, None, {0: AUTO}), strict=True
    )
    with pytest.raises(AssertionError, match=r"with \(x.shape\[0\] % 3\) == 2; found x.shape\[0\] = 9"):
        entry(program, "bytecode")(torch.ones(9))


def test_a_guard_of_a_number():
    class Power(torch.nn.Module):
        def forward(self, x, n):
            return x + n if n % 4 == 3 else x * n

    program = torch.export.export(Power(), (torch.ones(8), 7), dynamic_shapes=(None, AUTO))
    main = entry(program, "bytecode")
    close(main(torch.ones(8), 11)[0], torch.full((8,), 12.0), 0)
    with pytest.raises(AssertionError, match=r"with \(n % 4\) == 3; found n = 8"):
        main(torch.ones(8), 8)


def test_a_guard_that_cannot_be_checked():
    """Torch names both inputs x_0 in guards."""

    class Named(torch.nn.Module):
        def forward(self, x_0, x):
            return x_0 + 1 if x[0].shape[0] % 3 == 2 else x_0

    inputs = torch.ones(8), [torch.ones(5)]
    program = torch.export.export(Named(), inputs, dynamic_shapes=({0: AUTO}, [{0: AUTO}]))
    with pytest.raises(relax.DiagnosticError, match=r"the guard \(L\['x'\]\[0\].size\(\)\[0\] % 3\) == 2") as caught:
        from_exported_program(program)
    assert "check_sizes=False" in str(caught.value)
    assert from_exported_program(program, check_sizes=False)["main"].is_pure


def test_a_size_that_depends_on_data_is_no_guard():
    def few(x):
        found = x.nonzero()
        torch._check(found.shape[0] < 5)
        return found

    program = program_of(few, torch.tensor([0.0, 1.0]), shapes=({0: AUTO},))
    assert from_exported_program(program)["main"].is_pure
