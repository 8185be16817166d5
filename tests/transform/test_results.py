"""No pass changes what a program computes: programs run before and after every pass, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.optimize.pipeline import LOWER, MACHINE, as_pass
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import (
    CanonicalizeBindings,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FoldConstant,
    LambdaLift,
    LegalizeOps,
    Normalize,
    RemovePurityChecking,
    RemoveUnusedFunctions,
    RewriteDataflowReshape,
    Sequential,
    ToNonDataflow,
)
from support import PLAIN_LOOPS, same


@relax.register_func("test.transform.add_one", override=True)
def add_one(tensor: relax.nd.NDArray) -> None:
    tensor.copyfrom(tensor.numpy() + 1)


@I.ir_module
class Graph:
    """A dataflow graph with constants, views, shapes and what nobody uses."""

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tuple(R.Tensor(("n * 4",), "float32"), R.Shape(["n", 4])):
        n = T.int64()
        with R.dataflow():
            unused = R.exp(x)
            w = R.permute_dims(R.const([[1.0], [2.0], [3.0], [4.0]], "float32"))
            y = R.add(x, w)
            again = R.add(x, w)
            z = R.maximum(y, again)
            flat = R.reshape(z, R.shape([n * 4]))
            back = R.reshape(R.negative(flat), R.shape([n, 4]))
            gv = R.reshape(back, R.shape([n * 4]))
            s = R.shape_of(back)
            R.output(gv, s)
        return (gv, s)


def graph(x):
    return (-(x + np.array([[1, 2, 3, 4]], "float32")).reshape(-1), relax.ShapeTuple(x.shape))


@I.ir_module
class Functions:
    """Closures over tensors and sizes, recursion, functions as values, branches."""

    @R.function
    def main(x: R.Tensor(("n",), "float32"), k: R.Tensor((), "int32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        cls = Functions

        @R.function
        def times(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            return R.multiply(y, R.add(x, R.ones((n,), "float32")))

        @R.function
        def repeat(i: R.Tensor((), "int32"), y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            if R.less(i, R.const(1, "int32")):
                r = y
            else:
                r = repeat(R.subtract(i, R.const(1, "int32")), times(y))
            return r

        f = cls.twice(x, times)
        a = repeat(k, x)
        b = f(a)
        return b

    @R.function(private=True)
    def twice(
        x: R.Tensor(("m",), "float32"), f: R.Callable((R.Tensor(("m",), "float32"),), R.Tensor(("m",), "float32"), True)
    ) -> R.Callable((R.Tensor(("m",), "float32"),), R.Tensor(("m",), "float32"), True):
        m = T.int64()

        @R.function
        def both(y: R.Tensor((m,), "float32")) -> R.Tensor((m,), "float32"):
            return f(f(y))

        return both


@I.ir_module
class Effects:
    """Tensors changed in place, by packed functions and kernels, and what must not see it."""

    @T.prim_func(private=True)
    def double(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            with T.block("double"):
                v = T.axis.spatial(n, i)
                A[v] = A[v] * T.float32(2)

    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32")) -> R.Object:
        n = T.int64()
        c = R.const([1.0, 2.0], "float32")
        before = R.add(c, c)
        R.call_packed("test.transform.add_one", c, sinfo_args=R.Object)
        after = R.add(c, c)
        with R.dataflow():
            y = R.add(x, x)
            flat = R.reshape(y, R.shape([n, 1]))
            kept = R.negative(flat)
            z = R.call_tir_inplace(Effects.double, (y,), [0], R.Tensor((n,), "float32"))
            R.output(kept, flat, z)
        copy = R.reshape(z, R.shape([1, n]))
        R.call_packed("test.transform.add_one", z, sinfo_args=R.Object)
        return (before, after, kept, flat, z, copy)


def effects(x):
    return (
        np.array([2, 4], "float32"), np.array([4, 6], "float32"), -2 * x[:, None], 2 * x[:, None], 4 * x + 1, 4 * x[None]
    )  # fmt: skip


def array(*shape):
    return np.arange(np.prod(shape), dtype="float32").reshape(shape) / 4


def functions(x, k):
    return x * (x + 1) ** (int(k) + 2)


CASES = {
    "graph": (Graph, graph, [(array(n, 4),) for n in (0, 1, 5)]),
    "functions": (Functions, functions, [(array(n), np.int32(k)) for n, k in ((3, 0), (4, 3), (0, 2))]),
    "effects": (Effects, effects, [(array(1),), (array(6),)]),
}

PASSES = {
    "none": Sequential([]),
    "Normalize": Normalize(),
    "CanonicalizeBindings": CanonicalizeBindings(),
    "FoldConstant": FoldConstant(),
    "EliminateCommonSubexpr": EliminateCommonSubexpr(),
    "DeadCodeElimination": DeadCodeElimination(),
    "LegalizeOps": LegalizeOps(),
    "LegalizeOps, RewriteDataflowReshape": Sequential([LegalizeOps(), RewriteDataflowReshape()]),
    "LambdaLift": LambdaLift(),
    "ToNonDataflow": ToNonDataflow(),
    "ToNonDataflow, RemovePurityChecking": Sequential([ToNonDataflow(), RemovePurityChecking()]),
    "RemoveUnusedFunctions": RemoveUnusedFunctions(),
    "all, last first": Sequential(
        [LambdaLift(), DeadCodeElimination(), FoldConstant(), CanonicalizeBindings(), ToNonDataflow()]
    ),
}


@pytest.mark.parametrize("step", PASSES.values(), ids=PASSES.keys())
@pytest.mark.parametrize(("mod", "expected", "cases"), CASES.values(), ids=CASES.keys())
def test_results_stay(mod, expected, cases, step):
    """After the pass, the program is lowered without any other graph pass; each machine has constants of its own."""
    executable = relax.build(step(mod), PLAIN_LOOPS, pipeline=as_pass((*LOWER, *MACHINE), "plain"))
    for args in cases:
        main = relax.VirtualMachine(executable, relax.cpu())["main"]
        same(main(*(relax.nd.array(arg) for arg in args)), expected(*args), rtol=1e-5)
