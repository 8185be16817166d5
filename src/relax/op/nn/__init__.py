"""The operators of neural networks: ``relax.op.nn.softmax``, …."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..operator import namespace

if TYPE_CHECKING:
    from .._signatures.nn import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]
else:
    __getattr__, __dir__ = namespace("relax.nn.", __name__)
