"""CanonicalizeCast: a cast to a wider dtype for each user."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import check

from relax.relay.transform import CanonicalizeCast


def test_each_user_has_its_own():
    check(
        CanonicalizeCast(),
        'fn(%x: int8) { %1 = cast(%x, dtype="int32"); (%1 + 1, %1 * %1) }',
        'fn(%x: int8) { %1 = cast(%x, dtype="int32"); %2 = cast(%x, dtype="int32"); (%1 + 1, %2 * %2) }',
        np.int8(3),
    )


@pytest.mark.parametrize(
    "text",
    [
        'fn(%x: int32) { %1 = cast(%x, dtype="int8"); (%1 + 1i8, %1 * 2i8) }',
        'fn(%x: int8) { %1 = cast(%x, dtype="int32"); (%1 + 1, %1) }',
        'fn(%x: int8) { let %1a = cast(%x, dtype="int32"); (%1a + 1, %1a - 2) }',
    ],
)
def test_narrowing_casts_results_and_named_values_stay(text):
    check(CanonicalizeCast(), text.replace("%1a", "%a"), None, np.array(3, text[7:12].strip(") {")))
