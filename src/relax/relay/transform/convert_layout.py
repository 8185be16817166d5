"""ConvertLayout: convert convolutions to requested layouts, with as few transforms around them as possible.

    ConvertLayout({"nn.conv2d": ["NHWC", "default"]})

    nn.relu(nn.conv2d(%x, %w))    becomes    %0 = layout_transform(%x, src_layout="NCHW", dst_layout="NHWC");
                                             %1 = layout_transform(%w, src_layout="OIHW", dst_layout="HWIO");
                                             %2 = nn.relu(nn.conv2d(%0, %1, data_layout="NHWC", kernel_layout="HWIO"));
                                             layout_transform(%2, src_layout="NHWC", dst_layout="NCHW")

The layouts are those of data and kernel; "default" for the kernel is the one that matches the data layout. Layouts are
permutations of axes: "NCHW4c", with a split axis, is rejected; a convolution that has such a layout keeps it. `layouts`
implements the propagation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...ir import Diagnostic, DiagnosticError, Op
from ..expr import Call, Expr, Function
from .layouts import Layouts
from .rewriting import Program, ordered_rewrite, relay_pass

BAD_LAYOUT = "E9070"
"""Layout that an operator does not support."""

_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")


def layouts_chosen(call: Call, desired: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """Layouts of data and kernel for a call; None if it has them already or none is requested."""
    name = call.op.name if isinstance(call.op, Op) else ""
    if name not in desired:
        return None
    attrs = cast(Any, call.attrs)
    if not (attrs.data_layout + attrs.kernel_layout + attrs.out_layout).isupper():
        return None  # packed already: its layouts are no permutations
    wanted = [*desired[name], "default"][:2]
    data = attrs.data_layout if wanted[0] == "default" else wanted[0]
    kernel = default_kernel_layout(data) if wanted[1] == "default" else wanted[1]
    for layout, old in ((data, attrs.data_layout), (kernel, attrs.kernel_layout)):
        if sorted(layout) != sorted(old):
            message = f"{name}: the layout {layout} is no order of the axes of {old}"
            hint = "layouts with split axes, such as NCHW4c, are not supported"
            raise DiagnosticError(Diagnostic(BAD_LAYOUT, message, call.span, hint=hint))
    return None if (data, kernel) == (attrs.data_layout, attrs.kernel_layout) else (data, kernel)


def default_kernel_layout(data_layout: str) -> str:
    """Kernel layout that matches a data layout: OIHW for NCHW, HWIO for NHWC."""
    spatial = "".join(letter for letter in data_layout if letter not in "NC")
    return f"OI{spatial}" if data_layout.index("C") == 1 else f"{spatial}IO"


def convert_layout(expr: Expr, desired: Mapping[str, Sequence[str]], program: Program | None = None) -> Expr:
    """Return the typed expression with converted convolutions; itself if nothing changes."""
    program = Program() if program is None else program
    return ordered_rewrite(
        expr, program, lambda ordered: Layouts(lambda call: layouts_chosen(call, desired)).visit(ordered)
    )


@relay_pass("ConvertLayout", opt_level=3, required=["InferType"])
def ConvertLayout(function: Function, program: Program, desired_layouts: Mapping[str, Sequence[str]]) -> Expr:
    """Convert convolutions to other layouts, in every function.

    Raises DiagnosticError (E9070) for an invalid layout or another operator.
    """
    for name in desired_layouts:
        if name not in _CONVOLUTIONS:
            hint = f"operators whose layout can be chosen: {', '.join(_CONVOLUTIONS)}"
            raise DiagnosticError(Diagnostic(BAD_LAYOUT, f"the layout of {name} cannot be chosen", hint=hint))
    return convert_layout(function, desired_layouts, program)
