"""Functions that call themselves or each other run as machine code, and do what bytecode does at any depth."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import pytest

import relax
from relax.runtime import register_func
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import MODES, PLAIN_LOOPS, plain_machine

DEEP = 4_000
"""Far more calls than fit on the stack as machine code."""


@register_func("test.recursion.bottom", override=True)
def bottom(x):
    if x.shape[0] == 3:
        raise KeyError("no bottom")
    return x


@I.ir_module
class Sums:
    @R.function
    def main(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        return Sums.sum(n)

    @R.function(private=True)
    def sum(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        stop = R.less(n, R.const(1, "int64"))
        if stop:
            y = R.const(0, "int64")
        else:
            z = Sums.sum(R.subtract(n, R.const(1, "int64")))
            y = R.add(n, z)
        return y

    @R.function
    def loop(n: R.Tensor((), "int64"), total: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        stop = R.less(n, R.const(1, "int64"))
        if stop:
            y = total
        else:
            y = Sums.loop(R.subtract(n, R.const(1, "int64")), R.add(total, n))
        return y

    @R.function
    def even(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        stop = R.less(n, R.const(1, "int64"))
        if stop:
            y = R.const(True)
        else:
            z = Sums.odd(R.subtract(n, R.const(1, "int64")))
            y = R.logical_and(z, R.const(True))
        return y

    @R.function
    def odd(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        stop = R.less(n, R.const(1, "int64"))
        if stop:
            y = R.const(False)
        else:
            y = Sums.even(R.subtract(n, R.const(1, "int64")))
        return y

    @R.function(pure=False)
    def fails(x: R.Tensor(("k",), "float32"), n: R.Tensor((), "int64")) -> R.Tensor(("k",), "float32"):
        k = T.int64()
        stop = R.less(n, R.const(1, "int64"))
        if stop:
            y = R.call_packed("test.recursion.bottom", x, sinfo_args=R.Tensor((k,), "float32"))
        else:
            z = Sums.fails(R.add(x, x), R.subtract(n, R.const(1, "int64")))
            y = R.add(z, x)
        return y


@pytest.fixture(scope="module")
def executables():
    return {mode: relax.build(Sums, PLAIN_LOOPS, exec_mode=mode) for mode in MODES}


def machines(executables, **options):
    return {mode: relax.VirtualMachine(ex, relax.cpu(), **options) for mode, ex in executables.items()}


def outcome(call):
    """The value of a call, or its error with the notes."""
    try:
        return np.asarray(call()).tolist()
    except Exception as error:  # noqa: BLE001
        return type(error), str(error), "\n".join(getattr(error, "__notes__", []))


def number(n):
    return np.array(n, "int64")


def test_functions_that_call_themselves_are_compiled(executables):
    assert executables["compiled"].compiled_functions == ["main", "sum", "loop", "even", "odd", "fails"]


@pytest.mark.parametrize("n", [0, 1, 7, DEEP])
def test_values_are_those_of_bytecode(executables, n):
    vm = machines(executables)["compiled"]
    assert int(vm["main"](number(n)).numpy()) == n * (n + 1) // 2
    assert int(vm["loop"](number(n), number(5)).numpy()) == n * (n + 1) // 2 + 5
    assert bool(vm["even"](number(n)).numpy()) == (n % 2 == 0)


@pytest.mark.parametrize(("limit", "n"), [(0, 1), (5, 5), (5, 6), (5, 50), (2000, DEEP)])
def test_a_limit_of_depth_is_that_of_bytecode(executables, n, limit):
    vms = machines(executables, max_depth=limit)
    for name in ("main", "even"):
        calls = {mode: outcome(lambda main=vm[name]: main(number(n))) for mode, vm in vms.items()}
        assert calls["compiled"] == calls["bytecode"]
    # A call at the end of a function is no deeper, in either mode.
    assert {outcome(lambda vm=vm: vm["loop"](number(50), number(0))) for vm in vms.values()} == {1275}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take notes from Python 3.11 on")
def test_the_error_of_too_many_calls(executables):
    vm = machines(executables, max_depth=900)["compiled"]
    with pytest.raises(RecursionError, match=r"^sum: more than 900 calls are under way; VirtualMachine") as info:
        vm["main"](number(DEEP))
    lines = "\n".join(info.value.__notes__).splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("  in Relax function sum (")
    assert lines[-1] == "… and 892 more calls"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take notes from Python 3.11 on")
@pytest.mark.parametrize("n", [0, 3, 20, 3000])
def test_errors_are_those_of_bytecode(executables, n):
    found = [
        outcome(lambda vm=vm: vm["fails"](np.ones(3, "float32"), number(n))) for vm in machines(executables).values()
    ]
    assert found[0][0] is not float  # an error, not a value
    assert found[0] == found[1]


def test_an_error_far_down_releases_everything(executables):
    vm = machines(executables)["compiled"]
    x = np.ones(3, "float32")
    gc.collect()
    before = sys.getrefcount(x)
    for n in (2, 3000):
        with pytest.raises(KeyError, match="no bottom"):
            vm["fails"](x, number(n))
    gc.collect()
    assert sys.getrefcount(x) == before
    assert vm.memory_stats().in_use == 0


@pytest.mark.parametrize("kib", [128, 256, 512])
def test_depth_is_that_of_a_thread(executables, kib):
    main = machines(executables)["compiled"]["main"]
    sums = []
    old = threading.stack_size(kib * 1024)  # small ones
    try:
        threads = [threading.Thread(target=lambda: sums.append(int(main(number(3000)).numpy()))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        threading.stack_size(old)
    assert sums == [3000 * 3001 // 2] * 3


@I.ir_module
class Doubled:
    @R.function
    def main(n: R.Prim("int64"), t: R.Object) -> R.Object:
        k = T.int64()
        _ = R.match_cast(n, R.Prim(value=k))
        if R.prim_value(k > 0):
            r = Doubled.main(R.prim_value(k - 1), (t, t))
        else:
            r = t
        return r


@pytest.mark.parametrize("n", [0, 1, 60, DEEP])
@pytest.mark.parametrize("mode", MODES)
def test_tuples_that_are_passed_on_are_not_gone_through(mode, n):
    """There are 2**n ways to the innermost value."""
    vm = plain_machine(Doubled, mode)
    result, depth = vm["main"](n, (1,)), 0
    while len(result) == 2:
        assert result[0] is result[1]
        result, depth = result[0], depth + 1
    assert (result, depth) == ((1,), n)
