"""The memory of storages: used again, counted, given back."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import random
import signal
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

import relax
from relax.ir.transform import PassContext
from relax.runtime import allocator as allocation
from relax.runtime.allocator import PATIENCE, SMALL, Allocator
from relax.runtime.bytecode import Program
from relax.runtime.devices import cpu
from relax.runtime.first_memory import ADDRESSES, MOST_UNKNOWN, first_memory
from relax.runtime.tensor import new_tensor, numpy_view, view_tensor
from relax.script import ir as I
from relax.script import relax as R
from support import PLAIN_LOOPS

MB = 1 << 20


def test_a_block_is_busy_as_long_as_anything_cut_from_it_lives():
    allocator = Allocator()
    storage = allocator.take(1000)
    assert (storage.shape, str(storage.dtype), storage.data_ptr() % 64) == ((1000,), "uint8", 0)
    view = view_tensor(storage, (4,), "float32", 64)
    address = storage.data_ptr()
    del storage
    assert allocator.stats().in_use == 1000
    other = allocator.take(1000)
    assert other.data_ptr() != address
    del view
    assert allocator.take(900).data_ptr() == address
    del other
    assert allocator.stats()._asdict() == {"in_use": 0, "reserved": 2000, "peak": 2000, "allocations": 2, "requests": 3}
    assert allocator.release() == 2000
    assert allocator.stats().reserved == 0


def test_what_is_too_small_or_far_too_large_is_given_back():
    allocator = Allocator()
    allocator.take(MB)
    assert allocator.stats().reserved == MB
    allocator.take(3 * MB)  # the block of 1 MB is too small
    assert allocator.stats().reserved == 3 * MB
    allocator.take(2 * MB)
    assert allocator.stats().allocations == 2
    allocator.take(MB // 64)  # 3 MB are far too many for this
    assert allocator.stats().reserved == MB // 64
    allocator.take(SMALL)
    allocator.take(1)  # small blocks serve everything
    assert allocator.stats().allocations == 4


def test_a_block_that_is_passed_over_is_given_back():
    allocator = Allocator()
    large, small = allocator.take(40 * MB), allocator.take(MB)
    del large, small
    for _ in range(PATIENCE + 1):
        allocator.take(MB)
    assert allocator.stats().reserved == MB


def resident(tensor, first=0, last=None):
    """The part of the pages of a tensor of bytes, or of some of these, that are in memory."""
    libc = ctypes.CDLL(None)
    start = -(-(tensor.data_ptr() + first) // mmap.PAGESIZE) * mmap.PAGESIZE
    count = (tensor.data_ptr() + (tensor.numel() if last is None else last) - start) // mmap.PAGESIZE
    pages = (ctypes.c_ubyte * count)()
    assert libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(count * mmap.PAGESIZE), pages) == 0
    return sum(page & 1 for page in pages) / count


@pytest.fixture
def touched(monkeypatch):
    """The threads that touch new blocks; the process may run on three processors, and loops on one thread."""
    started = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    monkeypatch.setattr(allocation, "num_threads", lambda: 1)
    touch = allocation.touch
    monkeypatch.setattr(allocation, "touch", lambda *args: started.append(touch(*args)))
    return started


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not touch pages for others")
def test_a_new_block_is_touched_by_a_thread(touched):
    storage = Allocator().take(40 * MB)  # more than the C library keeps
    touched[0].join(60)
    assert resident(storage) == 1


def test_touching_a_block_changes_nothing_in_it():
    tensor = new_tensor((3 * MB + 77,), "uint8", large_pages=False)
    numpy_view(tensor)[...] = np.arange(tensor.numel()) % 251
    thread = allocation.touch(tensor, 5, tensor.numel())
    if thread is not None:
        thread.join(60)
    np.testing.assert_array_equal(numpy_view(tensor), np.arange(tensor.numel()) % 251)


def test_a_block_may_be_given_back_while_it_is_touched(touched):
    for _ in range(20):
        allocator = Allocator()
        storage = allocator.take(8 * MB)
        del storage
        assert allocator.release() == 8 * MB
    for thread in touched:
        thread.join(60)


def test_only_large_blocks_that_are_kept_are_touched(touched):
    Allocator().take(MB)
    Allocator("naive").take(8 * MB)
    assert touched == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not touch pages for others")
@pytest.mark.parametrize("processors", [1, 3])
def test_where_no_processor_is_free_blocks_are_touched_at_once(touched, monkeypatch, processors):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(processors)))
    monkeypatch.setattr(allocation, "num_threads", lambda: processors)
    storage = Allocator().take(40 * MB)
    assert touched == [None]
    assert resident(storage) == 1


def test_a_larger_request_gets_the_same_block_and_more_of_its_addresses():
    allocator = Allocator()
    first = allocator.take(40 * MB).data_ptr()
    for size in (41, 60, 160):
        assert allocator.take(size * MB).data_ptr() == first
        assert allocator.stats()._asdict() == {
            "in_use": 0,
            "reserved": size * MB,
            "peak": size * MB,
            "allocations": 1,
            "requests": {41: 2, 60: 3, 160: 4}[size],
        }
    allocator.take(161 * MB)
    assert (allocator.stats().allocations, allocator.stats().reserved) == (2, 161 * MB)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not touch pages for others")
def test_addresses_behind_a_block_take_no_memory_until_they_are_asked_for(touched):
    allocator = Allocator()
    storage = allocator.take(40 * MB)
    touched[0].join(60)
    room = view_tensor(storage, (160 * MB,), "uint8")
    assert resident(room, 41 * MB) == 0
    del storage, room
    storage = allocator.take(60 * MB)
    touched[1].join(60)
    assert (resident(storage), resident(view_tensor(storage, (160 * MB,), "uint8"), 61 * MB)) == (1, 0)


def test_a_block_that_need_not_grow_is_taken_first():
    allocator = Allocator()
    small, large = allocator.take(10 * MB), allocator.take(30 * MB)
    place = large.data_ptr()
    del small, large
    assert allocator.take(12 * MB).data_ptr() == place


def test_where_the_addresses_are_not_to_be_had_a_block_has_its_size(monkeypatch):
    make = allocation.new_tensor

    def few(shape, *args, **options):
        if shape[0] > 8 * MB:
            raise MemoryError("too many")
        return make(shape, *args, **options)

    monkeypatch.setattr(allocation, "new_tensor", few)
    allocator = Allocator()
    assert allocator.take(8 * MB).numel() == 8 * MB
    with pytest.raises(MemoryError):
        allocator.take(9 * MB)


def test_where_no_thread_can_be_started_a_block_is_touched_by_the_program(touched, monkeypatch):
    def refused(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    for _ in range(2):
        assert Allocator().take(8 * MB).numel() == 8 * MB
        monkeypatch.setattr(allocation, "num_threads", lambda: 3)
    assert touched == [None, None]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not touch pages for others")
def test_memory_is_touched_before_the_first_large_request(touched):
    allocator = Allocator()
    allocator.prepare(40 * MB)
    assert allocator.stats().reserved == 40 * MB
    ahead = allocator._ahead
    ahead._thread.join(60)
    assert resident(view_tensor(ahead.tensor, (40 * MB,), "uint8")) == 1

    small = allocator.take(MB // 2)  # too small for it
    assert small.data_ptr() != ahead.tensor.data_ptr()
    storage = allocator.take(30 * MB)
    assert storage.data_ptr() == ahead.tensor.data_ptr()
    assert allocator.stats()._asdict() == {
        "in_use": 30 * MB + MB // 2,
        "reserved": 30 * MB + MB // 2,
        "peak": 30 * MB + MB // 2,
        "allocations": 2,
        "requests": 2,
    }
    assert touched == []  # nothing was left to touch
    assert allocator.take(30 * MB).data_ptr() != storage.data_ptr()


def test_a_request_takes_prepared_memory_as_far_as_it_is_touched(touched):
    for size in (MB, 8 * MB, 41 * MB, 161 * MB):
        allocator = Allocator()
        allocator.prepare(40 * MB)
        ahead = allocator._ahead.tensor
        storage = allocator.take(size)
        numpy_view(storage)[...] = 1
        assert (storage.data_ptr() == ahead.data_ptr()) == (size <= 160 * MB)
        assert allocator._ahead is None


def test_memory_is_prepared_only_where_it_will_be_kept():
    small, naive, huge = Allocator(), Allocator("naive"), Allocator()
    small.prepare(MB - 1)
    naive.prepare(8 * MB)
    huge.prepare(1 << 46)
    assert [a.stats().reserved for a in (small, naive, huge)] == [0, 0, 0]


def test_prepared_memory_is_given_back():
    allocator = Allocator()
    allocator.prepare(8 * MB)
    assert allocator.release() == 8 * MB
    assert allocator.stats().reserved == 0
    assert allocator.take(8 * MB).numel() == 8 * MB


def test_where_no_thread_can_be_started_nothing_is_prepared(monkeypatch):
    def refused(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    allocator = Allocator()
    allocator.prepare(8 * MB)
    assert allocator.stats().reserved == 0


def two_steps(n, constant=None):
    """A program whose plan has one storage, of 8 * n bytes at least."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((n,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.cumsum(x))
            if constant is not None:
                y = builder.emit(relax.op.add(y, relax.op.sum(relax.const(constant))))
            z = builder.emit(relax.op.sort(y))
            out = builder.emit_output(relax.op.cumsum(z))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_a_plan_of_known_size_is_prepared(mode):
    machine = relax.VirtualMachine(relax.build(two_steps(MB), PLAIN_LOOPS, exec_mode=mode), relax.cpu())
    prepared = machine._allocator._ahead
    assert prepared.size >= 4 * MB
    machine["main"](np.ones(MB, "float32"))
    assert machine._allocator._ahead is None
    stats = machine.memory_stats()
    assert (stats.peak, stats.reserved, stats.allocations) == (prepared.size, prepared.size, 1)


