"""Passes over modules of Relay functions, one file each: `relay.transform`."""

from __future__ import annotations

from .infer_type import InferType
from .to_a_normal_form import ToANormalForm, to_a_normal_form
from .to_basic_block_normal_form import ToBasicBlockNormalForm, to_basic_block_normal_form
from .to_graph_normal_form import ToGraphNormalForm, to_graph_normal_form

__all__ = [
    "InferType",
    "ToANormalForm",
    "ToBasicBlockNormalForm",
    "ToGraphNormalForm",
    "to_a_normal_form",
    "to_basic_block_normal_form",
    "to_graph_normal_form",
]
