"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "FUNCTIONS": ".support_code",
    "INNER_CALL": ".values",
    "Passed": ".values",
    "TABLE_MARK": ".support_code",
    "cell_function": ".support_code",
    "cells_text": ".support_code",
    "library_text": ".library",
}
