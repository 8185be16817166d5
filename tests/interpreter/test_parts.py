"""The parts of the interpreter: operators by their references, intrinsics, kernels, scopes, outcomes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi

import relax
from relax.expr import Call, PrimValue, Var
from relax.interpreter import Interpreter
from relax.interpreter.operators import evaluate_operator, info_of
from relax.interpreter.outcome import Outcome, impure_symbols, interpreted, observed, snapshot
from relax.interpreter.scope import Environment
from relax.ir import Op, StructInfo, assert_structural_equal, register_op
from relax.op.operator import Operator, operator
from relax.prim import Var as ShapeVar
from relax.runtime.tensor import tensor_of_numpy
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)


def tensor(*values, dtype="float32"):
    return tensor_of_numpy(np.array(values, dtype))


# ------------------------------------------------------------------------------------------- operators


@operator("test.interpreter.liar")
class Liar(Operator):
    """An operator whose reference does not do what inference says: for these tests."""

    how: str = "rank"

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        return x

    def reference(self, x):
        return {"rank": x[None], "shape": x[:1], "dtype": x.astype("float64"), "honest": x}[self.how]


@pytest.mark.parametrize(
    "how, found",
    [
        ("rank", 'R.Tensor((1, 2), dtype="float32")'),
        ("shape", 'R.Tensor((1,), dtype="float32")'),
        ("dtype", 'R.Tensor((2,), dtype="float64")'),
    ],
)
def test_a_reference_that_disagrees_with_inference_is_found(how, found):
    x = Var("x", TensorStructInfo((2,), "float32"))
    call = Liar(how).call(x)
    with pytest.raises(RuntimeError) as error:
        evaluate_operator(call, [tensor(1, 2)], Environment("main"))
    expected = 'R.Tensor((2,), dtype="float32")'
    assert str(error.value) == (
        f"main: test.interpreter.liar: the reference disagrees with inference: {found}, not {expected}"
    )


def test_results_have_memory_of_their_own():
    x = tensor(1, 2)
    y = evaluate_operator(Liar("honest").call(Var("x", TensorStructInfo((2,), "float32"))), [x], Environment("main"))
    assert y.data_ptr() != x.data_ptr()


@operator("test.interpreter.sizes")
class Sizes(Operator):
    """Operators may also give shapes, numbers, and anything."""

    what: str = "shape"

    def infer(self, x: TensorStructInfo) -> StructInfo:
        kinds = {"shape": ShapeStructInfo(ndim=1), "number": PrimStructInfo("int64")}
        return kinds.get(self.what, ObjectStructInfo())

    def reference(self, x):
        return {"shape": x.shape, "number": x.sum(), "python": 3, "object": "text"}[self.what]


@pytest.mark.parametrize("what, value", [("shape", (2,)), ("number", 3), ("python", 3), ("object", "text")])
def test_results_that_are_no_tensors(what, value):
    x = Var("x", TensorStructInfo((2,), "int64"))
    found = evaluate_operator(Sizes(what).call(x), [tensor(1, 2, dtype="int64")], Environment("main"))
    assert found == value
    assert type(found) in (tvm_ffi.Shape, int, str)


def test_sizes_that_do_not_fit():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(ndim=1):
            z = R.add(x, y)
            return z

    one, two, three = (np.ones(n, "float32") for n in (1, 2, 3))
    assert relax.interpret(Module, "main", one, three).shape == (3,)
    with pytest.raises(AssertionError, match="^main: add: the shapes cannot be broadcast"):
        relax.interpret(Module, "main", two, three)


def test_tuples_bind_shape_variables():
    @I.ir_module
    class Module:
        @R.function
        def main(
            x: R.Tensor(("n * 2",), "float32"),
            t: R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Shape(["m"]), R.Prim("int64"))),
        ) -> R.Shape(ndim=2):
            n = T.int64()
            m = T.int64()
            return R.shape([n, m])

    def run(n, twice, k=3):
        args = np.ones(twice, "float32"), (np.ones(n, "float32"), (relax.ShapeTuple([5]), k))
        return relax.interpret(Module, "main", *args)

    assert tuple(run(2, 4)) == (2, 5)
    with pytest.raises(
        ValueError,
        match=r"^main: parameter x: dimension 0 is 5, expected n \* 2 = 4 \(n = 2 was bound by t\[0\], dimension 0\)",
    ):
        run(2, 5)
    with pytest.raises(TypeError, match=r"^main: parameter t\[1\]\[1\]: expected an int64 value, found the float 1.5"):
        run(2, 4, 1.5)


def test_a_shape_held_by_a_variable():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(dtype="float32"), s: R.Shape(ndim=1)) -> R.Tensor(ndim=1, dtype="float32"):
            y = R.match_cast(x, R.Tensor(s, "float32"))
            return y

    assert relax.interpret(Module, "main", np.ones(2, "float32"), relax.ShapeTuple([2])).shape == (2,)
    with pytest.raises(ValueError, match=r"^main: match_cast of x: the shape is \(2,\), expected \(3,\)"):
        relax.interpret(Module, "main", np.ones(2, "float32"), relax.ShapeTuple([3]))


def test_kernels_by_their_symbol():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            _ = R.call_packed("one", x)
            return x

        @T.prim_func
        def one(A: T.Buffer((1,), "float32")):
            A[0] = T.float32(1)

    assert relax.interpret(Module, "main", np.zeros(1, "float32")).numpy().tolist() == [1]


def test_an_operator_nobody_defined():
    register_op("test.interpreter.nobody")
    with pytest.raises(TypeError, match=r"^main: the operator test.interpreter.nobody has no definition"):
        evaluate_operator(Call(Op.get("test.interpreter.nobody"), ()), [], Environment("main"))


def test_operands_of_another_kind():
    """Their info says they may be tensors; what came is none."""
    call = R.add(Var("x", ObjectStructInfo()), Var("y", ObjectStructInfo()))
    with pytest.raises(TypeError, match=r"^main: add: x1 must be a tensor or a scalar, found a tuple of 1"):
        evaluate_operator(call, [(tensor(1),), tensor(1)], Environment("main"))


def test_operators_that_only_the_run_time_implements(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 1), "float32"))
    call = R.read_tensor_from_file(Var("path", ObjectStructInfo()))
    (found,) = [evaluate_operator(call, [str(tmp_path / "x.npy")], Environment("main"))]
    assert tuple(found.shape) == (2, 1)


@pytest.mark.parametrize(
    "value, info",
    [
        (tensor(1, 2), TensorStructInfo((2,), "float32")),
        (tvm_ffi.Shape((3, 0)), ShapeStructInfo((3, 0))),
        (True, PrimStructInfo(value=relax.prim.const(True, "bool"))),
        (3, PrimStructInfo(value=relax.prim.const(3, "int64"))),
        (1.5, PrimStructInfo(value=relax.prim.const(1.5, "float64"))),
        ((tensor(1), 2), TupleStructInfo([TensorStructInfo((1,), "float32"), info_of(2)])),
        ("text", ObjectStructInfo()),
        (None, ObjectStructInfo()),
    ],
)
def test_all_that_struct_info_can_say_of_a_value(value, info):
    assert_structural_equal(info_of(value), info)


def test_info_of_functions_and_of_typed_numbers():
    assert isinstance(info_of(tvm_ffi.convert_func(print)), FuncStructInfo)
    typed = info_of(3, PrimValue(relax.prim.const(3, "int32")))
    assert (typed.dtype, typed.value.value) == ("int32", 3)


@I.ir_module
class Operators:
    @R.function
    def main(x: R.Tensor(("n", 2), "float32"), s: R.Shape(ndim=1), k: R.Prim("int64")) -> R.Tuple(
        R.Tensor(ndim=1, dtype="float32"), R.Tuple(R.Tensor, R.Tensor), R.Tensor, R.Tensor
    ):
        flat = R.reshape(x, s)
        halves = R.split(x, 2, axis=1)
        both = R.concat((x, x), axis=0)
        norm = R.nn.layer_norm(x, R.const([1.0, 2.0]), R.const([0.0, 1.0]), axes=[1])
        return (flat, halves, both, norm)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_operands_and_results_of_every_kind(n):
    x = np.arange(2 * n, dtype="float32").reshape(n, 2)
    flat, halves, both, norm = relax.interpret(Operators, "main", x, relax.ShapeTuple([2 * n]), 7)
    np.testing.assert_array_equal(flat.numpy(), x.ravel())
    np.testing.assert_array_equal(np.concatenate([h.numpy() for h in halves], 1), x)
    np.testing.assert_array_equal(both.numpy(), np.concatenate([x, x]))
    np.testing.assert_allclose(norm.numpy(), [[-1, 3]] * n if n else np.zeros((0, 2)), atol=1e-3)


# ------------------------------------------------------------------------------------------ intrinsics


@I.ir_module
class Kernels:
    @T.prim_func(private=True)
    def fill_last(b: T.handle, k: T.int64):
        n = T.int64()
        B = T.match_buffer(b, (n,), "bool")
        for i in range(n):
            if i != k:
                B[i] = T.bool(False)

    @T.prim_func(private=True)
    def calls(a: T.handle, k: T.int64):
        A = T.match_buffer(a, (1,), "int64")
        A[0] = T.call_packed("test.interpreter.twice", k, dtype="int64")

    @T.prim_func(private=True)
    def reads_outside(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i + 1]

    @R.function
    def shape_variable(s: R.Shape(ndim=1)) -> R.Tensor(ndim=1, dtype="bool"):
        cls = Kernels
        return R.call_tir(cls.fill_last, (), R.Tensor(s, "bool"), tir_vars=R.shape([1]))

    @R.function(pure=False)
    def dynamic() -> R.Tensor((1,), "int64"):
        cls = Kernels
        a = R.builtin.alloc_tensor(R.shape([1]), R.dtype("int64"), R.prim_value(0), R.str("global"))
        _ = R.vm.call_tir_dyn(cls.calls, (a, R.shape([21])))
        return a

    @R.function(pure=False)
    def storages() -> R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")):
        s = R.memory.alloc_storage(R.shape([16]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
        t = R.vm.alloc_storage(R.shape([4]), R.prim_value(0), R.dtype("float32"), R.str("global"))
        a = R.memory.alloc_tensor(s, R.prim_value(8), R.shape([2]), R.dtype("float32"))
        b = R.vm.alloc_tensor(t, R.prim_value(0), R.shape([2]), R.dtype("float32"))
        _ = R.memory.kill_tensor(a)
        _1 = R.memory.kill_storage(s)
        _2 = R.vm.kill_object(t)
        c = R.builtin.stop_lift_params(b)
        return (a, c)

    @R.function
    def outside(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        cls = Kernels
        n = T.int64()
        y = R.call_tir(cls.reads_outside, (x,), R.Tensor((n,), "float32"))
        return y


def test_integers_after_the_outputs():
    assert relax.interpret(Kernels, "shape_variable", relax.ShapeTuple([3])).numpy().tolist() == [False, True, False]
    with pytest.raises(
        ValueError, match="^shape_variable: parameter s: a shape cannot have a negative dimension, as in"
    ):
        relax.interpret(Kernels, "shape_variable", relax.ShapeTuple([-1]))


def test_integers_of_a_shape_and_packed_functions_of_kernels():
    relax.register_func("test.interpreter.twice", lambda k: 2 * k, override=True)
    assert relax.interpret(Kernels, "dynamic").numpy().tolist() == [42]


def test_storages():
    a, b = relax.interpret(Kernels, "storages")
    assert (a.shape, b.shape) == ((2,), (2,))


def test_reads_out_of_bounds_are_found():
    with pytest.raises(IndexError, match=r"^outside: reads_outside: .*A\[2\] is outside of shape \[2\]"):
        relax.interpret(Kernels, "outside", np.ones(2, "float32"))
    assert relax.interpret(Kernels, "outside", np.ones(0, "float32")).shape == (0,)


# ---------------------------------------------------------------------------------------------- scopes


def test_scopes():
    n, m = ShapeVar("n", "int64"), ShapeVar("m", "int64")
    x, y = Var("x"), Var("y")
    outer = Environment("main")
    outer.define(x, 1)
    outer.define_size(n, 3, "x, dimension 0")
    inner = outer.inner()
    inner.define(y, 2)
    assert (inner[x], inner[y], inner.evaluate(n * 2 + 1)) == (1, 2, 7)
    assert (inner.knows(n), inner.knows(m)) == (True, False)
    assert inner.explain(n) == "n = 3 (n was bound by x, dimension 0)"
    assert inner.explain(n * 2) == "n * 2 = 6 (n = 3 was bound by x, dimension 0)"
    assert inner.explain(relax.prim.const(2, "int64") * 3) == "6"
    inner.forget([y, Var("z")])
    with pytest.raises(KeyError, match="the variable y has no value here"):
        inner[y]
    with pytest.raises(KeyError, match="m"):
        inner.evaluate(m)
    with pytest.raises(OverflowError, match="a size does not fit into 64 bits"):
        inner.evaluate(n * (2**62))


# -------------------------------------------------------------------------------------------- outcomes


def test_snapshots():
    assert snapshot((1, [None, "s"], relax.ShapeTuple([1, 2]))) == (1, (None, "s"), ("shape", 1, 2))
    assert snapshot(Interpreter(Kernels)["storages"]) == "a Relax function"
    assert snapshot(relax.get_global_func("vm.builtin.copy")) == "a packed function"
    array = np.ones(1)
    kept = snapshot(array)
    array[0] = 2
    assert kept[0] == 1


@pytest.mark.parametrize(
    "a, b, difference",
    [
        (1, 1, None),
        (1, 1.0, "result: expected 1, found 1.0"),
        (float("nan"), float("nan"), None),
        ((1, 2), (1,), "result: expected 2, found 1"),
        ((1, (2, 3)), (1, (2, 4)), "result[1][1]: expected 3, found 4"),
        (np.ones(2), np.ones(3), "result: expected float64[2], found float64[3]"),
        (np.ones(2, "int8"), np.ones(2, "int16"), "result: expected int8[2], found int16[2]"),
        (np.array([1, 2]), np.array([1, 3]), "result: expected 2 at [1], found 3"),
        (np.array(1.0), np.array(2.0), "result: expected 1.0 at the scalar, found 2.0"),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0 + 1e-12]), None),
        (np.zeros(0), np.zeros(0), None),
    ],
)
def test_differences(a, b, difference):
    assert Outcome(a).difference(Outcome(b)) == difference


def test_differences_of_errors():
    fails = Outcome(error=ValueError("this\nand that"))
    assert fails.difference(Outcome(error=ValueError("other"))) is None
    assert fails.difference(Outcome(1)) == "expected ValueError: this, found no error"
    assert Outcome(1).difference(fails) == "expected no error, found ValueError: this"
    assert Outcome(error=ValueError(), optional=True).difference(Outcome(1)) is None
    assert Outcome(error=ValueError()).difference(Outcome(1)) == "expected ValueError: , found no error"


def test_effects_are_impure_calls():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            _ = R.call_packed("test.interpreter.effect", x, sinfo_args=R.Tuple())
            _1 = R.call_packed("test.interpreter.both", x)
            y = R.call_pure_packed("test.interpreter.both", x, sinfo_args=R.Tensor((1,), "float32"))
            z = R.call_packed("test.interpreter.unknown", x, sinfo_args=R.Tuple())
            return y

        @T.prim_func(private=True)
        def kernel(A: T.Buffer((1,), "float32")):
            A[0] = T.float32(1)

    watched = impure_symbols(Module)
    assert watched == ("test.interpreter.effect", "test.interpreter.unknown")
    relax.register_func("test.interpreter.effect", lambda x: None, override=True)
    relax.register_func("test.interpreter.both", lambda x: x, override=True)
    outcome = interpreted(Module, "main", [np.ones(1, "float32")], watched)
    assert "test.interpreter.unknown" in str(outcome.error)
    ((name, value),) = outcome.effects
    assert (name, value.tolist()) == ("test.interpreter.effect", [1])


def test_arguments_are_copied():
    def change(x, pair, n):
        x[0] = 5
        pair[0][:] = np.full(1, 6.0)
        return n

    x, y = np.zeros(1), relax.nd.array(np.zeros(1))
    outcome = observed(change, [x, (y,), 3])
    assert (x[0], y.numpy()[0]) == (0, 0)
    assert (outcome.result, outcome.args[0][0], outcome.args[1][0][0]) == (3, 5, 6)


def test_an_operator_of_the_run_time_alone_is_its_function(tmp_path):
    path = tmp_path / "tensor.txt"
    path.write_text("1 2\n3 4\n")

    @R.function(pure=False)
    def main(file: R.Object):
        return R.read_tensor_from_file(file)

    read = relax.interpret(relax.IRModule.from_expr(main), "main", str(path))
    assert read.numpy().tolist() == [[1, 2], [3, 4]]


def test_an_operator_of_scalars_is_its_formula():
    @R.function
    def main(a: R.Prim("int8"), b: R.Prim("int8")) -> R.Prim("int8"):
        return R.add(R.multiply(a, b), b)

    assert relax.interpret(relax.IRModule.from_expr(main), "main", 100, 2) == -54  # 202, wrapped around
