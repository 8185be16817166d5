"""Storages and the tensors cut from them: ``relax.op.memory.alloc_storage``, … (declared in `storage.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing as _answer_missing
from .operator import namespace

__all__: list[str] = []

if TYPE_CHECKING:
    from ._signatures.memory import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]
else:
    __getattr__, __dir__ = namespace("relax.memory.")

_answer_missing(__name__)
