"""Types that share parts and types that are deep: every walk takes time by the number of objects."""

import pytest

from relax import relay
from relax.relay.type_walk import WrittenSizes, rewritten, type_text
from relax.relay.types import RefType, TupleType, Type


def doubled(levels: int) -> relay.Function:
    """A function whose result is a pair of pairs of …: 2**levels leaves, `levels` objects."""
    x = relay.var("x", relay.scalar_type("int32"))
    value: relay.Expr = x
    for _ in range(levels):
        value = relay.Tuple([value, value])
    return relay.Function([x], value)


def test_inference_visits_a_shared_type_once():
    result = relay.infer_type(doubled(60)).checked_type.ret_type
    for _ in range(60):
        first, second = result.fields
        assert first is second
        result = first
    assert result == relay.scalar_type("int32")


def test_a_type_written_out_in_many_parts_stands_in_the_metadata():
    typed = relay.infer_type(doubled(40))
    assert str(typed.checked_type).startswith("meta[relay.FuncType][0]\n\n#[metadata]\n")
    again = relay.fromtext(typed.astext())
    assert relay.alpha_equal(relay.infer_type(again), typed)


def test_deep_types():
    x = relay.var("x", relay.scalar_type("int32"))
    value: relay.Expr = x
    for _ in range(3000):
        value = relay.Tuple([value])
    type_: Type = relay.infer_type(relay.Function([x], value)).checked_type.ret_type
    assert WrittenSizes().of(type_) == 3001
    assert type_text(type_) == "a type of 3,001 parts"


@pytest.mark.parametrize("levels", [1, 100])
def test_rewritten_keeps_sharing(levels: int):
    int32, float32 = relay.scalar_type("int32"), relay.scalar_type("float32")
    type_: Type = RefType(int32)
    for _ in range(levels):
        type_ = TupleType([type_, type_])
    changed = rewritten(type_, lambda part: float32 if part is int32 else part)
    assert rewritten(type_, lambda part: part) is type_
    for _ in range(levels):
        assert isinstance(changed, TupleType)
        assert changed.fields[0] is changed.fields[1]
        changed = changed.fields[0]
    assert isinstance(changed, RefType)
    assert changed.value is float32
