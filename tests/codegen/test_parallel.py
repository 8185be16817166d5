"""Parallel loops as calls of the thread pool: captures, ranges, chunks by estimated work, deployment."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

import relax
from relax import codegen, runtime, tir
from relax.codegen.module import kernel_texts
from relax.farm import worker
from relax.farm.objects import machine_of
from relax.ir import DiagnosticError
from relax.runtime import native
from relax.runtime.threads import LAUNCH
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.target import Target
from support import interpreted, same

MANY = Target("llvm -num-cores=8")


@pytest.fixture(autouse=True)
def threads():
    before = runtime.num_threads()
    runtime.set_num_threads(4)
    yield
    runtime.set_num_threads(before)


def text_of(func):
    return codegen.build_module(func, MANY).get_source("ll")


def check(func, *args, module=None):
    """Compiled code, on one thread and on four, and the interpreter agree."""
    built = codegen.build_module(func if module is None else module, MANY)
    name = func.attrs.get("global_symbol", "main")
    exact = interpreted(func, *args, module=module)
    for count in (1, 4):
        runtime.set_num_threads(count)
        compiled = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        built[name](*compiled)
        same(compiled, exact)


@pytest.mark.parametrize("n, m", [(0, 3), (1, 1), (5, 7), (64, 2048), (1000, 100), (3, 0)])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_captures(n, m, dtype):
    """Buffers of symbolic sizes, a view, scalars of several dtypes, and storage of an iteration's own."""

    @T.prim_func
    def f(a: T.handle, b: T.handle, scale: T.float32, shift: T.int8, flip: T.bool):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n, m), "float32")
        flat = T.decl_buffer((n * m,), data=A.data)
        for i in T.parallel(T.Cast(dtype, n)):
            row = T.alloc_buffer((m,), "float32")
            for j in range(m):
                row[j] = flat[i * m + j] * scale
            for j in range(m):
                B[i, j] = T.Select(flip, T.float32(0) - row[j], row[j]) + T.Cast("float32", shift)

    a = np.random.default_rng(n).integers(-9, 9, (n, m)).astype("float32")
    check(f, a, np.zeros_like(a), 0.5, -3, True)


def test_a_small_loop_stays_serial():
    @T.prim_func
    def small(A: T.Buffer((64, 64), "float32")):
        for i in T.parallel(64):
            for j in range(64):
                A[i, j] = A[i, j] + T.float32(1)

    @T.prim_func
    def large(A: T.Buffer((128, 512), "float32")):
        for i in T.parallel(128):
            for j in range(512):
                A[i, j] = A[i, j] + T.float32(1)

    assert LAUNCH not in text_of(small)
    assert LAUNCH in text_of(large)
    check(small, np.ones((64, 64), "float32"))
    check(large, np.ones((128, 512), "float32"))


def test_a_prefetch_is_little_work():
    @T.prim_func
    def asked(A: T.Buffer((64, 64), "float32")):
        for i in T.parallel(64):
            for j in range(64):
                T.prefetch(A[i, j + 16])
                A[i, j] = A[i, j] + T.float32(1)

    assert LAUNCH not in text_of(asked)
    check(asked, np.ones((64, 64), "float32"))


def test_the_work_of_vectors_counts_by_instructions():
    """As many elements as in the large loop above: one instruction each sixteen."""

    @T.prim_func
    def vectors(A: T.Buffer((128, 256), "float32")):
        for i in T.parallel(128):
            for j in range(16):
                for x in T.vectorized(16):
                    A[i, j * 16 + x] = A[i, j * 16 + x] + T.float32(1)

    assert LAUNCH not in text_of(vectors)
    check(vectors, np.ones((128, 256), "float32"))


@pytest.fixture
def regions(monkeypatch):
    """The parallel regions that kernels enter, each as (iterations, least iterations of a chunk); run serially."""
    entered: list[tuple[int, int]] = []

    def launch(body, captures, count, grain):
        entered.append((count, grain))
        return REGION(body)(captures, 0, count)

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    entry = kind(launch)
    monkeypatch.setitem(native._symbols, LAUNCH, ctypes.cast(entry, ctypes.c_void_p).value)
    yield entered
    del entry


