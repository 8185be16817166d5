"""CombineParallelConv2D: convolutions of the same data, as one.

    (nn.conv2d(%x, %a), nn.conv2d(%x, %b), nn.conv2d(%x, %c))
        becomes    %1 = nn.conv2d(%x, concatenate((%a, %b, %c), axis=0));
                   (strided_slice(%1, …), strided_slice(%1, …), strided_slice(%1, …))

The kernels must have equal sizes, and the convolutions a single group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..expr import Call, Expr, Function
from .combine_parallel import Combination, attrs_but, combine_parallel, joined, shape_of
from .rewriting import Program, relay_pass


def _axes(call: Call) -> tuple[int, int]:
    """(Output channel axis of the kernel, channel axis of the result)."""
    attrs = cast(Any, call.attrs)
    return attrs.kernel_layout.index("O"), (attrs.out_layout or attrs.data_layout).index("C")


def _key(call: Call) -> Any:
    shape, attrs = shape_of(call.args[1]), cast(Any, call.attrs)
    layouts = attrs.data_layout + attrs.kernel_layout + attrs.out_layout
    if shape is None or attrs.groups != 1 or not layouts.isupper():  # packed: channels are no single axis
        return None
    axis, _ = _axes(call)
    return shape[:axis], shape[axis + 1 :], attrs_but(call, "channels")


def _combined(data: Expr, calls: Sequence[Call]) -> list[Expr]:
    kernel_axis, axis = _axes(calls[0])
    channels = sum(cast("tuple[int, ...]", shape_of(call.args[1]))[kernel_axis] for call in calls)
    declared = cast(Any, calls[0].attrs).channels
    return joined(data, calls, kernel_axis, axis, channels=None if declared is None else channels)


@relay_pass("CombineParallelConv2D", opt_level=4, required=["InferType"])
def CombineParallelConv2D(function: Function, program: Program, min_num_branches: int = 3) -> Expr:
    """Combine convolutions of the same data, in every function."""
    return combine_parallel(function, program, Combination("nn.conv2d", _key, _combined), min_num_branches)
