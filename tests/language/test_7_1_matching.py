"""Section 7.1: matching a value against struct info: match_cast, function entry, function exit."""

from __future__ import annotations

import numpy as np
import pytest
from programs import floats, ones, packed

import relax


@packed("language.match.give")
def _give(value):
    return value


def entry(annotation, result="R.Object"):
    """A function that takes anything its parameter's annotation lets in."""
    return f"@R.function\ndef main(p: {annotation}) -> {result}:\n    n, m = T.int64(), T.int64()\n    return p\n"


def cast(annotation):
    """A function that casts what it is given."""
    return f"""
@R.function
def main(p: R.Object) -> R.Object:
    n, m, k = T.int64(), T.int64(), T.int64()
    v = R.match_cast(p, {annotation})
    return v
"""


SHAPE = relax.ShapeTuple

FITS = {
    "Object": ("R.Object", [1, "a", None, (1, 2)]),
    "Tensor": ("R.Tensor", [ones(), ones(2, 3), np.zeros(0, "int8")]),
    "ndim": ("R.Tensor(ndim=2)", [ones(0, 1)]),
    "dtype": ('R.Tensor("int8")', [np.zeros((2, 2), "int8")]),
    "dimensions": ('R.Tensor((2, 3), "float32")', [ones(2, 3)]),
    "Shape": ("R.Shape", [SHAPE([]), SHAPE([1, 2])]),
    "Shape of rank": ("R.Shape(ndim=1)", [SHAPE([7])]),
    "Shape values": ("R.Shape([2, 3])", [SHAPE([2, 3])]),
    "Prim": ('R.Prim("int64")', [0, -5]),
    "Prim value": ('R.Prim("int64", 5)', [5]),
    "Prim float": ('R.Prim("float32")', [0.5]),
    "Prim bool": ('R.Prim("bool")', [True, False]),
    "Tuple": ("R.Tuple(R.Object, R.Tuple())", [(1, ())]),
    "packed": ("R.Callable()", [lambda x: x]),
}


@pytest.mark.parametrize("form", [entry, cast], ids=["entry", "match_cast"])
@pytest.mark.parametrize("annotation, values", FITS.values(), ids=FITS)
def test_what_fits(run, form, annotation, values):
    """Object: anything; Tensor: rank, dtype, dimensions; Shape, Prim, Tuple, Func likewise: what fits is let through."""
    for value in values:
        result = run(form(annotation), "main", value)
        if isinstance(value, np.ndarray):
            assert result.numpy().tolist() == value.tolist()
        elif not callable(value):
            assert result == value


MISFITS = {
    "Tensor": ("R.Tensor", 1, TypeError, "expected a tensor, found the int 1"),
    "ndim": ("R.Tensor(ndim=2)", ones(2), ValueError, r"expected rank 2, found rank 1 (shape (2,))"),
    "dtype": ('R.Tensor("int8")', ones(2), TypeError, "expected dtype int8, found float32"),
    "dimension": ('R.Tensor((2, 3), "float32")', ones(2, 4), ValueError, "dimension 1 is 4, expected 3"),
    "Shape": ("R.Shape", ones(1), TypeError, "expected a shape, found a tensor"),
    "Shape of rank": ("R.Shape(ndim=1)", SHAPE([1, 2]), ValueError, "expected a shape of 1 dimensions, found 2 (shape (1, 2))"),
    "Shape value": ("R.Shape([2, 3])", SHAPE([2, 4]), ValueError, "dimension 1 is 4, expected 3"),
    "Prim dtype": ('R.Prim("int64")', 0.5, TypeError, "expected an int64 value, found the float 0.5"),
    "Prim value": ('R.Prim("int64", 5)', 6, ValueError, "the value is 6, expected 5"),
    "Tuple": ("R.Tuple(R.Object)", 5, TypeError, "expected a tuple of 1, found the int 5"),
    "Tuple length": ("R.Tuple(R.Object)", (1, 2), ValueError, "expected a tuple of 1, found a tuple of 2"),
    "field": ("R.Tuple(R.Object, R.Tuple(R.Shape))", (1, (2,)), TypeError, "[1][0]: expected a shape, found the int 2"),
    "closure": ("R.Callable((R.Object,), R.Object, True)", lambda x: x, TypeError, "expected a Relax function, found a packed function"),
    "packed": ("R.Callable()", 5, TypeError, "expected a packed function, found the int 5"),
}  # fmt: skip


