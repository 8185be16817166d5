"""Every operator on its sample calls: inference, formula and reference agree (see op_harness)."""

from __future__ import annotations

import pytest
from op_harness import all_cases, check_function, check_inference, check_kernel

from relax.ir import Op

CASES = list(all_cases())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    check_inference(case)
    check_function(case)
    if Op.get(case.op).get_attr("operator_class").compute is not None:
        check_kernel(case, symbolic=False)
        check_kernel(case, symbolic=True)


def test_every_operator_has_a_case():
    covered = {case.op for case in CASES}
    computed = {
        name
        for name in Op.list_op_names()
        if (cls := Op.get(name).get_attr("operator_class")) is not None
        and (cls.compute is not None or (cls.packed is not None and cls.reference is not None))
        and ".testing." not in name
        and ".docs." not in name
    }
    assert sorted(computed - covered) == []
