"""The attribute ``relax.schedule``: a function names its rule and the rule's parameters."""

from __future__ import annotations

import json

import pytest

from relax import te, tir
from relax.codegen import resolve
from relax.ir import DiagnosticError
from relax.optimize.pack_constants import packed_variant
from relax.schedules import schedule
from relax.schedules.cpu import RULES, Product

TARGET = resolve("llvm")


def product():
    a, b = te.placeholder((50, 40), "float32", "A"), te.placeholder((40, 70), "float32", "B")
    k = te.reduce_axis((0, 40), "k")
    return te.create_prim_func([a, b, te.compute((50, 70), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")])


def asked(choice):
    """The product, scheduled as the attribute says."""
    return schedule(product().with_attr("relax.schedule", choice), TARGET, RULES)


def test_a_rule_at_parameters_of_its_space():
    choice = {"rule": "Product", "parameters": {"tile": (4, 2), "strassen": False}}
    rule = Product().at(Product().space(TARGET).point(choice["parameters"]))
    written = schedule(product(), TARGET, [rule])
    assert str(asked(choice).body) == str(written.body)
    assert str(asked(choice).body) != str(schedule(product(), TARGET, RULES).body)
    assert asked(choice).attrs["relax.schedule"] == choice


def test_a_rule_that_refuses_leaves_the_choice_to_the_others():
    assert str(asked({"rule": "Pooling"}).body) == str(schedule(product(), TARGET, RULES).body)


def test_a_trace_is_replayed():
    sch = tir.Schedule(product(), seed=1)
    i, _, _ = sch.get_loops(sch.get_block("C"))
    tile = sch.sample_categorical([5, 10], [0.5, 0.5], decision=1)
    sch.parallel(sch.split(i, [None, tile])[0])
    text = json.dumps(sch.trace.as_json())
    scheduled = asked({"rule": "Traced", "parameters": {"trace": text}})
    assert "for i_0 in T.parallel(T.int64(5)):" in str(scheduled)


def test_a_trace_that_may_change_results_is_not_replayed():
    sch = tir.Schedule(product(), seed=1)
    sch.cache_write(sch.get_block("C"), 0, "global")
    sch.unsafe_set_dtype(sch.get_block("C"), 0, "float16")
    text = json.dumps(sch.trace.as_json())
    assert "UnsafeSetDType" in text
    scheduled = asked({"rule": "Traced", "parameters": {"trace": text}})
    assert str(scheduled.body) == str(schedule(product(), TARGET, RULES).body)


@pytest.mark.parametrize("trace", ["{", "[" * 100_000, "[[], 1]", '[[["Split", {}, []]], []]'])
def test_a_trace_that_is_none_leaves_the_choice_to_the_rules(trace):
    choice = {"rule": "Traced", "parameters": {"trace": trace}}
    assert str(asked(choice).body) == str(schedule(product(), TARGET, RULES).body)


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ("Product", "expected a dict with a rule and parameters, found str"),
        ({"parameters": {}}, "expected a dict with `rule`, a text, and `parameters`, a dict"),
        ({"rule": "Product", "tile": [4, 2]}, "expected a dict with `rule`, a text, and `parameters`, a dict"),
        ({"rule": "Produkt"}, "there is no rule 'Produkt' (there is: StreamedAttention, "),
        ({"rule": "Product", "parameters": {"tiles": 4}}, "there is no parameter 'tiles' (there is: tile, depth, "),
        ({"rule": "Product", "parameters": {"tile": [4, 99], "strassen": False}}, "tile cannot be "),
        ({"rule": "Product", "parameters": {"tile": [4, 2]}}, "exclude each other"),
        ({"rule": "Nests", "parameters": {"tile": 4}}, "there is no parameter 'tile' (there is: none)"),
        ({"rule": "Traced"}, "Traced has one parameter, `trace`: JSON text"),
    ],
)
def test_a_wrong_attribute(choice, reason):
    with pytest.raises(DiagnosticError, match="E4110") as caught:
        asked(choice)
    assert reason in str(caught.value)
    assert 'write it as {"rule": "Product"' in str(caught.value)


def test_values_of_a_point():
    space = Product().space(TARGET)
    point = space.point({"tile": [4, 2], "strassen": False})
    assert (point.tile, point.strassen, point.depth) == ((4, 2), False, None)
    assert space.values_of(point) == {"tile": [4, 2], "strassen": False}
    assert space.values_of(space.default) == {}
    assert [*space.fields] == ["tile", "depth", "chunk", "group", "strassen"]
    with pytest.raises(ValueError, match="strassen cannot be 0"):
        space.point({"strassen": 0})
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="depth is nested too deeply"):
        space.point({"depth": endless})


def test_a_named_rule_that_packs_no_constants_keeps_other_rules_from_it():
    """Product would pack the right operand."""
    sch = tir.Schedule(product(), seed=1)
    sch.vectorize(sch.get_loops(sch.get_block("C"))[1])
    traced = {"rule": "Traced", "parameters": {"trace": json.dumps(sch.trace.as_json())}}
    refused = {"rule": "Pooling", "parameters": {}}
    assert packed_variant(product(), TARGET, RULES, (1,)) is not None
    assert packed_variant(product().with_attr("relax.schedule", traced), TARGET, RULES, (1,)) is None
    assert packed_variant(product().with_attr("relax.schedule", refused), TARGET, RULES, (1,)) is not None
