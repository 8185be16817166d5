"""Visitors and mutators: every node once, unchanged nodes stay, no recursion along graphs and chains."""

from __future__ import annotations

import pytest
from relay_programs import chain_of_lets, tower_of_calls

from relax import relay
from relax.ir import Op
from relax.relay.functor import post_order_visit
from relax.relay.parts import parts_of, with_parts

DEPTH = 12_000
"""More than the frames that Python's stack takes."""


class Counter(relay.ExprVisitor):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.lets = 0

    def visit_call(self, call):
        self.calls += 1
        super().visit_call(call)


class LetCounter(relay.ExprVisitor):
    lets = 0

    def visit_var(self, var):
        self.lets += 1


class Renamer(relay.ExprMutator):
    def visit_var(self, var):
        return relay.Var(var.name_hint + "_new", var.type_annotation)


class Replacer(relay.MixedModeMutator):
    def rewrite_call(self, pre, post):
        return relay.Call(Op.get("multiply"), post.args) if post.op is Op.get("add") else post


def test_a_visitor_visits_each_node_once():
    counter = Counter()
    counter.visit(tower_of_calls(60))
    assert counter.calls == 60


def test_a_visitor_does_not_recurse_along_kinds_without_a_method():
    counter = LetCounter()
    counter.visit(chain_of_lets(DEPTH))
    assert counter.lets == DEPTH
    LetCounter().visit(tower_of_calls(DEPTH))


def test_a_visitor_sees_the_types_that_are_written():
    seen = []

    class Types(relay.ExprVisitor):
        def visit_type(self, type_):
            seen.append(str(type_))

    Types().visit(relay.parse_expr("fn(%x: int8) -> int16 { let %y: bool = %x; @f<int64>(%y) }"))
    assert seen == ["int16", "int8", "bool", "int64"]


def test_a_mutator_returns_what_it_does_not_change():
    for text in ("fn(%x) { let %y = (%x, 1).0; if (True) { %y } else { ref_read(ref(%y)) } }", "@f(1)"):
        expr = relay.parse_expr(text)
        assert relay.ExprMutator().visit(expr) is expr
        assert relay.MixedModeMutator().visit(expr) is expr


def test_a_mutator_changes_binders_and_uses_alike():
    before = relay.parse_expr("fn(%x) { match (%x) { (%a, _) => let_(%a), %b => %b } }".replace("let_", "@f"))
    after = Renamer().visit(before)
    assert str(after) == (
        "fn (%x_new) {\n  match (%x_new) {\n    (%a_new, _) => @f(%a_new),\n    %b_new => %b_new,\n  }\n}"
    )
    assert relay.alpha_equal(before, after)


def test_a_place_that_binds_a_variable_holds_a_variable():
    let = relay.parse_expr("let %x = 1; %x")
    with pytest.raises(TypeError, match="a place that binds a variable cannot hold a Constant"):
        with_parts(let, (relay.const(1), let.value, let.body))


def test_a_mixed_mode_mutator_does_not_recurse_and_keeps_sharing():
    changed = Replacer().visit(tower_of_calls(DEPTH))
    assert changed.op is Op.get("multiply")
    assert changed.args[0] is changed.args[1]
    assert Replacer().visit(chain_of_lets(DEPTH)).body.value.op is Op.get("multiply")


def test_a_functor_has_a_method_for_every_kind_it_meets():
    class Value(relay.ExprFunctor):
        def visit_constant(self, constant):
            return int(constant.data)

        def visit_tuple(self, tuple_):
            return [self.visit(field) for field in tuple_.fields]

    assert Value().visit(relay.parse_expr("(1, (2, 3))")) == [1, [2, 3]]
    with pytest.raises(NotImplementedError, match="Value has no method visit_let"):
        Value().visit(relay.parse_expr("let %x = 1; %x"))


def test_post_order_visits_parts_before_the_node():
    order = []
    post_order_visit(relay.parse_expr("%1 = 1 + 2; (%1, %1)"), order.append)
    assert [type(node).__name__ for node in order] == ["Op", "Constant", "Constant", "Call", "Tuple"]


def test_parts_of_every_kind_rebuild_the_node():
    text = "let %m = match (%p) { (%a, _) => %a }; if (%m) { ref_write(ref(%m), ref_read(%q)) } else { (fn(%x) { %x }, 1).0 }"
    nodes = []
    post_order_visit(relay.parse_expr("free_var %p; free_var %q; " + text), nodes.append)
    for node in nodes:
        assert with_parts(node, parts_of(node)) is node
        if parts_of(node):
            copies = [relay.Var("v") if isinstance(part, relay.Var) else part for part in parts_of(node)]
            assert parts_of(with_parts(node, copies)) == tuple(copies)


def test_type_visitors_and_mutators():
    class Names(relay.TypeVisitor):
        def __init__(self):
            self.names = []

        def visit_tensor_type(self, type_):
            self.names.append(type_.dtype)

    class Widen(relay.TypeMutator):
        def visit_tensor_type(self, type_):
            return type_.replace(dtype="int64") if type_.dtype == "int32" else type_

    pair = relay.parse_type("(int32, fn(bool) -> int8)")
    names = Names()
    names.visit(pair)
    assert names.names == ["int32", "bool", "int8"]
    assert str(Widen().visit(pair)) == "(int64, fn(bool) -> int8)"
    unchanged = relay.parse_type("ref((bool, int8))")
    assert Widen().visit(unchanged) is unchanged
