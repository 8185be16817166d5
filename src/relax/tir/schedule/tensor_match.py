"""Match a block's body with the description of a tensor intrinsic, and determine the region of each buffer.

    description                      the block                                       regions
    for i in range(4):               for k in range(4):                              C: D[x, y]
        C[0] = C[0] + A[i] * B[i]        D[x, y] = D[x, y] + E[x, z * 4 + k] * ...   A: E[x, z * 4 : z * 4 + 4]

Blocks are matched by their effect: variables are replaced by their values, predicates become conditions, and the init
runs under the condition that the reduction variables are at their starts. Loops of one iteration and the kinds of loops
are ignored. Operands of commutative operations may be swapped. Indices are compared by the prover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...ir import fields_of
from ...prim import (
    EQ,
    NE,
    Add,
    Analyzer,
    And,
    BinaryExpr,
    Call,
    Cast,
    CompareExpr,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Var,
    const,
    free_vars,
    is_const,
    sub_expressions,
)
from ...runtime.records import dataclass
from ..buffer import Buffer, BufferLoad, Range
from ..functor import substitute
from ..statements import conjunction, conjuncts, is_nothing, map_parts, seq_of
from ..stmt import BlockRealize, BufferStore, Evaluate, For, IfThenElse, LetStmt, SeqStmt, Stmt

_COMMUTATIVE: Final = (Add, Mul, Max, Min, And, Or, EQ, NE)


class Mismatch(Exception):
    """Raised with the first difference between a block and a description."""


@dataclass(frozen=True)
class TensorMatch:
    """Location of a description's buffer: the matched buffer, and the first index in each dimension."""

    buffer: Buffer
    start: tuple[PrimExpr, ...]


def match_description(
    body: Stmt, description: Stmt, buffers: Sequence[Buffer], analyzer: Analyzer
) -> dict[Buffer, TensorMatch]:
    """Return the location of each buffer of a description in a body. Raises Mismatch if body and description differ."""
    matcher = _Matcher(analyzer)
    described = without_blocks(description)
    matcher.stmt(without_blocks(body), described)
    for buffer in buffers:
        if buffer not in matcher.places:
            raise Mismatch(f"the description does not use its buffer {buffer.name}")
    matcher.require_apart(described)
    return matcher.places


def without_blocks(stmt: Stmt) -> Stmt:
    """Rewrite a statement without blocks and without loops of one iteration."""
    match stmt:
        case BlockRealize(iter_values, predicate, block):
            if block.alloc_buffers or block.match_buffers:
                raise Mismatch(f"block {block.name_hint} has buffers of its own")
            values = {v.var: value for v, value in zip(block.iter_vars, iter_values, strict=True)}
            body = without_blocks(block.body)
            if block.init is not None:
                starts = [
                    v.var.equal(v.dom.min) for v in block.iter_vars if v.iter_type == "reduce" and v.dom is not None
                ]
                body = seq_of([IfThenElse(conjunction(starts), without_blocks(block.init)), body])
            conditions = list(conjuncts(predicate))
            body = substitute(body, values)
            return IfThenElse(conjunction(conditions), body) if conditions else body
        case For(loop_var, low, extent, _, body) if is_const(extent, 1):
            return without_blocks(substitute(body, {loop_var: low}))
        case _:
            return map_parts(stmt, without_blocks)


