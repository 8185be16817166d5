"""SimplifyExpr: the rules, and what they decline."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import check

from relax.relay.transform import SimplifyExpr

X = np.arange(24, dtype="float32").reshape(2, 3, 4) - 5
TYPE = "%x: Tensor[(2, 3, 4), float32]"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("reshape(reshape(%x, newshape=[6, 4]), newshape=[3, -1])", "reshape(%x, newshape=[3, 8])"),
        ("reshape(reshape(%x, newshape=[6, 4]), newshape=[2, 3, 4])", "%x"),
        ("transpose(transpose(%x, axes=[1, 2, 0]), axes=[2, 0, 1])", "%x"),
        ("transpose(transpose(%x, axes=[1, 2, 0]))", "transpose(%x, axes=[0, 2, 1])"),
        ('layout_transform(transpose(%x, axes=[0, 2, 1]), src_layout="NCW", dst_layout="NWC")', "%x"),
        ('cast(%x, dtype="float32")', "%x"),
        ('cast(cast(%x, dtype="float64"), dtype="int32")', 'cast(%x, dtype="int32")'),
        ("%x * 1f", "%x"),
        ("Constant(1, (3, 1), float32) * %x", "%x"),
        ("%x / 1f - 0f", "%x"),
        ("1f / sqrt(%x * %x)", "rsqrt(%x * %x)"),
        ("power(%x, 2f)", "%x * %x"),
        ("broadcast_to(%x, shape=[2, 3, 4])", "%x"),
        ("zeros_like(%x)", 'zeros(shape=[2, 3, 4], dtype="float32")'),
        ("reshape_like(%x, ones(shape=[8, 3]))", "reshape(%x, newshape=[8, 3])"),
        ("cast_like(%x, 1i64)", 'cast(%x, dtype="int64")'),
    ],
)
def test_rules(before, expected):
    check(SimplifyExpr(), f"fn({TYPE}) {{ {before} }}", f"fn({TYPE}) {{ {expected} }}", X, rtol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "%x + 0f",  # -0 + 0 is 0
        "%x * Constant(1, (5, 1, 1, 1), float32)",  # of another shape
        'cast(cast(%x, dtype="int32"), dtype="float32")',
        'cast(cast(%x, dtype="float16"), dtype="float32")',
        "0f - %x",
        "1f / %x",
        "Constant(0, (2, 3, 4), float32) + %x",
    ],
)
def test_what_is_declined(text):
    check(SimplifyExpr(), f"fn({TYPE}) {{ {text} }}", None, X)


def test_zero_is_added_to_integers_in_vain():
    check(SimplifyExpr(), "fn(%x: int32) { 0 + %x }", "fn(%x: int32) { %x }", 3)


def test_unknown_dimensions():
    declined = "fn(%x: Tensor[(?, 4), float32]) { reshape(reshape(%x, newshape=[-1, 2]), newshape=[-1, 4]) }"
    check(SimplifyExpr(), declined, None, np.ones((3, 4), "float32"))
    check(
        SimplifyExpr(),
        "fn(%x: Tensor[(?, 4), float32]) { transpose(transpose(%x)) }",
        "fn(%x: Tensor[(?, 4), float32]) { %x }",
        np.ones((3, 4), "float32"),
    )


def test_effects_keep_their_order():
    check(
        SimplifyExpr(),
        "fn(%x: int32) { let %r = ref(%x); let %u = ref_write(%r, ref_read(%r) * 1); ref_read(%r) * 1 }",
        "fn(%x: int32) { let %r = ref(%x); let %a = ref_read(%r); let %u = ref_write(%r, %a); let %b = ref_read(%r); %b }",
        3,
    )
