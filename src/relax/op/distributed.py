"""Operators of distributed tensors: ``relax.op.distributed.redistribute_replica_to_shard``.

A program is run by one worker (see `ccl`), so there are no device meshes or placements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing as _answer_missing
from .ccl import Scattering
from .operator import namespace, operator


@operator("relax.dist.redistribute_replica_to_shard")
class RedistributeReplicaToShard(Scattering):
    """The worker's part of a replicated tensor, which is cut into equal parts along `axis`."""

    num_workers: int
    axis: int


__all__: list[str] = []

if TYPE_CHECKING:
    from ._signatures.distributed import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]
else:
    __getattr__, __dir__ = namespace("relax.dist.")

_answer_missing(__name__)
