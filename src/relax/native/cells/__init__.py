"""Support code of compiled Relax functions: cells, which hold values, and the objects of tvm-ffi in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .library import library_text
    from .support_code import FUNCTIONS, TABLE_MARK, cell_function, cells_text
    from .values import INNER_CALL, Passed

__all__ = [
    "FUNCTIONS", "INNER_CALL", "TABLE_MARK", "Passed", "cell_function", "cells_text", "library_text",
]  # fmt: skip

load_when_used(__name__, HOMES)
