"""A check that every test of a pass shares: text before, text after, and what both compute."""

from __future__ import annotations

import numpy as np
import pytest

from relax import tir
from relax.ir import IRModule, assert_structural_equal
from relax.prim import evaluate


def arguments(func, values):
    """Arguments for a function: arrays of small numbers, sizes and scalars by the names of their variables."""
    rng = np.random.default_rng(0)
    named = {}
    for buffer in func.buffer_map.values():
        for size in buffer.shape:
            if isinstance(size, tir.Var):
                named[size] = values[size.name]
    args = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            args.append(values[param.name])
            continue
        shape = [int(evaluate(size, named)) for size in buffer.shape]
        numbers = rng.integers(0, 8, shape)
        args.append(np.asarray(numbers).astype(buffer.dtype.element_of.numpy()))
    return args


def outcome(func, values, externs=None):
    """The arrays after a run, or the error, as something that can be compared."""
    args = arguments(func, values)
    try:
        tir.interpret(func, *args, externs=externs)
    except (ArithmeticError, AssertionError, LookupError, ValueError) as error:
        return [type(error).__name__, str(error), *(a.tolist() for a in args if isinstance(a, np.ndarray))]
    return [a.tolist() for a in args if isinstance(a, np.ndarray)]


@pytest.fixture
def outcome_of():
    """``outcome_of(func, values)``: the arrays after a run, or the error."""
    return outcome


@pytest.fixture
def check(parse):
    """``check(pass, before, after, runs...)``: the pass gives `after` (None: it changes nothing), which is well-formed.

    Run again, it changes nothing. Every run (a dict of sizes and scalars) gives the same arrays or the same error before
    and after. Returns the outcomes. Functions may be given as text or as PrimFunc.
    """

    def run(make, before, after, *runs, externs=None):
        before = parse(before) if isinstance(before, str) else before
        module = IRModule({"f": before})
        step = make()
        result = step(module)
        if after is None:
            assert result is module, result.script()
        else:
            after = parse(after) if isinstance(after, str) else after
            assert_structural_equal(result["f"], after.replace(attrs=result["f"].attrs))
        tir.verify_well_formed(result)
        again = step(result)
        assert again is result, again.script()
        outcomes = []
        for values in runs or ({},):
            expected = outcome(before, values, externs)
            assert repr(outcome(result["f"], values, externs)) == repr(expected)
            outcomes.append(expected)
        return outcomes

    return run
