"""Gradient of each operator: central differences of the interpreter, and the compiled adjoint."""

from __future__ import annotations

import numpy as np
import pytest
from gradient_cases import BINARY, CASES, RANGES, UNARY
from gradients import check_gradients

import gradients_page
import relax

SOURCE = """
from relax.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main({signature}):
        with R.dataflow():
            y_ = {call}
            z_ = R.multiply(y_, R.sin(y_))
            gv = R.sum(z_)
            R.output(gv)
        return gv
"""
COMPILED = ("nn.conv2d", "nn.pad", "strided_slice", "nn.max_pool1d", "image.grid_sample", "nn.attention_var_len")
"""Operators whose first case is compiled: rules of several operators, and adjoint loops of each kind."""


def module_of(call, *operands):
    """The program that takes the operands of a case, and returns one number of the call's result."""
    stated = [op[0] if isinstance(op[0], tuple) else op for op in operands]
    params = [f"{n}: R.Tensor({dims!r}, 'float64')" for n, dims in zip("xyzu", stated, strict=False)]
    return relax.script.from_source(SOURCE.format(signature=", ".join(params), call=call))


def values_of(name, operands):
    rng = np.random.default_rng(7)
    low, high = RANGES.get(name, (-1, 1))
    return [rng.uniform(low, high, op[1] if isinstance(op[0], tuple) else op) for op in operands]


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_differences(name):
    for call, *operands in CASES[name]:
        check_gradients(module_of(call, *operands), *values_of(name, operands))


UNDEFINED_OF_NOTHING = ("std", "variance", "max", "min", "mean", "median")
"""Operators that have no number as the result for no elements."""


@pytest.mark.parametrize("name", (*UNARY, *BINARY))
def test_sizes_0_and_1(name):
    call, *operands = CASES[name][0]
    for n, m in ((0, 4), (3, 0), (1, 1)):
        if n * m == 0 and name in UNDEFINED_OF_NOTHING:
            continue
        sizes = {"n": n, "m": m}
        run = [(stated, tuple(sizes[size] for size in stated)) for stated, _ in operands]
        check_gradients(module_of(call, *run), *values_of(name, run))


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_adjoints(name):
    call, *operands = CASES[name][0]
    check_gradients(module_of(call, *operands), *values_of(name, operands), compiled=True)


def test_the_page_of_gradients_is_up_to_date():
    assert gradients_page.page() == gradients_page.PAGE.read_text(encoding="utf-8"), "run tools/gradients_page.py"


def test_every_operator_with_a_derivative_has_a_case():
    differentiable = {name for name in gradients_page.operators() if gradients_page.status(name) == "derivative"}
    assert differentiable == set(CASES)


def test_the_gradient_is_well_formed_and_twice_changes_nothing():
    mod = module_of(*CASES["nn.pad"][0])
    once = relax.transform.Gradient("main")(mod)
    relax.analysis.assert_well_formed(once)
    assert relax.transform.Gradient("main")(once) is once


def test_empty_dimensions_have_empty_gradients():
    for name in ("nn.pad", "strided_slice", "cumprod", "prod"):
        call, *operands = CASES[name][-1]
        mod = relax.transform.Gradient("main")(module_of(call, *operands))
        _, (gradient,) = relax.interpret(mod, "main_adjoint", np.zeros((0, 4)))
        assert gradient.numpy().shape == (0, 4), name
