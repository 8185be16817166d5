"""Operators that lowering introduces first: ``relax.op.builtin.alloc_tensor``, … (declared in `storage.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .operator import namespace

__all__: list[str] = []

if TYPE_CHECKING:
    from ._signatures.builtin import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]
else:
    __getattr__, __dir__ = namespace("relax.builtin.")
