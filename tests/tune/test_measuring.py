"""Measurement in a process of its own: what a candidate does there ends nothing else."""

from __future__ import annotations

import pytest
from tuned_kernels import PATIENT, TARGET, backwards, doubled, product, variant

from relax import te
from relax.schedules import PackedFunction, schedule
from relax.schedules.cpu import RULES
from relax.script import tir as T
from relax.tune import measuring
from relax.tune.candidates import Candidates
from relax.tune.kernels import Kernel, NotTunable, with_sizes
from relax.tune.measuring import Conditions, Measurement, Measurer


def measurer_of_doubled(conditions=PATIENT):
    return Measurer(Kernel("doubled", doubled), variant(doubled), TARGET, conditions)


@pytest.fixture(scope="module")
def measurer():
    with measurer_of_doubled() as one:
        yield one


@T.prim_func
def wrong(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(1000):
        B[i] = T.Select(i == 7, T.float32(0), A[i] * T.float32(2))


@T.prim_func
def crashing(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    T.evaluate(T.call_extern("int32", "abort"))


@T.prim_func
def hanging(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    T.evaluate(T.call_extern("int32", "sleep", 1000))


@T.prim_func
def greedy(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    for _ in range(1):
        C = T.alloc_buffer((1 << 33,), "float32")
        for i in range(1000):
            C[i * 1000000] = A[i] * T.float32(2)
        for i in range(1000):
            B[i] = C[i * 1000000]


@T.prim_func
def slow(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    for _ in range(300):
        for i in range(1000):
            B[i] = T.sqrt(A[i] * T.float32(4) * A[i]) * T.Select(A[i] < T.float32(0), T.float32(-1), T.float32(1))


def test_pairs_of_samples(measurer):
    result = measurer.measure(b"backwards", variant(backwards), 4)
    assert isinstance(result, Measurement)
    assert [len(pairs) for pairs in result.warm] == [4]
    assert [len(pairs) for pairs in result.cold] == [1]
    assert all(ours > 0 and theirs > 0 for ours, theirs in result.warm[0])


def test_a_slow_candidate_is_measured_once(measurer):
    result = measurer.measure(b"slow", variant(slow), 8)
    assert [len(pairs) for pairs in result.warm] == [1]
    assert result.gain < 0
    assert not result.exceeds(0.0)


def test_a_wrong_result(measurer):
    result = measurer.measure(b"wrong", variant(wrong), 2)
    assert result.reason.startswith("wrong result: at [7] it computes 0.0, not ")
    assert measurer.lost == 0


def test_a_candidate_that_does_not_compile(measurer):
    result = measurer.measure(b"other", variant(doubled.with_attr("unknown", 1)), 2)
    assert "code generation does not know the function attribute unknown" in result.reason


def test_a_crashing_candidate_ends_its_own_process(measurer):
    lost = measurer.lost
    assert measurer.measure(b"crashing", variant(crashing), 2).reason == "it ended its process with -6"
    assert measurer.lost == lost + 1
    assert isinstance(measurer.measure(b"backwards", variant(backwards), 2), Measurement)  # by another process


def test_a_hanging_candidate_is_ended():
    with measurer_of_doubled(Conditions(seconds=2.0)) as measurer:
        assert measurer.measure(b"hanging", variant(hanging), 2).reason == "it did not end within 2 s"
        assert measurer.lost >= 1


def test_an_interrupt_at_the_start_ends_the_process(monkeypatch):
    started = []

    class Interrupted(measuring._Process):
        def asked(self, request, seconds):
            started.append(self._process)
            raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "_Process", Interrupted)
    with pytest.raises(KeyboardInterrupt), measurer_of_doubled():
        pass
    assert [process.returncode is not None for process in started] == [True]


def test_a_candidate_that_takes_too_much_memory(measurer):
    reason = measurer.measure(b"greedy", variant(greedy), 2).reason
    assert "memory" in reason.lower() or "ended its process" in reason


def test_results_are_compared_beside_the_sizes_that_are_measured():
    kernel = with_sizes(Kernel("product", product(rows=te.var("n", "int64"))), [{"n": 16}])
    assert kernel.sizes == ({"n": 16},)
    assert kernel.edges() == ({"n": 17}, {"n": 15}, {"n": 1})
    good = schedule(kernel.func, TARGET, RULES)

    @T.prim_func
    def only_whole_tiles(a: T.handle, B: T.Buffer((40, 64), "float32"), c: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        A = T.match_buffer(a, (n, 40), "float32")
        C = T.match_buffer(c, (n, 64), "float32")
        for i, j in T.grid(n // 4 * 4, 64):
            C[i, j] = T.float32(0)
            for k in range(40):
                C[i, j] = C[i, j] + A[i, k] * B[k, j]

    with Measurer(kernel, variant(good), TARGET, PATIENT) as one:
        result = one.measure(b"", variant(only_whole_tiles), 2)
    assert result.reason.startswith("wrong result for n=17: at [16, 0] it computes ")


def test_a_kernel_without_random_arguments():
    @T.prim_func
    def of_handles(A: T.Buffer((4,), "handle"), B: T.Buffer((4,), "handle")):
        for i in range(4):
            B[i] = A[i]

    with pytest.raises(NotTunable, match="there are no random values of handle"):
        Measurer(Kernel("f", of_handles), variant(of_handles), TARGET, PATIENT).__enter__()


def test_constants_are_packed_there_whatever_packs_them():
    """Also by a function that no other process can be given."""
    kernel = with_sizes(Kernel("product", product(rows=te.var("n", "int64")), (1,)), [{"n": 16}])
    default = Candidates(kernel, TARGET, RULES).default.variant
    (packing,) = default.packings.values()
    right = PackedFunction(default.func, {1: lambda array: packing(array)})
    turned = PackedFunction(default.func, {1: lambda array: packing(array[::-1])})
    with Measurer(kernel, default, TARGET, PATIENT) as one:
        assert isinstance(one.measure(b"right", right, 2), Measurement)
        assert one.measure(b"turned", turned, 2).reason.startswith("wrong result for n=16: at ")
