"""Several devices of the host: tensors that belong to one, copies to another, and machines that are given several."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import tvm_ffi

import relax
from relax.runtime import nd
from relax.runtime.bytecode import Imm
from relax.runtime.dtypes import ffi_dtype
from relax.runtime.exec_builder import ExecBuilder
from relax.runtime.executable import Executable
from relax.runtime.tensor import (
    compact_tensor,
    copy_tensor,
    device_of,
    new_tensor,
    numpy_view,
    tensor_of,
    to_device,
    view_tensor,
)

F32 = ffi_dtype("float32")


def shape(*dims: int) -> tvm_ffi.Shape:
    return tvm_ffi.Shape(dims)


# ---------------------------------------------------------------------------------------------- devices


def test_names_of_devices():
    assert str(relax.cpu(1)) == "cpu:1"
    assert relax.device("cpu", 1) == relax.device("cpu:1") == relax.device("llvm:1") == relax.cpu(1)
    assert relax.device("llvm") == relax.cpu() == relax.cpu(0)
    assert relax.cpu(0) != relax.cpu(1)
    assert relax.device("cuda:2") == relax.device("cuda", 2) != relax.cpu(2)


# ---------------------------------------------------------------------------------------------- tensors


@pytest.mark.parametrize("extents", [(), (0,), (1,), (3, 0, 2), (2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16", "int64"])
def test_arrays_are_made_where_they_are_asked_for(extents, dtype):
    source = np.arange(int(np.prod(extents))).reshape(extents)
    here = nd.array(source, relax.cpu(1), dtype)
    assert here.device == relax.cpu(1)
    assert here.tensor.__dlpack_device__() == (1, 1)
    np.testing.assert_array_equal(
        here.numpy().astype("float32"), nd.array(source, dtype=dtype).numpy().astype("float32")
    )
    there = here.copyto(relax.cpu(2))
    assert there.device == relax.cpu(2)
    np.testing.assert_array_equal(there.numpy(), here.numpy())
    assert nd.empty(extents, dtype, relax.cpu(3)).device == relax.cpu(3)
    assert nd.array(here).device == relax.cpu(0)


def test_copying_between_arrays_leaves_them_where_they_are():
    a, b = nd.array([1.0, 2.0], relax.cpu(1)), nd.empty((2,), "float64", relax.cpu(2))
    assert a.copyto(b) is b
    assert b.device == relax.cpu(2)
    assert b.numpy().tolist() == [1, 2]


def test_to_device_copies_only_between_devices():
    x = new_tensor((3,), "float32", relax.cpu(1))
    numpy_view(x)[...] = 7
    assert to_device(x, relax.cpu(1)) is x
    y = to_device(x, relax.cpu(0))
    assert device_of(x) == relax.cpu(1)
    assert device_of(y) == relax.cpu(0)
    numpy_view(y)[...] = 1
    assert numpy_view(x).tolist() == [7, 7, 7]
    with pytest.raises(ValueError, match="to_device: there is no memory on cuda:0; this runtime has cpu only"):
        to_device(x, relax.device("cuda"))


def test_views_and_compact_copies_stay_on_the_device():
    x = new_tensor((4, 2), "float32", relax.cpu(1))
    assert device_of(view_tensor(x, (8,))) == relax.cpu(1)
    assert nd.NDArray(x).view((2, 4)).device == relax.cpu(1)
    assert device_of(copy_tensor(x)) == relax.cpu(1)
    assert device_of(copy_tensor(x, relax.cpu(2))) == relax.cpu(2)
    assert device_of(compact_tensor(x)) == relax.cpu(1)
    assert device_of(tensor_of(nd.NDArray(x))) == relax.cpu(1)
    assert device_of(tensor_of(np.zeros(2))) == relax.cpu(0)


def test_arrays_are_pickled_with_their_device():
    back = pickle.loads(pickle.dumps(nd.array([1.0], relax.cpu(2))))
    assert back.device == relax.cpu(2)
    assert back.numpy().tolist() == [1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: nd.array([1.0], d), "array: there is no memory on cuda:0; this runtime has cpu only"),
        (lambda d: nd.empty((1,), device=d), "empty: there is no memory on cuda:0"),
        (lambda d: nd.array([1.0]).copyto(d), "copyto: there is no memory on cuda:0"),
    ],
)
def test_other_memory_than_the_hosts_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(relax.device("cuda"))


# --------------------------------------------------------------------------------------------- machines


def allocating(*devices: int) -> Executable:
    """A program that returns a fresh tensor on each of some of its virtual devices."""
    ib = ExecBuilder()
    with ib.function("main", num_inputs=0):
        for i, number in enumerate(devices):
            ib.emit_call("vm.builtin.alloc_tensor", [shape(2), F32, Imm(number)], ib.r(i))
        fields = [ib.r(i) for i in range(len(devices))]
        ib.emit_call("vm.builtin.make_tuple", fields, ib.r(len(devices)))
        ib.emit_ret(ib.r(len(devices)))
    ib.set_devices(["cpu:0", "cpu:1", "cpu:2", "cuda:0"])
    return ib.get()


def test_integers_count_the_devices_of_the_machine():
    ex = allocating(0, 1)
    assert ex.devices == ["cpu:0", "cpu:1", "cpu:2", "cuda:0"]
    assert "# devices: cpu:0, cpu:1" in ex.as_text()
    for given, expected in [
        (None, ["cpu:0", "cpu:1"]),
        ([relax.cpu(0), relax.cpu(1)], ["cpu:0", "cpu:1"]),
        ([relax.cpu(3), relax.cpu(4), relax.cpu(5)], ["cpu:3", "cpu:4"]),
        ([relax.cpu(2), relax.cpu(2)], ["cpu:2", "cpu:2"]),
    ]:
        results = relax.VirtualMachine(ex, given)["main"]()
        assert [str(result.device) for result in results] == expected


def test_devices_are_saved_with_the_executable(tmp_path):
    allocating(2).save(tmp_path / "ex")
    loaded = Executable.load(tmp_path / "ex")
    assert loaded.devices == ["cpu:0", "cpu:1", "cpu:2", "cuda:0"]
    assert relax.VirtualMachine(loaded)["main"]()[0].device == relax.cpu(2)


def test_a_device_the_machine_is_not_given_is_an_error_at_load():
    with pytest.raises(ValueError, match="virtual device 2") as failure:
        relax.VirtualMachine(allocating(0, 2), [relax.cpu(0), relax.cpu(1)])
    assert str(failure.value) == (
        "the program places tensors on its virtual device 2 (cpu:2), and the machine is given 2 devices "
        "(cpu:0, cpu:1); give one for each: VirtualMachine(executable, [relax.cpu(0), relax.cpu(1), relax.cpu(2)])"
    )
    with pytest.raises(ValueError, match=r"virtual device 1 \(cpu:1\), and the machine is given 1 device \(cpu:0\)"):
        relax.VirtualMachine(allocating(0, 1), relax.cpu())
    with pytest.raises(ValueError, match="virtual device 7, and the machine is given 4 devices"):
        relax.VirtualMachine(allocating(7))


def test_devices_that_are_not_the_hosts():
    with pytest.raises(ValueError, match="this runtime runs on cpu only, not on cuda:0"):
        relax.VirtualMachine(allocating(0), [relax.cpu(), relax.device("cuda")])
    with pytest.raises(ValueError, match="this runtime runs on cpu only, not on cuda:0"):
        relax.VirtualMachine(allocating(3))
    relax.VirtualMachine(allocating(0))  # the one that is listed, and not used, is no matter


def test_allocations_that_name_no_device_are_on_the_machines_first():
    ib = ExecBuilder()
    with ib.function("main", num_inputs=0):
        ib.emit_call("vm.builtin.alloc_tensor", [shape(2), F32], ib.r(0))
        ib.emit_ret(ib.r(0))
    ex = ib.get()
    assert relax.VirtualMachine(ex)["main"]().device == relax.cpu(0)
    assert relax.VirtualMachine(ex, relax.cpu(1))["main"]().device == relax.cpu(1)


def test_to_device_and_check_tensor_info_of_a_program():
    ib = ExecBuilder()
    with ib.function("main", num_inputs=1, params=["x"]):
        ib.emit_call("vm.builtin.check_tensor_info", [ib.r(0), -1, F32, "main: parameter x", Imm(1)])
        ib.emit_call("vm.builtin.to_device", [ib.r(0), Imm(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    ib.set_devices(["cpu:0", "cpu:1"])
    vm = relax.VirtualMachine(ib.get())
    x = nd.array(np.array([1, 2], "float32"), relax.cpu(1))
    y = vm["main"](x)
    assert y.device == relax.cpu(0)
    assert y.numpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match="parameter x") as failure:
        vm["main"](np.array([1, 2], "float32"))
    assert str(failure.value) == "main: parameter x: expected a tensor on cpu:1, found one on cpu:0"
