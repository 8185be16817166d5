"""LambdaLift: local functions become global, what they capture becomes parameters."""

from __future__ import annotations

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import LambdaLift


def literals(mod):
    found = []

    def visit(item):
        if isinstance(item, relax.VarBinding) and isinstance(item.value, relax.Function):
            found.append(item.var.name_hint)

    for func in mod.functions.values():
        relax.ir.walk(func, visit)
    return found


def test_nothing_captured(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            @R.function
            def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                return R.exp(y)

            z = inner(x)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            z: R.Tensor((4,), "float32") = Expected.main_inner(x)
            return z

        @R.function(private=True)
        def main_inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.exp(y)

    check(LambdaLift(), Before, Expected)


def test_captured_tensors(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            @R.function
            def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                a = R.add(w, y)
                return R.add(a, x)

            z = inner(x)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            inner = R.make_closure(Expected.main_inner, (w, x))
            z = R.invoke_pure_closure(inner, (x,), sinfo_args=R.Tensor((4,), "float32"))
            return z

        @R.function(private=True)
        def main_inner(
            y: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32"), x: R.Tensor((4,), "float32")
        ) -> R.Tensor((4,), "float32"):
            a = R.add(w, y)
            return R.add(a, x)

    check(LambdaLift(), Before, Expected)


def test_captured_shape_variables_are_told_by_captured_tensors(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n * m",), "float32"):
            n = T.int64()
            m = T.int64()

            @R.function
            def inner(y: R.Tensor((n, m), "float32")) -> R.Tensor((n * m,), "float32"):
                a = R.add(x, y)
                return R.reshape(a, R.shape([n * m]))

            z = inner(x)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n * m",), "float32"):
            n = T.int64()
            m = T.int64()
            inner = R.make_closure(Expected.main_inner, (x,))
            z = R.invoke_pure_closure(inner, (x,), sinfo_args=R.Tensor((n * m,), "float32"))
            return z

        @R.function(private=True)
        def main_inner(y: R.Tensor(("n", "m"), "float32"), x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(
            ("n * m",), "float32"
        ):
            n = T.int64()
            m = T.int64()
            a = R.add(x, y)
            return R.reshape(a, R.shape([n * m]))

    after = LambdaLift()(Before)
    assert literals(after) == []
    assert [p.name_hint for p in after["main_inner"].params] == ["y", "x"]
    assert LambdaLift()(after) is after
    # The lifted function binds shape variables of its own.
    outer = relax.analysis.defined_symbolic_vars(after["main"])
    inner = relax.analysis.defined_symbolic_vars(after["main_inner"])
    assert {v.name for v in outer} == {v.name for v in inner} == {"n", "m"}
    assert not set(outer) & set(inner)
    relax.analysis.assert_well_formed(after)


def test_captured_shape_variables_alone(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n", 2), "float32"):
            n = T.int64()

            @R.function
            def inner() -> R.Tensor((n, 2), "float32"):
                return R.zeros((n, 2), "float32")

            z = inner()
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n", 2), "float32"):
            n = T.int64()
            inner = R.make_closure(Expected.main_inner, (R.shape([n]),))
            z = R.invoke_pure_closure(inner, R.tuple(), sinfo_args=R.Tensor((n, 2), "float32"))
            return z

        @R.function(private=True)
        def main_inner(captured_shape: R.Shape(["n"])) -> R.Tensor(("n", 2), "float32"):
            n = T.int64()
            return R.zeros((n, 2), "float32")

    check(LambdaLift(), Before, Expected)


def test_captured_scalars_are_no_sizes(check):
    """They may be negative, or floats: each is passed for itself."""

    @I.ir_module
    class Before:
        @R.function
        def main(s: R.Shape(["n"]), a: R.Prim(value="i"), b: R.Prim("float32", value="q")) -> R.Object:
            n, i, q = T.int64(), T.int64(), T.float32()

            @R.function
            def inner() -> R.Object:
                return (R.prim_value(T.max(i, 0) + n), R.prim_value(q * q))

            z = inner()
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(s: R.Shape(["n"]), a: R.Prim(value="i"), b: R.Prim("float32", value="q")) -> R.Object:
            n, i, q = T.int64(), T.int64(), T.float32()
            inner = R.make_closure(Expected.main_inner, (R.shape([n]), R.prim_value(i), R.prim_value(q)))
            z = R.invoke_pure_closure(inner, R.tuple(), sinfo_args=R.Object)
            return z

        @R.function(private=True)
        def main_inner(
            captured_shape: R.Shape(["n"]), captured_i: R.Prim(value="i"), captured_q: R.Prim("float32", value="q")
        ) -> R.Object:
            n, i, q = T.int64(), T.int64(), T.float32()
            return (R.prim_value(T.max(i, 0) + n), R.prim_value(q * q))

    check(LambdaLift(), Before, Expected)


def test_recursion_without_captures(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            @R.function
            def loop(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
                done = R.less(i, R.const(1, "int32"))
                if done:
                    r = i
                else:
                    j = R.subtract(i, R.const(1, "int32"))
                    r = loop(j)
                return r

            return loop(x)

    after = check(LambdaLift(), Before, LambdaLift()(Before))
    assert literals(after) == []
    assert "cls.main_loop(j)" in after.script()
    assert "closure" not in after.script()


def test_recursion_with_captures(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((), "int32"), step: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            @R.function
            def loop(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
                done = R.less(i, R.const(1, "int32"))
                if done:
                    r = i
                else:
                    j = R.subtract(i, step)
                    r = loop(j)
                return r

            return loop(x)

    after = check(LambdaLift(), Before, LambdaLift()(Before))
    text = after.script()
    assert "R.make_closure(cls.main_loop, (step,))" in text
    assert "cls.main_loop(j, step)" in text


def test_a_recursive_function_used_as_a_value_inside_itself(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Callable((R.Tensor((4,), "float32"),), R.Object, True):
            @R.function
            def again(y: R.Tensor((4,), "float32")) -> R.Object:
                a = R.add(x, y)
                t = (a, again)
                return t

            return again

    after = check(LambdaLift(), Before, LambdaLift()(Before))
    text = after.script()
    assert text.count("R.make_closure(cls.main_again, (x,))") == 2


def test_closures_returned_and_passed(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Before
            f = cls.adder(x)
            y = cls.apply(f, x)
            return y

        @R.function(private=True)
        def adder(x: R.Tensor((4,), "float32")) -> R.Callable(
            (R.Tensor((4,), "float32"),), R.Tensor((4,), "float32"), True
        ):
            @R.function
            def add(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                return R.add(x, y)

            return add

        @R.function(private=True)
        def apply(
            f: R.Callable((R.Tensor((4,), "float32"),), R.Tensor((4,), "float32"), True), x: R.Tensor((4,), "float32")
        ) -> R.Tensor((4,), "float32"):
            return f(x)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Expected
            f = cls.adder(x)
            y = cls.apply(f, x)
            return y

        @R.function(private=True)
        def adder(x: R.Tensor((4,), "float32")) -> R.Callable(
            (R.Tensor((4,), "float32"),), R.Tensor((4,), "float32"), True
        ):
            add = R.make_closure(Expected.adder_add, (x,))
            return add

        @R.function(private=True)
        def apply(
            f: R.Callable((R.Tensor((4,), "float32"),), R.Tensor((4,), "float32"), True), x: R.Tensor((4,), "float32")
        ) -> R.Tensor((4,), "float32"):
            return R.invoke_pure_closure(f, (x,), sinfo_args=R.Tensor((4,), "float32"))

        @R.function(private=True)
        def adder_add(y: R.Tensor((4,), "float32"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.add(x, y)

    check(LambdaLift(), Before, Expected)


def test_functions_in_functions_in_branches_in_dataflow_blocks(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            with R.dataflow():

                @R.function
                def plain(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
                    return R.exp(y)

                gv = plain(x)
                R.output(gv)

            @R.function
            def outer(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
                b = R.add(gv, y)

                @R.function
                def inner(z: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
                    return R.add(b, z)

                return inner(y)

            if c:

                @R.function
                def local(z: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
                    return outer(z)

                r = local(x)
            else:
                r = outer(x)
            return r

    after = check(LambdaLift(), Before, LambdaLift()(Before))
    assert literals(after) == []
    assert [g.name_hint for g in after] == [
        "main", "main_plain", "main_outer", "main_outer_inner", "main_local"
    ]  # fmt: skip
    assert [p.name_hint for p in after["main_outer"].params] == ["y", "gv"]
    assert [p.name_hint for p in after["main_outer_inner"].params] == ["z", "b"]
    assert [p.name_hint for p in after["main_local"].params] == ["z", "outer", "captured_shape"]


def test_a_shape_held_by_a_variable_is_captured_with_its_tensor(check):
    @I.ir_module
    class Before:
        @R.function
        def main(s: R.Shape(ndim=2)) -> R.Object:
            x = R.call_pure_packed("test.f", s, sinfo_args=R.Tensor(s, "float32"))

            @R.function
            def inner() -> R.Tensor(ndim=2, dtype="float32"):
                return R.exp(x)

            return inner

    after = check(LambdaLift(), Before, LambdaLift()(Before))
    assert [p.name_hint for p in after["main_inner"].params] == ["s", "x"]


def test_impure_closures(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            @R.function(pure=False)
            def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                R.print(x)
                return y

            return inner(x)

    after = check(LambdaLift(), Before, LambdaLift()(Before))
    assert "R.invoke_closure(inner" in after.script()
    assert after["main_inner"].is_pure is False


def test_names_do_not_collide(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            @R.function
            def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                return R.exp(y)

            return inner(x)

        @R.function
        def main_inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return x

    after = LambdaLift()(Before)
    assert [g.name_hint for g in after] == ["main", "main_inner", "main_inner1"]


def test_modules_without_local_functions_are_left_alone(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                y = R.exp(x)
                R.output(y)
            return y

    check(LambdaLift(), Before)
