"""Tensors, packed functions and the machine, used as in programs for TVM."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import PLAIN_LOOPS, plain_machine, run


def test_tensors():
    data = np.arange(6, dtype="int32").reshape(2, 3)
    a = relax.nd.array(data, relax.cpu(0))
    assert isinstance(a, relax.nd.NDArray)
    assert a.shape == (2, 3)
    assert a.dtype == "int32"
    assert a.device == relax.cpu()
    b = relax.nd.empty((2, 3), dtype="int32", device=relax.cpu())
    b.copyfrom(data)
    np.testing.assert_array_equal(b.numpy(), data)
    a.copyto(b)
    b[:] = data * 2
    np.testing.assert_array_equal(b.asnumpy(), data * 2)
    np.testing.assert_array_equal(relax.nd.from_dlpack(data).numpy(), data)
    np.testing.assert_array_equal(np.from_dlpack(a), data)
    np.testing.assert_array_equal(relax.nd.from_dlpack(a.to_dlpack()).numpy(), data)
    assert relax.nd.array([1.0, 2.0]).dtype == "float64"


def test_shape_tuples():
    s = relax.ShapeTuple([2, 3])
    assert tuple(s) == (2, 3)
    assert s == relax.runtime.ShapeTuple((2, 3))
    assert len(s) == 2
    assert s[1] == 3


def test_registered_functions():
    @relax.register_func("compat.greet", override=True)
    def greet(name, times):
        return ", ".join([f"hello {name}"] * times)

    f = relax.get_global_func("compat.greet")
    assert f("you", 2) == "hello you, hello you"
    relax.register_func("compat.plus", lambda a, b: a + b, override=True)
    assert relax.get_global_func("compat.plus")(1, 2) == 3
    relax.register_func("compat.keyword", f=lambda a: a, override=True)
    assert relax.get_global_func("compat.missing", allow_missing=True) is None
    with pytest.raises(ValueError, match=r"compat\.missing"):
        relax.get_global_func("compat.missing")
    with pytest.raises(ValueError, match=r"compat\.plus"):
        relax.register_func("compat.plus", lambda a: a)


def test_packed_functions_see_every_kind_of_value():
    seen = []

    @relax.register_func("compat.see", override=True)
    def see(tensor, shape, integer, text, dtype, group):
        seen.append((tensor.shape, list(shape), integer, str(text), str(dtype), len(group)))
        return tensor

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n", 2), "float32")) -> R.Object:
            n = T.int64()
            y = R.call_packed(
                "compat.see",
                x,
                R.shape([n, 2]),
                R.prim_value(7),
                R.str("text"),
                R.dtype("float16"),
                (x, x),
                sinfo_args=[R.Object],
            )
            return y

    run(Module, np.zeros((3, 2), "float32"))
    assert seen == [((3, 2), [3, 2], 7, "text", "float16", 2)]


def test_packed_functions_by_extern_and_attributes():
    relax.register_func("compat.id", lambda x: x, override=True)

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            R.func_attr({"relax.force_pure": True})
            f = R.ExternFunc("compat.id")
            y = R.call_pure_packed(f, x, sinfo_args=(R.Tensor((2,), "float32"),))
            return y

    np.testing.assert_array_equal(run(Module, np.ones(2, "float32")), [1, 1])


def test_closures():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
            @R.function
            def inner(x1: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                return R.add(x1, y)

            return inner

    vm = plain_machine(Module)
    closure = vm["main"](np.ones(2, "float32"), np.full(2, 3, "float32"))
    out = vm.invoke_closure(closure, relax.nd.array(np.ones(2, "float32")))
    np.testing.assert_array_equal(out.numpy(), [4, 4])


def test_nested_tuples_in_and_out():
    @I.ir_module
    class Module:
        @R.function
        def main(t: R.Tuple(R.Tensor((2,), "float32"), R.Tuple(R.Tensor((2,), "float32")))):
            a = t[0]
            b = t[1][0]
            return ((a, b), (R.add(a, b),))

    a, b = np.ones(2, "float32"), np.full(2, 2, "float32")
    out = run(Module, (relax.nd.array(a), (relax.nd.array(b),)))
    assert len(out) == 2
    np.testing.assert_array_equal(out[1][0], [3, 3])


@I.ir_module
class Exponential:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return R.exp(x)


def test_instrument():
    names = []

    def instrument(func, name, before_run, ret_value, *args):
        if before_run:
            names.append(name)
        return relax.VMInstrumentReturnKind.NO_OP

    vm = plain_machine(Exponential)
    vm.set_instrument(instrument)
    vm["main"](np.ones(2, "float32"))
    assert any("exp" in name for name in names)


def test_profile():
    vm = relax.VirtualMachine(relax.build(Exponential, PLAIN_LOOPS), relax.cpu(), profile=True)
    assert "exp" in str(vm.profile("main", relax.nd.array(np.ones(2, "float32"))))


@pytest.mark.parametrize("bad", [np.zeros((2, 3), "float32"), np.zeros(2, "int32"), np.zeros(3, "float32")])
def test_wrong_arguments_are_told(bad):
    with pytest.raises((ValueError, TypeError), match="x"):
        run(Exponential, bad)


def test_print_and_assert(capfd):
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((), "int32"), c: R.Tensor((), "bool")) -> R.Tensor((), "int32"):
            _ = R.print(x, format="value: {}")
            _1 = R.assert_op(c, [x], format="bad: {}")
            return x

    vm = plain_machine(Module)
    vm["main"](np.array(4, "int32"), np.array(True))
    assert "value: 4" in capfd.readouterr().out
    with pytest.raises(AssertionError, match="bad: 4"):
        vm["main"](np.array(4, "int32"), np.array(False))


def test_exec_mode_and_params():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
            R.func_attr({"num_input": 1})
            return R.add(x, w)

    w = relax.nd.array(np.ones(2, "float32"))
    ex = relax.build(Module, target=PLAIN_LOOPS, params={"w": w}, exec_mode="bytecode")
    out = relax.VirtualMachine(ex, relax.cpu())["main"](np.ones(2, "float32"))
    np.testing.assert_array_equal(out.numpy(), [2, 2])


def test_tvms_newer_name_of_a_tensor():
    assert relax.runtime.tensor([1, 2]).numpy().tolist() == [1, 2]
    assert relax.runtime.tensor(np.ones(2, "float32"), relax.cpu()).dtype == "float32"
