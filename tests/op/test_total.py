"""Operators that say they never fail: their kernels assert nothing, divide by nothing that may be zero, and read no
place that memory says. The kernels are those of every operator's own cases.

A division by sizes is harmless: it finds the place of an element, and where there is one no size is 0.
"""

from __future__ import annotations

import pytest
from op_harness import all_cases, kernel, variant

import relax
from relax.analysis.totality import never_fails
from relax.ir import Op, walk
from relax.prim import Call as PrimCall
from relax.prim import Div, FloorDiv, FloorMod, IntImm, Mod, Var, free_vars
from relax.prim.intrin import is_pure
from relax.tir import AssertStmt, BufferLoad, PrimFunc, While


def loads(expr):
    found = []
    walk(expr, lambda item: found.append(item) if isinstance(item, BufferLoad) else None)
    return found


def dangers(func: PrimFunc):
    """What in a kernel may fail."""
    found = []
    shapes = [size for buffer in func.buffer_map.values() for size in buffer.shape]
    sizes = {size for size in shapes if isinstance(size, Var)}
    empty = any(isinstance(size, IntImm) and not size.value for size in shapes)

    def visit(item):
        match item:
            case AssertStmt() | While():
                found.append(item)
            case PrimCall() if not is_pure(item):
                found.append(item)
            case FloorDiv(a, b) | FloorMod(a, b) | Div(a, b) | Mod(a, b) if a.dtype.is_integer:
                known = (
                    b.value or empty if isinstance(b, IntImm) else not loads(b) and set(free_vars(b)) <= sizes
                )
                if not known:
                    found.append(item)
            case BufferLoad() if any(map(loads, item.indices)):
                found.append(item)
            case _:
                pass

    walk(func.body, visit)
    return found


def derived(call):
    """The call in a program, where all is derived."""
    builder = relax.BlockBuilder()
    builder.begin_binding_block()
    return builder.normalize(call)


def cases(total):
    chosen = [case for case in all_cases() if Op.get(case.op).get_attr("operator_class").total is total]
    return [case for case in chosen if Op.get(case.op).get_attr("operator_class").compute is not None]


TOTAL = cases(True)


@pytest.mark.parametrize("op", sorted({case.op for case in TOTAL}))
def test_total(op):
    harmless = 0
    for case in TOTAL:
        for symbolic in (False, True) if case.op == op else ():
            made = variant(case, symbolic)
            # Where sizes are not known to fit, the kernel asserts that they do: the call is not said to be harmless.
            if never_fails(derived(made.call)):
                assert not dangers(kernel(case, symbolic).func), case
                assert not case.raises, case
                harmless += 1
    assert harmless


def test_others_are_in_danger():
    """That dangers are seen where they are."""
    known, dangerous = set(), {"relax.take", "relax.floor_divide", "relax.floor_mod", "relax.mod"}
    for case in cases(False):
        if case.op in dangerous - known and dangers(kernel(case, symbolic=True).func):
            assert not never_fails(derived(variant(case, True).call))
            known.add(case.op)
    assert known == dangerous
