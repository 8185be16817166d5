"""Preconditions of PrimFuncs: text, meaning, rewrites that carry them along, and the checks they are lowered to."""

from __future__ import annotations

import numpy as np
import pytest

from relax import codegen, te, tir, topi
from relax.ir import DiagnosticError, IRModule, assert_structural_equal, load_json, save_json, structural_equal
from relax.script import from_source
from relax.tir import interpret
from relax.tir.renew import renew_bound_vars
from relax.tir.transform import LowerPreconditions, Simplify, lower
from relax.tir.well_formed import well_formed_problems

FUNC = """
@T.prim_func
def main(a: T.handle, b: T.handle, limit: T.int64):
    T.func_attr({"tir.noalias": True})
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (m,))
    T.precondition(n == m, "the sizes differ: n and m")
    T.precondition(n < limit, "too long")
    for i in range(n):
        with T.block("copy"):
            v = T.axis.spatial(n, i)
            B[v] = A[v]
"""


@pytest.fixture
def func(parse):
    return parse(FUNC)


def messages(func):
    return [p.message for p in func.preconditions]


def arrays(n, m):
    return np.arange(n, dtype="float32"), np.zeros(m, "float32")


def test_text_and_json(func, parse):
    assert messages(func) == ["the sizes differ: n and m", "too long"]
    assert (
        'T.precondition(n == m, "the sizes differ: n and m")\n    T.precondition(n < limit, "too long")\n'
        in func.script()
    )
    assert_structural_equal(from_source(func.script()), func)
    assert_structural_equal(load_json(save_json(func)), func)


def test_they_are_part_of_the_value(func, parse):
    assert structural_equal(func, parse(FUNC))
    assert not structural_equal(func, parse(FUNC.replace("n < limit", "n <= limit")))
    assert not structural_equal(func, parse(FUNC.replace("too long", "long")))
    assert not structural_equal(func, func.replace(preconditions=func.preconditions[:1]))


def asserted(func):
    return LowerPreconditions()(IRModule({"main": func}))["main"]


@pytest.mark.parametrize("form", [lambda func: func, asserted, lower, renew_bound_vars])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_the_interpreter_checks_them(func, form, n):
    func = form(func)
    a, b = arrays(n, n)
    interpret(func, a, b, 10)
    np.testing.assert_array_equal(a, b)
    with pytest.raises(AssertionError, match=rf"^the sizes differ: n and m \(n = {n}, m = 7\)$"):
        interpret(func, a, np.zeros(7, "float32"), 10)
    with pytest.raises(AssertionError, match=rf"^too long \(n = {n}, limit = 0\)$"):
        interpret(func, a, b, 0)


def test_compiled_code_checks_them_in_order(func):
    built = codegen.build_module(func)["main"]
    a, b = arrays(3, 3)
    built(a, b, 10)
    np.testing.assert_array_equal(a, b)
    with pytest.raises(AssertionError, match=r"main: the sizes differ: n and m \(n = 3, m = 7\)"):
        built(a, np.zeros(7, "float32"), 0)
    with pytest.raises(AssertionError, match=r"main: too long \(n = 3, limit = 3\)"):
        built(a, b, 3)


def test_lowered_to_assertions(func):
    lowered = asserted(func)
    text = lowered.script()
    assert "precondition" not in text
    assert text.index("T.Assert(n == m") < text.index("T.Assert(n < limit") < text.index("for i")
    mod = IRModule({"main": lowered})
    assert LowerPreconditions()(mod) is mod
    once = lower(func)
    assert lower(once) is once
    assert tir.verify_well_formed(lowered)


def test_a_rewrite_of_the_body_carries_them_along(func):
    after = Simplify()(IRModule({"main": func.replace(body=tir.SeqStmt((func.body, tir.Evaluate(0))))}))["main"]
    assert after.preconditions is func.preconditions


def test_specialisation_and_renewal_reach_the_conditions(func):
    a = func.params[0]
    n = func.buffer_map[a].shape[0]
    special = func.specialize({n: 4, func.params[2]: 9})
    assert 'T.precondition(4 == m, "the sizes differ: n and m")' in special.script().replace("T.int64(4)", "4")
    assert tir.verify_well_formed(special)
    interpret(special, *arrays(4, 4))
    with pytest.raises(AssertionError, match="the sizes differ"):
        interpret(special, *arrays(4, 5))
    renewed = renew_bound_vars(func)
    assert_structural_equal(renewed, func)
    assert renewed.preconditions[0].condition.a is renewed.buffer_map[renewed.params[0]].shape[0]
    assert renewed.preconditions[0].condition.a is not n


def test_well_formed_conditions(func):
    stray = tir.Var("stray", "int64")
    bad = func.replace(preconditions=(tir.Precondition(stray == 1, "x"), tir.Precondition(stray + 1, "y")))
    assert [d.code for d in well_formed_problems(bad)] == ["E5101", "E5104"]
    assert "a precondition has dtype int64, expected bool" in str(DiagnosticError(well_formed_problems(bad)))
    assert [var.name for var in tir.undefined_vars(bad)] == ["stray"]


def test_free_variables_of_conditions_become_parameters():
    n, limit = te.var("n", "int64"), te.var("limit", "int64")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i], "B")
    b.op.attrs["requires"] = ((n < limit, "too long"),)
    func = te.create_prim_func([a, b])
    assert messages(func) == ["too long"]
    assert func.params[1] is limit


def test_of_an_operator(parse):
    n, m = te.var("n", "int64"), te.var("m", "int64")
    a, b = te.placeholder((n,), name="A"), te.placeholder((m,), name="B")
    total = topi.add(a, b)
    total.op.attrs["requires"] = ((tir.any(n == m, n == 1, m == 1), "the shapes cannot be broadcast: n and m"),)
    func = te.create_prim_func([a, b, total])
    assert messages(func) == ["the shapes cannot be broadcast: n and m"]
    assert not [s for s in statements(func) if isinstance(s, tir.AssertStmt)]


def statements(func):
    found = []
    tir.post_order_visit(func.body, found.append)
    return found


ERRORS = {
    "below a statement": ("    for i in range(n):\n", "    B[0] = A[0]\n    T.precondition(n > 0, '')\n    for i in range(n):\n"),
    "in a loop": ("            B[v] = A[v]\n", "            B[v] = A[v]\n        T.precondition(n > 0, '')\n"),
}  # fmt: skip


@pytest.mark.parametrize("old, new", ERRORS.values(), ids=ERRORS)
def test_a_precondition_stands_at_the_top(parse, old, new):
    with pytest.raises(DiagnosticError) as caught:
        parse(FUNC.replace(old, new))
    (found,) = caught.value.diagnostics
    assert "a precondition stands before all statements of the function" in found.message
    assert found.hint == "write it at the top of the function, below T.match_buffer and T.func_attr"


def test_a_precondition_is_a_condition(parse):
    with pytest.raises(DiagnosticError, match="the precondition has dtype int64, expected bool"):
        parse(FUNC.replace("n == m,", "n + m,"))


def test_code_generation_takes_lowered_ones_only(func):
    with pytest.raises(DiagnosticError) as caught:
        codegen.compile_module({"f": func.replace(body=tir.SeqStmt(()))})
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("E5904", "a precondition must be lowered to an assertion first")
    assert found.span.line == 9
    assert found.hint == "lower the module first: relax.tir.lower(mod)"
