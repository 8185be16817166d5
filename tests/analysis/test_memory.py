"""The plan of memory as it is read from a program: figures, table, picture, estimate."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

import relax
from relax.analysis import MemoryPlan, estimate_memory_usage, memory_plan
from relax.analysis.memory_figures import PlannedStorage, PlannedTensor
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T


@I.ir_module
class Module:
    @T.prim_func(private=True)
    def scale(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i] * T.float32(2)

    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
        cls = Module
        n = T.int64()
        storage = R.memory.alloc_storage(R.shape([n * 8]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
        a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([n]), R.dtype("float32"))
        _ = cls.scale(x, a)
        if c:
            b = R.memory.alloc_tensor(storage, R.prim_value(n * 4), R.shape([n]), R.dtype("float32"))
            _1 = cls.scale(a, b)
            r = b
        else:
            d = R.memory.alloc_tensor(storage, R.prim_value(n * 4), R.shape([n]), R.dtype("float32"))
            _2 = cls.scale(a, d)
            r = d
        k = T.int64()
        y = R.match_cast(x, R.Tensor((k,), "float32"))
        e = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0))
        _3 = cls.scale(r, e)
        return e

    @R.function(pure=False, private=True)
    def static(x: R.Tensor((4,), "float32")):
        storage = R.vm.alloc_storage(R.shape([8]), R.prim_value(0), R.dtype("float32"), R.str("global"))
        a = R.vm.alloc_tensor(storage, R.prim_value(0), R.shape([4]), R.dtype("float32"))
        b = R.vm.alloc_tensor(storage, R.prim_value(16), R.shape([]), R.dtype("float32"))
        c = R.builtin.alloc_tensor(R.shape([]), R.dtype("float32"), R.prim_value(0))
        return c

    @R.function(pure=False, private=True)
    def values(s: R.Shape(ndim=1), q: R.Shape(ndim=1)):
        storage = R.memory.alloc_storage(q, R.prim_value(0), R.str("global"), R.dtype("uint8"))
        c = R.builtin.alloc_tensor(s, R.dtype("float32"), R.prim_value(0))
        return c


def test_tensors_and_figures():
    plan = memory_plan(Module, "main", {"n": 16})
    shown = [(t.name, t.nbytes, t.storage, t.offset, t.first, t.last, t.escapes) for t in plan.tensors]
    assert shown == [
        ("a", 64, "storage", 0, 1, 7, False),
        ("b", 64, "storage", 64, 4, 10, False),
        ("d", 64, "storage", 64, 6, 10, False),
        ("e", 64, None, 0, 9, 10, True),
    ]
    assert [(s.name, s.nbytes, s.first, s.last) for s in plan.storages] == [("storage", 128, 0, 10)]
    assert plan.alive_in(plan.storages[0]) == 128  # b and d stand in different branches
    assert (plan.lower_bound, plan.peak, plan.total) == (128, 192, 256)
    assert memory_plan(Module, "main", {"n": 0}).lower_bound == 0


def test_static_sizes_and_operators_of_the_machine():
    plan = memory_plan(Module, "static")
    assert [(t.name, t.shape, t.nbytes, t.offset) for t in plan.tensors] == [
        ("a", (4,), 16, 0),
        ("b", (), 4, 16),
        ("c", (), 4, 0),
    ]
    assert plan.storages[0].nbytes == 32


def test_sizes_of_which_nothing_is_allocated():
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n",), "float32")):
        return R.add(y, R.sum(x, axis=1))

    mod = relax.get_pipeline("lower")(relax.IRModule.from_expr(main))
    name = next(g.name_hint for g, f in mod.functions.items() if isinstance(f, relax.Function))
    assert memory_plan(mod, name, {"n": 2, "m": 5}).total == memory_plan(mod, name, {"n": 2}).total > 0


def test_what_cannot_be_said():
    with pytest.raises(ValueError, match="main allocates by the shape variables n; missing: n"):
        memory_plan(Module, "main")
    with pytest.raises(ValueError, match="main allocates by the shape variables n; not known: m"):
        memory_plan(Module, "main", {"n": 1, "m": 2})
    with pytest.raises(ValueError, match="memory_plan: scale is not a Relax function"):
        memory_plan(Module, "scale")
    with pytest.raises(ValueError, match="memory_plan: the shape of c in values is not written out"):
        memory_plan(Module, "values")


def test_table():
    text = memory_plan(Module, "main", {"n": 16}).table()
    assert (
        text
        == """\