class _Matcher:
    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.places: dict[Buffer, TensorMatch] = {}
        self.values: dict[Var, PrimExpr] = {}
        """Value in the body for each variable of the description."""
        self.inner: set[Var] = set()
        """Variables bound in the body."""

    # -------------------------------------------------------------------------------------- statements

    def stmt(self, body: Stmt, description: Stmt) -> None:
        match body, description:
            case For(), For():
                self.loop(body, description)
            case BufferStore(), BufferStore():
                _require_whole(body, description)
                self.access(body.buffer, body.indices, description.buffer, description.indices)
                self.expr(body.value, description.value)
            case SeqStmt(first), SeqStmt(second):
                if len(first) != len(second):
                    raise Mismatch(f"there are {len(first)} statements, in the description {len(second)}")
                for a, b in zip(first, second, strict=True):
                    self.stmt(a, b)
            case IfThenElse(), IfThenElse():
                self.branch(body, description)
            case LetStmt(), LetStmt():
                self.expr(body.value, description.value)
                self.values[description.var] = body.var
                self.inner.add(body.var)
                self.stmt(body.body, description.body)
            case Evaluate(first), Evaluate(second):
                self.expr(first, second)
            case _:
                raise Mismatch(f"there is {_kind_of(body)} where the description has {_kind_of(description)}")

    def loop(self, body: For, description: For) -> None:
        extent = self.translated(description.extent, body.loop_var)
        if extent is None or not self.analyzer.can_prove_equal(body.extent, extent):
            raise Mismatch(
                f"loop {body.loop_var.name} has extent {shown(body.extent)}, loop {description.loop_var.name} of the "
                f"description {shown(description.extent)}"
            )
        low = self.translated(description.min, body.loop_var)
        if low is None:
            raise Mismatch(f"loop {description.loop_var.name} of the description starts at {shown(description.min)}")
        self.analyzer.bind(body.loop_var, Range.from_min_extent(body.min, body.extent), override=True)
        self.values[description.loop_var] = self.analyzer.simplify(body.loop_var - body.min + low)
        self.inner.add(body.loop_var)
        self.stmt(body.body, description.body)

    def branch(self, body: IfThenElse, description: IfThenElse) -> None:
        self.expr(body.condition, description.condition)
        self.stmt(body.then_case, description.then_case)
        if body.else_case is not None and description.else_case is not None:
            self.stmt(body.else_case, description.else_case)
        elif body.else_case is not description.else_case:
            raise Mismatch("only one of the two has an else")

    # -------------------------------------------------------------------------------------- expressions

    def expr(self, body: PrimExpr, description: PrimExpr) -> None:
        """Raise unless two expressions match."""
        if _is_index_dtype(body) and _is_index_dtype(description):
            value = self.translated(description, body)
            if value is not None and self.is_index(body):
                if not self.analyzer.can_prove_equal(body, value):
                    raise _different(body, description)
                return
        if type(body) is not type(description) or body.dtype != description.dtype:
            if isinstance(body, CompareExpr) and isinstance(description, CompareExpr):
                self.mirrored(body, description)
                return
            raise _different(body, description)
        if isinstance(body, BufferLoad) and isinstance(description, BufferLoad):
            _require_whole(body, description)
            self.access(body.buffer, body.indices, description.buffer, description.indices)
        elif isinstance(body, Var) and isinstance(description, Var):
            if self.values.get(description) is not body:
                raise _different(body, description)
        else:
            self.operation(body, description)

    def operation(self, body: PrimExpr, description: PrimExpr) -> None:
        if isinstance(body, Call) and body.op is not description.op:  # type: ignore[attr-defined]
            raise _different(body, description)
        first, second = sub_expressions(body), sub_expressions(description)
        if len(first) != len(second) or not (first or _same_constant(body, description)):
            raise _different(body, description)
        before = dict(self.places)
        try:
            for a, b in zip(first, second, strict=True):
                self.expr(a, b)
        except Mismatch:
            if not isinstance(body, _COMMUTATIVE):
                raise
            self.places, in_order = before, self.places
            try:
                for a, b in zip(first, reversed(second), strict=True):
                    self.expr(a, b)
            except Mismatch:
                self.places = in_order
            else:
                return
            raise

    def mirrored(self, body: CompareExpr, description: CompareExpr) -> None:
        """Raise unless a comparison matches the other one with swapped operands."""
        if _MIRROR.get(type(body).__name__) != type(description).__name__:
            raise _different(body, description)
        self.expr(body.a, description.b)
        self.expr(body.b, description.a)

    def is_index(self, expr: PrimExpr) -> bool:
        """True for integer arithmetic on constants and variables."""
        match expr:
            case Var() | IntImm():
                return True
            case BinaryExpr():
                return self.is_index(expr.a) and self.is_index(expr.b)
            case Cast(_, value):
                return value.dtype.is_integer and self.is_index(value)
            case _:
                return False

    def translated(self, expr: PrimExpr, like: PrimExpr) -> PrimExpr | None:
        """Translate an index of the description to the body, in the dtype of `like`; None if it is no index."""
        match expr:
            case Var():
                value = self.values.get(expr)
                return None if value is None else value.astype(like.dtype)
            case IntImm():
                return const(expr.value, like.dtype)
            case BinaryExpr() if not isinstance(expr, (CompareExpr, And, Or)):
                a, b = self.translated(expr.a, like), self.translated(expr.b, like)
                return None if a is None or b is None else type(expr)(a, b)  # type: ignore[call-arg]
            case Cast(_, value) if value.dtype.is_integer:
                return self.translated(value, like)
            case _:
                return None

    # -------------------------------------------------------------------------------------- buffers

    def access(
        self, buffer: Buffer, indices: Sequence[PrimExpr], described: Buffer, described_indices: Sequence[PrimExpr]
    ) -> None:
        """Match an access with the location of the description's buffer, which the first access determines. Raises
        Mismatch.
        """
        if buffer.dtype != described.dtype or buffer.scope != described.scope:
            raise Mismatch(
                f"buffer {buffer.name} holds {buffer.dtype!s} in {buffer.scope}, {described.name} of the description "
                f"{described.dtype!s} in {described.scope}"
            )
        skipped = len(indices) - len(described_indices)
        if skipped < 0:
            raise Mismatch(
                f"buffer {buffer.name} has {buffer.ndim} dimensions, {described.name} of the description "
                f"{described.ndim}"
            )
        start = [*indices[:skipped]]
        for index, described_index in zip(indices[skipped:], described_indices, strict=True):
            value = self.translated(described_index, index)
            if value is None:
                raise Mismatch(
                    f"the index {described_index} of {described.name} in the description is no index of loops"
                )
            start.append(index - value)
        start = [self.analyzer.simplify(value) for value in start]
        for value in start:
            if self.inner.intersection(free_vars(value)):
                raise Mismatch(
                    f"{_text(buffer, indices)} moves otherwise than {_text(described, described_indices)} of the "
                    "description"
                )
        present = self.places.get(described)
        if present is None:
            self.places[described] = TensorMatch(buffer, tuple(start))
        elif present.buffer is not buffer or not all(
            self.analyzer.can_prove_equal(a, b) for a, b in zip(present.start, start, strict=True)
        ):
            raise Mismatch(
                f"{_text(buffer, indices)} stands where the description has {_text(described, described_indices)}, "
                f"which is {_text(present.buffer, present.start)} elsewhere"
            )

    def require_apart(self, description: Stmt) -> None:
        """Raise if a buffer that the description writes coincides with another one of its buffers."""
        for store in _stores(description):
            written = self.places[store.buffer]
            for other, match in self.places.items():
                if other is not store.buffer and match.buffer is written.buffer:
                    raise Mismatch(
                        f"buffers {store.buffer.name}, which the description writes, and {other.name} would both be "
                        f"{written.buffer.name}"
                    )


