"""EliminateCommonSubexpr: equal calls become one."""

from __future__ import annotations

import numpy as np
from pass_checks import check

from relax.relay.transform import EliminateCommonSubexpr


def test_equal_calls_become_one_node():
    check(
        EliminateCommonSubexpr(),
        "fn(%x: int32) { (%x + 1) * 2 - (%x + 1) * 2 }",
        "fn(%x: int32) { %1 = (%x + 1) * 2; %1 - %1 }",
        3,
    )


def test_attributes_and_projections_are_compared():
    check(
        EliminateCommonSubexpr(),
        "fn(%x: Tensor[(4, 4), float32]) { (sum(%x, axis=[0]), sum(%x, axis=[1]), split(%x, indices_or_sections=2).0, "
        "split(%x, indices_or_sections=2).0) }",
        "fn(%x: Tensor[(4, 4), float32]) { %1 = split(%x, indices_or_sections=2).0; "
        "(sum(%x, axis=[0]), sum(%x, axis=[1]), %1, %1) }",
        np.ones((4, 4), "float32"),
    )


def test_calls_of_two_branches_stay_apart_and_one_above_serves_both():
    check(EliminateCommonSubexpr(), "fn(%x: int32) { if (%x == 0) { 10 / %x } else { 10 / %x } }", None, 3)
    check(
        EliminateCommonSubexpr(),
        "fn(%x: int32) { let %y = %x * 2; if (%y == 0) { %x * 2 } else { %x * 2 + 1 } }",
        "fn(%x: int32) { %1 = %x * 2; let %y = %1; if (%y == 0) { %1 } else { %1 + 1 } }",
        3,
    )


def test_some_calls_are_skipped_on_request():
    skip = lambda call: getattr(call.op, "name", "") == "add"  # noqa: E731
    check(EliminateCommonSubexpr(fskip=skip), "fn(%x: int32) { (%x + 1, %x + 1) }", None, 3)


def test_reads_are_no_common_expressions():
    check(
        EliminateCommonSubexpr(),
        """fn(%x: int32) {
  let %r = ref(%x);
  let %a = ref_read(%r);
  let %u = ref_write(%r, 2);
  let %b = ref_read(%r);
  (%a + 1, %b + 1)
}""",
        None,
        3,
    )
