"""Section 7: evaluation: strict, left to right, by reference."""

from __future__ import annotations

import numpy as np
import pytest
from programs import floats, i64, ones, packed, truth

import relax

seen: list[object] = []


@pytest.fixture(autouse=True)
def nothing_seen():
    seen.clear()


@packed("language.eval.note")
def _note(name, value=None):
    """Records that it was called, and gives its value back."""
    seen.append(str(name))
    return value


@packed("language.eval.read")
def _read(tensor):
    seen.append(tensor.numpy().tolist())


@packed("language.eval.increment")
def _increment(tensor):
    tensor.copyfrom(tensor.numpy() + 1)


@packed("language.eval.fail")
def _fail(value):
    raise ValueError("this one fails")


def test_bindings_run_in_order(run):
    """SeqExpr: blocks in order, bindings in order; strict: what nobody uses is computed too."""
    program = """
    @R.function(pure=False)
    def main(x: R.Object) -> R.Object:
        R.call_packed("language.eval.note", R.str("a"), x)
        unused = R.call_packed("language.eval.note", R.str("b"), x)
        with R.dataflow():
            y = R.shape([1])
            R.output(y)
        R.call_packed("language.eval.note", R.str("c"), x)
        return x
    """
    assert run(program, "main", 1) == 1
    assert seen == ["a", "b", "c"]


def test_arguments_left_to_right(run):
    """Call: the callee, then the arguments left to right; then it is entered."""
    program = """
    @I.ir_module
    class M:
        @R.function(private=True, pure=False)
        def f(a: R.Object, b: R.Object) -> R.Object:
            R.call_packed("language.eval.note", R.str("f"), a)
            return b

        @R.function(pure=False)
        def main(x: R.Object) -> R.Object:
            y = M.f(
                R.call_packed("language.eval.note", R.str("first"), x),
                R.call_packed("language.eval.note", R.str("second"), x),
            )
            return y
    """
    assert run(program, "main", 1) == 1
    assert seen == ["first", "second", "f"]


@pytest.mark.parametrize("chosen, expected", [(True, ["cond", "yes", "end"]), (False, ["cond", "no", "end"])])
def test_exactly_one_branch(run, chosen, expected):
    """If: the condition, then exactly one branch."""
    program = """
    @R.function(pure=False)
    def main(c: R.Tensor((), "bool")) -> R.Object:
        d = R.call_packed("language.eval.note", R.str("cond"), c, sinfo_args=R.Tensor((), "bool"))
        if d:
            r = R.call_packed("language.eval.note", R.str("yes"), c)
        else:
            r = R.call_packed("language.eval.note", R.str("no"), c)
        R.call_packed("language.eval.note", R.str("end"), r)
        return R.str("done")
    """
    assert run(program, "main", truth(chosen)) == "done"
    assert seen == expected


def test_results_are_passed_by_reference(run):
    """Results are passed by reference: tuples, branches, calls and match_casts give aliases."""
    program = """
    @I.ir_module
    class M:
        @R.function(private=True)
        def same(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            return x

        @R.function(pure=False)
        def main(x: R.Tensor((1,), "float32"), c: R.Tensor((), "bool")):
            t = (x, x)
            a = t[0]
            b = M.same(x)
            d = R.match_cast(x, R.Tensor((1,), "float32"))
            if c:
                e = x
            else:
                e = b
            R.call_packed("language.eval.increment", e)
            return (a, b, d, e)
    """
    for chosen in (True, False):
        x = floats(1)
        results = run(program, "main", x, truth(chosen))
        assert x.tolist() == [2]
        assert [r.numpy().tolist() for r in results] == [[2]] * 4
        assert {r.data_ptr() for r in results} == {x.ctypes.data}


def test_fresh_results_are_no_aliases(run):
    """Results of operators are fresh tensors: changing one leaves its operands alone."""
    program = """
    @R.function(pure=False)
    def main(x: R.Tensor((1,), "float32")):
        y = R.add(x, R.const([0], "float32"))
        R.call_packed("language.eval.increment", y)
        return (x, y)
    """
    assert [t.numpy().tolist() for t in run(program, "main", floats(1))] == [[1], [2]]