_MIRROR: Final = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}


def _require_whole(*accesses: BufferLoad | BufferStore) -> None:
    for access in accesses:
        if access.predicate is not None:
            raise Mismatch(f"the access {_text(access.buffer, access.indices)} is of some lanes only")


def _is_index_dtype(expr: PrimExpr) -> bool:
    """True for scalar integers of at least 32 bits, which do not wrap around as indices."""
    return expr.dtype.is_int and expr.dtype.bits >= 32 and expr.dtype.lanes == 1


def _stores(stmt: Stmt) -> list[BufferStore]:
    result: list[BufferStore] = []

    def collect(current: Stmt) -> Stmt:
        if isinstance(current, BufferStore):
            result.append(current)
        return map_parts(current, collect)

    collect(stmt)
    return result


def _same_constant(a: PrimExpr, b: PrimExpr) -> bool:
    return dict(fields_of(a)) == dict(fields_of(b))


def _different(body: PrimExpr, description: PrimExpr) -> Mismatch:
    if body.dtype == description.dtype:
        return Mismatch(f"there is {shown(body)}, in the description {shown(description)}")
    return Mismatch(
        f"there is {shown(body)} ({body.dtype!s}), in the description {shown(description)} ({description.dtype!s})"
    )


def shown(expr: PrimExpr) -> str:
    """Return the text of an expression; a constant without its dtype."""
    return str(expr.value) if isinstance(expr, IntImm) else str(expr)


def _text(buffer: Buffer, indices: Sequence[PrimExpr]) -> str:
    return f"{buffer.name}[{', '.join(map(shown, indices))}]"


def _kind_of(stmt: Stmt) -> str:
    if is_nothing(stmt):
        return "nothing"
    match stmt:
        case For():
            return f"loop {stmt.loop_var.name}"
        case BufferStore():
            return f"a store into {_text(stmt.buffer, stmt.indices)}"
        case IfThenElse():
            return f"the condition {stmt.condition}"
        case SeqStmt():
            return f"a sequence of {len(stmt.seq)} statements"
        case _:
            return f"a {type(stmt).__name__}"
