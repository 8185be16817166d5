"""Section 5: the 22 rules. For each a program that breaks it, what is said, and the way out, which runs.

Depth (other ways to break a rule, lines and columns) is in tests/analysis: test_well_formed.py, test_broken_programs.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from programs import floats, module, ones, truth

import relax
from relax.analysis import check_well_formed
from relax.script import from_source


@dataclass
class Rule:
    """One broken program, the code and message it gets, the program repaired, and what that computes."""

    broken: str
    code: str
    message: str
    repaired: str
    args: tuple[Any, ...]
    value: Any


RULES = {
    1: Rule(
        """
        @R.function
        def main(x: R.Tensor((1,), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.add(a, a)
                R.output(b)
            return R.add(a, x)
        """,
        *("E1002", "`a` is not defined"),
        """
        @R.function
        def main(x: R.Tensor((1,), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.add(a, a)
                R.output(a, b)
            return R.add(a, x)
        """,
        (floats(1),),
        [3],
    ),
    2: Rule(
        """
        @R.function
        def main(x: R.Tensor((1,), "float32")):
            return R.add(x, z)
        """,
        *("E1002", "`z` is not defined"),
        """
        @R.function
        def main(x: R.Tensor((1,), "float32"), z: R.Tensor((1,), "float32")):
            return R.add(x, z)
        """,
        (floats(1), floats(2)),
        [3],
    ),
    3: Rule(
        """
        @R.function
        def main(x: R.Tensor((1,), "float32")):
            y = R.add(x, z)
            z = R.add(x, x)
            return y
        """,
        *("E1002", "`z` is not defined"),
        """
        @R.function
        def main(x: R.Tensor((1,), "float32")):
            z = R.add(x, x)
            y = R.add(x, z)
            return y
        """,
        (floats(1),),
        [3],
    ),
    4: Rule(
        """
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(("m",), "float32"):
            m = T.int64()
            y = R.match_cast(x, R.Tensor((m,), "float32"))
            return y
        """,
        *("E2004", "rule 4: the return annotation uses m, which no parameter binds"),
        """
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(ndim=1, dtype="float32"):
            m = T.int64()
            y = R.match_cast(x, R.Tensor((m,), "float32"))
            return y
        """,
        (floats(1, 2),),
        [1, 2],
    ),
    5: Rule(
        """
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            m = T.int64()
            s = R.shape([m])
            y = R.match_cast(x, R.Tensor((m,), "float32"))
            return s
        """,
        *("E2005", "rule 5: the shape variable m is used before it is bound"),
        """
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            m = T.int64()
            y = R.match_cast(x, R.Tensor((m,), "float32"))
            s = R.shape([m])
            return s
        """,
        (ones(3),),
        (3,),
    ),
    6: Rule(
        """
        @R.function
        def main(x: R.Tensor(("m * n",), "float32"), y: R.Tensor(("m",), "float32")):
            return y
        """,
        *("E2006", "rule 6: the signature uses n, but in no parameter does n stand alone in a dimension"),
        """
        @R.function
        def main(x: R.Tensor(("m * n",), "float32"), y: R.Tensor(("m", "n"), "float32")):
            return x
        """,
        (ones(6), ones(3, 2)),
        [1] * 6,
    ),
    7: Rule(
        """
        @R.function
        def main(x: R.Tensor((1,), "float32"), c: R.Tensor((), "bool")):
            with R.dataflow():
                if c:
                    y = x
                else:
                    y = R.add(x, x)
                R.output(y)
            return y
        """,
        *("E1010", "a dataflow block has no control flow"),
        """
        @R.function
        def main(x: R.Tensor((1,), "float32"), c: R.Tensor((), "bool")):
            if c:
                y = x
            else:
                with R.dataflow():
                    z = R.add(x, x)
                    R.output(z)
                y = z
            return y
        """,
        (floats(1), truth(False)),
        [2],
    ),
    8: Rule(
        """
        @R.function
        def main(x: R.Tensor((), "int64")):
            @R.function
            def down(y: R.Tensor((), "int64")):
                if R.less_equal(y, R.const(0, "int64")):
                    r = y
                else:
                    r = down(R.subtract(y, R.const(1, "int64")))
                return r
            return down(x)
        """,
        *("E2008", "rule 8: the recursive function down has no return annotation"),
        """
        @R.function
        def main(x: R.Tensor((), "int64")):
            @R.function
            def down(y: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
                if R.less_equal(y, R.const(0, "int64")):
                    r = y
                else:
                    r = down(R.subtract(y, R.const(1, "int64")))
                return r
            return down(x)
        """,
        (np.array(3),),
        0,
    ),
    9: Rule(
        """
        @R.function
        def main(x: R.Tensor((1,), "float32")):
            f = R.exp
            return f
        """,
        *("E1005", "exp is used as a value; rule 9: an operator is only called"),
        """
        @R.function
        def main(x: R.Tensor((1,), "float32")):
            @R.function
            def f(y: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
                return R.negative(y)
            return f(x)
        """,
        (floats(1),),
        [-1],
    ),
    10: Rule(
        """
        @R.function
        def main(x: R.Tensor((2, 1), "float32", ndim=3)):
            return x
        """,
        *("E2010", "rule 10: ndim is 3, and the shape has 2 dimensions"),
        """
        @R.function
        def main(x: R.Tensor((2, 1), "float32", ndim=2)):
            return x
        """,
        (ones(2, 1),),
        [[1], [1]],
    ),
    11: Rule(
        """
        @R.function
        def main(x: R.Tensor((1,), "float32")):
            with R.dataflow():
                a = R.add(x, x)

                @R.function
                def f(y: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
                    return R.add(a, y)

                b = f(x)
                R.output(b)
            return b
        """,
        *("E2011", "rule 11: a function captures the dataflow variable a"),
        """
        @R.function
        def main(x: R.Tensor((1,), "float32")):
            a = R.add(x, x)
            with R.dataflow():
                @R.function
                def f(y: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
                    return R.add(a, y)

                b = f(x)
                R.output(b)
            return b
        """,
        (floats(1),),
        [3],
    ),
    12: Rule(
        """
        @I.ir_module
        class M:
            @R.function(private=True)
            def main(x: R.Object):
                return x
        """,
        *("E2012", "rule 12: the module has no entry point"),
        """
        @I.ir_module
        class M:
            @R.function
            def main(x: R.Object):
                return x
        """,
        (1,),
        1,
    ),
    13: Rule(
        """
        @I.ir_module
        class M:
            @R.function
            def main(x: R.Object):
                R.func_attr({"global_symbol": "other"})
                return x
        """,
        *("E2013", "rule 13: the function main has the global_symbol 'other'"),
        """
        @I.ir_module
        class M:
            @R.function
            def main(x: R.Object):
                R.func_attr({"global_symbol": "main"})
                return x
        """,
        (1,),
        1,
    ),
    14: Rule(
        """
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            m = T.int64()
            y: R.Tensor((m,), "float32") = x
            return y
        """,
        *("E2014", "rule 14: a tensor annotation uses the shape variable m, which is not bound here"),
        """
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            m = T.int64()
            y = R.match_cast(x, R.Tensor((m,), "float32"))
            return y
        """,
        (floats(1, 2),),
        [1, 2],
    ),
    15: Rule(
        """
        @R.function
        def main(x: R.Shape(ndim=1)):
            m = T.int64()
            y: R.Shape([m]) = x
            return y
        """,
        *("E2015", "rule 15: a shape annotation uses the shape variable m, which is not bound here"),
        """
        @R.function
        def main(x: R.Shape(ndim=1)):
            m = T.int64()
            y = R.match_cast(x, R.Shape([m]))
            return y
        """,
        ((4,),),
        (4,),
    ),
    16: Rule(
        """
        @R.function
        def main(x: R.Prim("int64")):
            m = T.int64()
            y: R.Prim(value=m) = x
            return y
        """,
        *("E2016", "rule 16: a prim annotation uses the shape variable m, which is not bound here"),
        """
        @R.function
        def main(x: R.Prim("int64")):
            m = T.int64()
            y = R.match_cast(x, R.Prim(value=m))
            return R.prim_value(m + 1)
        """,
        (4,),
        5,
    ),
    17: Rule(
        """
        @R.function
        def main(f: R.Callable((R.Object,), R.Object, derive_func="relax.default_derivation")) -> R.Prim("int64"):
            return R.prim_value(1)
        """,
        *("E2017", "rule 17: a function's struct info has either params or derive_func, found both"),
        """
        @R.function
        def main(f: R.Callable(derive_func="relax.default_derivation")) -> R.Prim("int64"):
            return R.prim_value(1)
        """,
        (lambda x: x,),
        1,
    ),
    18: Rule(
        """
        @R.function
        def main():
            y = R.prim_value(T.Broadcast(T.int64(0), 4))
            return y
        """,
        *("E2018", "rule 18: a prim value has dtype int64x4, expected an integer, float or bool scalar"),
        """
        @R.function
        def main():
            y = R.prim_value(T.int64(0))
            return y
        """,
        (),
        0,
    ),
    19: Rule(
        """
        @R.function
        def main(x: R.Prim("handle")):
            return x
        """,
        *("E2019", "rule 19: a prim annotation has dtype handle, expected an int, uint or float type"),
        """
        @R.function
        def main(x: R.Object):
            return x
        """,
        ("anything",),
        "anything",
    ),
    20: Rule(
        """
        @R.function
        def main(x: R.Tensor((1,), "float32x4")):
            return x
        """,
        *("E2020", "rule 20: the dtype float32x4 has 4 lanes; in Relax a dtype has one"),
        """
        @R.function
        def main(x: R.Tensor((1, 4), "float32")):
            return x
        """,
        (ones(1, 4),),
        [[1, 1, 1, 1]],
    ),
    21: Rule(
        """
        @R.function(pure=False)
        def main(x: R.Object):
            R.func_attr({"relax.force_pure": True})
            R.print(x, format="{}")
            return x
        """,
        "E2021",
        "rule 21: a function with relax.force_pure must be pure, and is declared with pure=False",
        """
        @R.function
        def main(x: R.Object):
            R.func_attr({"relax.force_pure": True})
            R.print(x, format="{}")
            return x
        """,
        (1,),
        1,
    ),
    22: Rule(
        """
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            y: R.Prim("int32", n) = R.prim_value(n)
            return y
        """,
        *("E2022", "rule 22: a prim annotation has dtype int32, and its value n is int64"),
        """
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            y: R.Prim("int32", T.Cast("int32", n)) = R.prim_value(T.Cast("int32", n))
            return y
        """,
        (ones(3),),
        3,
    ),
}


def plain(value):
    return value.numpy().tolist() if isinstance(value, relax.NDArray) else value


@pytest.mark.parametrize("number", RULES)
def test_the_broken_program_is_refused(number):
    """Each rule: a program that breaks it is refused, with the rule's number, the place and a hint."""
    rule = RULES[number]
    with pytest.raises(relax.DiagnosticError) as caught:
        module(rule.broken)
    first = caught.value.diagnostics[0]
    assert (first.code, first.message) == (rule.code, rule.message)
    assert first.span is not None
    assert f"rule {number}" in first.render()


@pytest.mark.parametrize("number", RULES)
def test_the_repaired_program_runs(run, number):
    """Each rule: the program, repaired as the hint says, runs."""
    rule = RULES[number]
    assert plain(run(rule.repaired, "main", *rule.args)) == rule.value


# ----------------------------------------------------------------------------------- how rules are checked


def test_every_violation_is_reported():
    """Every violation is reported, not only the first, each with rule number, source span and hint."""
    text = """
    @R.function
    def main(x: R.Tensor((4, 5), "float32", ndim=3), y: R.Prim("handle")) -> R.Tensor(("m",), "float32"):
        k = T.int64()
        s = R.shape([k])
        return x
    """
    with pytest.raises(relax.DiagnosticError) as caught:
        from_source(text)
    found = caught.value.diagnostics
    assert sorted(d.code for d in found) == ["E2004", "E2005", "E2010", "E2019"]
    for diagnostic in found:
        assert diagnostic.span is not None
        assert diagnostic.span.line in (3, 5)
        assert diagnostic.message.startswith(f"rule {int(diagnostic.code[3:])}: ")
    assert all(d.hint for d in found)


def test_rules_are_checked_before_derivation():
    """Rules are checked before struct info is derived: a program that breaks both says the rule only."""
    text = """
    @R.function
    def main(x: R.Tensor((4, 5), "float32", ndim=3)):
        y = R.matmul(x, R.const([1.0, 2.0]))
        return y
    """
    with pytest.raises(relax.DiagnosticError) as caught:
        from_source(text)
    assert [d.code for d in caught.value.diagnostics] == ["E2010"]


def test_rules_hold_for_any_program():
    """Rules hold for any program, in normal form or not."""
    x, y = (relax.Var(name, relax.TensorStructInfo((1,), "float32")) for name in "xy")
    nested = relax.op.exp(relax.op.add(x, relax.op.exp(y)))
    main = relax.Function([x], nested, attrs={"global_symbol": "main"})
    found = check_well_formed(relax.IRModule({"main": main}))
    assert [(d.code, d.message) for d in found] == [("E2002", "rule 2: the variable y is used but never bound")]


MUTUAL = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((), "int64")){}:
        {}
        return r

    @R.function
    def other(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        if R.less_equal(x, R.const(0, "int64")):
            r = x
        else:
            r = M.main(R.subtract(x, R.const(1, "int64")))
        return r
"""
PLAIN, DATAFLOW = "r = M.other(x)", "with R.dataflow():\n            r = M.other(x)\n            R.output(r)"


def test_mutual_recursion_is_held_to_the_rules_too(run):
    """★ Rule 8: a mutually recursive function has a return annotation; rule 7: no call of one in a dataflow block."""
    with pytest.raises(relax.DiagnosticError, match="E2008"):
        module(MUTUAL.format("", PLAIN))
    with pytest.raises(relax.DiagnosticError, match="E2007.*mutually recursive calls, found one of other"):
        module(MUTUAL.format(' -> R.Tensor((), "int64")', DATAFLOW))
    repaired = MUTUAL.format(' -> R.Tensor((), "int64")', PLAIN)
    assert run(repaired, "main", np.array(5)).numpy() == 0


@pytest.mark.parametrize("order", [("y", "x"), ("x", "y")])
def test_binding_positions_are_matched_first(run, order):
    """Rule 6: `x: (m*n,)` before `y: (m, n)` is fine: binding positions are matched first, in any order."""
    params = {"x": 'x: R.Tensor(("m * n",), "float32")', "y": 'y: R.Tensor(("m", "n"), "float32")'}
    text = f"""
@R.function
def main({", ".join(params[name] for name in order)}) -> R.Shape(["n", "m"]):
    m, n = T.int64(), T.int64()
    return R.shape([n, m])
"""
    args = {"x": ones(6), "y": ones(2, 3)}
    assert run(text, "main", *(args[name] for name in order)) == (3, 2)
    args["x"] = ones(5)
    with pytest.raises(ValueError, match=r"main: parameter x: dimension 0 is 5, expected m \* n = 6"):
        run(text, "main", *(args[name] for name in order))


def test_an_outer_scope_binds_for_a_return_annotation(run):
    """★ Rule 4: a return annotation may use shape variables of an outer scope."""
    text = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()

        @R.function
        def zeros() -> R.Tensor((n,), "float32"):
            return R.zeros((n,), "float32")

        return zeros()
    """
    for size in (0, 1, 3):
        assert run(text, "main", ones(size)).numpy().tolist() == [0] * size
