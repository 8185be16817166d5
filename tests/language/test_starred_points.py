"""The points language.md stars: what the documents leave to the future is part of this language.

Each test states one point end to end, from text to a run or an error, and fails without it.
"""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError, RelaxWarning
from relax.ir.transform import PassContext
from relax.script import from_source


def machine(text):
    return relax.VirtualMachine(relax.build(from_source(textwrap.dedent(text)), "llvm"))


def errors(text):
    with pytest.raises(DiagnosticError) as caught:
        relax.build(from_source(textwrap.dedent(text)), "llvm")
    return [(d.code, d.message) for d in caught.value.diagnostics]


def ones(*shape):
    return np.ones(shape, "float32")


# ---------------------------------------------------------------------- 1: linkage, rules 12 and 13

LINKAGE = """
@I.ir_module
class M:
    @R.function(private={private})
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = M.inner(x)
        return y

    @R.function(private=True)
    def inner(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.add(x, x)
        return y
"""


def test_only_functions_with_a_global_symbol_are_callable_from_outside():
    vm = machine(LINKAGE.format(private=False))
    assert vm["main"](ones(2)).numpy().tolist() == [2, 2]
    with pytest.raises(Exception, match="inner"):
        vm["inner"]


def test_a_module_has_an_entry_point():
    assert errors(LINKAGE.format(private=True)) == [("E2012", "rule 12: the module has no entry point")]


def test_the_global_symbol_is_the_name():
    found = errors("""
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Object):
            R.func_attr({"global_symbol": "other"})
            return x
    """)
    assert found == [("E2013", "rule 13: the function main has the global_symbol 'other'")]


# ---------------------------------------------------------------------- 3: shadowing, shape variables in closures


