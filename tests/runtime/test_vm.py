"""The machine: calls, closures, control flow, state, hooks; programs are assembled by hand."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tvm_ffi

from relax.runtime import (
    ExecBuilder,
    LinkError,
    NDArray,
    ShapeTuple,
    VirtualMachine,
    VMInstrumentReturnKind,
    cpu,
    get_global_func,
    nd,
    register_func,
)
from relax.runtime.bytecode import BytecodeError
from relax.runtime.info import FuncInfo, PrimInfo, ShapeInfo, TensorInfo, TupleInfo
from relax.runtime.values import import_value, kind_of

register_func("test.vm.add", lambda a, b: nd.array(a.numpy() + b.numpy()), override=True)
register_func("test.vm.identity", lambda x: x, override=True)
register_func("test.vm.int_add", lambda a, b: a + b, override=True)
register_func("test.vm.less", lambda a, b: a < b, override=True)
register_func("test.vm.apply", lambda f, *args: f(*args), override=True)


def machine(builder, **options):
    return VirtualMachine(builder.get(), cpu(), **options)


def one_function(emit, num_inputs=1, **options):
    ib = ExecBuilder()
    with ib.function("main", num_inputs, **options):
        emit(ib)
    return machine(ib)


def test_calls_and_registers():
    ib = ExecBuilder()
    with ib.function("main", 2):
        ib.emit_call("test.vm.add", [ib.r(0), ib.r(1)], ib.r(2))
        ib.emit_call("test.vm.add", [ib.r(2), ib.r(2)], ib.r(3))
        ib.emit_ret(ib.r(3))
    vm = machine(ib)
    a, b = np.array([1, 2]), np.array([10, 20])
    assert vm["main"](a, b).numpy().tolist() == [22, 44]
    assert vm.module["main"](a, b).numpy().tolist() == [22, 44]
    assert vm["main"](a, arg1=b).numpy().tolist() == [22, 44]
    assert (vm.get_function_arity("main"), vm.get_function_param_name("main", 1)) == (2, "arg1")


@pytest.mark.parametrize("value", [True, 3, 2.5, "text", None, ShapeTuple((2, 3)), (1, (2, "x")), ()])
@pytest.mark.parametrize("through_ffi", [False, True])
def test_values_pass_unchanged(value, through_ffi):
    def emit(ib):
        ib.emit_call("test.vm.identity" if through_ffi else "vm.builtin.copy", [ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))

    result = one_function(emit)["main"](value)
    assert result == value
    assert isinstance(result, ShapeTuple) == isinstance(value, ShapeTuple)


def test_what_python_passes_and_gets():
    seen = []
    vm = one_function(lambda ib: ib.emit_ret(ib.r(0)))
    f = vm["main"]
    x = np.arange(6, dtype="float32").reshape(2, 3)
    for value in (x, nd.array(x), tvm_ffi.from_dlpack(x), x.T.copy().T):
        result = f(value)
        assert isinstance(result, NDArray)
        assert result.is_contiguous()
        np.testing.assert_array_equal(result.numpy(), x)
    assert f(x).data_ptr() == x.ctypes.data
    nested = f([x, (1, [2.5, x])])
    assert isinstance(nested, tuple)
    assert isinstance(nested[1][1][1], NDArray)
    assert f(tvm_ffi.Array([1, 2])) == (1, 2)
    assert f(np.float32(1.5)) == 1.5
    assert f(np.int8(3)) == 3
    assert f(lambda v: seen.append(v))(x) is None
    assert isinstance(seen[0], NDArray)


def test_expected_kinds_decide_what_python_values_mean():
    ib = ExecBuilder()
    infos = [ShapeInfo(ndim=2), TensorInfo((), "float32", 0), TupleInfo((ShapeInfo(), PrimInfo("int64")))]
    with ib.function("main", 3, param_infos=infos):
        ib.emit_call("vm.builtin.make_tuple", [ib.r(0), ib.r(1), ib.r(2)], ib.r(3))
        ib.emit_ret(ib.r(3))
    shape, tensor, (inner, number) = machine(ib)["main"]((2, 3), np.float32(1.5), [[4], np.int64(5)])
    assert (shape, inner, number) == (ShapeTuple((2, 3)), ShapeTuple((4,)), 5)
    assert isinstance(shape, ShapeTuple)
    assert (tensor.shape, tensor.item()) == ((), 1.5)


def test_if_and_goto():
    ib = ExecBuilder()
    with ib.function("main", 1):
        ib.emit_call("vm.builtin.read_if_cond", [ib.r(0)], ib.r(1))
        test = ib.emit_if(ib.r(1))
        ib.emit_call("vm.builtin.copy", ["yes"], ib.r(2))
        end = ib.emit_goto()
        ib.patch(test)
        ib.emit_call("vm.builtin.copy", ["no"], ib.r(2))
        ib.patch(end)
        ib.emit_ret(ib.r(2))
    main = machine(ib)["main"]
    for true, false in ((True, False), (np.array(True), np.array(False))):
        assert (main(true), main(false)) == ("yes", "no")
    with pytest.raises(TypeError, match="main: the condition of an if is a float32 tensor of rank 1, expected a bool"):
        main(np.zeros(1, "float32"))
    with pytest.raises(TypeError, match="main: the condition of an if is the int 1, expected a bool scalar"):
        main(1)


def countdown(tail):
    """f(n) = n == 0 ? 0 : f(n - 1) [+ 1]"""
    ib = ExecBuilder()
    with ib.function("f", 1):
        ib.emit_call("test.vm.less", [ib.r(0), 1], ib.r(1))
        test = ib.emit_if(ib.r(1))
        ib.emit_ret(0)
        ib.patch(test)
        ib.emit_call("test.vm.int_add", [ib.r(0), -1], ib.r(2))
        ib.emit_call("f", [ib.r(2)], ib.r(3))
        if not tail:
            ib.emit_call("test.vm.int_add", [ib.r(3), 1], ib.r(3))
        ib.emit_ret(ib.r(3))
    return ib


def test_recursion_is_as_deep_as_memory():
    assert machine(countdown(tail=False))["f"](20_000) == 20_000
    with pytest.raises(RecursionError, match="f: more than 100 calls are under way; .*max_depth"):
        machine(countdown(tail=False), max_depth=100)["f"](101)
    assert machine(countdown(tail=False), max_depth=100)["f"](100) == 100


def test_tail_calls_need_no_frame():
    assert machine(countdown(tail=True), max_depth=1)["f"](20_000) == 0


def closures():
    ib = ExecBuilder()
    info = FuncInfo((TensorInfo(("n",), "int64", 1), ShapeInfo(("n",), 1)), TensorInfo(("n",), "int64", 1), True)
    with ib.function("add_captured", params=["x", "y"], exported=False, param_infos=info.params, ret_info=info.ret):
        ib.emit_call("test.vm.add", [ib.r(0), ib.r(1)], ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("make", 1):
        ib.emit_call("vm.builtin.make_closure", [ib.f("add_captured"), ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    with ib.function("call", 2):
        ib.emit_call("vm.builtin.invoke_closure", [ib.r(0), ib.r(1)], ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("through_packed", 2):
        ib.emit_call("test.vm.apply", [ib.r(0), ib.r(1)], ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("shuttle", 1):
        ib.emit_call("test.vm.identity", [ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    return machine(ib)


def test_closures():
    vm = closures()
    f = vm["make"](np.array([10, 20]))
    x = np.array([1, 2])
    assert f(x).numpy().tolist() == [11, 22]
    assert vm.invoke_closure(f, x).numpy().tolist() == [11, 22]
    assert vm["call"](f, x).numpy().tolist() == [11, 22]
    assert vm["through_packed"](f, x).numpy().tolist() == [11, 22]
    assert vm["shuttle"](f) is f
    assert vm["shuttle"]((f, 1))[0] is f
    assert get_global_func("testing.echo")(f) is f
    assert closures()["call"](f, x).numpy().tolist() == [11, 22]
    assert vm["call"](vm["make"], x)(x).numpy().tolist() == [2, 4]
    assert vm["call"](get_global_func("testing.add_one"), 4) == 5
    assert vm["call"](lambda v: v + 1, 4) == 5
    assert repr(f) == "<relax function add_captured>"
    with pytest.raises(TypeError, match=r"^add_captured: expected 1 argument \(x\), found 2"):
        f(x, x)
    with pytest.raises(TypeError, match=r"add_captured: expected 1 argument \(x\), found 0"):
        vm["through_packed"](lambda x: f(), x)
    with pytest.raises(TypeError, match="call: cannot call a tensor"):
        vm["call"](x, x)


def test_closures_know_what_they_captured():
    vm = closures()
    assert str(vm["make"](ShapeTuple((7,))).info) == (
        'R.Callable((R.Tensor((7,), dtype="int64"),), R.Tensor((7,), dtype="int64"), True)'
    )


def test_a_closure_can_be_registered():
    f = closures()["make"](np.array([1, 1]))
    register_func("test.vm.closure", f, override=True)
    assert get_global_func("test.vm.closure")(np.array([1, 2])).numpy().tolist() == [2, 3]


def test_functions_as_arguments_of_packed_functions_nest():
    ib = ExecBuilder()
    with ib.function("leaf", 1):
        ib.emit_call("test.vm.int_add", [ib.r(0), 1], ib.r(1))
        ib.emit_ret(ib.r(1))
    with ib.function("main", 1):
        ib.emit_call("test.vm.apply", [ib.f("leaf"), ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    vm = machine(ib)
    assert vm["main"](1) == 2
    register_func("test.vm.apply_twice", lambda f, x: f(f(x)), override=True)
    assert get_global_func("test.vm.apply_twice")(vm["main"], 1) == 3


# ---------------------------------------------------------------------------------------- errors


def adder():
    ib = ExecBuilder()
    with ib.function("main", params=["x", "w"]):
        ib.emit_call("test.vm.add", [ib.r(0), ib.r(1)], ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("hidden", 0, exported=False):
        ib.emit_ret(0)
    return machine(ib)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda f: f(1), TypeError, r"^main: expected 2 arguments \(x, w\), found 1$"),
        (lambda f: f(1, 2, 3), TypeError, r"^main: expected 2 arguments \(x, w\), found 3$"),
        (lambda f: f(1, y=2), TypeError, r"^main: there is no argument for parameter w$"),
        (lambda f: f(1, 2, y=2), TypeError, r"^main: parameter y is not known; it has \(x, w\)$"),
        (lambda f: f(1, 2, x=2), TypeError, r"^main: parameter x is given twice; it has \(x, w\)$"),
    ],
)
def test_argument_count(call, error, message):
    with pytest.raises(error, match=message):
        call(adder()["main"])


class OnGPU:
    """A tensor in the memory of another device, as its DLPack capsule shows it."""

    def __init__(self):
        self.memory = np.zeros(4, "float32")

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **kwargs):
        import ctypes
        import struct

        self.shape = (ctypes.c_int64 * 1)(4)
        self.managed = ctypes.create_string_buffer(
            struct.pack(
                "@QiiiBBHQQQQQ", self.memory.ctypes.data, 2, 0, 1, 2, 32, 1, ctypes.addressof(self.shape), 0, 0, 0, 0
            )
        )
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


@pytest.mark.parametrize(
    "value, error, message",
    [
        (OnGPU(), ValueError, "main: parameter w: expected a tensor on cpu, found one on cuda:0"),
        (np.zeros(2, "complex64"), TypeError, "main: parameter w: unsupported NumPy dtype complex64"),
        (np.array([1], object), TypeError, "main: parameter w: an array of objects must hold strings"),
    ],
)
def test_arrays_that_are_no_tensors(value, error, message):
    with pytest.raises(error, match=message):
        adder()["main"](np.zeros(2), value)


def test_machines_are_collected():
    import gc
    import weakref

    vm = closures()
    f = vm["make"](np.array([1]))
    vm["through_packed"](f, np.array([1]))
    alive = weakref.ref(vm)
    del vm, f
    gc.collect()
    assert alive() is None


def test_unknown_functions():
    vm = adder()
    with pytest.raises(AttributeError, match="function 'man' does not exist; the entry points are: main"):
        vm["man"]
    with pytest.raises(AttributeError, match="function 'hidden' is private; the entry points are: main"):
        vm["hidden"]
    assert "main" in vm
    assert "hidden" not in vm


def test_missing_packed_functions_are_listed_at_once():
    ib = ExecBuilder()
    with ib.function("main", 0):
        ib.emit_call("test.no_such_a")
        ib.emit_call("test.no_such_b")
        ib.declare_function("kern", "kernel")
        ib.emit_ret(0)
    with pytest.raises(LinkError, match="packed function test.no_such_a, packed function test.no_such_b, kernel kern"):
        machine(ib)


def test_errors_name_the_function_and_the_place():
    register_func("test.vm.fails", lambda: 1 // 0, override=True)
    ib = ExecBuilder()
    with ib.function("inner", 0):
        ib.location = "model.py:7:9"
        ib.emit_call("test.vm.fails", [], ib.r(0))
        ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(0))
        ib.emit_ret(ib.r(0))
    with ib.function("main", 0):
        ib.location = "model.py:12:5"
        ib.emit_call("inner", [], ib.r(0))
        ib.emit_call("vm.builtin.tuple_getitem", [ib.r(0), 0], ib.r(0))
        ib.emit_ret(ib.r(0))
    with pytest.raises(ZeroDivisionError) as caught:
        machine(ib)["main"]()
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "in Relax function inner (model.py:7:9), calling test.vm.fails" in text
    assert "in Relax function main (model.py:12:5)" in text


def test_messages_of_the_machine_begin_with_the_function():
    vm = one_function(
        lambda ib: (ib.emit_call("vm.builtin.tuple_getitem", [ib.r(0), 2], ib.r(1)), ib.emit_ret(ib.r(1)))
    )
    with pytest.raises(IndexError, match="^main: there is no field 2 in a tuple of 1$"):
        vm["main"]((1,))
    with pytest.raises(TypeError, match="^main: expected a tuple, found the shape \\(1,\\)$"):
        vm["main"](ShapeTuple((1,)))


@pytest.mark.parametrize(
    "emit, message",
    [
        (lambda ib: None, "main: it may run past its end"),
        (lambda ib: ib.emit_goto(5), "main: instruction 0 jumps to 5, outside the function"),
        (lambda ib: ib.emit_ret(ib.c(4)), "main: instruction 0: there is no c4"),
        (lambda ib: ib.emit_ret(ib.r(9)), "main: instruction 0: there is no %9"),
        (
            lambda ib: (ib.emit_call("vm.builtin.copy", [ib.r(2)], ib.r(1)), ib.emit_ret(ib.r(1))),
            "main: instruction 0 reads %2, which nothing has set",
        ),
        (
            lambda ib: (
                ib.emit_call("vm.builtin.copy", [ib.r(1)], ib.r(2)),
                ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(1)),
                ib.emit_ret(ib.r(2)),
            ),
            "main: instruction 0 reads %1, which nothing has set",
        ),
        (  # set on one of the two ways to the end only
            lambda ib: (
                ib.emit_if(ib.r(0), 2),
                ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(1)),
                ib.emit_ret(ib.r(1)),
            ),
            "main: instruction 2 reads %1, which nothing has set",
        ),
        (  # a jump back, from where less is set than where the way there came from before
            lambda ib: (
                ib.emit_if(ib.r(0), 3),
                ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(1)),
                ib.emit_goto(1),
                ib.emit_ret(ib.r(1)),
            ),
            "main: instruction 3 reads %1, which nothing has set",
        ),
        (
            lambda ib: (ib.emit_call("main", [1, 2]), ib.emit_ret(0)),
            "main: instruction 0: main takes 1 arguments, 2 are given",
        ),
    ],
)
def test_bad_bytecode(emit, message):
    with pytest.raises(BytecodeError, match=message):
        one_function(emit)


def test_wrong_devices():
    with pytest.raises(ValueError, match="runs on cpu only, not on cuda:0"):
        VirtualMachine(countdown(True).get(), tvm_ffi.device("cuda", 0))
    with pytest.raises(TypeError, match=r"expected a relax.Executable, found str"):
        VirtualMachine("file")


# ----------------------------------------------------------------------------------------- state


def test_save_function():
    vm = adder()
    vm.save_function("main", "saved", np.array([1]), w=np.array([2]))
    vm.save_function("main", "quiet", np.array([1]), np.array([2]), include_return=False)
    assert vm["saved"]().numpy().tolist() == [3]
    assert vm["quiet"]() is None
    assert vm.time_evaluator("saved", cpu(), number=2, repeat=3)().mean > 0
    with pytest.raises(ValueError, match="there is a function 'saved' already"):
        vm.save_function("main", "saved")


def test_set_input():
    vm = adder()
    with pytest.raises(ValueError, match="main: set_input has not been called"):
        vm.invoke_stateful("main")
    vm.set_input("main", np.array([1]), w=np.array([2]))
    with pytest.raises(ValueError, match="main: invoke_stateful has not been called"):
        vm.get_outputs("main")
    vm.invoke_stateful("main")
    assert vm.get_outputs("main").numpy().tolist() == [3]
    with pytest.raises(TypeError, match=r"main: expected 2 arguments \(x, w\), found 1"):
        vm.set_input("main", 1)


def test_time_evaluator():
    result = adder().time_evaluator("main", cpu(), number=3, repeat=4)(np.array([1]), np.array([2]))
    assert len(result.results) == 4
    assert result.min <= result.median <= result.max
    assert "Execution time summary" in str(result)


def test_profile():
    vm = machine(countdown(tail=False), profile=True)
    report = vm.profile("f", 5)
    assert report.calls["test.vm.int_add"][0] == 10
    assert "(the machine itself)" in report.table()
    with pytest.raises(ValueError, match="profile=True"):
        adder().profile("main", 1, 2)


def test_instrument():
    ib = countdown(tail=True)
    with ib.function("main", 1):
        ib.emit_call("f", [ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    vm = machine(ib)
    trace = []

    def hook(func, name, before, ret, *args):
        trace.append((name, before, ret, args))

    vm.set_instrument(hook)
    assert vm["main"](1) == 0
    assert [(name, before) for name, before, _, _ in trace] == [
        ("f", True),
        ("test.vm.less", True),
        ("test.vm.less", False),
        ("test.vm.int_add", True),
        ("test.vm.int_add", False),
        ("f", True),
        ("test.vm.less", True),
        ("test.vm.less", False),
        ("f", False),
        ("f", False),
    ]
    assert trace[2] == ("test.vm.less", False, False, (1, 1))
    vm.set_instrument(lambda func, name, *rest: VMInstrumentReturnKind.SKIP_RUN if name == "f" else None)
    assert vm["main"](1) is None
    vm.set_instrument(None)
    assert vm["main"](1) == 0


# ---------------------------------------------------------------------------------------- memory


def test_values_are_let_go_after_their_last_use():
    import weakref

    alive = []

    class Payload:
        pass

    def make():
        payload = Payload()
        alive.append(weakref.ref(payload))
        return payload

    register_func("test.vm.make", make, override=True)
    register_func("test.vm.use", lambda x: 1, override=True)
    register_func("test.vm.count", lambda: sum(r() is not None for r in alive), override=True)
    ib = ExecBuilder()
    with ib.function("main", 0):
        ib.emit_call("test.vm.make", [], ib.r(0))
        ib.emit_call("test.vm.make", [], ib.r(1))
        ib.emit_call("test.vm.make", [])
        ib.emit_call("test.vm.count", [], ib.r(2))
        ib.emit_call("test.vm.use", [ib.r(0)], ib.r(3))
        ib.emit_call("test.vm.count", [], ib.r(4))
        ib.emit_call("vm.builtin.make_tuple", [ib.r(2), ib.r(4), ib.r(1)], ib.r(5))
        ib.emit_ret(ib.r(5))
    assert machine(ib)["main"]()[:2] == (2, 1)


def test_threads_have_frames_of_their_own():
    main = machine(countdown(tail=False))["f"]
    results = {}
    threads = [threading.Thread(target=lambda n=n: results.setdefault(n, main(n))) for n in range(200, 260, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: n for n in range(200, 260, 10)}


def test_registers_set_on_every_way():
    ib = ExecBuilder()
    with ib.function("main", num_inputs=1):
        ib.emit_if(ib.r(0), 3)
        ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(1))
        ib.emit_goto(2)
        ib.emit_call("vm.builtin.copy", [ib.r(0)], ib.r(1))
        ib.emit_if(ib.r(0), 2)
        ib.emit_goto(-2)
        ib.emit_ret(ib.r(1))
    assert VirtualMachine(ib.get())["main"](False) is False


@pytest.mark.parametrize("size", [2**63, 2**70, -(2**63) - 1, np.uint64(2**64 - 1)])
def test_a_shape_of_numbers_that_do_not_fit(size):
    with pytest.raises(ValueError, match=rf"a shape cannot have a .*, as in \(3, {size}\)"):
        import_value((3, size), ShapeInfo(ndim=2))


def test_numbers_of_any_length_are_named():
    with pytest.raises(ValueError, match=r"or more, as in \(a number of 16610 bits,\)"):
        import_value([10**5000], ShapeInfo(ndim=1))
    assert kind_of(10**5000) == "a number of 16610 bits"
