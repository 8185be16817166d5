"""EtaExpand: functions around constructors and global functions that are values."""

from __future__ import annotations

from pass_checks import check

from relax.relay.transform import EtaExpand

CELL = "type Box[A] { Box(A, int32), Empty }\ndef @call[A](%f: fn(A, int32) -> Box[A], %x: A) -> Box[A] { %f(%x, 1) }\n"
TWICE = "def @twice(%x: int32) -> int32 { %x * 2 }\n"


def test_constructors():
    main = "def @main(%x: bool) -> (Box[bool], Box[bool], Box[bool]) {{ (@call({0}, %x), Box(%x, 2), Empty) }}"
    check(
        EtaExpand(expand_constructor=True),
        CELL + main.format("Box"),
        CELL + main.format("fn[A](%a: A, %b: int32) -> Box[A] { Box(%a, %b) }"),
        True,
    )


def test_global_functions():
    main = "def @main(%x: int32) -> int32 {{ let %f = {0}; %f(@twice(%x)) }}"
    check(
        EtaExpand(expand_global_var=True),
        TWICE + main.format("@twice"),
        TWICE + main.format("fn(%a: int32) -> int32 { @twice(%a) }"),
        3,
    )


def test_nothing_is_asked_for():
    check(EtaExpand(), TWICE + "def @main(%x: int32) -> int32 { let %f = @twice; %f(%x) }", None, 3)
