"""StaticPlanBlockMemory: which tensors share a storage, where they lie, and that nothing is overwritten while it lives."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed, memory_plan
from relax.analysis.memory_figures import excluded
from relax.ir.transform import PassContext, VerifyInstrument
from relax.optimize.pipeline import UNFUSED, as_pass
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import StaticPlanBlockMemory
from relax.transform.memory.packing import Lives, best_order
from support import PLAIN_LOOPS, main

BEFORE = [step for step in UNFUSED if step.make is not StaticPlanBlockMemory]
BEFORE = BEFORE[: [step.make.__name__ for step in BEFORE].index("VMBuiltinLower")]
KEPT = [step for step in BEFORE if step.make.__name__ != "DataflowUseInplaceCalls"]
"""The passes before planning; without fusion and in-place calls, so that there is more to plan."""


def planned(mod):
    """The module up to planning, every pass verified; planning a second time changes nothing."""
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        result = StaticPlanBlockMemory()(as_pass(KEPT, "before")(mod))
        assert StaticPlanBlockMemory()(result) is result
    return result


def storages(mod, name="main"):
    """For each storage, the tensors in it; those with memory of their own under ``None``."""
    plan = memory_plan(mod, name, dict.fromkeys(variables(mod, name), 5))
    found = {}
    for tensor in plan.tensors:
        found.setdefault(tensor.storage, []).append(tensor.name)
    return found


def variables(mod, name="main"):
    try:
        memory_plan(mod, name, {"?": 1})
    except ValueError as error:
        listed = str(error).partition("variables ")[2].partition(";")[0]
        return [] if listed == "none" else listed.split(", ")
    raise AssertionError


def check_layout(mod, name="main", rounds=20):
    """No two tensors that are alive at once overlap, and all lie inside their storages, for many sizes."""
    chance = random.Random(1)
    names = variables(mod, name)
    for _ in range(rounds):
        plan = memory_plan(mod, name, {n: chance.choice([0, 1, 2, 3, 7, 16, 33, 100]) for n in names})
        size = {storage.name: storage.nbytes for storage in plan.storages}
        cut = [tensor for tensor in plan.tensors if tensor.storage is not None]
        for tensor in cut:
            assert tensor.offset % 64 == 0
            assert tensor.offset + tensor.nbytes <= size[tensor.storage]
        for a, b in itertools.combinations(cut, 2):
            if a.storage == b.storage and a.first <= b.last and b.first <= a.last:
                apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
                assert apart or excluded(a.path, b.path), (plan.sizes, a, b)


def check_values(mod, *args):
    """The planned program computes what the program computes: interpreted, and compiled."""
    expected = relax.interpret(mod, "main", *args).numpy()
    np.testing.assert_allclose(relax.interpret(planned(mod), "main", *args).numpy(), expected, 1e-5)
    with PassContext(disabled_pass=["DataflowUseInplaceCalls"]):
        vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS))
    np.testing.assert_allclose(vm["main"](*args).numpy(), expected, 1e-5)


def test_a_chain_of_kernels():
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def scale(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n, 16), "float32")
            B = T.match_buffer(b, (n, 16), "float32")
            for i, j in T.grid(n, 16):
                B[i, j] = A[i, j] * T.float32(2)

        @R.function(pure=False)
        def main(x: R.Tensor(("n", 16), "float32")) -> R.Tensor(("n", 16), "float32"):
            cls = Before
            n = T.int64()
            a = R.builtin.alloc_tensor(R.shape([n, 16]), R.dtype("float32"), R.prim_value(0))
            _ = cls.scale(x, a)
            b = R.builtin.alloc_tensor(R.shape([n, 16]), R.dtype("float32"), R.prim_value(0))
            _1 = cls.scale(a, b)
            c = R.builtin.alloc_tensor(R.shape([n, 16]), R.dtype("float32"), R.prim_value(0))
            _2 = cls.scale(b, c)
            d = R.builtin.alloc_tensor(R.shape([n, 16]), R.dtype("float32"), R.prim_value(0))
            _3 = cls.scale(c, d)
            return d

    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def scale(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n, 16), "float32")
            B = T.match_buffer(b, (n, 16), "float32")
            for i, j in T.grid(n, 16):
                B[i, j] = A[i, j] * T.float32(2)

        @R.function(pure=False)
        def main(x: R.Tensor(("n", 16), "float32")) -> R.Tensor(("n", 16), "float32"):
            cls = Expected
            n = T.int64()
            storage = R.memory.alloc_storage(R.shape([n * 128]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
            a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([n, 16]), R.dtype("float32"))
            _ = cls.scale(x, a)
            b = R.memory.alloc_tensor(storage, R.prim_value(n * 64), R.shape([n, 16]), R.dtype("float32"))
            _1 = cls.scale(a, b)
            c = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([n, 16]), R.dtype("float32"))
            _2 = cls.scale(b, c)
            d = R.builtin.alloc_tensor(R.shape([n, 16]), R.dtype("float32"), R.prim_value(0))
            _3 = cls.scale(c, d)
            return d

    after = StaticPlanBlockMemory()(Before)
    relax.ir.assert_structural_equal(after, Expected)
    assert StaticPlanBlockMemory()(after) is after
    x = np.arange(48, dtype="float32").reshape(3, 16)
    assert (relax.interpret(after, "main", x).numpy() == 16 * x).all()


X = 'x: R.Tensor(("n", 16), "float32")'


@pytest.mark.parametrize(
    "body, params, expected",
    [
        pytest.param(
            "a = R.exp(x)\nb = R.exp(a)\nc = R.exp(b)\nreturn (a, c)",
            X,
            {None: ["a", "b", "c"]},
            id="returned, and one that would be alone",
        ),
        pytest.param(
            "a = R.exp(x)\nt = (a, (x, a))\nb = R.exp(a)\nc = R.exp(b)\nd = R.exp(c)\nreturn (t[1], d)",
            X,
            {None: ["a", "d"], "storage": ["b", "c"]},
            id="in a tuple that is returned",
        ),
        pytest.param(
            'a = R.exp(x)\nr = R.call_packed("f", a, sinfo_args=R.Object)\nb = R.exp(a)\nc = R.exp(b)\nreturn R.exp(c)',
            X,
            {None: ["a", "gv"], "storage": ["b", "c"]},
            id="given to a function that may keep it",
        ),
        pytest.param(
            'a = R.exp(x)\n@R.function\ndef f(y: R.Tensor((), "float32")):\n    return R.add(y, R.sum(a))\n'
            "b = R.sin(x)\nc = R.exp(b)\nd = R.exp(c)\nreturn (f, d)",
            X,
            {None: ["a", "d"], "storage": ["b", "c"]},
            id="captured",
        ),
        pytest.param(
            "with R.dataflow():\n    a = R.exp(x)\n    b = R.reshape(a, (16, n))\n    c = R.exp(b)\n    d = R.exp(c)\n"
            "    e = R.add(b, d)\n    f = R.exp(e)\n    R.output(f)\nreturn f",
            X,
            {"storage": ["a", "c", "d", "e"], None: ["f"]},
            id="views",
        ),
        pytest.param(
            "a = R.exp(x)\nb = R.exp(a)\nk = T.int64()\nu = R.match_cast(R.unique(R.sum(b, axis=1)), R.Tensor((k,), 'float32'))\n"
            "c = R.exp(u)\nd = R.exp(c)\nreturn R.exp(d)",
            X,
            {"storage": ["a", "b", "gv"], "storage1": ["c", "d"], None: ["gv2"]},
            id="sizes that are bound later",
        ),
        pytest.param(
            "a = R.exp(x)\nb = R.exp(a)\n_ = R.assert_op(R.const(True), format='no')\nc = R.outer(R.sum(b, axis=1), R.sum(b, axis=1))\n"
            "d = R.exp(c)\nreturn R.exp(d)",
            X,
            {"storage": ["a", "b", "gv"], "storage1": ["c", "d"], None: ["gv2"]},
            id="a large one behind an assertion",
        ),
    ],
)
def test_tensors_that_share_a_storage(body, params, expected):
    pure = "R.call_packed" not in body and "assert_op" not in body
    mod = planned(main(f"n = T.int64()\n{body}", params, pure=pure))
    assert storages(mod) == expected
    check_layout(mod)


BRANCHES = """
n = T.int64()
a = R.exp(x)
b = R.add(a, a)
if c:
    d = R.exp(b)
    e = R.add(d, d)
    r = R.add(e, a)