memory of main for n = 16

tensor  shape  dtype    bytes  in       offset  alive
a       16     float32     64  storage       0  1-7    ...###########################..........
b       16     float32     64  storage      64  4-10   ..............##########################
d       16     float32     64  storage      64  6-10   .....................###################
e       16     float32     64  its own          9-     ................................########

storage: 128 bytes, of which 128 are alive at once
at most in use: 192 bytes, 1.500 times the lower bound
lower bound (largest set of live tensors): 128 bytes
all 4 tensors: 256 bytes"""
    )
    assert "scalar" in memory_plan(Module, "static").table()


def test_picture():
    """Boxes lie inside of the picture, and those of tensors that are alive at once apart."""
    plan = memory_plan(Module, "main", {"n": 16})
    root = ElementTree.fromstring(plan.svg())
    space = "{http://www.w3.org/2000/svg}"
    width, height = map(float, root.get("viewBox").split()[2:])
    boxes = {}
    for group in root.iter(f"{space}g"):
        rect = group.find(f"{space}rect")
        box = [float(rect.get(key)) for key in ("x", "y", "width", "height")]
        assert 0 <= box[0] <= box[0] + box[2] <= width
        assert 0 <= box[1] <= box[1] + box[3] <= height
        boxes[group.find(f"{space}title").text.partition(":")[0]] = box
    assert list(boxes) == ["a", "b", "d", "e"]
    assert boxes["a"][1] >= boxes["b"][1] + boxes["b"][3] - 0.2
    assert boxes["b"][1] == boxes["d"][1]
    assert "memory of its own" in plan.svg()


def test_an_empty_function():
    plan = MemoryPlan("f", {}, [], [])
    assert plan.table().startswith("memory of f\n")
    assert (plan.lower_bound, plan.peak, plan.total) == (0, 0, 0)
    ElementTree.fromstring(plan.svg())


def test_names_are_escaped_and_labels_cut():
    tensor = PlannedTensor("<a&b>" * 20, (1,), "float32", 4, "s", 0, 0, 0, False)
    unused = PlannedStorage("t", 4, 0, 0)
    plan = MemoryPlan("f", {}, [tensor], [PlannedStorage("s", 4, 0, 0), unused])
    ElementTree.fromstring(plan.svg())
    assert plan.alive_in(unused) == 0


def test_estimate():
    assert (
        estimate_memory_usage(Module)
        == """\
Memory usage estimation:
- Function main:
 * Without memory planning, there are 0 constant-size memory allocation(s) with total size 0 bytes, and 4 dynamic-size memory allocation(s).
 * With memory planning, there are 0 constant-size memory allocation(s) with total size 0 bytes, and 2 dynamic-size memory allocation(s).
- Function static:
 * Without memory planning, there are 3 constant-size memory allocation(s) with total size 24 bytes, and 0 dynamic-size memory allocation(s).
 * With memory planning, there are 2 constant-size memory allocation(s) with total size 36 bytes, and 0 dynamic-size memory allocation(s).
- Function values:
 * Without memory planning, there are 0 constant-size memory allocation(s) with total size 0 bytes, and 1 dynamic-size memory allocation(s).
 * With memory planning, there are 0 constant-size memory allocation(s) with total size 0 bytes, and 2 dynamic-size memory allocation(s)."""
    )
    assert "Function main" in estimate_memory_usage(Module["main"])


def test_a_dimension_of_literals_may_have_another_dtype():
    """T.min(2, 1) is an int32 of TIR."""

    @I.ir_module
    class Narrow:
        @R.function(pure=False)
        def main(x: R.Tensor(("n", 2), "int32")):
            n = T.int64()
            a = R.builtin.alloc_tensor(R.shape([n, T.min(2, 1)]), R.dtype("int32"), R.prim_value(0))
            return a

    (tensor,) = memory_plan(Narrow, sizes={"n": 3}).tensors
    assert (tensor.shape, tensor.nbytes) == ((3, 1), 12)
    assert "1 dynamic-size memory allocation(s)" in estimate_memory_usage(Narrow)
