"""Text table and SVG picture of a memory plan."""

from __future__ import annotations

import colorsys
import zlib
from html import escape
from typing import Final

from .memory_figures import PlanFigures, PlannedTensor

BAR: Final = 40
"""Width in characters of the lifetime bars."""
WIDTH: Final = 1200.0
HEIGHT: Final = 640.0
MARGIN: Final = 48.0
LABELLED: Final = (42.0, 12.0)
"""Minimum width and height of a box that is labelled."""


def table_of(plan: PlanFigures) -> str:
    """The table, and the figures below."""
    header = ("tensor", "shape", "dtype", "bytes", "in", "offset", "alive", "")
    rows = [_row(plan, tensor) for tensor in plan.tensors]
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    lines = [
        "  ".join(
            cell.rjust(width) if i in (3, 5) else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (header, *rows)
    ]
    return "\n".join([f"{_title(plan)}", "", *lines, "", *_figures(plan)])


def _title(plan: PlanFigures) -> str:
    sizes = ", ".join(f"{name} = {size}" for name, size in plan.sizes.items())
    return f"memory of {plan.function}" + (f" for {sizes}" if sizes else "")


def _row(plan: PlanFigures, tensor: PlannedTensor) -> tuple[str, ...]:
    shape = " x ".join(map(str, tensor.shape)) or "scalar"
    storage = tensor.storage or "its own"
    offset = "" if tensor.storage is None else str(tensor.offset)
    alive = f"{tensor.first}-{'' if tensor.escapes else tensor.last}"
    count = max((t.last for t in plan.tensors), default=0) + 1
    start = tensor.first * BAR // count
    stop = max(start + 1, -(-(tensor.last + 1) * BAR // count))
    bar = "." * start + "#" * (stop - start) + "." * (BAR - stop)
    return tensor.name, shape, tensor.dtype, str(tensor.nbytes), storage, offset, alive, bar


def _figures(plan: PlanFigures) -> list[str]:
    lines = [f"{s.name}: {s.nbytes} bytes, of which {plan.alive_in(s)} are alive at once" for s in plan.storages]
    bound = plan.lower_bound
    ratio = f", {plan.peak / bound:.3f} times the lower bound" if bound else ""
    return [
        *lines,
        f"at most in use: {plan.peak} bytes{ratio}",
        f"lower bound (largest set of live tensors): {bound} bytes",
        f"all {len(plan.tensors)} tensors: {plan.total} bytes",
    ]


# ------------------------------------------------------------------------------------------- picture


def svg_of(plan: PlanFigures) -> str:
    """Return the picture as a self-contained SVG document."""
    lanes, top = _lanes(plan)
    end = max((tensor.last for tensor in plan.tensors), default=0) + 1
    across, up = (WIDTH - 2 * MARGIN) / end, (HEIGHT - 2 * MARGIN) / max(top, 1)
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" '
        f'font-family="system-ui, sans-serif" font-size="11">',
        f"<title>{escape(_title(plan))}</title>",
        f'<rect width="{WIDTH:.0f}" height="{HEIGHT:.0f}" fill="#fbfbfa"/>',
        f'<text x="{MARGIN}" y="20" font-size="14">{escape(_title(plan))}</text>',
        f'<text x="{MARGIN}" y="{HEIGHT - 14}">{escape("; ".join(_figures(plan)))}</text>',
    ]
    for tensor in plan.tensors:
        x, width = MARGIN + tensor.first * across, (tensor.last + 1 - tensor.first) * across
        height = tensor.nbytes * up
        y = HEIGHT - MARGIN - (lanes[tensor] + tensor.nbytes) * up
        elements.append(_box(tensor, x, y, width, height))
    level = HEIGHT - MARGIN - plan.lower_bound * up
    elements.append(
        f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{level:.1f}" y2="{level:.1f}" stroke="#d9480f" '
        f'stroke-dasharray="6 4"><title>lower bound: {plan.lower_bound} bytes</title></line>'
    )
    return "\n".join([*elements, "</svg>", ""])


def _lanes(plan: PlanFigures) -> tuple[dict[PlannedTensor, int], int]:
    """The lowest address of each tensor in the picture, and the highest: storages on top of each other."""
    bases: dict[str | None, int] = {}
    top = 0
    for storage in plan.storages:
        bases[storage.name] = top
        top += storage.nbytes
    lanes: dict[PlannedTensor, int] = {}
    for tensor in plan.tensors:
        if tensor.storage is None:
            lanes[tensor] = top
            top += tensor.nbytes
        else:
            lanes[tensor] = bases[tensor.storage] + tensor.offset
    return lanes, top


def _box(tensor: PlannedTensor, x: float, y: float, width: float, height: float) -> str:
    """Draw one tensor as a box; its colour is a hash of its name."""
    hue = zlib.crc32(tensor.name.encode()) % 360 / 360
    red, green, blue = (round(255 * channel) for channel in colorsys.hls_to_rgb(hue, 0.8, 0.55))
    dashed = ' stroke-dasharray="3 2"' if tensor.storage is None else ""
    shape = " x ".join(map(str, tensor.shape)) or "scalar"
    storage = f"{tensor.storage} + {tensor.offset}" if tensor.storage else "memory of its own"
    words = f"{tensor.name}: {shape} {tensor.dtype}, {tensor.nbytes} bytes, {storage}"
    label = ""
    if width >= LABELLED[0] and height >= LABELLED[1]:
        shown = escape(tensor.name[: int(width / 7)])
        label = f'<text x="{x + 3:.1f}" y="{y + min(height - 2, 11):.1f}">{shown}</text>'
    return (
        f'<g><title>{escape(words)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="rgb({red},{green},{blue})" stroke="#67727e" stroke-width="0.5"{dashed}/>{label}</g>'
    )
