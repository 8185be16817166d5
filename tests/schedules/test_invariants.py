"""Values that a loop in vectors does not change are computed before it."""

from __future__ import annotations

import numpy as np
import pytest

from relax import te, tir, topi
from relax.codegen import build_module, resolve
from relax.prim import intrin
from relax.schedules import schedule
from relax.schedules.cpu import Nests


def before_and_in_the_last_loop(func, target):
    """The text before the last loop in vectors, and that of the loop."""
    script = schedule(func, target, [Nests()]).script()
    before, _, loop = script.rpartition("T.vectorized(")
    return before, loop


def test_a_normalisation_takes_one_root_a_row(target):
    x, w = te.placeholder((64, 96), "float32", "X"), te.placeholder((96,), "float32", "W")
    before, loop = before_and_in_the_last_loop(te.create_prim_func([x, w, topi.nn.rms_norm(x, w, [-1])]), target)
    assert "T.sqrt" in before
    assert "T.sqrt" not in loop


@pytest.mark.parametrize("axis", [0, 1])
def test_a_logarithm_a_row(target, axis):
    x = te.placeholder((64, 96), "float32", "X")
    func = te.create_prim_func([x, topi.nn.log_softmax(x, axis)])
    before, loop = before_and_in_the_last_loop(func, target)
    assert "T.log1p" in before
    assert "T.log1p" not in loop


@pytest.mark.parametrize("length", [0, 1, 17, 96])
def test_scales_of_a_channel(target, length):
    """Also where a line has no elements: what is computed before it cannot fail."""
    n, size = te.var("n", "int64"), te.var("k", "int64")
    x, v = te.placeholder((n, size), "float32", "X"), te.placeholder((n,), "float32", "V")
    scaled = te.compute((n, size), lambda i, j: x[i, j] / intrin.sqrt(v[i] + 0.5), "Y")
    func = te.create_prim_func([x, v, scaled])
    before, loop = before_and_in_the_last_loop(func, target)
    assert "T.sqrt" in before
    assert "T.sqrt" not in loop
    given = np.random.default_rng(0).random((40, length), "float32"), np.arange(40, dtype="float32")
    expected = given[0] / np.sqrt(given[1] + np.float32(0.5))[:, None]
    compiled = build_module(schedule(func, resolve("llvm"), [Nests()]))["main"]
    for run in (compiled, lambda *args: tir.interpret(schedule(func, target, [Nests()]), *args)):
        result = np.full((40, length), 77, "float32")
        run(*given, result)
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_what_may_fail_stays_inside_of_a_loop_that_may_not_run(target):
    """An index that is read from memory may be out of range: an error, but only for a line that has elements."""
    n, size = te.var("n", "int64"), te.var("k", "int64")
    x = te.placeholder((n, size), "float32", "X")
    at, v = te.placeholder((n,), "int64", "I"), te.placeholder((100,), "float32", "V")
    func = te.create_prim_func([x, at, v, te.compute((n, size), lambda i, j: x[i, j] + v[at[i]], "Y")])
    compiled = build_module(schedule(func, resolve("llvm"), [Nests()]))["main"]
    far = np.full(3000, 100)
    compiled(np.zeros((3000, 0), "float32"), far, np.zeros(100, "float32"), np.zeros((3000, 0), "float32"))
    with pytest.raises(IndexError):
        compiled(np.zeros((3000, 1), "float32"), far, np.zeros(100, "float32"), np.zeros((3000, 1), "float32"))


def test_names_that_are_bound_inside_stay_there(target):
    x, s = te.placeholder((64, 96), "float32", "X"), te.placeholder((64,), "float32", "S")
    softened = te.compute((64, 96), lambda i, j: topi_gelu(x[i, j]) * intrin.exp(s[i]), "Y")
    before, loop = before_and_in_the_last_loop(te.create_prim_func([x, s, softened]), target)
    assert "T.exp(" in before
    assert "T.erf(" in loop


def topi_gelu(x):
    return x * (intrin.erf(x * 0.7071067811865476) + 1.0) * 0.5
