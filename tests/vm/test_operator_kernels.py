"""Operators on operands of unknown rank or dtype, whose kernels are chosen at run time."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.runtime import Executable, operators
from relax.script import from_source
from relax.transform import LegalizeOps, PassContext
from support import numbers, same

MODES = ["compiled", "bytecode"]


def parse(params, *body, result="y"):
    """A function of parameters, as a module."""
    lines = "\n".join(f"        {line}" for line in body)
    return from_source(
        "from relax.script import ir as I, relax as R, tir as T\n@I.ir_module\nclass M:\n    @R.function\n"
        f"    def main({params}):\n{lines}\n        return {result}\n"
    )


def check(mod, *args):
    """Compiled in both modes, saved and loaded, a program gives what the interpreter gives."""
    expected = relax.interpret(mod, "main", *args)
    for mode in MODES:
        executable = relax.build(mod, exec_mode=mode)
        for program in (executable, Executable.from_bytes(executable.to_bytes())):
            same(relax.VirtualMachine(program)["main"](*args), expected)


@pytest.mark.parametrize("info", ["R.Tensor", 'R.Tensor("float32")', "R.Tensor(ndim=2)", "R.Object"])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (1, 1)])
def test_less_and_less_is_known(info, shape):
    mod = parse(f"a: {info}, b: {info}", "x = R.add(a, b)", "y = R.exp(x)")
    check(mod, numbers(*shape), numbers(1, 3))


def test_one_program_takes_operands_of_all_ranks_and_dtypes():
    mod = parse("a: R.Tensor, b: R.Tensor", "y = R.multiply(a, b)")
    run = relax.VirtualMachine(relax.build(mod))["main"]
    for dtype in ("float64", "int8", "float16"):
        for left, right in [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1, 4), (3, 1)), ((0,), (1,))]:
            a, b = numbers(*left, dtype=dtype), numbers(*right, dtype=dtype, seed=1)
            np.testing.assert_array_equal(run(a, b).numpy(), a * b)


def test_special_values():
    a = np.array([np.nan, np.inf, -np.inf, -0.0], "float32")
    check(parse("a: R.Tensor", "y = R.maximum(a, R.const(0.0))"), a)


def test_sizes_and_shape_variables():
    mod = parse(
        'a: R.Tensor, s: R.Shape(["n", "m"])', "n = T.int64()", "m = T.int64()", "y = R.reshape(a, R.shape([m, n]))"
    )
    for n, m in [(2, 3), (1, 6), (6, 1)]:
        check(mod, numbers(6), relax.ShapeTuple([n, m]))


def test_the_rank_of_a_result_that_sizes_decide():
    """`squeeze` drops the sizes that are 1: operands of one rank give results of several."""
    mod = parse("a: R.Tensor", "y = R.squeeze(a)")
    for shape in [(2, 3), (1, 3), (2, 1), (1, 1), (1, 0)]:
        check(mod, numbers(*shape))


def test_tuples_in_branches():
    mod = parse(
        "a: R.Tensor, c: R.Tensor((), 'bool')",
        "if c:",
        "    t = R.split(a, 2, axis=-1)",
        "    z = R.concat(t, axis=0)",
        "else:",
        "    z = R.negative(a)",
        "y = R.add(z, z)",
    )
    for condition in (True, False):
        check(mod, numbers(2, 1, 4), np.array(condition))


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (numbers(2), numbers(2, dtype="float64"), "x1 and x2 must have one dtype, found float32 and float64"),
        (numbers(2, 3), numbers(2), "the shapes cannot be broadcast"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_operands_that_do_not_fit(a, b, message, mode):
    mod = parse("a: R.Tensor, b: R.Tensor", "y = R.add(a, b)")
    for run in (
        relax.VirtualMachine(relax.build(mod, exec_mode=mode))["main"],
        lambda *x: relax.interpret(mod, "main", *x),
    ):
        with pytest.raises(AssertionError, match=message):
            run(a, b)


def test_kernels_are_compiled_once(monkeypatch):
    mod = parse("a: R.Tensor, b: R.Tensor", "x = R.add(a, b)", "y = R.add(x, b)")
    run = relax.VirtualMachine(relax.build(mod))["main"]
    monkeypatch.setattr(operators, "_kernels", {})
    for size in (3, 4, 0):
        run(numbers(size), numbers(size))
    assert len(operators._kernels) == 1


def test_kernels_compiled_beforehand(monkeypatch):
    """They are part of the saved program; without the compiler there are no others."""
    mod = parse("a: R.Tensor, b: R.Tensor", "y = R.add(a, b)")
    with PassContext(config={"relax.LegalizeOps.combinations": [("float32", 1), ("float32", 2), ("int8", 1)]}):
        data = relax.build(mod).to_bytes()

    class Missing:
        def compiled(self, spec, args):
            raise ModuleNotFoundError("No module named 'relax.vm'", name="relax.vm")

    monkeypatch.setattr(operators, "_kernels", {})
    monkeypatch.setattr(operators, "_compiler", Missing())
    run = relax.VirtualMachine(Executable.from_bytes(data))["main"]
    for left, right, dtype in [((2, 3), (3,), "float32"), ((5,), (5,), "int8")]:
        a, b = numbers(*left, dtype=dtype), numbers(*right, dtype=dtype)
        np.testing.assert_array_equal(run(a, b).numpy(), a + b)
    with pytest.raises(RuntimeError, match=r'operands R.Tensor\("float64", ndim=1\), .* the compiler is not installed'):
        run(numbers(2, dtype="float64"), numbers(2, dtype="float64"))


def test_the_pass():
    mod = LegalizeOps()(parse("a: R.Tensor", "y = R.exp(a)"))
    text = mod.script()
    assert 'R.call_pure_packed("relax.run.operator"' in text
    assert "sinfo_args=(R.Tensor,)" in text


def test_dispatch_can_be_excluded():
    with (
        PassContext(config={"relax.LegalizeOps.dispatch": False}),
        pytest.raises(relax.DiagnosticError, match="too little is known of its operands: R.Tensor"),
    ):
        LegalizeOps()(parse("a: R.Tensor", "y = R.exp(a)"))