@pytest.mark.parametrize("form, context", [(entry, "main: parameter p"), (cast, "main: match_cast of p")])
@pytest.mark.parametrize("annotation, value, error, message", MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit(run, form, context, annotation, value, error, message):
    """A failed match raises an error that names the function, the parameter or binding, the part, what was expected
    and what came."""
    with pytest.raises(error) as caught:
        run(form(annotation), "main", value)
    text = str(caught.value).splitlines()[0]
    assert text.startswith(context)
    assert text.endswith(message)


def test_a_shape_variable_is_bound_then_compared(run):
    """An unbound variable standing alone is bound; anything else is evaluated and compared, with its variables' values."""
    program = """
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n * m",), "float32"), z: R.Tensor(("n",), "float32")):
        n, m = T.int64(), T.int64()
        return R.shape([n, m])
    """
    for n, m in ((0, 5), (1, 1), (2, 3)):
        assert run(program, "main", ones(n, m), ones(n * m), ones(n)) == (n, m)
    bound = "n = 2 was bound by x, dimension 0; m = 3 was bound by x, dimension 1"
    with pytest.raises(ValueError, match="main: parameter") as caught:
        run(program, "main", ones(2, 3), ones(5), ones(2))
    assert str(caught.value) == f"main: parameter y: dimension 0 is 5, expected n * m = 6 ({bound})"
    with pytest.raises(ValueError, match="main: parameter") as caught:
        run(program, "main", ones(2, 3), ones(6), ones(3))
    assert str(caught.value) == "main: parameter z: dimension 0 is 3, expected n = 2 (n was bound by x, dimension 0)"


def test_a_match_cast_binds_and_compares(run):
    """MatchCast: new variables are bound, those in scope are compared."""
    program = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor("float32", ndim=2)):
        n, k = T.int64(), T.int64()
        z = R.match_cast(y, R.Tensor((n, k), "float32"))
        return R.shape([k])
    """
    assert run(program, "main", ones(2), ones(2, 5)) == (5,)
    with pytest.raises(ValueError, match="main: match_cast of y: dimension 0 is 3, expected n = 2"):
        run(program, "main", ones(2), ones(3, 5))


def test_binding_positions_first_then_left_to_right(run):
    """At entry all binding positions of all parameters are matched first, then every parameter is checked left to
    right."""
    program = """
    @R.function
    def main(a: R.Tensor(("n + 1",), "float32"), b: R.Tensor(("n",), "float32"), c: R.Tensor((4,), "float32")):
        n = T.int64()
        return R.shape([n])
    """
    assert run(program, "main", ones(3), ones(2), ones(4)) == (2,)
    # a and c are wrong: a is told, although n is bound by b, which stands after it.
    with pytest.raises(ValueError, match=r"parameter a: dimension 0 is 5, expected n \+ 1 = 3"):
        run(program, "main", ones(5), ones(2), ones(5))
    # b cannot bind: that comes before a's check.
    with pytest.raises(ValueError, match="parameter b: expected rank 1"):
        run(program, "main", ones(5), ones(2, 2), ones(5))


def test_kinds_ranks_and_dtypes_come_before_dimensions(run):
    """Tensor: is a tensor; ndim; dtype; then dimension by dimension."""
    program = entry('R.Tensor((2, 3), "float32")')
    with pytest.raises(ValueError, match="expected rank 2"):
        run(program, "main", np.zeros(4, "int8"))
    with pytest.raises(TypeError, match="expected dtype float32"):
        run(program, "main", np.zeros((4, 4), "int8"))
    with pytest.raises(ValueError, match="dimension 0 is 4, expected 2"):
        run(program, "main", ones(4, 4))


def test_the_result_is_matched_at_exit(run):
    """At exit the result is checked against the return annotation."""
    program = """
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), y: R.Object) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        z = R.call_packed("language.match.give", y)
        return z
    """
    assert run(program, "main", ones(2), ones(2)).shape == (2,)
    with pytest.raises(ValueError, match="main: result: dimension 0 is 3, expected n = 2"):
        run(program, "main", ones(2), ones(3))
    with pytest.raises(TypeError, match="main: result: expected a tensor, found the string 'a'"):
        run(program, "main", ones(2), "a")


def test_closures_match_at_entry_and_exit(run):
    """Entering a closure matches its parameters, leaving it its result, captured sizes included."""
    program = """
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32")) -> R.Object:
        n = T.int64()

        @R.function(pure=False)
        def f(y: R.Tensor((n,), "float32"), z: R.Object) -> R.Tensor((n,), "float32"):
            w = R.call_packed("language.match.give", z)
            return w

        return f
    """
    f = run(program, "main", ones(2))
    assert f(ones(2), ones(2)).shape == (2,)
    with pytest.raises(ValueError, match="f: parameter y: dimension 0 is 3, expected n = 2"):
        f(ones(3), ones(2))
    with pytest.raises(ValueError, match="f: result: dimension 0 is 3, expected n = 2"):
        f(ones(2), ones(3))


def test_inner_calls_are_matched_too(run):
    """Entering a closure or a global function matches its annotations, whoever calls it."""
    program = """
    @I.ir_module
    class M:
        @R.function(private=True)
        def inner(p: R.Tensor((2,), "float32")) -> R.Object:
            return p

        @R.function
        def main(x: R.Object) -> R.Object:
            y = M.inner(x)
            return y
    """
    assert run(program, "main", floats(1, 2)).numpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match="inner: parameter p: dimension 0 is 1, expected 2"):
        run(program, "main", floats(1))


def test_the_number_of_arguments(run):
    """A call from outside with too few or too many arguments is an error that lists the parameters."""
    program = "@R.function\ndef main(x: R.Object, y: R.Object):\n    return x\n"
    with pytest.raises(TypeError, match=r"main: expected 2 arguments \(x, y\), found 1"):
        run(program, "main", 1)


CLOSURES = """
@I.ir_module
class M:
    @R.function
    def make(s: R.Shape(["n"])) -> R.Object:
        n = T.int64()

        @R.function(pure={pure})
        def f(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            return y

        return f

    @R.function
    def main(s: R.Shape(["n"])) -> R.Object:
        f = M.make(s)
        g = R.match_cast(f, {annotation})
        return g
"""

FUNCTIONS = [
    (True, "R.Callable((R.Tensor((2,), 'float32'),), R.Tensor((2,), 'float32'), True)", ""),
    (True, "R.Callable((R.Tensor((2,), 'float32'),), R.Tensor, True)", ""),
    (True, "R.Callable((R.Tensor((2,), 'float32'),), R.Object, False)", ""),
    (True, "R.Callable((R.Tensor((3,), 'float32'),), R.Object, True)", "parameter 0"),
    (True, "R.Callable((R.Tensor((2,), 'float32'),), R.Tensor((3,), 'float32'), True)", "result"),
    (True, "R.Callable((R.Object, R.Object), R.Object, True)", "it takes 1 argument, expected 2 arguments"),
    (False, "R.Callable((R.Tensor((2,), 'float32'),), R.Object, True)", "pure"),
]


@pytest.mark.parametrize("pure, annotation, problem", FUNCTIONS)
def test_functions_by_what_they_carry(run, pure, annotation, problem):
    """★ Func: params given → a closure, whose run-time info is compared too."""
    program = CLOSURES.format(pure=pure, annotation=annotation)
    if not problem:
        assert run(program, "main", (2,))(floats(1, 2)).numpy().tolist() == [1, 2]
        return
    with pytest.raises(TypeError, match=f"main: match_cast of f: the function .* does not fit: .*{problem}"):
        run(program, "main", (2,))


def test_a_derivation_means_a_packed_function(run):
    """Func: derive_func given → a packed function; a closure does not do."""
    program = CLOSURES.format(pure=True, annotation="R.Callable()")
    with pytest.raises((TypeError, relax.DiagnosticError), match="packed function|can never succeed"):
        run(program, "main", (2,))