REGION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def test_symbolic_work_is_estimated_when_the_loop_runs(regions):
    """The size of the inner loop decides: a loop of little work is one chunk."""

    @T.prim_func
    def f(a: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        for i in T.parallel(n):
            for j in range(m):
                A[i, j] = A[i, j] + T.float32(1)

    built = codegen.build_module(f, MANY)
    for m in (4, 1 << 16):
        a = np.zeros((64, m), "float32")
        built["f"](a)
        assert (a == 1).all()
    assert regions == [(64, 64), (64, 1)]


@pytest.mark.parametrize("n, grain", [(0, 4), (1, 4), (5, 4), (15, -1), (16 * 40, 1), (16 * 40 + 3, 1)])
def test_sizes_that_are_bound_on_the_way_count_as_they_are(regions, n, grain):
    """Tiles of 16 rows, and a tail. A row is 3072 operations: those of a tail of 5 are too few for several threads."""

    @T.prim_func
    def f(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 1024), "float32")
        for task in T.parallel(4):
            share: T.int64 = (n // 16 + 3) // 4
            begin: T.int64 = T.min(task * share, n // 16)
            tiles: T.int64 = T.min(begin + share, n // 16) - begin
            tail: T.int64 = T.Select(task == 2, n % 16, T.int64(0))
            for io in range(tiles):
                for r, j in T.grid(16, 1024):
                    A[(begin + io) * 16 + r, j] = A[(begin + io) * 16 + r, j] + T.float32(1)
            if tail > 0:
                for r, j in T.grid(tail, 1024):
                    A[n - tail + r, j] = A[n - tail + r, j] + T.float32(1)

    a = np.zeros((n, 1024), "float32")
    codegen.build_module(f, MANY)["f"](a)
    assert (a == 1).all()
    assert regions == [(4, grain)]


def test_the_work_of_a_triangle_is_that_of_its_middle(regions):
    @T.prim_func
    def f(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, n), "float32")
        for i in T.parallel(n):
            for j in range(i + 1):
                A[i, j] = A[i, j] + T.float32(1)

    built, work = codegen.build_module(f, MANY), []
    for n in (100, 1000):
        a = np.zeros((n, n), "float32")
        built["f"](a)
        assert (a == np.tri(n)).all()
        ((count, grain),) = regions
        regions.clear()
        work.append((count, grain))
    assert work == [(100, 100), (1000, 12)]  # 3 operations an element: 51 elements a row are little, 501 are not


def test_a_branch_counts_if_it_is_taken(regions):
    @T.prim_func
    def f(a: T.handle, b: T.handle, wide: T.int64):
        n = T.int64()
        A = T.match_buffer(a, (n, 4096), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in T.parallel(n):
            if wide > 3:
                for j in range(4096):
                    A[i, j] = A[i, j] + T.float32(1)
            else:
                B[i] = B[i] + T.float32(1)

    built = codegen.build_module(f, MANY)
    for wide, grain in ((3, 16), (4, -2)):
        a, b = np.zeros((16, 4096), "float32"), np.zeros(16, "float32")
        built["f"](a, b, wide)
        assert ((a == (wide > 3)).all(), (b == (wide <= 3)).all()) == (True, True)
        assert regions.pop() == (16, grain)


@pytest.mark.parametrize("m, entered", [(4, [(2, 2), (8, 8), (8, 8)]), (4096, [(2, -1), (8, -2), (8, -2)])])
def test_a_loop_that_stays_parallel_counts_with_its_iterations(regions, m, entered):
    """The loop around it is split if the work of both is enough."""

    @T.prim_func
    def f(a: T.handle):
        m = T.int64()
        A = T.match_buffer(a, (2, 8, m), "float32")
        for i in T.parallel(2):
            width: T.int64 = m
            for j in T.parallel(8, annotations={"tir.stays_parallel": True}):
                for k in range(width):
                    A[i, j, k] = A[i, j, k] + T.float32(1)

    a = np.zeros((2, 8, m), "float32")
    codegen.build_module(f, MANY)["f"](a)
    assert (a == 1).all()
    assert regions == entered


@pytest.mark.parametrize("depth, grain", [(4, -4), (40, 1)])
def test_a_loop_of_little_work_for_what_it_stores_has_a_negative_grain(regions, depth, grain):
    """What is stored in memory of an iteration's own does not count."""

    @T.prim_func
    def sums(a: T.handle, b: T.handle):
        n, d = T.int64(), T.int64()
        A = T.match_buffer(a, (n, d), "float32")
        B = T.match_buffer(b, (n, 256), "float32")
        for i in T.parallel(n):
            for j in range(256):
                total = T.alloc_buffer((1,), "float32")
                total[0] = T.float32(0)
                for k in range(d):
                    total[0] = total[0] + A[i, k]
                B[i, j] = total[0]

    b = np.zeros((16, 256), "float32")
    codegen.build_module(sums, MANY)["sums"](np.ones((16, depth), "float32"), b)
    assert (b == depth).all()
    assert regions == [(16, grain)]


def test_functions_that_are_an_instruction_count_as_one(regions):
    """Of 16 lanes: a multiply-add of vectors is no exponential."""

    @T.prim_func
    def f(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 16), "float32")
        for i in T.parallel(n):
            x: T.float32x16 = A[i, T.Ramp(0, 1, 16)]
            A[i, T.Ramp(0, 1, 16)] = T.fma(x, x, T.fma(x, x, T.fma(x, x, x)))

    a = np.ones((1000, 16), "float32")
    codegen.build_module(f, MANY)["f"](a)
    assert (a == 4).all()
    assert regions == [(1000, 1000)]


def test_sizes_known_when_compiling_are_no_code():
    """Bound sizes of a static loop make its work a number: whether it is split is known."""

    @T.prim_func
    def f(A: T.Buffer((64, 64), "float32")):
        for i in T.parallel(4):
            begin: T.int64 = T.Cast("int64", i) * 16
            rows: T.int64 = T.min(begin + 16, 64) - begin
            for r, j in T.grid(rows, 64):
                A[begin + r, j] = A[begin + r, j] + T.float32(1)

    assert LAUNCH not in text_of(f)
    check(f, np.ones((64, 64), "float32"))


def test_an_estimate_divides_by_nothing(regions):
    """The loop does not run, so that its division is no error; nor is it one in the estimate."""

    @T.prim_func
    def f(a: T.handle, parts: T.int64):
        n = T.int64()
        A = T.match_buffer(a, (n, 64), "float32")
        for i in T.parallel(n):
            for j in range(64 // parts):
                A[i, j] = T.float32(1)

    built = codegen.build_module(f, MANY)
    for parts in (0, -1, -(2**63)):
        built["f"](np.zeros((0, 64), "float32"), parts)
    assert len(regions) == 3
    with pytest.raises(ZeroDivisionError, match="f: integer division by zero"):
        built["f"](np.zeros((1, 64), "float32"), 0)


def test_a_range_that_does_not_begin_at_0():
    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.Buffer((100,), "int32")):
            T.parallel_for(Module.part(T.int64(10), T.int64(90), A.data, T.int32(7)), 1)

        @T.prim_func(private=True)
        def part(begin: T.int64, end: T.int64, A: T.Buffer((100,), "int32"), x: T.int32):
            for i in range(end - begin):
                A[begin + i] = A[begin + i] + x

    check(Module["main"], np.arange(100, dtype="int32"), module=Module)


def test_two_loops_and_an_error_in_the_first():
    @T.prim_func
    def f(A: T.Buffer((64, 1024), "int32"), B: T.Buffer((64, 1024), "int32"), d: T.int32):
        for i in T.parallel(64):
            for j in range(1024):
                A[i, j] = j // (d - i)
        for i in T.parallel(64):
            for j in range(1024):
                B[i, j] = A[i, j] + 1

    zeros = np.zeros((64, 1024), "int32")
    check(f, zeros, zeros.copy(), 100)
    b = zeros.copy()
    with pytest.raises(ZeroDivisionError, match="f: "):
        codegen.build_module(f, MANY)["f"](zeros.copy(), b, 5)
    assert not b.any()


def test_a_loop_bound_to_gpu_threads_is_refused():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        for i in T.thread_binding(8, thread="threadIdx.x"):
            A[i] = T.float32(1)

    with pytest.raises(DiagnosticError) as caught:
        codegen.build_module(f)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E5906"
    assert diagnostic.message == "loop i is bound to a GPU's threads; the target is a CPU"
    assert diagnostic.hint == "make it T.serial or T.parallel"


DEPLOYED = """
import sys
sys.modules["llvmlite"] = None  # a deployed model has no compiler
import numpy as np
from relax import runtime
vm = runtime.VirtualMachine(runtime.load_executable(sys.argv[1]), runtime.cpu())
runtime.set_num_threads(4)
x = np.ones((512, 512), "float32")
assert (vm["main"](runtime.nd.array(x)).numpy() == 3).all()
print(runtime.num_threads())
"""


def test_a_deployed_model_has_its_pool(tmp_path):
    @I.ir_module
    class Model:
        @T.prim_func(private=True)
        def add(A: T.Buffer((512, 512), "float32"), B: T.Buffer((512, 512), "float32")):
            for i in T.parallel(512):
                for j in range(512):
                    B[i, j] = A[i, j] + T.float32(2)

        @R.function
        def main(x: R.Tensor((512, 512), "float32")):
            cls = Model
            with R.dataflow():
                y = R.call_tir(cls.add, (x,), R.Tensor((512, 512), "float32"))
                R.output(y)
            return y

    path = str(tmp_path / "model.rlx")
    relax.build(Model, MANY).save(path)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", DEPLOYED, path], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr


def test_the_body_is_vectorised_in_its_region():
    @T.prim_func
    def f(A: T.Buffer((128, 512), "float32"), B: T.Buffer((1024, 1024), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(128):
            for j in range(512):
                B[i, j] = A[i, j] * T.float32(3)

    target = codegen.resolve("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -num-cores=4")
    lowered = tir.lower(relax.IRModule({"f": f}), target)
    (kernel,) = kernel_texts({g.name_hint: func for g, func in lowered.items()}, target)
    assembly = worker.emit_assembly(kernel.text, machine_of(target))
    assert "vmulps" in assembly
    assert "ymm" in assembly
