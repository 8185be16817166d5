"""Random splits, fusions and bounds of iterators: every claim about them is checked by enumeration.

Extents are numbers or sizes; sizes take small values, 0 included.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import pytest

from relax.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    IterMapLevel,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    SizeVar,
    Sub,
    Var,
    const,
    detect_iter_map,
    free_vars,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_to_iter_sum,
    simplify,
    sub_expressions,
    subspace_divide,
    substitute,
)
from relax.prim.expr import match_dtypes
from relax.prim.iter_expr import to_expr
from relax.tir import Range

n, m = (SizeVar(name, "int64") for name in "nm")
TRUE = IntImm("bool", 1)
ONTO = (IterMapLevel.Bijective, IterMapLevel.Surjective)
ONE_TO_ONE = (IterMapLevel.Bijective, IterMapLevel.Injective)
SIZES = [dict(zip((n, m), values, strict=True)) for values in itertools.product((0, 1, 2, 3), (0, 1, 2, 5))]

_SYMBOLS = {
    Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%", LT: "<", LE: "<=", GT: ">", GE: ">=", EQ: "==",
    And: "and", Or: "or",
}  # fmt: skip


def python(expr: PrimExpr, names: dict[Var, str]) -> str:
    """An expression as Python."""
    if isinstance(expr, Var):
        return names[expr]
    if isinstance(expr, IntImm):
        return str(expr.value)
    if isinstance(expr, Cast):
        return python(expr.value, names)  # values are small
    a, b = python(expr.a, names), python(expr.b, names)
    if isinstance(expr, (Min, Max)):
        return f"{type(expr).__name__.lower()}({a}, {b})"
    return f"({a} {_SYMBOLS[type(expr)]} {b})"


class Values:
    """The values of expressions of some variables; evaluating them by `evaluate` takes too long here."""

    def __init__(self, variables: list[Var]) -> None:
        self.names = {var: f"v{k}" for k, var in enumerate(variables)}

    def of(self, *exprs: PrimExpr) -> Callable[..., tuple[int, ...]]:
        parts = "".join(f"{python(expr, self.names)}, " for expr in exprs)
        return eval(f"lambda {', '.join(self.names.values())}: ({parts})")


class Map:
    """A random map: domains, indices and a predicate."""

    def __init__(self, seed: int, symbolic: bool) -> None:
        self.r = random.Random(seed)
        r = self.r
        extents = [n, m, n * m, n * 4, (n + 3) // 4, n + 1, 4, 1] if symbolic else [1, 2, 2, 3, 4, 6, 8, 12]
        dtype = "int32" if seed % 4 == 1 else "int64"  # narrow ones are cast where they meet numbers of int64
        self.iters = {}
        for name in "ijkl"[: r.randint(1, 3 if symbolic else 4)]:
            low = 0 if symbolic else r.choice([0, 0, 0, 1])
            self.iters[Var(name, dtype)] = Range(min=low, extent=simplify(const(0, "int64") + r.choice(extents)))
        self.parts = [(v - d.min if d.min.value else v, d.extent) for v, d in self.iters.items()]
        self.predicate: PrimExpr = TRUE
        if symbolic and r.random() < 0.4:
            self.tail()
        for _ in range(r.randint(0, 4)):
            step = r.choice([self.split, self.split, self.fuse, self.fuse, self.shift, self.bound, self.spoil])
            step()
        r.shuffle(self.parts)
        self.indices = [part for part, _ in self.parts]

    def take(self) -> tuple[PrimExpr, PrimExpr]:
        return self.parts.pop(self.r.randrange(len(self.parts)))

    def tail(self) -> None:
        io, ii, size = Var("io", "int64"), Var("ii", "int64"), self.r.choice([n, n * m])
        self.iters |= {io: Range(0, (size + 3) // 4), ii: Range(0, const(4, "int64"))}
        self.restrict(io * 4 + ii < size)
        self.parts.append((io * 4 + ii, size))

    def split(self) -> None:
        value, extent = self.take()
        if not isinstance(extent, IntImm) and self.r.random() < 0.5 and isinstance(extent, Mul):
            by = extent.b
            rounded = extent.a
        else:
            numbers = [c for c in range(1, 7) if self.r.random() < 0.15 or simplify(extent % c) is TRUE or c in (2, 4)]
            by = const(self.r.choice(numbers), "int64")
            rounded = simplify((extent + (by - 1)) // by)
        self.parts += [(value // by, rounded), (value % by, by)]

    def fuse(self) -> None:
        if len(self.parts) > 1:
            (a, x), (b, y) = self.take(), self.take()
            self.parts.append((a * y + b, simplify(x * y)))

    def shift(self) -> None:
        if self.r.random() < 0.4:
            value, extent = self.take()
            by = self.r.randint(-3, 3)
            self.parts.append((value + by, simplify(extent + max(by, 0))))

    def bound(self) -> None:
        if self.r.random() < 0.6:
            value, extent = self.r.choice(self.parts)
            end = self.r.choice([const(2, "int64"), simplify(extent - 1), m])
            self.restrict(self.r.choice([LT, LE, GE, GT, EQ])(*match_dtypes(value, end)))

    def restrict(self, condition: PrimExpr) -> None:
        self.predicate = condition if self.predicate is TRUE else And(self.predicate, condition)

    def spoil(self) -> None:
        """Leave out an index, use one twice, or add up two."""
        choice = self.r.random()
        if choice < 0.3 and len(self.parts) > 1:
            self.take()
        elif choice < 0.45:
            self.parts.append(self.r.choice(self.parts))
        elif choice < 0.6 and len(self.parts) > 1:
            (a, x), (b, y) = self.take(), self.take()
            self.parts.append((a * self.r.choice([1, 2, 3, -1]) + b, simplify(x + y)))

    def points(self, sizes: dict[Var, int], everywhere: bool = False) -> list[tuple[int, ...]]:
        """The values of the iterators, then the sizes."""
        values = Values([*self.iters, n, m])
        ends = Values([n, m]).of(*(part for d in self.iters.values() for part in (d.min, d.min + d.extent)))
        flat = ends(*sizes.values())
        holds = values.of(TRUE if everywhere else self.predicate)
        domains = [range(low, high) for low, high in zip(flat[::2], flat[1::2], strict=True)]
        points = (point + tuple(sizes.values()) for point in itertools.product(*domains))
        return [point for point in points if holds(*point)[0]]


def box(indices, sizes: dict[Var, int]) -> Iterator[tuple[int, ...]]:
    """The tuples that the indices are said to reach."""
    values, sides = Values([n, m]), []
    for index in indices:
        (base,) = values.of(index.base)(*sizes.values())
        side = [base]
        if index.args:
            (arg,) = index.args
            scale, extent = values.of(arg.scale, arg.extent)(*sizes.values())
            side = [base + scale * k for k in range(extent)]
        sides.append(side)
    return itertools.product(*sides)


def cases(seed: int) -> Iterator[tuple[Map, dict[Var, int], list, list]]:
    """A map under each of some sizes, its points and their images, where the indices are defined."""
    symbolic = seed % 2 == 0
    made = Map(seed, symbolic)
    image = Values([*made.iters, n, m]).of(*made.indices)
    for sizes in SIZES if symbolic else SIZES[-1:]:
        try:
            points = made.points(sizes)
            yield made, sizes, points, [image(*point) for point in points]
        except ZeroDivisionError:
            continue


SEEDS = range(80)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("level", list(IterMapLevel))
def test_claims_hold(seed, level):
    drawn = list(cases(seed))
    if not drawn:
        return
    made = drawn[0][0]
    result = detect_iter_map(made.indices, made.iters, made.predicate, level, seed % 3 > 0)
    if result.errors:
        assert result.indices == ()
        return
    values = Values([*made.iters, n, m])
    spelled = values.of(*(to_expr(index) for index in result.indices))
    padded = values.of(result.padding_predicate)
    for _, sizes, points, images in drawn:
        assert [spelled(*point) for point in points] == images
        assert not any(padded(*point)[0] for point in points)
        if level in ONE_TO_ONE:
            assert len(set(images)) == len(images)
        if level in ONTO:
            assert set(images) == set(box(result.indices, sizes))


@pytest.mark.parametrize("seed", SEEDS)
def test_inverses_give_the_iterators_back(seed):
    drawn = list(cases(seed))
    if not drawn:
        return
    made = drawn[0][0]
    result = detect_iter_map(made.indices, made.iters, made.predicate, IterMapLevel.Injective)
    if result.errors or any(len(index.args) > 1 for index in result.indices):
        return
    outputs = [Var(f"o{k}", "int64") for k in range(len(made.indices))]
    inverse = inverse_affine_iter_map(result.indices, outputs)
    back = Values([*outputs, n, m]).of(*inverse.values())
    places = [list(made.iters).index(var) for var in inverse]
    for _, sizes, points, images in drawn:
        for point, image in zip(points, images, strict=True):
            assert back(*image, *sizes.values()) == tuple(point[k] for k in places)
    if made.predicate is TRUE and len(inverse) == len(made.iters):
        # The rest of the box is the padding.
        unreached = Values([*outputs, n, m]).of(substitute(result.padding_predicate, inverse))
        for _, sizes, _, images in drawn:
            reached = set(images)
            for place in box(result.indices, sizes):
                assert bool(unreached(*place, *sizes.values())[0]) == (place not in reached)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("level", [IterMapLevel.Surjective, IterMapLevel.Injective, IterMapLevel.NoCheck])
def test_parts_make_up_the_whole(seed, level):
    drawn = list(cases(seed))
    if not drawn:
        return
    made = drawn[0][0]
    chance = random.Random(seed)
    inner = {var for var in made.iters if chance.random() < 0.5}
    pairs = subspace_divide(made.indices, made.iters, inner, made.predicate, level)
    if not pairs:
        return
    *parts, (outer_condition, inner_condition) = pairs
    values = Values([*made.iters, n, m])
    assert not set(free_vars(outer_condition.extent)) & inner
    for outer, within in parts:
        assert not set(free_vars(to_expr(outer))) & inner
        assert not set(free_vars(to_expr(within))) & (set(made.iters) - inner)
    terms = [
        values.of(
            *(to_expr(mark) for mark in pair), *(mark.extent for mark in pair), *(mark.source.base for mark in pair)
        )
        for pair in parts
    ]
    conditions = values.of(outer_condition.extent, inner_condition.extent)
    for _, sizes, points, images in drawn:
        if len(made.points(sizes, everywhere=True)) < 500:
            assert [p for p in made.points(sizes, everywhere=True) if all(conditions(*p))] == points
        for point, image in zip(points, images, strict=True):
            for term, value in zip(terms, image, strict=True):
                high, low, room, extent, high_base, low_base = term(*point)
                assert high * extent + low == value
                assert 0 <= low - low_base < extent
                assert 0 <= high - high_base < room


@pytest.mark.parametrize("seed", SEEDS)
def test_simplified_indices_have_the_same_values(seed):
    for made, _, points, images in cases(seed):
        simple = iter_map_simplify(made.indices, made.iters, made.predicate, IterMapLevel.NoCheck)
        again = Values([*made.iters, n, m]).of(*simple)
        assert [again(*point) for point in points] == images
        if seed % 2:
            sums = [normalize_to_iter_sum(index, made.iters) for index in made.indices]
            assert [Values([*made.iters, n, m]).of(*map(to_expr, sums))(*point) for point in points] == images
        break


def test_many_maps_are_detected():
    """The maps above are not refused for the most part, so that the claims are put to the test."""
    accepted, narrow = dict.fromkeys(IterMapLevel, 0), 0
    for seed in SEEDS:
        made = Map(seed, seed % 2 == 0)
        for level in IterMapLevel:
            accepted[level] += not detect_iter_map(made.indices, made.iters, made.predicate, level).errors
        narrow += any(isinstance(part, Cast) for index in made.indices for part in sub_expressions(index))
    assert accepted[IterMapLevel.NoCheck] > 60
    assert min(accepted.values()) > 30
    assert narrow > 5
