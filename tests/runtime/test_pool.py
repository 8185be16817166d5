"""The thread pool: parallel loops on several threads, from several threads, nested, after a fork, failing, at exit."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from relax import codegen, runtime
from relax.codegen.support_texts import pool_text
from relax.farm import worker
from relax.farm.objects import machine_of
from relax.runtime import native, threads
from relax.runtime.archive import read_archive
from relax.runtime.elf import parse_object
from relax.runtime.linker import plan_layout, undefined_symbols
from relax.runtime.native import load_object
from relax.script import ir as I
from relax.script import tir as T
from relax.target import Target
from relax.target.c_structs import STRUCTS

MANY = Target("llvm -num-cores=8")  # loops stay parallel on a machine of one core


@T.prim_func
def rows(a: T.handle, b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 1024), "float32")
    B = T.match_buffer(b, (n, 1024), "float32")
    for i in T.parallel(n):
        for j in range(1024):
            B[i, j] = T.exp(A[i, j]) + T.float32(1)


@T.prim_func
def norms(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 333), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in T.parallel(n):
        B[i] = T.float32(0)
        for j in range(333):
            B[i] = B[i] + A[i, j] * A[i, j]


@T.prim_func
def checked(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (n, 65536), "int32")
    for i in T.parallel(n):
        for j in range(65536):
            B[i, j] = j // A[i]


@pytest.fixture(scope="module")
def module():
    return codegen.build_module({"rows": rows, "norms": norms, "checked": checked}, MANY)


@pytest.fixture(autouse=True)
def restored():
    """The number of threads is the process's: tests put it back."""
    before = runtime.num_threads()
    yield
    runtime.set_num_threads(before)


def data(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


@pytest.mark.parametrize("n", [0, 1, 2, 3, 63, 300])
def test_any_number_of_threads_computes_the_same_bits(module, n):
    a, results = data(n, 1024), []
    for count in (1, 2, 4, 8):
        runtime.set_num_threads(count)
        b = np.zeros_like(a)
        module["rows"](a, b)
        results.append(b)
    np.testing.assert_allclose(results[0], np.exp(a) + 1, rtol=1e-5)
    assert all(result.tobytes() == results[0].tobytes() for result in results)


def test_sums_have_the_same_bits_on_any_number_of_threads(module):
    a, results = data(2000, 333), []
    for count in (1, 3, 8):
        runtime.set_num_threads(count)
        b = np.zeros(2000, "float32")
        module["norms"](a, b)
        results.append(b)
    np.testing.assert_allclose(results[0], (a * a).sum(axis=1), rtol=1e-4)
    assert all(result.tobytes() == results[0].tobytes() for result in results)


def test_several_threads_may_call_kernels_at_once(module):
    runtime.set_num_threads(4)
    wrong: list[str] = []

    def work(seed):
        a = data(50 + seed, 1024)
        expected, b = np.exp(a) + 1, np.zeros_like(a)
        for _ in range(30):
            b[:] = 0
            module["rows"](a, b)
            if not np.allclose(b, expected, rtol=1e-5):
                wrong.append(f"thread {seed}")

    callers = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not wrong
    assert not any(caller.is_alive() for caller in callers)


def test_the_error_of_the_lowest_iteration_arrives(module):
    """All chunks before a failing one are run, so the error is the one that a serial loop raises."""
    for count in (1, 2, 8):
        runtime.set_num_threads(count)
        for _ in range(5):
            a, b = np.ones(64, "int32"), np.zeros((64, 65536), "int32")
            a[[20, 40, 63]] = 0
            with pytest.raises(ZeroDivisionError, match="checked: .*zero"):
                module["checked"](a, b)
            assert (b[:20] == np.arange(65536)).all()
            a[:] = 1
            module["checked"](a, b)  # the pool is as good as before
            assert (b == np.arange(65536)).all()


def test_the_lowest_error_wins():
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "int64")
        B = T.match_buffer(b, (n, 65536), "float32")
        for i in T.parallel(n):
            for j in range(65536):
                B[A[i], j] = T.float32(1)

    built = codegen.build_module(f, MANY)
    for count in (1, 4, 8):
        runtime.set_num_threads(count)
        for _ in range(5):
            index = np.arange(64)
            index[[7, 8, 9, 50]] = 1007, 1008, 1009, 1050
            with pytest.raises(IndexError, match="index 1007 is out of bounds"):
                built["f"](index, np.zeros((64, 65536), "float32"))


