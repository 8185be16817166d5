"""The interpreter: expressions, bindings, calls, and what errors say, by programs."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import relax
from relax.expr import Call, Function, GlobalVar, MatchCast, SeqExpr, Tuple, Var, VarBinding
from relax.interpreter import Interpreter
from relax.ir import DiagnosticError, IRModule
from relax.optimize.pipeline import DEFAULT
from relax.prim import SizeVar
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.struct_info import ObjectStructInfo, TensorStructInfo
from support import PLAIN_LOOPS


def vec(*values):
    return np.array(values, "float32")


# ---------------------------------------------------------------------------------------- from outside


@I.ir_module
class Entries:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), k: R.Prim("int64")) -> R.Tensor(("n",), "float32"):
        return x

    @R.function(private=True)
    def helper() -> R.Prim("int64"):
        return R.prim_value(1)

    @T.prim_func
    def kernel(A: T.Buffer((1,), "float32")):
        A[0] = T.float32(1)


@pytest.mark.parametrize(
    "name, message",
    [
        ("helper", "function 'helper' is private; the entry points are: main"),
        ("kernel", "function 'kernel' is private; the entry points are: main"),
        ("nothing", "function 'nothing' does not exist; the entry points are: main"),
    ],
)
def test_only_entry_points_are_called(name, message):
    with pytest.raises(AttributeError) as error:
        relax.interpret(Entries, name)
    assert str(error.value) == message


def test_arguments_by_name():
    x = vec(1, 2)
    assert relax.interpret(Entries, "main", x, k=3).numpy().tolist() == [1, 2]
    with pytest.raises(TypeError, match=r"^main: parameter j is not known; it has \(x, k\)"):
        relax.interpret(Entries, "main", x, 3, j=4)
    with pytest.raises(TypeError, match=r"^main: expected 2 arguments \(x, k\), found 1"):
        relax.interpret(Entries, "main", x)


def test_results_are_references():
    """What comes back is the argument, not a copy of it."""
    x = relax.nd.array(vec(1, 2))
    result = relax.interpret(Entries, "main", x, 1)
    result[:] = vec(5, 6)
    assert x.numpy().tolist() == [5, 6]


def test_a_module_that_is_not_well_formed_is_refused():
    x = Var("x", ObjectStructInfo())
    main = Function([x], SeqExpr((), Var("y", ObjectStructInfo())), None, True, {"global_symbol": "main"})
    with pytest.raises(DiagnosticError, match="E2002"):
        relax.interpret(IRModule({GlobalVar("main"): main}), "main", 1)


# ---------------------------------------------------------------------------------- not in normal form


def unnormalised(body, *params, ret=None):
    """A module as no parser makes it: expressions nested in one another."""
    main = Function(params, body, ret, True, {"global_symbol": "main"})
    return IRModule({GlobalVar("main"): main})


def test_nested_expressions():
    """A call in a call in a tuple, an If with bare branches, a SeqExpr as an operand."""
    x = Var("x", TensorStructInfo((3,), "float32"))
    c = Var("c", TensorStructInfo((), "bool"))
    y = Var("y", ObjectStructInfo())
    inner = SeqExpr([relax.BindingBlock([VarBinding(y, R.add(x, x))])], R.multiply(y, x))
    body = Tuple([relax.If(c, R.add(R.negative(x), inner), x), Tuple([x])[0]])
    mod = unnormalised(body, x, c)
    a = vec(1, 2, 3)
    for flag in (True, False):
        first, second = relax.interpret(mod, "main", a, np.array(flag))
        np.testing.assert_array_equal(first.numpy(), 2 * a * a - a if flag else a)
        np.testing.assert_array_equal(second.numpy(), a)


def test_operands_are_evaluated_left_to_right():
    seen = []
    relax.register_func("test.interpreter.see", lambda i, x: seen.append(i) or x, override=True)

    def see(i, x):
        return R.call_pure_packed("test.interpreter.see", R.prim_value(i), x, sinfo_args=x.struct_info)

    x = Var("x", TensorStructInfo((3,), "float32"))
    mod = unnormalised(R.add(see(1, x), R.multiply(see(2, x), see(3, x))), x)
    relax.interpret(mod, "main", vec(1, 2, 3))
    assert seen == [1, 2, 3]


def test_the_sizes_of_a_function_are_its_own():
    """A size of the same name, even the same variable, that is bound after the function was made is not its own."""
    m = SizeVar("m", "int64")
    x = Var("x", TensorStructInfo((2,), "float32"))
    y = Var("y", TensorStructInfo(None, "float32", ndim=1))
    a = Var("a", TensorStructInfo((m,), "float32"))
    f, z = Var("f"), Var("z")
    bindings = [
        VarBinding(f, Function([a], R.add(a, a), None, True)),
        MatchCast(z, y, TensorStructInfo((m,), "float32")),
    ]
    body = SeqExpr([relax.BindingBlock(bindings)], Tuple([Call(f, [x]), Call(f, [z])]))
    first, second = Interpreter(unnormalised(body, x, y))["main"](vec(1, 2), vec(1, 2, 3))
    assert (first.shape, second.shape) == ((2,), (3,))


def test_a_function_literal_in_a_call():
    y = Var("y", TensorStructInfo((2,), "float32"))
    literal = Function([y], R.add(y, y), None, True)
    x = Var("x", TensorStructInfo((2,), "float32"))
    mod = unnormalised(Call(literal, [x]), x)
    assert relax.interpret(mod, "main", vec(1, 2)).numpy().tolist() == [2, 4]
    (closure,) = Interpreter(unnormalised(Tuple([literal]), x))["main"](vec(1, 2))
    with pytest.raises(ValueError, match=r"^main_function: parameter y: dimension 0 is 3, expected 2"):
        closure(vec(1, 2, 3))


# -------------------------------------------------------------------------------- constants, recursion


def test_a_constant_is_fresh_each_time():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main() -> R.Tuple(R.Tensor((), "float32"), R.Tensor((), "float32")):
            cls = Module
            a = cls.one()
            b = cls.one()
            _ = R.call_packed("test.interpreter.increment", a, sinfo_args=R.Tuple())
            return (a, b)

        @R.function(private=True)
        def one() -> R.Tensor((), "float32"):
            return R.const(1.0, "float32")

    def increment(x):
        x[...] = x.numpy() + 1

    relax.register_func("test.interpreter.increment", increment, override=True)
    a, b = relax.interpret(Module, "main")
    assert (a.numpy().item(), b.numpy().item()) == (2, 1)


@I.ir_module
class Loop:
    @R.function
    def main(i: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        cls = Loop
        if R.greater(i, R.const(0, "int64")):
            r = cls.main(R.subtract(i, R.const(1, "int64")))
        else:
            r = i
        return r


def test_recursion_is_deeper_than_pythons():
    """Each call takes several steps of the evaluator: Python would not get to a fifth of this."""
    assert relax.interpret(Loop, "main", np.array(1000)).numpy() == 0


def test_endless_recursion_is_an_error():
    with pytest.raises(RecursionError, match=r"^main: more than 10 calls are under way; Interpreter\("):
        Interpreter(Loop, max_depth=10)["main"](np.array(11))
    assert Interpreter(Loop, max_depth=12)["main"](np.array(11)).numpy() == 0


# -------------------------------------------------------------------------------------- function values


@I.ir_module
class Functions:
    @R.function
    def compose(
        f: R.Callable((R.Tensor(ndim=1, dtype="float32"),), R.Tensor(ndim=1, dtype="float32"), True),
        x: R.Tensor(("n",), "float32"),
    ) -> R.Tensor(ndim=1, dtype="float32"):
        return f(f(x))

    @R.function
    def adder(y: R.Tensor((), "float32")) -> R.Callable(
        (R.Tensor(ndim=1, dtype="float32"),), R.Tensor(ndim=1, dtype="float32"), True
    ):
        @R.function
        def add(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(ndim=1, dtype="float32"):
            return R.add(x, y)

        return add

    @R.function(pure=False)
    def packed(f: R.Callable, x: R.Tensor(("n",), "float32")) -> R.Object:
        return f(x)

    @R.function(pure=False)
    def by_packed(x: R.Tensor(("n",), "float32")) -> R.Object:
        cls = Functions
        f = cls.adder(R.const(1.0, "float32"))
        return R.call_packed("test.interpreter.apply", f, x)

    @R.function(pure=False)
    def any(f: R.Object, x: R.Tensor(("n",), "float32")) -> R.Object:
        return R.invoke_closure(f, (x,))


def test_closures_go_out_and_come_back():
    interpreter = Interpreter(Functions)
    add = interpreter["adder"](vec(2).reshape(()))
    assert repr(add) == "<relax function adder_add>"
    assert add(vec(1, 2)).numpy().tolist() == [3, 4]
    assert interpreter["compose"](add, vec(1, 2)).numpy().tolist() == [5, 6]


def test_closures_of_another_machine():
    """A function of a compiled module, or of another interpreter, is called there."""
    relax.register_func("test.interpreter.apply", lambda f, x: f(f(x)), override=True)
    compiled = relax.VirtualMachine(relax.build(Functions, PLAIN_LOOPS), relax.cpu())["adder"](vec(2).reshape(()))
    other = Interpreter(Functions)["adder"](vec(3).reshape(()))
    for add, wanted in ((compiled, [5, 6]), (other, [7, 8])):
        assert relax.interpret(Functions, "compose", add, vec(1, 2)).numpy().tolist() == wanted


def test_packed_functions_call_back():
    relax.register_func("test.interpreter.apply", lambda f, x: f(f(x)), override=True)
    assert relax.interpret(Functions, "by_packed", vec(1, 2)).numpy().tolist() == [3, 4]
    assert relax.interpret(Functions, "packed", lambda x: x.shape[0], vec(1, 2)) == 2


def test_what_is_no_function_is_not_called():
    with pytest.raises(TypeError, match="^any: cannot call the int 3"):
        relax.interpret(Functions, "any", 3, vec(1))


def test_a_missing_packed_function_is_named():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((1,), "float32")) -> R.Object:
            r = R.call_packed("test.interpreter.missing", x)
            return r

    with pytest.raises(ValueError, match="^main: the packed function 'test.interpreter.missing' is neither in the"):
        relax.interpret(Module, "main", vec(1))


# --------------------------------------------------------------------------------------------- errors


@I.ir_module
class Errors:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "int64"), y: R.Tensor(("n",), "int64")) -> R.Tensor(("n",), "int64"):
        cls = Errors
        z = cls.inner(x, y)
        return z

    @R.function(private=True, pure=False)
    def inner(x: R.Tensor(("n",), "int64"), y: R.Tensor(("n",), "int64")) -> R.Tensor(("n",), "int64"):
        z = R.floor_divide(x, y)
        return z

    @R.function(pure=False)
    def foreign(x: R.Tensor(("n",), "int64")) -> R.Object:
        z = R.call_packed("test.interpreter.fail", x)
        return z

    @R.function
    def dataflow(x: R.Tensor(("n",), "int64"), y: R.Tensor(("n",), "int64")) -> R.Tensor(("n",), "int64"):
        with R.dataflow():
            z = R.floor_divide(x, y)
            R.output(z)
        return z


ZERO = np.zeros(2, "int64")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_errors_say_where_they_come_from():
    with pytest.raises(ZeroDivisionError) as error:
        relax.interpret(Errors, "main", ZERO, ZERO)
    assert str(error.value) == "inner: floor_divide: integer division by zero"
    inner, outer = error.value.__notes__
    assert inner.startswith("  in Relax function inner (")
    assert "test_evaluator.py" in inner
    assert outer.startswith("  in Relax function main (")


def test_errors_of_packed_functions_are_their_own():
    def fail(x):
        raise KeyError("not here")

    relax.register_func("test.interpreter.fail", fail, override=True)
    with pytest.raises(KeyError, match="not here"):
        relax.interpret(Errors, "foreign", ZERO)


def test_errors_in_dataflow_blocks_are_marked():
    interpreter = Interpreter(Errors)
    for name, marked in (("dataflow", True), ("main", False), ("dataflow", True)):
        with pytest.raises(ZeroDivisionError):
            interpreter[name](ZERO, ZERO)
        assert interpreter.failed_in_dataflow is marked


# ------------------------------------------------------------------------------- after every pass


@I.ir_module
class Everything:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", "m"), "float32"), s: R.Shape(["k"]), flag: R.Tensor((), "bool")) -> R.Tuple(
        R.Tensor(("n", "m"), "float32"), R.Tensor(dtype="float32", ndim=1), R.Shape(ndim=2), R.Prim("int64")
    ):
        n = T.int64()
        m = T.int64()
        k = T.int64()
        cls = Everything

        @R.function
        def scale(y: R.Tensor(("a", m), "float32")) -> R.Tensor(("a", m), "float32"):
            return R.multiply(y, R.add(R.sum(x, keepdims=True), R.const(1.0, "float32")))

        with R.dataflow():
            a = R.add(x, x)
            t = (a, R.reshape(a, (n * m,)))
            b = R.call_tir(cls.twice, (a,), R.Tensor((n, m), "float32"), tir_vars=R.shape([n + k]))
            R.output(b, t)
        if flag:
            r = scale(b)
        else:
            r = R.call_dps_packed("test.interpreter.negate", (b,), R.Tensor((n, m), "float32"))
        flat = t[1]
        found = R.match_cast(R.unique(flat), R.Tensor(("d",), "float32"))
        w = R.call_tir_inplace(cls.plus_one, (R.add(r, r),), [0], R.Tensor((n, m), "float32"))
        return (w, found, R.shape([n * m, k]), R.prim_value(n + m))

    @T.prim_func(private=True)
    def twice(a: T.handle, q: T.int64, b: T.handle):
        n = T.int64()
        m = T.int64()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n, m))
        for i, j in T.grid(n, m):
            B[i, j] = A[i, j] * T.float32(2) + T.Cast("float32", q)

    @T.prim_func(private=True)
    def plus_one(a: T.handle):
        n = T.int64()
        m = T.int64()
        A = T.match_buffer(a, (n, m))
        for i, j in T.grid(n, m):
            A[i, j] = A[i, j] + T.float32(1)


def expected(x, k, flag):
    b = 4 * x + x.shape[0] + k
    r = b * (x.sum() + 1) if flag else -b
    return 2 * r + 1, np.unique(2 * x), (x.size, k), sum(x.shape)


@pytest.mark.parametrize("n, m", [(2, 3), (1, 1), (0, 4), (3, 0)])
@pytest.mark.parametrize("flag", [True, False])
def test_every_pass_leaves_a_program_that_can_be_interpreted(n, m, flag):
    def negate(a, out):
        out[:] = -a.numpy()

    relax.register_func("test.interpreter.negate", negate, override=True)
    x = np.arange(n * m, dtype="float32").reshape(n, m)
    args = x, relax.ShapeTuple([5]), np.array(flag)
    wanted = expected(x, 5, flag)
    mod = Everything
    for step in [None, *DEFAULT]:
        mod = mod if step is None else step.make()(mod)
        found = relax.interpret(mod, "main", *args)
        np.testing.assert_array_equal(found[0].numpy(), wanted[0], err_msg=str(step))
        np.testing.assert_array_equal(found[1].numpy(), wanted[1], err_msg=str(step))
        assert (tuple(found[2]), found[3]) == wanted[2:], step


# ----------------------------------------------------------------------------------------- what is unknown


def test_what_is_no_value_is_named():
    """The rules catch it before, so the evaluator is asked itself."""
    with pytest.raises(TypeError, match="^main: a Op has no value"):
        Interpreter(unnormalised(relax.Op.get("relax.add")))["main"]()


def test_devices_by_their_numbers():
    """What passes make of devices: builtins are told them by number, or not at all where it is the first."""

    @I.ir_module
    class Module:
        I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})

        @R.function
        def main(x: R.Tensor(("n",), "float32", "llvm:0")) -> R.Tuple(
            R.Tensor(("n",), "float32", "llvm:1"), R.Tensor(("n",), "float32", "llvm:0")
        ):
            with R.dataflow():
                y = R.add(x, x)
                z = R.to_vdevice(y, "llvm:1")
                w = R.exp(z)
                R.output(y, w)
            return (w, y)

    mod = Module
    for step in [None, *DEFAULT]:
        mod = mod if step is None else step.make()(mod)
        w, y = relax.interpret(mod, "main", vec(0, 1))
        np.testing.assert_allclose(w.numpy(), np.exp(vec(0, 2)), rtol=1e-5)
        assert (str(w.device), str(y.device)) == ("cpu:1", "cpu:0"), step

    @I.ir_module
    class Lowered:
        @R.function(pure=False)
        def main() -> R.Object:
            there = R.call_packed("vm.builtin.alloc_tensor", R.shape([2]), R.dtype("float32"), R.prim_value(3))
            return there

    assert str(relax.interpret(Lowered, "main").device) == "cpu:3"


def test_a_packed_function_is_a_member_of_the_module():
    @I.ir_module
    class M:
        increment = R.ExternFunc("test.interpreter.increment")

        @R.function(pure=False)
        def main(k: R.Prim("int64")):
            cls = M
            f = cls.increment
            r = f(k)
            return r

    relax.register_func("test.interpreter.increment", lambda k: k + 1, override=True)
    assert relax.interpret(M, "main", 3) == 4


def test_a_dimension_without_a_value_is_kept_as_written():
    """The struct info of a closure mentions a quotient by zero, which nobody asks for."""

    @R.function
    def main(x: R.Tensor(("n", "k"), "float32")):
        n, k = T.int64(), T.int64()

        @R.function
        def first(y: R.Tensor(("m",), "float32"), z: R.Tensor((n // k,), "float32")) -> R.Tensor(("m",), "float32"):
            return y

        return first

    for columns, shown in ((0, "(4 // 0,)"), (2, "(2,)")):
        x = np.zeros((4, columns), "float32")
        closure = relax.interpret(relax.IRModule.from_expr(main), "main", x)
        assert f"R.Tensor({shown}" in str(closure.info)


def test_numbers_beside_tensors_keep_their_dtype():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Prim("float32"), i: R.Prim("int64")):
            return R.full(R.shape([2]), x), R.full(R.shape([1]), i), R.arange(i)

    filled, counted, numbers = relax.interpret(Module, "main", 1.5, 3)
    assert filled.numpy().dtype == "float32"
    assert filled.numpy().tolist() == [1.5, 1.5]
    assert counted.numpy().dtype == "int64"
    assert counted.numpy().tolist() == [3]
    assert numbers.numpy().tolist() == [0, 1, 2]
