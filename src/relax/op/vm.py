"""Operators of the machine: ``relax.op.vm.alloc_tensor``, … (declared in `storage.py`)."""

from __future__ import annotations

from .operator import namespace

__all__: list[str] = []

__getattr__, __dir__ = namespace("relax.vm.", globals())
