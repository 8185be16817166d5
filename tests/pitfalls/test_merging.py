"""What is merged is the same: hashes only say where to look, and what may be mutated is never merged."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from pitfall_helpers import arrays, f32, parse

import relax
from relax.expr import Call, Function
from relax.ir import Op, structural_equal, walk
from relax.tir import PrimFunc
from relax.transform import EliminateCommonSubexpr

KEEPERS = {
    "relax.transform.eliminate_common_subexpr": "quick_hash",
    "relax.transform.legalize_ops": "structural_hash",
    "relax.prim.identity": "structural_hash",
    "relax.block_builder": "quick_hash",
}


@pytest.fixture(params=["as it is", "every hash is 0"])
def hashing(request, monkeypatch):
    """Programs mean the same when every two things have the same hash."""
    if request.param == "as it is":
        return
    for name, function in KEEPERS.items():
        monkeypatch.setattr(importlib.import_module(name), function, lambda *_, **__: 0)


CONSTANTS = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def plus1(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
        for i in range(2):
            B[i] = A[i] + T.float32(1)

    @T.prim_func(private=True)
    def plus2(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
        for i in range(2):
            B[i] = A[i] + T.float32(2)

    @T.prim_func(private=True)
    def minus0(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
        for i in range(2):
            B[i] = A[i] * T.float32(-0.0)

    @T.prim_func(private=True)
    def zero(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
        for i in range(2):
            B[i] = A[i] * T.float32(0.0)

    @R.function(private=True)
    def f(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.add(x, R.const([1.0, 2.0], "float32"))

    @R.function(private=True)
    def g(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.add(x, R.const([1.0, 3.0], "float32"))

    @R.function
    def main(x: R.Tensor((2,), "float32"), s: R.Shape(["n", "m"])) -> R.Tuple(
        R.Object, R.Object, R.Object, R.Object, R.Object, R.Object, R.Object, R.Object
    ):
        cls = Module
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            a = R.call_tir(cls.plus1, (x,), R.Tensor((2,), "float32"))
            b = R.call_tir(cls.plus2, (x,), R.Tensor((2,), "float32"))
            c = R.call_tir(cls.minus0, (x,), R.Tensor((2,), "float32"))
            d = R.call_tir(cls.zero, (x,), R.Tensor((2,), "float32"))
            e = R.clip(x, 0.0, 1.0)
            h = R.clip(x, 0.0, 2.0)
            i = R.strided_slice(x, [0], [0], [1])
            j = R.strided_slice(x, [0], [1], [2])
            k = R.sum(x, axis=[0], keepdims=True)
            l = R.sum(x, axis=[0], keepdims=False)
            o = R.astype(x, "int32")
            p = R.astype(x, "int8")
            R.output(a, b, c, d, e, h, i, j, k, l, o, p)
        q = cls.f(x)
        r = cls.g(x)
        return (
            (a, b), (c, d), (e, h), (i, j), (k, l), (o, p), (q, r), (R.shape([n + m, n * m]), R.shape([m + n, n * m + 1]))
        )
"""


def test_what_differs_in_constants_or_attributes_stays_apart(run, hashing):
    x = f32(1.5, 2.5)
    result = arrays(run(CONSTANTS)["main"](x, (3, 4)))
    assert [v.tolist() for v in result[0]] == [[2.5, 3.5], [3.5, 4.5]]
    assert [np.signbit(v).tolist() for v in result[1]] == [[True, True], [False, False]]
    assert [v.tolist() for v in result[2]] == [[1, 1], [1.5, 2]]
    assert [v.tolist() for v in result[3]] == [[1.5], [2.5]]
    assert [v.shape for v in result[4]] == [(1,), ()]
    assert [v.dtype for v in result[5]] == ["int32", "int8"]
    assert [v.tolist() for v in result[6]] == [[2.5, 4.5], [2.5, 5.5]]
    assert [tuple(s) for s in result[7]] == [(7, 12), (7, 13)]


