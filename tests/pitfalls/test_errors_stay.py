"""Outside dataflow blocks errors and effects stay, though nobody uses the value (language.md §7.2).

What may be dropped is said by the operators: `Operator.total`. That none of them says so wrongly is proved from their
kernels in ``tests/op/test_total.py``.
"""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from pitfall_helpers import f32, parse

import relax
from relax.expr import Call, Function
from relax.ir import Op, walk
from relax.op.base import Operator

SIGNATURE = """
    @R.function
    def {name}(
        x: R.Tensor(("n",), "float32"), i: R.Tensor(("k",), "int64"), m: R.Tensor(("m",), "float32"),
        z: R.Tensor(("n",), "int32"), u: R.Tensor(ndim=1, dtype="float32"), c: R.Tensor((), "bool"), o: R.Object,
        w: R.Tensor((3,), "float32"),
    ) -> R.Tensor(("n",), "float32"):
        cls = Module
        n = T.int64()
        m_ = T.int64()
"""
HEADER = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def bounded(A: T.Buffer(("n",), "float32"), B: T.Buffer((1,), "float32")):
        n = T.int64()
        assert n > 5, "n is small"
        B[0] = A[5]

    @R.function(private=True)
    def pick(x: R.Tensor(("n",), "float32"), i: R.Tensor(("k",), "int64")) -> R.Tensor(("k",), "float32"):
        return R.take(x, i, axis=0)

    @R.function(private=True)
    def fails(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        cls = Module
        unused = R.call_pure_packed("pitfall.fails", x, sinfo_args=R.Object)
        return x
"""
FAILURES = {
    "take": ("y = R.take(x, i, axis=0)", IndexError),
    "take of constants": ('y = R.take(R.const([1.0], "float32"), R.const([5], "int64"), axis=0)', IndexError),
    "floor_divide": ("y = R.floor_divide(z, z)", ZeroDivisionError),
    "divide of integers": ("y = R.divide(z, z)", ZeroDivisionError),
    "floor_mod": ("y = R.floor_mod(z, z)", ZeroDivisionError),
    "division of sizes": (
        '_c = R.match_cast(i, R.Tensor((m_,), "int64"))\ny = R.shape([n // (m_ - 2)])',
        ZeroDivisionError,
    ),
    "division of scalars": (
        '_c = R.match_cast(i, R.Tensor((m_,), "int64"))\ny = R.prim_value(n % (m_ - 2))',
        ZeroDivisionError,
    ),
    "match_cast": ('y = R.match_cast(u, R.Tensor((7,), "float32"))', ValueError),
    "match_cast of a tuple": (
        't = (x, u)\ny = R.match_cast(t, R.Tuple(R.Object, R.Tensor((7,), "float32")))',
        ValueError,
    ),
    "annotation": ('y: R.Tensor((7,), "float32") = u', ValueError),
    "annotation of a call": ('y: R.Tensor((7,), "float32") = R.exp(u)', ValueError),
    "projection of an unknown value": ("y = o[1]", TypeError),
    "shape of an unknown value": ("y = R.shape_of(o)", TypeError),
    "broadcast": ("y = R.add(x, m)", AssertionError),
    "stretch": ("y = R.add(m, w)", AssertionError),
    "where": ("y = R.where(c, m, w)", AssertionError),
    "reshape": ("y = R.reshape(x, (7,))", AssertionError),
    "concat": ("y = R.concat([R.expand_dims(m, 0), R.expand_dims(w, 0)], axis=0)", AssertionError),
    "stack": ("y = R.stack([m, x], axis=0)", AssertionError),
    "matmul": ("y = R.matmul(m, w)", AssertionError),
    "argmax of nothing": ("l = R.strided_slice(x, [0], [5], [n])\ny = R.argmax(l, axis=0)", AssertionError),
    "negative size": ('y = R.zeros((n - 100,), "float32")', ValueError),
    "condition": ("if o:\n    y = x\nelse:\n    y = R.exp(x)", TypeError),
    "branch": ("if c:\n    y = R.take(x, i, axis=0)\nelse:\n    y = x", IndexError),
    "branch in a branch": (
        "if c:\n    if c:\n        q = R.floor_divide(z, z)\n    else:\n        q = z\n    y = x\nelse:\n    y = x",
        ZeroDivisionError,
    ),
    "match_cast in a branch": (
        'if c:\n    q = R.match_cast(u, R.Tensor((7,), "float32"))\n    y = x\nelse:\n    y = x',
        ValueError,
    ),
    "function": ("y = cls.pick(x, i)", IndexError),
    "function that fails unseen": ("y = cls.fails(x)", RuntimeError),
    "argument": ('v: R.Tensor(ndim=1, dtype="float32") = u\ny = cls.fails(v)', RuntimeError),
    "local function": (
        '@R.function\ndef f(v: R.Tensor(("q",), "float32")) -> R.Tensor(ndim=1, dtype="float32"):\n'
        "    return R.take(v, i, axis=0)\ny = f(x)",
        IndexError,
    ),
    "unused in a local function": (
        '@R.function\ndef f(v: R.Tensor(("q",), "float32")) -> R.Tensor(("q",), "float32"):\n'
        "    unused = R.take(v, i, axis=0)\n    return v\ny = f(x)",
        IndexError,
    ),
    "closure": ("f = cls.pick\ny = f(x, i)", IndexError),
    "kernel": ('y = R.call_tir(cls.bounded, (x,), R.Tensor((1,), "float32"))', AssertionError),
    "packed kernel": ('y = R.call_dps_packed("pitfall.fails", (x,), R.Tensor((1,), "float32"))', RuntimeError),
    "packed function": ('y = R.call_pure_packed("pitfall.fails", x, sinfo_args=R.Object)', RuntimeError),
    "result of a packed function": (
        'y = R.call_pure_packed("pitfall.same", x, sinfo_args=R.Tensor((7,), "float32"))',
        ValueError,
    ),
}
IMPURE = {"assert": ("_ = R.assert_op(R.equal(R.const(1), R.const(2)))", AssertionError)}


def module(pieces, purity=""):
    text = HEADER
    for number, (body, _) in enumerate(pieces.values()):
        signature = SIGNATURE.replace("{name}", f"f{number}").replace("@R.function", f"@R.function({purity})")
        text += signature + textwrap.indent(body + "\nreturn x", " " * 8) + "\n"
    return text


@pytest.fixture(autouse=True)
def functions():
    def fails(*_):
        raise RuntimeError("no")

    relax.register_func("pitfall.fails", fails, override=True)
    relax.register_func("pitfall.same", lambda x: x, override=True)


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
@pytest.mark.parametrize(("pieces", "purity"), [(FAILURES, ""), (IMPURE, "pure=False")], ids=["pure", "impure"])
def test_unused_calls_that_fail_still_fail(run, pieces, purity):
    vm = run(module(pieces, purity))
    x, i, m = f32(1, 2), np.array([0, 5]), f32(1, 2, 3, 4)
    args = (x, i, m, np.zeros(2, "int32"), f32(1), np.array(True), "text", f32(1, 2, 3))
    for number, (kind, (_, error)) in enumerate(pieces.items()):
        try:
            vm[f"f{number}"](*args)
        except Exception as found:  # noqa: BLE001 (whatever it is, it is looked at)
            assert isinstance(found, error), (kind, found)  # noqa: PT017 (the kind is said)
        else:
            pytest.fail(f"{kind}: nothing was raised")


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_the_same_in_dataflow_may_go():
    """There a program may become more defined; that it does shows that something is optimised here at all."""
    inside = {
        kind: ("with R.dataflow():\n" + textwrap.indent(body, "    ") + "\n    g = x\n    R.output(g)", error)
        for kind, (body, error) in FAILURES.items()
        if not any(word in body for word in ("if ", "def ", "f = "))
    }
    mod = relax.transform.DeadCodeElimination()(parse(module(inside)))
    for number, kind in enumerate(inside):
        assert not calls(mod[f"f{number}"]), kind


def calls(func):
    found = []
    walk(func, lambda item: found.append(item) if isinstance(item, Call) else None)
    return found


def test_unused_calls_that_cannot_fail_go():
    mod = relax.transform.DeadCodeElimination()(
        parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "int32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        a = R.exp(x)
        b = R.add(a, x)
        t = (b, R.sum(a))
        c = t[1]
        s = R.shape_of(x)
        d = R.shape([n // 2, T.min(n, 4)])
        e = R.concat([x, a], axis=0)
        f = R.bitwise_and(y, y)
        if R.const(True, "bool"):
            g = R.where(R.const(True, "bool"), a, x)
        else:
            g = x
        return x
""")
    )
    assert isinstance(mod["main"], Function)
    assert not mod["main"].body.blocks


