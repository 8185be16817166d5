"""Subnormal numbers: kept by default, taken for zeros where a thread asks for it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import relax
from relax import runtime
from relax.runtime import float_mode
from relax.script import relax as R


@R.function
def scaled(x: R.Tensor(("n",), "float32")):
    return R.multiply(x, R.const(0.5, "float32"))


TINY = np.full(100_000, 2.0**-126, "float32")  # many: every thread of the pool has some


@pytest.fixture
def run():
    machine = relax.VirtualMachine(relax.build(scaled), relax.cpu())
    yield lambda: machine["scaled"](TINY).numpy()
    runtime.set_flush_denormals(False)


@pytest.fixture
def supported():
    if not runtime.set_flush_denormals(False):
        pytest.skip("the mode cannot be set on this system")


def test_subnormal_numbers_are_kept(run):
    np.testing.assert_array_equal(run(), np.full(100_000, 2.0**-127, "float32"))


def test_they_are_zeros_in_the_thread_that_asks(run, supported):
    before, count = run(), runtime.num_threads()
    assert runtime.set_flush_denormals(True)
    try:
        for threads in (1, 4):
            runtime.set_num_threads(threads)
            assert not run().any()
    finally:
        runtime.set_num_threads(count)
    assert runtime.set_flush_denormals(False)
    np.testing.assert_array_equal(run(), before)


def test_other_threads_keep_their_mode(run, supported):
    asked, seen = threading.Event(), []

    def other():
        asked.wait(60)
        seen.append(run().all())  # a comparison with zero, which depends on the mode too

    thread = threading.Thread(target=other)
    thread.start()
    runtime.set_flush_denormals(True)
    asked.set()
    thread.join()
    assert seen == [True]
    assert not run().any()


def test_a_system_without_it_says_so(monkeypatch):
    monkeypatch.setattr(float_mode.platform, "machine", lambda: "riscv64")
    assert runtime.set_flush_denormals(True) is False


def test_the_mode_is_a_bool():
    with pytest.raises(TypeError, match=r"^set_flush_denormals: expected a bool, found int$"):
        runtime.set_flush_denormals(1)