SHADOWS = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")) -> R.Tuple(
        R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32")
    ):
        n = T.int64()

        @R.function
        def inner(x: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            x = R.add(x, x)
            x = R.add(x, x)
            return x

        r = inner(x)
        if c:
            x = R.add(x, R.const(10, "float32"))
            b = R.add(x, x)
        else:
            b = x
        return (x, r, b)
"""


def test_rebinding_a_name_shadows_it_until_the_scope_ends():
    vm = machine(SHADOWS)
    for chosen, branch in ((True, 22), (False, 1)):
        x, inner, b = (t.numpy().tolist() for t in vm["main"](ones(1), np.array(chosen)))
        assert (x, inner, b) == ([1], [4], [branch])


def test_closures_capture_shape_variables():
    vm = machine("""
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("m", "n"), "float32"):
            n = T.int64()
            m = T.int64()

            @R.function
            def zeros() -> R.Tensor((m, n), "float32"):
                z = R.zeros((m, n), "float32")
                return z

            y = zeros()
            return y
    """)
    for shape in ((0, 1), (1, 0), (2, 3)):
        assert vm["main"](ones(*shape)).shape == shape[::-1]


# ---------------------------------------------------------------------- 5: rules 4 and 8


def test_a_return_annotation_uses_variables_of_the_parameters():
    found = errors("""
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(("m",), "float32"):
            m = T.int64()
            y = R.match_cast(x, R.Tensor((m,), "float32"))
            return y
    """)
    assert found == [("E2004", "rule 4: the return annotation uses m, which no parameter binds")]


def test_recursive_functions_have_a_return_annotation():
    text = """
    @I.ir_module
    class M:
        @R.function
        def even(x: R.Tensor((), "int64")){}:
            if R.equal(x, R.const(0, "int64")):
                r = R.const(1, "int64")
            else:
                r = M.odd(R.subtract(x, R.const(1, "int64")))
            return r

        @R.function
        def odd(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            if R.equal(x, R.const(0, "int64")):
                r = R.const(0, "int64")
            else:
                r = M.even(R.subtract(x, R.const(1, "int64")))
            return r
    """
    ((code, message),) = errors(text.format(""))
    assert code == "E2008"
    assert "even" in message
    vm = machine(text.format(' -> R.Tensor((), "int64")'))
    assert [int(vm["even"](np.array(k)).numpy()) for k in range(4)] == [1, 0, 1, 0]


# ---------------------------------------------------------------------- 6: possibly compatible is checked at run time

POSSIBLY = {
    "at a call": (
        """
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            return y

        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor((3,), "float32"):
            y = M.f(x)
            return y
    """,
        "W3001",
    ),
    "at a binding annotation": (
        """
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor((3,), "float32"):
            y: R.Tensor((3,), "float32") = x
            return y
    """,
        "W3006",
    ),
    "at a return": (
        """
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor((3,), "float32"):
            return x
    """,
        "W3007",
    ),
}


@pytest.mark.parametrize("text, code", POSSIBLY.values(), ids=POSSIBLY)
def test_what_may_not_fit_is_warned_of_and_checked(text, code):
    with pytest.warns(RelaxWarning, match=code) as caught:
        vm = machine(text)
    assert any("match_cast" in str(w.message) for w in caught)
    assert vm["main"](ones(3)).shape == (3,)
    with pytest.raises(ValueError, match="dimension 0 is 2, expected 3"):
        vm["main"](ones(2))


@pytest.mark.parametrize("text, code", POSSIBLY.values(), ids=POSSIBLY)
def test_under_the_strict_option_it_is_an_error(text, code):
    with PassContext(config={"relax.strict": True}):
        ((found, _),) = errors(text)
    assert found == code.replace("W", "E")


# ---------------------------------------------------------------------- 2, 7.1: closures carry run-time information

CLOSURES = """
@I.ir_module
class M:
    @R.function
    def make(x: R.Tensor((2,), "float32")) -> R.Object:
        @R.function
        def f(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            z = R.add(x, y)
            return z

        return f

    @R.function
    def good(f: R.Object, x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        g = R.match_cast(f, R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32"), True))
        y = g(x)
        return y

    @R.function
    def bad_result(f: R.Object) -> R.Object:
        g = R.match_cast(f, R.Callable((R.Tensor((2,), "float32"),), R.Tensor((3,), "float32"), True))
        return g

    @R.function
    def bad_parameter(f: R.Object) -> R.Object:
        g = R.match_cast(f, R.Callable((R.Tensor((2,), "int32"),), R.Tensor((2,), "float32"), True))
        return g
"""


def test_the_information_closures_carry_is_compared():
    vm = machine(CLOSURES)
    f = vm["make"](ones(2))
    assert vm["good"](f, ones(2)).numpy().tolist() == [2, 2]
    with pytest.raises(TypeError, match="bad_result.*result"):
        vm["bad_result"](f)
    with pytest.raises(TypeError, match="bad_parameter.*parameter"):
        vm["bad_parameter"](f)


def test_the_purity_a_closure_carries_is_compared():
    vm = machine("""
    @I.ir_module
    class M:
        @R.function
        def make() -> R.Object:
            @R.function(pure=False)
            def f(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                _ = R.print(y, format="{}")
                return y

            return f

        @R.function
        def main(f: R.Object) -> R.Object:
            g = R.match_cast(f, R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32"), True))
            return g
    """)
    with pytest.raises(TypeError, match="pure"):
        vm["main"](vm["make"]())


# ---------------------------------------------------------------------- 7.3: a result of call_tir that does not fit


def test_a_result_of_call_tir_that_does_not_fit_is_an_error():
    """At compile time where it is proved, else when the kernel is called: it never writes beyond what was allocated."""
    text = """
    @I.ir_module
    class M:
        @T.prim_func
        def twice(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n * 2,), "float32")
            for i in range(n * 2):
                B[i] = A[i // 2]

        @R.function
        def main(x: R.Tensor(("n",), "float32"), s: R.Shape(["m"])) -> R.Tensor(("m",), "float32"):
            n = T.int64()
            m = T.int64()
            y = R.call_tir(M.twice, (x,), out_sinfo=R.Tensor((m,), "float32"))
            return y
    """
    vm = machine(text)
    assert vm["main"](ones(2), relax.ShapeTuple([4])).shape == (4,)
    with pytest.raises(ValueError, match="expected n \\* 2 = 4|expected 2 \\* n = 4"):
        vm["main"](ones(2), relax.ShapeTuple([3]))
