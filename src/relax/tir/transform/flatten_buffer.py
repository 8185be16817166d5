"""Flatten buffers to one dimension.

    def f(A: T.Buffer((n, 16))):                        def f(A: T.Buffer((n, 16))):
        t = T.allocate((16, 16))                            A_1 = T.decl_buffer((n * 16,), data=A.data)
        for i, j in T.grid(16, 16):             gives       t = T.allocate((256,))
            t[i, j] = A[i, j]                               for i, j in T.grid(16, 16):
                                                                t[i * 16 + j] = A_1[i * 16 + j]

A parameter keeps its shape for callers; its accesses use a flat view. An access that is not proved to be inside every
dimension is unchanged, with a buffer of the old shape, so that it fails as before. Skips buffers with strides, and
functions with blocks: lower them first. A buffer with axis separators keeps one dimension for each group of dimensions
between them.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir import DataType, Node
from ...prim import IntImm, PrimExpr, const, simplify
from ..buffer import Buffer, BufferLoad, Ramp, axis_groups, product, row_major
from ..functor import pre_order_visit
from ..stmt import AllocBuffer, BlockRealize, BufferStore, DeclBuffer, PrimFunc, Stmt
from ..usage import undefined_buffers
from .each_prim_func import each_prim_func
from .facts import FactsMutator


def flatten_buffer(func: PrimFunc) -> PrimFunc:
    """Return the function with one-dimensional accesses, where they are proved to be inside."""
    blocks: list[Node] = []
    pre_order_visit(func.body, lambda n: blocks.append(n) if isinstance(n, BlockRealize) else None)
    return func if blocks else _Flattening(func).run()


class _Flattening(FactsMutator):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self.flat: dict[Buffer, Buffer] = {}
        """Flattened buffer of each buffer in scope that has one."""

    def run(self) -> PrimFunc:
        parameters = dict.fromkeys(self.func.buffer_map.values())
        for buffer in parameters:
            if _has_flat_form(buffer):
                self.flat[buffer] = _flat(buffer)
        rewritten = super().run()
        body = rewritten.body
        used = set(undefined_buffers(body))
        for buffer in reversed(parameters):
            view = self.flat.get(buffer)
            if view is not None and view in used:
                body = DeclBuffer(view, body)
        return rewritten.replace(body=body)

    def open(self, buffer: Buffer) -> None:
        """Create the flattened buffer of a buffer in scope, if it needs one and its size is proved valid."""
        if _has_flat_form(buffer) and not self.allocation_can_fail(buffer):
            flat = _flat(buffer)
            if not self.allocation_can_fail(flat):
                self.flat[buffer] = flat

    # ------------------------------------------------------------------ storage

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        self.open(node.buffer)
        rewritten = super().visit_AllocBuffer(node)
        assert isinstance(rewritten, AllocBuffer)
        flat = self.flat.get(node.buffer)
        used = undefined_buffers(rewritten.body)
        if flat is None or flat not in used:
            return rewritten
        inner = DeclBuffer(node.buffer, rewritten.body) if node.buffer in used else rewritten.body
        return rewritten.replace(buffer=flat, body=inner)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        self.open(node.buffer)
        rewritten = self.visit_children(node)
        flat = self.flat.get(node.buffer)
        used = undefined_buffers(rewritten.body)
        if flat is None or flat not in used:
            return rewritten
        if node.buffer not in used and not self.view_can_fail(node.buffer):
            return rewritten.replace(buffer=flat)
        return rewritten.replace(body=DeclBuffer(flat, rewritten.body))

    # ------------------------------------------------------------------ accesses

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        indices, predicate = self.visit_all(node.indices), self.visit_predicate(node.predicate)
        flat = self.flat_form(node.buffer, node.indices)
        if flat is None:
            return node.replace(indices=indices, predicate=predicate)
        return BufferLoad(flat, self.place(node.buffer, indices, flat), predicate, span=node.span)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        value, indices = self.visit(node.value), self.visit_all(node.indices)
        predicate = self.visit_predicate(node.predicate)
        flat = self.flat_form(node.buffer, node.indices)
        if flat is None:
            return node.replace(value=value, indices=indices, predicate=predicate)
        return BufferStore(flat, value, self.place(node.buffer, indices, flat), predicate, span=node.span)

    def flat_form(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Buffer | None:
        """Return the flattened buffer if an access is proved to be inside the shape, else None."""
        flat = self.flat.get(buffer)
        return flat if flat is not None and self.inside(buffer, indices) else None

    def place(self, buffer: Buffer, indices: tuple[PrimExpr, ...], flat: Buffer) -> tuple[PrimExpr, ...]:
        """Return the indices in the flattened buffer: one for each group of dimensions."""
        return tuple(
            self.position(buffer.shape[group.start : group.stop], indices[group.start : group.stop], size)
            for group, size in zip(axis_groups(buffer), flat.shape, strict=True)
        )

    def position(self, shape: tuple[PrimExpr, ...], indices: tuple[PrimExpr, ...], size: PrimExpr) -> PrimExpr:
        """Return the linear index of an element, in the dtype of the indices if every position fits it, else int64.

        A vector index is a `Ramp`, as others are not proved to be inside. The sum of ramps is a ramp.
        """
        if not indices:
            return const(0, "int64")
        kinds = {index.dtype.element_of for index in indices}
        kind = indices[-1].dtype.element_of
        fits = len(kinds) == 1 and isinstance(size, IntImm) and size.value <= kind.max_value
        dtype = kind if fits else DataType("int64")
        strides = [stride.astype(dtype) for stride in row_major(shape)]
        base = self.sum_of_products((i.base if isinstance(i, Ramp) else i for i in indices), strides, dtype)
        ramps = [(i, stride) for i, stride in zip(indices, strides, strict=True) if isinstance(i, Ramp)]
        if not ramps:
            return base
        step = self.sum_of_products((i.stride for i, _ in ramps), (stride for _, stride in ramps), dtype)
        return Ramp(base, step, ramps[0][0].lanes)

    def sum_of_products(self, numbers: Iterable[PrimExpr], strides: Iterable[PrimExpr], dtype: DataType) -> PrimExpr:
        """Return Σ number · stride, computed in `dtype` and simplified."""
        total = const(0, dtype)
        for number, stride in zip(numbers, strides, strict=True):
            total = total + number.astype(dtype) * stride
        return self.analyzer.simplify(total)


def _has_flat_form(buffer: Buffer) -> bool:
    return not buffer.strides and any(len(group) != 1 for group in axis_groups(buffer))


def _flat(buffer: Buffer) -> Buffer:
    groups = axis_groups(buffer)
    shape = (simplify(product(buffer.shape[group.start : group.stop])) for group in groups)
    return buffer.replace(shape=tuple(shape), axis_separators=tuple(range(1, len(groups))))


FlattenBuffer = each_prim_func(flatten_buffer, "FlattenBuffer")
"""Pass: flatten buffers to one dimension."""
