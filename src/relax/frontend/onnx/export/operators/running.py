"""Running sums, products and extrema."""

from __future__ import annotations

from typing import Any

from onnx import helper

from ..graph import Graph
from ..registry import writer
from ..tensor import Size, Tensor
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
    """Return the writer of a running extreme: a Loop whose states are the extreme so far and its index. (ONNX Runtime's
    Scan ends the process for an axis of no elements; a Loop of no steps has results of another rank.)"""

    def write(g: Graph, operator: Any, data: Tensor) -> list[Tensor]:
        axis: int = operator.axis % data.ndim
        key = ordered(data) if data.dtype == "uint64" else data.to("int32") if data.dtype == "bool" else data.wide()
        sizes: list[Size] = data.sizes()
        others = [size for d, size in enumerate(sizes) if d != axis]
        states = [g.const(0, dtype).expand(others) for dtype in (key.dtype, "int64")]
        body = _step(g, key, axis, largest)
        names = g.nodes_of("Loop", [g.scalar(sizes[axis]), None, *states], 4, "", {"body": body})
        back = [*range(1, axis + 1), 0, *range(axis + 1, data.ndim)]
        value, index = (
            Tensor(g, name, dtype, data.ndim).reshape([sizes[axis], *others]).transpose(back)
            for name, dtype in zip(names[2:], (key.dtype, "int64"), strict=True)
        )
        return [reordered(value, data.dtype), index]

    return write


def _step(outer: Graph, key: Tensor, axis: int, largest: bool) -> Any:
    """Return the graph of one step: an element takes the place of the one that was kept, or does not."""
    g = Graph(outer.model, outer)
    position, going, kept, index = (
        Tensor(g, g.model.fresh(name), kind)
        for name, kind in (("position", "int64"), ("going", "bool"), ("kept", key.dtype), ("index", "int64"))
    )
    new = g.run("Gather", key.at(g), position, axis=axis)
    takes = new >= kept if largest else new <= kept
    if new.kind.is_float:
        takes = (takes & kept.equal(kept)) | g.run("IsNaN", new, dtype="bool")
    takes = takes | position.equal(0)
    value, place = takes.where(new, kept), takes.where(position, index)
    results = [x.named(g, g.node("Identity", x).name) for x in (going, value, place, value, place)]
    inputs = [g.value_info(x, [] if x in (position, going) else None) for x in (position, going, kept, index)]
    return helper.make_graph(g.nodes, "step", inputs, [g.value_info(x) for x in results])


writer("relax.cummax")(_running_extreme(True))
writer("relax.cummin")(_running_extreme(False))
