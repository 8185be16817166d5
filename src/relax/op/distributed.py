"""Operators of distributed tensors: ``relax.op.distributed.redistribute_replica_to_shard``.

A program is run by one worker (see `ccl`), so that there are neither meshes of devices nor placements on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ccl import Scattering
from .operator import operator, public_function, public_names


@operator("relax.dist.redistribute_replica_to_shard")
class RedistributeReplicaToShard(Scattering):
    """The worker's part of a tensor that every worker has, which is cut into equal parts along `axis`."""

    num_workers: int
    axis: int


__all__: list[str] = []


def __getattr__(name: str) -> Callable[..., Any]:
    function = public_function(f"relax.dist.{name}")
    if function is None:
        raise AttributeError(f"relax.op.distributed has no operator {name!r}")
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *public_names("relax.dist.")})
