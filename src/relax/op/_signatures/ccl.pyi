"""The operators of `relax.op.ccl`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from relax.expr import Call
from relax.op.arguments import TensorLike
from typing import Literal

def allgather(x: TensorLike, num_workers: int, in_group: bool = True) -> Call:
    """Concatenation of the tensors of all workers along the first dimension."""

def allreduce(
    x: TensorLike,
    op_type: Literal['sum', 'prod', 'min', 'max', 'avg'] | str = 'sum',
    in_group: bool = True,
) -> Call:
    """The sum (or another reduction) of the tensors of all workers in the worker's group or in all groups."""

def broadcast_from_worker0(x: TensorLike) -> Call:
    """The tensor of worker 0."""

def scatter_collective(x: TensorLike, num_workers: int, axis: int = 0) -> Call:
    """The worker's part of worker 0's tensor, which is cut into equal parts along `axis`."""

def scatter_from_worker0(x: TensorLike, num_workers: int, axis: int = 0) -> Call:
    """The worker's part of worker 0's tensor; alias of scatter_collective."""
