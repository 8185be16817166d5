"""Collective communication between the workers that run one program: ``relax.op.ccl.allreduce``, ….

A program is run by one worker, whose own tensor is the result of gathering or reducing. Inference supports any number
of workers; lowering for more than one raises an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from .. import topi
from ..expr import Call
from ..info.text import prim_text
from ..ir import StructInfo
from ..prim import IntImm, Verdict, intrin, prove_equal, simplify
from ..struct_info import TensorStructInfo
from .arguments import TensorLike
from .base import Gradients, Term
from .dims import tensor
from .errors import ATTRIBUTES, SHAPES, OperatorError
from .facts import Axes, Permuted, has_rank, moved_axis
from .operator import Array, composite, namespace, operator
from .shapes import Move


class Collective(Move):
    """Base of collectives: with one worker, the result is a copy of the operand."""

    __slots__ = ()

    workers: ClassVar[str] = ""
    """Name of the attribute that holds the number of workers."""

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        return x

    def require_one_worker(self) -> None:
        """Raise OperatorError for a call for several workers, which cannot be run."""
        if self.workers and getattr(self, self.workers) != 1:
            raise OperatorError(
                ATTRIBUTES, f"{self.workers} is {getattr(self, self.workers)}, but a program is run by one worker"
            )

    def compute(self, x: Any) -> Any:
        self.require_one_worker()
        return topi.identity(x)

    def reference(self, x: Array) -> Array:
        self.require_one_worker()
        return x.copy()

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return None


@operator("relax.ccl.allreduce")
class AllReduce(Collective):
    """The sum (or another reduction) of the tensors of all workers in the worker's group or in all groups."""

    elementwise: ClassVar[bool] = True
    total = True

    op_type: Literal["sum", "prod", "min", "max", "avg"] = "sum"
    in_group: bool = True


@operator("relax.ccl.allgather")
class AllGather(Collective):
    """Concatenation of the tensors of all workers along the first dimension."""

    workers = "num_workers"

    num_workers: int
    in_group: bool = True

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(self.num_workers > 0, "num_workers", "a positive number")
        self.require(x.ndim != 0, "x", "a tensor of at least one dimension", code=SHAPES)
        if x.dims is None or self.num_workers == 1:
            return x
        return tensor([simplify(x.dims[0] * self.num_workers), *x.dims[1:]], x.dtype)


@operator("relax.ccl.broadcast_from_worker0")
class BroadcastFromWorker0(Collective):
    """The tensor of worker 0."""

    elementwise: ClassVar[bool] = True
    total = True


class Scattering(Collective):
    """Base of operators that give each worker one of `num_workers` equal parts along `axis`."""

    __slots__ = ()

    workers = "num_workers"

    num_workers: int
    axis: int

    def infer(self, x: TensorStructInfo) -> TensorStructInfo:
        self.require_attribute(self.num_workers > 0, "num_workers", "a positive number")
        axis = self.require_axis(self.axis, x, "x")
        if axis is None or x.dims is None or self.num_workers == 1:
            return x
        size = x.dims[axis]
        if prove_equal(intrin.floormod(size, self.num_workers), IntImm("int64", 0)) is Verdict.NO:
            message = f"dimension {axis} is {prim_text(size)}, which {self.num_workers} workers cannot share"
            raise OperatorError(SHAPES, message, operand="x")
        share = simplify(intrin.floordiv(size, self.num_workers))
        return tensor([*x.dims[:axis], share, *x.dims[axis + 1 :]], x.dtype)

    def permuted(self, axes: Axes, infos: Sequence[StructInfo]) -> Permuted | None:
        if not has_rank(infos, axes) or not axes:
            return None
        return Permuted(self.replace(axis=moved_axis(self.axis, axes)), (axes,), (axes,))


@operator("relax.ccl.scatter_collective")
class ScatterCollective(Scattering):
    """The worker's part of worker 0's tensor, which is cut into equal parts along `axis`."""

    num_workers: int
    axis: int = 0


@composite("relax.ccl.scatter_from_worker0")
def scatter_from_worker0(x: TensorLike, num_workers: int, axis: int = 0) -> Call:
    """The worker's part of worker 0's tensor; alias of scatter_collective."""
    return ScatterCollective(num_workers, axis).call(x)


if TYPE_CHECKING:
    from ._signatures.ccl import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]
else:
    __getattr__, __dir__ = namespace("relax.ccl.")