def test_a_region_in_a_region_is_serial():
    """The body of a parallel loop calls a function that has a parallel loop itself."""

    @I.ir_module
    class Nested:
        @T.prim_func
        def inner(B: T.Buffer((16, 64, 4096), "float32"), i: T.int64):
            for j in T.parallel(64):
                for k in range(4096):
                    B[i, j, k] = T.Cast("float32", i) + T.float32(1)

        @T.prim_func
        def outer(B: T.Buffer((16, 64, 4096), "float32")):
            for i in T.parallel(T.int64(16)):
                Nested.inner(B.data, i)

    built = codegen.build_module(Nested, MANY)
    for count in (1, 4):
        runtime.set_num_threads(count)
        b = np.zeros((16, 64, 4096), "float32")
        built["outer"](b)
        assert (b == np.arange(1, 17)[:, None, None]).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_the_child_of_a_fork_has_threads_of_its_own(module):
    runtime.set_num_threads(4)
    a, b = data(100, 1024), np.zeros((100, 1024), "float32")
    module["rows"](a, b)  # the parent has threads
    child = os.fork()
    if child == 0:
        status = 1
        try:
            c = np.zeros_like(a)
            module["rows"](a, c)
            status = 0 if c.tobytes() == b.tobytes() and len(os.listdir("/proc/self/task")) > 1 else 2
        finally:
            os._exit(status)
    assert _status(child) == 0
    module["rows"](a, b)


def _status(child):
    for _ in range(3000):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the child does not end")
    return None


SCRIPT = """
import ctypes, os, sys, time, threading
import numpy as np
from relax import codegen, runtime
from relax.target.c_structs import STRUCTS
from relax.runtime import native, threads
from relax.script import tir as T
from relax.target import Target

@T.prim_func
def rows(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 1024), "float32")
    B = T.match_buffer(b, (n, 1024), "float32")
    for i in T.parallel(n):
        for j in range(1024):
            B[i, j] = T.exp(A[i, j]) + T.float32(1)

sleepers = ctypes.c_int32.from_address(threads._memory() + STRUCTS['PoolState'].layout(64).offsets['sleepers'])
LAUNCHER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
BODY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

def launch(body, entry=None):
    assert LAUNCHER(entry or native._symbols[threads.LAUNCH])(ctypes.cast(body, ctypes.c_void_p), None, 2, 1) == 0

def asleep(count):
    "Wait until so many workers sleep."
    while sleepers.value != count:
        time.sleep(0.01)

def switches(task):
    "The number of times that a thread gave up a processor or lost it."
    status = open(f"/proc/self/task/{task}/status").read()
    return sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line)

first, second = (codegen.build_module(rows, Target("llvm -num-cores=8")) for _ in range(2))
a, b = np.ones((200, 1024), "float32"), np.zeros((200, 1024), "float32")
"""


def run(code, **environment):
    """A process of its own, in which threads are counted before anything else has started some."""
    text = SCRIPT + textwrap.dedent(code)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1", **environment}
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"pool_{os.getpid()}.py")
    with open(path, "w") as file:
        file.write(text)
    try:
        return subprocess.run([sys.executable, path], env=env, capture_output=True, text=True, timeout=120, check=False)
    finally:
        os.unlink(path)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_libraries_share_one_pool_which_sleeps_and_lets_the_process_end():
    done = run("""
        count = lambda: len(os.listdir("/proc/self/task"))
        def run(library, threads):
            for _ in range(1000):  # on a busy machine, loops are serial for some time
                library["rows"](a, b)
                if count() == before + threads:
                    return
            assert False, count()
        tasks, before = set(os.listdir("/proc/self/task")), count()
        assert runtime.num_threads() == 3
        run(first, 2)
        run(second, 2)
        runtime.set_num_threads(5)
        run(second, 4)
        asleep(4)
        workers = set(os.listdir("/proc/self/task")) - tasks
        before_rest = [*map(switches, workers)]
        time.sleep(0.3)
        assert sleepers.value == len(workers) == 4
        assert [*map(switches, workers)] == before_rest  # none of them woke to look
        del first, second
        import gc
        gc.collect()
        third = codegen.build_module(rows, Target("llvm -num-cores=8"))
        third["rows"](a, b)
        assert count() == before + 4
        assert np.allclose(b, np.exp(a) + 1)
        print("done")
        """, RELAX_NUM_THREADS="3")  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processors cannot be chosen there")