def test_effects_stay_in_order(run):
    seen = []
    relax.register_func("pitfall.saw", lambda k: seen.append(k), override=True)
    program = run("""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), i: R.Tensor((1,), "int64")) -> R.Tensor(("n",), "float32"):
        _ = R.call_packed("pitfall.saw", R.prim_value(1), sinfo_args=R.Object)
        y = R.take(x, i, axis=0)
        _1 = R.call_packed("pitfall.saw", R.prim_value(2), sinfo_args=R.Object)
        return x
""")
    program["main"](f32(1), np.array([0]))
    assert seen == [1, 2]
    with pytest.raises(IndexError):
        program["main"](f32(1), np.array([1]))
    assert seen == [1, 2, 1]


# ------------------------------------------------------------------------- what operators say of themselves


def operators():
    return [op for op in map(Op.get, Op.list_op_names()) if op.get_attr("operator_class") is not None]


def test_some_operators_are_total_and_those_known_to_fail_are_not():
    total = {op.name for op in operators() if op.get_attr("operator_class").total}
    for name in ("exp", "add", "where", "concat", "matmul", "nn.softmax", "max", "shape_of"):
        assert f"relax.{name}" in total
    for name in (
        "take", "floor_divide", "divide", "mod", "floor_mod", "power", "argmax", "reshape", "broadcast_to", "zeros",
        "tensor_to_shape", "assert_op", "unique", "call_tir", "call_pure_packed", "call_dps_packed", "to_vdevice",
        "call_tir_inplace", "invoke_pure_closure", "builtin.alloc_tensor",
    ):  # fmt: skip
        assert f"relax.{name}" not in total
    assert not Operator.total
    for op in operators():
        cls = op.get_attr("operator_class")
        assert not cls.total or (cls.pure and cls.packed is None), op.name
