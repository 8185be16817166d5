"""Operators used by gradients: ``nn.max_pool2d_grad`` and ``nn.avg_pool2d_grad``."""

from __future__ import annotations

from typing import Any

from ... import op
from ...ir import RelaxExpr
from .declare import attr, declare


def _pool(kind: str) -> None:
    function: Any = getattr(op.grad, f"{kind}_pool2d_backward")
    averages = kind == "avg"

    def means(a: Any, grad: RelaxExpr, x: RelaxExpr) -> RelaxExpr:
        more = {"count_include_pad": a.count_include_pad} if averages else {}
        return function(
            grad, x, pool_size=a.pool_size, strides=a.strides, padding=a.padding, dilation=a.dilation,
            ceil_mode=a.ceil_mode, layout=a.layout, out_layout=a.out_layout, **more,
        )  # fmt: skip

    ones = (1, 1)
    declare(
        f"nn.{kind}_pool2d_grad", 2,
        attr("pool_size", "ints[2]", ones), attr("strides", "ints[2]", ones), attr("dilation", "ints[2]", ones),
        attr("padding", "int|ints", (0, 0)), attr("layout", "str", "NCHW"), attr("out_layout", "str", ""),
        attr("ceil_mode", "bool", False),
        *([attr("count_include_pad", "bool", False)] if averages else []),
        means=means,
    )  # fmt: skip


for _kind in ("max", "avg"):
    _pool(_kind)
