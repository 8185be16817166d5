"""Spaces of parameters: each point of a rule's space computes what the rule's default does."""

from __future__ import annotations

import random
from dataclasses import dataclass

import ml_dtypes  # noqa: F401  (NumPy learns bfloat16 and int4)
import pytest
from applied import DOTS, Applied, whole

from relax import te
from relax.codegen import resolve
from relax.schedules.cpu import RULES, ComputedProduct, DotProduct, Nests, Product, StreamedProduct, WidenedProduct
from relax.schedules.space import Space

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
def test_points_compute_the_same(name, count):
    case = CASES[name]
    for parameters in case.rule.space(resolve(case.target)).sample(count, random.Random(count)):
        case.check(parameters)


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
