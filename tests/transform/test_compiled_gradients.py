"""Compiled adjoints of a sample of the operators, all in one module, beside those of the interpreter."""

from __future__ import annotations

import random

import numpy as np
from gradient_cases import CASES
from gradients import flat, values
from test_operator_gradients import SOURCE, values_of

import relax
from relax.transform import Gradient

COUNT = 40


def sample():
    """Cases by name and place, the same in every run."""
    every = [(name, case) for name, cases in CASES.items() for case in cases]
    return random.Random(11).sample(every, COUNT)


def module(cases):
    """The program that has the function f0, f1, … of each case, with its adjoint."""
    head, text = SOURCE.split("    @R.function\n")
    functions: list[str] = []
    for i, (_, (call, *operands)) in enumerate(cases):
        stated = [operand[0] if isinstance(operand[0], tuple) else operand for operand in operands]
        params = [f"{name}: R.Tensor({dims!r}, 'float64')" for name, dims in zip("xyzu", stated, strict=False)]
        body = text.replace("def main(", f"def f{i}(").format(signature=", ".join(params), call=call)
        functions.append("    @R.function\n" + body)
    mod = relax.script.from_source(head + "".join(functions))
    for i in range(len(cases)):
        mod = Gradient(f"f{i}")(mod)
    return mod


def test_compiled_adjoints_are_those_of_the_interpreter():
    cases = sample()
    mod = module(cases)
    vm = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=0"), relax.cpu())
    for i, (name, (_, *operands)) in enumerate(cases):
        arguments = values_of(name, operands)
        expected = flat(values(relax.interpret(mod, f"f{i}_adjoint", *arguments)))
        found = flat(values(vm[f"f{i}_adjoint"](*arguments)))
        for got, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-9, atol=1e-11, err_msg=name)
