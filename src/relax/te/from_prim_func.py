"""PrimFuncs as tensor expressions: the inverse of `create_prim_func`, for kernels written in its form.

    for i, j, k in T.grid(n, m, l):                        C = te.compute((n, m), lambda i, j:
        with T.block("C"):                                     te.sum(A[i, k] * B[k, j], axis=k))
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init(): C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

A kernel is a sequence of loop nests. Each writes all elements of one buffer, once or as a sum, maximum or minimum, at
the indices of its spatial axes, and reads arguments and buffers that were written before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir import structural_equal
from ..prim import PrimExpr, Var, Verdict, cast, const, free_vars, intrin, prove_equal, substitute
from ..prim.expr import Add, FloatImm, IntImm, Max, Min
from ..tir.buffer import Buffer, BufferLoad, IterVar
from ..tir.functor import StmtExprMutator
from ..tir.reduction import max, min, sum
from ..tir.stmt import AllocBuffer, Block, BlockRealize, BufferStore, For, PrimFunc, SeqStmt, Stmt
from .operation import compute, reduce_axis
from .tensor import ProducerLoad, Tensor


class NoFormulaError(ValueError):
    """A PrimFunc has a part that is no loop nest of the expected form."""


def from_prim_func(func: PrimFunc, arguments: Sequence[Tensor | PrimExpr], outputs: int) -> list[Tensor]:
    """Return the last `outputs` buffers of a PrimFunc as tensors computed from `arguments`, its other parameters.

    Raises NoFormulaError for a PrimFunc of another form, or whose shapes cannot be told from the arguments.
    """
    if len(arguments) + outputs != len(func.params) or func.preconditions:
        raise NoFormulaError("the parameters are not the arguments, followed by the outputs")
    return _Reader(func, arguments, outputs).tensors()


class _Reader:
    def __init__(self, func: PrimFunc, arguments: Sequence[Tensor | PrimExpr], outputs: int) -> None:
        self.func = func
        self.values: dict[Var, PrimExpr] = {}
        """Scalar parameters and sizes, by the values that the arguments give them."""
        self.written: dict[Buffer, Tensor] = {}
        for param, argument in zip(func.params, arguments, strict=False):
            buffer = func.buffer_map.get(param)
            if isinstance(argument, Tensor) != (buffer is not None):
                raise NoFormulaError("a parameter is a scalar where the argument is a tensor, or the reverse")
            if buffer is None:
                assert isinstance(argument, PrimExpr)
                self.values[param] = cast(param.dtype, argument)
            elif isinstance(argument, Tensor):
                self._bind(buffer, argument)
        results = [func.buffer_map.get(param) for param in func.params[len(func.params) - outputs :]]
        self.outputs = [buffer for buffer in results if buffer is not None]
        if len(self.outputs) < outputs:
            raise NoFormulaError("an output is a scalar")
        sizes = {var: None for buffer in self.outputs for size in buffer.shape for var in free_vars(size)}
        if unbound := [var.name for var in sizes if var not in self.values]:
            raise NoFormulaError(f"no argument gives {', '.join(unbound)}")

    def _bind(self, buffer: Buffer, tensor: Tensor) -> None:
        if len(buffer.shape) != tensor.ndim or buffer.dtype != tensor.dtype or buffer.strides:
            raise NoFormulaError(f"the buffer {buffer.name} is not like its argument")
        for size, actual in zip(buffer.shape, tensor.shape, strict=True):
            if isinstance(size, Var):
                self.values.setdefault(size, cast(size.dtype, actual))
        self.written[buffer] = tensor

    def tensors(self) -> list[Tensor]:
        self._statement(self.func.body, [])
        missing = [buffer.name for buffer in self.outputs if buffer not in self.written]
        if missing:
            raise NoFormulaError(f"no loop nest writes {', '.join(missing)}")
        return [self.written[buffer] for buffer in self.outputs]

    def _statement(self, stmt: Stmt, loops: list[For]) -> None:
        match stmt:
            case SeqStmt(seq) if not loops:
                for each in seq:
                    self._statement(each, [])
            case BlockRealize(block=Block() as block) if not loops and _only_groups(stmt):
                self._statement(block.body, [])
            case AllocBuffer() if not loops:
                self._statement(stmt.body, [])
            case For():
                self._statement(stmt.body, [*loops, stmt])
            case BlockRealize():
                self._block(stmt, loops)
            case _:
                raise NoFormulaError(f"{type(stmt).__name__} is no part of a formula")

    def _block(self, stmt: BlockRealize, loops: Sequence[For]) -> None:
        """Read a block whose axes are the loops around it, each once."""
        block, store = stmt.block, stmt.block.body
        remaining = {loop.loop_var: loop for loop in loops}
        for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True):
            loop = remaining.pop(value, None) if isinstance(value, Var) else None
            if loop is None or axis.dom is None or not _is_zero(loop.min) or not _is_zero(axis.dom.min):
                raise NoFormulaError(f"the axes of {block.name_hint} are not its loops")
            if prove_equal(loop.extent, axis.dom.extent) is not Verdict.YES:
                raise NoFormulaError(f"an axis of {block.name_hint} is longer than its loop")
        if remaining or not isinstance(store, BufferStore) or not _is_true(stmt.predicate):
            raise NoFormulaError(f"{block.name_hint} is not a single store of each element")
        if block.match_buffers or block.alloc_buffers or store.predicate is not None:
            raise NoFormulaError(f"{block.name_hint} has buffers of its own")
        self._store(block, store)

    def _store(self, block: Block, store: BufferStore) -> None:
        spatial = [axis for axis in block.iter_vars if axis.iter_type == IterVar.DataPar]
        reduced = [axis for axis in block.iter_vars if axis.iter_type == IterVar.CommReduce]
        buffer = store.buffer
        if buffer in self.written:
            raise NoFormulaError(f"{buffer.name} is written again after it has a value")
        if len(spatial) + len(reduced) != len(block.iter_vars):
            raise NoFormulaError(f"an axis of {block.name_hint} is neither spatial nor of a reduction")
        by_var = {axis.var: axis for axis in spatial}
        order = [by_var.pop(index, None) if isinstance(index, Var) else None for index in store.indices]
        if by_var or None in order:
            raise NoFormulaError(f"{buffer.name} is not written at its axes")
        shape = [substitute(size, self.values) for size in buffer.shape]
        for axis, size in zip(order, buffer.shape, strict=True):
            assert axis is not None and axis.dom is not None  # noqa: PT018
            if prove_equal(axis.dom.extent, size) is not Verdict.YES:
                raise NoFormulaError(f"not all elements of {buffer.name} are written")
        combine, value = _combined(store, block.init, bool(reduced))
        axes = [reduce_axis((0, substitute(_extent(axis), self.values)), axis.var.name) for axis in reduced]

        def element(*index: Var) -> PrimExpr:
            table: dict[Var, PrimExpr] = dict(self.values)
            for axis, var in zip(order, index, strict=True):
                assert axis is not None
                table[axis.var] = cast(axis.var.dtype, var)
            for axis, new in zip(reduced, axes, strict=True):
                table[axis.var] = cast(axis.var.dtype, new.var)
            read = substitute(_Reads(self.written).visit(value), table)
            return read if combine is None else combine(read, axis=axes)

        self.written[buffer] = compute(shape, element, buffer.name)


class _Reads(StmtExprMutator):
    """Reads of buffers as reads of the tensors that they hold."""

    def __init__(self, tensors: Mapping[Buffer, Tensor]) -> None:
        super().__init__()
        self.tensors = tensors

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        tensor = self.tensors.get(node.buffer)
        if tensor is None:
            raise NoFormulaError(f"{node.buffer.name} is read before it is written")
        return ProducerLoad(tensor, [self.visit(index) for index in node.indices])


def _combined(store: BufferStore, init: Stmt | None, reduces: bool) -> tuple[Any, PrimExpr]:
    """Return the reduction of a store, None for a plain one, and the reduced expression."""
    if init is None and not reduces:
        return None, store.value
    value, own = store.value, BufferLoad(store.buffer, store.indices)
    if not isinstance(value, (Add, Max, Min)) or not isinstance(init, BufferStore) or init.buffer is not store.buffer:
        raise NoFormulaError(f"{store.buffer.name} is no sum, maximum or minimum")
    rest = next((b for a, b in ((value.a, value.b), (value.b, value.a)) if structural_equal(a, own)), None)
    if rest is None or not all(map(structural_equal, init.indices, store.indices)):
        raise NoFormulaError(f"{store.buffer.name} is not accumulated in place")
    if not _is_identity(value, init.value):
        raise NoFormulaError(f"the reduction {store.buffer.name} starts at another value than its identity")
    return (sum if isinstance(value, Add) else max if isinstance(value, Max) else min), rest


def _is_identity(value: Add | Max | Min, start: PrimExpr) -> bool:
    """True if a sum starts at 0, a maximum or minimum at the least or greatest value of its dtype."""
    if isinstance(value, Add):
        return _is_zero(start)
    limit = intrin.min_value(start.dtype) if isinstance(value, Max) else intrin.max_value(start.dtype)
    infinite = float("-inf") if isinstance(value, Max) else float("inf")
    return structural_equal(start, limit) or (isinstance(start, FloatImm) and start.value == infinite)


def _only_groups(stmt: BlockRealize) -> bool:
    """True for a block that always runs and has no axes, no initial value and no views of buffers: as a root block."""
    block = stmt.block
    has_parts = block.iter_vars or block.init is not None or block.match_buffers
    return not has_parts and _is_true(stmt.predicate) and not isinstance(block.body, BufferStore)


def _extent(axis: IterVar) -> PrimExpr:
    assert axis.dom is not None
    return axis.dom.extent


def _is_zero(value: PrimExpr) -> bool:
    return isinstance(value, (IntImm, FloatImm)) and value.value == 0


def _is_true(condition: PrimExpr) -> bool:
    return structural_equal(condition, const(True, "bool"))


__all__ = ["NoFormulaError", "from_prim_func"]
