"""Scores of attention for blocks of queries and keys: mask operands, and the range of keys visible to any query.

X[b, i, j] = T.if_then_else(j <= i + n - m, S[b, i, j] * c + mask[i, j], -inf)

for the queries from q on and the keys from k on:       mask_block[0:60, 0:64] = mask[q : q + 64, k : k + 60]ᵀ
keys that any of 64 queries sees:                       from 0 up to q + 63 + n - m
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ....ir.transform import FAST_ALGORITHMS, PassContext
from ....prim import GE, GT, LE, LT, And, Call, FloatImm, PrimExpr, Select, Var, const, free_vars, simplify
from ....prim.intrin import if_then_else
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, Stmt
from ....tir.attention import Attention
from ....tir.functor import StmtExprMutator, substitute
from ....tir.nests import is_compact, loads_in
from ...build import block, scratch
from ..products.operands import Values, tile_view
from ..tile.transposes import turned

Element = Callable[[PrimExpr, PrimExpr], PrimExpr]
"""Element that a score reads, for a (key, query) of a block."""
Parts = Mapping[BufferLoad, Element]
"""Replacements of loads by elements of transposed blocks and views."""


def part_of(access: BufferLoad | BufferStore, values: Values, axes: Sequence[tuple[Var, PrimExpr]]) -> Buffer:
    """`tile_view` of an access whose other indices may be expressions of the batch variables."""
    at, indices = dict(values), list(access.indices)
    for d, index in enumerate(indices):
        if not isinstance(index, Var):
            indices[d] = place = Var("place", "int64")
            at[place] = substitute(index, dict(values)).astype("int64")
    return tile_view(access.replace(indices=tuple(indices)), at, axes)


class Scores:
    """Scores of an attention."""

    def __init__(self, one: Attention) -> None:
        self.one = one
        row, key = one.row.var, one.key.var
        loads = loads_in(one.score)
        by_row = [load for load in loads if row in free_vars(load)]
        self.regular = [load for load in loads if _is_regular(load, row, key)]
        """Loads that read part of a matrix or vector for a block of queries and keys."""
        self.copied = [load for load in self.regular if load in by_row and _goes_along(load, key)]
        """Loads contiguous along the keys, whose blocks are transposed."""
        self.is_guarded = len(self.copied) < len(by_row)
        """True if scores must not be computed for queries past the last one (out-of-bounds reads)."""

        fast = bool(PassContext.current().config.get(FAST_ALGORITHMS, True))
        self.limits = self._limits() if fast else []
        """Bounds on the keys a query sees: (True, first visible key) and (False, end of the visible keys)."""

    def with_parts(
        self, values: Values, rows: PrimExpr, keys: PrimExpr, shape: tuple[int, int] | None, lanes: int,
        body: Callable[[Parts], Stmt],
    ) -> Stmt:  # fmt: skip
        """Call `body` with the operands of scores of a block: transposed blocks of a shape, and views.

        With shape None, all operands are views. Indices are checked against the constant sizes of a block.
        """
        row, key = self.one.row.var, self.one.key.var

        def rest(loads: Sequence[BufferLoad], parts: Parts) -> Stmt:
            if not loads:
                return body(parts)
            load, *others = loads
            used = [(var, size) for var, size in ((row, rows), (key, keys)) if _stands_in(var, load)]
            view = part_of(load, values, used)

            def element(j: PrimExpr, i: PrimExpr) -> PrimExpr:
                return BufferLoad(view, [i if var is row else j for var, _ in used])

            if shape is None or all(load is not other for other in self.copied):
                return DeclBuffer(view, rest(others, {**parts, load: element}))

            def copied(buffer: Buffer) -> Stmt:
                copy = turned(view, buffer, rows, keys, lanes, lambda value: value)
                transposed: Element = lambda j, i: BufferLoad(buffer, (j, i))  # noqa: E731
                return block([DeclBuffer(view, copy), rest(others, {**parts, load: transposed})])

            return scratch(f"{load.buffer.name}_block", shape, str(load.dtype), copied)

        return rest(self.regular, {})

    def at(
        self, values: Values, place: tuple[PrimExpr, PrimExpr], inside: PrimExpr, parts: Parts, product: PrimExpr
    ) -> PrimExpr:
        """Score of the (key, query) at `place` of a block; only the first `inside` queries exist."""
        one = self.one
        j, i = place
        names = {load: element(j, i) for load, element in parts.items()}
        score = _OfParts(names).visit(one.score)
        at = dict(values)
        at[one.row.var], at[one.key.var] = at[one.row.var] + i, at[one.key.var] + j
        typed = {var: value.astype(str(var.dtype)) for var, value in at.items()}
        score = substitute(score, {**typed, one.product: product})
        return if_then_else(i < inside, score, const(0, str(score.dtype))) if self.is_guarded else score

    def visible(self, values: Values, rows: PrimExpr, keys: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Return (first key, end of keys) seen by any of `rows` queries, as far as the conditions tell."""
        first: dict[Var, PrimExpr] = {}
        last: dict[Var, PrimExpr] = {}
        for var, value in values.items():
            first[var] = value.astype(str(var.dtype))
            last[var] = first[var]
        row = self.one.row.var
        last[row] = (values[row] + rows - 1).astype(str(row.dtype))
        begin, end = const(0, "int64"), keys
        for least, limit in self.limits:
            if least:
                begin = maximum(begin, substitute(limit, first).astype("int64"))
            else:
                end = minimum(end, substitute(limit, last).astype("int64"))
        return simplify(minimum(begin, keys)), simplify(maximum(end, const(0, "int64")))

    def _limits(self) -> list[tuple[bool, PrimExpr]]:
        """Compute `limits`."""
        match self.one.score:
            case Select(condition, _, FloatImm(value)) if value == -math.inf:
                pass
            case Call(args=(condition, _, FloatImm(value))) as call if (
                call.intrinsic == "if_then_else" and value == -math.inf
            ):
                pass
            case _:
                return []
        limits = [self._limit(part) for part in _conjuncts(condition)]
        return [limit for limit in limits if limit is not None and self._grows(limit[1])]

    def _limit(self, condition: PrimExpr) -> tuple[bool, PrimExpr] | None:
        key = self.one.key.var
        match condition:
            case LE(a, b) if a is key:
                return False, b + 1
            case LT(a, b) if a is key:
                return False, b
            case GE(a, b) if a is key:
                return True, b
            case GT(a, b) if a is key:
                return True, b + 1
            case _:
                return None

    def _grows(self, limit: PrimExpr) -> bool:
        """True for a bound that depends on positions only and grows by 0 or 1 from one query to the next."""
        row = self.one.row.var
        rest = simplify(limit - row)
        plain = not loads_in(limit) and self.one.key.var not in free_vars(limit)
        return plain and (row not in free_vars(limit) or row not in free_vars(rest))


def _is_regular(load: BufferLoad, row: Var, key: Var) -> bool:
    """True if query and key are plain indices, each at most once and at least one of them, and occur nowhere else."""
    bare = [index for index in load.indices if index is row or index is key]
    others = [index for index in load.indices if index is not row and index is not key]
    single = 0 < len(bare) == len({id(index) for index in bare})
    return single and is_compact(load.buffer) and not any({row, key}.intersection(free_vars(i)) for i in others)


def _goes_along(load: BufferLoad, key: Var) -> bool:
    """True if a load reads floats with the key variable `key` as its last index."""
    return load.indices[-1] is key and load.dtype.is_float


def _stands_in(var: Var, load: BufferLoad) -> bool:
    return any(index is var for index in load.indices)


def _conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    if isinstance(condition, And):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    return [condition]


class _OfParts(StmtExprMutator):
    """Replaces loads by elements of blocks and views."""

    def __init__(self, names: Mapping[BufferLoad, PrimExpr]) -> None:
        super().__init__()
        self.names = names

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        return self.names.get(node, node)
