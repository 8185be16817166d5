"""The operators of `relax.op.distributed`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from relax.expr import Call
from relax.op.arguments import TensorLike

def redistribute_replica_to_shard(x: TensorLike, num_workers: int, axis: int) -> Call:
    """The worker's part of a replicated tensor, which is cut into equal parts along `axis`."""