def test_a_worker_on_the_processor_of_the_caller_sleeps():
    """While the region is open: to look again and again would take the processor from the caller. When it is woken, the
    system may find a free processor for it.
    """
    done = run("""
        from relax.farm import worker
        from relax.farm.objects import machine_of
        from relax.codegen.support_texts import pool_text
        processor = min(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processor})
        caller, looks, ran = threading.get_ident(), [], []
        asks = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: looks.append(threading.get_ident()) or processor)
        native._symbols["sched_getcpu"] = ctypes.cast(asks, ctypes.c_void_p).value
        machine = machine_of(first.target)
        text = f'target triple = "{machine.triple}"\\n{pool_text(machine.triple)}'
        pool = native.load_object(worker.emit_object(text, machine))

        def body(*_):
            ran.append(threading.get_ident())
            while sleepers.value == 0:
                time.sleep(0.001)
            return 0

        launch(BODY(body), pool.address(threads.LAUNCH))
        assert ran == [caller] * 2, ran
        assert 1 <= len([thread for thread in looks if thread != caller]) <= 2, looks
        print("done")
        """, RELAX_NUM_THREADS="2")  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two processors"
)
def test_a_worker_sleeps_on_another_processor_than_the_caller():
    """There it begins at once when it is woken. A mask that the user gives it stays, less that processor."""
    done = run("""
        everywhere, before = os.sched_getaffinity(0), set(os.listdir("/proc/self/task"))
        a, b = sorted(everywhere)[:2]
        body = BODY(lambda *_: time.sleep(0.002) or 0)

        def becomes(mask, processors):
            "Whether the worker, after calls on these processors, sleeps with this mask: at last, if it is woken late."
            os.sched_setaffinity(0, processors)
            for _ in range(100):
                for _ in range(5):
                    launch(body)
                asleep(1)
                if os.sched_getaffinity(worker) == mask:
                    return True
            return False

        launch(body)
        worker, = (int(task) for task in os.listdir("/proc/self/task") if task not in before)
        for processor in (a, b, a):
            assert becomes(everywhere - {processor}, {processor})
        os.sched_setaffinity(worker, {a, b})
        assert becomes({a}, {b})
        os.sched_setaffinity(worker, {b})
        assert all(becomes({b}, {b}) for _ in range(3))
        print("done")
        """, RELAX_NUM_THREADS="2")  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_process_ends_while_other_threads_run_kernels():
    """Python 3.11 may abort when it ends daemon threads that are in C++, also without a pool; but nothing hangs."""
    done = run("""
        def forever():
            while True:
                first["rows"](a, np.zeros_like(a))
        for _ in range(3):
            threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.2)
        print("done")
        """, RELAX_NUM_THREADS="4")  # fmt: skip
    assert done.stdout == "done\n", done.stderr
    assert done.returncode in (0, -6)


