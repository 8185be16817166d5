"""The prelude, written in Relay, and how it gets into a module."""

from __future__ import annotations

import pytest

from relax import relay
from relax.ir import DiagnosticError, IRModule, load_json, save_json


def test_the_prelude_has_lists_options_trees_and_their_functions():
    mod = relay.Prelude().mod
    assert [key.name_hint for key in mod.get_global_type_vars()] == ["List", "Option", "Tree"]
    _, cons, nil = mod.get_type("List")
    assert (cons.name_hint, len(cons.inputs), nil.name_hint, len(nil.inputs)) == ("Cons", 2, "Nil", 0)
    for name in ("map", "foldl", "foldr", "filter", "zip", "iterate", "compose", "unfoldr", "tmap"):
        assert mod[name].ret_type is not None


def test_import_in_text():
    mod = relay.parse('import "prelude.rly" def @main(%xs: List[int32]) -> int32 { @sum(%xs) }')
    assert mod["main"].body.op is mod.get_global_var("sum")


def test_import_into_a_module_keeps_what_it_has():
    mod = relay.parse("def @map() { 1 } type Option[A] { Only(A) }")
    own, option = mod["map"], mod.get_type("Option")
    assert relay.import_from_std(mod) is mod
    assert mod["map"] is own
    assert mod.get_type("Option") == option
    assert "foldl" in mod
    assert relay.Prelude().mod is not relay.Prelude(IRModule()).mod


def test_another_module_is_not_there():
    with pytest.raises(KeyError):
        relay.import_from_std(IRModule(), "gradient.rly")
    with pytest.raises(DiagnosticError, match="E9003.*there is no module 'gradient.rly' to import"):
        relay.parse('import "gradient.rly"')


def test_modules_of_relay_are_saved_as_json():
    mod = relay.Prelude().mod
    relay.assert_alpha_equal(load_json(save_json(mod)), mod)