else:
    d = R.sin(b)
    e = R.cos(d)
    r = e
f = R.multiply(r, r)
g = R.add(f, b)
return R.add(g, f)
"""


def test_branches_share_what_the_other_one_uses():
    mod = planned(main(BRANCHES, f'{X}, c: R.Tensor((), "bool")'))
    assert list(storages(mod)) == ["storage", None]
    check_layout(mod)
    plan = memory_plan(mod, "main", {"n": 64})
    cut = [tensor for tensor in plan.tensors if tensor.storage]
    (storage,) = plan.storages
    assert storage.nbytes == 4 * 64 * 16 * 4  # of nine tensors, four are alive at once
    assert len(cut) == 9


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("taken", [True, False])
def test_branches_compute_the_same(n, taken):
    x = np.linspace(-1, 0, 16 * n, dtype="float32").reshape(n, 16)
    check_values(main(BRANCHES, f'{X}, c: R.Tensor((), "bool")'), x, np.array(taken))


RECURSION = """
@R.function(private=True)
def down(x: R.Tensor(("n", 16), "float32"), k: R.Tensor((), "int64")) -> R.Tensor(("n", 16), "float32"):
    n = T.int64()
    c = R.less(k, R.const(1, "int64"))
    if c:
        r = x
    else:
        a = R.exp(x)
        b = R.add(a, x)
        d = R.sin(b)
        e = R.cos(b)
        s = R.add(d, e)
        k1 = R.subtract(k, R.const(1, "int64"))
        y = Module.down(s, k1)
        f = R.exp(R.negative(R.add(y, b)))
        r = R.add(R.sin(f), f)
    return r
