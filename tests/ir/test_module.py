"""IRModule, GlobalVar, Op."""

from __future__ import annotations

import pickle

import pytest

from relax.ir import (
    BaseFunc,
    GlobalVar,
    IRModule,
    Op,
    VDevice,
    child,
    load_json,
    node,
    register_op,
    save_json,
    structural_equal,
)


def _attrs(value):
    return dict(value or {})


@node
class Func(BaseFunc):
    """A function of some language level."""

    number: int
    attrs: dict = child(default=None, converter=_attrs)


one, two = Func(1), Func(2)
mod = IRModule({"f": one, "g": two})


def test_lookup():
    assert mod["f"] is one
    assert mod[mod.get_global_var("g")] is two
    assert mod[GlobalVar("g")] is two  # by name
    assert mod.get("f") is one
    assert mod.get("h") is None
    assert "f" in mod
    assert GlobalVar("f") in mod
    assert "h" not in mod
    assert [g.name_hint for g in mod] == ["f", "g"]
    assert [g.name_hint for g in mod.get_global_vars()] == ["f", "g"]
    assert [f for _, f in mod.items()] == [one, two]
    with pytest.raises(KeyError, match="the module has no function 'h' .it has: 'f', 'g'"):
        mod["h"]
    with pytest.raises(KeyError, match="it has: none"):
        IRModule()["h"]


def test_two_functions_of_one_name():
    with pytest.raises(ValueError, match="IRModule: two functions are named 'f'"):
        IRModule({GlobalVar("f"): one, GlobalVar("f"): two})


def test_updates_make_new_modules():
    three = Func(3)
    assert mod.with_function("g", three)["g"] is three
    assert list(mod.with_function("g", three).functions) == list(mod.functions)  # in its place, by its GlobalVar
    assert mod.with_function("h", three).get_global_vars()[-1].name_hint == "h"
    assert mod.without(["f"]).get_global_vars()[0].name_hint == "g"
    assert mod.with_attr("k", 1).attrs == {"k": 1}
    assert mod["g"] is two  # the old one is as it was


def test_an_update_that_changes_nothing_is_the_module():
    assert mod.with_functions(mod.functions) is mod
    assert mod.with_function("f", one) is mod
    assert mod.without(["h"]) is mod


def test_from_expr():
    assert IRModule.from_expr(one)["main"] is one
    assert IRModule.from_expr(one.with_attr("global_symbol", "f"))["f"].number == 1


def test_function_attributes():
    func = one.with_attr("a", 1).with_attr({"b": 2, "c": 3})
    assert func.attrs == {"a": 1, "b": 2, "c": 3}
    assert func.without_attr("b").attrs == {"a": 1, "c": 3}
    assert one.attrs == {}


def test_modules_are_compared_by_name_not_by_order():
    assert structural_equal(IRModule({"f": one, "g": two}), IRModule({"g": two, "f": one}))
    assert not structural_equal(mod, IRModule({"f": one, "h": two}))
    assert structural_equal(mod, IRModule({"f": Func(1), "g": Func(2)}))


def test_saving():
    full = IRModule({"f": one}, {"k": (1, 2.5)}, {"vdevice": [VDevice("llvm", 0, "global")]})
    assert structural_equal(load_json(save_json(full)), full)
    assert structural_equal(pickle.loads(pickle.dumps(full)), full)


def test_ops():
    op = register_op("test.relu", effect="pure")
    assert Op.get("test.relu") is op
    assert register_op("test.relu", more=1) is op
    assert (op.get_attr("effect"), op.get_attr("more"), op.get_attr("none")) == ("pure", 1, None)
    assert op.has_attr("more")
    op.set_attr("more", 2)
    assert op.get_attr("more") == 2
    assert "test.relu" in Op.list_op_names()
    with pytest.raises(KeyError, match="operator 'other.relu' is not registered .similar: .*test.relu"):
        Op.get("other.relu")
    with pytest.raises(KeyError, match="similar: none is close"):
        Op.get("qqqqqqqq.zzzzzzzz")