def test_equal_kernels_are_one_all_the_same(hashing):
    mod = relax.transform.LegalizeOps()(
        parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32"), z: R.Tensor((3,), "float32")) -> R.Object:
        return (R.exp(x), R.exp(y), R.exp(z), R.exp(R.exp(x)), R.negative(z))
""")
    )
    kernels = [f for f in mod.functions.values() if isinstance(f, PrimFunc)]
    assert len(kernels) == 3  # exp over n, exp over 3, negative
    assert not any(structural_equal(a, b) for a in kernels for b in kernels if a is not b)


# ------------------------------------------------------------------------------- what may be mutated

UNMERGED = {
    "allocation": 'R.builtin.alloc_tensor(R.shape([2]), "float32", 0)',
    "packed kernel": 'R.call_dps_packed("pitfall.fill_dps", (x,), R.Tensor((2,), "float32"))',
    "packed function": 'R.call_pure_packed("pitfall.identity", x, sinfo_args=R.Tensor((2,), "float32"))',
    "function": "cls.same(x)",
    "unique": "R.unique(x)",
}


@pytest.mark.parametrize("kind", UNMERGED)
def test_allocations_and_unknown_calls_are_not_merged(kind):
    mod = parse(f"""
@I.ir_module
class Module:
    @R.function(private=True)
    def same(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor:
        cls = Module
        with R.dataflow():
            a = {UNMERGED[kind]}
            b = {UNMERGED[kind]}
            c = R.add(a, b)
            R.output(c)
        return c
""")
    assert EliminateCommonSubexpr()(mod) is mod


SEEN = {
    "outputs": "R.output(a, b)\n        return (a, b)",
    "in a tuple": "t = (a, b)\n            R.output(t)\n        return t",
    "one in a tuple": "t = (a, x)\n            R.output(t, b)\n        return (t[0], b)",
    "through a match_cast": (
        'c = R.match_cast(a, R.Tensor((2,), "float32"))\n            R.output(c, b)\n        return (c, b)'
    ),
    "given to a function": "c = cls.same(a)\n            d = cls.same(b)\n            R.output(c, d)\n        return (c, d)",
    "through a view": "c = R.reshape(a, (2,))\n            d = R.reshape(b, (2,))\n            R.output(c, d)\n        return (c, d)",
}


@pytest.mark.parametrize("kind", SEEN)
def test_what_leaves_the_block_twice_is_two_tensors(run, hashing, kind):
    program = run(f"""
@I.ir_module
class Module:
    @R.function(private=True)
    def same(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")):
        cls = Module
        with R.dataflow():
            a = R.exp(x)
            b = R.exp(x)
            {SEEN[kind]}
""")
    first, second = program["main"](f32(0, 0))
    first[:] = 7
    assert second.numpy().tolist() == [1, 1]


def test_private_results_are_merged():
    """That the tests above are about something: here nobody can tell, and there is one computation."""
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.exp(x)
            c = R.add(a, b)
            R.output(c)
        return c
""")
    assert count(EliminateCommonSubexpr()(mod), "relax.exp") == 1


def count(mod, name):
    found = []
    for func in mod.functions.values():
        if isinstance(func, Function):
            walk(func, lambda item: found.append(item) if isinstance(item, Call) and item.op == Op.get(name) else None)
    return len(found)


def test_folding_in_kernels_keeps_floating_point_results(run):
    """x·∞ − x·∞ is NaN, x·0 may be NaN or −0, x − x may be NaN: in scalar expressions of TIR as in operators."""
    formulas = [
        "A[i] * T.float32('inf') - A[i] * T.float32('inf')", "A[i] * T.float32(0)", "A[i] - A[i]", "A[i] / A[i]",
        "A[i] + T.float32(0)", "A[i] - T.float32(0)", "T.max(A[i], T.float32('nan'))", "T.min(A[i], A[i])",
        "(A[i] + T.float32(1e8)) - T.float32(1e8)", "A[i] * T.float32(2) / T.float32(2)", "T.float32(0) - A[i]",
        "T.Select(A[i] < A[i], T.float32(1), T.float32(2))", "T.Cast('float32', A[i] == A[i])",
        "A[i] * T.float32(1) * T.float32(-1)", "T.float32(1) / (A[i] + T.float32(-0.0))",
    ]  # fmt: skip
    x = f32(0.0, -0.0, np.inf, -np.inf, np.nan, 3.0, 3e38)
    text = "@I.ir_module\nclass Module:\n"
    for k, formula in enumerate(formulas):
        text += f"""
    @T.prim_func(private=True)
    def k{k}(A: T.Buffer((7,), "float32"), B: T.Buffer((7,), "float32")):
        for i in range(7):
            B[i] = {formula}

    @R.function
    def f{k}(x: R.Tensor((7,), "float32")) -> R.Tensor((7,), "float32"):
        cls = Module
        r = R.call_tir(cls.k{k}, (x,), R.Tensor((7,), "float32"))
        return r
"""
    program = run(text)
    one, inf, nan = np.float32(1), np.float32(np.inf), np.float32(np.nan)
    with np.errstate(all="ignore"):
        wanted = [
            x * inf - x * inf, x * np.float32(0), x - x, x / x, x + np.float32(0), x - np.float32(0),
            np.full(7, nan), x, (x + np.float32(1e8)) - np.float32(1e8), x * np.float32(2) / np.float32(2),
            np.float32(0) - x, np.full(7, 2, "float32"), (x == x).astype("float32"), x * -one,
            one / (x + np.float32(-0.0)),
        ]  # fmt: skip
    for k, expected in enumerate(wanted):
        found = program[f"f{k}"](x).numpy()
        np.testing.assert_array_equal(found, expected, err_msg=formulas[k])
        numbers = ~np.isnan(expected)
        assert (np.signbit(found) == np.signbit(expected))[numbers].all(), formulas[k]
