"""Operators of the VM: ``relax.op.vm.alloc_tensor``, … (declared in `storage.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .operator import namespace

__all__: list[str] = []

if TYPE_CHECKING:
    from ._signatures.vm import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]
else:
    __getattr__, __dir__ = namespace("relax.vm.")