def test_a_constant_is_fresh(run):
    """Constant: a fresh tensor, as far as anybody can tell."""
    program = """
    @R.function(pure=False)
    def main() -> R.Tensor((1,), "float32"):
        y = R.const([1], "float32")
        R.call_packed("language.eval.increment", y)
        return y
    """
    assert [run(program, "main").numpy().tolist() for _ in range(2)] == [[2], [2]]


def test_a_constant_in_a_function_is_fresh_at_every_call(run):
    """Constant: a fresh tensor each time it is evaluated."""
    program = """
    @I.ir_module
    class M:
        @R.function(private=True, pure=False)
        def one() -> R.Tensor((1,), "float32"):
            y = R.const([1], "float32")
            R.call_packed("language.eval.increment", y)
            return y

        @R.function(pure=False)
        def main():
            a = M.one()
            b = M.one()
            return (a, b)
    """
    assert [t.numpy().tolist() for t in run(program, "main")] == [[2], [2]]


def test_immutable_values(run):
    """Tuple, ShapeExpr, PrimValue, StringImm, DataTypeImm: immutable values."""
    program = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        return (R.shape([n, n]), R.prim_value(n + 1), R.str("s"), R.dtype("int8"), ())
    """
    assert run(program, "main", ones(2)) == ((2, 2), 3, "s", "int8", ())


def test_closures_see_what_surrounds_them(run):
    """Function literal: a closure over its free Relax and shape variables, by reference, nested ones too."""
    program = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
        n, m = T.int64(), T.int64()

        @R.function
        def outer(z: R.Tensor((m,), "float32")):
            @R.function
            def inner() -> R.Tensor((n + m,), "float32"):
                w = R.concat([x, R.add(y, z)])
                return w

            v = inner()
            return v

        r = outer(y)
        return r
    """
    assert run(program, "main", floats(1), floats(2, 3)).numpy().tolist() == [1, 4, 6]
    assert run(program, "main", ones(0), ones(1)).numpy().tolist() == [2]


def test_a_closure_outlives_the_call_that_made_it(run):
    """Function literal: each evaluation makes a closure of its own."""
    program = """
    @R.function
    def main(x: R.Tensor((1,), "float32")) -> R.Object:
        @R.function
        def plus(y: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            z = R.add(x, y)
            return z

        return plus
    """
    one, ten = run(program, "main", floats(1)), run(program, "main", floats(10))
    assert one(floats(5)).numpy().tolist() == [6]
    assert ten(floats(5)).numpy().tolist() == [15]


def test_recursion_through_a_closure(run):
    """Function literal: a local binding's own name is captured too."""
    program = """
    @R.function
    def main(n: R.Tensor((), "int64"), k: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        @R.function
        def times(i: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            if R.equal(i, R.const(0, "int64")):
                r = R.const(0, "int64")
            else:
                r = R.add(k, times(R.subtract(i, R.const(1, "int64"))))
            return r

        p = times(n)
        return p
    """
    assert [int(run(program, "main", i64(n), i64(7)).numpy()) for n in (0, 1, 3)] == [0, 7, 21]


def test_deep_recursion(run):
    """Call: functions may call each other far deeper than Python's stack is."""
    program = """
    @R.function
    def main(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        @R.function
        def count(i: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            if R.equal(i, R.const(0, "int64")):
                r = i
            else:
                r = R.add(R.const(1, "int64"), count(R.subtract(i, R.const(1, "int64"))))
            return r

        return count(n)
    """
    assert run(program, "main", i64(1500)).numpy() == 1500


