"""Every operator on its sample calls: inference, formula and reference agree (see op_harness)."""

from __future__ import annotations

import pytest
from op_harness import Case, Seen, all_cases, check

from relax.ir import Op
from relax.op.facts import Exactness

CASES: dict[str, list[Case]] = {}
for one in all_cases():
    CASES.setdefault(one.op, []).append(one)


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    operator, seen = Op.get(name).get_attr("operator_class"), Seen()
    for case in CASES[name]:
        try:
            check(case, seen)
        except Exception as error:
            raise AssertionError(f"{case}: {error}") from error
    if operator.compute is not None:
        assert seen.exact or operator.exactness is Exactness.NEVER, "no case compares exact results"
        assert seen.harmless or not operator.total, "no case has a kernel that cannot fail"


def test_every_operator_has_a_case():
    computed = {
        name
        for name in Op.list_op_names()
        if (cls := Op.get(name).get_attr("operator_class")) is not None
        and (cls.compute is not None or (cls.packed is not None and cls.reference is not None))
        and cls.__module__.startswith("relax.op")  # others are of tests and documents
    }
    assert sorted(computed - CASES.keys()) == []
