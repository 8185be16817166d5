"""Tagged values and references: builtins of the machine."""

from __future__ import annotations

import numpy as np
import pytest

from relax.runtime.references import Reference, new_reference, read_reference, write_reference
from relax.runtime.tagged import MatchError, has_tag, is_tagged, match_failed
from relax.runtime.values import export_value, import_value


def test_tags():
    value = ("Cons", 1, ("Nil",))
    assert has_tag(value, "Cons")
    assert not has_tag(value, "Nil")
    assert is_tagged(value[2])
    assert not any(map(is_tagged, [(), (1, "Nil"), "Nil"]))
    with pytest.raises(TypeError, match="expected a value of a data type, found a tuple of 1"):
        has_tag((1,), "Nil")


@pytest.mark.parametrize(
    ("value", "text"), [(("Nil",), "Nil"), (("Cons", 1, ("Nil",)), r"Cons\(…\)"), ((1, 2), "a tuple of 2")]
)
def test_a_match_that_fails(value, text):
    with pytest.raises(MatchError, match=f"no clause of the match takes {text}") as caught:
        match_failed(value)
    assert caught.value.value is value


def test_references():
    reference = new_reference(1)
    assert isinstance(reference, Reference)
    assert write_reference(reference, (2, 3)) == ()
    assert read_reference(reference) == (2, 3)
    with pytest.raises(TypeError, match="expected a reference, found the int 1"):
        read_reference(1)


def test_tuples_of_great_depth_pass_the_border():
    value: object = ()
    for i in range(12_000):
        value = (np.float32(i), value) if i % 2 else [i, value]
    inside = import_value(value)
    outside = export_value(inside)
    assert (inside[0], outside[0]) == (11_999.0, 11_999.0)
    depth = 0
    while outside:
        outside, depth = outside[1], depth + 1
    assert depth == 12_000
