"""ToMixedPrecision: products in float16, and what follows them."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_values, check, module, run

from relax import relay
from relax.relay.transform import MixedTypeConversionCategory, ToMixedPrecision, register_mixed_precision_conversion
from relax.relay.transform.to_mixed_precision import CONVERSION

RNG = np.random.default_rng(0)
PARAMS = "%x: Tensor[(2, 4), float32], %w: Tensor[(4, 4), float32]"
ARGS = [RNG.random((2, 4), "float32"), RNG.random((4, 4), "float32")]


def test_a_product_and_what_follows():
    check(
        ToMixedPrecision(),
        f"fn({PARAMS}) {{ exp(nn.relu(nn.dense(%x, %w) + 1f)) }}",
        f"""fn({PARAMS}) {{
  %1 = nn.dense(cast(%x, dtype="float16"), cast(%w, dtype="float16"), out_dtype="float16");
  %2 = nn.relu(%1 + cast(1f, dtype="float16"));
  exp(cast(%2, dtype="float32"))
}}""",
        *ARGS,
        rtol=2e-2,
        settles=False,
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "text",
    [
        "nn.dense(%x, %w)",
        "let %a = nn.dense(%x, %w); let %b = nn.relu(%a); (%b, %a, sum(%a))",
        "split(nn.dense(%x, %w), indices_or_sections=2, axis=1).1",
        "let %t = split(nn.dense(%x, %w), indices_or_sections=2, axis=1); (%t, %t.0)",
        "concatenate((nn.dense(%x, %w), %x))",
        "let %a = nn.dense(%x, %w); if (sum(%a) > 0f) { %a } else { %x }",
        "let %f = fn(%y: Tensor[(2, 4), float32]) { %y * %y }; %f(nn.dense(%x, %w))",
        "let %r = ref(nn.dense(%x, %w)); let %u = ref_write(%r, %x); ref_read(%r)",
        "where(%x > 0f, nn.dense(%x, %w), %x)",
        'cast(argmax(nn.dense(%x, %w), axis=1), dtype="float32")',
    ],
)
def test_the_type_stays_and_the_values_nearly(text, dtype):
    mod = module(f"fn({PARAMS}) {{ {text} }}")
    relay.transform.InferType()(mod)
    before = str(mod["main"].checked_type)
    result = run(ToMixedPrecision(dtype), mod)
    assert str(result["main"].checked_type) == before
    assert dtype in str(result["main"])
    assert_same_values(mod, result, ARGS, rtol=0.1)


def test_operators_of_no_category():
    mod = module("fn(%x: Tensor[(2), float32]) { exp(%x) }")
    assert run(ToMixedPrecision(), mod) is mod
    assert "float16" in str(run(ToMixedPrecision("float16", 2), mod)["main"])
    with pytest.raises(ValueError, match="ToMixedPrecision: exp has no category"):
        run(ToMixedPrecision("float16", 0), mod)
    with pytest.raises(ValueError, match="the type is float16 or bfloat16, found 'int8'"):
        run(ToMixedPrecision("int8"), mod)


def test_a_category_can_be_registered():
    mod = module("fn(%x: Tensor[(2), float32]) { sinh(%x) }")

    @register_mixed_precision_conversion("sinh")
    def convert(call, mixed):
        return [MixedTypeConversionCategory.MIXED_PRECISION_ALWAYS, mixed, mixed]

    try:
        assert "float16" in str(run(ToMixedPrecision(), mod)["main"])
    finally:
        relay.Op.get("sinh").set_attr(CONVERSION, None)
    assert run(ToMixedPrecision(), mod) is mod
