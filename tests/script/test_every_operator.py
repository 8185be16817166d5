"""Every operator: its sample calls (tests/op) print, and parse to the same program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "op"))

from op_harness import all_cases, variant

from relax import prim
from relax.derive.normalize import normalize_function
from relax.expr import Function, Var
from relax.ir import DiagnosticError, assert_structural_equal, walk
from relax.rewrite.visitor import post_order_visit
from relax.script import from_source
from relax.struct_info import PrimStructInfo

# One case for each way to call an operator; the dtypes of the operands make no difference here.
CASES = {(case.op, str(case.attrs), str([type(v) for v in case.operands])): case for case in all_cases()}


@pytest.mark.parametrize("case", CASES.values(), ids=map(str, CASES.values()))
def test_a_call(case):
    call = variant(case, True).call
    variables = {}
    post_order_visit(call, lambda e, found=variables: found.update({e: None}) if isinstance(e, Var) else None)
    sizes = list(dict.fromkeys(v for e in variables for v in prim_variables(e.struct_info)))
    params = [*variables, *(Var(f"s_{v.name}", PrimStructInfo(value=v)) for v in sizes)]
    try:
        func = normalize_function(Function(params, call, None, True, {"global_symbol": "main"}))
    except DiagnosticError:
        return  # a call that is wrong
    text = func.script(show_meta=True)
    assert_structural_equal(from_source(text, check_well_formed=False), func)
    assert "R.Call(" not in text


def prim_variables(info):
    found = []
    walk(info, lambda node: found.append(node) if isinstance(node, prim.Var) else None)
    return found
