"""Running sums, products and extrema."""

from __future__ import annotations

from typing import Any

from onnx import helper

from ..graph import Graph
from ..registry import writer
from ..tensor import Tensor
from .elementwise import converted
from .reduce import ordered, reordered


def _running(op_type: str) -> Any:
    def write(g: Graph, operator: Any, data: Tensor) -> Tensor:
        dtype = str(operator.dtype) or ("int64" if data.dtype == "bool" else data.dtype)
        if op_type == "CumProd" and g.opset < 26:
            g.refuse("running products before opset 26", "to_onnx(mod, opset=26)")
        flat = data.flat() if operator.axis is None else data
        axis = 0 if operator.axis is None else operator.axis % data.ndim
        wide = converted(flat, dtype).wide()
        return g.run(op_type, wide, g.const(axis, "int64"), rank=flat.rank, exclusive=int(operator.exclusive))

    return write


writer("relax.cumsum")(_running("CumSum"))
writer("relax.cumprod")(_running("CumProd"))


def _running_extreme(largest: bool) -> Any:
    """Return the writer of a running extreme: a Scan whose states are the extreme so far, its index and the next index."""

    def write(g: Graph, operator: Any, data: Tensor) -> list[Tensor]:
        axis = operator.axis % data.ndim
        key = ordered(data) if data.dtype == "uint64" else data.to("int32") if data.dtype == "bool" else data.wide()
        sizes = [size for d, size in enumerate(data.sizes()) if d != axis]
        states = [g.const(0, dtype).expand(sizes) for dtype in (key.dtype, "int64")]
        body = _step(g, key.dtype, largest)
        along: dict[str, Any] = {"num_scan_inputs": 1, "scan_input_axes": [axis], "scan_output_axes": [axis, axis]}
        names = g.nodes_of("Scan", [*states, g.const(0, "int64"), key], 5, "", {"body": body, **along})
        value, index = (
            Tensor(g, name, dtype, data.ndim) for name, dtype in zip(names[3:], (key.dtype, "int64"), strict=True)
        )
        return [reordered(value, data.dtype), index]

    return write


def _step(outer: Graph, dtype: str, largest: bool) -> Any:
    """Return the graph of one step: a new element replaces the one that was kept, or does not."""
    g = Graph(outer.model, outer)
    kept, index, position, new = (
        Tensor(g, g.model.fresh(name), kind)
        for name, kind in (("kept", dtype), ("index", "int64"), ("position", "int64"), ("new", dtype))
    )
    takes = new >= kept if largest else new <= kept
    if new.kind.is_float:
        takes = (takes & kept.equal(kept)) | g.run("IsNaN", new, dtype="bool")
    takes = takes | position.equal(0)
    value, place = takes.where(new, kept), takes.where(position, index)
    results = [value, place, position + 1, *(x.named(g, g.node("Identity", x).name) for x in (value, place))]
    inputs = [g.value_info(x, [] if x is position else None) for x in (kept, index, position, new)]
    return helper.make_graph(g.nodes, "step", inputs, [g.value_info(x) for x in results])


writer("relax.cummax")(_running_extreme(True))
writer("relax.cummin")(_running_extreme(False))
