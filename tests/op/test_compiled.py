"""Operators as machine code: the kernels of sample calls, over symbolic sizes, against the reference.

A few cases of each operator, and (slow) one of them arranged; all of them with RELAX_TEST_ALL_KERNELS=1 (minutes, the first time).
"""

from __future__ import annotations

import os

import pytest
from op_harness import all_cases, assert_close, kernel, reference, variant

from relax.codegen import build_module, resolve
from relax.ir import IRModule, Op
from relax.schedules import ApplyDefaultSchedule, cpu
from relax.target import Target

COUNT = None if os.environ.get("RELAX_TEST_ALL_KERNELS") else 3

BY_OPERATOR: dict[str, list] = {}
for case in all_cases():
    if Op.get(case.op).get_attr("operator_class").compute is not None:
        BY_OPERATOR.setdefault(case.op, []).append(case)


def chosen(cases: list) -> list:
    """Cases spread over the table."""
    return cases if COUNT is None else cases[:: max(1, -(-len(cases) // COUNT))]


@pytest.mark.parametrize("name", BY_OPERATOR)
def test_compiled(name):
    """Loops as they are written, not optimised: LLVM takes most of the time."""
    check_kernels(chosen(BY_OPERATOR[name]), "llvm -opt-level=0", ())


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_OPERATOR)
def test_arranged(name):
    """One case, arranged and optimised as users' programs are."""
    check_kernels(chosen(BY_OPERATOR[name])[-1:], "llvm", cpu.RULES)


def check_kernels(cases, target, rules):
    kernels = [(case, kernel(variant(case, symbolic=True))) for case in cases]
    arrange = ApplyDefaultSchedule(*rules, target=resolve(Target(target)))
    mod = arrange(IRModule({f"kernel{i}": made.func for i, (_, made) in enumerate(kernels)}))
    module = build_module(mod, target)
    for i, (case, made) in enumerate(kernels):
        check_compiled(case, made, module[f"kernel{i}"])


def check_compiled(case, made, run):
    if case.raises:
        with pytest.raises(case.raises[0], match=case.raises[1]):
            run(*made.arguments)
        return
    run(*made.arguments)
    expected = reference(case, variant(case, False).operator)
    for found, wanted in zip(made.outputs, expected, strict=True):
        assert_close(found, wanted, case.tolerance, case.tails)
