"""Operands of a matrix product as matrices: elements by row, depth and column, for given batch indices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from ....ir import DataType
from ....prim import Call, FloatImm, IntImm, PrimExpr, Var, is_const, post_order, simplify
from ....prim.instructions import prefetch
from ....runtime.records import dataclass
from ....tir import Buffer, BufferLoad, BufferStore, DeclBuffer, Evaluate, IterVar, LetStmt, PrimFunc, Stmt
from ....tir.buffer import decl_buffer
from ....tir.functor import StmtExprMutator, substitute
from ....tir.nests import Nest, buffers_used, is_compact, loads_in, nest_of, root_of, with_root
from ...build import block, int64, size_of
from ...common_parts import CommonParts
from ...matrix_product import NO_PRODUCT, MatrixProduct, matrix_product_of, with_finish, with_merged_axes
from ...rule import ALIASED, Refusal, refused

SMALL: Final = 8192
"""Number of multiplications below which a faster schedule does not pay for its compile time."""

Values: TypeAlias = Mapping[Var, PrimExpr]
"""Values of the batch variables."""


def rewritten_products(
    func: PrimFunc,
    write: Callable[[Operands], Stmt | Refusal],
    product_of: Callable[[Nest], MatrixProduct | Refusal] | None = None,
) -> PrimFunc | Refusal:
    """Replace each product for which `write` returns a statement; return a refusal if there is none.

    `product_of` says which nests are products: by default those of floats.

    A nest behind a product that maps each sum to one result is part of it, if nothing else reads the sums.
    """
    allocated, stmts = root_of(func)
    results: list[Stmt] = []
    unused: list[Buffer] = []
    refusals: list[Refusal] = []
    waiting = list(stmts)
    while waiting:
        stmt = waiting.pop(0)
        nest = nest_of(stmt)
        product = NO_PRODUCT if nest is None else (product_of or float_product_of)(nest)
        if isinstance(product, Refusal):
            results.append(stmt)
            refusals.append(product)
            continue
        sums = product.out.buffer
        finished = _finished(product, waiting) if sums in allocated and not _is_used(sums, results) else None
        written = write(Operands(finished or product)) if func.attrs.get("tir.noalias") else ALIASED
        if isinstance(written, Refusal):
            results.append(stmt)
            refusals.append(written)
            continue
        results.append(written)
        if finished is not None:
            waiting.pop(0)
            unused.append(sums)
    if len(results) == len(stmts) and all(a is b for a, b in zip(results, stmts, strict=True)):
        return refused(refusals, NO_PRODUCT.reason)
    return with_root(func, results, unused)


def _finished(product: MatrixProduct, behind: Sequence[Stmt]) -> MatrixProduct | None:
    """Return the product with the following statement as its epilogue, if nothing else reads the sum."""
    nest = nest_of(behind[0]) if behind else None
    if nest is None or _is_used(product.out.buffer, behind[1:]):
        return None
    finished = with_finish(product, nest)
    if finished is None or not finished.out.indices or finished.out.buffer.dtype.lanes != 1:
        return None
    read = {load.buffer.data for part in _factors_of(product) for load in loads_in(part)}
    if finished.out.buffer.data in read:  # other sums still need the elements that results would replace
        return None
    return finished if finished.out.indices[-1] is product.out.indices[-1] else None


def _factors_of(product: MatrixProduct) -> list[PrimExpr]:
    """Operands of a product, as expressions of what memory holds."""
    return [product.computed.get(load.buffer, load) for load in (product.lhs, product.rhs)]


def _is_used(buffer: Buffer, stmts: Sequence[Stmt]) -> bool:
    return any(buffer.data in used for stmt in stmts for used in buffers_used(stmt))


def product_of_numbers(
    nest: Nest, matrix_product_of: Callable[[Nest], MatrixProduct | Refusal] = matrix_product_of
) -> MatrixProduct | Refusal:
    """Return the product of a nest unless it is small; its columns are the last dimension of the result."""
    product = matrix_product_of(nest)
    if isinstance(product, Refusal):
        return product
    if not product.out.indices or product.out.indices[-1] not in {v.var for v in product.columns}:
        return Refusal("the last dimension of the result is not the columns")
    if not isinstance(product.start, (FloatImm, IntImm)) or product.start.value != 0:
        return Refusal("the sum does not begin with 0")
    few = few_multiplications(nest.block.iter_vars)
    return product if few is None else few


def float_product_of(nest: Nest) -> MatrixProduct | Refusal:
    """Return the product of a nest if it is of floats and not small; columns are the result's last dimension."""
    product = product_of_numbers(nest)
    if isinstance(product, Refusal):
        return product
    dtypes, wide = (product.lhs.dtype, product.rhs.dtype), product.sum_dtype
    if wide not in ("float32", "float64") or not all(is_float_up_to(dtype, wide) for dtype in dtypes):
        return Refusal(f"the sum is of {wide}, its factors of {' and '.join(dict.fromkeys(map(str, dtypes)))}")
    return product


