"""FoldConstant: values of what depends on constants only."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import check, module, run

from relax import relay
from relax.relay.transform import FoldConstant


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("fn(%x: float32) { %x * (2f + 3f) }", "fn(%x: float32) { %x * 5f }"),
        ("fn(%x: float32) { let %a = 2f; let %b = %a + %a; %x * %b }", "fn(%x: float32) { %x * 4f }"),
        ("fn(%x: float32) { (%x, 1f + 1f).1 * %x }", "fn(%x: float32) { 2f * %x }"),
        ("fn(%x: float32) { if (1 < 2) { %x } else { exp(%x) } }", "fn(%x: float32) { %x }"),
        ("fn(%x: float32) { fn(%p: float32, Primitive=1) { exp(%p - %p) }(4f) + %x }", "fn(%x: float32) { 1f + %x }"),
        ("fn(%x: float32) { max(concatenate((ones(shape=[2]), zeros(shape=[1])))) + %x }", "fn(%x: float32) { 1f + %x }"),
    ],
)  # fmt: skip
def test_values(before, expected):
    check(FoldConstant(), before, expected, 1.5)


def test_a_known_shape_is_a_constant():
    text = "fn(%x: Tensor[(2, 3), float32]) { shape_of(%x) }"
    result = run(FoldConstant(), module(text))
    assert isinstance(result["main"].body, relay.Constant)
    assert result["main"].body.data.tolist() == [2, 3]
    unknown = module(text.replace("(2, 3)", "(2, ?)"))
    assert run(FoldConstant(), unknown) is unknown


def test_a_value_much_larger_than_its_operands_stays():
    check(FoldConstant(), "fn(%x: float32) { zeros(shape=[300, 300]) * %x }", None, 1.5)


def test_effects_stay():
    check(
        FoldConstant(),
        "fn(%x: int32) { let %r = ref(1 + 2); let %u = ref_write(%r, if (True) { ref_read(%r) } else { 3 }); ref_read(%r) }",
        "fn(%x: int32) { let %r = ref(3); let %v = ref_read(%r); let %u = ref_write(%r, %v); ref_read(%r) }",
        1,
    )


def test_the_effects_of_the_branch_that_is_left_are_bound_before_its_value():
    check(
        FoldConstant(),
        "fn(%x: int32) { let %c = if (True) { let %r = ref(%x); True } else { False }; if (%c) { %x } else { 0 } }",
        "fn(%x: int32) { let %r = ref(%x); %x }",
        3,
    )


def test_an_operator_that_fails_stays():
    text = 'fn(%x: int32) { take(Constant(1, (2), int32), 7, axis=0, mode="none") }'
    mod = relay.IRModule.from_expr(relay.parse_expr(text))
    assert relay.transform.fold_constant(mod["main"]) is mod["main"]


@pytest.mark.parametrize("fold", [FoldConstant(), relay.transform.PartialEvaluate()], ids=lambda fold: fold.info.name)
@pytest.mark.parametrize("name", ["scatter_nd", "scatter_elements", "gather_nd"])
def test_an_index_out_of_range_is_left_to_the_program(name, fold):
    data, update = relay.const(np.float32([1, 2])), relay.const(np.float32([7]))
    one, deep = relay.const(np.array([5])), relay.const(np.array([[5]]))
    calls = {
        "scatter_nd": lambda: relay.scatter_nd(data, deep, update, "update"),
        "scatter_elements": lambda: relay.scatter_elements(data, one, update, 0, "update"),
        "gather_nd": lambda: relay.gather_nd(data, deep),
    }
    folded = run(fold, relay.IRModule.from_expr(relay.Function([], calls[name]())))
    assert relay.analysis.call_count(folded["main"]) == 1
    with pytest.raises(IndexError, match=f"main: {name}: .*index .*is out of .* 2"):
        relay.create_executor("vm", folded).evaluate()()


def test_only_what_is_constant_in_a_large_graph():
    x = relay.var("x", shape=(4,))
    expr: relay.Expr = x
    for i in range(40):
        expr = relay.add(expr, relay.multiply(relay.const(np.full(4, i, "float32")), relay.const(2.0)))
    folded = run(FoldConstant(), relay.IRModule.from_expr(relay.Function([x], expr)))
    assert relay.analysis.call_count(folded["main"]) == 40
