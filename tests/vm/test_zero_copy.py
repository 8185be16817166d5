"""Arguments and results share their memory with the caller's arrays, and nothing grows; in both modes."""

from __future__ import annotations

import ctypes
import gc
import random

import numpy as np
import pytest
import tvm_ffi

import relax
from relax.expr import Constant
from relax.ir import walk
from relax.runtime import register_func
from relax.runtime.entry_point import EntryPoint
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import MODES, PLAIN_LOOPS, plain_machine

seen: list[int] = []


@register_func("test.zero_copy.see", override=True)
def see(x):
    seen.append(x.data_ptr())
    if x.shape[0] == 13:
        raise ValueError("unlucky")
    return x


@register_func("test.zero_copy.fill", override=True)
def fill(x, out):
    seen.append(out.data_ptr())
    out.copyfrom(x.numpy() + 1)


@I.ir_module
class Program:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3,), "float32")) -> R.Tuple(
        R.Tensor(("n", 3), "float32"), R.Tensor(("n", 3), "float32")
    ):
        n = T.int64()
        same = R.call_packed("test.zero_copy.see", x, sinfo_args=R.Tensor((n, 3), "float32"))
        return (same, R.add(same, w))

    @R.function(pure=False)
    def into(x: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
        n = T.int64()
        return R.call_dps_packed("test.zero_copy.fill", (x,), R.Tensor((n, 3), "float32"))


@pytest.fixture(scope="module", params=MODES)
def vm(request):
    return plain_machine(Program, request.param)


@pytest.fixture(autouse=True)
def _forget():
    seen.clear()


def floats(n):
    return np.arange(3 * n, dtype="float32").reshape(n, 3)


W = np.float32([1, 2, 3])


@register_func("test.zero_copy.full", override=True)
def full(x):
    seen.append(x.data_ptr())
    raise BufferError("it is full")


@I.ir_module
class Full:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32")) -> R.Object:
        return R.call_packed("test.zero_copy.full", x, sinfo_args=R.Object)


def test_an_array_that_numpy_does_not_export_is_copied(vm):
    x = floats(2)
    x.flags.writeable = False
    swapped = floats(2).astype(">f4")
    for array in (x, swapped):
        same, total = vm["main"](array, W)
        assert seen.pop() != array.ctypes.data
        np.testing.assert_array_equal(same.numpy(), floats(2))
        np.testing.assert_array_equal(total.numpy(), floats(2) + W)
    with pytest.raises(TypeError, match="main: parameter w: .*complex64"):
        vm["main"](floats(2), W.astype("complex64"))


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_ends_in_a_buffer_error_is_not_made_twice(mode):
    main = plain_machine(Full, mode)["main"]
    with pytest.raises(RuntimeError, match="it is full") as info:  # tvm-ffi's kind for others than it knows
        main(np.ones(3, "float32"))
    assert len(seen) == 1
    assert "test.zero_copy.full" in "".join([str(info.value), *getattr(info.value, "__notes__", [])])


def test_an_exchange_takes_and_gives_tensors_as_they_are():
    """As torch.compile calls programs: what is not compact is copied, what does not fit is refused by name."""
    main = plain_machine(Program, "compiled")["main"]
    assert isinstance(main, EntryPoint)
    x = floats(4)
    same, total = main.exchange(tvm_ffi.from_dlpack(x), W)
    assert type(total) is tvm_ffi.Tensor
    assert same.data_ptr() == x.ctypes.data == seen.pop()
    np.testing.assert_array_equal(np.from_dlpack(total), x + W)
    _, total = main.exchange(floats(8)[::2], W)
    np.testing.assert_array_equal(np.from_dlpack(total), floats(8)[::2] + W)
    with pytest.raises(ValueError, match="parameter w"):
        main.exchange(x, W[:2])
    with pytest.raises(ValueError, match="unlucky") as info:
        main.exchange(floats(13), W)
    assert "main" in "".join(getattr(info.value, "__notes__", []))


def test_inputs_are_set_once_and_shared(vm):
    x = floats(2)
    vm.set_input("main", x, w=W)
    for _ in range(2):
        vm.invoke_stateful("main")
        same, total = vm.get_outputs("main")
        np.testing.assert_array_equal(total.numpy(), x + W)
        assert same.data_ptr() == x.ctypes.data
        x += 1  # the machine sees the array itself
    assert seen == [x.ctypes.data] * 2
    vm.set_input("main", w=W, x=floats(5))
    vm.invoke_stateful("main")
    assert vm.get_outputs("main")[1].shape == (5, 3)
    with pytest.raises(TypeError, match=r"main: expected 2 arguments \(x, w\), found 1"):
        vm.set_input("main", x)
    vm.set_input("main", x, np.float32([1, 2]))
    with pytest.raises(ValueError, match="main: parameter w: dimension 0 is 2, expected 3"):
        vm.invoke_stateful("main")


def test_outputs_stay_when_the_next_ones_are_made(vm):
    vm.set_input("main", floats(2), W)
    vm.invoke_stateful("main")
    first = vm.get_outputs("main")[1]
    vm.set_input("main", -floats(2), W)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(first.numpy(), floats(2) + W)


@pytest.mark.parametrize("wrap", [lambda x: x, relax.nd.from_dlpack, tvm_ffi.from_dlpack])
def test_arrays_tensors_and_dlpack_are_passed_without_a_copy(vm, wrap):
    x = floats(4)
    same, _ = vm["main"](wrap(x), W)
    assert seen == [x.ctypes.data]
    assert np.from_dlpack(same).ctypes.data == x.ctypes.data


def test_the_c_abi_copies_nothing(vm):
    x = floats(4)
    same, total = vm.get_function("main")(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(W))
    assert seen == [same.data_ptr()] == [x.ctypes.data]
    np.testing.assert_array_equal(np.from_dlpack(total), x + W)


def test_a_function_in_destination_passing_style_writes_the_result_itself(vm):
    result = vm["into"](floats(4))
    assert seen == [result.data_ptr()]
    np.testing.assert_array_equal(result.numpy(), floats(4) + 1)


class _Allocated(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks".split()
    ] + [("rest", ctypes.c_size_t * 2)]


def allocated():
    """The bytes that the process has allocated from the C library."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("the C library does not count what is allocated: it has no mallinfo2")
    libc.mallinfo2.restype = _Allocated
    gc.collect()
    info = libc.mallinfo2()
    return info.uordblks + info.hblkhd


def test_a_thousand_calls_of_any_size_grow_nothing(vm):
    """Also calls that fail in the middle, whose error is looked at."""
    chance = random.Random(0)

    def call():
        n = chance.choice([0, 1, 7, 13, 100, chance.randrange(30_000)])
        if n == 13:
            with pytest.raises(ValueError, match="unlucky"):
                vm["main"](floats(n), W)
        else:
            assert vm["main"](floats(n), W)[1].shape == (n, 3)

    for _ in range(50):
        call()
    vm.release_memory()
    before = allocated()
    for _ in range(1000):
        call()
        seen.clear()
    vm.release_memory()
    # One tensor of the larger sizes that stayed behind would show.
    assert allocated() - before < 100_000
    assert vm.memory_stats().reserved == 0


def test_large_constants_are_in_the_memory_of_the_module_and_saved_from_there(tmp_path):
    large, small = np.arange(5000, dtype="float32"), np.float32([1, 2])

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((5000,), "float32"), s: R.Tensor((2,), "float32")):
            return (R.add(x, R.const(large)), R.add(s, R.const(small)))

    constants = []
    walk(Module["main"], lambda node: constants.append(node.data) if isinstance(node, Constant) else None)
    executable = relax.build(Module, PLAIN_LOOPS)
    tensors = [value for value in executable.constants if isinstance(value, tvm_ffi.Tensor)]
    shared = [t.data_ptr() == data.ctypes.data for t, data in zip(tensors, constants, strict=True)]
    assert shared == [True, False]
    assert tensors[0].data_ptr() % 64 == 0
    assert not any(data.flags.writeable for data in constants)
    large[:] = 0  # that is another array
    executable.save(tmp_path / "model.rlx")
    assert (tmp_path / "model.rlx").read_bytes() == executable.to_bytes()
    for program in (executable, relax.load_executable(tmp_path / "model.rlx")):
        y, _ = relax.VirtualMachine(program, relax.cpu())["main"](np.zeros(5000, "float32"), small)
        np.testing.assert_array_equal(y.numpy(), np.arange(5000))