@pytest.mark.parametrize("elements, expected", [(0, 0), (300_000, 1_200_000), (3_000_000, MOST_UNKNOWN)])
def test_of_a_plan_of_unknown_size_as_much_is_prepared_as_there_are_constants(elements, expected):
    program = relax.build(two_steps(relax.tir.Var("n", "int64"), np.ones(elements, "float32")), "llvm").program
    unknown = replace(program, constants=[new_tensor((elements,), "float32")])
    assert first_memory(unknown) == (expected, ADDRESSES)


def test_a_program_without_storages_has_nothing_prepared():
    assert first_memory(Program([], [], {})) == (0, 0)


def test_devices_do_not_share_blocks():
    allocator = Allocator()
    allocator.take(1000, cpu(1))
    storage = allocator.take(1000)
    assert storage.device.index == 0
    assert allocator.take(1000, cpu(1)).device.index == 1


def test_nothing_is_kept_by_the_naive_policy():
    allocator = Allocator("naive")
    allocator.take(1000)
    allocator.take(500)
    assert allocator.stats()[1:] == (500, 1000, 2, 2)


def test_policies_are_checked():
    with pytest.raises(ValueError, match="memory_cfg 'lazy' is not known; there are: pooled, naive"):
        Allocator("lazy")


def test_no_memory_is_an_error_and_harms_nothing():
    allocator = Allocator()
    allocator.take(1000)
    with pytest.raises(MemoryError, match="out of memory"):
        allocator.take((1 << 47) - 64)
    assert allocator.stats().in_use == 0
    assert allocator.take(10).numel() == 10