def few_multiplications(variables: Iterable[IterVar]) -> Refusal | None:
    """Refuse a statically small number of multiplications: a faster schedule does not pay for its compile time."""
    total = 1
    for variable in variables:
        size = size_of(variable)
        if not isinstance(size, IntImm):
            return None
        total *= size.value
    return None if total >= SMALL else Refusal(f"only {total:,} multiplications, fewer than {SMALL:,}")


def is_float_up_to(dtype: DataType, wide: DataType) -> bool:
    """True if `wide` represents every value of `dtype`, so that vectors can be converted without rounding."""
    return dtype == wide or (wide == "float32" and dtype in ("float16", "bfloat16"))


class Matrices(Protocol):
    """Product of matrices in the form `product_loops` writes it; batched over `batch`.

    Operands and results are accesses of whole buffers whose indices are zeros and distinct variables.
    """

    rows: PrimExpr
    columns: PrimExpr
    depth: PrimExpr
    batch: tuple[IterVar, ...]
    """Batch variables, outermost first."""
    row: Var
    column: Var
    k: Var
    left: BufferLoad
    right: BufferLoad
    store: BufferStore
    """Store of a result; its last index is the column."""
    total: Var
    """Variable in the store's value that stands for the sum."""
    packed: BufferLoad | None
    """Access to the packed panels of the right operand for given batch indices, or None."""

    def declared(self, body: Stmt) -> Stmt:
        """Wrap `body` in the views and sizes it uses."""
        ...


class Operands:
    """Product whose row is the last row variable, and whose column is the variable of the result's last index.

    The other row and column variables count as batch variables.
    """

    def __init__(self, product: MatrixProduct) -> None:
        product, (self._views, self._names) = with_merged_axes(product)
        last = product.out.indices[-1]
        column = next(v for v in product.columns if v.var is last)
        others = tuple(v for v in product.columns if v is not column)
        self.columns, self.depth = size_of(column), size_of(product.depth)
        self.batch: tuple[IterVar, ...] = (*product.batch, *product.rows[:-1], *others)
        self.rows = size_of(product.rows[-1]) if product.rows else int64(1)
        self.row = product.rows[-1].var if product.rows else Var("row", "int64")
        self.column, self.k = column.var, product.depth.var
        self.left = product.lhs
        self.right = product.rhs
        self.total = Var("total", product.sum_dtype) if product.total is None else product.total
        out = product.out
        self.store = out if product.total is not None else out.replace(value=self.total)
        self.packed: BufferLoad | None = None
        self.computed = product.computed
        """Values of operands that no memory holds (see `MatrixProduct.computed`)."""
        self.right_is_contiguous = product.rhs.indices[-1] is self.column
        """True if consecutive columns of the right operand are contiguous."""

    def declared(self, body: Stmt) -> Stmt:
        """Wrap `body` in the views and sizes it uses."""
        for view in reversed(self._views):
            if self.packed is None or view.data is not self.right.buffer.data:
                body = DeclBuffer(view, body)
        for name, value in reversed(self._names):
            body = LetStmt(name, value, body)
        return body