@pytest.mark.skipif(sys.platform != "linux", reason="the pool has one thread there")
def test_loops_are_serial_for_a_time_after_a_worker_was_stopped(module):
    """A worker that takes long for a chunk, as one without a processor does, gets no more for a time."""
    launch = LAUNCHER(native._symbols[threads.LAUNCH])
    caller, ran = threading.get_ident(), list[int]()

    def body(_, begin, end):
        ran.append(threading.get_ident())
        time.sleep(0.0001 if threading.get_ident() == caller else 0.03)
        return 0

    entered = BODY(body)

    def alone():
        ran.clear()
        assert launch(ctypes.cast(entered, ctypes.c_void_p), None, 8, 1) == 0
        assert len(ran) == 8
        return set(ran) == {caller}

    runtime.set_num_threads(2)
    assert any(all(alone() for _ in range(5)) for _ in range(40))
    time.sleep(0.5)
    # On a busy machine the worker may be woken on the processor of the caller, which it leaves to that, for a while.
    assert any(not alone() or time.sleep(0.05) for _ in range(600)) or len(os.sched_getaffinity(0)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the pool has one thread there")
def test_a_thread_begins_with_a_part_of_its_own(module):
    """What a thread wrote in one loop over some rows it reads in the next."""
    launch = LAUNCHER(native._symbols[threads.LAUNCH])
    ran = [0] * 8
    data = bytes(8 << 20)

    def body(_, begin, end):
        ran[begin:end] = [threading.get_ident()] * (end - begin)
        hashlib.sha256(data)  # without the lock of the interpreter: threads that sleep may share a processor
        return 0

    def apart():
        assert launch(ctypes.cast(BODY(body), ctypes.c_void_p), None, 8, 1) == 0
        return len(set(ran[:4])) == len(set(ran[4:])) == 1 and ran[0] != ran[7]

    runtime.set_num_threads(2)
    # A thread that does not run for a while leaves chunks to the other.
    assert any(apart() or time.sleep(0.05) for _ in range(600)) or len(os.sched_getaffinity(0)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the pool has one thread there")
def test_a_negative_grain_is_serial_but_after_a_positive_one(module):
    launch = LAUNCHER(native._symbols[threads.LAUNCH])
    chunks: list[tuple[int, int, int]] = []

    def body(_, begin, end):
        chunks.append((begin, end, threading.get_ident()))
        time.sleep(0.01)
        return 0

    def apart(grain):
        chunks.clear()
        assert launch(ctypes.cast(BODY(body), ctypes.c_void_p), None, 8, grain) == 0
        assert sorted(chunk[:2] for chunk in chunks) == [(0, 2), (2, 4), (4, 6), (6, 8)]
        return len({thread for _, _, thread in chunks}) > 1

    def once_apart(grain):
        return any(apart(grain) or time.sleep(0.05) for _ in range(100)) or len(os.sched_getaffinity(0)) == 1

    runtime.set_num_threads(2)
    ctypes.c_int32.from_address(threads._memory() + STRUCTS["PoolState"].layout(64).offsets["lately"]).value = 0
    assert not any(apart(-2) for _ in range(10))
    assert any(once_apart(2) and apart(-2) for _ in range(10)) or len(os.sched_getaffinity(0)) == 1


def test_the_number_of_threads():
    runtime.set_num_threads(7)
    assert runtime.num_threads() == 7
    for wrong in (0, -1, 1025):
        with pytest.raises(ValueError, match=f"expected 1 to 1024 threads, found {wrong}"):
            runtime.set_num_threads(wrong)
    for other in (True, 2.0, "2"):
        with pytest.raises(TypeError, match="set_num_threads: expected an int"):
            runtime.set_num_threads(other)
    assert runtime.num_threads() == 7


@pytest.mark.parametrize("text", ["0", "x", "-1", "2000", "1.5"])
def test_a_wrong_variable_is_an_error(monkeypatch, text):
    monkeypatch.setenv(threads.VARIABLE, text)
    with pytest.raises(ValueError, match=f"RELAX_NUM_THREADS='{text}': expected a number of threads"):
        threads._default()


def test_the_default_is_the_processors_of_the_process(monkeypatch):
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    if hasattr(os, "sched_getaffinity"):
        assert threads._default() == len(os.sched_getaffinity(0))
    monkeypatch.setenv(threads.VARIABLE, "6")
    assert threads._default() == 6


def test_only_archives_with_parallel_loops_have_the_pool(module):
    @T.prim_func
    def serial(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = T.float32(1)

    assert len(read_archive(module.data).objects) == 5
    assert len(read_archive(codegen.build_module(serial).data).objects) == 2


def test_other_systems_run_the_same_chunks_on_the_calling_thread(module):
    """The pool of a system without futexes is a loop, which also runs here."""
    machine = machine_of(module.target)
    text = pool_text("x86_64-apple-darwin-elf")
    assert "pthread" not in text
    assert "syscall" not in text
    plain = load_object(worker.emit_object(f'target triple = "{machine.triple}"\n{text}', machine))
    runs = [LAUNCHER(plain.address(threads.LAUNCH)), LAUNCHER(native._symbols[threads.LAUNCH])]
    for count, grain in ((0, 1), (1, 1), (10, 3), (1000, 1), (1000, 17), (5, 100)):
        lists = []
        for run in runs:
            chunks: list[tuple[int, int]] = []
            body = BODY(lambda _, begin, end, chunks=chunks: chunks.append((begin, end)) or 0)
            assert run(ctypes.cast(body, ctypes.c_void_p), None, count, grain) == 0
            lists.append(sorted(chunks))
        assert lists[0] == lists[1]
        assert [i for begin, end in lists[0] for i in range(begin, end)] == list(range(count))
        assert len(lists[0]) <= 256
        assert all(end - begin >= min(grain, count) for begin, end in lists[0][:-1])
    begun: list[int] = []
    failing = BODY(lambda _, begin, end: begun.append(begin) or -(begin >= 20))
    assert runs[0](ctypes.cast(failing, ctypes.c_void_p), None, 100, 10) == -1
    assert begun == [0, 10, 20]


LAUNCHER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
BODY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@pytest.mark.parametrize("arch, clock", [("x86_64", "rdtsc"), ("aarch64", "CNTVCT_EL0")])
def test_the_pool_needs_only_the_c_library_and_tvm_ffi(arch, clock):
    """And a clock that any program may read, which the processor's cycle counter is not on AArch64."""
    machine = worker.LLVMTarget(f"{arch}-unknown-linux-gnu", "", "", 3)
    text = f'target triple = "{machine.triple}"\n{pool_text(machine.triple)}'
    assembly = worker.emit_assembly(text, machine)
    assert clock in assembly
    assert "PMCCNTR" not in assembly
    obj = parse_object(worker.emit_object(text, machine))
    assert plan_layout(obj).size > 0  # the loader knows all relocations
    needed = {name for name in undefined_symbols(obj) if "TVMFFI" not in name}
    assert needed == {
        threads.STATE, threads.LIMIT, "syscall", "sched_getcpu", "sched_getaffinity", "sched_setaffinity",
        "pthread_create", "pthread_detach", "pthread_sigmask",
    } | ({"memset", "memcpy"} & needed)  # fmt: skip
