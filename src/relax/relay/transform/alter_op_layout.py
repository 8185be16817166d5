"""AlterOpLayout: rewrite convolutions by registered functions, usually to other layouts.

    @register_alter_op_layout("nn.conv2d")
    def alter(attrs, inputs, tinfos, out_type):
        return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": "NHWC", "kernel_layout": "HWIO"})

The function is called with the attributes, the operands, their types, and the result type. It returns a call of the
same operator, of which only the layouts are used, or None to leave the call unchanged. Layouts are propagated as in
ConvertLayout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from ...ir import Op
from ..expr import Call, Constant, Expr, Function
from .convert_layout import layouts_chosen
from .layouts import Layouts
from .rewriting import Program, ordered_rewrite, relay_pass

ALTER: Final = "FTVMAlterOpLayout"
"""Op attribute key of the registered function."""


def register_alter_op_layout(op_name: str, alter_layout: Callable[..., Any] | None = None) -> Any:
    """Register the layout function of an operator, or return a decorator."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        Op.get(op_name).set_attr(ALTER, function)
        return function

    return register if alter_layout is None else register(alter_layout)


def _chosen(call: Call) -> tuple[str, str] | None:
    alter = cast(Op, call.op).get_attr(ALTER)
    if alter is None:
        return None
    types = [arg.type if isinstance(arg, Constant) else getattr(arg, "checked_type_", None) for arg in call.args]
    altered = alter(call.attrs, list(call.args), types, call.checked_type_)
    if not isinstance(altered, Call) or altered.op is not call.op:
        return None
    attrs = cast(Any, altered.attrs)
    name = cast(Op, call.op).name
    return layouts_chosen(call, {name: [attrs.data_layout, attrs.kernel_layout]})


@relay_pass("AlterOpLayout", opt_level=3, required=["InferType"])
def AlterOpLayout(function: Function, program: Program) -> Expr:
    """Apply the layouts chosen by registered functions, in every function."""
    return ordered_rewrite(function, program, lambda expr: Layouts(_chosen).visit(expr))