class DeclaredOperands:
    """Operands whose views and sizes are already declared, possibly copied or restricted to the first columns."""

    def __init__(
        self, operands: Matrices, left: BufferLoad | None = None, packed: BufferLoad | None = None,
        columns: PrimExpr | None = None,
    ) -> None:  # fmt: skip
        self.rows, self.depth = operands.rows, operands.depth
        self.columns = operands.columns if columns is None else columns
        self.batch: tuple[IterVar, ...] = operands.batch
        self.row, self.column, self.k = operands.row, operands.column, operands.k
        self.left = operands.left if left is None else left
        self.right = operands.right
        self.packed = operands.packed if packed is None else packed
        self.store, self.total = operands.store, operands.total

    def declared(self, body: Stmt) -> Stmt:
        """Return `body` unchanged."""
        return body


def tile_view(access: BufferLoad | BufferStore, values: Values, axes: Sequence[tuple[Var, PrimExpr]]) -> Buffer:
    """View of a compact buffer restricted to (start, extent) of some variables of an access.

    Variables without a value begin at 0. Bounds are checked once, where the view is declared; indices into it are
    compared with its constant extents.
    """
    buffer = access.buffer
    strides: list[PrimExpr] = []
    stride: PrimExpr = int64(1)
    for size in reversed(buffer.shape):
        strides.insert(0, stride)
        stride = simplify(stride * int64(size))
    offset: PrimExpr = int64(0)
    steps = {var: int64(0) for var, _ in axes}
    for index, step in zip(access.indices, strides, strict=True):
        if isinstance(index, Var):
            offset = offset + int64(values.get(index, 0)) * step
            if index in steps:
                steps[index] = step
    shape = [int64(size) for _, size in axes]
    return decl_buffer(
        shape, str(buffer.dtype), f"{buffer.name}_tile", data=buffer.data, strides=list(steps.values()),
        elem_offset=simplify(offset),
    )  # fmt: skip


class Finished(Protocol):
    """Store of a product's result, as `Results` reads it."""

    @property
    def row(self) -> Var: ...

    @property
    def column(self) -> Var: ...

    @property
    def store(self) -> BufferStore:
        """Store of a result; its last index is the column."""
        ...

    @property
    def total(self) -> Var:
        """Variable in the store's value that stands for the sum."""
        ...


@dataclass(frozen=True)
class ResultStore:
    """Store of a result, for a kernel whose variables are not those of a product."""

    row: Var
    column: Var
    store: BufferStore
    total: Var


