"""Section 7.2: what an optimiser may do, and what it must leave alone.

Each program runs as it is written (interpreter) and after the whole pipeline (bytecode); where the compiler may do less
than the program says, the test says so.
"""

from __future__ import annotations

import numpy as np
import pytest
from programs import floats, i64, machine, ones, packed, truth

import relax

seen: list[object] = []


@pytest.fixture(autouse=True)
def nothing_seen():
    seen.clear()


@packed("language.opt.note")
def _note(value):
    seen.append(value if isinstance(value, (int, str)) else value.numpy().tolist())


@packed("language.opt.increment")
def _increment(tensor):
    tensor.copyfrom(tensor.numpy() + 1)


@packed("language.opt.pure")
def _pure(tensor):
    seen.append("pure")
    return relax.nd.array(tensor.numpy() + 1)


def test_effects_outside_are_neither_dropped_nor_doubled(run):
    """Outside a dataflow block effects stay as they are: the same ones, as often, in order."""
    program = """
    @R.function(pure=False)
    def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        R.call_packed("language.opt.note", x)
        R.call_packed("language.opt.note", x)
        y = R.add(x, x)
        R.call_packed("language.opt.note", y)
        R.call_packed("language.opt.note", x)
        return y
    """
    run(program, "main", floats(1))
    assert seen == [[1], [1], [2], [1]]


def test_errors_outside_stay(run):
    """Outside a dataflow block errors stay as they are, even where nobody uses the value."""
    program = """
    @R.function
    def main(x: R.Tensor((), "int64"), y: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor((), "int64"):
        {}
        return x
    """
    with pytest.raises(ZeroDivisionError):
        run(program.format('unused = R.floor_divide(R.const(1, "int64"), x)'), "main", i64(0), ones(1))
    with pytest.raises(ValueError, match="match_cast of y: dimension 0 is 1, expected 2"):
        run(program.format('unused = R.match_cast(y, R.Tensor((2,), "float32"))'), "main", i64(0), ones(1))


def test_errors_and_effects_keep_their_order(run):
    """Outside a dataflow block the order of errors and effects stays."""
    program = """
    @R.function(pure=False)
    def main(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        R.call_packed("language.opt.note", R.str("before"))
        y = R.floor_divide(R.const(1, "int64"), x)
        R.call_packed("language.opt.note", R.str("after"))
        return y
    """
    with pytest.raises(ZeroDivisionError):
        run(program, "main", i64(0))
    assert seen == ["before"]


def test_a_dataflow_block_may_become_more_defined():
    """Inside a dataflow block unused pure calls and MatchCasts may be removed: the compiled program is more defined."""
    program = """
    @R.function
    def main(x: R.Tensor((), "int64"), y: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor((), "int64"):
        with R.dataflow():
            unused = R.floor_divide(R.const(1, "int64"), x)
            cast = R.match_cast(y, R.Tensor((2,), "float32"))
            z = R.add(x, x)
            R.output(z)
        return z
    """
    assert machine(program)["main"](i64(0), ones(1)).numpy() == 0


def test_a_dataflow_block_is_never_less_defined(run):
    """Inside a dataflow block programs are made more defined, never less: what ran still runs."""
    program = """
    @R.function
    def main(x: R.Tensor((), "int64"), c: R.Tensor((), "bool")) -> R.Tensor((), "int64"):
        if c:
            with R.dataflow():
                y = R.floor_divide(R.const(6, "int64"), x)
                R.output(y)
            r = y
        else:
            r = x
        return r
    """
    assert run(program, "main", i64(0), truth(False)).numpy() == 0
    assert run(program, "main", i64(3), truth(True)).numpy() == 2


def test_pure_calls_in_a_dataflow_block_may_be_shared():
    """Inside a dataflow block pure calls may be duplicated or merged: the compiler calls a pure packed function as often
    as it likes, and the results are the same."""
    program = """
    @R.function
    def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        with R.dataflow():
            a = R.call_pure_packed("language.opt.pure", x, sinfo_args=R.Tensor((1,), "float32"))
            b = R.call_pure_packed("language.opt.pure", x, sinfo_args=R.Tensor((1,), "float32"))
            c = R.add(a, b)
            R.output(c)
        return c
    """
    assert machine(program)["main"](floats(1)).numpy().tolist() == [4]
    assert len(seen) >= 1


def test_fresh_tensors_stay_fresh(run):
    """Fresh tensors stay fresh where a mutation could be seen: equal calls are not merged."""
    program = """
    @R.function(pure=False)
    def main(x: R.Tensor((1,), "float32")):
        with R.dataflow():
            a = R.add(x, x)
            b = R.add(x, x)
            R.output(a, b)
        R.call_packed("language.opt.increment", a)
        return (a, b)
    """
    a, b = run(program, "main", floats(1))
    assert (a.numpy().tolist(), b.numpy().tolist()) == ([3], [2])


def test_constants_stay_fresh(run):
    """Fresh tensors stay fresh where a mutation could be seen: what is folded to a constant is still a new tensor."""
    program = """
    @R.function(pure=False)
    def main():
        a = R.add(R.const([1], "float32"), R.const([1], "float32"))
        R.call_packed("language.opt.increment", a)
        return a
    """
    assert [run(program, "main").numpy().tolist() for _ in range(2)] == [[3], [3]]


def test_storage_is_not_reused_while_an_alias_lives(run):
    """Anything that changes neither results nor effects: memory is reused only when nobody holds it."""
    program = """
    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        a = R.add(x, x)
        v = R.reshape(a, (2, 2))
        t = (v, a)
        if c:
            w = t[0]
        else:
            w = R.reshape(x, (2, 2))
        b = R.multiply(x, x)
        d = R.add(b, b)
        return (w, d, t)
    """
    x = floats(1, 2, 3, 4)
    w, d, (v, a) = run(program, "main", x, truth(True))
    assert w.numpy().reshape(-1).tolist() == v.numpy().reshape(-1).tolist() == a.numpy().tolist() == [2, 4, 6, 8]
    assert d.numpy().tolist() == [2, 8, 18, 32]


def test_floating_point_is_not_simplified(run):
    """Anything that changes neither results nor effects: x * inf - x * inf stays NaN, x + 0 keeps its sign rules."""
    program = """
    @R.function
    def main(x: R.Tensor((2,), "float32"), big: R.Tensor((), "float32")):
        with R.dataflow():
            a = R.subtract(R.multiply(x, big), R.multiply(x, big))
            b = R.add(x, R.const(0.0, "float32"))
            R.output(a, b)
        return (a, b)
    """
    a, b = run(program, "main", floats(1, -0.0), np.array(np.inf, "float32"))
    assert np.isnan(a.numpy()).all()
    assert np.signbit(b.numpy()).tolist() == [False, False]


def test_a_branch_not_taken_is_not_computed(run):
    """Anything that changes neither results nor effects: nothing is moved out of a branch that may fail."""
    program = """
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), c: R.Tensor((), "bool")) -> R.Shape(ndim=1):
        n, m = T.int64(), T.int64()
        if c:
            s = R.shape([n // m])
        else:
            s = R.shape([n])
        return s
    """
    assert run(program, "main", ones(6, 0), truth(False)) == (6,)
    assert run(program, "main", ones(6, 4), truth(True)) == (1,)
    with pytest.raises(ZeroDivisionError):
        run(program, "main", ones(6, 0), truth(True))
