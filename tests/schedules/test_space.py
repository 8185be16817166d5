"""Spaces of parameters: each point of a rule's space computes what the rule's default does."""

from __future__ import annotations

import random
from dataclasses import dataclass

import ml_dtypes  # noqa: F401  (NumPy learns bfloat16 and int4)
import numpy as np
import pytest
from applied import DOTS, Applied, whole

from relax import te, topi
from relax.codegen import build_module, resolve
from relax.schedules.cpu import (
    RULES,
    ComputedProduct,
    Convolution,
    DotProduct,
    Nests,
    Pointwise,
    Product,
    StreamedAttention,
    StreamedProduct,
    WidenedProduct,
)
from relax.schedules.space import Space
from support import PLAIN_LOOPS

DEPTH = 75


def product(m, n, left="float32", right="float32", total="float32", scale=None):
    """``C[i, j] = Σ A[i, k] · B[k, j]``, where B is scaled if there is a scale."""
    a, b = te.placeholder((m, DEPTH), left, "A"), te.placeholder((DEPTH, n), right, "B")
    k = te.reduce_axis((0, DEPTH), "k")

    def term(i, j):
        weight = b[k, j].astype(total) if scale is None else b[k, j].astype(total) * scale
        return te.sum(a[i, k].astype(total) * weight, axis=k)

    return te.create_prim_func([a, b, te.compute((m, n), term, "C")])


@dataclass(frozen=True)
class Case:
    """A rule, with products that it takes, of known rows or not; constants are packed, or read where they are."""

    rule: object
    left: str = "float32"
    right: str = "float32"
    total: str = "float32"
    scale: float | None = None
    target: str = "llvm"
    rows: tuple = (te.var("m", "int64"), 50)

    def check(self, parameters):
        for rows in self.rows:
            func = product(rows, 70, self.left, self.right, self.total, self.scale)
            for known in ((), (1,)) if not isinstance(self.rule, StreamedProduct) else ((),):
                run = Applied(self.rule.at(parameters), func, self.target, known)
                for m in (rows,) if isinstance(rows, int) else (0, 1, 7, 13, 50):
                    a, b = whole(m, DEPTH, dtype=self.left), whole(DEPTH, 70, dtype=self.right, seed=1)
                    expected = a.astype(self.total) @ (b.astype(self.total) * (self.scale or 1))
                    run.computes(expected.astype(self.total), a, b)


CASES = {
    "float32": Case(Product()),
    "float64": Case(Product(), "float64", "float64", "float64"),
    "float16": Case(WidenedProduct(), "float16", "float16"),
    "int4": Case(ComputedProduct(), right="int4", scale=0.5),
    "few rows": Case(StreamedProduct(), rows=(2, 7)),
    "int8": Case(DotProduct(), "int8", "int8", "int32"),
    "bfloat16": Case(DotProduct(), "bfloat16", "bfloat16", target=DOTS),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_points_of_products_compute_the_same(name, count):
    case = CASES[name]
    for parameters in case.rule.space(resolve(case.target)).sample(count, random.Random(count)):
        case.check(parameters)


# ------------------------------------------------------------------------------------- other rules


def convolutions(taps, pad=0):
    """Convolutions by 24 input and 40 output channels of images of one size and of all sizes, with shapes of calls."""
    n, h, w = (te.var(name, "int64") for name in "nhw")
    for batch, height, width, calls in ((1, 7, 7, [(1, 7, 7)]), (n, h, w, [(1, 1, 1), (2, 5, 9), (0, 3, 4)])):
        x = te.placeholder((batch, 24, height, width), name="X")
        k = te.placeholder((40, 24, taps, taps), name="K")
        func = te.create_prim_func([x, k, topi.nn.conv(x, k, padding=pad)])
        yield func, [[(b, 24, i, j), (40, 24, taps, taps), (b, 40, i, j)] for b, i, j in calls]


def attentions():
    """Attention of 40 queries and of any number of them."""
    n = te.var("n", "int64")
    for queries, calls in ((40, [40]), (n, [1, 5, 70])):
        q, k, v = (te.placeholder((1, size, 2, 16), name=name) for size, name in ((queries, "Q"), (50, "K"), (50, "V")))
        func = te.create_prim_func([q, k, v, topi.nn.attention(q, k, v)])
        yield func, [[(1, count, 2, 16), (1, 50, 2, 16), (1, 50, 2, 16), (1, count, 2, 16)] for count in calls]


OTHERS = {
    "1 x 1": (Pointwise(), lambda: convolutions(1), [(), (1,)]),
    "3 x 3": (Convolution(), lambda: convolutions(3, 1), [()]),
    "attention": (StreamedAttention(), attentions, [()]),
}
"""Rules, functions with the shapes of their arguments, and positions of constants."""


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_points_of_other_rules_compute_the_same(name, count):
    rule, functions, constants = OTHERS[name]
    for func, calls in functions():
        plain = build_module(func, PLAIN_LOOPS)["main"]
        for parameters in rule.space(resolve("llvm")).sample(count, random.Random(count)):
            for known in constants:
                run = Applied(rule.at(parameters), func, known=known)
                for shapes in calls:
                    *args, expected = (whole(*shape, seed=i) for i, shape in enumerate(shapes))
                    plain(*args, expected)
                    np.testing.assert_allclose(run(*args, np.full_like(expected, 77)), expected, 1e-5, 1e-6)


def test_the_first_point_is_what_a_rule_chooses_by_itself():
    target = resolve("llvm")
    for rule in RULES:
        space = rule.space(target)
        assert space.default == next(iter(space)) == rule.parameters
        assert 1 <= len(space) < 10_000


def test_other_parameters_make_other_loops(target):
    func = product(50, 70)
    texts = {
        Product().at(point).apply(func, target, False).script()
        for point in Product().space(target).sample(20, random.Random(0))
    }
    assert len(texts) > 10
    tall = next(point for point in Product().space(target) if point.tile == (8, 2))
    assert "acc = T.allocate((8, 32)" in Product().at(tall).apply(product(64, 70), target, False).script()


def test_tiles_of_a_space_fit_the_registers():
    for name, registers in (("skylake-avx512", 32), ("haswell", 16)):
        tiles = {point.tile for point in Product().space(resolve(f"llvm -mtriple=x86_64-linux-gnu -mcpu={name}"))} - {
            None
        }
        assert max(rows * vectors + vectors + 1 for rows, vectors in tiles) <= registers


def test_a_space_holds_the_valid_combinations():
    space = Space(lambda a, b: (a, b), {"a": (1, 2, 3), "b": (0, 1)}, lambda point: point != (2, 1))
    assert list(space) == [(1, 0), (1, 1), (2, 0), (3, 0), (3, 1)]
    assert len(space) == 5
    assert space.default == (1, 0)
    assert sorted(space.sample(9, random.Random(0))) == list(space)
    assert len(Nests().space(resolve("llvm"))) == 1