class Results:
    """Results of a tile, as views of the buffers that their stores read and write.

    Accesses whose indices are distinct variables become accesses of views; the others stay.
    """

    def __init__(self, operands: Finished, at: Values, height: PrimExpr, width: PrimExpr) -> None:
        self.operands, self.at = operands, at
        self.is_sum = operands.store.value is operands.total
        """True if the results are the sums themselves (no epilogue)."""
        self.has_calls = has_calls(operands.store.value)
        """True if the epilogue calls functions, which need registers for constants and take longer than loads."""
        self._axes = ((operands.row, height), (operands.column, width))
        self._views: dict[BufferLoad, Buffer] = {}
        self.out = self._view(operands.store)
        if not self.is_sum:
            loads = filter(self._is_plain, loads_in(operands.store.value))
            self._views.update({load: self._view(load) for load in loads})

    def _is_plain(self, load: BufferLoad) -> bool:
        variables = [id(index) for index in load.indices if isinstance(index, Var)]
        rest = [index for index in load.indices if not isinstance(index, Var)]
        plain = len(set(variables)) == len(variables) and all(is_const(index, 0) for index in rest)
        return plain and is_compact(load.buffer) and load.predicate is None

    def _used(self, access: BufferLoad | BufferStore) -> list[tuple[Var, PrimExpr]]:
        used = {id(index) for index in access.indices}
        return [(var, size) for var, size in self._axes if id(var) in used]

    def _view(self, access: BufferLoad | BufferStore) -> Buffer:
        return tile_view(access, self.at, self._used(access))

    def declared(self, body: Stmt) -> Stmt:
        """Wrap `body` in the views."""
        for view in (*self._views.values(), self.out):
            body = DeclBuffer(view, body)
        return body

    def place(self, p: PrimExpr, c: PrimExpr) -> list[PrimExpr]:
        """Indices of a result in `out`."""
        return self._indices(self.operands.store, p, c)

    def _indices(self, access: BufferLoad | BufferStore, p: PrimExpr, c: PrimExpr) -> list[PrimExpr]:
        return [p if var is self.operands.row else c for var, _ in self._used(access)]

    def made(self, p: PrimExpr, c: PrimExpr, total: PrimExpr) -> Stmt:
        """Return the store of the result computed from sum `total`."""
        return BufferStore(self.out, self._value(self.operands.store.value, p, c, total), self.place(p, c))

    def asked(self, p: PrimExpr, c: PrimExpr, locality: int) -> Stmt:
        """Prefetch the cache lines of a result and of its epilogue's operands.

        Operands with fewer dimensions than the result, such as biases, are not prefetched. `locality` is that of
        `prefetch`.
        """
        written = BufferLoad(self.out, self.place(p, c))
        read = [
            BufferLoad(view, self._indices(load, p, c))
            for load, view in self._views.items()
            if view.ndim == self.out.ndim
        ]
        lines = [prefetch(written, 1, locality), *(prefetch(load, 0, locality) for load in read)]
        return block([Evaluate(line) for line in lines])

    def of_row(self, p: PrimExpr, body: Callable[[Callable[[PrimExpr, PrimExpr], Stmt]], Stmt]) -> Stmt:
        """Call `body` with a function (column, sum) → store of a result of row `p`.

        Per-row values, such as biases and scales, are computed once, around the body.
        """
        operands = self.operands
        common = CommonParts((operands.column, operands.total))
        value = common.visit(operands.store.value)
        nothing = int64(0)

        def made(c: PrimExpr, total: PrimExpr) -> Stmt:
            return BufferStore(self.out, self._value(value, p, c, total), self.place(p, c))

        result = body(made)
        for name, part in reversed(common.values):
            result = LetStmt(name, self._value(part, p, nothing, operands.total), result)
        return result

    def _value(self, value: PrimExpr, p: PrimExpr, c: PrimExpr, total: PrimExpr) -> PrimExpr:
        """Rewrite a subexpression of the result's value for a row and column of the tile."""
        operands = self.operands
        viewed = _Viewed({load: (view, self._indices(load, p, c)) for load, view in self._views.items()})
        at: dict[Var, PrimExpr] = dict(self.at)
        at[operands.row] = at[operands.row] + p
        at[operands.column] = at[operands.column] + c
        typed = {var: index.astype(str(var.dtype)) for var, index in at.items()}
        return substitute(viewed.visit(value), {**typed, operands.total: total})


def has_calls(value: PrimExpr) -> bool:
    """True if the value contains function calls, such as an exponential, not just arithmetic."""
    calls: list[PrimExpr] = []

    def visit(part: PrimExpr) -> None:
        if isinstance(part, Call):
            calls.append(part)

    post_order(value, visit)
    return bool(calls)


class _Viewed(StmtExprMutator):
    """Replaces loads by loads of views."""

    def __init__(self, views: Mapping[BufferLoad, tuple[Buffer, Sequence[PrimExpr]]]) -> None:
        super().__init__()
        self.views = views

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        place = self.views.get(node)
        return self.visit_children(node) if place is None else BufferLoad(*place)


__all__ = [
    "DeclaredOperands", "Finished", "Matrices", "Operands", "ResultStore", "Results", "Values", "few_multiplications",
    "float_product_of", "has_calls", "is_float_up_to", "product_of_numbers", "rewritten_products", "size_of",
    "tile_view",
]  # fmt: skip
