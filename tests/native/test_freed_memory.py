"""Memory of large tensors that died: used again by those that compiled functions make next, bounded, given back."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

import relax
from relax.codegen.support.cells.freed_memory import LEAST_KEPT
from relax.runtime.allocator import PATIENCE
from relax.runtime.compiled import give_back
from relax.script import ir as I
from relax.script import relax as R

FLOATS = LEAST_KEPT // 4
HEAD = 1 << 10
"""More than the bytes of a tensor object without its elements."""


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        with R.dataflow():
            y = R.exp(x)
            z = R.negative(x)
            R.output(y, z)
        return y, z


@pytest.fixture(scope="module")
def vm():
    return relax.VirtualMachine(relax.build(Module, "llvm"))


@pytest.fixture(autouse=True)
def nothing_kept(vm):
    give_back()


def zeros(n: int) -> relax.nd.NDArray:
    return relax.nd.array(np.zeros(n, "float32"))


def places(results) -> set[int]:
    return {np.from_dlpack(result).ctypes.data for result in results}


def test_memory_of_results_that_died_is_used_again(vm):
    x = zeros(4 * FLOATS)
    first = places(vm["main"](x))
    assert len(first) == 2
    for _ in range(5):
        assert places(vm["main"](x)) == first


def test_memory_of_results_that_live_is_not(vm):
    x = relax.nd.array(np.full(4 * FLOATS, 2.0, "float32"))
    alive = vm["main"](x)
    other = vm["main"](zeros(4 * FLOATS))
    assert not places(alive) & places(other)
    np.testing.assert_allclose(alive[0].numpy(), np.exp(np.float32(2)), 1e-6)
    assert (other[0].numpy() == 1).all()


def test_results_that_grow_a_little_fit_into_what_is_kept(vm):
    used = {frozenset(places(vm["main"](zeros(8 * FLOATS + 100 * step)))) for step in range(1, 41)}
    assert len(used) <= 3


def test_small_results_are_not_kept(vm):
    for n in (0, 1, 100, FLOATS - HEAD):
        vm["main"](zeros(n))
    assert give_back() == 0


@pytest.mark.parametrize("n", [FLOATS, 5 * FLOATS, 33 * FLOATS + 1])
def test_what_is_kept_is_given_back(vm, n: int):
    vm["main"](zeros(n))
    bytes_kept = give_back()
    assert 2 * 4 * n <= bytes_kept <= 2 * (4 * n + HEAD) * 17 // 16
    assert give_back() == 0
    vm["main"](zeros(n))
    vm.release_memory()
    assert give_back() == 0


def test_no_more_is_kept_than_was_in_use_at_once(vm):
    """Sizes apart from each other do not add up: the memory of each goes before that of the next comes."""
    for n in (40 * FLOATS, 2 * FLOATS, 20 * FLOATS, 5 * FLOATS, 10 * FLOATS, 30 * FLOATS):
        vm["main"](zeros(n))
    assert give_back() <= 2 * (4 * 40 * FLOATS + HEAD) * 17 // 16


def test_memory_that_many_requests_pass_over_goes(vm):
    vm["main"](zeros(40 * FLOATS))
    for _ in range(PATIENCE):
        vm["main"](zeros(FLOATS))
    assert give_back() <= 4 * (4 * FLOATS + HEAD)


def test_steady_calls_touch_no_new_memory(vm):
    resource = pytest.importorskip("resource")
    x = zeros(12 * FLOATS)  # too little for large pages
    vm["main"](x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        vm["main"](x)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 12 * (LEAST_KEPT >> 12)


def test_threads_never_get_the_same_memory(vm):
    wrong: list[object] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        held: list[tuple[float, relax.nd.NDArray]] = []
        for _ in range(60):
            n, value = FLOATS * chance.randrange(1, 5), float(seed * 1000 + chance.randrange(1000))
            held.append((value, vm["main"](relax.nd.array(np.full(n, -value, "float32")))[1]))
            if len(held) > 3:
                expected, result = held.pop(chance.randrange(len(held)))
                if not (result.numpy() == expected).all():
                    wrong.append((seed, expected))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
