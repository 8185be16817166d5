"""ToBasicBlockNormalForm: a `let` for what blocks inside of others use."""

from __future__ import annotations

import pytest
from pass_checks import check
from relay_programs import EXPRESSIONS

from relax import relay
from relax.relay.transform import ToBasicBlockNormalForm, to_basic_block_normal_form


def test_a_value_of_both_branches_is_bound_and_one_of_a_single_branch_is_not():
    check(
        ToBasicBlockNormalForm(),
        "fn(%c: bool, %x: int32) { %1 = %x + 1; %2 = %1 * 3; if (%c) { %2 - %2 } else { %1 } }",
        "fn(%c: bool, %x: int32) { let %a = %x + 1; if (%c) { %2 = %a * 3; %2 - %2 } else { %a } }",
        True,
        4,
    )


def test_what_a_function_uses_is_bound():
    check(
        ToBasicBlockNormalForm(),
        "fn(%x: int32) { %1 = %x + 1; (%1, fn() { %1 * 2 }).0 }",
        "fn(%x: int32) { let %a = %x + 1; (%a, fn() { %a * 2 }).0 }",
        4,
    )


def test_the_body_of_a_let_is_no_block():
    check(ToBasicBlockNormalForm(), "fn(%x: int32) { %1 = %x + 1; let %y = %1 * 2; %y - %1 }", None, 4)


def test_a_let_that_blocks_use():
    check(
        ToBasicBlockNormalForm(),
        "fn(%c: bool, %x: int32) { %1 = { let %a = %x + 1; %a * 2 }; if (%c) { %1 } else { %1 + 1 } }",
        "fn(%c: bool, %x: int32) { let %a = %x + 1; let %b = %a * 2; if (%c) { %b } else { %b + 1 } }",
        True,
        4,
    )


def test_the_result_of_a_block_is_no_operand_of_its_effects():
    """The lets of %2 become those of the function, whose result they do not have to bind."""
    check(
        ToBasicBlockNormalForm(),
        "fn(%x: int32) { %1 = %x + 1; %2 = { let %r = ref(%1); ref_read(%r) }; let %y = (%2, 1).1; %1 }",
        "fn(%x: int32) { %1 = %x + 1; let %r = ref(%1); let %a = ref_read(%r); let %y = (%a, 1).1; %1 }",
        4,
    )


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_is_well_formed_and_settles(name):
    normal = to_basic_block_normal_form(relay.parse_expr(EXPRESSIONS[name]))
    assert relay.analysis.well_formed(normal)
    assert to_basic_block_normal_form(normal) is normal