def test_functions_are_called_as_values(run):
    """Call: the callee is an expression: a variable, a field of a tuple, what an if gives."""
    program = """
    @I.ir_module
    class M:
        @R.function(private=True)
        def double(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            return R.add(x, x)

        @R.function(private=True)
        def square(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            return R.multiply(x, x)

        @R.function
        def main(x: R.Tensor((), "int64"), c: R.Tensor((), "bool")):
            if c:
                f = M.double
            else:
                f = M.square
            t = (M.double, M.square)
            g = t[1]
            return (f(x), g(x))
    """
    for chosen, value in ((True, 10), (False, 25)):
        assert [int(t.numpy()) for t in run(program, "main", i64(5), truth(chosen))] == [value, 25]


def test_extern_functions_are_looked_up_in_the_module_first(run):
    """ExternFunc: looked up among the module's PrimFuncs with that global_symbol, then process-wide."""
    relax.register_func("language_eval_fill", lambda x, y: y.copyfrom(x.numpy() * 100), override=True)
    program = """
    @I.ir_module
    class M:
        {}
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = R.call_dps_packed("language_eval_fill", (x,), R.Tensor((2,), "float32"))
            return y
    """
    own = """@T.prim_func
        def language_eval_fill(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
            for i in range(2):
                B[i] = A[i] + T.float32(1)
    """
    assert run(program.format(""), "main", floats(1, 2)).numpy().tolist() == [100, 200]
    assert run(program.format(own), "main", floats(1, 2)).numpy().tolist() == [2, 3]


def test_a_missing_extern_function(run):
    """ExternFunc: missing is an error naming the symbol."""
    program = """
    @R.function(pure=False)
    def main(x: R.Object) -> R.Object:
        y = R.call_packed("language.eval.nowhere", x)
        return y
    """
    with pytest.raises(Exception, match="language.eval.nowhere"):
        run(program, "main", 1)


def test_errors_stop_evaluation(run):
    """An error ends evaluation: what came before has happened, what comes after has not."""
    program = """
    @R.function(pure=False)
    def main(x: R.Object) -> R.Object:
        R.call_packed("language.eval.note", R.str("before"))
        R.call_packed("language.eval.fail", x)
        R.call_packed("language.eval.note", R.str("after"))
        return x
    """
    with pytest.raises(ValueError, match="this one fails"):
        run(program, "main", 1)
    assert seen == ["before"]


def test_effects_and_reads_keep_their_order(run):
    """Effects and reads of what they change keep their order."""
    program = """
    @R.function(pure=False)
    def main(x: R.Tensor((1,), "float32")):
        a = R.add(x, x)
        R.call_packed("language.eval.increment", x)
        b = R.add(x, x)
        R.call_packed("language.eval.read", a)
        R.call_packed("language.eval.read", b)
        return (a, b)
    """
    a, b = run(program, "main", floats(1))
    assert (a.numpy().tolist(), b.numpy().tolist()) == ([2], [4])
    assert seen == [[2], [4]]


def test_dataflow_variables_die_with_their_block(run):
    """SeqExpr: DataflowVars die with their block; its outputs go on."""
    program = """
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            a = R.add(x, x)
            b = R.multiply(a, a)
            R.output(b)
        with R.dataflow():
            a = R.add(b, x)
            R.output(a)
        return a
    """
    assert run(program, "main", floats(1, 2)).numpy().tolist() == [5, 18]


def test_numbers_are_what_the_dtype_says(run):
    """Operators compute in the dtype of their operands: integers wrap around, floats have infinities and NaN."""
    program = """
    @R.function
    def main(i: R.Tensor(("n",), "int8"), f: R.Tensor(("m",), "float32"), big: R.Tensor((), "float32")):
        a = R.add(i, i)
        b = R.multiply(f, big)
        c = R.subtract(b, b)
        return (a, b, c)
    """
    a, b, c = run(program, "main", np.array([100, -128, 1], "int8"), floats(10, -10), np.array(3e38, "float32"))
    assert a.numpy().tolist() == [-56, 0, 2]
    assert b.numpy().tolist() == [np.inf, -np.inf]
    assert np.isnan(c.numpy()).all()
