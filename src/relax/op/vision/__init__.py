"""The operators of object detection: ``relax.op.vision.roi_align``, …."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.tvm_names import answer_missing as _answer_missing
from ..operator import namespace

if TYPE_CHECKING:
    from .._signatures.vision import *  # noqa: F403  # pyright: ignore[reportMissingModuleSource]
else:
    __getattr__, __dir__ = namespace("relax.vision.", __name__)

_answer_missing(__name__)
