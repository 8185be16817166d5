"""Search for one kernel: what is faster beyond the noise is chosen, and nothing that is wrong."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tuned_kernels import LONG, PATIENT, TARGET, doubled

from relax.schedules import Refusal, ScheduleRule
from relax.schedules.space import Space
from relax.script import tir as T
from relax.tir.stmt import PrimFunc
from relax.tune.kernels import Kernel
from relax.tune.search import SearchOptions, search


@T.prim_func
def many_times(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32"), C: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    for k in range(1000):
        for i in range(1000):
            B[i] = A[i] * C[(i + k) % 1000]
    for i in range(1000):
        B[i] = A[i] * T.float32(2)


@dataclass(frozen=True)
class Rounds:
    """How often the results are computed before they are stored, and by what they are multiplied."""

    rounds: int = 200
    factor: float = 2.0
    raises: bool = False


def computed(rounds, factor):
    """The results, behind `rounds` of work that leaves nothing."""

    @T.prim_func
    def func(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
        T.func_attr({"tir.noalias": True})
        for k in range(rounds):
            for i in range(1000):
                B[(i * 7 + k) % 1000] = A[i] * T.float32(3)
        for i in range(1000):
            B[i] = A[i] * T.float32(factor)

    return func


class Repeated(ScheduleRule):
    """A rule whose default is the worst point of its space; some points are wrong, or raise an error."""

    parameters = Rounds()

    def space(self, target):
        return Space(Rounds, {"rounds": (200, 20, 0), "factor": (2.0, 1.5), "raises": (False, True)})

    def apply(self, func, target, tunable):
        if len(func.params) != 2:
            return Refusal("it has other parameters")
        if self.parameters.raises:
            raise ValueError("these parameters do not fit")
        return computed(self.parameters.rounds, self.parameters.factor)


@pytest.fixture(scope="module")
def outcome():
    options = SearchOptions(seconds=LONG, conditions=PATIENT)
    return search(Kernel("doubled", doubled), TARGET, [Repeated()], options=options)


def test_a_bad_default_is_repaired(outcome):
    assert outcome.chosen is not None
    assert outcome.chosen.choice.attribute == {"rule": "Repeated", "parameters": {"rounds": 0}}
    assert outcome.measurement.exceeds(outcome.floor)


def test_all_measurements_are_kept(outcome):
    assert outcome.default.choice is None
    seconds = [step.seconds for step in outcome.steps]
    assert seconds == sorted(seconds)
    assert outcome.steps[-1].candidate == str(outcome.chosen)
    assert outcome.steps[-1].gain == outcome.steps[-1].best == outcome.measurement.gain
    assert {step.candidate for step in outcome.steps if step.gain is None} == {
        name for name, reason in outcome.failures.items() if reason.startswith("wrong result")
    }


def test_wrong_candidates_are_dropped(outcome):
    assert outcome.failures["Repeated(factor=1.5)"].startswith("wrong result: at [0] it computes ")


def test_errors_of_a_rule_are_dropped(outcome):
    assert outcome.failures["Repeated(raises=True)"] == "ValueError: these parameters do not fit"


def test_the_default_stays_if_nothing_is_faster():
    class Best(Repeated):
        parameters = Rounds(0)

        def space(self, target):
            return Space(Rounds, {"rounds": (0, 50, 100)})

    outcome = search(
        Kernel("doubled", doubled), TARGET, [Best()], options=SearchOptions(seconds=LONG, conditions=PATIENT)
    )
    assert outcome.chosen is None
    assert outcome.tried == 2


def test_a_rule_that_is_not_for_the_kernel():
    outcome = search(Kernel("many_times", many_times), TARGET, [Repeated()], options=SearchOptions(seconds=LONG))
    assert isinstance(outcome.kernel.func, PrimFunc)
    assert (outcome.tried, outcome.chosen, outcome.failures) == (0, None, {})
