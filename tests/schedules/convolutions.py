"""Convolutions for the tests of their rules, and the shapes of their arguments.

Both take n, ci, co, the sizes of images (as many as the kernel's), the kernel, and what `topi.nn.conv` takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax import te, topi
from relax.tir import PrimFunc

LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}


def convolution(n: Any, ci: Any, co: Any, *rest: Any, dtype: str = "float32", **options: Any) -> PrimFunc:
    """A convolution as a PrimFunc."""
    size, kernel, stride, pad, dilation, groups = _parts(*rest, **options)
    x = te.placeholder((n, ci, *size), dtype, "X")
    k = te.placeholder((co, ci // groups, *kernel), dtype, "K")
    return te.create_prim_func([x, k, topi.nn.conv(x, k, stride, pad, dilation, groups, *LAYOUTS[len(size)])])


def shapes(n: int, ci: int, co: int, *rest: Any, **options: Any) -> list[tuple[int, ...]]:
    """The shapes of the data, the weights and the result."""
    size, kernel, stride, pad, dilation, groups = _parts(*rest, **options)
    spans = (dilation * (taps - 1) + 1 for taps in kernel)
    out = ((extent + 2 * pad - span) // stride + 1 for extent, span in zip(size, spans, strict=True))
    return [(n, ci, *size), (co, ci // groups, *kernel), (n, co, *out)]


def _parts(*rest: Any, **options: int) -> tuple[Sequence[Any], Sequence[int], int, int, int, int]:
    place = next(i for i, part in enumerate(rest) if isinstance(part, tuple))
    names = ("stride", "pad", "dilation", "groups")
    values = {"stride": 1, "pad": 0, "dilation": 1, "groups": 1}
    values |= dict(zip(names, rest[place + 1 :], strict=False)) | options
    return rest[:place], rest[place], *(values[name] for name in names)