# ---------------------------------------------------------------------------------------- the machine


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        a = R.exp(x)
        b = R.add(a, x)
        c = R.add(a, b)
        return R.add(c, b)

    @R.function(pure=False)
    def fails(x: R.Tensor(("n",), "float32")) -> R.Object:
        a = R.exp(x)
        b = R.add(a, x)
        c = R.add(a, b)
        d = R.sum(R.add(c, R.add(a, b)))
        e = R.call_packed("allocator.fail", d)
        return (e, R.sum(R.add(a, c)))


@pytest.fixture(scope="module", params=["bytecode", "compiled"])
def executable(request):
    relax.register_func("allocator.fail", fail, override=True)
    with PassContext(disabled_pass=["DataflowUseInplaceCalls"]):
        return relax.build(Module, PLAIN_LOOPS, exec_mode=request.param)


def fail(value):
    raise ValueError("no")


def wanted(x):
    a = np.exp(x)
    return (a + (a + x)) + (a + x)


def test_random_sizes_leave_nothing_behind(executable):
    vm = relax.VirtualMachine(executable)
    chance = random.Random(0)
    largest = 0
    for _ in range(1000):
        n = chance.choice([0, 1, 2, 7, 100, chance.randrange(5000)])
        x = np.linspace(0, 1, n, dtype="float32")
        np.testing.assert_allclose(vm["main"](x).numpy(), wanted(x), 1e-5)
        largest = max(largest, n)
    stats = vm.memory_stats()
    assert (stats.in_use, stats.requests) == (0, 1000)
    assert stats.reserved <= stats.peak <= 3 * 4 * largest + 3 * 64
    assert vm.release_memory() == stats.reserved
    assert vm.memory_stats().reserved == 0
    np.testing.assert_allclose(vm["main"](x).numpy(), wanted(x), 1e-5)


