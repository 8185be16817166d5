"""Results in memory that the caller gives: `VirtualMachine.set_outputs`; in both modes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi

import relax
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import MODES, PLAIN_LOOPS, plain_machine


@I.ir_module
class Program:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), w: R.Tensor(("n",), "float32")):
        return R.add(x, w)

    @R.function
    def several(x: R.Tensor(("n",), "float32")):
        return (R.multiply(x, R.const(2.0)), x, R.exp(x))

    @R.function
    def deep(x: R.Tensor(("n",), "float32"), i: R.Prim("int64")) -> R.Tensor(("n",), "float32"):
        cls = Program
        n, k = T.int64(), T.int64()
        _ = R.match_cast(i, R.Prim(value=k))
        y = R.add(x, R.const(1.0))
        if R.prim_value(k > 0):
            r = cls.deep(y, R.prim_value(k - 1))
        else:
            r = y
        return R.add(r, x)

    @R.function
    def a_shape(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        return R.shape([n])


@pytest.fixture(scope="module")
def executables():
    return {mode: relax.build(Program, PLAIN_LOOPS, exec_mode=mode) for mode in MODES}


@pytest.fixture(params=MODES)
def vm(request, executables):
    return relax.VirtualMachine(executables[request.param], relax.cpu())


def run(vm, name, args, outputs):
    vm.set_input(name, *args)
    vm.set_outputs(name, *outputs)
    vm.invoke_stateful(name)
    return vm.get_outputs(name)


def floats(*values):
    return np.array(values, "float32")


def test_a_result_is_in_the_memory_given(vm):
    for make in (np.zeros, lambda *a: relax.nd.array(np.zeros(*a)), lambda *a: tvm_ffi.from_dlpack(np.zeros(*a))):
        for n in (0, 1, 5):
            out, x = make(n, "float32"), np.arange(n, dtype="float32")
            result = run(vm, "main", (x, x), [out])
            np.testing.assert_array_equal(result.numpy(), 2 * x)
            np.testing.assert_array_equal(np.from_dlpack(out), 2 * x)
            if n:
                assert result.tensor.data_ptr() == np.from_dlpack(out).ctypes.data


def test_every_run_writes_there_until_memory_is_taken_back(vm):
    out, x = floats(0, 0), floats(1, 2)
    first = run(vm, "main", (x, x), [out])
    vm.set_input("main", x, -x)
    vm.invoke_stateful("main")
    assert (out.tolist(), first.numpy().tolist()) == ([0, 0], [0, 0])
    run(vm, "main", (x, x), [])
    assert (out.tolist(), vm.get_outputs("main").numpy().tolist()) == ([0, 0], [2, 4])
    assert vm["main"](x, x).numpy().tolist() == [2, 4]


def test_results_of_all_kinds(vm):
    x, outs = floats(1, 2), [floats(0, 0) for _ in range(3)]
    run(vm, "several", (x,), outs)
    np.testing.assert_allclose(outs, [2 * x, x, np.exp(x)], rtol=1e-6)
    out = floats(0)
    run(vm, "deep", (floats(1), 2), [out])
    assert out.tolist() == [4 + 3 + 2 + 1]


def test_memory_may_be_that_of_an_argument(vm):
    x = floats(1, 2, 3)
    run(vm, "main", (x, x), [x])
    assert x.tolist() == [2, 4, 6]
    memory = np.arange(4, dtype="float32")
    run(vm, "main", (memory[:3], memory[:3]), [memory[1:]])
    assert memory.tolist() == [0, 0, 2, 4]
    x, y, z = floats(1, 2), floats(0, 0), floats(0, 0)
    run(vm, "several", (x,), [x, y, z])
    np.testing.assert_allclose([x, y, z], [[2, 4], [1, 2], np.exp([1, 2])], rtol=1e-6)


def test_compiled_functions_compute_in_the_memory_given(executables):
    function = relax.VirtualMachine(executables["compiled"], relax.cpu()).get_function("main")
    x, out, wrong = (tvm_ffi.from_dlpack(floats(*values)) for values in ((1, 2), (0, 0), (0, 0, 0)))
    assert function(x, x, out).data_ptr() == out.data_ptr()
    assert np.from_dlpack(out).tolist() == [2, 4]
    assert function(x, x, wrong).data_ptr() != wrong.data_ptr()  # it does not fit
    assert function(x, x, x).data_ptr() != x.data_ptr()  # it is read
    with pytest.raises(TypeError, match=r"^main: expected 2 arguments \(x, w\), found 4$"):
        function(x, x, out, out)


def test_memory_that_does_not_fit(vm):
    x = floats(1, 2)
    with pytest.raises(ValueError, match=r"main: 2 results are given memory; it has 1 of them"):
        vm.set_outputs("main", x, x)
    with pytest.raises(ValueError, match=r"a_shape: 1 results are given memory; it has no result that is a tensor"):
        vm.set_outputs("a_shape", x)
    with pytest.raises(ValueError, match=r"main: memory of result 0: the shape is \(3,\), expected \(2,\)"):
        run(vm, "main", (x, x), [floats(0, 0, 0)])
    with pytest.raises(TypeError, match=r"main: memory of result 0: expected dtype float32, found float64"):
        run(vm, "main", (x, x), [np.zeros(2)])
    with pytest.raises(TypeError, match=r"main: memory of result 0: expected a tensor, found the int 3"):
        vm.set_outputs("main", 3)
    with pytest.raises(ValueError, match=r"main: memory of result 0: the array is not compact"):
        vm.set_outputs("main", np.zeros((2, 2), "float32")[:, 0])
    frozen = floats(1, 2)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match=r"main: memory of result 0: the array is read-only"):
        vm.set_outputs("main", frozen)
    with pytest.raises(ValueError, match=r"several: the memory of result 2 overlaps that of result 0"):
        vm.set_outputs("several", x, floats(0, 0), x)


HEAD = "from relax.script import ir as I, relax as R\n\n@I.ir_module\nclass Several:\n"


@pytest.mark.parametrize("count", [1, 5, 20])  # more than 32 tensors are sorted in another way
def test_memory_for_several_results_that_overlaps(count):
    """Memory apart from all else is used; of tensors that overlap, at most one is, and none in place of an argument."""
    params = ", ".join(f'x{i}: R.Tensor(("n",), "float32")' for i in range(count))
    results = ", ".join(f'R.add(x{i}, R.const({i}.0, "float32"))' for i in range(count))
    mod = from_source(f"{HEAD}    @R.function\n    def main({params}):\n        return ({results},)\n")
    function = plain_machine(mod).get_function("main")
    rng = np.random.default_rng(count)
    for case in range(60):
        size = case % 4
        memory = np.arange(8 * count * max(size, 1), dtype="float32")
        starts = rng.integers(0, len(memory) - size, 2 * count).tolist()
        if case % 3 == 0:  # nothing overlaps
            starts = (size * rng.permutation(8 * count)[: 2 * count]).tolist()
        places = [set(range(start, start + size)) for start in starts]
        tensors = [tvm_ffi.from_dlpack(memory[start : start + size]) for start in starts]
        expected = [memory[start : start + size] + np.float32(i) for i, start in enumerate(starts[:count])]
        made = function(*tensors)
        for result, value in zip(made, expected, strict=True):
            np.testing.assert_array_equal(np.from_dlpack(result), value)
        given = range(count, 2 * count)
        used = {i for i in given if made[i - count].data_ptr() == tensors[i].data_ptr()}
        for i in given:
            overlapped = {k for k in range(2 * count) if k != i and places[i] & places[k]}
            if i in used:
                assert not overlapped & {*range(count), *used}
            elif size:
                assert overlapped
