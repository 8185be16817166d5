"""Time and memory: many sizes, many machines, many builds; what is used must come back."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import numpy as np
import pytest
from pitfall_helpers import machine

import relax
from relax.farm import cache
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), b: R.Tensor((), "bool")) -> R.Tensor(("n",), "float32"):
        n = T.int64()

        @R.function
        def f(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            return R.add(x, y)

        a = R.exp(x)
        t = (a, f)
        if b:
            r = f(a)
        else:
            r = R.multiply(a, a)
        return R.strided_slice(R.concat([r, t[0]], axis=0), [0], [0], [n])

    @R.function(pure=False)
    def fails(x: R.Tensor(("n",), "float32")) -> R.Object:
        a = R.exp(x)
        b = R.add(a, a)
        c = R.call_packed("pitfall.memory.fail", b)
        return c


@pytest.fixture(autouse=True)
def failing_function():
    def fail(x):
        raise ValueError("no")

    relax.register_func("pitfall.memory.fail", fail, override=True)


def resident() -> int:
    """Megabytes of this process in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 >> 20


linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")


def grows(step, rounds=4, count=50) -> int:
    """How many megabytes the least memory in use of some rounds is above that of as many before.

    Memory that is kept for the next tensors makes what is in use vary from one round to the next.
    """

    def in_use() -> int:
        for i in range(count):
            step(i)
        gc.collect()
        return resident()

    before = min(in_use() for _ in range(rounds))
    return min(in_use() for _ in range(rounds)) - before


@linux
def test_many_sizes_leave_nothing_behind():
    vm = machine(Module)
    sizes = iter(range(200_000, 10**9, 101))

    def step(i):
        x = np.ones(next(sizes), "float32")
        assert vm["main"](x, np.array(bool(i % 2))).shape == x.shape

    assert grows(step) < 16


@linux
def test_failing_calls_leave_nothing_behind():
    vm = machine(Module)
    sizes = iter(range(200_000, 10**9, 101))

    def step(_):
        with pytest.raises(ValueError, match="no"):
            vm["fails"](np.ones(next(sizes), "float32"))
        with pytest.raises(TypeError):
            vm["main"](np.ones(200_000, "float64"), np.array(True))

    assert grows(step) < 16


@linux
def test_machines_and_executables_leave_nothing_behind():
    executable = relax.build(Module, "llvm", params=None)
    x = np.ones(100_000, "float32")

    def step(_):
        vm = relax.VirtualMachine(executable)
        vm.save_function("main", "saved", x, np.array(True))
        vm["saved"]()
        vm.set_input("main", x, np.array(True))
        vm.invoke_stateful("main")

    assert grows(step) < 16


@linux
def test_building_leaves_little_behind():
    def step(i):
        relax.VirtualMachine(machine_of(i))["main"](np.ones((2, 3), "float32"))

    assert grows(step, rounds=3, count=8) < 24


def machine_of(i):
    weights = np.full((500, 500), i, "float32")

    @I.ir_module
    class Big:
        @R.function
        def main(x: R.Tensor(("n", 3), "float32")) -> R.Tensor((), "float32"):
            return R.add(R.sum(R.const(weights)), R.sum(x))

    return relax.build(Big, "llvm")


def test_one_build_serves_every_size(monkeypatch, tmp_path):
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path))  # which no other test fills meanwhile
    vm = machine(Module)
    before = len(cache.entries())
    assert before > 0
    for n in range(40):
        x = np.linspace(0, 1, n, dtype="float32")
        for b in (True, False):
            wanted = x + np.exp(x) if b else np.exp(x) ** 2
            np.testing.assert_allclose(vm["main"](x, np.array(b)).numpy(), wanted, rtol=1e-5)
    assert len(cache.entries()) == before


def test_threads_share_a_machine():
    vm = machine(Module)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = rng.random(int(rng.integers(0, 2000)), dtype="float32")
            found = vm["main"](x, np.array(True)).numpy()
            if not np.allclose(found, x + np.exp(x), rtol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
