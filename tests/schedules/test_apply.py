"""ApplyDefaultSchedule: every PrimFunc as the first rule that is for it arranges it."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import te
from relax.ir import DiagnosticError, IRModule
from relax.schedules import IS_SCHEDULED, ApplyDefaultSchedule, ScheduleRule
from relax.script import relax as R
from relax.tir import Schedule


def scaled():
    x = te.placeholder((8, 16), name="X")
    return te.create_prim_func([x, te.compute((8, 16), lambda i, j: x[i, j] * 2.0, "Y")])


class Unrolled(ScheduleRule):
    """Unrolls the inner loop of what is called Y."""

    def apply(self, func, target, tunable):
        sch = Schedule(func)
        try:
            loops = sch.get_loops(sch.get_block("Y"))
        except relax.DiagnosticError:
            return None
        sch.unroll(loops[-1])
        return sch


class Never(ScheduleRule):
    def apply(self, func, target, tunable):
        return None


class Wrong(ScheduleRule):
    def apply(self, func, target, tunable):
        return 42


def test_a_rule_may_return_a_schedule(target):
    before = IRModule({"main": scaled()})
    after = ApplyDefaultSchedule(Never(), Unrolled(), target=target)(before)
    assert "T.unroll(T.int64(16))" in after.script()
    assert after["main"].attrs[IS_SCHEDULED]
    assert ApplyDefaultSchedule(Unrolled(), target=target)(after) is after


def test_what_no_rule_is_for_stays(target):
    before = IRModule({"main": scaled()})
    assert ApplyDefaultSchedule(Never(), target=target)(before) is before


def test_every_function_is_told_as_soon_as_no_rule_is_left(target):
    """Also one that no rule is for, or that was scheduled already."""
    told = {}
    apply = ApplyDefaultSchedule(Unrolled(), target=target, scheduled=told.__setitem__)
    once = ApplyDefaultSchedule(Unrolled(), target=target)(IRModule({"main": scaled()}))["main"]
    x = te.placeholder((8,), name="X")
    other = te.create_prim_func([x, te.compute((8,), lambda i: x[i], "Z")])
    after = apply(IRModule({"a": scaled(), "b": once, "c": other}))
    assert list(told) == ["a", "b", "c"]
    assert all(told[name] is after[name] for name in told)
    assert told["a"].attrs[IS_SCHEDULED]
    assert told["b"] is once
    assert told["c"] is other


def test_the_target_may_be_the_current_one(target):
    with target:
        after = ApplyDefaultSchedule(Unrolled())(IRModule({"main": scaled()}))
    assert after["main"].attrs[IS_SCHEDULED]
    with pytest.raises(ValueError, match="no target is set here"):
        ApplyDefaultSchedule(Unrolled())(after)


def test_a_rule_that_returns_something_else(target):
    with pytest.raises(
        DiagnosticError, match=r"E4008.*Wrong must return a PrimFunc, a Schedule, a Refusal or None, found int"
    ):
        ApplyDefaultSchedule(Wrong(), target=target)(IRModule({"main": scaled()}))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (42, "expected instances of ScheduleRule, found int"),
        (Unrolled, r"Unrolled is a class of rules; pass an instance, Unrolled\(\)"),
        ([Unrolled()], "expected instances of ScheduleRule, found list"),
    ],
)
def test_what_is_no_rule(target, rule, message):
    with pytest.raises(TypeError, match=message):
        ApplyDefaultSchedule(rule, target=target)


def test_the_default_build_arranges_products():
    @R.function
    def main(x: R.Tensor(("m", 96), "float32"), w: R.Tensor((96, 80), "float32")):
        y = R.matmul(x, w)
        return R.nn.relu(y)

    vm = relax.VirtualMachine(relax.build(main), relax.cpu())
    generator = np.random.default_rng(0)
    for m in (0, 1, 7, 20):
        x = generator.integers(-3, 4, (m, 96)).astype("float32")
        w = generator.integers(-3, 4, (96, 80)).astype("float32")
        result = vm["main"](relax.nd.array(x), relax.nd.array(w)).numpy()
        np.testing.assert_array_equal(result, np.maximum(x @ w, 0))