def test_small_storages_are_memory_of_the_library_others_of_the_pool():
    relax.register_func("allocator.fail", fail, override=True)
    with PassContext(disabled_pass=["DataflowUseInplaceCalls"]):
        vm = relax.VirtualMachine(relax.build(Module, PLAIN_LOOPS))
    x = np.linspace(0, 1, 1000, dtype="float32")
    np.testing.assert_allclose(vm["main"](x).numpy(), wanted(x), 1e-5)
    stats = vm.memory_stats()
    assert (stats.in_use, stats.reserved, stats.requests, stats.allocations) == (0, 0, 1, 0)
    assert 2 * 4000 <= stats.peak <= 3 * 4096
    x = np.linspace(0, 1, MB // 4, dtype="float32")
    np.testing.assert_allclose(vm["main"](x).numpy(), wanted(x), 1e-5)
    stats = vm.memory_stats()
    assert (stats.in_use, stats.requests, stats.allocations) == (0, 2, 1)
    assert stats.reserved == stats.peak >= 2 * MB
    assert vm.release_memory() == stats.reserved


def test_results_do_not_share_memory_with_later_calls(executable):
    vm = relax.VirtualMachine(executable)
    x = np.linspace(0, 1, 100, dtype="float32")
    first = vm["main"](x)
    before = first.numpy()
    for _ in range(5):
        vm["main"](-x)
    assert (first.numpy() == before).all()


def test_an_error_releases_all_memory(executable):
    """Also while the exception, with its traceback, is still looked at."""
    vm = relax.VirtualMachine(executable)
    for _ in range(3):
        with pytest.raises(ValueError, match="no") as caught:
            vm["fails"](np.ones(1000, "float32"))
        assert caught.value.__traceback__ is not None
        assert vm.memory_stats().in_use == 0
    assert vm.memory_stats().peak >= 3 * 4000
    with pytest.raises(TypeError):
        vm["main"](np.ones(10, "float64"))
    assert vm.memory_stats().in_use == 0


def test_threads_share_a_machine(executable):
    vm = relax.VirtualMachine(executable)
    errors = []

    def work(seed):
        chance = random.Random(seed)
        try:
            for _ in range(50):
                x = np.linspace(0, 1, chance.randrange(2000), dtype="float32")
                np.testing.assert_allclose(vm["main"](x).numpy(), wanted(x), 1e-5)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    stats = vm.memory_stats()
    assert (stats.in_use, stats.requests) == (0, 400)
    assert stats.reserved <= 8 * (3 * 4 * 2000 + 3 * 64)


def test_memory_cfg(executable):
    x = np.ones(10, "float32")
    for config in ("naive", "pooled", {relax.cpu(): "naive"}, None):
        vm = relax.VirtualMachine(executable, relax.cpu(), config)
        np.testing.assert_allclose(vm["main"](x).numpy(), wanted(x), 1e-5)
    with pytest.raises(ValueError, match="all devices of this runtime share one memory"):
        relax.VirtualMachine(executable, relax.cpu(), {relax.cpu(): "naive", relax.cpu(1): "pooled"})


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("sizes", [(3000, 2 * MB), (2 * MB, 3000), (2 * MB, 3 * MB)])
def test_small_and_large_storages_are_counted_together(mode, sizes):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((10,), "float32"))
    with builder.function("main", [x], pure=False):
        parts = []
        for size in sizes:
            storage = builder.emit(R.memory.alloc_storage(relax.ShapeExpr([size]), 0, "global", "uint8"))
            parts.append(builder.emit(R.memory.alloc_tensor(storage, 0, relax.ShapeExpr([10]), "float32")))
        builder.emit_func_output(relax.Tuple(parts))
    vm = relax.VirtualMachine(relax.build(builder.get(), PLAIN_LOOPS, exec_mode=mode), relax.cpu())
    held = vm["main"](np.zeros(10, "float32"))
    assert vm.memory_stats().in_use == sum(sizes)
    del held
    vm["main"](np.zeros(10, "float32"))
    stats = vm.memory_stats()
    assert (stats.in_use, stats.peak, stats.requests) == (0, sum(sizes), 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_waits_for_a_thread_that_takes_memory(monkeypatch):
    taking, go = threading.Event(), threading.Event()

    def touch(*_):
        taking.set()
        go.wait(0.2)

    allocator = Allocator()
    monkeypatch.setattr(allocation, "touch", touch)
    thread = threading.Thread(target=allocator.take, args=(4 * MB,))
    thread.start()
    taking.wait()
    child = os.fork()
    if not child:
        signal.alarm(20)  # without an answer, the child ends by this
        go.set()
        os._exit(0 if allocator.take(100).numel() == 100 and allocator.stats().requests == 2 else 1)
    go.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert allocator.stats().requests == 1
    del allocator
    gc.collect()
    child = os.fork()  # the lock of an object that is gone is none
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