"""


def test_recursion_holds_only_what_is_needed_after_the_call():
    """What dies before the call is not in the storage of what is needed after it, nor is what is made after it."""
    mod = main("return Module.down(x, k)", f'{X}, k: R.Tensor((), "int64")', RECURSION)
    after = planned(mod)
    call = next(t for t in memory_plan(after, "down", {"n": 4}).tensors if t.shape == () and t.escapes).first + 2
    for tensor in memory_plan(after, "down", {"n": 4}).tensors:
        if tensor.storage is not None:
            assert tensor.last < call or tensor.first > call
    assert set(storages(after, "down")) == {"storage", "storage1", None}
    check_layout(after, "down")
    x = np.linspace(0, 1, 32, dtype="float32").reshape(2, 16)
    expected = relax.interpret(mod, "main", x, np.array(3)).numpy()
    np.testing.assert_allclose(relax.interpret(after, "main", x, np.array(3)).numpy(), expected, 1e-5)


def test_named_devices_keep_their_allocations():
    @I.ir_module
    class Module:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("llvm", 1)]})

        @R.function
        def main(x: R.Tensor((4,), "float32", "llvm:1")):
            a = R.exp(x)
            b = R.exp(a)
            return R.exp(b)

    assert list(storages(planned(Module))) == [None]


def test_dimensions_that_may_be_negative():
    """Such a size counts as 0 in the plan; the error is that of the tensor, where it is made."""
    body = "n = T.int64()\na = R.exp(x)\nb = R.zeros(R.shape([n - 2, n]), 'float32')\nc = R.exp(b)\nreturn R.add(R.sum(a), R.sum(R.exp(c)))"
    mod = main(body, 'x: R.Tensor(("n",), "float32")')
    after = planned(mod)
    assert "T.max(n - 2, 0)" in after["main"].script()
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS))
    for n in (2, 3, 7):
        expected = n + (n - 2) * n * np.exp(1)
        np.testing.assert_allclose(vm["main"](np.zeros(n, "float32")).numpy(), expected, 1e-5)
    with pytest.raises(ValueError, match=r"main: a shape cannot have a negative dimension, as in \(-1, 1\)"):
        vm["main"](np.zeros(1, "float32"))


@pytest.mark.parametrize("n, m, error", [(2**40, 2**40, OverflowError), (2**30, 2**20, MemoryError)])
def test_sizes_that_are_too_large(n, m, error):
    body = "n, m = T.int64(), T.int64()\na = R.zeros(R.shape([n, m]), 'float32')\nb = R.exp(a)\nreturn R.sum(R.exp(b))"
    mod = main(body, 's: R.Shape(["n", "m"])')
    assert len(storages(planned(mod))["storage"]) > 1
    with PassContext(disabled_pass=["DataflowUseInplaceCalls"]):
        vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS))
    with pytest.raises(error, match="main: ") as caught:
        vm["main"](relax.ShapeTuple([n, m]))
    text = str(caught.value)
    assert "does not fit into 64 bits: " in text if error is OverflowError else "bytes is asked for" in text
    assert vm.memory_stats().in_use == 0
    np.testing.assert_allclose(vm["main"](relax.ShapeTuple([3, 4])).numpy(), 12 * np.exp(1), 1e-5)


def test_a_divisor_that_may_be_zero_is_not_computed_early():
    body = "n, m = T.int64(), T.int64()\na = R.exp(x)\nb = R.zeros(R.shape([n // m]), 'float32')\nc = R.exp(a)\nreturn R.add(R.sum(R.exp(b)), R.sum(R.exp(c)))"
    mod = planned(main(body, 'x: R.Tensor(("n", "m"), "float32")'))
    plan = memory_plan(mod, "main", {"n": 6, "m": 3})
    own = [tensor.shape for tensor in plan.tensors if tensor.storage is None]
    assert (2,) in own


def test_tensors_without_bytes_lie_anywhere():
    """At a sample of shapes two tensors may be empty, and both on top of a third: the order is found all the same."""
    lives = Lives([[1, 2], [3, 2, 0], [3, 1, 0], [2, 1]], [[0], [0, 1], [0, 1, 2], [1, 2, 3]], [3, 3, 2, 1])
    sizes = np.array([[8.0], [0.0], [0.0], [4.0]])
    assert sorted(best_order(lives, sizes)) == [0, 1, 2, 3]


def test_heights_that_floats_round_are_packed():
    """Five dimensions of thousands of elements make more bytes than a float64 counts exactly."""
    lives = Lives([[1, 2], [0, 2], [0, 1]], [[0], [0, 1], [0, 1, 2]], [3, 2, 1])
    assert sorted(best_order(lives, np.array([[2.0**60 + 2304], [2.0**60], [7.0]]))) == [0, 1, 2]
