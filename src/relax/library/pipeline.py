"""Pipeline of tier "now": the graph passes of the default one, but kernels of the library, neither fused nor packed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..ir.transform import Pass, Sequential
from ..optimize.steps import GRAPH, LOWER, MACHINE
from ..transform.fuse_transpose_matmul import FuseTransposeMatmul
from ..transform.legalize_ops import LegalizeOps
from ..transform.memory import DataflowUseInplaceCalls, StaticPlanBlockMemory
from ..transform.rewrite_dataflow_reshape import RewriteDataflowReshape
from ..transform.vm_shape_lower import VMShapeLower
from .call_library import CallLibrary
from .store import Library

_LEFT_OUT: Final = (LegalizeOps, RewriteDataflowReshape, DataflowUseInplaceCalls, FuseTransposeMatmul)
"""CallLibrary does the work of the first two; kernels that write in place, or read transposed matrices, would have to
be made for it."""

_OPTIONS: Final[Mapping[Any, Mapping[str, Any]]] = {
    StaticPlanBlockMemory: {"rounds": 0},
    VMShapeLower: {"interpreted": True},
}
"""Options of passes that save time: no search for a smaller arena, no kernels for size arithmetic."""


def now_pipeline(library: Library) -> Pass:
    """Return the passes from a program as written to the input of the bytecode generator, as one pass."""
    lower = [step.make for step in (*LOWER, *MACHINE) if step.make not in _LEFT_OUT]
    passes = [
        *(step.make() for step in GRAPH if step.make not in _LEFT_OUT),
        CallLibrary(library),
        *(make(**_OPTIONS.get(make, {})) for make in lower),
    ]
    return Sequential(passes, name="now_pipeline")
