"""The node decorator: what the declared fields give."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
import types
from typing import Any

import pytest

from relax.ir import (
    GlobalVar,
    Node,
    Op,
    Source,
    Span,
    binder,
    child,
    children_of,
    fields_of,
    label,
    map_children,
    node,
    walk,
)


def _upper(text: str) -> str:
    return text.upper()


@node
class Leaf(Node):
    """A value with a display name."""

    value: int
    name: str = label(default="leaf")


@node
class Pair(Node):
    """Two nodes, and a table."""

    left: Node
    right: Node
    table: dict[str, Any] = child(default_factory=dict)
    tag: str = child(default="x", converter=_upper, kw_only=True)


@node
class Scope(Node):
    """A binder and a body."""

    var: Leaf = binder()
    body: tuple[Node, ...] = child(converter=tuple)


SPAN = Span(Source("f.py", "abc"), 1, 1, 1, 4)


def test_construction():
    pair = Pair(Leaf(1), Leaf(2), tag="y", span=SPAN)
    assert (pair.left.value, pair.tag, pair.table, pair.span) == (1, "Y", {}, SPAN)
    assert Leaf(3).span is None
    assert Leaf(value=3, name="n").name == "n"
    assert Pair(Leaf(1), Leaf(2)).table is not Pair(Leaf(1), Leaf(2)).table


def test_wrong_arguments_are_python_errors_naming_the_class():
    with pytest.raises(TypeError, match=r"Leaf.__init__\(\) missing 1 required positional argument: 'value'"):
        Leaf()
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        Leaf(1, colour=2)
    with pytest.raises(TypeError):
        Pair(Leaf(1), Leaf(2), {}, "y")  # tag is keyword-only


def test_nodes_are_frozen_slotted_and_identities():
    leaf = Leaf(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="Leaf.value: nodes are immutable"):
        leaf.value = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del leaf.value
    with pytest.raises(dataclasses.FrozenInstanceError):
        leaf.colour = 2
    assert not hasattr(leaf, "__dict__")
    assert leaf != Leaf(1)
    assert leaf.same_as(leaf)
    assert len({leaf, leaf, Leaf(1)}) == 2


def test_matching():
    match Pair(Leaf(1), Leaf(2)):
        case Pair(Leaf(1, "leaf"), Leaf(value)):
            assert value == 2
        case _:
            raise AssertionError


def test_fields_and_children():
    a, b, c = Leaf(1), Leaf(2), Leaf(3)
    pair = Pair(a, b, {"k": (c, 4)})
    assert [name for name, _ in fields_of(pair)] == ["left", "right", "table", "tag"]
    assert list(children_of(pair)) == [a, b, c]
    assert list(children_of(Scope(a, [b]))) == [a, b]


@node
class Mixed(Node):
    """Fields of many annotations."""

    count: int
    names: tuple[str, ...] | None
    lone: Node | None
    several: tuple[Node, ...]
    either: int | Node
    anything: Any = None


def test_fields_that_cannot_hold_nodes_are_not_searched():
    a, b, c = Leaf(1), Leaf(2), Leaf(3)
    mixed = Mixed(4, ("x",), a, (b,), c, {"k": a})
    assert Mixed.__part_names__ == ("lone", "several", "either", "anything")
    assert list(children_of(mixed)) == [a, b, c, a]
    assert list(children_of(Mixed(4, None, None, (), 5))) == []
    changed = map_children(mixed, lambda part: Leaf(9) if part is c else part)
    assert (changed.either.value, changed.count, changed.names, changed.lone) == (9, 4, ("x",), a)


def test_replace_shares_and_keeps_the_span():
    pair = Pair(Leaf(1), Leaf(2), span=SPAN)
    assert pair.replace(left=pair.left) is pair
    changed = pair.replace(left=Leaf(9))
    assert changed.right is pair.right
    assert changed.span is SPAN
    assert pair.replace(span=None).span is None
    with pytest.raises(AttributeError, match="colour"):
        pair.replace(colour=1)


def test_map_children():
    pair = Pair(Leaf(1), Leaf(2), {"k": (Leaf(3), 4)})
    assert map_children(pair, lambda part: part) is pair
    doubled = map_children(pair, lambda part: Leaf(part.value * 2))
    assert (doubled.left.value, doubled.right.value, doubled.table["k"][0].value) == (2, 4, 6)
    assert doubled.table["k"][1] == 4
    one = map_children(pair, lambda part: Leaf(0) if part is pair.left else part)
    assert one.table is pair.table


def test_walk_is_outermost_first_and_can_stop():
    a, b, c = Leaf(1), Leaf(2), Leaf(3)
    inner = Pair(a, b)
    outer = Pair(inner, c)
    seen: list[Node] = []
    walk(outer, seen.append)
    assert seen == [outer, inner, a, b, c]
    seen.clear()
    walk(outer, lambda part: seen.append(part) or part is not inner)
    assert seen == [outer, inner, c]
    seen.clear()
    walk(outer, seen.append, (Leaf,))
    assert seen == [a, b, c]
    seen.clear()
    walk(outer, lambda part: seen.append(part) or part is not inner, (Pair,))
    assert seen == [outer, inner]


def test_copy_and_pickle():
    a = Leaf(1)
    pair = Pair(a, a, span=SPAN)
    for other in (copy.copy(pair), copy.deepcopy(pair), pickle.loads(pickle.dumps(pair))):
        assert other is not pair
        assert other.left is other.right  # sharing survives
        assert other.left.value == 1
        assert other.tag == "X"
        assert str(other.span) == "f.py:1:1"


def test_ops_and_pickle():
    op = Op.get("tir.exp") if Op.exists("tir.exp") else None
    if op is not None:
        assert pickle.loads(pickle.dumps(op)) is op


def test_a_node_without_a_printer_shows_its_fields():
    from relax.ir.printing import plain

    assert plain(Pair(Leaf(1), Leaf(2))) == (
        "Pair(left=Leaf(value=1, name='leaf'), right=Leaf(value=2, name='leaf'), table={}, tag='X')"
    )
    assert plain(Pair(Pair(Pair(Leaf(1), Leaf(1)), Leaf(1)), Leaf(2)), depth=2) == (
        "Pair(left=Pair(left=Pair(…), right=Leaf(…), table={}, tag='X'), right=Leaf(value=2, name='leaf'), table={}, tag='X')"
    )


def test_repr_never_fails():
    """A debugger calls repr on whatever it finds: half-made nodes, fields of the wrong kind."""
    assert "None" in repr(Pair(None, "not a node"))
    half_made = object.__new__(Leaf)
    assert "?" in repr(half_made)


def test_struct_info_of_an_expression_without_one():
    with pytest.raises(ValueError, match=r"struct info of this GlobalVar has not been derived yet.*Normalize"):
        _ = GlobalVar("f").struct_info
    assert GlobalVar("f").struct_info_ is None


def test_two_classes_of_one_name_in_a_room_are_refused(monkeypatch):
    """Saved programs name classes by room and name."""

    def define(module):
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))

        @node
        class Twin(Node):
            """A node."""

            value: int

            __module__ = module

    define("relax.testing.one")
    define("relax.testing.one")  # a module may be reloaded
    with pytest.raises(TypeError, match="two node classes are called testing.Twin"):
        define("relax.testing.two")
    define("elsewhere.one")
    define("elsewhere.two")


def test_a_program_of_lower_rooms_prints_as_script():
    program = "from relax import prim; print(repr(prim.Var('n', 'int64') + 1))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout == "n + 1\n"
